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


"""What is to be explained: a text, a pair of texts, a picture, or a text held against a picture."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from whence.cli import asking
from whence.core.errors import BadParameter

if TYPE_CHECKING:
    from whence.explainer import Explainer

Text = Annotated[
    str | None,
    typer.Argument(
        show_default=False,
        help="The text to explain; - reads it from standard input. Put -- before a text that starts with a dash.",
    ),
]
Image = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="A picture to explain instead of a text; shapes:N is number N of those that whence draws itself.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        show_default="reviews, for a picture shapes",
        help="A built-in model (whence list models), a folder, or a Hugging Face id.",
    ),
]

# What stands in for patches that are taken away, while the model is not loaded: see asking.ANY_FILLERS.
_ANY_FILLS = {"black": 0, "mean": 0, "blur": 0}


@dataclass(frozen=True)
class Subject:
    """What was given, and the model that is asked about it."""

    text: str | None
    pair: str | None
    image: str | None
    model: str

    @property
    def is_picture(self) -> bool:
        """Whether it is a picture that is explained, and not a text, even one beside a picture."""
        return self.image is not None and self.text is None

    @property
    def fillers(self) -> dict[str, int]:
        """Stand-ins for what a model has, as long as it is not loaded."""
        return _ANY_FILLS if self.is_picture else asking.ANY_FILLERS

    def opened(self) -> dict[str, Any]:
        """Read the picture, if there is one: what is wrong with it is said before a model is loaded."""
        if self.image is None:
            return {}
        from whence.data.sets.pictures import Stored
        from whence.data.vision.image import name_of, opened

        return {"image": Stored(opened(self.image), name_of(self.image))}

    def check_methods(self, names: list[str] | None, given: dict[str, str]) -> None:
        """Refuse methods and parameters that cannot be before a model is loaded."""
        from whence.explainer.request import check_default, requests

        if names:
            requests(names, given, self.fillers, from_text=True)
        elif not self.is_picture:  # of a picture, the default is not known before the model is
            check_default(given, self.fillers)

    def asked(
        self,
        explainer: "Explainer",
        picture: dict[str, Any],
        names: list[str] | None,
        given: dict[str, str],
    ) -> tuple[Any, dict[str, Any]]:
        """Return the input, and by name what else `explain` and `trust` take: methods, parameters, a picture."""
        from whence.explainer.request import requests

        self._check(explainer)
        own, beside = self._given(picture)
        methods = names or [explainer.default_method(**beside)]
        asked = requests(methods, given, explainer.fillers, from_text=True)
        return own, {
            "method": [request.name for request in asked],
            "params": {request.name: request.params for request in asked},
            **beside,
        }

    def _check(self, explainer: "Explainer") -> None:
        """Refuse a picture beside a text where the model takes only one of them."""
        loaded = explainer.loaded
        if self.text is not None and self.image is not None and loaded.task != "similarity":
            raise BadParameter(
                f"Give a text or --image, not both: {loaded.name!r} does not hold pictures against texts, as models "
                "such as CLIP do."
            )

    def _given(self, picture: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the input, and what stands beside it."""
        if self.text is None:
            return picture["image"], {}
        return (self.text if self.pair is None else (self.text, self.pair)), picture


def subject(text: str | None, pair: str | None, image: str | None, model: str | None) -> Subject:
    """Find out what was given; each kind of input has a built-in model of its own."""
    if text is None and image is None:
        raise BadParameter(
            "There is nothing to explain. Give a text, or a picture: whence explain --image FILE."
        )
    if text is None and pair is not None:
        raise BadParameter("--pair is the second of two texts. Give the first, or leave it out.")
    if text is not None and image is not None and model is None:
        raise BadParameter(
            "Give a text or --image, not both. To hold a text against a picture, name a model that does: --model."
        )
    own = model or ("reviews" if image is None else "shapes")
    return Subject(None if text is None else asking.given_text(text), pair, image, own)


def check_picture_file(path: Path | None, subject: Subject) -> None:
    """Find out before the work that a sheet of maps cannot be written as asked."""
    from whence.core.io import check_writable

    if path is None:
        return
    if not subject.is_picture:
        raise BadParameter(
            f"--out writes maps over a picture, and a text is explained here. Got {str(path)!r}; --html FILE writes "
            "a page."
        )
    if path.suffix.lower() != ".png":
        raise BadParameter(
            f"--out writes a PNG file. Got {str(path)!r}; give a name that ends in .png."
        )
    check_writable(path)
