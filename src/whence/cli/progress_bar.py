"""Progress bar of commands (lines without a terminal), and a garbage-collector pause for faster imports.

torch and transformers make a third of a million objects that stay; without the garbage collector the first
answer comes sooner (bench/cold_start.py).
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from whence.render.text import sanitise_text


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


class ProgressBar:
    """A progress callback that moves a bar on standard error or, without a terminal, prints lines."""

    def __init__(self, console: Any, bar: Any, task: Any, doing: str, quiet: bool) -> None:
        self._console, self._bar, self._task, self._doing = console, bar, task, doing
        self._quiet = quiet
        self._last_line, self._began = time.monotonic(), 0.0
        self._first: int | None = None  # units of the first call

    def __call__(self, done: int, total: int) -> None:
        self._bar.update(self._task, description=self._doing, completed=done, total=total)
        now = time.monotonic()
        if self._first is None:
            self._began, self._first = now, done
        early = now - self._last_line < LINE_INTERVAL_SECONDS
        if self._console.is_terminal or early or not total:
            return
        self._last_line = now
        line = f"{self._doing}: {done:,} of {total:,}"
        if self._first < done < total:
            seconds = round((now - self._began) / (done - self._first) * (total - done))
            line += f", {seconds // 60}:{seconds % 60:02d} left"
        self._print(line)

    def announce(self, news: object) -> None:
        """Print a plan, an estimate or a note on the work."""
        if not self._quiet:
            self._print("\n".join(map(sanitise_text, str(news).split("\n"))))

    def _print(self, text: str) -> None:
        self._console.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def show_progress(
    what: str, doing: str = "asking the model", *, quiet: bool = False
) -> Iterator[tuple[Any, ProgressBar]]:
    """Context manager: show progress on standard error, as a bar or, without a terminal, as lines.

    Yields the console and a callback for (units done, units in all), which prints news unless `quiet`.
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    is_tty = console.is_terminal
    bar = Bar(*columns, console=console, transient=True, disable=not is_tty)
    with bar if is_tty else nullcontext():  # older rich prints a newline even for a disabled bar
        yield console, ProgressBar(console, bar, bar.add_task(what, total=None), doing, quiet)
