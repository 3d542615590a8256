"""Progress bar of commands (lines without a terminal), and a garbage-collector pause for faster imports.

torch and transformers make a third of a million objects that stay; without the garbage collector the first
answer comes sooner (bench/cold_start.py).
"""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Context manager: import heavy packages without the garbage collector.

    torch and transformers make a third of a million objects that stay; looking for garbage among them again and
    again is a good part of the time until the first answer (bench/cold_start.py). Afterwards they are frozen.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


LINE_INTERVAL_SECONDS = 30.0  # between two lines, if standard error is no terminal


@contextmanager
def show_progress(
    what: str, doing: str = "asking the model"
) -> Iterator[tuple[Any, Callable[[int, int], None]]]:
    """Context manager: show progress on standard error, as a bar or, without a terminal, as lines.

    Yields the console and a callback for (units done, units in all).
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    is_tty = console.is_terminal
    bar = Progress(*columns, console=console, transient=True, disable=not is_tty)
    with bar if is_tty else nullcontext():  # older rich prints a newline even for a disabled bar
        task = bar.add_task(what, total=None)

        def update(done: int, total: int) -> None:
            bar.update(task, description=doing, completed=done, total=total)

        yield console, update if is_tty else _LineProgress(console, doing)


class _LineProgress:
    """A progress callback that prints a line every 30 seconds: units done and time left."""

    def __init__(self, console: Any, doing: str) -> None:
        self._console, self._doing = console, doing
        self._last_line = time.monotonic()
        self._began: tuple[float, int] | None = None  # time and units of the first call

    def __call__(self, done: int, total: int) -> None:
        """Print the progress, if the last line is at least 30 seconds old."""
        now = time.monotonic()
        if self._began is None:
            self._began = (now, done)
        if now - self._last_line < LINE_INTERVAL_SECONDS or not total:
            return
        self._last_line = now
        self._console.print(
            f"{self._doing}: {done:,} of {total:,}{self._format_time_left(now, done, total)}",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )

    def _format_time_left(self, now: float, done: int, total: int) -> str:
        assert self._began is not None
        began, first = self._began
        if done <= first or done >= total:
            return ""
        seconds = round((now - began) / (done - first) * (total - done))
        return f", {seconds // 60}:{seconds % 60:02d} left"
