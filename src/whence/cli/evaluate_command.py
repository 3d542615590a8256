"""The commands `whence evaluate` (methods tested on data) and `whence recommend` (one chosen by such a test)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from whence.cli import options
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import BadParameter, NothingExplained
from whence.core.files import check_writable, write_text

if TYPE_CHECKING:
    from whence.studies.evaluation.evaluation import Evaluation

Data = Annotated[
    Path,
    typer.Option(
        metavar="FILE",
        help="The data set: .txt (one text a line), .tsv or .csv (with a header), .jsonl or .parquet, also as .gz; "
        "or a folder of pictures, with a folder for each class.",
    ),
]
TextColumn = Annotated[
    str | None, typer.Option("--text", metavar="COLUMN", help="The column of the texts.")
]
PairColumn = Annotated[
    str | None, typer.Option("--pair", metavar="COLUMN", help="The column of the second texts.")
]
LabelColumn = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The column of the labels.")
]


def evaluate(
    data: Data,
    model: options.Model = "reviews",
    method: options.Method = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="What to measure; may be given several times (whence list metrics).",
            autocompletion=options.complete_metric,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="A parameter of the methods or metrics; METHOD.NAME=VALUE or METRIC.NAME=VALUE for one of them.",
        ),
    ] = None,
    sample: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Draw so many examples.")
    ] = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: LabelColumn = None,
    target: options.TargetOption = None,
    remove: options.Remove = None,
    mlm: options.Mlm = None,
    unit: options.RemovalUnit = "token",
    rankings: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random explanations of each example.")
    ] = 5,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables in Markdown.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables in LaTeX.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a row for each method and metric.")
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a row for each two methods and metric: which is better, and p.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw methods by metrics, in SVG; with --remove all a file for each removal, FILE-mask and so on.",
        ),
    ] = None,
    device: options.Device = None,
    dtype: options.Dtype = None,
    checkpoint: options.Checkpoint = False,
    revision: options.Revision = None,
    truncate: Annotated[
        bool, typer.Option(help="Cut texts that are too long, or count them as not explained.")
    ] = True,
) -> None:
    """Test methods over a data set: means with intervals, against random explanations and each other.

    Examples:

        whence evaluate --data reviews.tsv --sample 100 --method attcat --method rollout

        whence evaluate --data movies.jsonl.gz --metric token_f1 --metric auprc --latex table.tex

        whence evaluate --data reviews.txt --remove all --plot table.svg

        whence evaluate --model vit --data photographs --metric perturbation --metric segmentation
    """
    params = options.parse_params(param)
    for path in (markdown, latex, csv, pairs, plot):
        if path is not None:
            check_writable(path)
    with show_progress(f"loading {model}") as (console, report):
        with pause_garbage_collection():
            from whence.data.dataset import read_dataset
            from whence.data.removal import list_removals
            from whence.explain.explainer import load
            from whence.explain.request import resolve_methods
            from whence.studies.evaluation.evaluate import evaluate as run
            from whence.studies.evaluation.evaluate import list_default_methods
            from whence.studies.evaluation.measure import describe_annotations, resolve_metrics

            methods = method or list_default_methods()
            method_params, metric_params = _split_params(params, methods)
            # Errors of the request are raised before a model is loaded.
            resolve_methods(
                methods, method_params, options.PLACEHOLDER_REPLACEMENTS, from_text=True
            )
            options.check_removal(remove, unit)
            examples = read_dataset(data, text=text, pair=pair, label=label, question_first=True)
            metrics = resolve_metrics(
                metric, metric_params, **describe_annotations(examples.examples), from_text=True
            )
            drawing: dict[str, Any] = {} if mlm is None else {"mlm": mlm}
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
                **drawing,
            )
        examples = examples if sample is None else examples.draw(sample, seed)
        requests = resolve_methods(methods, method_params, explainer.fillers, from_text=True)
        removals = list_removals(explainer.fillers) if remove == "all" else [remove]
        console.print(str(examples), style="dim", highlight=False, markup=False, soft_wrap=True)
        tables = [
            run(
                explainer,
                examples,
                [request.name for request in requests],
                [measure.name for measure in metrics],
                params={request.name: request.params for request in requests},
                metric_params={measure.name: measure.params for measure in metrics},
                remove=cast(Any, removal),
                unit=cast(Any, unit),
                target=target,
                truncate=truncate,
                rankings=rankings,
                seed=seed,
                progress=_scale_progress(report, number, len(removals)),
            )
            for number, removal in enumerate(removals)
        ]
    paths = _write_tables(tables, markdown, latex, {"cells": csv, "pairs": pairs}, plot)
    _print_tables(tables, remove == "all", as_json)
    if not as_json:
        for path in paths:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)
    _check_any_result(tables)


def _split_params(
    params: dict[str, str], methods: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the parameters of methods and those of metrics; a shared name goes to the methods."""
    from whence.methods import method as registry
    from whence.metrics import metric

    entries = [registry.get(name) for name in methods]
    method_names = {"preset", *methods, *(name for entry in entries for name in entry.parameters)}
    metric_names = {*metric.names(), *(name for entry in metric for name in entry.parameters)}
    of_methods: dict[str, Any] = {}
    of_metrics: dict[str, Any] = {}
    for key, value in params.items():
        owner = key.partition(".")[0]
        (of_metrics if owner in metric_names and owner not in method_names else of_methods)[key] = (
            value
        )
    return of_methods, of_metrics


