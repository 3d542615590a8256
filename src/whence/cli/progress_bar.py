"""Progress bar of commands (lines without a terminal), and a garbage-collector pause for faster imports.

torch and transformers make a third of a million objects that stay; without the garbage collector the first
answer comes sooner (bench/cold_start.py).
"""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from whence.core.progress import Progress


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
def show_progress(what: str, doing: str = "asking the model") -> Iterator[tuple[Any, Progress]]:
    """Context manager: show progress on standard error, as a bar or, without a terminal, as lines.

    Yields the console and a callback for (units done, units in all).
    """
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    is_tty = console.is_terminal
    bar = Bar(*columns, console=console, transient=True, disable=not is_tty)
    last_line, began, first = time.monotonic(), 0.0, -1  # first: units of the first call

    def update(done: int, total: int) -> None:
        nonlocal last_line, began, first
        bar.update(task, description=doing, completed=done, total=total)
        now = time.monotonic()
        if first < 0:
            began, first = now, done
        if is_tty or now - last_line < LINE_INTERVAL_SECONDS or not total:
            return
        last_line = now
        line = f"{doing}: {done:,} of {total:,}"
        if first < done < total:
            seconds = round((now - began) / (done - first) * (total - done))
            line += f", {seconds // 60}:{seconds % 60:02d} left"
        console.print(line, style="dim", highlight=False, markup=False, soft_wrap=True)

    with bar if is_tty else nullcontext():  # older rich prints a newline even for a disabled bar
        task = bar.add_task(what, total=None)
        yield console, update
