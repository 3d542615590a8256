"""`whence explain`: one text or picture, explained in the terminal, as JSON, as a page or as a sheet of maps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli import generate as generating
from whence.cli import subject as subjects
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.io import check_writable, write_bytes, write_text
from whence.core.types import Of
from whence.view import listed, merge

if TYPE_CHECKING:
    from whence.explainer import Explainer, Explanation


def explain(
    text: subjects.Text = None,
    image: subjects.Image = None,
    pair: asking.Pair = None,
    model: subjects.Model = None,
    method: asking.Method = None,
    target: asking.Aims = None,
    at: asking.At = None,
    labels: asking.Labels = None,
    template: asking.Template = None,
    answer: generating.Answer = None,
    generate: generating.Tokens = None,
    granularity: generating.Granularity = None,
    param: asking.Param = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="K", help="How many words or patches to list.")
    ] = 8,
    as_json: asking.AsJson = False,
    html: asking.Html = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Write the maps over the picture, side by side."),
    ] = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    checkpoint: asking.Checkpoint = False,
    compile: asking.Compile = False,
    of: asking.Explained = "logit",
    revision: asking.Revision = None,
    truncate: asking.Truncate = False,
) -> None:
    """Explain one prediction: which words, or which parts of a picture, spoke for it, and which against.

    Examples:

        whence explain "a gripping, beautifully acted film"

        whence explain "not a bad film" --method attcat --method leave_one_out --param remove=delete

        whence explain "Who lives here?" --pair "Anna lives in Paris." --model some/qa-model --target start

        whence explain "the team won" --labels sports,politics --model some/nli-model

        whence explain --image photo.jpg --model some/vit-model --target cat --target dog --out maps.png

        whence explain "The capital of France is" --generate 5 --model some/language-model --granularity word

        cat review.txt | whence explain - --model path/to/model --truncate --json
    """
    what = subjects.subject(text, pair, image, model)
    if generate is not None:
        beside = {
            "--target": target,
            "--at": at,
            "--labels": labels,
            "--template": template,
            "--out": out,
        }
        generating.generate(
            generating.prompt(what, beside),
            generate,
            model=what.model,
            methods=method or [],
            param=param,
            answer=answer,
            granularity=granularity,
            of=of,
            device=device,
            dtype=dtype,
            checkpoint=checkpoint,
            compile=compile,
            revision=revision,
            truncate=truncate,
            html=html,
            as_json=as_json,
        )
        return
    generating.check_alone(granularity)
    given = asking.parameters(param)
    if html is not None:
        check_writable(html)
    subjects.check_picture_file(out, what)
    with working(f"loading {what.model}") as (console, report):
        with importing():
            from whence.explainer import load

            what.check_methods(method, given)
            picture = what.opened()
            explainer = load(
                what.model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
                compile=compile,
            )
        own, beside = what.asked(explainer, picture, method, given)
        every, kind = _by_target(
            explainer,
            own,
            target,
            of=cast(Of, of),  # checked, with an error of its own, by TargetSpec
            truncate=truncate,
            at=at,
            labels=asking.label_set(labels),
            template=template,
            answer=generating.answers(answer),
            progress=report,
            **beside,
        )
        if html is not None:
            from whence.explainer.kept.page import offline

            write_text(html, offline([list(one.values()) for one in every]))
    payloads = [merge([explanation.to_shown() for explanation in one.values()]) for one in every]
    if out is not None:
        from whence.report.picture.drawing import sheet

        write_bytes(out, sheet(payloads))
    if as_json:
        asking.print_json(payloads[0] if kind is None else listed(payloads, kind))
        return
    from rich.console import Console

    from whence.report.terminal import render_all, summary

    if kind == "entities" and len(payloads) > 1:
        Console().print(summary(payloads))
    Console().print(render_all(payloads, top))
    for path in (html, out):
        if path is not None:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)


def _by_target(
    explainer: "Explainer", given: Any, targets: list[str] | None, **how: Any
) -> tuple[list[dict[str, "Explanation"]], str | None]:
    """Explain each target; say what there are several of: targets, or the entities of a tagger, or nothing."""
    wanted: list[str | None] = [*dict.fromkeys(targets)] if targets else [None]
    found = [explainer.explain(given, target=target, **how) for target in wanted]
    every = [one for own in found for one in (own if isinstance(own, list) else [own])]
    if len(wanted) > 1:
        return every, "targets"
    return every, "entities" if isinstance(found[0], list) else None


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
