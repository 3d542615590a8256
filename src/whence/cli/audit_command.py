"""The command `whence audit`: test whether attention may be read as an explanation of a model."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from whence.cli import options
from whence.cli.options import DATA, MODEL, TESTS, option
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadParameter

if TYPE_CHECKING:
    pass


def audit(
    data: options.DataArgument,
    model: options.ModelOptions,
    output: options.OutputOptions,
    limit: int | None = option(DATA, "Draw so many examples.", metavar="N", min=1),
    train: str | None = option(
        DATA, "Training data, for experiments that train models.", metavar="DATA"
    ),
    truncate: options.Truncate = True,
    base: str | None = option(
        MODEL, "The pre-trained model that a Transformer was fine-tuned from.", metavar="MODEL"
    ),
    other: list[str] | None = option(
        MODEL,
        "The same model trained with another seed; may be given several times.",
        metavar="MODEL",
    ),
    experiment: list[str] | None = option(
        TESTS,
        "What to try; may be given several times, or with commas; all means all (whence list experiments). By "
        "default those that train no model, and with --train all.",
        autocompletion=options.complete_experiment,
    ),
    site: str = option(
        TESTS,
        "Whose attention: last (layer), all (layers at once), layers or heads (each by itself), 3 (a "
        "layer), 3.0 (a head of it).",
        metavar="WHERE",
        default="last",
    ),
    special: str = option(
        TESTS,
        "The weights of special tokens: keep them, or free to be moved.",
        metavar="HOW",
        default="keep",
    ),
    param: list[str] | None = option(
        TESTS,
        "A parameter of the experiments; EXPERIMENT.NAME=VALUE for one of them.",
        metavar="NAME=VALUE",
    ),
    epochs: int | None = option(TESTS, "Train so long instead of as usual.", metavar="N", min=1),
    seed: options.Seed = 0,
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
    names = options.split_names(experiment) or None
    if special not in ("keep", "free"):
        raise BadParameter(f"--special must be keep or free. Got {special!r}.")
    with show_progress(f"loading {model.name}") as (console, report):
        with pause_garbage_collection():
            from whence.studies.audit.audit import audit as run
            from whence.studies.audit.audit import check_training_data, select_experiments
            from whence.studies.audit.subject import check_site

            # Errors of the request are raised before a model is loaded.
            check_site(site)
            can_train, others = train is not None, bool(other)
            chosen = select_experiments(
                names, params, can_train=can_train, others=others, from_text=True
            )
            check_training_data(chosen, can_train, others)
            examples = data.read()
            training = None if train is None else replace(data, data=train).read()
            explainer = model.load()

        result = run(
            explainer,
            examples,
            experiments=names,
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
        )
    output.print(result, console)
