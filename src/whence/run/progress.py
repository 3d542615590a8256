"""How far a run is, method by method: what is done, failed and left, how fast it goes, and how long it will take.

Times are differences of a clock that only goes forward, so that it does not matter when somebody sets the other one.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from whence.run.cost import Estimate
from whence.run.plan import Plan
from whence.run.task import Done, Identity, Task
from whence.run.watch import Opened, Silent

_LATELY = 64  # tasks whose times tell how fast it goes now


@dataclass(frozen=True)
class Standing:
    """Where one method is."""

    method: str
    done: int  # examples, those from before included
    before: int  # of these, what was there when the run began
    failed: int  # of these
    total: int | None  # None: nobody knows yet
    rate: float | None  # examples a second, lately; None: nothing was done yet
    seconds: float | None  # that are left; None: nobody knows

    @property
    def left(self) -> int | None:
        """How many examples are to come."""
        return None if self.total is None else max(0, self.total - self.done)


class Progress(Silent):
    """Counts what happens; made to be subclassed by who shows it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._methods: tuple[str, ...] = ()
        self._total: int | None = None
        self._seen = 0  # examples in the windows that were opened
        self._found: Counter[str] = (
            Counter()
        )  # what was there before, as far as it was counted beforehand
        self._before: Counter[str] = Counter()  # the same, in the windows that were opened
        self._done: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._open: dict[tuple[int, int], Task] = {}
        self._began = clock()
        self._expected: float | None = None  # seconds in all, before any task is done
        self._lately: deque[tuple[float, Counter[str]]] = deque(maxlen=_LATELY)
        self.bad = 0
        self.tests_failed = 0

    def start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Take the methods' names."""
        self._methods = tuple(identity.explained)

    def estimate(self, found: Estimate) -> None:
        """Take how many examples there will be, and begin to count the time."""
        self._total = found.own
        self._expected = None if found.seconds is None else found.seconds.middle
        for name, part in found.parts.items():
            if found.own is not None and part.left is not None:
                self._found[name] = found.own - part.left
        self._began = self._clock()

    def window(self, opened: Opened) -> None:
        """Count what is there already."""
        self._seen += opened.examples
        self.bad += opened.bad
        self._before.update(opened.held)
        self._failed.update(opened.failed)
        self._open.update({(task.window, task.chunk): task for task in opened.missing})

    def done(self, done: Done) -> None:
        """Count what a task gave."""
        task = self._open.pop((done.window, done.chunk))
        counted = Counter(dict.fromkeys(task.methods, len(task.items)))
        self._done.update(counted)
        found = done.counted
        self._failed.update(found.failed)
        self.tests_failed += found.untested
        self._lately.append((self._clock(), counted))

    @property
    def seconds(self) -> float:
        """How long it has been at work."""
        return self._clock() - self._began

    @property
    def examples(self) -> tuple[int, int | None]:
        """How many examples every method is done with, and how many there are, if that is known."""
        done = [
            max(self._found[name], self._before[name]) + self._done[name] for name in self._methods
        ]
        least, total = min(done, default=0), self._whole()
        return least if total is None else min(least, total), total

    @property
    def begun(self) -> bool:
        """Whether it is known what there is to do."""
        return bool(self._seen or self._total is not None)

    @property
    def new(self) -> int:
        """How many explanations were made in this run."""
        return self._done.total()

    @property
    def failed(self) -> int:
        """How many explanations failed, now and before."""
        return self._failed.total()

    @property
    def held(self) -> int:
        """How many explanations there are, failures included."""
        return self._before.total() + self._done.total()

    def standings(self) -> list[Standing]:
        """Say where each method is."""
        return [self._standing(name) for name in self._methods]

    def left(self) -> float | None:
        """Return how many seconds are left; None while nobody knows."""
        known = [one.seconds for one in self.standings()]
        return (
            None if any(one is None for one in known) else max((s for s in known if s), default=0.0)
        )

    def _whole(self) -> int | None:
        """Of very many rows it is only about known how many can be read."""
        return None if self._total is None else max(self._total, self._seen)

    def _standing(self, name: str) -> Standing:
        before, total, rate = self._before[name], self._whole(), self._rate(name)
        done = before + self._done[name]
        left = None if total is None else max(0, total - done)
        seconds = 0.0 if left == 0 else left / rate if left and rate else self._yet_expected()
        return Standing(name, done, before, self._failed[name], total, rate, seconds)

    def _yet_expected(self) -> float | None:
        """Return what is left of the estimate, while the first task, which may be long, is not done."""
        if self._expected is None or self._lately or self._expected <= self.seconds:
            return None
        return self._expected - self.seconds

    def _rate(self, name: str) -> float | None:
        counts = sum(own[name] for _, own in self._lately)
        if not counts:
            return None
        # Of the oldest of these tasks it is known when it ended, and not when it began.
        since, until = self._began, self._lately[-1][0]
        if len(self._lately) == _LATELY:
            since = self._lately[0][0]
            counts -= self._lately[0][1][name]
        return counts / (until - since) if counts and until > since else None
