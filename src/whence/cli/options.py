"""Options of the commands in five groups (model, input or data, methods, output, execution), and the input they name.

A group is a dataclass of options. A command takes groups as parameters; `with_exit_status` makes options of their fields,
so that every command declares, names and orders them alike.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadEncoding, BadParameter, EmptyText, suggest_name
from whence.core.files import check_writable

if TYPE_CHECKING:
    from rich.console import Console

    from whence.core.registry import Registry
    from whence.core.result import Result
    from whence.data.dataset import Dataset
    from whence.explain.explainer import Explainer


def _build_completion(kind: str, room: str) -> Callable[[str], list[str]]:
    """Return the completion of registered names, which searches the source instead of importing torch."""

    def complete(start: str) -> list[str]:
        """Return the registered names that begin so."""
        files = (Path(__file__).parents[1] / room).glob("[!_]*.py")
        texts = [path.read_text(encoding="utf-8") for path in files]
        pattern = rf'^@{kind}\(\s*"({re.escape(start)}\w*)"'
        return sorted(name for text in texts for name in re.findall(pattern, text, re.M))

    return complete


complete_method = _build_completion("method", "methods")
complete_metric = _build_completion("metric", "metrics")
complete_experiment = _build_completion("experiment", "studies/audit/experiments")


def option(panel: str | None, help: str, *names: str, default: Any = None, **how: Any) -> Any:
    """Return an option, which the help shows in a panel."""
    return typer.Option(default, *names, help=help, rich_help_panel=panel, **how)


# Shown as the headings of the help.
INPUT, MODEL, DATA, METHODS, TESTS, OUTPUT = (
    "What is explained",
    "Model",
    "Data",
    "Methods",
    "Tests",
    "Output",
)

# Options of single commands: the default stands where one is used.
_shared = partial(option, default=...)
Device = Annotated[str | None, _shared(MODEL, "cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str | None, _shared(MODEL, "float64, float32, bfloat16 or float16.")]
AsJson = Annotated[bool, _shared(OUTPUT, "Print one JSON object.", "--json")]
Html = Annotated[Path | None, _shared(OUTPUT, "Write a page that opens offline.", metavar="FILE")]
Markdown = Annotated[Path | None, _shared(OUTPUT, "Write it in Markdown.", metavar="FILE")]
Latex = Annotated[Path | None, _shared(OUTPUT, "Write it in LaTeX.", metavar="FILE")]
Seed = Annotated[int, _shared(TESTS, "Other draws, other random rankings, another noise.")]
TextColumn = Annotated[
    str | None, _shared(DATA, "The column of the texts.", "--text", metavar="COLUMN")
]
PairColumn = Annotated[
    str | None, _shared(DATA, "The column of the second texts.", "--pair", metavar="COLUMN")
]
LabelColumn = Annotated[
    str | None, _shared(DATA, "The column of the labels.", "--label", metavar="COLUMN")
]
DATA_HELP = (
    "The data set: a .jsonl, .csv, .tsv, .txt or .parquet file, also as .gz; a folder of pictures, with a folder for "
    "each class; or a Hugging Face data set: NAME, NAME:SPLIT or NAME:CONFIG:SPLIT."
)
_TARGET_HELP = (
    "A label or index, predicted (default), runner-up, or a contrast: positive:negative. Of an answer: start, end, "
    "span, or its text; of a mask, a word."
)
TargetOption = Annotated[str | None, _shared(INPUT, _TARGET_HELP, "--target")]
TargetsOption = Annotated[
    list[str] | None,
    _shared(INPUT, f"{_TARGET_HELP} May be given several times: each is explained.", "--target"),
]
Truncate = Annotated[bool, _shared(DATA, "Cut texts that are too long, or count them as not used.")]


@dataclass
class ModelOptions:
    """Which model is asked, and how it computes."""

    model: str | None = option(
        MODEL,
        "A built-in model (whence list models), a folder, or a Hugging Face id.",
        show_default="reviews; for a picture, shapes",
    )
    device: Device = None
    dtype: Dtype = None
    checkpoint: bool = option(
        MODEL,
        "Run the model's blocks again instead of keeping what they computed: slower, in less memory.",
        "--checkpoint",
        default=False,
    )
    revision: str | None = option(MODEL, "A revision of the Hugging Face id.")

    def __post_init__(self) -> None:
        self.name = self.model or "reviews"

    def load(self, **more: Any) -> "Explainer":
        """Return the explainer of the model."""
        from whence.explain.explainer import load

        return load(
            self.name,
            device=self.device,
            dtype=self.dtype,
            revision=self.revision,
            checkpoint=self.checkpoint,
            **more,
        )


@dataclass
class DataOptions:
    """Which data set is read, and by which columns."""

    data: str = option(DATA, DATA_HELP, metavar="FILE", default=...)
    text: TextColumn = None
    pair: PairColumn = None
    label: LabelColumn = None

    def read(self, **how: Any) -> "Dataset":
        """Return the data set."""
        from whence.data.dataset import read_dataset

        return read_dataset(self.data, text=self.text, pair=self.pair, label=self.label, **how)


@dataclass
class DataArgument(DataOptions):
    """The same with the data set as an argument."""

    data: str = typer.Argument(metavar="DATA", help=DATA_HELP)


@dataclass
class MethodOptions:
    """By which methods it is explained, and with which parameters."""

    method: list[str] | None = option(
        METHODS,
        "How to explain; may be given several times, or with commas.",
        "--method",
        "--methods",
        autocompletion=complete_method,
    )
    param: list[str] | None = option(
        METHODS,
        "A parameter of the methods, or of the metrics; NAME.PARAMETER=VALUE for one of several. preset=NAME takes "
        "a paper's own setting (whence list methods NAME).",
        metavar="NAME=VALUE",
    )

    def __post_init__(self) -> None:
        self.names = split_names(self.method)
        self.params = parse_params(self.param)

    def resolve(self, fillers: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        """Return the parameters of each method; raise for unknown methods and invalid parameters.

        Without names, parameters that no default method has are refused.
        """
        from whence.explain.request import check_default_parameters, resolve_methods

        if not self.names:
            check_default_parameters(self.params, fillers)
            return {}
        requests = resolve_methods(self.names, self.params, fillers, from_text=True)
        return {request.name: request.params for request in requests}


@dataclass
class RemovalOptions:
    """How the tests take something away."""

    remove: str | None = option(
        TESTS,
        "How a token is taken away: delete, mask, pad, unk, draw (from --mlm), or all of these, to see "
        "how much it matters. By default mask, if the model has one. A patch of a picture: mean (default), black, "
        "blur.",
        metavar="HOW",
    )
    mlm: str | None = option(
        TESTS, "The masked language model that --remove draw draws from.", metavar="MODEL"
    )
    unit: str = option(TESTS, "Take away each token alone, or each word.", default="token")

    def check(self) -> None:
        """Raise BadParameter for an unknown --remove or --unit, before a model is loaded."""
        from whence.data.removal import Removal
        from whence.explain.trials import Unit

        allowed = {"remove": [*get_args(Removal), "all"], "unit": [*get_args(Unit)]}
        for name, known in allowed.items():
            value = getattr(self, name)
            if value is not None and value not in known:
                near = suggest_name(value, known)
                raise BadParameter(
                    f"--{name} must be one of {', '.join(known)}. Got {value!r}.{near}"
                )


@dataclass
class OutputOptions:
    """What is printed and written."""

    as_json: AsJson = False
    html: Html = None

    def __post_init__(self) -> None:
        if self.html is not None:
            check_writable(self.html)

    def print(self, result: "Result", console: "Console", *paths: Path | None) -> None:
        """Print a result and the `paths` that were written, or its JSON; write its HTML page if one is asked for."""
        if self.html is not None:
            result.to_html(self.html)
        if self.as_json:
            print_json(result.to_dict())
        else:
            from rich.console import Console

            Console().print(result)
            print_paths(console, self.html, *paths)


def print_paths(console: "Console", *paths: Path | None) -> None:
    """Print the names of the files that were written."""
    for path in paths:
        if path is not None:
            print_note(console, f"wrote {path}")


def print_note(console: "Console", note: str) -> None:
    """Print a note on the work as one dim line."""
    console.print(note, style="dim", highlight=False, markup=False, soft_wrap=True)


def print_json(payload: dict[str, Any]) -> None:
    """Print an object as one line of JSON, in ASCII unless standard output is UTF-8."""
    is_utf8 = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    print(json.dumps(payload, ensure_ascii=not is_utf8))


def split_names(names: list[str] | None) -> list[str]:
    """Return the names of an option that is given several times, or with commas."""
    return [part.strip() for name in names or () for part in name.split(",")]


def parse_params(entries: list[str] | None) -> dict[str, str]:
    """Return the values of --param by name."""
    values = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise BadParameter(f"--param takes NAME=VALUE. Got {entry!r}.")
        values[name] = value
    return values


def check_budget(budget: int | None) -> None:
    """Raise BadParameter for a budget that allows nothing."""
    if budget is not None and budget < 1:
        raise BadParameter(f"--budget must be a number of model calls, at least 1. Got {budget}.")


def list_known_names(registry: "Registry", requested: Any) -> set[str]:
    """Return the requested entries' names and parameters; for a group, those of all entries."""
    names = set(requested.split(",") if isinstance(requested, str) else requested or ())
    is_group = not names or not names <= set(registry.names())
    entries = [entry for entry in registry if is_group or entry.name in names]
    return {name for entry in entries for name in (entry.name, *entry.parameters)}


