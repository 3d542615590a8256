"""Time and memory, as a ratio to the bare forward + backward of the same model on the same texts.

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
from bench.peers import scene
from bench.peers.adapter import Adapter

REPEATS = 7
SHARE = 3.0  # seconds that one case may take in all, once it has been measured
LONG = 10.0  # seconds after which one text is enough
BATCHES = (1, 8)
STEPS = 64
STATUS = Path("/proc/self/status")


def bare(model: Any, tokenizer: Any, texts: Sequence[str], causal: bool) -> Callable[[], None]:
    """Return the floor."""
    inputs = dict(tokenizer(list(texts), return_tensors="pt", padding=True))
    inputs.pop("token_type_ids", None)
    table, ids = model.get_input_embeddings(), inputs.pop("input_ids")

    def run() -> None:
        embedded = table(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, **inputs).logits
        top = (logits[:, -1] if causal else logits).max(-1).values
        torch.autograd.grad(top.sum(), embedded)

    return run


def cases(
    own: Adapter, steps: int | None = STEPS
) -> dict[str, tuple[str, Callable[[Sequence[str]], Any]]]:
    """Return what is measured: the kinds of method at their defaults, and integrated gradients at 64 steps."""
    found = {
        kind: (own.names[kind], getattr(own, kind))
        for kind in ("gradient", "integrated", "perturbation")
        if kind in own.names
    }
    if "integrated" in found and steps is not None:
        found[f"integrated at {steps} steps"] = (
            own.names["integrated"],
            lambda texts: own.integrated(texts, steps),
        )
    return found


class Counted:
    """How many rows go through the model."""

    def __init__(self, model: Any) -> None:
        self.rows = 0
        self._model = model

    def _count(self, _: Any, args: Any, kwargs: Any) -> None:
        given = kwargs.get("input_ids")
        given = kwargs.get("inputs_embeds") if given is None else given
        given = args[0] if given is None and args else given
        self.rows += 0 if given is None else len(given)

    def __enter__(self) -> Counted:
        self._handle = self._model.register_forward_pre_hook(self._count, with_kwargs=True)
        return self

    def __exit__(self, *_: Any) -> None:
        self._handle.remove()


def _seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def times(asking: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind and batch."""
    own = asking.adapter()
    for kind, (name, explain) in cases(own).items():
        for batch in BATCHES if kind != "integrated" else BATCHES[:1]:  # lists: at 64 steps
            texts = scene.timed(batch, asking.causal)
            row = {"check": "time", "kind": kind, "of": name, "batch": batch}
            row["together"] = own.takes_lists or batch == 1
            try:
                with Counted(asking.model) as seen:
                    first = _seconds(lambda explain=explain, texts=texts: explain(texts))
            except Exception as failure:  # whatever a library raises is a finding about it
                yield row | {"error": f"{type(failure).__name__}: {failure}"[:300]}
                continue
            floor = bare(asking.model, asking.tokenizer, texts, asking.causal)
            floor()
            floors, taken = [_seconds(floor)], [first]
            if first < SHARE:  # else it has been measured; what is loaded once is little beside it
                taken = []
            while len(taken) < REPEATS and sum(taken) < SHARE:
                floors += [_seconds(floor), _seconds(floor)]
                taken.append(_seconds(lambda explain=explain, texts=texts: explain(texts)))
            while len(floors) < REPEATS:
                floors.append(_seconds(floor))
            yield row | {
                "seconds": statistics.median(taken),
                "floor": statistics.median(floors),
                "ratio": statistics.median(taken) / statistics.median(floors),
                "runs": len(taken),
                "rows": seen.rows,
            }
            if first > LONG:
                break  # eight times that would be minutes, and say nothing new


def _resident(field: str) -> float:
    for line in STATUS.read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise OSError(f"{STATUS} has no {field}")


def _peak(run: Callable[[], Any]) -> float:
    """Return the mebibytes that a run takes over what was resident before it."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _resident("VmRSS")
    run()
    return _resident("VmHWM") - before


def memory(asking: Any) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind, on one long text."""
    if not STATUS.is_file():
        return
    own = asking.adapter()
    texts = scene.timed(1, causal=True) if asking.causal else [scene.LONG]
    floor = bare(asking.model, asking.tokenizer, texts, asking.causal)
    for kind, (name, explain) in cases(own, steps=None).items():
        row = {"check": "memory", "kind": kind, "of": name}
        try:
            floor()
            if (
                kind != "perturbation"
            ):  # which may take long, and has nothing to load that the others have not
                explain(texts)
            floors = statistics.median(_peak(floor) for _ in range(3))
            yield (
                row
                | {
                    "mebibytes": _peak(lambda explain=explain: explain(texts)),
                    "floor": floors,
                    "words": len(texts[0].split()),
                }
            )
        except Exception as failure:  # whatever a library raises is a finding about it
            yield row | {"error": f"{type(failure).__name__}: {failure}"[:300]}
