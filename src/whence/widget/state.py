"""The state of the view, as the page has it: every field with its default."""

import math
from collections.abc import Callable, Mapping
from typing import Any

from whence.core.errors import BadParameter, did_you_mean
from whence.explainer.inside.statistics import STATISTICS
from whence.flow import DIRECTIONS, NAMES
from whence.flow.query import PAIRS

# The same names and values as in web/src/state/state.ts; a test holds the two together.
DEFAULT: Mapping[str, Any] = {
    "page": "explain",
    "model": "",
    "other": "",
    "text": "",
    "pair": None,
    "picture": None,
    "at": None,
    "entity": 0,
    "answer": None,
    "rather": None,
    "labels": "",
    "template": None,
    "methods": [],  # the usual one of the model
    "target": None,
    "of": "logit",
    "beside": [],
    "generate": None,
    "granularity": "token",
    "weight": "attention",
    "direction": "back",
    "token": None,
    "coverage": None,  # as much as can be read, half of the flow at the most
    "layers": None,
    "heads": [],
    "tokens": [],
    "segments": [],
    "least": 0,
    "specials": "gutter",
    "classic": None,
    "view": "ladder",
    "statistic": "entropy",
    "thumbnails": False,
    "head": None,
    "words": True,
    "strength": 1,
    "smooth": True,
    "difference": False,
    "data": None,
    "result": None,
    "card": None,
    "tab": "",
    "rows": "",
    "run": None,
    "against": None,
    "found": "",
}
NOTHING: Mapping[str, Any] = {"tokens": [], "edges": [], "head": None}


_CHOICES: Mapping[str, tuple[str, ...]] = {
    "page": ("explain", "compare", "data", "results", "runs", "help"),
    "of": ("logit", "probability"),
    "granularity": ("token", "word", "sentence", "paragraph", "passage"),
    "weight": NAMES,
    "direction": DIRECTIONS,
    "specials": ("gutter", "show", "hide"),
    "view": ("ladder", "rings", "sankey", "heatmap", "network"),
    "statistic": tuple(STATISTICS),
}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_places(value: Any) -> bool:
    """Two whole numbers: a layer and a head, or the first and the last layer."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_number, value))


def _is_measure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < math.inf


def _are(each: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list | tuple) and all(map(each, value))


def _is_classic(value: Any) -> bool:
    return isinstance(value, Mapping) and set(value) == {"threshold", "decay", "carry"}


# By field: what it must be, and how that is said; those whose default is None may be None.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(
        (
            *("model", "other", "text", "pair", "picture", "at", "answer", "rather", "labels"),
            *(
                "template",
                "target",
                "tab",
                "rows",
                "data",
                "result",
                "card",
                "run",
                "against",
                "found",
            ),
        ),
        (_is_text, "a text"),
    ),
    **dict.fromkeys(
        ("thumbnails", "words", "smooth", "difference"),
        (lambda value: isinstance(value, bool), "True or False"),
    ),
    "methods": (_are(_is_text), "a list of methods"),
    "beside": (_are(_is_text), "a list of targets"),
    "entity": (_is_number, "the number of something that was found, from 0"),
    "generate": (_is_number, "a number of tokens"),
    "token": (_is_number, "the number of a token, from 0"),
    **dict.fromkeys(
        ("coverage", "strength"),
        (lambda value: _is_measure(value) and value <= 1, "a share from 0 to 1"),
    ),
    "least": (_is_measure, "a number of 0 or more"),
    "layers": (_is_places, "the first and the last layer, from 0"),
    "head": (_is_places, "a layer and a head, from 0"),
    "heads": (_are(_is_places), "a list of heads, each a layer and a head"),
    "tokens": (_are(_is_number), "a list of numbers of tokens, from 0"),
    "segments": (_are(lambda value: value in PAIRS), f"a list of {', '.join(PAIRS)}"),
    "classic": (_is_classic, "a threshold, a decay and a carry"),
}


def _check(name: str, value: Any) -> None:
    """Refuse a value that the view cannot have."""
    if name in _CHOICES:
        known = _CHOICES[name]
        if value not in known:
            near = did_you_mean(str(value), list(known))
            raise BadParameter(f"{name} must be one of {', '.join(known)}. Got {value!r}.{near}")
        return
    fits, said = _KINDS[name]
    optional = DEFAULT[name] is None
    if not (fits(value) or (optional and value is None)):
        raise BadParameter(f"{name} must be {said}{', or None' * optional}. Got {value!r}.")


def moved(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state after a change of some of its fields; a name or a value that is none is refused."""
    for name in change:
        if name not in DEFAULT:
            raise BadParameter(
                f"The view has no {name!r}.{did_you_mean(str(name), list(DEFAULT))} It has: {', '.join(DEFAULT)}."
            )
        _check(name, change[name])
    return {**DEFAULT, **old, **change}
