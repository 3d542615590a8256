"""Who does the work: in this process, in several, or on a cluster. One method each, and the same rows from all."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from whence.run.task import Done, Identity, Task


class Backend(Protocol):
    """Workers that have the model loaded. To be used in a `with` block, which starts and ends them."""

    def __enter__(self) -> "Backend": ...

    def __exit__(self, *error: object) -> None: ...

    @property
    def identity(self) -> Identity:
        """What the workers' model and code are; they are started for it, if they are not."""
        ...

    @property
    def size(self) -> int:
        """How many workers there are."""
        ...

    def map(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Do the tasks, in any order. No more are taken from the iterator than the workers are about to need.

        A worker that dies is replaced, and what it was at is given to another; a task that workers die of again and
        again is cut into single examples, and an example that they die of becomes rows with an error.
        """
        ...
