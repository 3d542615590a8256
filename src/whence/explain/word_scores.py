"""Scores of words and of texts from those of tokens, what scores promise to add up to, and the JSON object of several methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

PAYLOAD_VERSION = 1


def merge_payloads(payloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the explanations of one input by several methods into one payload."""
    first = payloads[0]
    # Warnings about the input are in every payload, warnings about a method in one: keep each once.
    warnings: list[Any] = []
    for payload in payloads:
        warnings += [warning for warning in payload.get("warnings", ()) if warning not in warnings]
    return {
        **first,
        "explanations": [e for payload in payloads for e in payload["explanations"]],
        **({"warnings": warnings} if warnings else {}),
    }


def wrap_payloads(payloads: Sequence[dict[str, Any]], kind: str = "entities") -> dict[str, Any]:
    """Wrap payloads about several "entities" or "targets" of one input in one object."""
    return {"version": PAYLOAD_VERSION, "kind": kind, kind: list(payloads)}


@dataclass(frozen=True)
class SegmentScore:
    """The scores of one text of an input, summed; special tokens belong to no text and do not count."""

    segment: int
    tokens: int
    total: float  # the sum of its tokens' scores
    positive: float | None  # share of the sum of positive scores; None: no score is positive
    share: float | None  # share of the sum of |scores|; None: all are zero


def sum_by_segment(
    segments: Sequence[int], special: Sequence[bool], scores: Sequence[float]
) -> list[SegmentScore]:
    """Sum scores by segment, in the order of the segments."""
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


NOT_CONSERVED_CODE = "not-conserved"


# float32 sums are exact to about 1e-7 of the sum of |terms|; smaller differences are rounding.
_ROUNDING_SHARE = 1e-6


def describe_conservation_failure(
    method: str,
    scores: Sequence[float],
    axioms: Mapping[str, float],
    output: float | None,
    of: str,
) -> str | None:
    """Return a warning if scores that should add up to the output are off by more than the output.

    The error is read from the axiom residuals of the explanation. With a residual of the tokens, the promised sum is
    the sum of the scores less the residual. With residuals of layers only, relevance started with 1 at the logit, and
    the error is the smaller of the worst layer's residual and the error of the scores. `output`: the explained value,
    if known.
    """
    total, size = float(sum(scores)), float(sum(abs(score) for score in scores))
    own = [value for name, value in axioms.items() if "." not in name]
    layers = [abs(value) for name, value in axioms.items() if "." in name]
    if own:
        promised = max(abs(total - value) for value in own)
        off = max(map(abs, own))
    elif layers:
        promised = 1.0
        off = min(max(layers), abs(total - (promised if output is None else output)))
    else:
        return None
    if off <= max(promised, abs(output or 0.0), _ROUNDING_SHARE * size):
        return None
    output_text = f"the {of} {output:.3g}" if output is not None else f"a {of}"
    return (
        f"{method}: this is no explanation of {output_text}: its scores add up to {total:.3g}, off by more than all that "
        "they should explain. Take another method, or test its ranking first: trust."
    )


# "sum": scores are shares of a total, and add up. "mean": each score is an effect of its own, such as the fall of a
# probability without a token, and effects do not add up. "measured": the method scored whole words.
WordAggregation = Literal["sum", "mean", "measured"]


def compute_word_score(
    scores: Sequence[float], places: Sequence[int], by: WordAggregation
) -> float:
    """Return a word's score: the sum of its tokens' scores, or their mean if `by` is not "sum"."""
    total = sum(scores[place] for place in places)
    return total if by == "sum" else total / len(places)
