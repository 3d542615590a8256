"""Guard rails: what a reader must know before believing what is shown about one input."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from whence.capture import bare_logits
from whence.core.errors import NotCapturable, TooLong
from whence.data.text.vocabulary import count_unknown
from whence.flow import entropy

if TYPE_CHECKING:
    from whence.explainer.inside.inside import Inside

# A prediction whose first two labels are nearer than this could as well have been the other one: 0.6 against 0.4.
_NEAR = 0.2
# Rows of attention as wide as this, in every head, say nothing about where a model looks.
_UNIFORM = 0.98
_UNKNOWN = 0.2
# Between two ways to compute the same attention; float32 is a hundred times better.
_SAME = 1e-3


def warnings(inside: "Inside") -> list[dict[str, str]]:
    """Return the warnings, each with a code and a sentence."""
    return [{"code": code, "message": message} for code, message in _found(inside)]


def _found(inside: "Inside") -> Iterator[tuple[str, str]]:
    if inside.source.dropped:
        yield (
            "truncated",
            f"The text is too long for the model: {inside.source.dropped} tokens were cut off and "
            "played no part.",
        )
    yield from inside.item.warnings
    yield from _tie(inside)
    yield from _vocabulary(inside)
    yield from _attention(inside)


def _tie(inside: "Inside") -> Iterator[tuple[str, str]]:
    said = inside.prediction
    if said is None:
        yield (
            "no-head",
            f"{inside.loaded.name} has no classification head: it decides nothing, and flow starts at one token.",
        )
        return
    if inside.loaded.task != "single_label" or len(said.probabilities) < 2:
        return
    (first, one), (second, two) = sorted(said.probabilities.items(), key=lambda pair: -pair[1])[:2]
    if one - two < _NEAR:
        yield (
            "near-tie",
            f"The prediction is close: {first} {one:.0%}, {second} {two:.0%}. An explanation of {first} is hardly "
            "one of the decision; explain the contrast of both.",
        )


def _vocabulary(inside: "Inside") -> Iterator[tuple[str, str]]:
    count, content = count_unknown(inside.tokens, inside.loaded.fillers.get("unk"))
    if count > _UNKNOWN * content:
        yield (
            "unknown-words",
            f"The tokenizer does not know {count} of {content} tokens: another language, or not the tokenizer "
            "that the model was trained with?",
        )


def _attention(inside: "Inside") -> Iterator[tuple[str, str]]:
    try:
        attention = inside.attention()
    except (NotCapturable, TooLong) as error:
        yield "no-attention", str(error)
        return
    # With two tokens or three, rows are wide by nature.
    if len(inside.tokens) > 4 and float(np.nanmin(entropy(attention))) > _UNIFORM:
        yield (
            "uniform-attention",
            "Every head attends alike to all tokens that it can see: weights that were never trained look like this. "
            "Check that the model was loaded with its own.",
        )
    if inside.has_head:
        yield from _capture(inside)


def _capture(inside: "Inside") -> Iterator[tuple[str, str]]:
    own = bare_logits(inside.loaded.model, inside.copies(1))[0].double()
    seen = inside.logits.to(own)
    apart = float((own - seen).abs().max())
    if apart > _SAME * max(1.0, float(own.abs().max())):
        yield (
            "capture-differs",
            f"Watched, the model's logits differ from its own by {apart:.2g}: its attention is computed in another "
            "way than is shown here. Do not trust these pictures.",
        )
