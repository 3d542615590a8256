"""Terminal display of a run: live progress, the estimate before it, and the summary at its end.

Apart from the command, so that `whence --help` and the completion of names import no torch: 0.2 s instead of 4 s.
"""

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from whence.cli import options
from whence.cli.failures import InterruptHandler
from whence.core.errors import NothingExplained, shorten_quote
from whence.core.files import quote_path
from whence.render.text import format_count
from whence.runs.observers import (
    METRICS_ENTRY,
    MethodProgress,
    RunEstimate,
    RunProgress,
    WindowStatus,
)
from whence.runs.plan import Plan
from whence.runs.results import RunFailures
from whence.runs.task import Identity, TaskResult
from whence.studies.audit.audit import format_duration

_LINE_INTERVAL_SECONDS = 30.0  # between two lines, if standard error is no terminal


class RunDisplay(RunProgress):
    """The progress display of a run: a live table on a terminal, else a line every 30 seconds."""

    def __init__(self, interrupts: InterruptHandler) -> None:
        super().__init__()
        self._interrupts = interrupts
        self._console = Console(stderr=True, highlight=False)
        self._live: Live | None = None
        self._last_line = time.monotonic()
        self._audit = False
        self.metrics = 0
        self.estimate: RunEstimate | None = None

    def __enter__(self) -> "RunDisplay":
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the live table from the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def on_start(self, plan: Plan, data: str, identity: Identity, workers: int) -> None:
        """Print the data, the model, and the number of methods, metrics and experiments."""
        super().on_start(plan, data, identity, workers)
        self._audit, self.metrics = bool(plan.audit), len(plan.metrics)
        self._print_line(data)
        parts = [format_count(len(identity.explained), "method")]
        parts += [format_count(len(plan.metrics), "metric")] if plan.metrics else []
        parts += [format_count(len(plan.audit), "experiment")] if plan.audit else []
        own = "" if plan.shard is None else f", part {plan.shard[0]} of {plan.shard[1]}"
        self._print_line(f"{identity.model.get('name', plan.model)}, {', '.join(parts)}{own}")

    def on_estimate(self, estimate: RunEstimate) -> None:
        """Print the estimate, and start the live table on a terminal."""
        super().on_estimate(estimate)
        self.estimate, self._last_line = estimate, time.monotonic()
        for line in _format_estimate(estimate):
            self._print_line(line)
        if self._audit:
            self._print_line("the audit of attention comes in addition")
        if self._console.is_terminal and not estimate.is_complete:
            self._live = Live(
                get_renderable=self._build_table,
                console=self._console,
                transient=True,
                refresh_per_second=2,
            )
            self._live.start()

    def on_window(self, status: WindowStatus) -> None:
        """Count a window, and print a line if one is due."""
        super().on_window(status)
        self._print_periodically()

    def on_task_done(self, result: TaskResult) -> None:
        """Count a task, and print a line if one is due."""
        super().on_task_done(result)
        self._print_periodically()

    def on_audit(self, name: str) -> None:
        """Print the name of the audit experiment that starts."""
        self.close()
        self._print_line(f"auditing attention: {name}")

    def on_interrupt(self) -> None:
        """Ignore further signals, and remove the live table."""
        self._interrupts.leaving = True
        self.close()

    def _print_line(self, line: str) -> None:
        self._console.print(Text(line, "dim"), soft_wrap=True)

    def _print_periodically(self) -> None:
        if self._console.is_terminal or time.monotonic() - self._last_line < _LINE_INTERVAL_SECONDS:
            return
        self._last_line = time.monotonic()
        self._print_line("; ".join(_format_method_progress(self.list_method_progress())))

    def _build_table(self) -> Table:
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("method")
        for name in ("done", "failed", "left", "per second", "time left"):
            table.add_column(name, justify="right")
        for row in self.list_method_progress():
            left = "?" if row.left is None else f"{row.left:,}"
            rate = "" if row.rate is None else f"{row.rate:.3g}"
            failed = Text(f"{row.failed:,}", "bold red" if row.failed else "dim")
            clock = _format_clock(row.seconds)
            table.add_row(row.method, f"{row.done:,}", failed, left, rate, clock)
        return table


_MIN_SPLIT_SECONDS = 10.0  # shorter estimates are not split by method


def _format_estimate(estimate: RunEstimate) -> list[str]:
    """Return the lines that describe an estimate: time, passes, memory, costliest methods."""
    rows = (
        "nobody knows how many rows"
        if estimate.rows is None
        else format_count(estimate.rows, "row")
    )
    if estimate.is_complete:
        return [f"{rows}: everything is there already"]
    left = [part.left for name, part in estimate.parts.items() if name != METRICS_ENTRY]
    calls, total = estimate.calls, estimate.seconds
    workers = "" if estimate.workers == 1 else f" with {estimate.workers} workers"
    basis = f"as tried on {format_count(estimate.sampled, 'example')}"
    lines = []
    if total is None or calls is None:
        # The seconds of one example, over all methods and metrics.
        each = [part.seconds for part in estimate.parts.values()]
        low, high = sum(span.low for span in each), sum(span.high for span in each)
        seconds = _format_seconds(low / estimate.workers, high / estimate.workers)
        lines.append(f"{rows}; each takes {seconds}{workers}, {basis}")
    else:
        to_make = format_count(sum(filter(None, left)), "explanation")
        seconds = _format_seconds(total.low, total.high)
        lines.append(f"{rows}, {to_make} to make: {seconds}{workers}, {basis}")
        passes = f"{calls[0]:,} forward and {format_count(calls[1], 'backward pass', 'es')}"
        lines.append(f"{passes} of one example{_format_memory(estimate.memory)}")
    by_cost = sorted(
        estimate.parts.items(), key=lambda item: -item[1].seconds.middle * (item[1].left or 1)
    )
    shares = []
    for name, part in by_cost[:3]:
        if part.left != 0:
            span = part.seconds.scale((part.left or 1) / estimate.workers)
            shares.append(f"{name or 'tests'} {_format_seconds(span.low, span.high)}")
    is_long = len(estimate.parts) > 1 and total is not None and total.high > _MIN_SPLIT_SECONDS
    return [*lines, *([f"most of it: {', '.join(shares)}"] if is_long else [])]


