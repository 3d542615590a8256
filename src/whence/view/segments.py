"""The two texts of a pair side by side: how much of an explanation falls on each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class SegmentScore:
    """What one text of an input has of the scores; special tokens, which belong to none, do not count."""

    segment: int
    tokens: int
    total: float  # the sum of its tokens' scores
    positive: float | None  # its part of all that speaks for the target; None: nothing does
    share: float | None  # its part of all scores by their size; None: all are zero


def by_segment(
    segments: Sequence[int], special: Sequence[bool], scores: Sequence[float]
) -> list[SegmentScore]:
    """Add up scores by segment, in the order of the segments."""
    own: dict[int, list[float]] = {}
    for segment, hidden, score in zip(segments, special, scores, strict=True):
        if not hidden:
            own.setdefault(segment, []).append(float(score))
    positive = sum(max(score, 0.0) for part in own.values() for score in part)
    size = sum(abs(score) for part in own.values() for score in part)
    return [
        SegmentScore(
            segment,
            len(part),
            sum(part),
            sum(max(score, 0.0) for score in part) / positive if positive else None,
            sum(map(abs, part)) / size if size else None,
        )
        for segment, part in sorted(own.items())
    ]


def of_payload(payload: dict[str, Any], explanation: dict[str, Any]) -> list[SegmentScore]:
    """Add up the scores of one explanation of a payload; of a single text, nothing."""
    tokens = payload["tokens"]
    found = by_segment(
        [token["segment"] for token in tokens],
        [token["special"] for token in tokens],
        explanation["scores"],
    )
    return found if len(found) > 1 else []
