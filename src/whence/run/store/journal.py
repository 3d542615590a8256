"""What happened, when, and on which machine. No result, and nothing that a result depends on."""

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from whence.run.store.layout import Layout


class Journal:
    """Lines that are only ever added: one file for each time that somebody writes to the store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._number: int | None = None

    def add(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Write a line. OSErrors are the caller's."""
        folder = self._layout.folder / "journal"
        if self._number is None:
            folder.mkdir(exist_ok=True)
            self._number = max(self._layout.windows("journal"), default=-1) + 1
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = json.dumps({"at": now, "kind": kind, **facts}, default=str)
        with (folder / f"{self._number:06d}.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(line + "\n")

    def events(self, kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Go through all lines that can be read, in the order they were written."""
        for path in self._layout.own("journal"):
            with path.open(encoding="utf-8", errors="replace") as stream:
                for line in stream:
                    if kind is not None and f'"kind": "{kind}"' not in line:
                        continue
                    try:
                        event = json.loads(line)
                    except ValueError:
                        continue  # torn by a kill or a full disk
                    if isinstance(event, dict) and kind in (None, event.get("kind")):
                        yield event
