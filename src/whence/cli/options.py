"""Shared command options with completion, parsing and checks; the input they name; the printing of results."""

import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from whence.core.errors import BadEncoding, BadParameter, EmptyText, suggest_name

if TYPE_CHECKING:
    from rich.console import Console

    from whence.core.result import Result
    from whence.explain.explainer import Explainer


def complete_method(start: str) -> list[str]:
    """Return the completions of a method name."""
    return _find_registered_names("method", "methods", start)


def complete_metric(start: str) -> list[str]:
    """Return the completions of a metric name."""
    return _find_registered_names("metric", "metrics", start)


def complete_experiment(start: str) -> list[str]:
    """Return the completions of an experiment name."""
    return _find_registered_names("experiment", "studies/audit/experiments", start)


def _find_registered_names(kind: str, room: str, start: str) -> list[str]:
    """Return registered names by a search of the source, without importing torch."""
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
    typer.Option(
        help="How to explain; may be given several times.", autocompletion=complete_method
    ),
]
_TARGET_HELP = (
    "A label or index, predicted (default), runner-up, or a contrast: positive:negative. Of an answer: start, end, "
    "span, or its text; of a mask, a word."
)
TargetOption = Annotated[str | None, typer.Option(help=_TARGET_HELP)]
TargetsOption = Annotated[
    list[str] | None,
    typer.Option(help=f"{_TARGET_HELP} May be given several times: each is explained."),
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
Checkpoint = Annotated[
    bool,
    typer.Option(
        "--checkpoint",
        help="Run the model's blocks again instead of keeping what they computed: slower, in less memory.",
    ),
]
OutputKind = Annotated[str, typer.Option(help="Explain the logit or the probability.")]
Revision = Annotated[str | None, typer.Option(help="A revision of the Hugging Face id.")]
Truncate = Annotated[
    bool, typer.Option("--truncate", help="Cut a text that is too long instead of refusing it.")
]
TruncateByDefault = Annotated[
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
RemovalUnit = Annotated[str, typer.Option(help="Take away each token alone, or each word.")]
Seed = Annotated[int, typer.Option(help="Other random rankings, another noise.")]

# Placeholders of a model's replacement tokens: requests are checked before it is loaded.
PLACEHOLDER_REPLACEMENTS = {"mask": 0, "pad": 0, "unk": 0}


def read_text_argument(text: str) -> str:
    """Return the text argument; for a dash, the text on standard input."""
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


def parse_params(entries: list[str] | None) -> dict[str, str]:
    """Return the values of --param by name."""
    values = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise BadParameter(f"--param takes NAME=VALUE. Got {entry!r}.")
        values[name] = value
    return values


def parse_labels(labels: str | None) -> list[str] | None:
    """Return the labels of --labels, split at commas."""
    return None if labels is None else [label.strip() for label in labels.split(",")]


def check_removal(remove: str | None, unit: str) -> None:
    """Raise BadParameter for an unknown --remove or --unit, before a model is loaded."""
    from whence.data.removal import Removal
    from whence.explain.trials import Unit

    removals = (*get_args(Removal), "all")
    for name, value, allowed in (("remove", remove, removals), ("unit", unit, get_args(Unit))):
        if value is not None and value not in allowed:
            near = suggest_name(value, list(allowed))
            raise BadParameter(
                f"--{name} must be one of {', '.join(allowed)}. Got {value!r}.{near}"
            )


def print_result(result: "Result", console: "Console", *, html: Path | None, as_json: bool) -> None:
    """Print a result or its JSON; write its HTML page if a path is given."""
    if html is not None:
        result.to_html(html)
    if as_json:
        print_json(result.to_dict())
        return
    from rich.console import Console

    Console().print(result)
    if html is not None:
        console.print(f"wrote {html}", style="dim", highlight=False, markup=False)


def print_json(payload: dict[str, Any]) -> None:
    """Print an object as one line of JSON, in ASCII unless standard output is UTF-8."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(payload, ensure_ascii=not is_utf8))


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
        help="A picture to explain instead of a text; shapes:0 to shapes:11 are pictures that whence has.",
    ),
]
OptionalModel = Annotated[
    str | None,
    typer.Option(
        show_default="reviews, for a picture shapes",
        help="A built-in model (whence list models), a folder, or a Hugging Face id.",
    ),
]

# Placeholders of an image model's fills, as PLACEHOLDER_REPLACEMENTS for tokens.
_PLACEHOLDER_PATCH_REPLACEMENTS = {"black": 0, "mean": 0, "blur": 0}


@dataclass(frozen=True)
class InputSpec:
    """The input of a command: text, pair or image, and the name of the model."""

    text: str | None
    pair: str | None
    image: str | None
    model: str

    @property
    def is_image(self) -> bool:
        """Whether a picture is explained; False for a text, even with a picture beside it."""
        return self.image is not None and self.text is None

    @property
    def replacements(self) -> dict[str, int]:
        """The placeholders of the model's replacement tokens or fills, before it is loaded."""
        return _PLACEHOLDER_PATCH_REPLACEMENTS if self.is_image else PLACEHOLDER_REPLACEMENTS

    def read_image(self) -> dict[str, Any]:
        """Return the picture as an argument, or nothing; errors are raised before a model is loaded."""
        if self.image is None:
            return {}
        from whence.data.example import StoredImage
        from whence.data.images import find_image_name, open_image

        return {"image": StoredImage(open_image(self.image), find_image_name(self.image))}

    def check_methods(self, names: list[str] | None, params: dict[str, str]) -> None:
        """Raise for unknown methods and invalid parameters, before a model is loaded."""
        from whence.explain.request import check_default_parameters, resolve_methods

        if names:
            resolve_methods(names, params, self.replacements, from_text=True)
        elif not self.is_image:  # the default method of a picture depends on the model
            check_default_parameters(params, self.replacements)

    def build_arguments(
        self,
        explainer: "Explainer",
        picture: dict[str, Any],
        names: list[str] | None,
        params: dict[str, str],
    ) -> tuple[Any, dict[str, Any]]:
        """Return the input and the keyword arguments of `explain` and `trust` for it."""
        from whence.explain.request import resolve_methods

        self._check_modality(explainer)
        source, beside = self._split_input(picture)
        methods = names or [explainer.default_method(**beside)]
        requests = resolve_methods(methods, params, explainer.fillers, from_text=True)
        return source, {
            "method": [request.name for request in requests],
            "params": {request.name: request.params for request in requests},
            **beside,
        }

    def _check_modality(self, explainer: "Explainer") -> None:
        """Raise BadParameter for a text and a picture if the model does not compare the two."""
        loaded = explainer.loaded
        if self.text is not None and self.image is not None and loaded.task != "similarity":
            raise BadParameter(
                f"Give a text or --image, not both: {loaded.name!r} does not hold pictures against texts, as models "
                "such as CLIP do."
            )

    def _split_input(self, picture: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return the explained input, and the picture that accompanies a text, as an argument."""
        if self.text is None:
            return picture["image"], {}
        return (self.text if self.pair is None else (self.text, self.pair)), picture


def parse_input(
    text: str | None, pair: str | None, image: str | None, model: str | None
) -> InputSpec:
    """Return the input from the options; without --model, the built-in model for its kind."""
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
    model_name = model or ("reviews" if image is None else "shapes")
    return InputSpec(None if text is None else read_text_argument(text), pair, image, model_name)


def check_image_output(path: Path | None, subject: InputSpec) -> None:
    """Raise if the image maps cannot be written to a path, before any work."""
    from whence.core.files import check_writable

    if path is None:
        return
    if not subject.is_image:
        raise BadParameter(
            f"--out writes maps over a picture, and a text is explained here. Got {str(path)!r}; --html FILE writes "
            "a page."
        )
    if path.suffix.lower() != ".png":
        raise BadParameter(
            f"--out writes a PNG file. Got {str(path)!r}; give a name that ends in .png."
        )
    check_writable(path)
