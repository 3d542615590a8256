"""The payload: one JSON object per input, the same on the command line, on a page and in a file."""

from collections.abc import Sequence
from typing import Any

VERSION = 1


def merge(payloads: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join the explanations of one input by several methods into one payload."""
    first = payloads[0]
    # What must be known of the input is said with each of them, and what of a method with that one alone.
    said: list[Any] = []
    for payload in payloads:
        said += [one for one in payload.get("warnings", ()) if one not in said]
    return {
        **first,
        "explanations": [e for payload in payloads for e in payload["explanations"]],
        **({"warnings": said} if said else {}),
    }


def listed(payloads: Sequence[dict[str, Any]], kind: str = "entities") -> dict[str, Any]:
    """Join what was explained about several "entities", or for several "targets", of one input into one object."""
    return {"version": VERSION, "kind": kind, kind: list(payloads)}
