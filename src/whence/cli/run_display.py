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
