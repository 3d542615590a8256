"""Paths in commands that people are told to type."""

import shlex
from pathlib import Path


def typed(path: str | Path) -> str:
    """Return a path as it is typed after a command: quoted if needed, and never taken for an option."""
    text = str(path)
    return shlex.quote(f"./{text}" if text.startswith("-") else text)
