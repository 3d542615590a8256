"""What a run will take, found out by doing a little of it: model calls, memory and time.

A worker explains and tests some of the first examples, spread over their lengths, and what it gives is thrown away.
First one, to warm up; then more and more at a time, as long as that takes a moment. What an example took in the last
of these tasks, times the examples that are left, is the estimate. How far it may be off is told by how much that
still changed from one task to the next; it is a quarter at least.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.data.sets.source import Source
from whence.methods import is_reader, method
from whence.run.backends import Backend
from whence.run.choice import chosen, elsewhere, rows_chosen
from whence.run.chunks import length, windows
from whence.run.plan import Plan
from whence.run.store import Store
from whence.run.task import Done, Identity, Item, Task

SECONDS = 2.0  # that finding out may take, beside the first example,
_PATIENCE = 20.0  # and the few after it, even if they are as slow
_SIZES = (4, 16, 64)  # examples
_LEAST, _MOST = 1.25, 4.0  # factors that an estimate may be off by
_COLD, _ONCE = 3.0, 2.0  # the same, if only the first example was tried, or one task after it
_COUNTED = 50_000  # rows that are gone through to count them
TESTS = ""  # among the methods: what their tests take


@dataclass(frozen=True)
class Span:
    """A number that is not known exactly."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> "Span":
        """Return so many times as much."""
        return Span(self.low * factor, self.middle * factor, self.high * factor)


@dataclass(frozen=True)
class Part:
    """What one method takes, or what the tests of all methods take."""

    left: int | None  # examples to explain; None: nobody knows how many there are
    forward: float  # passes for each of them
    backward: float
    seconds: Span  # for each of them, of one worker
    shares: bool = False  # it reads passes that all others like it read, too


@dataclass(frozen=True)
class Estimate:
    """What a run will take."""

    rows: (
        int | None
    )  # that the plan chooses, bad ones and those of other parts included; None: nobody knows
    parts: Mapping[str, Part] = field(default_factory=dict)  # by method, and under "" of the tests
    memory: Mapping[str, int] = field(
        default_factory=dict
    )  # bytes at the peak of a worker: host, device
    workers: int = 1
    own: int | None = None  # examples of this part of the run, those that are done included
    sampled: int = 0  # examples that were explained to find out

    @property
    def nothing_left(self) -> bool:
        """Whether everything is there already."""
        return all(part.left == 0 for part in self.parts.values())

    @property
    def seconds(self) -> Span | None:
        """How long all of it takes, with all workers; None where nobody knows how many examples there are."""
        spans = [one.seconds.times(one.left) for one in self.parts.values() if one.left is not None]
        if len(spans) < len(self.parts):
            return None
        each = [sum(getattr(one, end) for one in spans) for end in ("low", "middle", "high")]
        return Span(*each).times(1 / self.workers)

    @property
    def calls(self) -> tuple[int, int] | None:
        """How many forward and backward passes of one example all of it takes."""
        if any(one.left is None for one in self.parts.values()):
            return None
        return self._passes("forward"), self._passes("backward")

    def _passes(self, which: str) -> int:
        """Add up passes; those that are shared count once."""
        counts: dict[bool, list[float]] = {True: [0.0], False: []}
        for one in self.parts.values():
            counts[one.shares].append(getattr(one, which) * (one.left or 0))
        return round(max(counts[True]) + sum(counts[False]))

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        whole, calls = self.seconds, self.calls
        return {
            "rows": self.rows,
            "examples": self.own,
            "workers": self.workers,
            "sampled": self.sampled,
            "seconds": whole and [whole.low, whole.middle, whole.high],
            "forward": calls and calls[0],
            "backward": calls and calls[1],
            "memory": dict(self.memory),
            "parts": [
                {
                    "method": name or None,
                    "left": one.left,
                    "forward": one.forward,
                    "backward": one.backward,
                    "seconds": [one.seconds.low, one.seconds.middle, one.seconds.high],
                }
                for name, one in self.parts.items()
            ],
        }


