"""Where things stand in a store's folder, and by what name they are known as its own."""

import re
from collections.abc import Iterator
from pathlib import Path

FOLDERS = ("explanations", "metrics", "index", "pending", "audits", "journal", "damaged")
_OWN = {
    "explanations": r"part-(\d{6,})\.parquet",
    "metrics": r"part-(\d{6,})\.parquet",
    "index": r"(\d{6,})(?:\.next)?\.json",
    "pending": r"(\d{6,})-(\d{3,})\.arrows",
    "audits": r"([a-z0-9_]+)\.json",
    "journal": r"(\d{6,})\.jsonl",
    ".": r"(manifest)\.json",
}
_TEMPORARY = r"\.%s\.[a-z0-9_]{8}"  # how whence.core.io calls a file that is not whole yet


class Layout:
    """The names of a store's files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest = self.folder / "manifest.json"
        self.lock = self.folder / "lock"

    def part(self, table: str, window: int) -> Path:
        """Return the file of a table that holds a window."""
        return self.folder / table / f"part-{window:06d}.parquet"

    def index(self, window: int) -> Path:
        """Return the file that says what a window's files must be."""
        return self.folder / "index" / f"{window:06d}.json"

    def coming(self, window: int) -> Path:
        """Return the file that says what they are about to become, while they are replaced."""
        return self.folder / "index" / f"{window:06d}.next.json"

    def pending(self, window: int, chunk: int) -> Path:
        """Return the file of a chunk that is done while its window is not."""
        return self.folder / "pending" / f"{window:06d}-{chunk:03d}.arrows"

    def chunks(self, window: int | None = None) -> list[Path]:
        """Return the files of all such chunks, or those of a window, in order."""
        found = ((self.numbers(path), path) for path in self.own("pending"))
        return [path for numbers, path in sorted(found) if window in (None, numbers[0])]

    def own(self, folder: str) -> Iterator[Path]:
        """Go through the files of a folder that are the store's own by their names."""
        return self._called(folder, _OWN[folder])

    def temporary(self) -> Iterator[Path]:
        """Go through the files that were being written when a run was killed."""
        for folder, name in _OWN.items():
            yield from self._called(folder, _TEMPORARY % name)

    def _called(self, folder: str, name: str) -> Iterator[Path]:
        known = re.compile(name)
        place = self.folder / folder
        if place.is_dir():
            yield from sorted(path for path in place.iterdir() if known.fullmatch(path.name))

    def windows(self, folder: str = "index") -> list[int]:
        """Return the numbers of the windows that a folder has a file of."""
        return sorted({self.numbers(path)[0] for path in self.own(folder)})

    @staticmethod
    def numbers(path: Path) -> tuple[int, ...]:
        """Return the numbers in a file's name: of the window, and of the chunk."""
        return tuple(map(int, re.findall(r"\d+", path.name)))

    @property
    def used(self) -> bool:
        """Whether the folder holds anything of a store."""
        return any(next(self.own(folder), None) is not None for folder in _OWN)
