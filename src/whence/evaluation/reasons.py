"""Why something could not be done: counted, and with the first examples it happened to."""

from typing import Any

from whence.core.errors import WhenceError

_NAMED = 5


class Reasons:
    """Counted reasons, Errors of one kind are one reason, said in the words of the first."""

    def __init__(self) -> None:
        self._found: dict[str, dict[str, Any]] = {}

    def add(self, why: str | WhenceError, example: int) -> None:
        """Count one example."""
        key = why if isinstance(why, str) else why.code
        own = self._found.setdefault(key, {"why": str(why), "examples": []})
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
