"""Pairs in a list, given without names: two texts for a model of pairs, or a text with its label by mistake.

A tuple of two texts is a pair of texts. Where the second ones are evidently labels, showing them to the model would
tell it the answer, so such a list is refused.
"""

import re
from collections.abc import Sequence

from whence.core.errors import BadExamples

HOW = (
    'Give mappings that name what is what: {"text": ..., "label": ...}, or of two texts {"text": ..., "pair": ...}; '
    "or a table with text=... and label=...."
)
_USUAL = re.compile(
    "positive|negative|neutral|mixed|pos|neg|true|false|yes|no|(not_)?entailment|contradiction|spam|ham",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(label[_ -]?)?-?\d{1,6}(\.0+)?|\d[ _-]?stars?", re.IGNORECASE)
_FEWEST = 4  # pairs of which the same words at the second place say something
_LONGEST = 40  # characters of a label


def refuse_labels(pairs: Sequence[tuple[str, str]], labels: Sequence[str] = ()) -> None:
    """Refuse pairs whose second texts are evidently labels: the model's, usual ones, or few words again and again."""
    second = [two.strip() for _, two in pairs]
    if not second or not (_are_known(second, labels) or _are_few(pairs, second)):
        return
    named = ", ".join(repr(one[:20]) for one in list(dict.fromkeys(second))[:3])
    raise BadExamples(
        f"A pair (a, b) in a list is a pair of texts, and the second ones look like labels ({named}): the model "
        f"would read them. {HOW}"
    )


def _are_known(second: Sequence[str], labels: Sequence[str]) -> bool:
    own = {label.strip().casefold() for label in labels}
    return all(
        one.casefold() in own or _USUAL.fullmatch(one) or _NUMBER.fullmatch(one) for one in second
    )


def _are_few(pairs: Sequence[tuple[str, str]], second: Sequence[str]) -> bool:
    """Say whether a few single words stand second again and again, beside first texts of several words."""
    words = all(one and len(one.split()) == 1 and len(one) <= _LONGEST for one in second)
    several = all(len(first.split()) > 1 for first, _ in pairs)
    return words and several and len(second) >= _FEWEST and 2 * len(set(second)) <= len(second)
