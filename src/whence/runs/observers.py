"""Estimate of a run's cost from timed sample tasks; observer interface; RunProgress, the counts for displays.

The estimate: a worker explains and tests some of the first examples, spread over their lengths; the results are thrown
away. First one example, to warm up, then 4 (for up to 20 s), then 16 and 64 while that takes two seconds in all. The cost
per example in the last task, times the examples left, is the estimate; its spread is the change from one task to the
next, at least a factor of 1.25.
"""

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from whence.core.progress import Progress
from whence.data.dataset import Dataset
from whence.methods import is_trace_method, method
from whence.runs.backends import Backend
from whence.runs.chunks import (
    count_characters,
    count_selected_rows,
    is_in_other_shard,
    iterate_selected_rows,
    iterate_windows,
)
from whence.runs.plan import Plan
from whence.runs.store import StoreReader
from whence.runs.task import Identity, Item, Task, TaskResult

PROBE_SECONDS = 2.0  # seconds after the first example for the third and later probe tasks
_SECOND_PROBE_SECONDS = 20.0  # limit of the second probe task
_FREE_PROBE_SECONDS = 0.5  # of a probe task that is done however little work there is
_PROBE_SIZES = (4, 16, 64)  # examples of a probe task, after one of 1
_MIN_SPREAD, _MAX_SPREAD = 1.25, 4.0  # bounds of the factor between estimate and truth
# That factor after the first example only, or after one more task.
_COLD_SPREAD, _SINGLE_TASK_SPREAD = 3.0, 2.0
_MAX_COUNTED_ROWS = 50_000  # more rows are not counted but estimated
METRICS_ENTRY = ""  # key of the metrics' cost among the methods'


class ValueRange(NamedTuple):
    """An estimated number with bounds."""

    low: float
    middle: float
    high: float

    def scale(self, factor: float) -> "ValueRange":
        """Return the range multiplied by a factor."""
        return ValueRange(*(bound * factor for bound in self))


@dataclass(frozen=True)
class MethodCost:
    """The estimated cost of one method, or of the metrics of all methods."""

    left: int | None  # examples to explain; None: unknown
    forward: float  # passes per example
    backward: float
    seconds: ValueRange  # per example, with one worker
    shares: bool = False  # a trace method: its passes are shared with other trace methods


@dataclass(frozen=True)
class RunEstimate:
    """The estimated cost of a run: time, passes and memory."""

    rows: int | None  # selected rows, unreadable ones and other shards included; None: unknown
    # By method, and under "" for the metrics.
    parts: Mapping[str, MethodCost] = field(default_factory=dict)
    memory: Mapping[str, int] = field(default_factory=dict)  # peak bytes of a worker: host, device
    workers: int = 1
    own: int | None = None  # examples of this shard, finished ones included
    sampled: int = 0  # examples explained for the estimate

    @property
    def is_complete(self) -> bool:
        """Whether no example is left to explain or measure."""
        return all(part.left == 0 for part in self.parts.values())

    @property
    def seconds(self) -> ValueRange | None:
        """The remaining seconds with all workers; None if the number of examples is unknown."""
        spans = [one.seconds.scale(one.left) for one in self.parts.values() if one.left is not None]
        if len(spans) < len(self.parts):
            return None
        bounds = [sum(ends) for ends in zip(*spans, strict=True)] or [0.0] * 3
        return ValueRange(*bounds).scale(1 / self.workers)

    @property
    def calls(self) -> tuple[int, int] | None:
        """The remaining forward and backward passes of single examples; None if unknown."""
        if any(part.left is None for part in self.parts.values()):
            return None
        counts = []
        for which in ("forward", "backward"):
            shared, own = 0.0, 0.0  # passes shared by trace methods count once
            for part in self.parts.values():
                passes = getattr(part, which) * (part.left or 0)
                shared, own = (max(shared, passes), own) if part.shares else (shared, own + passes)
            counts.append(round(shared + own))
        return counts[0], counts[1]

    def to_dict(self) -> dict[str, Any]:
        """Return the estimate as plain data."""
        whole, calls = self.seconds, self.calls
        return {
            "rows": self.rows,
            "examples": self.own,
            "workers": self.workers,
            "sampled": self.sampled,
            "seconds": whole and list(whole),
            "forward": calls and calls[0],
            "backward": calls and calls[1],
            "memory": dict(self.memory),
            "parts": [
                {
                    "method": name or None,
                    "left": part.left,
                    "forward": part.forward,
                    "backward": part.backward,
                    "seconds": list(part.seconds),
                }
                for name, part in self.parts.items()
            ],
        }


