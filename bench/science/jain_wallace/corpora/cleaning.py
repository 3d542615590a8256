"""Text cleaning of Jain and Wallace, into words separated by single spaces."""

import re
from functools import cache
from typing import Any


@cache
def _load_english() -> Any:
    import spacy

    return spacy.blank("en")  # the rules of the tokenizer; no model is needed


def normalise_spaces(text: str) -> str:
    """Replace white space by single spaces, and strip the ends."""
    return re.sub(r"\s+", " ", text).strip()


def tokenize_lower(text: str) -> list[str]:
    """Return spaCy's English tokens in lower case."""
    return [token.text.lower() for token in _load_english()(text)]


def clean_text(text: str) -> str:
    """Clean as they do for news and inference: spaCy's tokens, and `qqq` for whatever holds a digit."""
    return " ".join(
        "qqq" if any(sign.isdigit() for sign in word) else word
        for word in tokenize_lower(normalise_spaces(text))
    )
