"""Whether two models can be compared head by head: one tokenizer, as many layers, as many heads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whence.core.errors import BadParameter, BadTokenizer, NoTokenizer, short
from whence.core.types import Token
from whence.explainer import Explainer

_NEXT = (
    "Give two models of one tokenizer, such as a pre-trained model and what was fine-tuned from it."
)


def check_vocabulary(base: Explainer, tuned: Explainer) -> None:
    """Refuse two tokenizers that give one token two ids. What only one of them has shows where it is used."""
    for one in (base, tuned):
        if one.tokenizer is None:
            raise NoTokenizer(
                f"{one.loaded.name!r} has no tokenizer: it cannot be seen whether both models read a text alike. "
                "Pass one: whence.load(model, tokenizer=...)."
            )
    if base.tokenizer is tuned.tokenizer:
        return
    own, other = _vocabulary(base.tokenizer), _vocabulary(tuned.tokenizer)
    differ = [token for token in own if other.get(token, own[token]) != own[token]]
    if differ:
        token = min(differ, key=lambda one: own[one])
        raise BadTokenizer(
            f"{base.loaded.name!r} and {tuned.loaded.name!r} have different tokenizers: {token!r} is "
            f"{own[token]} in one and {other[token]} in the other. {_NEXT}"
        )


def _vocabulary(tokenizer: Any) -> dict[str, int]:
    found: dict[str, int] = tokenizer.get_vocab()
    return found


def check_tokens(
    text: str | None,
    one: Sequence[Token],
    other: Sequence[Token],
    names: tuple[str, str] = ("One model", "the other"),
) -> None:
    """Refuse a text of which two models make different tokens."""
    if [token.id for token in one] == [token.id for token in other]:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a.id != b.id),
        min(len(one), len(other)),
    )
    shown = [
        f"{side[place].text!r} (id {side[place].id})" if place < len(side) else "nothing"
        for side in (one, other)
    ]
    said = "An input" if text is None else repr(short(text))
    raise BadTokenizer(
        f"{said} is read differently: at token {place} {names[0]!r} has {shown[0]}, {names[1]!r} {shown[1]}. "
        f"{_NEXT}"
    )


def check_shape(one: tuple[int, int], other: tuple[int, int], names: tuple[str, str]) -> None:
    """Refuse models that differ in their numbers of layers or heads: there is no twin to compare with."""
    if one != other:
        told = [
            f"{name!r} has {layers} layers of {heads} heads"
            for name, (layers, heads) in zip(names, (one, other), strict=True)
        ]
        raise BadParameter(
            f"Heads are compared one by one, and {told[0]}, {told[1]}. Give two models of one shape, such as a "
            "pre-trained model and what was fine-tuned from it."
        )


def of_one_length(base: Explainer, tuned: Explainer) -> tuple[Explainer, Explainer]:
    """Return both with the smaller of their longest inputs, so that a text is cut at the same place."""
    bounds = [one.loaded.max_length for one in (base, tuned)]
    known = [bound for bound in bounds if bound is not None]
    if not known or bounds[0] == bounds[1]:
        return base, tuned
    shortest = min(known)
    first, second = (
        one
        if one.loaded.max_length == shortest
        else Explainer(replace(one.loaded, max_length=shortest))
        for one in (base, tuned)
    )
    return first, second