def estimate_cost(
    plan: Plan,
    data: Dataset,
    workers: Backend,
    store: StoreReader | None = None,
    share: float = 1.0,
) -> RunEstimate:
    """Return the estimated cost of a plan's remaining work, without results in the store.

    Trying examples may take up to `share` of that work, unless they are tried in no time.
    """
    rows, identity, tests = count_selected_rows(data, plan), workers.identity, bool(plan.metrics)
    own = _count_own_examples(plan, data, rows, store)
    counts = {} if store is None else store.count_results()
    left: dict[str, int | None] = {}  # by method, the examples still to be explained or measured
    for name, setting in identity.explained.items():
        held = min(counts.get(digest, 0) for digest in (setting, *identity.tested[name].values()))
        left[name] = None if own is None else max(0, own - held)
    missing = tuple(name for name, count in left.items() if count != 0)
    first = next(iterate_windows(iterate_selected_rows(data, plan), tested=tests), None)
    if not missing or first is None or not first.items:
        nothing = MethodCost(0, 0.0, 0.0, ValueRange(0.0, 0.0, 0.0))
        return RunEstimate(rows, dict.fromkeys(left, nothing), workers=workers.size, own=own)
    most = None if own is None else max(count or 0 for count in left.values())
    samples, spread = _time_sample_tasks(workers, first.items, missing, most, share)
    last, examples = samples[-1]
    costs: dict[str, Counter[str]] = {}
    for result in last:
        for name, own_cost in result.costs.items():
            costs.setdefault(name, Counter()).update(own_cost)
    whole = sum(float(cost["seconds"]) for cost in costs.values())
    parts = {}
    for name, count in {**left, **({METRICS_ENTRY: most} if tests else {})}.items():
        cost = costs.get(name, Counter())
        # A task's time is divided by the methods' own timings.
        part = cost["seconds"] / whole if whole else 1 / len(missing)
        took = sum(result.seconds for result in last) * part / examples
        parts[name] = MethodCost(
            count,
            cost["forward"] / examples,
            cost["backward"] / examples,
            ValueRange(took / spread, took, took * spread),
            name != METRICS_ENTRY and is_trace_method(method.get(name)),
        )
    memory: Counter[str] = Counter()
    for result in (result for results, _ in samples for result in results):
        memory |= Counter(result.memory)  # the larger of each two
    # The first probe, an example of middle length, may be among the others.
    sampled = min(sum(count for _, count in samples), len(first.items))
    return RunEstimate(rows, parts, dict(memory), workers.size, own, sampled)


