"""Commands `whence report`, `runs`, `store`: report on, list, verify, merge and export run folders."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence.cli import options
from whence.cli.failures import with_exit_status
from whence.cli.options import option
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadRequest, BadStore, CannotRead
from whence.core.files import check_writable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.runs.store import StoreReader


def report_on_run(
    folder: Path = typer.Argument(
        metavar="DIR", help="The folder of a run: what `whence run --out` wrote to."
    ),
    other: Path | None = typer.Argument(
        None, metavar="[DIR2]", help="Refused: two runs are compared elsewhere.", hidden=True
    ),
    html: options.Html = None,
    markdown: Path | None = option(None, "Write the report in Markdown.", "--md", metavar="FILE"),
    latex: Path | None = option(None, "Write the report in LaTeX.", metavar="FILE"),
    as_json: options.AsJson = False,
) -> None:
    """Report on a run, finished or not: tables with intervals, best and worst examples, verdicts, how to do it again.

    Examples:

        whence report out/sst2 --html report.html
    """
    if other is not None:
        raise BadRequest(
            "whence report takes one run. To compare two, read both folders with pandas or polars; to compare two models, "
            "whence.compare."
        )
    for path in (html, markdown, latex):
        if path is not None:
            check_writable(path)
    with show_progress("reading the run") as (console, _):
        with pause_garbage_collection():
            from whence.runs.results import Run

        report = Run(folder).report()
    if markdown is not None:
        report.to_markdown(markdown)
    if latex is not None:
        report.to_latex(latex)
    options.OutputOptions(as_json, html).print(report, console, markdown, latex)


_PIPE_WIDTH = 200
_MAX_FOLDER_DEPTH = 3  # levels of nested folders that are searched


def list_runs(
    folder: Path = typer.Argument(
        Path(), metavar="[DIR]", help="A run's folder, or one that has runs somewhere in it."
    ),
    as_json: options.AsJson = False,
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
    from whence.runs.results import Run

    runs = []
    for path in find_runs(folder):
        run = Run(path)
        facts = run.facts()
        # A damaged run has no readable manifest.
        written = None if facts["why"] else run.last_write_time
        runs.append({**facts, "folder": str(path), "written": written})
    if as_json:
        options.print_json({"version": 1, "kind": "list of runs", "runs": runs})
    elif not runs:
        print(f"There is no run in {folder}. Make one: whence run --help")
    else:
        # In a pipe the table is wide, so that each run stays on one line.
        console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
        console.print(_build_runs_table(runs, folder))
        for facts in runs:
            if facts["why"]:
                console.print(Text(f"{facts['folder']}: {facts['why']}", "yellow"))


def find_runs(folder: Path, depth: int = _MAX_FOLDER_DEPTH) -> list[Path]:
    """Return the run folders in a folder, itself included; runs are not nested."""
    from whence.runs.store import is_store

    if is_store(folder):
        return [folder]
    if depth == 0:
        return []
    inner = sorted(path for path in folder.iterdir() if path.is_dir() and not path.is_symlink())
    return [
        run for path in inner if not path.name.startswith(".") for run in find_runs(path, depth - 1)
    ]


# Of the table of runs: how a column is aligned, and how narrow it may get. Only the name, model and data may fold on a
# narrow terminal; the name is needed for the next command.
_COLUMNS: dict[str, tuple[Literal["left", "right"], int | None]] = {
    "run": ("left", 12),
    "model": ("left", 8),
    "data": ("left", 8),
    "methods": ("right", None),
    "metrics": ("right", None),
    "done": ("right", None),
    "failed": ("right", None),
    "state": ("left", None),
    "written": ("left", None),
}


def _build_runs_table(runs: list[dict[str, Any]], folder: Path) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    for name, (justify, least) in _COLUMNS.items():
        table.add_column(
            name, justify=justify, overflow="fold", no_wrap=least is None, min_width=least
        )
    for run in runs:
        total = "" if run.get("total") is None else f" of {run['total']:,}"
        failed = run.get("failed") or 0
        inner = Path(run["folder"]).relative_to(folder)
        table.add_row(
            Text(run["folder"] if inner == Path() else str(inner)),
            Text(Path(str(run.get("model") or "")).name),
            Text(str(run.get("data") or "")),
            str(len(run.get("methods") or ())),
            str(len(run.get("metrics") or ())),
            f"{run.get('done') or 0:,}{total}",
            Text(f"{failed:,}", "bold red" if failed else "dim"),
            Text(str(run["state"])),
            Text((run["written"] or "")[:16].replace("T", " ")),  # to the minute
        )
    return table


store_app = typer.Typer(
    help="Look after the folder of a run: verify, merge, export.", no_args_is_help=True
)
Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder of a run.")]


@store_app.command("verify")
@with_exit_status
def verify_folder(folder: Folder) -> None:
    """Read everything, and say what is wrong: checksums of all pages, columns, keys, rows that are there twice, files left over.

    The exit status is 42 if something is. Nothing is changed.
    """
    with pause_garbage_collection():
        from whence.runs.store import StoreReader, verify_store
    count = 0
    for problem in verify_store(folder):
        count += 1
        print(f"{problem.where}: {problem.what}")
    if count:
        things = "1 thing is" if count == 1 else f"{count:,} things are"
        raise BadStore(
            f"{things} wrong with {str(folder)!r}. The same `whence run` as before sets aside what is damaged, and computes "
            "it again."
        )
    contents = _describe_contents(StoreReader.open_existing(folder))
    print(f"{folder} is whole, and the run is {contents}.")


@store_app.command("merge")
@with_exit_status
def merge_folders(
    folder: Path = typer.Argument(
        metavar="DIR", help="The folder to write to; it is made if needed."
    ),
    sources: list[Path] = typer.Argument(
        metavar="FROM...", help="Folders of the same model and data."
    ),
) -> None:
    """Bring the results of several folders together: the parts of a run (--shard), or runs of other methods.

    Example:

        whence store merge results part1 part2 part3
    """
    with pause_garbage_collection():
        from whence.runs.store import merge_stores
    store = merge_stores(folder, sources)
    print(f"{folder} is {_describe_contents(store)}.")


@store_app.command("export")
@with_exit_status
def export_folder_table(
    folder: Folder,
    to: Path = option(
        None,
        "A .parquet, .csv or .jsonl file, the last two also .gz.",
        metavar="FILE",
        default=...,
    ),
    table: str = option(None, "explanations or metrics.", default="explanations"),
) -> None:
    """Write a table as one file.

    Example:

        whence store export results --table metrics --to metrics.csv
    """
    with pause_garbage_collection():
        from whence.runs.store import export_table
    export_table(folder, table, to)
    print(f"wrote {to}", file=sys.stderr)


def _describe_contents(store: "StoreReader") -> str:
    totals = store.totals()
    failures = totals["explanations"]["failed"] + totals["metrics"]["failed"]
    return (
        f"{store.manifest['state']}: {totals['examples']:,} examples, {totals['explanations']['rows']:,} explanations, "
        f"{totals['metrics']['rows']:,} tests, {failures:,} failures, {totals['bad']:,} unreadable rows"
    )
