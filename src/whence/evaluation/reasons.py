"""Why something could not be done: counted, and with the first examples it happened to."""

from typing import Any

_NAMED = 5


class Reasons:
    """Counted reasons. Errors of one kind are one reason, said in the words of the first example's."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, why: str, example: int, code: str | None = None) -> None:
        """Count one example; `code` is that of the error, if it is one."""
        own = self._found.setdefault(code or why, {"why": why, "examples": []})
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
