"""The command `whence run` (explain, test and audit a data set, resumable): options, plan file, parameters."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence.cli import options as options_module
from whence.cli.failures import handle_interrupts
from whence.cli.progress_bar import pause_garbage_collection
from whence.core.errors import BadPlan

if TYPE_CHECKING:
    from whence.core.registry import Registry
    from whence.runs.plan import Execution, Plan

_QUESTION_PANEL, _DATA_PANEL, _SETTING_PANEL, _EXECUTION_PANEL, _SELECTION_PANEL = (
    "What is found out",
    "The data",
    "How it is explained and tested",
    "Who works",
    "What is done of it",
)


def _option(
    panel: str, about: str, *names: str, metavar: str | None = None, least: int | None = None
) -> Any:
    return typer.Option(*names, help=about, metavar=metavar, min=least, rich_help_panel=panel)


_OptionalText = str | None
_OptionalCount = int | None
_OptionalFlag = bool | None


def run_plan(
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN.toml]", help="A file that says what options say; options win."
        ),
    ] = None,
    model: Annotated[
        _OptionalText, _option(_QUESTION_PANEL, "A built-in model, a folder, or a Hugging Face id.")
    ] = None,
    data: Annotated[
        _OptionalText,
        _option(
            _DATA_PANEL,
            "A .jsonl, .csv, .tsv, .txt or .parquet file, also as .gz; a folder of pictures, or of ERASER's format; "
            "a Hugging Face data set, NAME, NAME:SPLIT or NAME:CONFIG:SPLIT; or any fsspec address.",
            metavar="ADDRESS",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        _option(
            _QUESTION_PANEL,
            "Methods, with commas: names, readers (default), all.",
            metavar="A,B,...",
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        _option(
            _QUESTION_PANEL,
            "Metrics, with commas: names, kinds such as faithfulness, all, none (default).",
            metavar="X,Y,...",
        ),
    ] = None,
    audit: Annotated[
        list[str] | None,
        _option(
            _QUESTION_PANEL,
            "Experiments on attention, with commas: names, or all that train nothing.",
            metavar="E,...",
        ),
    ] = None,
    out: Annotated[
        Path | None, _option(_QUESTION_PANEL, "The folder of the results.", metavar="DIR")
    ] = None,
    param: Annotated[
        list[str] | None,
        _option(
            _QUESTION_PANEL,
            "A parameter of the methods, metrics or experiments; OWNER.NAME=VALUE for one of them.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    text: Annotated[
        _OptionalText, _option(_DATA_PANEL, "The column of the texts.", metavar="COLUMN")
    ] = None,
    pair: Annotated[
        _OptionalText, _option(_DATA_PANEL, "The column of the second texts.", metavar="COLUMN")
    ] = None,
    label: Annotated[
        _OptionalText, _option(_DATA_PANEL, "The column of the labels.", metavar="COLUMN")
    ] = None,
    bad_rows: Annotated[
        Literal["skip", "fail"] | None,
        _option(
            _DATA_PANEL,
            "Rows that cannot be read are left out and counted (default), or end the run.",
        ),
    ] = None,
    limit: Annotated[
        _OptionalCount, _option(_SELECTION_PANEL, "The first so many rows.", metavar="N", least=1)
    ] = None,
    sample: Annotated[
        _OptionalCount, _option(_SELECTION_PANEL, "So many rows, drawn.", metavar="N", least=1)
    ] = None,
    shard: Annotated[
        _OptionalText, _option(_SELECTION_PANEL, "Part I of N (whence store merge).", metavar="I/N")
    ] = None,
    retry_failed: Annotated[
        bool, _option(_SELECTION_PANEL, "Try again what failed before.", "--retry-failed")
    ] = False,
    dry_run: Annotated[
        bool, _option(_SELECTION_PANEL, "Say what it would take, and write nothing.", "--dry-run")
    ] = False,
    backend: Annotated[
        Literal["in-process", "processes", "ray"] | None,
        _option(_EXECUTION_PANEL, "This process (default), several, or a Ray cluster."),
    ] = None,
    workers: Annotated[
        _OptionalCount,
        _option(_EXECUTION_PANEL, "Processes; one for each core by default.", metavar="N", least=1),
    ] = None,
    address: Annotated[
        _OptionalText,
        _option(_EXECUTION_PANEL, "Of a Ray cluster; by default one on this machine."),
    ] = None,
    actors: Annotated[
        _OptionalCount, _option(_EXECUTION_PANEL, "Ray actors.", metavar="N", least=1)
    ] = None,
    gpus_per_actor: Annotated[
        float | None, _option(_EXECUTION_PANEL, "GPUs of each Ray actor.", metavar="G")
    ] = None,
    batch_size: Annotated[
        _OptionalCount,
        _option(_EXECUTION_PANEL, "Inputs in a batch at most.", metavar="N", least=1),
    ] = None,
    device: Annotated[_OptionalText, _option(_EXECUTION_PANEL, "cpu, cuda, cuda:1, mps.")] = None,
    dtype: Annotated[
        _OptionalText, _option(_SETTING_PANEL, "float64, float32, bfloat16 or float16.")
    ] = None,
    revision: Annotated[
        _OptionalText, _option(_QUESTION_PANEL, "A revision of the Hugging Face id.")
    ] = None,
    mlm: Annotated[
        _OptionalText,
        _option(
            _SETTING_PANEL,
            "The masked language model that --remove draw draws from.",
            metavar="MODEL",
        ),
    ] = None,
    target: Annotated[
        _OptionalText,
        _option(
            _SETTING_PANEL,
            "A label or index, predicted (default), runner-up, gold, or a contrast: a:b.",
        ),
    ] = None,
    remove: Annotated[
        _OptionalText,
        _option(
            _SETTING_PANEL,
            "How tests take tokens or patches away; by default mask, if the model has one.",
            metavar="HOW",
        ),
    ] = None,
    unit: Annotated[
        Literal["token", "word"] | None, _option(_SETTING_PANEL, "What tests take away at a time.")
    ] = None,
    rankings: Annotated[
        _OptionalCount,
        _option(
            _SETTING_PANEL,
            "Random explanations of each example; 5 by default.",
            metavar="N",
            least=1,
        ),
    ] = None,
    seed: Annotated[_OptionalCount, _option(_SETTING_PANEL, "Other draws.", least=0)] = None,
    truncate: Annotated[
        _OptionalFlag,
        _option(
            _SETTING_PANEL,
            "Cut texts that are too long (default), or let them fail.",
            "--truncate/--no-truncate",
        ),
    ] = None,
    checkpoint: Annotated[
        _OptionalFlag, _option(_EXECUTION_PANEL, "Less memory for more time.", "--checkpoint")
    ] = None,
    as_json: options_module.AsJson = False,
) -> None:
    """Explain, test and audit a data set; interrupted at any moment, the same command goes on.

    Examples:

        whence run --model path/or/id --data reviews.tsv --methods attcat,rollout --metrics faithfulness --out results

        whence run plan.toml --backend processes --workers 8

        whence run plan.toml --dry-run

        whence run plan.toml --shard 1/4 --out part-1
    """
    options = {
        "model": model,
        "data": data,
        "methods": _split_names(methods),
        "metrics": _split_names(metrics),
        "audit": _split_names(audit),
        "text": text,
        "pair": pair,
        "label": label,
        "bad_rows": bad_rows,
        "limit": limit,
        "sample": sample,
        "shard": shard,
        "target": target,
        "remove": remove,
        "unit": unit,
        "truncate": truncate,
        "rankings": rankings,
        "seed": seed,
        "dtype": dtype,
        "revision": revision,
        "mlm": mlm,
        "backend": backend,
        "workers": workers,
        "device": device,
        "batch_size": batch_size,
        "checkpoint": checkpoint,
        "address": address,
        "actors": actors,
        "gpus_per_actor": gpus_per_actor,
    }
    params = options_module.parse_params(param)
    with handle_interrupts() as interrupts:
        with pause_garbage_collection():
            from whence.cli.run_display import RunDisplay, format_interruption, print_outcome
            from whence.runs.results import find_failures
            from whence.runs.run import estimate_plan
            from whence.runs.run import execute_plan as run_full_plan

        full_plan, execution, folder = _build_plan(plan, options, params, out)
        with RunDisplay(interrupts) as watch:
            if dry_run:
                estimate = estimate_plan(full_plan, folder, execution, watch)
                if as_json:
                    options_module.print_json(
                        {"version": 1, "kind": "estimate", **estimate.to_dict()}
                    )
                return
            if folder is None:
                raise BadPlan(
                    "There is no folder for the results. Name it: --out DIR, or out = ... in the plan."
                )
            try:
                run_full_plan(full_plan, folder, execution, retry_failed=retry_failed, watch=watch)
            except KeyboardInterrupt as error:
                raise type(error)(format_interruption(watch, folder)) from None
        print_outcome(find_failures(folder), watch, folder, as_json)


def _split_names(values: list[str] | None) -> list[str] | None:
    return None if values is None else [name for value in values for name in value.split(",")]


def _build_plan(
    path: Path | None, options: dict[str, Any], params: dict[str, str], out: Path | None
) -> tuple["Plan", "Execution", Path | None]:
    """Return plan, execution and folder from a plan file overridden by options."""
    from whence.runs.plan import OUT_KEY, build_plan, merge_options, read_plan

    file_values = {} if path is None else read_plan(path)
    file_folder = file_values.pop(OUT_KEY, None)
    folder = out if out is not None else None if file_folder is None else Path(file_folder)
    merged = merge_options(file_values, options)
    for table, values in _split_params(params, merged).items():
        if values:
            before = merged.get(table, {})
            merged[table] = {**before, **values} if isinstance(before, dict) else values
    plan, execution = build_plan(merged, "The plan" if path is None else str(path))
    return plan, execution, folder


def _split_params(params: dict[str, str], merged: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Return parameters by owner: methods, metrics, experiments; a shared name goes to the first."""
    from whence.methods import method
    from whence.metrics import metric
    from whence.studies.audit.experiments import experiment

    known = {
        "params": {"preset", *_list_known_names(method, merged.get("methods"))},
        "metric_params": _list_known_names(metric, merged.get("metrics")),
        "audit_params": _list_known_names(experiment, merged.get("audit")),
    }
    by_table: dict[str, dict[str, str]] = {table: {} for table in known}
    for key, value in params.items():
        owner = key.partition(".")[0]
        table = next((table for table, names in known.items() if owner in names), "params")
        by_table[table][key] = value
    return by_table


def _list_known_names(registry: "Registry", requested: Any) -> set[str]:
    """Return the requested entries' names and parameters; for a group, those of all entries."""
    requested = requested.split(",") if isinstance(requested, str) else requested or []
    named = {name for name in requested if name in registry.names()}
    is_group = len(named) < len(requested) or not requested
    entries = [entry for entry in registry if is_group or entry.name in named]
    return {name for entry in entries for name in (entry.name, *entry.parameters)}