def _count_own_examples(
    plan: Plan, data: Dataset, rows: int | None, store: StoreReader | None
) -> int | None:
    """Return the number of examples in this shard: counted, or estimated above 50,000 rows."""
    if rows is None:
        return None
    if rows > _MAX_COUNTED_ROWS:
        bad = 0 if store is None else len(store.list_bad_rows())
        return -(-(rows - bad) // (1 if plan.shard is None else plan.shard[1]))
    windows = iterate_windows(iterate_selected_rows(data, plan), tested=bool(plan.metrics))
    return sum(
        len(items)
        for window in windows
        for number, items in enumerate(window.chunks)
        if not is_in_other_shard(plan, window.number, number)
    )


def _time_sample_tasks(
    workers: Backend,
    items: Sequence[Item],
    methods: tuple[str, ...],
    most: int | None,
    share: float,
) -> tuple[list[tuple[list[TaskResult], int]], float]:
    """Return probe tasks' results with their sizes, growing, and the spread of the estimate."""
    ordered = sorted(items, key=lambda item: (count_characters(item), item.row))
    samples: list[tuple[list[TaskResult], int]] = []

    def probe(places: Sequence[int]) -> float:
        """Do a task that belongs to no window; return its seconds per example."""
        task = Task(-1, len(samples), tuple(ordered[at] for at in places), methods)
        results = list(workers.map([task]))  # one, unless an example kills workers
        samples.append((results, len(places)))
        return max(sum(result.seconds for result in results) / len(places), 1e-9)

    per_example, spread, began = probe([len(ordered) // 2]), _COLD_SPREAD, time.monotonic()
    for number, size in enumerate(_PROBE_SIZES, 1):
        size = min(size, len(ordered), most or size)
        # The first example includes warm-up, so a second task is done even if it is slow.
        room = _SECOND_PROBE_SECONDS if number == 1 else PROBE_SECONDS - (time.monotonic() - began)
        if most is not None:
            room = min(room, max(_FREE_PROBE_SECONDS, share * most * per_example))
        if size <= samples[-1][1] or size * per_example > room:
            break
        before = per_example
        per_example = probe([round(at * (len(ordered) - 1) / (size - 1)) for at in range(size)])
        change = max(before / per_example, per_example / before)
        # The first example includes warm-up: no spread can be computed from it.
        spread = min(max(change, _MIN_SPREAD), _MAX_SPREAD) if number > 1 else _SINGLE_TASK_SPREAD
    return samples, spread


@dataclass(frozen=True)
class WindowStatus:
    """The state of an opened window: results already stored, and the missing tasks."""

    number: int  # of the window
    examples: int  # of this shard
    bad: int  # unreadable rows
    held: Mapping[str, int]  # by method: examples with all results
    failed: Mapping[str, int]  # by method: of these, examples whose explanation failed
    missing: list[Task] = field(default_factory=list)


class RunObserver:
    """An observer of a run: one hook for each event, which does nothing unless a subclass says what."""

    def on_start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Handle the start: the plan is resolved, the data is readable, the model is loaded."""

    def on_estimate(self, estimate: RunEstimate) -> None:
        """Handle the cost estimate, before the first task."""

    def on_window(self, status: WindowStatus) -> None:
        """Handle an opened window."""

    def on_task_done(self, result: TaskResult) -> None:
        """Handle a finished task, whose results are stored."""

    def on_audit(self, name: str) -> None:
        """Handle the start of an audit experiment."""

    def on_interrupt(self) -> None:
        """Handle an interrupt, before the workers are killed; finished tasks are stored."""


_RECENT_TASKS = 64  # tasks over which the current rate is computed


@dataclass(frozen=True)
class MethodProgress:
    """The progress of one method."""

    method: str
    done: int  # finished examples, earlier sessions included
    before: int  # of these, stored before this session
    failed: int  # of these, failed explanations
    total: int | None  # None: unknown
    rate: float | None  # recent examples per second; None before the first task
    seconds: float | None  # remaining; None: unknown

    @property
    def left(self) -> int | None:
        """The number of examples left; None if unknown."""
        return None if self.total is None else max(0, self.total - self.done)


class RunProgress(RunObserver):
    """An observer that counts examples, for a progress callback; base class of displays."""

    def __init__(
        self, progress: Progress | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._progress = progress
        self._clock = clock
        self._methods: tuple[str, ...] = ()
        self._total: int | None = None
        self._n_opened = 0  # examples in the windows opened so far
        self._stored: Counter[str] = Counter()  # stored results by the estimate's count
        self._before: Counter[str] = Counter()  # stored results in the windows opened so far
        self._new: Counter[str] = Counter()
        self._failed: Counter[str] = Counter()
        self._began = clock()
        self._expected = 0.0  # estimated seconds of the run, used until a task is done
        self._recent: deque[tuple[float, Counter[str]]] = deque(maxlen=_RECENT_TASKS)
        self.bad = 0

    def on_start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Store the names of the methods."""
        self._methods = tuple(identity.explained)

    def on_estimate(self, estimate: RunEstimate) -> None:
        """Store the number of examples and the estimate, and start the clock."""
        self._total = estimate.own
        self._expected = 0.0 if estimate.seconds is None else estimate.seconds.middle
        for name, part in estimate.parts.items():
            if estimate.own is not None and part.left is not None:
                self._stored[name] = estimate.own - part.left
        self._began = self._clock()

    def on_window(self, status: WindowStatus) -> None:
        """Count the stored results of a window."""
        self._n_opened += status.examples
        self.bad += status.bad
        self._before.update(status.held)
        self._failed.update(status.failed)

    def on_task_done(self, result: TaskResult) -> None:
        """Count the results and failures of a task."""
        counted = result.count_explanations()
        self._new.update(counted)
        self._failed.update(result.count_explanations(failed=True))
        self._recent.append((self._clock(), counted))
        if self._progress is not None:
            done, total = self.examples
            self._progress(done, done if total is None else total)

    @property
    def seconds(self) -> float:
        """The seconds since the estimate."""
        return self._clock() - self._began

    @property
    def examples(self) -> tuple[int, int | None]:
        """The number of examples finished by every method, and the total, or None if unknown."""
        counts = [
            max(self._stored[name], self._before[name]) + self._new[name] for name in self._methods
        ]
        least, total = min(counts, default=0), self._count_total()
        return least if total is None else min(least, total), total

    @property
    def has_work_known(self) -> bool:
        """Whether the amount of work is known."""
        return bool(self._n_opened or self._total is not None)

    @property
    def n_new(self) -> int:
        """The number of explanations computed in this session."""
        return self._new.total()

    @property
    def n_failed(self) -> int:
        """The number of failed explanations, earlier sessions included."""
        return self._failed.total()

    @property
    def n_explanations(self) -> int:
        """The number of stored explanations, failures included."""
        return self._before.total() + self._new.total()

    def list_method_progress(self) -> list[MethodProgress]:
        """Return the progress of each method."""
        total, progress = self._count_total(), []
        for name in self._methods:
            before, rate = self._before[name], self._compute_rate(name)
            done = before + self._new[name]
            left = None if total is None else max(0, total - done)
            seconds = None
            if left is not None and (rate or not left):
                seconds = left / rate if rate else 0.0
            elif not self._recent and self._expected > self.seconds:
                # Until the first task, which may be long, is done.
                seconds = self._expected - self.seconds
            progress.append(
                MethodProgress(name, done, before, self._failed[name], total, rate, seconds)
            )
        return progress

    def _count_total(self) -> int | None:
        """Return the number of examples; above 50,000 rows it was estimated and may be too low."""
        return None if self._total is None else max(self._total, self._n_opened)

    def _compute_rate(self, name: str) -> float | None:
        counts = sum(own[name] for _, own in self._recent)
        if not counts:
            return None
        # The oldest of these tasks only marks the start: its own beginning is unknown.
        since, until = self._began, self._recent[-1][0]
        if len(self._recent) == _RECENT_TASKS:
            since = self._recent[0][0]
            counts -= self._recent[0][1][name]
        return counts / (until - since) if counts and until > since else None
