"""How fast this model is on this machine, found out on a few of the examples."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from whence.audit.site import Site
from whence.audit.subject import Subject
from whence.capture.forward import bare_logits
from whence.data import Batch

_TRIED = 32  # examples
_COPIES = 5  # of each, as most experiments replay them


def speed(subject: Subject) -> tuple[float, float]:
    """Return the seconds of one example's forward pass, and what a replay takes, in passes: the mean of all sites."""
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

    def say(_: Sequence[int], batch: Batch) -> None:
        bare_logits(
            subject.loaded.model, batch
        ).sum().item()  # an accelerator answers when it is asked

    forward = _timed(lambda: few.in_batches("answers", say))
    return forward / len(few), _replay(few) / forward


def _replay(few: Subject) -> float:
    """Return the seconds of a replay of all examples, the mean of all sites.

    Those between the lowest site and the highest are not tried: the lower, the more layers are run again.
    """
    depths = {site.layers[0]: site for site in few.sites}
    low, high = min(depths), max(depths)
    found = {at: _replayed(few, depths[at]) for at in {low, high}}
    slope = (found[high] - found[low]) / max(1, high - low)
    each = [found[low] + slope * (site.layers[0] - low) for site in few.sites]
    return sum(each) / len(each)


def _replayed(few: Subject, site: Site) -> float:
    replays = list(few.replays([site], copies=_COPIES))
    weights = [one.own[:, None].expand(-1, _COPIES, -1, -1, -1) for one in replays]
    with torch.no_grad():
        seconds = _timed(
            lambda: [one(own).sum().item() for one, own in zip(replays, weights, strict=True)]
        )
    return seconds / _COPIES


def _timed(work: Callable[[], Any]) -> float:
    """Return the seconds of the second time: the first one is for the machine to get ready."""
    for _ in range(2):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
    return seconds
