"""A file piece by piece, in bounded memory: what is too large or no text is named, and what follows is read.

One row that cannot be read is an `Unreadable`. Where nobody can say how many rows are lost, the whole is an error.
"""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from tempfile import TemporaryFile
from typing import IO

from whence.core.errors import BadExamples

ROW = 16 * 2**20  # bytes of one row, at most
_PASSED = 2**30  # bytes of one line, at most, through which its end is looked for
_STEP = 2**20
_UNPACKED = 2**30  # bytes of a compressed file, at most, where all of it is needed at once


@dataclass(frozen=True)
class Unreadable:
    """One row that cannot be read."""

    where: str
    why: str

    def error(self) -> BadExamples:
        """Return it as an error, for those who need every row."""
        return BadExamples(f"{self.where}: {self.why}")


@contextmanager
def unpacked(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Read through the compression of a .gz; one that breaks off or is damaged is an error when that is reached."""
    if not is_packed(name):
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as plain:
            yield plain  # type: ignore[misc]  # a file in all but its declared type
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise BadExamples(
            f"{name} is not a whole gzip file ({error}). Compress it again."
        ) from None


def is_packed(name: str) -> bool:
    """Say whether a file is compressed."""
    return name.lower().endswith(".gz")


@contextmanager
def on_disk(name: str, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Unpack a compressed file that cannot be read from its beginning to its end."""
    with TemporaryFile() as whole:
        while some := file.read(_STEP):
            if whole.tell() + len(some) > _UNPACKED:
                raise BadExamples(
                    f"{name} holds more than {_UNPACKED >> 20} MiB. Unpack it first, or leave the compression to the "
                    "format."
                )
            whole.write(some)
        whole.seek(0)
        yield whole


def lines(name: str, file: IO[bytes]) -> Iterator[tuple[str, str] | Unreadable]:
    """Yield the lines that are not blank, each with its place; only a line feed ends one, whatever else is in it."""
    number = 0
    while raw := file.readline(ROW + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(raw) > ROW:
            if not raw.endswith(b"\n"):
                _pass_over(where, file)
            yield Unreadable(where, f"more than {ROW >> 20} MiB. Cut the text.")
            continue
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\n")
        except UnicodeDecodeError as error:
            yield Unreadable(where, not_text(error.reason, raw[error.start]))
            continue
        if line.strip():
            yield where, line.removesuffix("\r")


def not_text(reason: str, byte: int) -> str:
    """Say that a byte belongs to no text."""
    return f"not UTF-8 text ({reason}, byte {byte:#04x}). Convert the file to UTF-8."


def _pass_over(where: str, file: IO[bytes]) -> None:
    passed = ROW
    while (rest := file.readline(_STEP)) and not rest.endswith(b"\n"):
        passed += len(rest)
        if passed > _PASSED:
            raise BadExamples(
                f"{where}: more than {_PASSED >> 20} MiB without the end of a line. Write one row a line."
            )


class Records:
    """Lines of text, of which several may be one row. Bytes that are no text become lone surrogates."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self._name, self._number, self._size = name, 0, 0
        self._text = TextIOWrapper(file, "utf-8-sig", errors="surrogateescape", newline="")

    def __iter__(self) -> "Records":
        return self

    def __next__(self) -> str:
        line = self._text.readline(ROW + 1)
        if not line:
            raise StopIteration
        self._number += 1
        self._size += len(line)
        if self._size > ROW:
            raise BadExamples(
                f"{self._name}, line {self._number}: a row of more than {ROW >> 20} MiB. Cut the text, or close the "
                'quotation that takes in what follows: ".'
            )
        return line

    def release(self) -> None:
        """Let go of the file without closing it."""
        self._text.detach()

    def new_row(self) -> None:
        """Start to count the size of the next row."""
        self._size = 0
