"""How Jain and Wallace turn text into words; a word is what then stands between two spaces."""

import re
from functools import cache
from typing import Any


@cache
def _english() -> Any:
    import spacy

    return spacy.blank("en")  # the rules of the tokenizer; no model is needed


def spaced(text: str) -> str:
    """Put a single space wherever there is any white space, and none at the ends."""
    return re.sub(r"\s+", " ", text).strip()


def lowered(text: str) -> list[str]:
    """Return spaCy's English tokens in lower case."""
    return [token.text.lower() for token in _english()(text)]


def plain(text: str) -> str:
    """Clean as they do for news and inference: spaCy's tokens, and `qqq` for whatever holds a digit."""
    return " ".join(
        "qqq" if any(sign.isdigit() for sign in word) else word for word in lowered(spaced(text))
    )
