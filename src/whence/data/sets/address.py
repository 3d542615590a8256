"""Files and folders wherever they are: on this machine, or at any address that fsspec knows.

Only this module knows fsspec. What a folder names is looked for in the folder alone: a name that leads out of it, by
`..`, as an absolute path or through a link, is refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import walk
from pathlib import Path, PurePosixPath
from stat import S_ISREG
from typing import IO, Any

from whence.core.errors import BadExamples, WhenceError, short

_BUFFER = 2**20  # lines may be long
_PICTURE = 256 * 2**20  # bytes that are read at once, at most


def is_far(given: str | Path) -> bool:
    """Say whether this is an address such as s3://bucket/file.csv, and not a path of this machine."""
    return isinstance(given, str) and "://" in given and local(given) is None


def local(given: str | Path) -> Path | None:
    """Return the path on this machine that is meant, if one is."""
    text = str(given)
    if "::" not in text and text.startswith("file://"):
        return Path(text.removeprefix("file://"))
    return None if isinstance(given, str) and "://" in text else Path(given)


def file_name(given: str | Path) -> str:
    """Return the name of the file at an address, which says what it is, and nothing of who may read it."""
    path = local(given)
    if path is not None:
        return path.name
    parts = [part.partition("://")[2] if "://" in part else part for part in str(given).split("::")]
    where = next((part for part in parts if PurePosixPath(part).suffix), parts[-1])
    if str(given).startswith(("http:", "https:")) or "::http" in str(given):
        where = where.partition("?")[0].partition("#")[0]
    return PurePosixPath(where).name


@contextmanager
def opened(given: str | Path, allowed: str) -> Iterator[IO[bytes]]:
    """Open a file to be read; `allowed` is what the error says to give instead."""
    path = local(given)
    if path is None:
        far = _far(
            str(given)
        )  # it is held as long as the file: an archive is closed with its last holder
        with _named(str(given)), far.opened() as file:
            yield file
        return
    try:
        # A pipe would be waited for, and cannot be read twice; a device has no end.
        if path.exists() and not (S_ISREG(path.stat().st_mode) or path.is_dir()):
            raise BadExamples(
                f"{path.name!r} is no ordinary file. Save what it gives, and name that."
            )
        file = path.open("rb", buffering=_BUFFER)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BadExamples(
            f"Cannot read {str(given)!r}: {why}. Give a file of examples: {allowed}."
        ) from None
    with file:
        yield file


@dataclass(frozen=True)
class Far:
    """One file elsewhere. It can be sent to other processes, and is read when it is wanted."""

    system: Any
    path: str

    def read(self) -> bytes:
        """Return what is in it, if that is no more than a picture can be."""
        with _named(self.path), self.opened() as file:
            raw: bytes = file.read(_PICTURE + 1)
        if len(raw) > _PICTURE:
            raise BadExamples(
                f"{PurePosixPath(self.path).name!r} has more than {_PICTURE >> 20} MiB. Make it smaller."
            )
        return raw

    def opened(self) -> Any:
        """Open it to be read, from its beginning to its end or here and there."""
        return self.system.open(self.path, "rb")


@dataclass(frozen=True)
class Folder:
    """A folder, here or elsewhere. The names of its files are relative to it, with slashes."""

    name: str
    root: Path | Far

    def files(self) -> list[str]:
        """Name all files, in order, those in folders within it included; links to folders stand for themselves."""
        if isinstance(self.root, Far):
            with _named(self.root.path):
                found = self.root.system.find(self.root.path)
            start = self.root.path.rstrip("/")
            names = [str(one).removeprefix(start).lstrip("/") for one in found]
        else:
            names = []
            for home, folders, files in walk(self.root):
                linked = [one for one in folders if (Path(home) / one).is_symlink()]
                within = Path(home).relative_to(self.root)
                names += [(within / one).as_posix() for one in (*files, *linked)]
        return sorted(names, key=PurePosixPath)

    def has(self, name: str) -> bool:
        """Say whether there is a file or a folder of that name."""
        if isinstance(self.root, Far):
            with _named(self.root.path):
                return bool(self.root.system.exists(f"{self.root.path.rstrip('/')}/{name}"))
        return (self.root / name).exists()

    def within(self, name: str) -> "Folder":
        """Return a folder in it."""
        return Folder(name, self._inside(name))

    def is_linked_folder(self, name: str) -> bool:
        """Say whether this is a link to a folder; none is followed."""
        return isinstance(self.root, Path) and (self.root / name).is_dir()

    def place(self, name: str) -> Path | Far:
        """Return where a file is; one that is not in the folder is refused."""
        path = self._inside(name)
        if isinstance(path, Path) and not path.is_file():
            what = "is a folder, or a link to one," if path.is_dir() else "is not there"
            raise BadExamples(f"{short(name, 60)!r} in the folder {self.name!r} {what}.")
        return path

    def _inside(self, name: str) -> Path | Far:
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == "/" or ".." in parts or "\0" in name:
            raise BadExamples(
                f"{short(name, 60)!r} lies outside of the folder {self.name!r}. Name what is in it."
            )
        if isinstance(self.root, Far):
            return Far(self.root.system, f"{self.root.path.rstrip('/')}/{name}")
        path = self.root / name
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (OSError, RuntimeError):  # links that lead to each other
            inside = False
        if not inside:
            raise BadExamples(
                f"{short(name, 60)!r} is a link that leads out of the folder {self.name!r}. Put the file there."
            )
        return path

    @contextmanager
    def opened(self, name: str) -> Iterator[IO[bytes]]:
        """Open one of its files."""
        place = self.place(name)
        if isinstance(place, Path):
            with place.open("rb") as file:
                yield file
        else:
            with _named(name), place.opened() as file:
                yield file


def folder(given: str | Path) -> Folder | None:
    """Return the folder at an address; None if there is none."""
    path = local(given)
    if path is not None:
        return Folder(path.resolve().name, path) if path.is_dir() else None
    far = _far(str(given))
    with _named(str(given)):
        return Folder(file_name(str(given)), far) if far.system.isdir(far.path) else None


def _far(given: str) -> Far:
    if any(".." in PurePosixPath(part).parts for part in given.replace("://", "/").split("::")):
        raise BadExamples(f"The address of {file_name(given)!r} has a part '..'. Write it without.")
    with _named(given):
        from fsspec.core import url_to_fs

        return Far(*url_to_fs(given))


@contextmanager
def _named(given: str) -> Iterator[None]:
    """Turn what goes wrong elsewhere into an error about the data."""
    name = file_name(given)
    try:
        yield
    except WhenceError:
        raise
    except ImportError as error:
        raise BadExamples(
            f"{name!r} is at an address that needs another package: {error}."
        ) from None
    except FileNotFoundError:
        raise BadExamples(f"Cannot read {name!r}: there is nothing at this address.") from None
    except Exception as error:
        # Every kind of address has a package of its own, and each has errors of its own.
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise BadExamples(
            f"Cannot read {name!r}: {why.rstrip('.')}. Check the address and the network."
        ) from None
