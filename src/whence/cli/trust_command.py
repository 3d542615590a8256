"""`whence trust`: explain one text or picture, test the explanation on the model, and say whether to believe it."""

from typing import Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli import generate as generating
from whence.cli import subject as subjects
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.errors import BadParameter
from whence.core.io import check_writable
from whence.core.types import Of


def trust(
    text: subjects.Text = None,
    image: subjects.Image = None,
    pair: asking.Pair = None,
    model: subjects.Model = None,
    method: asking.Method = None,
    target: asking.Aim = None,
    at: asking.At = None,
    labels: asking.Labels = None,
    template: asking.Template = None,
    answer: generating.Answer = None,
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
    checkpoint: asking.Checkpoint = False,
    compile: asking.Compile = False,
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

        whence trust --image photo.jpg --model some/vit-model --remove blur --html trust.html
    """
    what = subjects.subject(text, pair, image, model)
    given = asking.parameters(param)
    if html is not None:
        check_writable(html)
    with working(f"loading {what.model}") as (console, report):
        with importing():
            from whence.explainer import load

            what.check_methods(method, given)
            asking.check_removal(remove, unit)
            if budget is not None and budget < 1:
                raise BadParameter(
                    f"--budget must be a number of model calls, at least 1. Got {budget}."
                )
            picture = what.opened()
            explainer = load(
                what.model,
                device=device,
                dtype=dtype,
                revision=revision,
                mlm=mlm,
                checkpoint=checkpoint,
                compile=compile,
            )
        own, beside = what.asked(explainer, picture, method, given)
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        card = explainer.trust(
            own,
            target=target,
            of=cast(Of, of),  # checked, with an error of its own, by TargetSpec
            truncate=truncate,
            at=at,
            labels=asking.label_set(labels),
            template=template,
            answer=generating.answers(answer),
            remove=cast(Any, remove),
            unit=cast(Any, unit),
            seed=seed,
            progress=report,
            **limit,
            **beside,
        )
    asking.show(card, console, html=html, as_json=as_json)
