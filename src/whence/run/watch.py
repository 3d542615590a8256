"""Who is told how a run goes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from whence.run.cost import Estimate
from whence.run.plan import Plan
from whence.run.task import Done, Identity, Task


@dataclass(frozen=True)
class Opened:
    """The next examples: what is known of them already, and what will be done."""

    number: int  # of the window
    examples: int  # of it, without those that another part of the run does
    bad: int  # rows between them that cannot be read
    held: Mapping[str, int]  # by method: examples of which nothing is missing
    failed: Mapping[str, int]  # by method: those of them whose explanation failed before
    missing: list[Task] = field(default_factory=list)


class Watch(Protocol):
    """Told what happens, as it happens."""

    def start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """The plan is settled, the data can be read, and the workers have their model."""
        ...

    def estimate(self, found: Estimate) -> None:
        """What the run will take, before it starts."""
        ...

    def window(self, opened: Opened) -> None:
        """The next examples are looked at."""
        ...

    def done(self, done: Done) -> None:
        """A task is done, and its results are safe."""
        ...

    def auditing(self, name: str) -> None:
        """An experiment on attention begins."""
        ...

    def interrupted(self) -> None:
        """Somebody wants it to end: workers are about to be sent home, and what was done is safe."""
        ...


class Silent:
    """Tells nobody."""

    def start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Say nothing."""

    def estimate(self, found: Estimate) -> None:
        """Say nothing."""

    def window(self, opened: Opened) -> None:
        """Say nothing."""

    def done(self, done: Done) -> None:
        """Say nothing."""

    def auditing(self, name: str) -> None:
        """Say nothing."""

    def interrupted(self) -> None:
        """Say nothing."""
