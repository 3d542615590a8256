"""LazyTuple: a tuple that is built when it is first looked at.

A batch of 64 x 128 tokens has 8,192 tokens, which take longer to name than the model's pass on a GPU, and most are
never looked at.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

T = TypeVar("T")


class LazyTuple(Sequence[T]):
    """A tuple whose elements come from a function that is called once, when they are first needed."""

    __slots__ = ("_build", "_built")

    def __init__(self, build: Callable[[], Iterable[T]]) -> None:
        self._build: Callable[[], Iterable[T]] | None = build
        self._built: tuple[T, ...] = ()

    def build(self) -> tuple[T, ...]:
        """Return the elements as a tuple."""
        if self._build is not None:
            self._built = tuple(self._build())
            self._build = None
        return self._built

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[T, ...]: ...
    def __getitem__(self, index: int | slice) -> T | tuple[T, ...]:
        return self.build()[index]

    def __len__(self) -> int:
        return len(self.build())

    def __iter__(self) -> Iterator[T]:
        return iter(self.build())

    def __add__(self, other: Iterable[T]) -> tuple[T, ...]:
        return (*self.build(), *other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple | LazyTuple):
            return NotImplemented
        return self.build() == tuple(other)

    def __hash__(self) -> int:
        return hash(self.build())

    def __repr__(self) -> str:
        return repr(self.build())

    def __reduce__(self) -> Any:
        return tuple, (self.build(),)  # copies and pickles are plain tuples
