"""What a run shows while it goes on."""

import time
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from whence.cli.interrupt import Interrupts
from whence.cli.spoken import clock, counted, estimate_lines, lines_of
from whence.run.cost import Estimate
from whence.run.plan import Plan
from whence.run.progress import Progress
from whence.run.task import Done, Identity
from whence.run.watch import Opened

_EVERY = 30.0  # seconds between two lines, where nobody watches a terminal


class Shown(Progress):
    """Shows a run: a table that changes on a terminal, else a line now and then. To be used in a `with` block."""

    def __init__(self, interrupts: Interrupts) -> None:
        super().__init__()
        self._interrupts = interrupts
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._spoke = time.monotonic()
        self._audit = False
        self.metrics = 0
        self.found: Estimate | None = None

    def __enter__(self) -> "Shown":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the table off the terminal."""
        if self._live is not None:
            live, self._live = self._live, None
            live.stop()

    def start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Say what the data are, and by what they are explained."""
        super().start(plan, data, identity, workers)
        self._audit, self.metrics = bool(plan.audit), len(plan.metrics)
        self._say(data)
        parts = [counted(len(identity.explained), "method")]
        parts += [counted(len(plan.metrics), "metric")] if plan.metrics else []
        parts += [counted(len(plan.audit), "experiment")] if plan.audit else []
        own = "" if plan.shard is None else f", part {plan.shard[0]} of {plan.shard[1]}"
        self._say(f"{identity.model.get('name', plan.model)}, {', '.join(parts)}{own}")

    def estimate(self, found: Estimate) -> None:
        """Say what it will take, then show how far it is."""
        super().estimate(found)
        self.found, self._spoke = found, time.monotonic()
        for line in estimate_lines(found):
            self._say(line)
        if self._audit:
            self._say("the audit of attention comes in addition")
        if self._console.is_terminal and not found.nothing_left:
            self._live = Live(
                get_renderable=self._table,
                console=self._console,
                transient=True,
                refresh_per_second=2,
            )
            self._live.start()

    def window(self, opened: Opened) -> None:
        """Count it."""
        super().window(opened)
        self._now_and_then()

    def done(self, done: Done) -> None:
        """Count it."""
        super().done(done)
        self._now_and_then()

    def auditing(self, name: str) -> None:
        """Say which experiment is made."""
        self.close()
        self._say(f"auditing attention: {name}")

    def interrupted(self) -> None:
        """From now on nothing may disturb the end."""
        self._interrupts.leaving = True
        self.close()

    def _say(self, line: str) -> None:
        self._console.print(Text(line, "dim"), soft_wrap=True)

    def _now_and_then(self) -> None:
        if self._console.is_terminal or time.monotonic() - self._spoke < _EVERY:
            return
        self._spoke = time.monotonic()
        self._say("; ".join(lines_of(self.standings())))

    def _table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("method")
        for name in ("done", "failed", "left", "per second", "time left"):
            table.add_column(name, justify="right")
        for one in self.standings():
            left = "?" if one.left is None else f"{one.left:,}"
            rate = "" if one.rate is None else f"{one.rate:.3g}"
            failed = Text(f"{one.failed:,}", "bold red" if one.failed else "dim")
            table.add_row(one.method, f"{one.done:,}", failed, left, rate, clock(one.seconds))
        return table


"""What a run says in words: what it will take, where it is, and what came of it."""

import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.audit.plan import spoken
from whence.cli import asking
from whence.core.errors import NothingExplained, short
from whence.core.typed import typed
from whence.run.cost import TESTS, Estimate, Span
from whence.run.outcome import Failure, Outcome
from whence.run.progress import Progress, Standing

if TYPE_CHECKING:
    from whence.cli.running import Shown

_WORTH = 10.0  # seconds: of less, nobody asks what takes how much
_UNITS = ((2**30, "GiB"), (2**20, "MiB"))


def estimate_lines(found: Estimate) -> list[str]:
    """Say what a run will take."""
    rows = "nobody knows how many rows" if found.rows is None else counted(found.rows, "row")
    if found.nothing_left:
        return [f"{rows}: everything is there already"]
    methods = {name: part for name, part in found.parts.items() if name != TESTS}
    left = [part.left for part in methods.values()]
    calls, whole = found.calls, found.seconds
    workers = "" if found.workers == 1 else f" with {found.workers} workers"
    tried = f"as tried on {counted(found.sampled, 'example')}"
    lines = []
    if whole is None or calls is None:
        lines.append(
            f"{rows}; each takes {_range(_each(found), 1 / found.workers)}{workers}, {tried}"
        )
    else:
        made = sum(count for count in left if count is not None)
        lines.append(
            f"{rows}, {counted(made, 'explanation')} to make: {_range(whole)}{workers}, {tried}"
        )
        lines.append(
            f"{calls[0]:,} forward and {counted(calls[1], 'backward pass', 'es')} of one example"
            + _memory(found.memory)
        )
    dear = sorted(found.parts.items(), key=lambda one: -one[1].seconds.middle * (one[1].left or 1))
    shares = [
        f"{name or 'tests'} {_range(part.seconds, (part.left or 1) / found.workers)}"
        for name, part in dear[:3]
        if part.left != 0
    ]
    worth = len(found.parts) > 1 and whole is not None and whole.high > _WORTH
    return [*lines, *([f"most of it: {', '.join(shares)}"] if worth else [])]


