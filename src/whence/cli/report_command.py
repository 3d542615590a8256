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
