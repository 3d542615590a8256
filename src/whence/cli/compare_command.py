"""`whence compare`: what changed between two models of one tokenizer, over a data set."""

from typing import Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.evaluate import PairColumn, TextColumn
from whence.cli.progress import working
from whence.core.io import check_writable


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
    data: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="The data set: a .jsonl, .csv, .tsv, .parquet or .txt file, also as .gz, or a Hugging Face data "
            "set: NAME, NAME:SPLIT or NAME:CONFIG:SPLIT.",
        ),
    ],
    limit: Annotated[
        int | None,
        typer.Option("--limit", "--sample", min=1, metavar="N", help="Draw so many examples."),
    ] = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of the true labels.")
    ] = None,
    weight: Annotated[
        str,
        typer.Option(
            metavar="WEIGHT",
            help="What an edge of the flow weighs: attention, norm, value_zeroing, gradient_x_attention, relevance.",
        ),
    ] = "attention",
    coverage: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            help="Compare the fewest edges that carry this share of what all edges carry, from 0 to 1.",
        ),
    ] = 0.5,
    specials: Annotated[
        bool,
        typer.Option(help="Count edges that end on special tokens, too; by default they do not."),
    ] = False,
    method: Annotated[
        str | None,
        typer.Option(
            help="How words are scored, where both models have a head; none leaves that out.",
            autocompletion=asking.method_names,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Other draws of examples and of random edges.")] = 0,
    as_json: asking.AsJson = False,
    html: asking.Html = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    truncate: asking.Truncated = True,
) -> None:
    """Compare two models of one tokenizer over a data set: what did fine-tuning change?

    Head by head: how far attention moved, to which tokens, whether the flow from the decision still takes the same
    edges, whether both lean on the same words. Every figure has an interval, and stands beside what chance gives.

    Examples:

        whence compare path/to/pre-trained path/to/fine-tuned --data reviews.tsv --limit 200

        whence compare reviews-base reviews --data reviews.tsv --html changed.html
    """
    if html is not None:
        check_writable(html)
    with working(f"loading {base} and {tuned}", "asking the models") as (console, report):
        with importing():
            from whence.comparison.run import check
            from whence.comparison.run import compare as run
            from whence.data.sets.examples import read
            from whence.explainer.request import BY_MODEL

            # What is wrong with the request is said before a model is loaded for it.
            chosen = None if method == "none" else method or BY_MODEL
            check(weight, coverage, chosen, limit, seed)
            examples = read(data, text=text, pair=pair, label=label)
        found = run(
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
    asking.show(found, console, html=html, as_json=as_json)
