"""A limit on the rows and cells of a data set that is kept in memory.

A file of kilobytes can hold millions of rows or of values in one row, and each of them is an object of Python once it
is read: bytes of a file say little about it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from whence.core.errors import TooLarge

CELLS = 10  # for each row that is allowed, on average

T = TypeVar("T")


def limited(name: str, stream: Iterable[T], most: int) -> Iterator[T]:
    """Yield rows until there are more than that many, or more than ten times as many cells; that is an error."""
    cells = 0
    for number, one in enumerate(stream, 1):
        if number > most:
            raise TooLarge(
                f"{name} has more than {most:,} rows, and a data set is kept in memory here. Give a part of it."
            )
        row = one[1] if isinstance(one, tuple) else None
        if isinstance(row, Mapping):
            cells += count_cells(row)
        if cells > CELLS * most:
            raise TooLarge(
                f"{name} has more than {CELLS * most:,} cells in its first {number:,} rows, and a data set is kept "
                "in memory here. Give a part of it."
            )
        yield one


def count_cells(row: Mapping[str, Any]) -> int:
    """Count the values of a row, and those in lists and mappings among them."""
    count = 0
    waiting: list[Iterable[Any]] = [row.values()]
    while waiting:
        for value in waiting.pop():
            count += 1
            if isinstance(value, Mapping):
                waiting.append(value.values())
            elif isinstance(value, list | tuple):
                waiting.append(value)
    return count
