"""Showing that something is going on: a bar on a terminal, else a line now and then."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

EVERY = 30.0  # seconds between two lines, where nobody watches a terminal


@contextmanager
def working(
    what: str, doing: str = "asking the model"
) -> Iterator[tuple[Any, Callable[[int, int], None]]]:
    """Show on standard error what is being done and how long it will take: a bar, or lines where it is no terminal.

    Yields that console, and the function to call with (units done, units in all).
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    shown = console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=not shown)
    with (
        bar if shown else nullcontext()
    ):  # an older rich ends also what it does not show with a line
        task = bar.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total)

        yield console, update if shown else _Lines(console, doing)


class _Lines:
    """Progress as lines: how much is done, and how long the rest will take."""

    def __init__(self, console: Any, doing: str) -> None:
        self._console, self._doing = console, doing
        self._spoke = time.monotonic()
        self._began: tuple[float, int] | None = None  # when the first unit was done

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is, if the last line is long ago."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
        if now - self._spoke < EVERY or not total:
            return
        self._spoke = now
        self._console.print(
            f"{self._doing}: {done:,} of {total:,}{self._left(now, done, total)}",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    def _left(self, now: float, done: int, total: int) -> str:
        assert self._began is not None
        began, first = self._began
        if done <= first or done >= total:
            return ""
        seconds = round((now - began) / (done - first) * (total - done))
        return f", {seconds // 60}:{seconds % 60:02d} left"


"""A quicker cold start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import heavy packages without the garbage collector.

    torch and transformers make a third of a million objects that stay; looking for garbage among them again and
    again is a good part of the time until the first answer (bench/cold_start.py). Afterwards they are set aside.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
