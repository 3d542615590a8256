"""`whence explain`: one text, explained in the terminal, as JSON or as a page."""

from typing import Annotated, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.io import check_writable, write_text
from whence.core.types import Of
from whence.view import merge


def explain(
    text: asking.Given,
    pair: asking.Pair = None,
    model: asking.Model = "reviews",
    method: asking.Method = None,
    target: asking.Aim = None,
    param: asking.Param = None,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="How many words to list.")] = 8,
    as_json: asking.AsJson = False,
    html: asking.Html = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    of: asking.Explained = "logit",
    revision: asking.Revision = None,
    truncate: asking.Truncate = False,
) -> None:
    """Explain one prediction: which words spoke for it, and which against.

    Examples:

        whence explain "a gripping, beautifully acted film"

        whence explain "not a bad film" --method attcat --method leave_one_out --param remove=delete

        cat review.txt | whence explain - --model path/to/model --truncate --json
    """
    text = asking.given_text(text)
    methods = method or ["attcat"]
    given = asking.parameters(param)
    if html is not None:
        check_writable(html)
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.explainer import load
            from whence.explainer.request import requests

            requests(methods, given, asking.ANY_FILLERS, from_text=True)
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
        if html is not None:
            from whence.explainer.page import offline

            write_text(html, offline([list(found.values())]))
    payload = merge([explanation.to_dict() for explanation in found.values()])
    if as_json:
        asking.print_json(payload)
        return
    from rich.console import Console

    from whence.report.terminal import render

    Console().print(render(payload, top))
    if html is not None:
        console.print(f"wrote {html}", style="dim", highlight=False, markup=False)
