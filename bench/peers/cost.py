"""Time and peak memory of a peer library, as a ratio to the bare forward + backward on the same texts.

The bare pass: inputs already tokenized and padded, one forward, one backward to the embeddings. Time is that of
the processor (time.process_time), one thread, so that other work on the machine disturbs it little; runs of the
library and of the bare pass take turns, and medians are compared. Memory is the peak of the process's resident
memory (VmHWM, which Linux resets on request) over what was resident before, after one run to warm up.
"""

from __future__ import annotations

import ctypes
import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from bench.peers import fixtures
from bench.peers.adapter import Adapter

REPEATS = 7
SHARE = 3.0  # seconds that one case may take in all, once it has been measured
LONG = 10.0  # seconds after which one text is enough
BATCHES = (1, 8)
STEPS = 64
STATUS = Path("/proc/self/status")


def build_bare_pass(
    model: Any, tokenizer: Any, texts: Sequence[str], causal: bool
) -> Callable[[], None]:
    """Return the floor: one bare forward and backward."""
    inputs = dict(tokenizer(list(texts), return_tensors="pt", padding=True))
    inputs.pop("token_type_ids", None)
    table, ids = model.get_input_embeddings(), inputs.pop("input_ids")

    def run() -> None:
        embedded = table(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, **inputs).logits
        top = (logits[:, -1] if causal else logits).max(-1).values
        torch.autograd.grad(top.sum(), embedded)

    return run


def build_cases(
    own: Adapter, steps: int | None = STEPS
) -> dict[str, tuple[str, Callable[[Sequence[str]], Any]]]:
    """Return the measured cases: each kind of method at its defaults, integrated gradients at 64 steps."""
    found = {
        kind: (own.names[kind], own.get_explainer(kind))
        for kind in ("gradient", "integrated", "perturbation")
        if kind in own.names
    }
    if "integrated" in found and steps is not None:
        found[f"integrated at {steps} steps"] = (
            own.names["integrated"],
            lambda texts: own.integrate_gradients(texts, steps),
        )
    return found


class RowCounter:
    """Context manager that counts the rows that go through the model."""

    def __init__(self, model: Any) -> None:
        self.rows = 0
        self._model = model

    def _count(self, _: Any, args: Any, kwargs: Any) -> None:
        given = kwargs.get("input_ids")
        given = kwargs.get("inputs_embeds") if given is None else given
        given = args[0] if given is None and args else given
        self.rows += 0 if given is None else len(given)

    def __enter__(self) -> RowCounter:
        self._handle = self._model.register_forward_pre_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self._handle.remove()


def _measure_seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def measure_times(asking: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind and batch."""
    own = asking.build_adapter()
    for kind, (name, explain) in build_cases(own).items():
        for batch in BATCHES if kind != "integrated" else BATCHES[:1]:  # lists: at 64 steps
            texts = fixtures.select_timed_texts(batch, asking.causal)
            row = {"check": "time", "kind": kind, "of": name, "batch": batch}
            row["together"] = own.takes_lists or batch == 1
            try:
                with RowCounter(asking.model) as seen:
                    first = _measure_seconds(lambda explain=explain, texts=texts: explain(texts))
            except Exception as failure:  # whatever a library raises is a finding about it
                yield row | {"error": f"{type(failure).__name__}: {failure}"[:300]}
                continue
            floor = build_bare_pass(asking.model, asking.tokenizer, texts, asking.causal)
            floor()
            floors, taken = [_measure_seconds(floor)], [first]
            if first < SHARE:  # a longer first run counts: one-time loading is small beside it
                taken = []
            while len(taken) < REPEATS and sum(taken) < SHARE:
                floors += [_measure_seconds(floor), _measure_seconds(floor)]
                taken.append(_measure_seconds(lambda explain=explain, texts=texts: explain(texts)))
            while len(floors) < REPEATS:
                floors.append(_measure_seconds(floor))
            yield row | {
                "seconds": statistics.median(taken),
                "floor": statistics.median(floors),
                "ratio": statistics.median(taken) / statistics.median(floors),
                "runs": len(taken),
                "rows": seen.rows,
            }
            if first > LONG:
                break  # a batch of eight would take minutes


def _read_resident(field: str) -> float:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"{STATUS} has no {field}")


def _measure_peak(run: Callable[[], Any]) -> float:
    """Return the peak mebibytes of a run over the resident memory before it."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _read_resident("VmRSS")
    run()
    return _read_resident("VmHWM") - before


def measure_memory(asking: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind, on one long text."""
    if not STATUS.is_file():
        return
    own = asking.build_adapter()
    texts = fixtures.select_timed_texts(1, causal=True) if asking.causal else [fixtures.LONG]
    floor = build_bare_pass(asking.model, asking.tokenizer, texts, asking.causal)
    for kind, (name, explain) in build_cases(own, steps=None).items():
        row = {"check": "memory", "kind": kind, "of": name}
        try:
            floor()
            if kind != "perturbation":  # slow, and loads nothing more than the others
                explain(texts)
            floors = statistics.median(_measure_peak(floor) for _ in range(3))
            yield (
                row
                | {
                    "mebibytes": _measure_peak(lambda explain=explain: explain(texts)),
                    "floor": floors,
                    "words": len(texts[0].split()),
                }
            )
        except Exception as failure:  # whatever a library raises is a finding about it
            yield row | {"error": f"{type(failure).__name__}: {failure}"[:300]}
