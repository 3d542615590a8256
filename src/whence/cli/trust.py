"""`whence trust`: explain one text, test the explanation on the model, and say whether to believe it."""

from typing import Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.errors import BadParameter
from whence.core.io import check_writable
from whence.core.types import Of


def trust(
    text: asking.Given,
    pair: asking.Pair = None,
    model: asking.Model = "reviews",
    method: asking.Method = None,
    target: asking.Aim = None,
    param: asking.Param = None,
    remove: asking.Remove = None,
    mlm: asking.Mlm = None,
    unit: asking.By = "token",
    budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="How often the tests may ask the model, at most."),
    ] = None,
    seed: asking.Seed = 0,
    as_json: asking.AsJson = False,
    html: asking.Html = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    of: asking.Explained = "logit",
    revision: asking.Revision = None,
    truncate: asking.Truncate = False,
) -> None:
    """Test an explanation on the model it is about: should you believe it?

    Each test ends in a word: holds, weak, fails, or not tested. The exit status is 0 whatever it is.

    Examples:

        whence trust "a gripping, beautifully acted film"

        whence trust "not a bad film" --method attcat --method rollout --html trust.html

        whence trust "not a bad film" --remove all --json
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
            asking.check_removal(remove, unit)
            if budget is not None and budget < 1:
                raise BadParameter(
                    f"--budget must be a number of model calls, at least 1. Got {budget}."
                )
            explainer = load(model, device=device, dtype=dtype, revision=revision, mlm=mlm)
        asked = requests(methods, given, explainer.fillers, from_text=True)
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        card = explainer.trust(
            text if pair is None else (text, pair),
            method=[request.name for request in asked],
            params={request.name: request.params for request in asked},
            target=target,
            of=cast(Of, of),  # checked, with an error of its own, by TargetSpec
            truncate=truncate,
            remove=cast(Any, remove),
            unit=cast(Any, unit),
            seed=seed,
            progress=report,
            **limit,
        )
    asking.show(card, console, html=html, as_json=as_json)
