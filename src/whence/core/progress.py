"""Progress of long work: the callback, and a counter that calls it."""

from collections.abc import Callable

Progress = Callable[[int, int], None]  # units done, units in total


class ProgressCounter:
    """Counter of finished units of work, such as forward passes, that calls a progress callback."""

    def __init__(self, progress: Progress | None, total: int = 0) -> None:
        self._progress = progress
        self._total = total
        self._done = 0.0

    def add(self, units: float) -> None:
        """Count finished units, or parts of one."""
        self._done += units
        if self._progress is not None:
            self._progress(min(round(self._done), self._total), self._total)

    def expect(self, remaining: int) -> None:
        """Set the number of remaining units to a better estimate."""
        self._total = round(self._done) + remaining
        self.add(0)

    def correct(self, expected: int, actual: int) -> None:
        """Replace an expected number of units by the actual one, so that progress ends at 100 %."""
        self._total += actual - expected
        if actual != expected:
            self.add(0)