def _scale_progress(
    report: Callable[[int, int], None], number: int, parts: int
) -> Callable[[int, int], None]:
    """Return a progress callback for one of several evaluations, scaled to all of them."""
    return lambda done, total: report(number * total + done, parts * total)


def _write_tables(
    tables: Sequence["Evaluation"],
    markdown: Path | None,
    latex: Path | None,
    rows: Mapping[Literal["cells", "pairs"], Path | None],
    plot: Path | None,
) -> list[Path]:
    """Write the requested tables and plots, and return their paths."""
    paths = []
    if markdown is not None:
        paths.append(write_text(markdown, "\n".join(table.to_markdown() for table in tables)))
    if latex is not None:
        paths.append(write_text(latex, "\n".join(table.to_latex() for table in tables)))
    for what, path in rows.items():
        if path is not None:
            first, *rest = (table.to_csv(what=what) for table in tables)
            bodies = [text.partition("\n")[2] for text in rest]  # only one header row
            paths.append(write_text(path, first + "".join(bodies)))
    if plot is not None:
        for table in tables:
            removal = table.payload["setting"]["remove"]
            plot_path = plot if len(tables) == 1 else plot.with_stem(f"{plot.stem}-{removal}")
            paths.append(write_text(plot_path, table.plot()))
    return paths


def _check_any_result(tables: Sequence["Evaluation"]) -> None:
    """Raise NothingExplained if every removal failed on all examples."""
    failures = [table.failure for table in tables]
    if None not in failures:
        raise NothingExplained(
            f"{failures[0]} Correct what these errors name, or choose other examples, methods or metrics."
        )


def _print_tables(tables: Sequence["Evaluation"], several: bool, as_json: bool) -> None:
    from whence.studies.evaluation.evaluation import describe_removal_effects

    if as_json:
        payload = tables[0].to_dict()
        if several:
            payload = {
                "version": payload["version"],
                "kind": "evaluations",
                "removal_matters": describe_removal_effects(tables),
                "evaluations": [table.to_dict() for table in tables],
            }
        options.print_json(payload)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for number, table in enumerate(tables):
        console.print(*([""] if number else []), table, sep="\n")
    if several:
        console.print()
        console.print(Text(describe_removal_effects(tables), "bold"))


def recommend(
    data: Data,
    model: options.Model = "reviews",
    budget: Annotated[
        int | None, typer.Option(metavar="N", help="How often the model may be run, at most.")
    ] = None,
    method: options.Method = None,
    param: options.Param = None,
    text: TextColumn = None,
    pair: PairColumn = None,
    label: LabelColumn = None,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    device: options.Device = None,
    dtype: options.Dtype = None,
    checkpoint: options.Checkpoint = False,
    revision: options.Revision = None,
) -> None:
    """Say which method to use on a model: tested on a sample, within a budget that is stated first.

    Recommended is the quickest method, timed on an example, among those that cannot be told from the best; if none
    beats random explanations, the answer says so.

    Examples:

        whence recommend --data reviews.tsv

        whence recommend --model path/to/model --data pairs.csv --text premise --pair hypothesis --budget 50000
    """
    params = options.parse_params(param)
    if budget is not None and budget < 1:
        raise BadParameter(f"--budget must be a number of model calls, at least 1. Got {budget}.")
    with show_progress(f"loading {model}") as (console, report):
        with pause_garbage_collection():
            from whence.data.dataset import read_dataset
            from whence.explain.explainer import load
            from whence.explain.request import resolve_methods
            from whence.methods import method as registry
            from whence.studies.evaluation.recommend import recommend as run

            methods = method or [name for name in registry.names() if name != "random"]
            # Errors of the request are raised before a model is loaded.
            resolve_methods(methods, params, options.PLACEHOLDER_REPLACEMENTS, from_text=True)
            examples = read_dataset(data, text=text, pair=pair, label=label, question_first=True)
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
            )
        requests = resolve_methods(methods, params, explainer.fillers, from_text=True)
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        console.print(str(examples), style="dim", highlight=False, markup=False, soft_wrap=True)
        answer = run(
            explainer,
            examples,
            methods=[request.name for request in requests],
            params={request.name: request.params for request in requests},
            seed=seed,
            announce=lambda plan: console.print(
                str(plan), style="dim", highlight=False, markup=False
            ),
            progress=report,
            **limit,
        )
    if as_json:
        options.print_json(answer.to_dict())
    else:
        from rich.console import Console

        Console().print(answer)
    if (why := answer.evaluation.failure) is not None:
        raise NothingExplained(
            f"{why} Correct what these errors name, or choose other examples or methods."
        )
