"""Showing that something is going on, to whoever is watching."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any


@contextmanager
def working(
    what: str, doing: str = "asking the model"
) -> Iterator[tuple[Any, Callable[[int, int], None]]]:
    """Show on standard error what is being done and how long it will take, if a person is there to see it.

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
        yield (
            console,
            lambda done, total: bar.update(task, description=doing, completed=done, total=total),
        )
