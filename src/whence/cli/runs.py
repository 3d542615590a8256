"""`whence runs`: what was run, and how far it is."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence.cli import asking
from whence.core.errors import CannotRead

if TYPE_CHECKING:
    from rich.console import RenderableType

_WIDE = 200
_DEPTH = 3  # folders within folders that are looked into


def runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[DIR]", help="A run's folder, or one that has runs somewhere in it."
        ),
    ] = Path(),
    as_json: asking.AsJson = False,
) -> None:
    """List the runs in a folder: model, data, how much is done and failed, and when it was last written to.

    Examples:

        whence runs

        whence runs results --json
    """
    from rich.console import Console
    from rich.text import Text

    if not folder.is_dir():
        raise CannotRead(
            f"There is no folder {str(folder)!r}. Give the folder of a run, or one with runs in it."
        )
    found = [_facts(one) for one in found_in(folder)]
    if as_json:
        asking.print_json({"version": 1, "kind": "list of runs", "runs": found})
    elif not found:
        print(f"There is no run in {folder}. Make one: whence run --help")
    else:
        # Who reads it from a pipe wants a run on each line.
        console = Console() if sys.stdout.isatty() else Console(width=_WIDE)
        console.print(_table(found, folder))
        for one in found:
            if one["why"]:
                console.print(Text(f"{one['folder']}: {one['why']}", "yellow"))


def found_in(folder: Path, depth: int = _DEPTH) -> list[Path]:
    """Return the folders of runs in a folder, itself included; within a run there is no other."""
    from whence.run.results import is_run

    if is_run(folder):
        return [folder]
    if depth == 0:
        return []
    inner = sorted(one for one in folder.iterdir() if one.is_dir() and not one.is_symlink())
    return [
        run for one in inner if not one.name.startswith(".") for run in found_in(one, depth - 1)
    ]


def _facts(folder: Path) -> dict[str, Any]:
    from whence.run.results import Run

    run = Run(folder)
    facts = run.facts()
    written = None if facts["why"] else run.written  # one that is damaged tells nothing
    return {**facts, "folder": str(folder), "written": written}


def _table(found: list[dict[str, Any]], folder: Path) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in (
        "run",
        "model",
        "data",
        "methods",
        "metrics",
        "done",
        "failed",
        "state",
        "written",
    ):
        right = name in ("methods", "metrics", "done", "failed")
        justify: Literal["left", "right"] = "right" if right else "left"
        # Of a narrow terminal's width, the name gets what the others leave; it is what is needed to go on.
        least = {"run": 12, "model": 8, "data": 8}.get(name)
        table.add_column(
            name, justify=justify, overflow="fold", no_wrap=least is None, min_width=least
        )
    for one in found:
        total = "" if one.get("total") is None else f" of {one['total']:,}"
        failed = one.get("failed") or 0
        table.add_row(
            Text(_within(one["folder"], folder)),
            Text(Path(str(one.get("model") or "")).name),
            Text(str(one.get("data") or "")),
            str(len(one.get("methods") or ())),
            str(len(one.get("metrics") or ())),
            f"{one.get('done') or 0:,}{total}",
            Text(f"{failed:,}", "bold red" if failed else "dim"),
            Text(str(one["state"])),
            Text(_minute(one["written"])),
        )
    return table


def _within(run: str, folder: Path) -> str:
    """Return what a run is called within the folder that was asked for."""
    inner = Path(run).relative_to(folder)
    return run if inner == Path() else str(inner)


def _minute(when: str | None) -> str:
    """Return a time of the journal to the minute."""
    return "" if when is None else when[:16].replace("T", " ")
