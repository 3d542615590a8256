"""The state of the view, as the page has it: every field with its default."""

from collections.abc import Mapping
from typing import Any

from whence.core.errors import BadParameter, did_you_mean

# The same names and values as in web/src/state/state.ts; a test holds the two together.
DEFAULT: Mapping[str, Any] = {
    "page": "explain",
    "model": "",
    "other": "",
    "text": "",
    "pair": None,
    "methods": ["attcat"],
    "target": None,
    "of": "logit",
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
    "difference": False,
    "data": None,
    "result": None,
    "card": None,
    "tab": "",
    "rows": "",
}
NOTHING: Mapping[str, Any] = {"tokens": [], "edges": [], "head": None}


def moved(old: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state after a change of some of its fields; a name that is none is refused."""
    for name in change:
        if name not in DEFAULT:
            raise BadParameter(
                f"The view has no {name!r}.{did_you_mean(str(name), list(DEFAULT))} It has: {', '.join(DEFAULT)}."
            )
    return {**DEFAULT, **old, **change}
