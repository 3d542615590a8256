"""The entry point of `whence`: commands and global options registered, warnings printed, streams guarded."""

import io
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, TextIO

import typer

from whence._version import __version__
from whence.cli import (
    app_command,
    audit_command,
    compare_command,
    evaluate_command,
    explain_command,
    list_command,
    report_command,
    run_command,
    train_command,
    trust_command,
)
from whence.cli.failures import (
    exit_broken_pipe,
    exit_cannot_write,
    open_closed_streams,
    with_exit_status,
)
from whence.cli.report_command import store_app

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
list_app = typer.Typer(help="List methods, metrics, experiments and models.", no_args_is_help=True)
_COMMANDS: dict[str, Callable[..., None]] = {
    "app": app_command.serve_app,
    "explain": explain_command.explain,
    "trust": trust_command.trust,
    "evaluate": evaluate_command.evaluate,
    "recommend": evaluate_command.recommend,
    "audit": audit_command.audit,
    "compare": compare_command.compare,
    "train-attention": train_command.train_attention,
    "run": run_command.run_plan,
    "runs": report_command.list_runs,
    "report": report_command.report_on_run,
    "doctor": list_command.doctor,
    "list methods": list_command.list_methods,
    "list metrics": list_command.list_metrics,
    "list experiments": list_command.list_experiments,
    "list models": list_command.list_models,
}
for _name, _command in _COMMANDS.items():
    _group = list_app if _name.startswith("list ") else app
    _group.command(_name.removeprefix("list "))(with_exit_status(_command))
app.add_typer(list_app, name="list")
app.add_typer(store_app, name="store")


@app.callback(invoke_without_command=True)
def _print_version(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.")
    ] = False,
) -> None:
    if version:
        print(f"whence {__version__}")
        raise typer.Exit


def _print_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line on standard error, like errors."""
    print(f"whence: {message}", file=sys.stderr)


def run() -> None:
    """Run the command line."""
    open_closed_streams()
    warnings.showwarning = _print_warning
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal or pipe that cannot show a character gets its code instead of a crash.
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except BrokenPipeError:
        exit_broken_pipe()
    except OSError as error:
        exit_cannot_write(error)
    except SystemExit as leave:
        if isinstance(leave.__context__, BrokenPipeError):  # click and rich turn it into an exit
            exit_broken_pipe()
        raise
