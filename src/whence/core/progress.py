"""Progress of long work: the callback, and a counter that calls it."""

from collections.abc import Callable
from dataclasses import dataclass

Progress = Callable[[int, int], None]  # units done, units in total


def announce(progress: Progress | None, news: object) -> None:
    """Tell news of long work to a progress callback that has a method `announce`; `str(news)` is for people.

    News are plans with their estimates, trained epochs, and sentences.
    """
    hear = getattr(progress, "announce", None)
    if hear is not None:
        hear(news)


@dataclass
class ProgressCounter:
    """Counter of finished units of work, such as forward passes, that calls a progress callback."""

    progress: Progress | None
    total: int = 0
    done: float = 0.0

    def add(self, units: float) -> None:
        """Count finished units, or parts of one."""
        self.done += units
        if self.progress is not None:
            self.progress(min(round(self.done), self.total), self.total)

    def expect(self, remaining: int) -> None:
        """Set the number of remaining units to a better estimate."""
        self.total = round(self.done) + remaining
        self.add(0)

    def correct(self, expected: int, actual: int) -> None:
        """Replace an expected number of units by the actual one, so that progress ends at 100 %."""
        self.total += actual - expected
        if actual != expected:
            self.add(0)
