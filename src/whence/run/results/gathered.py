"""The results of a run as they lie in its folder, a window at a time: in bounded memory, whatever its size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.run.store import Store
from whence.run.store.manifest import settings_of
from whence.run.store.opened import Opened, opened
from whence.run.store.rows import gathered, read

Record = dict[str, Any]


@dataclass
class Reader:
    """Goes through the rows of a run that are of the settings it asks for now, and notes what could not be read."""

    store: Store
    damage: dict[str, str] = field(default_factory=dict)  # by file: why it is left out

    def __post_init__(self) -> None:
        self._settings = set(settings_of(self.store.manifest))

    def windows(self) -> list[int]:
        """Return the numbers of all windows of which anything is there."""
        layout = self.store.layout
        waiting = {layout.numbers(path)[0] for path in layout.chunks()}
        return sorted({*self.store.windows(), *waiting})

    def records(self, name: str, columns: Sequence[str]) -> Iterator[list[Record]]:
        """Go through a table, the rows of one window at a time, sorted as in the files."""
        for window in self.windows():
            if own := self.of(window, name, columns):
                yield own

    def of(self, window: int, name: str, columns: Sequence[str]) -> list[Record]:
        """Return the rows of one window."""
        found = opened(self.store.layout, window)
        for path, why in found.damage:
            self.damage[f"{path.parent.name}/{path.name}"] = why
        rows: list[Record] = _table(found, name, [*columns, "setting"]).to_pylist()
        return [row for row in rows if row["setting"] in self._settings]

    def find(self, row: int, method: str, columns: Sequence[str]) -> Record | None:
        """Return the explanation of one row of the data by a method, if it is there."""
        spans = {one["window"]: (one["first"], one["last"]) for one in self.store.indices()}
        for window in self.windows():
            first, last = spans.get(window, (None, None))
            if first is not None and last is not None and not first <= row <= last:
                continue
            for record in self.of(window, "explanations", columns):
                if record["row"] == row and record["method"] == method:
                    return record
        return None


def _table(found: Opened, name: str, columns: Sequence[str]) -> Any:
    wanted = list(dict.fromkeys(columns))
    if found.chunks:
        return gathered(name, list(found.tables(name))).select(wanted)
    if name in found.parts:
        return read(found.parts[name], wanted)
    return gathered(name, []).select(wanted)
