"""`whence evaluate`: methods held against each other and against chance, over a data set."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.progress import working
from whence.core.errors import NothingExplained
from whence.core.io import check_writable, write_text

if TYPE_CHECKING:
    from whence.evaluation import Evaluation


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
    model: asking.Model = "reviews",
    method: asking.Method = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            help="What to measure; may be given several times (whence list metrics).",
            autocompletion=asking.metric_names,
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
    target: asking.Aim = None,
    remove: asking.Remove = None,
    mlm: asking.Mlm = None,
    unit: asking.By = "token",
    rankings: Annotated[
        int, typer.Option(min=1, metavar="N", help="Random explanations of each example.")
    ] = 5,
    seed: asking.Seed = 0,
    as_json: asking.AsJson = False,
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
    device: asking.Device = None,
    dtype: asking.Dtype = None,
    checkpoint: asking.Checkpoint = False,
    compile: asking.Compile = False,
    revision: asking.Revision = None,
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
    given = asking.parameters(param)
    for path in (markdown, latex, csv, pairs, plot):
        if path is not None:
            check_writable(path)
    with working(f"loading {model}") as (console, report):
        with importing():
            from whence.data.removal import possible
            from whence.data.sets.examples import collect
            from whence.evaluation import evaluate as run
            from whence.evaluation.measures import measures, of_examples
            from whence.evaluation.run import default_methods
            from whence.explainer import load
            from whence.explainer.request import requests

            methods = method or default_methods()
            own, others = _shared_out(given, methods)
            # What is wrong with the request is said before a model is loaded for it.
            requests(methods, own, asking.ANY_FILLERS, from_text=True)
            asking.check_removal(remove, unit)
            examples = collect(data, text=text, pair=pair, label=label)
            wanted = measures(metric, others, **of_examples(examples.examples), from_text=True)
            drawing: dict[str, Any] = {} if mlm is None else {"mlm": mlm}
            explainer = load(
                model,
                device=device,
                dtype=dtype,
                revision=revision,
                checkpoint=checkpoint,
                compile=compile,
                **drawing,
            )
        examples = examples if sample is None else examples.draw(sample, seed)
        asked = requests(methods, own, explainer.fillers, from_text=True)
        ways = possible(explainer.fillers) if remove == "all" else [remove]
        console.print(str(examples), style="dim", highlight=False, markup=False, soft_wrap=True)
        tables = [
            run(
                explainer,
                examples,
                [request.name for request in asked],
                [measure.name for measure in wanted],
                params={request.name: request.params for request in asked},
                metric_params={measure.name: measure.params for measure in wanted},
                remove=cast(Any, way),
                unit=cast(Any, unit),
                target=target,
                truncate=truncate,
                rankings=rankings,
                seed=seed,
                progress=_part(report, place, len(ways)),
            )
            for place, way in enumerate(ways)
        ]
    written = _export(tables, markdown, latex, {"cells": csv, "pairs": pairs}, plot)
    _answer(tables, remove == "all", as_json)
    if not as_json:
        for path in written:
            console.print(f"wrote {path}", style="dim", highlight=False, markup=False)
    _check(tables)


def _shared_out(
    given: dict[str, str], methods: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Tell the parameters of methods from those of metrics; a name that both have goes to the methods."""
    from whence.methods import method as registry
    from whence.metrics import metric

    entries = [registry.get(name) for name in methods]
    ours = {"preset", *methods, *(name for entry in entries for name in entry.parameters)}
    theirs = {*metric.names(), *(name for entry in metric for name in entry.parameters)}
    mine: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, value in given.items():
        owner = key.partition(".")[0]
        (rest if owner in theirs and owner not in ours else mine)[key] = value
    return mine, rest


def _part(report: Callable[[int, int], None], place: int, parts: int) -> Callable[[int, int], None]:
    """Report the progress of one of several runs as a part of all."""
    return lambda done, total: report(place * total + done, parts * total)


def _export(
    tables: Sequence["Evaluation"],
    markdown: Path | None,
    latex: Path | None,
    rows: Mapping[Literal["cells", "pairs"], Path | None],
    plot: Path | None,
) -> list[Path]:
    """Write what was asked for; return the files."""
    written = []
    if markdown is not None:
        written.append(write_text(markdown, "\n".join(table.to_markdown() for table in tables)))
    if latex is not None:
        written.append(write_text(latex, "\n".join(table.to_latex() for table in tables)))
    for what, path in rows.items():
        if path is not None:
            first, *rest = (table.to_csv(what=what) for table in tables)
            bodies = [text.partition("\n")[2] for text in rest]  # one header for all
            written.append(write_text(path, first + "".join(bodies)))
    if plot is not None:
        for table in tables:
            way = table.payload["setting"]["remove"]
            drawn = plot if len(tables) == 1 else plot.with_stem(f"{plot.stem}-{way}")
            written.append(write_text(drawn, table.plot()))
    return written


def _check(tables: Sequence["Evaluation"]) -> None:
    """Refuse to call it a success where no way of removal tested anything."""
    failures = [table.failure for table in tables]
    if None not in failures:
        raise NothingExplained(
            f"{failures[0]} Correct what these errors name, or choose other examples, methods or metrics."
        )


def _answer(tables: Sequence["Evaluation"], several: bool, as_json: bool) -> None:
    from whence.evaluation.removals import removal_matters

    if as_json:
        payload = tables[0].to_dict()
        if several:
            payload = {
                "version": payload["version"],
                "kind": "evaluations",
                "removal_matters": removal_matters(tables),
                "evaluations": [table.to_dict() for table in tables],
            }
        asking.print_json(payload)
        return
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for place, table in enumerate(tables):
        console.print(*([""] if place else []), table, sep="\n")
    if several:
        console.print()
        console.print(Text(removal_matters(tables), "bold"))


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