def split_params(
    params: Mapping[str, str], known: Mapping[str, Collection[str]]
) -> dict[str, dict[str, Any]]:
    """Return parameters by the first group that knows their owner or name; those that none knows go to the first."""
    groups: dict[str, dict[str, Any]] = {group: {} for group in known}
    for key, value in params.items():
        owner = key.partition(".")[0]
        group = next((group for group, names in known.items() if owner in names), next(iter(known)))
        groups[group][key] = value
    return groups


# Placeholders of a model's replacement tokens and of a picture's fills: requests are checked before it is loaded.
PLACEHOLDER_TOKENS = {"mask": 0, "pad": 0, "unk": 0}
PLACEHOLDER_FILLS = {"black": 0, "mean": 0, "blur": 0}


@dataclass
class InputOptions:
    """The explained input, a text, two texts or a picture, and what is asked about it."""

    text: str | None = typer.Argument(
        None,
        show_default=False,
        help="The text to explain; - reads it from standard input. Put -- before a text that starts with a dash.",
    )
    image: str | None = option(
        INPUT,
        "A picture to explain instead of a text; shapes:0 to shapes:11 are pictures that whence has.",
        metavar="FILE",
    )
    pair: str | None = option(
        INPUT,
        "A second text, for models that judge two (entailment, paraphrase), or the context of a question.",
    )
    at: str | None = option(
        INPUT,
        "Which token is explained: a word or a token's number (taggers), which mask, from 0 (language models).",
        metavar="WHERE",
    )
    labels: str | None = option(
        INPUT,
        "Labels to choose from: zero-shot, by a model of entailment; pictures against texts.",
        metavar="A,B,...",
    )
    template: str | None = option(
        INPUT, "The sentence that such a label is put in, at {}.", metavar="SENTENCE"
    )
    answer: list[str] | None = option(
        INPUT,
        "Explain this answer of a language model as a whole; given twice, the first rather than the second. "
        "With --generate, token by token.",
    )
    of: str = option(INPUT, "Explain the logit or the probability.", default="logit")
    truncate: bool = option(
        INPUT, "Cut a text that is too long instead of refusing it.", "--truncate", default=False
    )

    def __post_init__(self) -> None:
        if self.text is None and self.image is None:
            raise BadParameter(
                "There is nothing to explain. Give a text, or a picture: whence explain --image FILE."
            )
        if self.text is None and self.pair is not None:
            raise BadParameter(
                "--pair is the second of two texts. Give the first, or leave it out."
            )
        if len(self.answer or ()) > 2:
            raise BadParameter(
                f"--answer can be given once, or twice for a contrast. Got {len(self.answer or ())}."
            )
        self.is_image = self.text is None  # else a picture may stand beside the text
        if self.text == "-":
            self.text = _read_standard_input()

    @contextmanager
    def open(
        self,
        model: ModelOptions,
        methods: MethodOptions,
        removal: RemovalOptions | None = None,
    ) -> Iterator[tuple["Explainer", Any, dict[str, Any], "Console"]]:
        """Context manager: show progress; yield explainer, input, the arguments of `explain` and `trust`, and the console.

        Without --model, the model is the built-in one for the input. Errors of the request are raised before it is loaded.
        """
        text, image = self.text, self.image
        if text is not None and image is not None and model.model is None:
            raise BadParameter(
                "Give a text or --image, not both. To hold a text against a picture, name a model that does: --model."
            )
        if self.is_image and model.model is None:
            model.name = "shapes"
        with show_progress(f"loading {model.name}") as (console, report):
            with pause_garbage_collection():
                from whence.data.example import StoredImage
                from whence.data.images import find_image_name, open_image

                if removal is not None:
                    removal.check()
                # The default method of a picture depends on the model.
                if methods.names or not self.is_image:
                    methods.resolve(PLACEHOLDER_FILLS if self.is_image else PLACEHOLDER_TOKENS)
                beside: dict[str, Any] = {}
                if image is not None:
                    beside["image"] = StoredImage(open_image(image), find_image_name(image))
                explainer = model.load(**({} if removal is None else {"mlm": removal.mlm}))
            if text is None:
                source = beside.pop("image")
            elif image is None or explainer.loaded.task == "similarity":
                source = text if self.pair is None else (text, self.pair)
            else:
                raise BadParameter(
                    f"Give a text or --image, not both: {explainer.loaded.name!r} does not hold pictures against texts, "
                    "as models such as CLIP do."
                )
            methods.names = methods.names or [explainer.default_method(**beside)]
            resolved = methods.resolve(explainer.loaded.fillers)
            answers = tuple(self.answer or [])
            how = {
                "method": list(resolved),
                "params": resolved,
                "of": self.of,
                "truncate": self.truncate,
                "at": self.at,
                "labels": None if self.labels is None else split_names([self.labels]),
                "template": self.template,
                "answer": answers[0] if len(answers) == 1 else answers or None,
                "progress": report,
                **beside,
            }
            yield explainer, source, how, console


def _read_standard_input() -> str:
    if sys.stdin is None:
        raise EmptyText("Standard input is closed. Give the text as an argument, or pipe it in.")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise BadEncoding(
            f"Standard input is not UTF-8 text ({error.reason} at byte {error.start}). Convert it first."
        ) from None
