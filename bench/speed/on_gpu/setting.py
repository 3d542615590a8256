"""Class `Setting` given to every section of gpu.py: models, inputs, timed comparisons, guard on failures."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from bench.speed import random_models
from bench.speed.measuring import Case, Clock, Log, Timing
from bench.speed.passes import Given, build_batch

from whence.data.batches import Batch


class Dead(Exception):
    """Error of a lost device: the remaining sections must run in another process."""


class TimeIsUp(Exception):
    """Error of a section whose seconds are over."""


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
        """The dtype in which speed is measured; float32 on a CPU, where only the script itself is tried."""
        return torch.bfloat16 if self.clock.cuda else torch.float32

    @property
    def halves(self) -> tuple[str, ...]:
        """The half-precision dtypes of the device; some virtual CPUs abort in bfloat16."""
        return ("bfloat16", "float16") if self.clock.cuda else ("float16",)

    def describe(self, model: str, inputs: int, tokens: int) -> dict[str, Any]:
        """Return the entries of a row on model, size and dtype."""
        dtype = str(self.half).removeprefix("torch.")
        return {"model": model, "dtype": dtype, "inputs": inputs, "tokens": tokens}

    def bert(self, dtype: torch.dtype | None = None, **shape: int) -> Any:
        """Return a model of BERT-base's shape on the device; the last one is kept."""
        small = {"layers": 2, "width": 32, "heads": 2} if self.tiny else {}
        return self._get_model("bert", dtype or self.half, {**small, **shape})

    def llama(self, dtype: torch.dtype | None = None, **shape: int) -> Any:
        """Return a model of the Llama shape on the device; the last one is kept."""
        small = {
            "layers": 2, "width": 64, "heads": 4, "key_heads": 2, "intermediate": 128, "longest": 512,
        }  # fmt: skip
        return self._get_model(
            "llama", dtype or self.half, {**(small if self.tiny else {}), **shape}
        )

    def _get_model(self, kind: str, dtype: torch.dtype, shape: dict[str, int]) -> Any:
        key = (kind, dtype, *sorted(shape.items()))
        if key not in self._models:
            self.forget()  # another model's weights would count in every peak
            build = random_models.build_bert if kind == "bert" else random_models.build_llama
            self._models[key] = build(**shape, device=str(self.clock.device), dtype=dtype)
        return self._models[key]

    def forget(self) -> None:
        """Free all models."""
        self._models.clear()
        self.clock.clear()

    def build_inputs(self, batch: int, tokens: int) -> dict[str, list[list[int]]]:
        """Return encoded inputs, as lists."""
        return random_models.build_inputs(batch, tokens)

    def build_batch(self, model: Any, given: Given) -> Batch:
        """Return encoded inputs as a batch on the device."""
        return build_batch(model, given)

    def compare(
        self,
        floor: str,
        cases: dict[str, Case],
        targets: dict[str, float],
        *,
        weighed: bool = True,
        **about: Any,
    ) -> dict[str, Timing]:
        """Time cases side by side and log each against one of them, with their targets.

        Unless `weighed`, their memory is not looked at.
        """
        found = self.clock.measure_medians(cases)
        base = found[floor].seconds
        peaks = {
            name: self.clock.measure_peak(case) if weighed else None for name, case in cases.items()
        }
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
    def guard(self, what: str, **about: Any) -> Iterator[None]:
        """Log a failure of the block as a row and go on, unless the device is lost or time is up."""
        if self.clock.left < 0:
            self.log.add(what, **about, error="not measured: the section's seconds were spent")
            raise TimeIsUp(what)
        try:
            yield
        except (TimeIsUp, Dead):
            raise
        except torch.OutOfMemoryError as error:
            self.log.add(what, **about, error=f"out of memory: {_get_first_line(error)}")
        except Exception as error:  # whatever a measurement raises is its row of the log
            self.log.add(what, **about, error=f"{type(error).__name__}: {_get_first_line(error)}")
        else:
            return
        if not self.is_alive():
            raise Dead(what)
        self.clock.clear()

    def is_alive(self) -> bool:
        """Return whether the device still computes."""
        try:
            return float(torch.ones(2, device=self.clock.device).sum()) == 2
        except RuntimeError:
            return False


def _get_first_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0][:300]
