"""The command `whence run` (explain, test and audit a data set, resumable): options, plan file, parameters."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from whence.cli import options
from whence.cli.failures import handle_interrupts
from whence.cli.options import option
from whence.cli.progress_bar import pause_garbage_collection
from whence.core.errors import BadPlan

if TYPE_CHECKING:
    from whence.runs.plan import Execution, Plan

QUESTION, DATA, SETTING, EXECUTION, SELECTION = (
    "What is found out",
    "The data",
    "How it is explained and tested",
    "Who works",
    "What is done of it",
)


@dataclass
class RunOptions:
    """What a run is to find out, on which data and how; an option that is not given leaves the plan's value."""

    model: str | None = option(QUESTION, "A built-in model, a folder, or a Hugging Face id.")
    data: str | None = option(
        DATA,
        "A .jsonl, .csv, .tsv, .txt or .parquet file, also as .gz; a folder of pictures, or of ERASER's format; "
        "a Hugging Face data set, NAME, NAME:SPLIT or NAME:CONFIG:SPLIT; or any fsspec address.",
        metavar="ADDRESS",
    )
    methods: list[str] | None = option(
        QUESTION, "Methods, with commas: names, readers (default), all.", metavar="A,B,..."
    )
    metrics: list[str] | None = option(
        QUESTION,
        "Metrics, with commas: names, kinds such as faithfulness, all, none (default).",
        metavar="X,Y,...",
    )
    audit: list[str] | None = option(
        QUESTION,
        "Experiments on attention, with commas: names, or all that train nothing.",
        metavar="E,...",
    )
    out: Path | None = option(QUESTION, "The folder of the results.", metavar="DIR")
    param: list[str] | None = option(
        QUESTION,
        "A parameter of the methods, metrics or experiments; OWNER.NAME=VALUE for one of them.",
        metavar="NAME=VALUE",
    )
    text: str | None = option(DATA, "The column of the texts.", metavar="COLUMN")
    pair: str | None = option(DATA, "The column of the second texts.", metavar="COLUMN")
    label: str | None = option(DATA, "The column of the labels.", metavar="COLUMN")
    bad_rows: Literal["skip", "fail"] | None = option(
        DATA, "Rows that cannot be read are left out and counted (default), or end the run."
    )
    limit: int | None = option(SELECTION, "The first so many rows.", metavar="N", min=1)
    sample: int | None = option(SELECTION, "So many rows, drawn.", metavar="N", min=1)
    shard: str | None = option(SELECTION, "Part I of N (whence store merge).", metavar="I/N")
    retry_failed: bool = option(
        SELECTION, "Try again what failed before.", "--retry-failed", default=False
    )
    dry_run: bool = option(
        SELECTION, "Say what it would take, and write nothing.", "--dry-run", default=False
    )
    backend: Literal["in-process", "processes", "ray"] | None = option(
        EXECUTION, "This process (default), several, or a Ray cluster."
    )
    workers: int | None = option(
        EXECUTION, "Processes; one for each core by default.", metavar="N", min=1
    )
    address: str | None = option(EXECUTION, "Of a Ray cluster; by default one on this machine.")
    actors: int | None = option(EXECUTION, "Ray actors.", metavar="N", min=1)
    gpus_per_actor: float | None = option(EXECUTION, "GPUs of each Ray actor.", metavar="G")
    batch_size: int | None = option(EXECUTION, "Inputs in a batch at most.", metavar="N", min=1)
    device: str | None = option(EXECUTION, "cpu, cuda, cuda:1, mps.")
    dtype: str | None = option(SETTING, "float64, float32, bfloat16 or float16.")
    revision: str | None = option(QUESTION, "A revision of the Hugging Face id.")
    mlm: str | None = option(
        SETTING, "The masked language model that --remove draw draws from.", metavar="MODEL"
    )
    target: str | None = option(
        SETTING, "A label or index, predicted (default), runner-up, gold, or a contrast: a:b."
    )
    remove: str | None = option(
        SETTING,
        "How tests take tokens or patches away; by default mask, if the model has one.",
        metavar="HOW",
    )
    unit: Literal["token", "word"] | None = option(SETTING, "What tests take away at a time.")
    rankings: int | None = option(
        SETTING, "Random explanations of each example; 5 by default.", metavar="N", min=1
    )
    seed: int | None = option(SETTING, "Other draws.", min=0)
    truncate: bool | None = option(
        SETTING,
        "Cut texts that are too long (default), or let them fail.",
        "--truncate/--no-truncate",
    )
    checkpoint: bool | None = option(EXECUTION, "Less memory for more time.", "--checkpoint")

    def build_plan(self, path: Path | None) -> tuple["Plan", "Execution", Path | None]:
        """Return plan, execution and folder from a plan file overridden by these options."""
        from whence.methods import method
        from whence.metrics import metric
        from whence.runs.plan import OUT_KEY, build_plan, merge_options, read_plan
        from whence.studies.audit.experiments import experiment

        params = options.parse_params(self.param)
        own = {**vars(self)}
        for name in ("out", "param", "retry_failed", "dry_run"):
            own.pop(name)
        for name in ("methods", "metrics", "audit"):
            own[name] = options.split_names(own[name]) or None
        file_values = {} if path is None else read_plan(path)
        file_folder = file_values.pop(OUT_KEY, None)
        folder = self.out or (None if file_folder is None else Path(file_folder))
        merged = merge_options(file_values, own)
        # Parameters of methods, metrics and experiments.
        known = {
            "params": options.list_known_names(method, merged.get("methods")) | {"preset"},
            "metric_params": options.list_known_names(metric, merged.get("metrics")),
            "audit_params": options.list_known_names(experiment, merged.get("audit")),
        }
        for table, values in options.split_params(params, known).items():
            if values:
                before = merged.get(table, {})
                merged[table] = {**before, **values} if isinstance(before, dict) else values
        plan, execution = build_plan(merged, "The plan" if path is None else str(path))
        return plan, execution, folder


def run_plan(
    given: RunOptions,
    plan: Path | None = typer.Argument(
        None, metavar="[PLAN.toml]", help="A file that says what options say; options win."
    ),
    as_json: options.AsJson = False,
) -> None:
    """Explain, test and audit a data set; interrupted at any moment, the same command goes on.

    Examples:

        whence run --model path/or/id --data reviews.tsv --methods attcat,rollout --metrics faithfulness --out results

        whence run plan.toml --backend processes --workers 8

        whence run plan.toml --dry-run

        whence run plan.toml --shard 1/4 --out part-1
    """
    with handle_interrupts() as interrupts:
        with pause_garbage_collection():
            from whence.cli.run_display import RunDisplay, format_interruption, print_outcome
            from whence.runs.results import find_failures
            from whence.runs.run import estimate_plan, execute_plan

        full_plan, execution, folder = given.build_plan(plan)
        with RunDisplay(interrupts) as watch:
            if given.dry_run:
                estimate = estimate_plan(full_plan, folder, execution, watch)
                if as_json:
                    options.print_json({"version": 1, "kind": "estimate", **estimate.to_dict()})
                return
            if folder is None:
                raise BadPlan(
                    "There is no folder for the results. Name it: --out DIR, or out = ... in the plan."
                )
            try:
                execute_plan(
                    full_plan, folder, execution, retry_failed=given.retry_failed, progress=watch
                )
            except KeyboardInterrupt as error:
                raise type(error)(format_interruption(watch, folder)) from None
        print_outcome(find_failures(folder), watch, folder, as_json)
