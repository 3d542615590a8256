"""Workers elsewhere, as the pool that gives them work sees them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from whence.core.errors import WhenceError
from whence.run.task import Done, Identity, Task


@dataclass(frozen=True)
class Gone:
    """A worker that is no more, and how it ended."""

    why: str


# The first thing that a worker says is who it is, or why it cannot start; then, task by task, what it did.
Said = Identity | Done | WhenceError | Gone
Hand = TypeVar("Hand")


class Crew(Protocol[Hand]):
    """A place where workers can be started. It knows nothing of what they are given, and forgives nothing."""

    def open(self) -> None:
        """Get hold of the place."""
        ...

    def close(self) -> None:
        """Leave it; the workers are gone by then."""
        ...

    @property
    def size(self) -> int:
        """How many workers there may be."""
        ...

    def start(self) -> Hand:
        """Start a worker, and do not wait until it has loaded its model."""
        ...

    def give(self, hand: Hand, task: Task) -> None:
        """Give a worker a task, after those it has. If it is gone, `hear` will tell."""
        ...

    def hear(self, hands: Sequence[Hand]) -> list[tuple[Hand, Said]]:
        """Wait until one of them, or several, said something; at most one thing each."""
        ...

    def drop(self, hand: Hand) -> None:
        """End a worker at once, whatever it is at."""
        ...