def interrupted(watch: Progress, folder: Path) -> str:
    """Say how much is done, and that nothing is lost."""
    if not watch.begun:
        return "interrupted before the work began; nothing is lost, and the same command goes on."
    done, total = watch.examples
    of = "" if total is None else f" of {total:,}"
    return (
        f"interrupted: {done:,}{of} examples are done by every method. All that was done is safe in {folder}; the "
        "same command goes on from there."
    )


def answer(outcome: Outcome, watch: "Shown", folder: Path, as_json: bool) -> None:
    """Say what there is now, what failed and why, and what to do next; nothing but failures is an error."""
    if as_json:
        asking.print_json(_payload(watch, folder, outcome))
    else:
        sys.stdout.write("\n".join(_summary(watch, folder, outcome)) + "\n")
    if watch.held and watch.failed == watch.held:
        why = next(iter(outcome.failures), "unknown reasons")
        raise NothingExplained(
            f"Every one of {counted(watch.held, 'explanation')} failed, most of them with {why}. Correct what is "
            "wrong, and try again: --retry-failed."
        )


def _summary(watch: "Shown", folder: Path, outcome: Outcome) -> list[str]:
    examples, _ = watch.examples
    tested = f", tested by {counted(watch.metrics, 'metric')}" if watch.metrics else ""
    lines = [
        f"{counted(examples, 'example')} explained by {counted(len(watch.standings()), 'method')}{tested}: "
        f"{counted(watch.held, 'explanation')}, {watch.new:,} of them new, in {spoken(watch.seconds)}."
    ]
    for what, failures in (("explanation", outcome.failures), ("test", outcome.tests)):
        if failures:
            first = next(iter(failures.values()))
            reasons = ", ".join(f"{one.count:,} {code}" for code, one in failures.items())
            lines.append(
                f"{counted(sum(one.count for one in failures.values()), what)} failed: {reasons}. The first, row "
                f"{first.row}, {first.method}: {short(first.why, 200)}"
            )
    if outcome.failures or outcome.tests:
        lines.append("What failed is not tried again by itself: --retry-failed.")
    if outcome.bad:
        first_bad = outcome.bad[0]
        rows = "row was" if len(outcome.bad) == 1 else "rows were"
        lines.append(
            f"{len(outcome.bad):,} {rows} left out; the first: {first_bad['where']}: {short(first_bad['why'], 200)}"
        )
    return [*lines, f"Results are in {folder}. Next: whence report {typed(folder)}"]


def _payload(watch: "Shown", folder: Path, outcome: Outcome) -> dict[str, Any]:
    return {
        "version": 1,
        "kind": "outcome",
        "folder": str(folder),
        "examples": watch.examples[0],
        "explanations": watch.held,
        "new": watch.new,
        "failed": watch.failed,
        "seconds": watch.seconds,
        "methods": [
            {"method": one.method, "done": one.done, "before": one.before, "failed": one.failed}
            for one in watch.standings()
        ],
        "failures": _told(outcome.failures),
        "tests_failed": _told(outcome.tests),
        "bad": outcome.bad,
        "estimate": None if watch.found is None else watch.found.to_dict(),
    }


def _told(failures: Mapping[str, Failure]) -> list[dict[str, Any]]:
    return [{"error": code, **asdict(one)} for code, one in failures.items()]


def _each(found: Estimate) -> Span:
    """Add up what one example takes."""
    spans = [part.seconds for part in found.parts.values()]
    return Span(*(sum(getattr(one, end) for one in spans) for end in ("low", "middle", "high")))


def lines_of(standings: list[Standing]) -> list[str]:
    """Say where the methods are; those that are equally far are named together."""
    groups: dict[str, list[str]] = {}
    for one in standings:
        of = "" if one.total is None else f" of {one.total:,}"
        failed = f", {one.failed:,} failed" if one.failed else ""
        left = "" if one.seconds is None else f", {clock(one.seconds)} left"
        groups.setdefault(f"{one.done:,}{of}{failed}{left}", []).append(one.method)
    return [
        f"{', '.join(n) if len(n) < 4 else f'{len(n)} methods'} {where}"
        for where, n in groups.items()
    ]


def counted(number: int, what: str, more: str = "s") -> str:
    """Return so many of something, in words; `more` is what several of them end with."""
    return f"{number:,} {what}{'' if number == 1 else more}"


def _range(span: Span, factor: float = 1.0) -> str:
    """Return a time that is not known exactly as people say it: from the smaller to the larger."""
    low, high = span.low * factor, span.high * factor
    if high < 1:
        return "less than a second"
    for size, name in ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")):
        if high >= 2 * size or size == 1.0:
            return f"{low / size:.2g} to {high / size:.2g} {name}"
    raise AssertionError("the last size always fits")


def _memory(peak: Mapping[str, int]) -> str:
    told = [(peak.get("host", 0), "memory"), (peak.get("device", 0), "memory of the device")]
    parts = [f"about {_bytes(size)} of {what}" for size, what in told if size]
    return f"; at the peak {' and '.join(parts)} for a worker" if parts else ""


def _bytes(size: int) -> str:
    unit, name = next(((unit, name) for unit, name in _UNITS if size >= unit), (2**20, "MiB"))
    return f"{size / unit:.3g} {name}"


def clock(seconds: float | None) -> str:
    """Return a time that is left as a clock shows it."""
    if seconds is None:
        return "?"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
