"""The command `whence compare`: differences between two models of one tokenizer over a data set."""

from typing import Annotated, Any, cast

import typer

from whence.cli import options
from whence.cli.evaluate_command import PairColumn, TextColumn
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.files import check_writable


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
            autocompletion=options.complete_method,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Other draws of examples and of random edges.")] = 0,
    as_json: options.AsJson = False,
    html: options.Html = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    truncate: options.TruncateByDefault = True,
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
    with show_progress(f"loading {base} and {tuned}", "asking the models") as (console, report):
        with pause_garbage_collection():
            from whence.data.dataset import read_dataset
            from whence.explain.request import DEFAULT_OF_MODEL
            from whence.studies.compare.compare import check_compare_parameters
            from whence.studies.compare.compare import compare as run

            # Errors of the request are raised before a model is loaded.
            chosen = None if method == "none" else method or DEFAULT_OF_MODEL
            check_compare_parameters(weight, coverage, chosen, limit, seed)
            examples = read_dataset(data, text=text, pair=pair, label=label)
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
    options.print_result(comparison, console, html=html, as_json=as_json)
