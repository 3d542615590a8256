"""Ctrl-C and SIGTERM: the first ends the work where it can be ended; those that follow do not disturb that."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM: somebody asked the process to end."""


class Interrupts:
    """Turns signals into exceptions until it is told that everybody is leaving already."""

    def __init__(self) -> None:
        self.leaving = False

    def taken(self, number: int, frame: FrameType | None) -> None:
        """Raise, unless somebody has heard it before."""
        if not self.leaving:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Take over both signals; after an interrupt they stay taken over, as the process is about to end."""
    both = (signal.SIGINT, signal.SIGTERM)
    found = Interrupts()
    before = {number: signal.signal(number, found.taken) for number in both}
    try:
        yield found
    except KeyboardInterrupt:
        found.leaving = True
        raise
    finally:
        if not found.leaving:
            for number in both:
                signal.signal(number, before[number])
