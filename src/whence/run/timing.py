"""What testing took, beside explaining: the two take turns within a batch."""

import time

from whence.trial import Trial


class Testing:
    """What testing takes: a clock that runs from the first test of a batch to its last, and passes of the model."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.forward = self.backward = 0
        self._since: float | None = None
        self._waiting = 0

    def begin(self, trial: Trial) -> None:
        """Note that a trial is about to be tested: the first part of each, which asks nothing (whence.trial)."""
        self._waiting += 1
        if self._since is None:
            self._since = time.perf_counter()

    def end(self, trial: Trial) -> None:
        """Note that a trial was tested; after the last one of a batch the clock stops."""
        self.backward += trial.again.passes.backward
        self._waiting -= 1
        if self._waiting <= 0:
            self.stop()

    def stop(self) -> None:
        """Stop the clock, whatever is still waiting."""
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
        self._since, self._waiting = None, 0

    def costs(self) -> dict[str, float]:
        """Return what it took, as a worker tells it."""
        return {"seconds": self.seconds, "forward": self.forward, "backward": self.backward}
