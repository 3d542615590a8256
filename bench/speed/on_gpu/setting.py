"""What every section is given: where to run, what to run on, where results go, and a guard against failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from bench.speed import shapes
from bench.speed.measuring import Case, Clock, Log, Timed
from bench.speed.passes import Given, batch_of

from whence.data import Batch


class Dead(Exception):
    """The device answers nothing any more: what is left must run in another process."""


class TimeIsUp(Exception):
    """The section has had its seconds."""


@dataclass
class Setting:
    """One run of the script."""

    clock: Clock
    log: Log
    tiny: bool = False  # sizes for a CPU, to see that everything runs
    quick: bool = False  # fewer repeats, for a first look
    _models: dict[Any, Any] = field(default_factory=dict)

    @property
    def half(self) -> torch.dtype:
        """The dtype in which speed is measured; on a CPU, where only the script itself is tried, the plain one."""
        return torch.bfloat16 if self.clock.cuda else torch.float32

    @property
    def halves(self) -> tuple[str, ...]:
        """The narrow dtypes that the device can compute in; some virtual CPUs break off in bfloat16."""
        return ("bfloat16", "float16") if self.clock.cuda else ("float16",)

    def about(self, model: str, inputs: int, tokens: int) -> dict[str, Any]:
        """Return what a row says of where it was measured."""
        dtype = str(self.half).removeprefix("torch.")
        return {"model": model, "dtype": dtype, "inputs": inputs, "tokens": tokens}

    def bert(self, dtype: torch.dtype | None = None, **shape: int) -> Any:
        """Return a model of BERT-base's shape on the device; the last one is kept."""
        small = {"layers": 2, "width": 32, "heads": 2} if self.tiny else {}
        return self._made("bert", dtype or self.half, {**small, **shape})

    def llama(self, dtype: torch.dtype | None = None, **shape: int) -> Any:
        """Return a model of the Llama shape on the device; the last one is kept."""
        small = {
            "layers": 2, "width": 64, "heads": 4, "key_heads": 2, "intermediate": 128, "longest": 512,
        }  # fmt: skip
        return self._made("llama", dtype or self.half, {**(small if self.tiny else {}), **shape})

    def _made(self, kind: str, dtype: torch.dtype, shape: dict[str, int]) -> Any:
        key = (kind, dtype, *sorted(shape.items()))
        if key not in self._models:
            self.forget()  # another model's weights would count in every peak
            build = shapes.bert if kind == "bert" else shapes.llama
            self._models[key] = build(**shape, device=str(self.clock.device), dtype=dtype)
        return self._models[key]

    def forget(self) -> None:
        """Let go of all models."""
        self._models.clear()
        self.clock.clear()

    def given(self, batch: int, tokens: int) -> dict[str, list[list[int]]]:
        """Return encoded inputs, as lists."""
        return shapes.encoded(batch, tokens)

    def batch(self, model: Any, given: Given) -> Batch:
        """Return encoded inputs as a batch on the device."""
        return batch_of(model, given)

    def compare(
        self,
        floor: str,
        cases: dict[str, Case],
        targets: dict[str, float],
        *,
        weighed: bool = True,
        **about: Any,
    ) -> dict[str, Timed]:
        """Time cases side by side and log each against one of them; in targets, those that must be reached.

        Unless `weighed`, their memory is not looked at.
        """
        found = self.clock.medians(cases)
        base = found[floor].seconds
        peaks = {name: self.clock.peak(case) if weighed else None for name, case in cases.items()}
        for name, timed in found.items():
            peak, floor_peak = peaks[name], peaks[floor]
            self.log.add(
                name,
                **about,
                seconds=timed.seconds,
                low=timed.low,
                high=timed.high,
                n=timed.n,
                against=floor,
                ratio=timed.seconds / base,
                target=targets.get(name),
                peak=peak,
                peak_ratio=None if peak is None or not floor_peak else peak / floor_peak,
            )
        return found

    @contextmanager
    def guarded(self, what: str, **about: Any) -> Iterator[None]:
        """Log a failure instead of what was to be measured, and go on; not if the device is gone or time is up."""
        if self.clock.left < 0:
            self.log.add(what, **about, error="not measured: the section's seconds were spent")
            raise TimeIsUp(what)
        try:
            yield
        except (TimeIsUp, Dead):
            raise
        except torch.OutOfMemoryError as error:
            self.log.add(what, **about, error=f"out of memory: {_first_line(error)}")
        except Exception as error:
            self.log.add(what, **about, error=f"{type(error).__name__}: {_first_line(error)}")
        else:
            return
        if not self.alive():
            raise Dead(what)
        self.clock.clear()

    def alive(self) -> bool:
        """Say whether the device still computes."""
        try:
            return float(torch.ones(2, device=self.clock.device).sum()) == 2
        except RuntimeError:
            return False


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
