"""`whence recommend`: which method to use on a model, in a sentence with the table behind it."""

from typing import Annotated, Any

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.evaluate import Data, LabelColumn, PairColumn, TextColumn
from whence.cli.progress import working
from whence.core.errors import BadParameter, NothingExplained


def recommend(
    data: Data,
    model: asking.Model = "reviews",
    budget: Annotated[
        int | None, typer.Option(metavar="N", help="How often the model may be run, at most.")
    ] = None,
    method: asking.Method = None,
    param: asking.Param = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: LabelColumn = None,
    seed: asking.Seed = 0,
    as_json: asking.AsJson = False,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    checkpoint: asking.Checkpoint = False,
    compile: asking.Compile = False,
    revision: asking.Revision = None,
) -> None:
    """Say which method to use on a model: tested on a sample, within a budget that is stated first.

    Recommended is the quickest method, timed on an example, among those that cannot be told from the best; if none
    beats random explanations, the answer says so.

    Examples:

        whence recommend --data reviews.tsv

        whence recommend --model path/to/model --data pairs.csv --text premise --pair hypothesis --budget 50000
    """
    given = asking.parameters(param)
    if budget is not None and budget < 1:
        raise BadParameter(f"--budget must be a number of model calls, at least 1. Got {budget}.")
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.data.sets.examples import collect
            from whence.evaluation import recommend as run
            from whence.explainer import load
            from whence.explainer.request import requests
            from whence.methods import method as registry

            methods = method or [name for name in registry.names() if name != "random"]
            # What is wrong with the request is said before a model is loaded for it.
            requests(methods, given, asking.ANY_FILLERS, from_text=True)
            examples = collect(data, text=text, pair=pair, label=label)
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
                compile=compile,
            )
        asked = requests(methods, given, explainer.fillers, from_text=True)
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        console.print(str(examples), style="dim", highlight=False, markup=False, soft_wrap=True)
        answer = run(
            explainer,
            examples,
            methods=[request.name for request in asked],
            params={request.name: request.params for request in asked},
            seed=seed,
            announce=lambda plan: console.print(
                str(plan), style="dim", highlight=False, markup=False
            ),
            progress=report,
            **limit,
        )
    if as_json:
        asking.print_json(answer.to_dict())
    else:
        from rich.console import Console

        Console().print(answer)
    if (why := answer.evaluation.failure) is not None:
        raise NothingExplained(
            f"{why} Correct what these errors name, or choose other examples or methods."
        )
