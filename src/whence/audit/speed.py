"""How fast this model is on this machine, found out on a few of the examples."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from whence.audit.subject import Subject
from whence.capture.forward import bare_logits

_TRIED = 32  # examples
_COPIES = 5  # of each, as most experiments replay them


def speed(subject: Subject) -> tuple[float, float]:
    """Return the seconds of one example's forward pass, and what a replay from the attention on takes, in passes."""
    # As long as the others are: the middle of them.
    order = sorted(range(len(subject)), key=lambda i: len(subject.items[i]))
    start = max(0, (len(order) - _TRIED) // 2)
    chosen = order[start : start + _TRIED]
    few = replace(
        subject,
        examples=[subject.examples[i] for i in chosen],
        items=[subject.items[i] for i in chosen],
        truth=None,
        tick=lambda _: None,
        memo={},
    )
    model, each = subject.loaded.model, [batch for _, batch in few.batches()]
    replays = list(few.replays(copies=_COPIES))
    weights = [one.own[:, None].expand(-1, _COPIES, -1, -1, -1) for one in replays]
    with torch.no_grad():
        forward = _timed(lambda: [bare_logits(model, batch) for batch in each])
        again = _timed(lambda: [one(own) for one, own in zip(replays, weights, strict=True)])
    return forward / len(few), again / forward / _COPIES


def _timed(work: Callable[[], Any]) -> float:
    """Return the seconds of the second time: the first one is for the machine to get ready."""
    for _ in range(2):
        started = time.perf_counter()
        found = work()
        _ = [one.sum().item() for one in found]  # an accelerator answers when it is asked
        seconds = time.perf_counter() - started
    return seconds
