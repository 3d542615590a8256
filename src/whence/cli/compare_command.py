"""The command `whence compare`: differences between two models of one tokenizer over a data set."""

from typing import Annotated, Any, cast

import typer

from whence.cli import options
from whence.cli.options import DATA, METHODS, TESTS, option
from whence.cli.progress_bar import pause_garbage_collection, show_progress


def compare(
    base: Annotated[
        str,
        typer.Argument(
            help="The first model, such as the pre-trained one; it may have no classification head."
        ),
    ],
    tuned: Annotated[
        str,
        typer.Argument(
            help="The second model, such as the fine-tuned one: the same tokenizer, layers and heads."
        ),
    ],
    data: options.DataOptions,
    output: options.OutputOptions,
    limit: int | None = option(
        DATA, "Draw so many examples.", "--limit", "--sample", metavar="N", min=1
    ),
    truncate: options.Truncate = True,
    device: options.Device = None,
    dtype: options.Dtype = None,
    method: str | None = option(
        METHODS,
        "How words are scored, where both models have a head; none leaves that out.",
        autocompletion=options.complete_method,
    ),
    weight: str = option(
        TESTS,
        "What an edge of the flow weighs: attention, norm, value_zeroing, gradient_x_attention, relevance.",
        metavar="WEIGHT",
        default="attention",
    ),
    coverage: float = option(
        TESTS,
        "Compare the fewest edges that carry this share of what all edges carry, from 0 to 1.",
        metavar="SHARE",
        default=0.5,
    ),
    specials: bool = option(
        TESTS, "Count edges that end on special tokens, too; by default they do not.", default=False
    ),
    seed: options.Seed = 0,
) -> None:
    """Compare two models of one tokenizer over a data set: what did fine-tuning change?

    Head by head: how far attention moved, to which tokens, whether the flow from the decision still takes the same
    edges, whether both lean on the same words. Every figure has an interval, and stands beside what chance gives.

    Examples:

        whence compare path/to/pre-trained path/to/fine-tuned --data reviews.tsv --limit 200

        whence compare reviews-base reviews --data reviews.tsv --html changed.html
    """
    with show_progress(f"loading {base} and {tuned}", "asking the models") as (console, report):
        with pause_garbage_collection():
            from whence.explain.request import DEFAULT_OF_MODEL
            from whence.studies.compare.compare import check_compare_parameters
            from whence.studies.compare.compare import compare as run

            # Errors of the request are raised before a model is loaded.
            chosen = None if method == "none" else method or DEFAULT_OF_MODEL
            check_compare_parameters(weight, coverage, chosen, limit, seed)
            examples = data.read()
        comparison = run(
            base,
            tuned,
            examples,
            limit=limit,
            weight=cast(Any, weight),
            coverage=coverage,
            specials=specials,
            method=chosen,
            truncate=truncate,
            seed=seed,
            device=device,
            dtype=dtype,
            progress=report,
        )
    output.print(comparison, console)
