"""Why something could not be done: counted, and with the first examples it happened to."""

import re
from typing import Any

_NAMED = 5
# What differs between messages of one kind: the value that they quote, and numbers.
_VALUES = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\d[\d,.]*")


class Reasons:
    """Counted reasons. Errors that differ by a value only are one, said in the words of the first example's."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, why: str, example: int, code: str | None = None) -> None:
        """Count one example; `code` is that of the error, if it is one."""
        kind = why if code is None else f"{code}: {_VALUES.sub('', why)}"
        own = self._found.setdefault(kind, {"why": why, "examples": []})
        if example < min(own["examples"], default=example):
            own["why"] = why
        own["examples"].append(example)

    def __len__(self) -> int:
        return sum(len(own["examples"]) for own in self._found.values())

    def listed(self) -> list[dict[str, Any]]:
        """Return the reasons as plain data, the most frequent first."""
        rows = [
            {
                "why": own["why"],
                "count": len(own["examples"]),
                "examples": sorted(own["examples"])[:_NAMED],
            }
            for own in self._found.values()
        ]
        return sorted(rows, key=lambda row: (-row["count"], row["examples"]))
