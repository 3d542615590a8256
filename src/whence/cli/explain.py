"""`whence explain`: one text, explained in the terminal, as JSON or as a page."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, cast

import typer

from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.errors import BadEncoding, BadParameter, EmptyText
from whence.core.io import check_writable, write_text
from whence.core.types import Of
from whence.view import merge


def method_names(start: str) -> list[str]:
    """Complete a method's name from the file names, without importing anything heavy."""
    spec = find_spec("whence.methods")
    folders = spec.submodule_search_locations if spec else None
    names = [p.stem for folder in folders or [] for p in Path(folder).glob("[!_]*.py")]
    return sorted(name for name in names if name.startswith(start))


def explain(
    text: Annotated[
        str,
        typer.Argument(
            help="The text to explain; - reads it from standard input. Put -- before a text that starts with a dash."
        ),
    ],
    pair: Annotated[
        str | None,
        typer.Option(help="A second text, for models that judge two (entailment, paraphrase)."),
    ] = None,
    model: Annotated[
        str,
        typer.Option(help="A built-in model (whence list models), a folder, or a Hugging Face id."),
    ] = "reviews",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="How to explain; may be given several times.", autocompletion=method_names
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="A label or index, predicted (default), runner-up, or a contrast: positive:negative."
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the method; METHOD.NAME=VALUE for one of several. preset=NAME takes a paper's "
            "own setting (whence list methods NAME).",
        ),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="How many words to list.")] = 8,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page that opens offline.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="float64, float32, bfloat16 or float16.")
    ] = None,
    of: Annotated[str, typer.Option(help="Explain the logit or the probability.")] = "logit",
    revision: Annotated[str | None, typer.Option(help="A revision of the Hugging Face id.")] = None,
    truncate: Annotated[
        bool, typer.Option("--truncate", help="Cut a text that is too long instead of refusing it.")
    ] = False,
) -> None:
    """Explain one prediction: which words spoke for it, and which against.

    Examples:

        whence explain "a gripping, beautifully acted film"

        whence explain "not a bad film" --method attcat --method leave_one_out --param remove=delete

        cat review.txt | whence explain - --model path/to/model --truncate --json
    """
    if text == "-":
        text = _standard_input()
    methods = method or ["attcat"]
    given = _parameters(param or [])
    if html is not None:
        check_writable(html)
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.explainer import load
            from whence.explainer.request import requests

            # What is wrong with the request is said before a model is loaded for it.
            requests(methods, given, {"mask": 0, "pad": 0, "unk": 0}, from_text=True)
            explainer = load(model, device=device, dtype=dtype, revision=revision)
        asked = requests(methods, given, explainer.fillers, from_text=True)
        found = explainer.explain(
            text if pair is None else (text, pair),
            method=[request.name for request in asked],
            params={request.name: request.params for request in asked},
            target=target,
            of=cast(Of, of),  # checked, with an error of its own, by TargetSpec
            truncate=truncate,
            progress=report,
        )
    payload = merge([explanation.to_dict() for explanation in found.values()])
    if html is not None:
        from whence.report import page

        write_text(html, page([payload]))
    if as_json:
        plain = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
        print(json.dumps(payload, ensure_ascii=not plain))
        return
    from rich.console import Console

    from whence.report.terminal import render

    Console().print(render(payload, top))
    if html is not None:
        console.print(f"wrote {html}", style="dim", highlight=False, markup=False)


def _standard_input() -> str:
    if sys.stdin is None:
        raise EmptyText("Standard input is closed. Give the text as an argument, or pipe it in.")
    try:
        return sys.stdin.read().rstrip("\n")
    except UnicodeDecodeError as error:
        raise BadEncoding(
            f"Standard input is not UTF-8 text ({error.reason} at byte {error.start}). Convert it first."
        ) from None


def _parameters(given: list[str]) -> dict[str, str]:
    values = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise BadParameter(f"--param takes NAME=VALUE. Got {one!r}.")
        values[name] = value
    return values
