"""How far an audit is, in forward passes."""

from whence.explainer.work import Progress


class Tally:
    """Counts forward passes, and never past the experiment that is running."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._until = self._total = 0.0

    def expect(self, total: float) -> None:
        """Take note of how many there will be in all."""
        self._total = total

    def begin(self, count: float) -> None:
        """Take note of how many the next experiment takes."""
        self._until += count

    def add(self, count: float) -> None:
        """Count some."""
        self._tell(min(self._done + count, self._until))

    def end(self) -> None:
        """Count what the experiment was thought to take and did not."""
        self._tell(self._until)

    def _tell(self, done: float) -> None:
        self._done = done
        if self._progress is not None and self._total:
            self._progress(round(done), round(self._total))
