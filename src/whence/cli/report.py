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
