"""`whence audit`: may attention be read as an explanation of this model, on this data?"""

from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.evaluate import PairColumn, TextColumn
from whence.cli.progress import working
from whence.core.errors import BadParameter
from whence.core.io import check_writable

if TYPE_CHECKING:
    from whence.audit.plan import Plan


def audit(
    data: Annotated[
        str,
        typer.Argument(
            help="The data set: a .jsonl, .csv, .tsv, .parquet or .txt file, also as .gz, or a Hugging Face data "
            "set or a folder of data files: NAME, NAME:SPLIT or NAME:CONFIG:SPLIT.",
        ),
    ],
    model: asking.Model = "reviews",
    experiment: Annotated[
        list[str] | None,
        typer.Option(
            help="What to try; may be given several times; all means all (whence list experiments). By default those "
            "that train no model, and with --train all.",
            autocompletion=asking.experiment_names,
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
    as_json: asking.AsJson = False,
    html: asking.Html = None,
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    revision: asking.Revision = None,
    truncate: asking.Truncated = True,
) -> None:
    """Test whether attention may be read as an explanation of a model's predictions.

    Each experiment states its hypothesis and threshold first and ends in a word: holds, fails, or undecided. The exit
    status is 0 whatever it is.

    Examples:

        whence audit reviews.tsv --model path/to/model --html audit.html

        whence audit reviews.tsv --experiment permutation --experiment adversarial --limit 100 --json

        whence audit test.jsonl --model path/to/model --train train.jsonl --experiment all
    """
    given = asking.parameters(param)
    if html is not None:
        check_writable(html)
    if special not in ("keep", "free"):
        raise BadParameter(f"--special must be keep or free. Got {special!r}.")
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.audit.chosen import choose
            from whence.audit.run import audit as run
            from whence.audit.run import require_training
            from whence.audit.site import check_site
            from whence.data.sets.examples import read
            from whence.explainer import load

            # What is wrong with the request is said before a model is loaded for it.
            check_site(site)
            can_train, others = train is not None, bool(other)
            chosen = choose(experiment, given, can_train=can_train, others=others, from_text=True)
            require_training(chosen, can_train, others)
            examples = read(data, text=text, pair=pair, label=label)
            training = None if train is None else read(train, text=text, pair=pair, label=label)
            explainer = load(model, device=device, dtype=dtype, revision=revision)

        def announce(plan: "Plan") -> None:
            for line in plan.lines():
                console.print(line, style="dim", highlight=False, markup=False)

        found = run(
            explainer,
            examples,
            experiments=experiment,
            params={one.name: one.params for one in chosen},
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
    asking.show(found, console, html=html, as_json=as_json)
