"""All that a store holds of a window: what is whole, and what is not. Nothing is changed by looking."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from whence.core.errors import CannotRead
from whence.run.store import pending, rows
from whence.run.store.layout import Layout
from whence.run.store.schema import TABLES, VERSION
from whence.run.store.seal import unsealed

Index = dict[str, Any]


@dataclass
class Opened:
    """A window as it was found."""

    index: Index | None = None  # its commit
    coming: Index | None = None  # a commit that was under way when a run was killed
    parts: dict[str, bytes] = field(
        default_factory=dict
    )  # by table: a file that is what a commit says
    chunks: list[tuple[Path, dict[str, pa.Table]]] = field(default_factory=list)
    damage: list[tuple[Path, str]] = field(default_factory=list)

    def tables(self, name: str) -> Iterator[pa.Table]:
        """Go through the rows of a table: those that are committed, then those of each chunk."""
        if name in self.parts:
            yield rows.read(self.parts[name])
        yield from (tables[name] for _, tables in self.chunks)

    def light(self, name: str) -> Iterator[pa.Table]:
        """The same, less all columns that do not tell which results there are."""
        if name in self.parts:
            yield rows.read(self.parts[name], rows.LIGHT)
        yield from (tables[name].select(rows.LIGHT) for _, tables in self.chunks)

    @property
    def whole(self) -> bool:
        """Whether the window is committed, and nothing else is there."""
        return self.index is not None and not (self.coming or self.chunks or self.damage)

    def arrived(self, coming: Index) -> bool:
        """Say whether all files of the commit that was under way are in their places."""
        found = {name: sha256(raw).hexdigest() for name, raw in self.parts.items()}
        return found == {name: facts["sha256"] for name, facts in coming["tables"].items()}


def opened(layout: Layout, window: int, thorough: bool = False) -> Opened:
    """Read all files of a window, and hold each against its checksum; if thorough, every page of it, too."""
    found = Opened()
    found.index = _index(found, layout.index(window))
    found.coming = _index(found, layout.coming(window))
    for name in TABLES:
        _part(found, name, layout.part(name, window), thorough)
    for path in layout.chunks(window):
        try:
            found.chunks.append((path, pending.tables_of(content(path) or b"")))
        except ValueError as error:
            found.damage.append((path, str(error)))
    return found


def content(path: Path) -> bytes | None:
    """Read a file: None where there is none, nothing where the disk does not give it back."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise CannotRead(
            f"Cannot read {str(path)!r}: {error.strerror}. Allow it to be read."
        ) from None
    except OSError:
        return b""  # a folder of that name, or a bad place on the disk: damage like any other


def _index(found: Opened, path: Path) -> Index | None:
    raw = content(path)
    if raw is None:
        return None
    try:
        index = unsealed(raw)
        if index["version"] > VERSION:
            raise ValueError(f"its version is {index['version']}")
        return index
    except (ValueError, KeyError, TypeError) as error:
        found.damage.append((path, str(error)))
        return None


def _part(found: Opened, name: str, path: Path, thorough: bool) -> None:
    raw = content(path)
    commits = [one["tables"] for one in (found.index, found.coming) if one is not None]
    wanted = [one[name]["sha256"] for one in commits if name in one]
    if raw is None:
        # Where the commit under way takes a file away, or is the first to bring it, there may be none.
        if found.index is not None and name in found.index["tables"] and found.coming is None:
            found.damage.append((path, "it is missing"))
        return
    if sha256(raw).hexdigest() not in wanted:
        why = "its checksum does not fit" if wanted else "no index tells of it"
        found.damage.append((path, why))
        return
    try:
        rows.check(name, raw)
        if thorough:
            rows.read(raw)
        found.parts[name] = raw
    except ValueError as error:  # written by something else, index and all
        found.damage.append((path, str(error)))
