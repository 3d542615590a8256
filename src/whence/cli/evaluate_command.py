"""The commands `whence evaluate` (methods tested on data) and `whence recommend` (one chosen by such a test)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from whence.cli import options
from whence.cli.options import DATA, METHODS, OUTPUT, TESTS, option
from whence.cli.progress_bar import pause_garbage_collection, show_progress
from whence.core.errors import NothingExplained
from whence.core.files import check_writable, write_text

if TYPE_CHECKING:
    from whence.studies.evaluation.evaluation import Evaluation


def evaluate(
    data: options.DataOptions,
    model: options.ModelOptions,
    methods: options.MethodOptions,
    removal: options.RemovalOptions,
    sample: int | None = option(DATA, "Draw so many examples.", metavar="N", min=1),
    truncate: options.Truncate = True,
    metric: list[str] | None = option(
        METHODS,
        "What to measure; may be given several times, or with commas (whence list metrics).",
        "--metric",
        "--metrics",
        autocompletion=options.complete_metric,
    ),
    target: options.TargetOption = None,
    rankings: int = option(
        TESTS, "Random explanations of each example.", metavar="N", min=1, default=5
    ),
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    markdown: options.Markdown = None,
    latex: options.Latex = None,
    csv: Path | None = option(OUTPUT, "Write a row for each method and metric.", metavar="FILE"),
    pairs: Path | None = option(
        OUTPUT,
        "Write a row for each two methods and metric: which is better, and p.",
        metavar="FILE",
    ),
    plot: Path | None = option(
        OUTPUT,
        "Draw methods by metrics, in SVG; with --remove all a file for each removal, FILE-mask and so on.",
        metavar="FILE",
    ),
) -> None:
    """Test methods over a data set: means with intervals, against random explanations and each other.

    Examples:

        whence evaluate --data reviews.tsv --sample 100 --method attcat --method rollout

        whence evaluate --data movies.jsonl.gz --metric token_f1 --metric auprc --latex table.tex

        whence evaluate --data reviews.txt --remove all --plot table.svg

        whence evaluate --model vit --data photographs --metric perturbation --metric segmentation
    """
    for path in (markdown, latex, csv, pairs, plot):
        if path is not None:
            check_writable(path)
    with show_progress(f"loading {model.name}") as (console, report):
        with pause_garbage_collection():
            from whence.data.removal import list_removals
            from whence.methods import method
            from whence.metrics import metric as registry
            from whence.studies.evaluation.evaluate import evaluate as run
            from whence.studies.evaluation.evaluate import list_default_methods
            from whence.studies.evaluation.measure import describe_annotations, resolve_metrics

            methods.names = methods.names or list_default_methods()
            known = {
                "methods": options.list_known_names(method, methods.names) | {"preset"},
                "metrics": options.list_known_names(registry, None),
            }
            params = options.split_params(methods.params, known)
            methods.params = params["methods"]
            # Errors of the request are raised before a model is loaded.
            methods.resolve(options.PLACEHOLDER_TOKENS)
            removal.check()
            examples = data.read(question_first=True)
            metrics = resolve_metrics(
                options.split_names(metric) or None,
                params["metrics"],
                **describe_annotations(examples.examples),
                from_text=True,
            )
            explainer = model.load(mlm=removal.mlm)
        examples = examples if sample is None else examples.draw(sample, seed)
        resolved = methods.resolve(explainer.fillers)
        removals = list_removals(explainer.fillers) if removal.remove == "all" else [removal.remove]
        options.print_note(console, str(examples))
        tables = [
            run(
                explainer,
                examples,
                list(resolved),
                [measure.name for measure in metrics],
                params=resolved,
                metric_params={measure.name: measure.params for measure in metrics},
                remove=cast(Any, how),
                unit=cast(Any, removal.unit),
                target=target,
                truncate=truncate,
                rankings=rankings,
                seed=seed,
                progress=lambda done, total, before=number: report(  # type: ignore[misc]
                    before * total + done, len(removals) * total
                ),
            )
            for number, how in enumerate(removals)
        ]
    paths = _write_tables(tables, markdown, latex, {"cells": csv, "pairs": pairs}, plot)
    _print_tables(tables, removal.remove == "all", as_json)
    if not as_json:
        options.print_paths(console, *paths)
    _check_any_result(tables)


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
    data: options.DataOptions,
    model: options.ModelOptions,
    methods: options.MethodOptions,
    budget: int | None = option(TESTS, "How often the model may be run, at most.", metavar="N"),
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Say which method to use on a model: tested on a sample, within a budget that is stated first.

    Recommended is the quickest method, timed on an example, among those that cannot be told from the best; if none
    beats random explanations, the answer says so.

    Examples:

        whence recommend --data reviews.tsv

        whence recommend --model path/to/model --data pairs.csv --text premise --pair hypothesis --budget 50000
    """
    options.check_budget(budget)
    with show_progress(f"loading {model.name}") as (console, report):
        with pause_garbage_collection():
            from whence.methods import method as registry
            from whence.studies.evaluation.recommend import recommend as run

            methods.names = methods.names or [name for name in registry.names() if name != "random"]
            # Errors of the request are raised before a model is loaded.
            methods.resolve(options.PLACEHOLDER_TOKENS)
            examples = data.read(question_first=True)
            explainer = model.load()
        resolved = methods.resolve(explainer.fillers)
        options.print_note(console, str(examples))
        limit: dict[str, Any] = {} if budget is None else {"budget": budget}
        answer = run(
            explainer,
            examples,
            methods=list(resolved),
            params=resolved,
            seed=seed,
            progress=report,
            **limit,
        )
    options.OutputOptions(as_json).print(answer, console)
    _check_any_result([answer.evaluation])
