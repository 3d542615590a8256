"""`whence`: the door. Errors become one line on standard error and an exit status of their own."""

import io
import sys
import warnings
from typing import Annotated, TextIO

import typer

from whence._version import __version__
from whence.cli import app as page
from whence.cli import (
    audit,
    compare,
    doctor,
    evaluate,
    explain,
    listing,
    recommend,
    report,
    runs,
    train_attention,
    trust,
)
from whence.cli import run as work
from whence.cli.answer import answering, cannot_write
from whence.cli.store import store
from whence.cli.streams import fill_gaps, leave_quietly, reader_left

_INTRO = """Why did the model say that, and can I believe the answer?

See it all on a page in your browser:

    whence app

    whence app --model path/to/model --data reviews.tsv

Explain a prediction:

    whence explain "a gripping, beautifully acted film"

    whence explain "the plot is thin" --model path/to/model --method attcat --method leave_one_out

    whence explain "It rains." --pair "The street is wet." --model some/nli-model --html why.html

    whence explain --image photo.jpg --model some/vit-model --target cat --target dog --out maps.png

Test the explanation on the model, and hear whether to believe it:

    whence trust "a gripping, beautifully acted film"

    whence trust "the plot is thin" --method attcat --method rollout --html trust.html

Hold methods against each other over a data set, and hear which one to use:

    whence evaluate --data reviews.tsv --sample 100 --plot table.svg

    whence recommend --model path/to/model --data reviews.tsv

Find out whether attention may be read as an explanation:

    whence audit reviews.tsv --model path/to/model --html audit.html

    whence train-attention reviews.tsv --encoder bilstm --attention tanh --out path/to/model

See what fine-tuning changed:

    whence compare path/to/pre-trained path/to/fine-tuned --data reviews.tsv --html changed.html

Explain and test a whole data set, on one machine or many, in a folder that survives anything:

    whence run --model path/to/model --data reviews.tsv --methods attcat,rollout --metrics faithfulness --out results

    whence report results --html report.html

See what there is, and what works on your model:

    whence list methods

    whence doctor --model path/to/model
"""

app = typer.Typer(
    name="whence",
    help=_INTRO,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("app")(answering(page.app))
app.command("explain")(answering(explain.explain))
app.command("trust")(answering(trust.trust))
app.command("evaluate")(answering(evaluate.evaluate))
app.command("recommend")(answering(recommend.recommend))
app.command("audit")(answering(audit.audit))
app.command("compare")(answering(compare.compare))
app.command("train-attention")(answering(train_attention.train_attention))
app.command("run")(answering(work.run))
app.command("runs")(answering(runs.runs))
app.command("report")(answering(report.report))
listed = typer.Typer(help="List methods, metrics, experiments and models.", no_args_is_help=True)
listed.command("methods")(answering(listing.methods))
listed.command("metrics")(answering(listing.metrics))
listed.command("experiments")(answering(listing.experiments))
listed.command("models")(answering(listing.models))
app.add_typer(listed, name="list")
app.add_typer(store, name="store")
app.command("doctor")(answering(doctor.doctor))


def _version(asked: bool) -> None:
    if asked:
        print(f"whence {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and leave."
        ),
    ] = False,
) -> None:
    pass


def _say(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show a warning as one line, like everything else that goes wrong."""
    print(f"whence: {message}", file=sys.stderr)


def run() -> None:
    """Run the command line."""
    fill_gaps()
    warnings.showwarning = _say
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe that cannot show a character gets its code instead of a crash.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:
        leave_quietly()
    except OSError as error:
        cannot_write(error)
    except SystemExit as leave:
        if reader_left(leave):
            leave_quietly()
        raise