def format_interruption(watch: RunProgress, folder: Path) -> str:
    """Return the message of an interrupted run: examples done, and how to go on."""
    if not watch.has_work_known:
        return "interrupted before the work began; nothing is lost, and the same command goes on."
    done, total = watch.examples
    of = "" if total is None else f" of {total:,}"
    return (
        f"interrupted: {done:,}{of} examples are done by every method. All that was done is safe in {folder}; the "
        "same command goes on from there."
    )


def print_outcome(outcome: RunFailures, watch: "RunDisplay", folder: Path, as_json: bool) -> None:
    """Print the outcome of a run; raise NothingExplained if every explanation failed."""
    if as_json:
        options.print_json(_build_outcome_data(watch, folder, outcome))
    else:
        sys.stdout.write("\n".join(_format_summary(watch, folder, outcome)) + "\n")
    if watch.n_explanations and watch.n_failed == watch.n_explanations:
        why = next(iter(outcome.failures), "unknown reasons")
        raise NothingExplained(
            f"Every one of {format_count(watch.n_explanations, 'explanation')} failed, most of them with {why}. Correct what is "
            "wrong, and try again: --retry-failed."
        )


def _format_summary(watch: "RunDisplay", folder: Path, outcome: RunFailures) -> list[str]:
    examples = format_count(watch.examples[0], "example")
    methods = format_count(len(watch.list_method_progress()), "method")
    tested = f", tested by {format_count(watch.metrics, 'metric')}" if watch.metrics else ""
    made = f"{format_count(watch.n_explanations, 'explanation')}, {watch.n_new:,} of them new"
    took = format_duration(watch.seconds)
    lines = [f"{examples} explained by {methods}{tested}: {made}, in {took}."]
    for what, failures in (("explanation", outcome.failures), ("test", outcome.tests)):
        if failures:
            first = next(iter(failures.values()))
            failed = format_count(sum(group.count for group in failures.values()), what)
            reasons = ", ".join(f"{group.count:,} {code}" for code, group in failures.items())
            where = f"The first, row {first.row}, {first.method}"
            lines.append(f"{failed} failed: {reasons}. {where}: {shorten_quote(first.why, 200)}")
    if outcome.failures or outcome.tests:
        lines.append("What failed is not tried again by itself: --retry-failed.")
    if outcome.bad:
        rows = "row was" if len(outcome.bad) == 1 else "rows were"
        where, why = outcome.bad[0]["where"], shorten_quote(outcome.bad[0]["why"], 200)
        lines.append(f"{len(outcome.bad):,} {rows} left out; the first: {where}: {why}")
    return [*lines, f"Results are in {folder}. Next: whence report {quote_path(folder)}"]


def _build_outcome_data(watch: "RunDisplay", folder: Path, outcome: RunFailures) -> dict[str, Any]:
    failures, tests = (
        [{"error": code, **asdict(group)} for code, group in groups.items()]
        for groups in (outcome.failures, outcome.tests)
    )
    return {
        "version": 1,
        "kind": "outcome",
        "folder": str(folder),
        "examples": watch.examples[0],
        "explanations": watch.n_explanations,
        "new": watch.n_new,
        "failed": watch.n_failed,
        "seconds": watch.seconds,
        "methods": [
            {"method": row.method, "done": row.done, "before": row.before, "failed": row.failed}
            for row in watch.list_method_progress()
        ],
        "failures": failures,
        "tests_failed": tests,
        "bad": outcome.bad,
        "estimate": None if watch.estimate is None else watch.estimate.to_dict(),
    }


def _format_method_progress(standings: list[MethodProgress]) -> list[str]:
    """Return the progress of methods as phrases; methods with equal progress share one."""
    groups: dict[str, list[str]] = {}
    for row in standings:
        of = "" if row.total is None else f" of {row.total:,}"
        failed = f", {row.failed:,} failed" if row.failed else ""
        left = "" if row.seconds is None else f", {_format_clock(row.seconds)} left"
        groups.setdefault(f"{row.done:,}{of}{failed}{left}", []).append(row.method)
    return [
        f"{', '.join(n) if len(n) < 4 else f'{len(n)} methods'} {where}"
        for where, n in groups.items()
    ]


def _format_seconds(low: float, high: float) -> str:
    """Return a range of seconds in hours, minutes or seconds, as text."""
    if high < 1:
        return "less than a second"
    for size, name in ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds")):
        if high >= 2 * size or size == 1.0:
            return f"{low / size:.2g} to {high / size:.2g} {name}"
    raise AssertionError("the last size always fits")


def _format_memory(peak: Mapping[str, int]) -> str:
    parts = []
    for name, what in (("host", "memory"), ("device", "memory of the device")):
        if size := peak.get(name, 0):
            unit, sign = (2**30, "GiB") if size >= 2**30 else (2**20, "MiB")
            parts.append(f"about {size / unit:.3g} {sign} of {what}")
    return f"; at the peak {' and '.join(parts)} for a worker" if parts else ""


def _format_clock(seconds: float | None) -> str:
    """Return seconds as H:MM:SS or M:SS; "?" if unknown."""
    if seconds is None:
        return "?"
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60}:{rest % 60:02d}"
