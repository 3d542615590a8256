"""The command `whence audit`: test whether attention may be read as an explanation of a model."""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from whence.cli import options
from whence.cli.evaluate_command import PairColumn, TextColumn
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadParameter
from whence.core.files import check_writable

if TYPE_CHECKING:
    from whence.studies.audit.audit import AuditCostEstimate


def audit(
    data: Annotated[
        str,
        typer.Argument(
            help="The data set: a .jsonl, .csv, .tsv, .parquet or .txt file, also as .gz, or a Hugging Face data "
            "set or a folder of data files: NAME, NAME:SPLIT or NAME:CONFIG:SPLIT.",
        ),
    ],
    model: options.Model = "reviews",
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            help="What to try; may be given several times; all means all (whence list experiments). By default those "
            "that train no model, and with --train all.",
            autocompletion=options.complete_experiment,
        ),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Draw so many examples.")
    ] = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="The column of the true labels.")
    ] = None,
    train: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="Training data, for experiments that train models."),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL", help="The pre-trained model that a Transformer was fine-tuned from."
        ),
    ] = None,
    other: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help="The same model trained with another seed; may be given several times.",
        ),
    ] = None,
    site: Annotated[
        str,
        typer.Option(
            metavar="WHERE",
            help="Whose attention: last (layer), all (layers at once), layers or heads (each by itself), 3 (a "
            "layer), 3.0 (a head of it).",
        ),
    ] = "last",
    special: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="The weights of special tokens: keep them, or free to be moved."
        ),
    ] = "keep",
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the experiments; EXPERIMENT.NAME=VALUE for one of them.",
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Train so long instead of as usual.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Other draws, other starts of what is trained.")] = 0,
    as_json: options.AsJson = False,
    html: options.Html = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    revision: options.Revision = None,
    truncate: options.TruncateByDefault = True,
) -> None:
    """Test whether attention may be read as an explanation of a model's predictions.

    Each experiment states its hypothesis and threshold first and ends in a word: holds, fails, or undecided. The exit
    status is 0 whatever it is.

    Examples:

        whence audit reviews.tsv --model path/to/model --html audit.html

        whence audit reviews.tsv --experiment permutation --experiment adversarial --limit 100 --json

        whence audit test.jsonl --model path/to/model --train train.jsonl --experiment all
    """
    params = options.parse_params(param)
    if html is not None:
        check_writable(html)
    if special not in ("keep", "free"):
        raise BadParameter(f"--special must be keep or free. Got {special!r}.")
    with show_progress(f"loading {model}") as (console, report):
        with pause_garbage_collection():
            from whence.data.dataset import read_dataset
            from whence.explain.explainer import load
            from whence.studies.audit.audit import audit as run
            from whence.studies.audit.audit import check_training_data, select_experiments
            from whence.studies.audit.subject import check_site

            # Errors of the request are raised before a model is loaded.
            check_site(site)
            can_train, others = train is not None, bool(other)
            chosen = select_experiments(
                experiment, params, can_train=can_train, others=others, from_text=True
            )
            check_training_data(chosen, can_train, others)
            examples = read_dataset(data, text=text, pair=pair, label=label)
            training = (
                None if train is None else read_dataset(train, text=text, pair=pair, label=label)
            )
            explainer = load(model, device=device, dtype=dtype, revision=revision)

        def announce(plan: "AuditCostEstimate") -> None:
            for line in plan.describe():
                console.print(line, style="dim", highlight=False, markup=False)

        result = run(
            explainer,
            examples,
            experiments=experiment,
            params={request.name: request.params for request in chosen},
            limit=limit,
            train=training,
            base=base,
            others=other or (),
            site=site,
            special=cast(Any, special),
            truncate=truncate,
            epochs=epochs,
            seed=seed,
            progress=report,
            announce=announce,
        )
    options.print_result(result, console, html=html, as_json=as_json)
