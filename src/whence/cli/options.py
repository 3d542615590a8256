"""What commands that explain a text have in common: their arguments, and how the answer is printed as JSON."""

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from whence.core.errors import BadEncoding, BadParameter, EmptyText, did_you_mean

if TYPE_CHECKING:
    from rich.console import Console

    from whence.report.shown import Shown


def method_names(start: str) -> list[str]:
    """Complete a method's name."""
    return _registered("method", "methods", start)


def metric_names(start: str) -> list[str]:
    """Complete a metric's name."""
    return _registered("metric", "metrics", start)


def experiment_names(start: str) -> list[str]:
    """Complete an experiment's name."""
    return _registered("experiment", "audit/experiments", start)


def _registered(kind: str, room: str, start: str) -> list[str]:
    """Find names where they are registered, without importing anything heavy."""
    files = (Path(__file__).parents[1] / room).glob("[!_]*.py")
    texts = [path.read_text(encoding="utf-8") for path in files]
    names = [name for text in texts for name in re.findall(rf'^@{kind}\(\s*"(\w+)"', text, re.M)]
    return sorted(name for name in names if name.startswith(start))


Pair = Annotated[
    str | None,
    typer.Option(
        help="A second text, for models that judge two (entailment, paraphrase), or the context of a question."
    ),
]
Model = Annotated[
    str, typer.Option(help="A built-in model (whence list models), a folder, or a Hugging Face id.")
]
Method = Annotated[
    list[str] | None,
    typer.Option(help="How to explain; may be given several times.", autocompletion=method_names),
]
_AIM = (
    "A label or index, predicted (default), runner-up, or a contrast: positive:negative. Of an answer: start, end, "
    "span, or its text; of a mask, a word."
)
Aim = Annotated[str | None, typer.Option(help=_AIM)]
Aims = Annotated[
    list[str] | None,
    typer.Option(help=f"{_AIM} May be given several times: each is explained."),
]
At = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="Which token is explained: a word or a token's number (taggers), which mask, from 0 (language models).",
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,...",
        help="Labels to choose from: zero-shot, by a model of entailment; pictures against texts.",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(metavar="SENTENCE", help="The sentence that such a label is put in, at {}."),
]
Param = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=VALUE",
        help="A parameter of the method; METHOD.NAME=VALUE for one of several. preset=NAME takes a paper's "
        "own setting (whence list methods NAME).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write a page that opens offline.")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str | None, typer.Option(help="float64, float32, bfloat16 or float16.")]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Compile the model (torch.compile) for methods and tests that run it many times. The first pass takes "
        "up to minutes, so only long runs gain.",
    ),
]
Checkpoint = Annotated[
    bool,
    typer.Option(
        "--checkpoint",
        help="Run the model's blocks again instead of keeping what they computed: slower, in less memory.",
    ),
]
Explained = Annotated[str, typer.Option(help="Explain the logit or the probability.")]
Revision = Annotated[str | None, typer.Option(help="A revision of the Hugging Face id.")]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut a text that is too long instead of refusing it.")
]
Truncated = Annotated[
    bool, typer.Option(help="Cut texts that are too long, or count them as not used.")
]
Remove = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="How a token is taken away: delete, mask, pad, unk, draw (from --mlm), or all of these, to see "
        "how much it matters. By default mask, if the model has one. A patch of a picture: mean (default), black, "
        "blur.",
    ),
]
Mlm = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="The masked language model that --remove draw draws from."),
]
By = Annotated[str, typer.Option(help="Take away each token alone, or each word.")]
Seed = Annotated[int, typer.Option(help="Other random rankings, another noise.")]

# Stands in for a model's own while it is not loaded: what is wrong with a request is said before.
ANY_FILLERS = {"mask": 0, "pad": 0, "unk": 0}


def given_text(text: str) -> str:
    """Return the text, from standard input if it is a dash."""
    if text != "-":
        return text
    if sys.stdin is None:
        raise EmptyText("Standard input is closed. Give the text as an argument, or pipe it in.")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise BadEncoding(
            f"Standard input is not UTF-8 text ({error.reason} at byte {error.start}). Convert it first."
        ) from None


def parameters(given: list[str] | None) -> dict[str, str]:
    """Return what --param was given."""
    values = {}
    for one in given or []:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise BadParameter(f"--param takes NAME=VALUE. Got {one!r}.")
        values[name] = value
    return values


def label_set(given: str | None) -> list[str] | None:
    """Return what --labels was given, cut at the commas."""
    return None if given is None else [label.strip() for label in given.split(",")]


def check_removal(remove: str | None, unit: str) -> None:
    """Find out before a model is loaded that tokens cannot be removed as asked."""
    from whence.data.removal import Removal
    from whence.explainer.verify.testing import Unit

    ways = (*get_args(Removal), "all")
    for name, value, allowed in (("remove", remove, ways), ("unit", unit, get_args(Unit))):
        if value is not None and value not in allowed:
            near = did_you_mean(value, list(allowed))
            raise BadParameter(
                f"--{name} must be one of {', '.join(allowed)}. Got {value!r}.{near}"
            )


def show(found: "Shown", console: "Console", *, html: Path | None, as_json: bool) -> None:
    """Print a result, or its JSON; write its page if one was asked for, and say so on the other console."""
    if html is not None:
        found.to_html(html)
    if as_json:
        print_json(found.to_dict())
        return
    from rich.console import Console

    Console().print(found)
    if html is not None:
        console.print(f"wrote {html}", style="dim", highlight=False, markup=False)


def print_json(payload: dict[str, Any]) -> None:
    """Print one object on one line, in characters that the reader can take."""
    plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(payload, ensure_ascii=not plain))
