"""`whence explain --generate N`: what a language model goes on with, and what of the prompt it came from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.cli.subject import Subject
from whence.core.errors import BadParameter
from whence.core.io import check_writable
from whence.core.types import Of

Tokens = Annotated[
    int | None,
    typer.Option(
        "--generate",
        metavar="N",
        min=1,
        help="Let a language model go on by N tokens, and show what of the prompt each came from.",
    ),
]
Granularity = Annotated[
    str | None,
    typer.Option(
        help="With --generate, the pieces of the prompt: token (default), word, sentence, paragraph, or passage, "
        "marked as [[...]]."
    ),
]
Answer = Annotated[
    list[str] | None,
    typer.Option(
        help="Explain this answer of a language model as a whole; given twice, the first rather than the second. "
        "With --generate, token by token."
    ),
]


def answers(given: list[str] | None) -> str | tuple[str, str] | None:
    """Return one answer, or two to hold against each other."""
    if not given:
        return None
    if len(given) > 2:
        raise BadParameter(
            f"--answer can be given once, or twice for a contrast. Got {len(given)}."
        )
    return given[0] if len(given) == 1 else (given[0], given[1])


def prompt(what: Subject, beside: Mapping[str, Any]) -> str:
    """Return the text to go on from; nothing that is about something else may stand beside it."""
    beside = {"--image": what.image, "--pair": what.pair, **beside}
    if named := [name for name, value in beside.items() if value is not None]:
        raise BadParameter(f"{named[0]} means nothing beside --generate. Leave one of them out.")
    assert what.text is not None  # without a picture there is one
    return what.text


def check_alone(granularity: str | None) -> None:
    """Refuse pieces of a prompt where there is no answer to divide it for."""
    if granularity is not None:
        raise BadParameter(
            f"--granularity {granularity} is for --generate N, which divides the prompt. Give both, or leave it out."
        )


def generate(
    text: str,
    tokens: int,
    *,
    model: str,
    methods: list[str],
    param: list[str] | None,
    answer: list[str] | None,
    granularity: str | None,
    of: str,
    device: str | None,
    dtype: str | None,
    checkpoint: bool,
    compile: bool,
    revision: str | None,
    truncate: bool,
    html: Path | None,
    as_json: bool,
) -> None:
    """Generate, explain and show."""
    from whence.data.text.pieces import (  # what is wrong is said before a model is loaded
        check,
        unmarked,
    )

    pieces = check(granularity or "token")
    if pieces == "passage":
        unmarked(text)
    if len(methods) > 1:
        raise BadParameter(f"--generate takes one --method at a time. Got {', '.join(methods)}.")
    wanted = answers(answer)
    if isinstance(wanted, tuple):
        raise BadParameter(
            "--generate takes one --answer. For a contrast of two, leave --generate out."
        )
    given = asking.parameters(param)
    if html is not None:
        check_writable(html)
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.explainer import load
            from whence.explainer.request import check_default, requests

            if methods:
                requests(methods, given, asking.ANY_FILLERS, from_text=True)
            else:
                check_default(given, asking.ANY_FILLERS)
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
                compile=compile,
            )
        methods = methods or [explainer.default_method()]
        (asked,) = requests(methods, given, explainer.fillers, from_text=True)
        found = explainer.generate(
            text,
            tokens,
            method=asked.name,
            params=asked.params,
            answer=wanted,
            granularity=pieces,
            of=cast(Of, of),
            truncate=truncate,
            progress=report,
        )
    asking.show(found, console, html=html, as_json=as_json)
