"""The command `whence trust`: tests of explanations of one input on their model, printed as a trust card."""

from typing import Annotated, Any, cast

import typer

from whence.cli import explain_command, options
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadParameter
from whence.core.files import check_writable
from whence.core.types import OutputScale


def trust(
    text: options.Text = None,
    image: options.Image = None,
    pair: options.Pair = None,
    model: options.OptionalModel = None,
    method: options.Method = None,
    target: options.TargetOption = None,
    at: options.At = None,
    labels: options.Labels = None,
    template: options.Template = None,
    answer: explain_command.Answer = None,
    param: options.Param = None,
    remove: options.Remove = None,
    mlm: options.Mlm = None,
    unit: options.RemovalUnit = "token",
    budget: Annotated[
        int | None,
        typer.Option(metavar="N", help="How often the tests may ask the model, at most."),
    ] = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    html: options.Html = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    checkpoint: options.Checkpoint = False,
    of: options.OutputKind = "logit",
    revision: options.Revision = None,
    truncate: options.Truncate = False,
) -> None:
    """Test an explanation on the model it is about: should you believe it?

    Each test ends in a word: holds, weak, fails, or not tested. The exit status is 0 whatever it is.

    Examples:

        whence trust "a gripping, beautifully acted film"

        whence trust "not a bad film" --method attcat --method rollout --html trust.html

        whence trust "not a bad film" --remove all --json

        whence trust --image photo.jpg --model some/vit-model --remove blur --html trust.html
    """
    spec = options.parse_input(text, pair, image, model)
    params = options.parse_params(param)
    if html is not None:
        check_writable(html)
    with show_progress(f"loading {spec.model}") as (console, report):
        with pause_garbage_collection():
            from whence.explain.explainer import load

            spec.check_methods(method, params)
            options.check_removal(remove, unit)
            if budget is not None and budget < 1:
                raise BadParameter(
                    f"--budget must be a number of model calls, at least 1. Got {budget}."
                )
            picture = spec.read_image()
            explainer = load(
                spec.model,
                device=device,
                dtype=dtype,
                revision=revision,
                mlm=mlm,
                checkpoint=checkpoint,
            )
        source, beside = spec.build_arguments(explainer, picture, method, params)
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        card = explainer.trust(
            source,
            target=target,
            of=cast(OutputScale, of),  # checked by TargetSpec
            truncate=truncate,
            at=at,
            labels=options.parse_labels(labels),
            template=template,
            answer=explain_command.parse_answers(answer),
            remove=cast(Any, remove),
            unit=cast(Any, unit),
            seed=seed,
            progress=report,
            **limit,
            **beside,
        )
    options.print_result(card, console, html=html, as_json=as_json)