def estimated(plan: Plan, data: Source, workers: Backend, store: Store | None = None) -> Estimate:
    """Find out what is left of a plan, less what a store holds, and what that takes."""
    rows = rows_chosen(data, plan)
    own = _own(plan, data, rows, store)
    left = _left(workers.identity, own, {} if store is None else store.counts())
    missing = tuple(name for name, count in left.items() if count != 0)
    first = next(windows(chosen(data, plan), tested=bool(plan.metrics)), None)
    if not missing or first is None or not first.items:
        nothing = Part(0, 0.0, 0.0, Span(0.0, 0.0, 0.0))
        return Estimate(rows, dict.fromkeys(left, nothing), workers=workers.size, own=own)
    most = max((count for count in left.values() if count), default=None)
    done, spread = _sampled(workers, first.items, missing, most)
    last, examples = done[-1]
    return Estimate(
        rows,
        {**_parts(left, last, examples, spread, tests=bool(plan.metrics))},
        _peak([one for one, _ in done]),
        workers.size,
        own,
        # The middle one, done first, may be among the others.
        min(sum(count for _, count in done), len(first.items)),
    )


def _own(plan: Plan, data: Source, rows: int | None, store: Store | None) -> int | None:
    """Return how many examples this part of the run has: counted, or of very many about how many."""
    if rows is None:
        return None
    if rows <= _COUNTED:
        return sum(
            len(items)
            for window in windows(chosen(data, plan), tested=bool(plan.metrics))
            for number, items in enumerate(window.chunks)
            if not elsewhere(plan, window.number, number)
        )
    bad = 0 if store is None else sum(1 for _ in store.bad())
    return -(-(rows - bad) // (1 if plan.shard is None else plan.shard[1]))


def _left(identity: Identity, own: int | None, counts: Mapping[str, int]) -> dict[str, int | None]:
    """Return how many examples each method has still to explain or to have tested."""
    found: dict[str, int | None] = {}
    for name, setting in identity.explained.items():
        held = min(counts.get(one, 0) for one in (setting, *identity.tested[name].values()))
        found[name] = None if own is None else max(0, own - held)
    return found


def _sampled(
    workers: Backend, items: Sequence[Item], methods: tuple[str, ...], most: int | None
) -> tuple[list[tuple[Done, int]], float]:
    """Do some tasks, the last of them the largest; return them with their sizes, and the factor to be off by."""
    ordered = sorted(items, key=lambda item: (length(item), item.row))
    done = [(_do(workers, [ordered[len(ordered) // 2]], methods, 0), 1)]
    spread, began = _COLD, time.monotonic()
    for number, size in enumerate(_SIZES, 1):
        size = min(size, len(ordered), most or size)
        each = max(done[-1][0].seconds / done[-1][1], 1e-9)
        # What a warm worker takes is not known from the first example, so that one more task is done.
        room = _PATIENCE if number == 1 else SECONDS - (time.monotonic() - began)
        if size <= done[-1][1] or size * each > room:
            break
        places = [round(at * (len(ordered) - 1) / (size - 1)) for at in range(size)]
        done.append((_do(workers, [ordered[at] for at in places], methods, number), size))
        now = max(done[-1][0].seconds / size, 1e-9)
        # The very first example was slow to warm up, and tells nothing about the spread.
        spread = _ONCE if number == 1 else min(max(each / now, now / each, _LEAST), _MOST)
    return done, spread


def _do(workers: Backend, items: list[Item], methods: tuple[str, ...], number: int) -> Done:
    """Have one task done that belongs to no window."""
    (done,) = workers.map([Task(-1, number, tuple(items), methods)])
    return done


def _parts(
    left: Mapping[str, int | None], done: Done, examples: int, spread: float, *, tests: bool
) -> dict[str, Part]:
    """Share out what a task took, all of it, among the methods and their tests, by what each says it took."""
    known = {name: float(own.get("seconds", 0.0)) for name, own in done.costs.items()}
    whole = sum(known.values())
    asked = [name for name, count in left.items() if count != 0]
    found = {}
    for name, count in (*left.items(), *([(TESTS, _most(left))] if tests else [])):
        own = done.costs.get(name, {})
        share = known.get(name, 0.0) / whole if whole else 1 / max(1, len(asked))
        took = done.seconds * share / examples
        found[name] = Part(
            count,
            float(own.get("forward", 0.0)) / examples,
            float(own.get("backward", 0.0)) / examples,
            Span(took / spread, took, took * spread),
            name != TESTS and is_reader(method.get(name)),
        )
    return found


def _most(left: Mapping[str, int | None]) -> int | None:
    known = [count for count in left.values() if count is not None]
    return max(known) if len(known) == len(left) else None


def _peak(done: Sequence[Done]) -> dict[str, int]:
    names = sorted({name for one in done for name in one.memory})
    return {name: max(one.memory.get(name, 0) for one in done) for name in names}


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
