"""One answer rather than another, where they are longer than a token: the difference of two explanations."""

from dataclasses import replace
from math import exp, log
from sys import float_info
from typing import TYPE_CHECKING

from whence.core.types import Passes, Prediction, Source, Target
from whence.data.reading import REST

if TYPE_CHECKING:
    from whence.explainer.explanation import Explanation

SAID = "the difference of two explanations over the prompt, one for each answer"


def rather(both: "list[Explanation]") -> "Explanation":
    """Return why one answer rather than the other: over the prompt, as the answers' own tokens differ.

    It keeps none of its method's promises, and its scores have a sign whatever the method's have.
    """
    one, other = both
    prompt = [i for i, token in enumerate(one.tokens) if token.segment == 0]
    names = [explanation.target.label for explanation in both]
    if names[0] == names[1]:  # they differ by a space
        names = [repr(explanation.source.pair) for explanation in both]
    said = _said(names, [explanation.prediction.logits[0] for explanation in both])
    of = one.target.of
    words = [i for i, word in enumerate(one.spans) if word.segment == 0]
    measured = None
    if one.measured is not None and other.measured is not None:
        measured = one.measured[words] - other.measured[: len(words)]
    return replace(
        one,
        scores=one.scores[prompt] - other.scores[prompt],
        tokens=tuple(one.tokens[i] for i in prompt),
        spans=tuple(one.spans[i] for i in words),
        measured=measured,
        source=Source(one.source.text, None, one.source.dropped),
        prediction=said,
        target=Target(names[0], 0, Target(names[1], 1, None, of), of),
        signed=True,
        axioms={},
        passes=Passes(
            one.passes.forward + other.passes.forward, one.passes.backward + other.passes.backward
        ),
        seconds=one.seconds + other.seconds,
        provenance={**one.provenance, "contrast": SAID},
        # What it takes to test an explanation is an input with two answers at once, which no model takes.
        item=None,
        read=(),
        reading=None,
        columns=None,
    )


def _said(names: list[str], logits: list[float]) -> Prediction:
    """Describe what the model thinks of both answers; they exclude each other, so what is left is any other."""
    shares = [exp(value) for value in logits]
    left = max(1 - sum(shares), float_info.min)
    best = 0 if shares[0] >= shares[1] else 1
    known = dict(zip([*names, REST], [*shares, left], strict=True))
    return Prediction(names[best], best, shares[best], known, (*logits, log(left)))
