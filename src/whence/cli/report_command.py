"""`whence store`: look after the folder of a run."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from whence.cli.answer import answering
from whence.cli.cold import importing
from whence.core.errors import BadStore
from whence.core.typed import typed

store = typer.Typer(
    help="Look after the folder of a run: verify, repair, merge, export.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]


@store.command("verify")
@answering
def verify(folder: Folder) -> None:
    """Read everything, and say what is wrong: checksums, columns, keys, rows that are there twice, files left over.

    The exit status is 42 if something is. Nothing is changed.
    """
    with importing():
        from whence.run.store.reading import Reading
        from whence.run.store.verify import verify as problems
    found = 0
    for problem in problems(folder):
        found += 1
        print(f"{problem.where}: {problem.what}")
    if found:
        things = "1 thing is" if found == 1 else f"{found:,} things are"
        raise BadStore(
            f"{things} wrong with {str(folder)!r}. `whence store repair {typed(folder)}` sets aside what is "
            "damaged, and the next run computes it again."
        )
    there = Reading.read(folder)
    parts = [f"{count:,} {what}" for what, count in _counted(there).items()]
    waiting = there.pending()
    if any(waiting.values()):
        parts.append(
            f"and of windows that are not complete yet {waiting['explanations']:,} explanations and "
            f"{waiting['metrics']:,} tests, which the next run goes on from"
        )
    print(f"{folder} is whole, and the run is {there.manifest['state']}: {', '.join(parts)}.")


@store.command("repair")
@answering
def repair(folder: Folder) -> None:
    """Set aside what is damaged, and remove what a killed run left half-written; the next run fills the holes.

    What is set aside stays in DIR/damaged. No file is touched that is not the run's own.
    """
    with importing():
        from whence.run.store.reading import Reading
        from whence.run.store.repair import repair as repaired
    done = repaired(folder)
    for one in done:
        print(f"{one.where}: {one.what}")
    there = Reading.reading(folder)
    if there is not None and there.manifest["state"] == "complete":
        print(f"{folder} is whole.")
    else:
        print(
            f"{folder} is whole, as far as it goes. The same `whence run` as before completes it."
        )


@store.command("merge")
@answering
def merge(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder to write to; it is made if needed.")
    ],
    sources: Annotated[
        list[Path], typer.Argument(metavar="FROM...", help="Folders of the same model and data.")
    ],
) -> None:
    """Bring the results of several folders together: the parts of a run (--shard), or runs of other methods.

    Example:

        whence store merge results part1 part2 part3
    """
    with importing():
        from whence.run.store.merge import merge as merged
    there = merged(folder, sources)
    parts = [f"{count:,} {what}" for what, count in _counted(there).items()]
    print(f"{folder} is {there.manifest['state']}: {', '.join(parts)}.")


@store.command("export")
@answering
def export(
    folder: Folder,
    to: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A .parquet, .csv or .jsonl file, the last two also .gz."
        ),
    ],
    table: Annotated[str, typer.Option(help="explanations or metrics.")] = "explanations",
) -> None:
    """Write a table as one file.

    Example:

        whence store export results --table metrics --to metrics.csv
    """
    with importing():
        from whence.run.store.export import export as exported
    exported(folder, table, to)
    print(f"wrote {to}", file=sys.stderr)


def _counted(there: object) -> dict[str, int]:
    from whence.run.store.commit import totals
    from whence.run.store.reading import Reading

    assert isinstance(there, Reading)
    found = totals(there.indices())
    return {
        "examples": found["examples"],
        "explanations": found["explanations"]["rows"],
        "tests": found["metrics"]["rows"],
        "failures": found["explanations"]["failed"] + found["metrics"]["failed"],
        "unreadable rows": found["bad"],
    }


"""`whence report`: what a run found, or what changed between two."""

from pathlib import Path
from typing import Annotated

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.io import check_writable


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a run: what `whence run --out` wrote to."
        ),
    ],
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR2]", help="Another run over the same data, to compare with the first."
        ),
    ] = None,
    html: asking.Html = None,
    markdown: Annotated[
        Path | None, typer.Option("--md", metavar="FILE", help="Write the report in Markdown.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report in LaTeX.")
    ] = None,
    as_json: asking.AsJson = False,
) -> None:
    """Report on a run, finished or not: tables with intervals, best and worst examples, verdicts, how to do it again.

    With a second folder, compare the two: what differs, and by how much the second is better, example by example.

    Examples:

        whence report out/sst2 --html report.html

        whence report out/before out/after --md changes.md
    """
    for path in (html, markdown, latex):
        if path is not None:
            check_writable(path)
    with working("reading the run") as (console, _):
        with importing():
            from whence.run.results import Run

        runs = [Run(one) for one in (folder, other) if one is not None]
        found = runs[0].report(*runs[1:])
    written = [path for path in (markdown, latex) if path is not None]
    if markdown is not None:
        found.to_markdown(markdown)
    if latex is not None:
        found.to_latex(latex)
    asking.show(found, console, html=html, as_json=as_json)
    if not as_json:
        for path in written:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)


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
