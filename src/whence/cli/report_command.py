"""Commands `whence report`, `runs`, `store`: report on, list, verify, merge and export run folders."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence.cli import options
from whence.cli.failures import with_exit_status
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadRequest, BadStore, CannotRead
from whence.core.files import check_writable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.runs.store import StoreReader


def report_on_run(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="The folder of a run: what `whence run --out` wrote to."
        ),
    ],
    other: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DIR2]", help="Refused: two runs are compared elsewhere.", hidden=True
        ),
    ] = None,
    html: options.Html = None,
    markdown: Annotated[
        Path | None, typer.Option("--md", metavar="FILE", help="Write the report in Markdown.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report in LaTeX.")
    ] = None,
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
    paths = [path for path in (markdown, latex) if path is not None]
    if markdown is not None:
        report.to_markdown(markdown)
    if latex is not None:
        report.to_latex(latex)
    options.OutputOptions(as_json, html).print(report, console)
    if not as_json:
        for path in paths:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)


_PIPE_WIDTH = 200
_MAX_FOLDER_DEPTH = 3  # levels of nested folders that are searched


def list_runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="[DIR]", help="A run's folder, or one that has runs somewhere in it."
        ),
    ] = Path(),
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
    runs = [_describe_run(path) for path in find_runs(folder)]
    if as_json:
        options.print_json({"version": 1, "kind": "list of runs", "runs": runs})
    elif not runs:
        print(f"There is no run in {folder}. Make one: whence run --help")
    else:
        # In a pipe the table is wide, so that each run stays on one line.
        console = Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)
        console.print(_build_runs_table(runs, folder))
        for run in runs:
            if run["why"]:
                console.print(Text(f"{run['folder']}: {run['why']}", "yellow"))


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


def _describe_run(folder: Path) -> dict[str, Any]:
    from whence.runs.results import Run

    run = Run(folder)
    facts = run.facts()
    written = (
        None if facts["why"] else run.last_write_time
    )  # a damaged run has no readable manifest
    return {**facts, "folder": str(folder), "written": written}


def _build_runs_table(runs: list[dict[str, Any]], folder: Path) -> "RenderableType":
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
        # Only the name, model and data may fold on a narrow terminal; the name is needed for the next command.
        least = {"run": 12, "model": 8, "data": 8}.get(name)
        table.add_column(
            name, justify=justify, overflow="fold", no_wrap=least is None, min_width=least
        )
    for run in runs:
        total = "" if run.get("total") is None else f" of {run['total']:,}"
        failed = run.get("failed") or 0
        table.add_row(
            Text(_relative_name(run["folder"], folder)),
            Text(Path(str(run.get("model") or "")).name),
            Text(str(run.get("data") or "")),
            str(len(run.get("methods") or ())),
            str(len(run.get("metrics") or ())),
            f"{run.get('done') or 0:,}{total}",
            Text(f"{failed:,}", "bold red" if failed else "dim"),
            Text(str(run["state"])),
            Text(_format_minute(run["written"])),
        )
    return table


def _relative_name(run: str, folder: Path) -> str:
    """Return a run's path relative to the listed folder."""
    inner = Path(run).relative_to(folder)
    return run if inner == Path() else str(inner)


def _format_minute(when: str | None) -> str:
    """Return a time of the log to the minute; empty without one."""
    return "" if when is None else when[:16].replace("T", " ")


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
        from whence.runs.store import StoreReader
        from whence.runs.store import verify_store as find_problems
    n_problems = 0
    for problem in find_problems(folder):
        n_problems += 1
        print(f"{problem.where}: {problem.what}")
    if n_problems:
        things = "1 thing is" if n_problems == 1 else f"{n_problems:,} things are"
        raise BadStore(
            f"{things} wrong with {str(folder)!r}. The same `whence run` as before sets aside what is damaged, and computes "
            "it again."
        )
    print(
        f"{folder} is whole, and the run is {_describe_contents(StoreReader.open_existing(folder))}."
    )


@store_app.command("merge")
@with_exit_status
def merge_folders(
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
    with pause_garbage_collection():
        from whence.runs.store import merge_stores as run_merge
    store = run_merge(folder, sources)
    print(f"{folder} is {_describe_contents(store)}.")


@store_app.command("export")
@with_exit_status
def export_folder_table(
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
    with pause_garbage_collection():
        from whence.runs.store import export_table as run_export
    run_export(folder, table, to)
    print(f"wrote {to}", file=sys.stderr)


def _describe_contents(store: "StoreReader") -> str:
    totals = store.totals()
    failures = totals["explanations"]["failed"] + totals["metrics"]["failed"]
    return (
        f"{store.manifest['state']}: {totals['examples']:,} examples, {totals['explanations']['rows']:,} explanations, "
        f"{totals['metrics']['rows']:,} tests, {failures:,} failures, {totals['bad']:,} unreadable rows"
    )
