"""`whence run`: explain, test and audit a data set, so that nothing is lost whatever happens."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from whence.cli import asking
from whence.cli.cold import importing
from whence.cli.interrupt import interruptible
from whence.core.errors import BadPlan

if TYPE_CHECKING:
    from whence.core.registry import Registry
    from whence.run.plan import Manner, Plan

_WHAT, _DATA, _HOW, _WHO, _WHICH = (
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


_Text = str | None
_Count = int | None
_Flag = bool | None


def run(
    plan: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PLAN.toml]", help="A file that says what options say; options win."
        ),
    ] = None,
    model: Annotated[
        _Text, _option(_WHAT, "A built-in model, a folder, or a Hugging Face id.")
    ] = None,
    data: Annotated[
        _Text,
        _option(
            _DATA,
            "A .jsonl, .csv, .tsv, .txt or .parquet file, also as .gz; a folder of pictures, or of ERASER's format; "
            "a Hugging Face data set, NAME, NAME:SPLIT or NAME:CONFIG:SPLIT; or any fsspec address.",
            metavar="ADDRESS",
        ),
    ] = None,
    methods: Annotated[
        list[str] | None,
        _option(_WHAT, "Methods, with commas: names, readers (default), all.", metavar="A,B,..."),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "Metrics, with commas: names, kinds such as faithfulness, all, none (default).",
            metavar="X,Y,...",
        ),
    ] = None,
    audit: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "Experiments on attention, with commas: names, or all that train nothing.",
            metavar="E,...",
        ),
    ] = None,
    out: Annotated[Path | None, _option(_WHAT, "The folder of the results.", metavar="DIR")] = None,
    param: Annotated[
        list[str] | None,
        _option(
            _WHAT,
            "A parameter of the methods, metrics or experiments; OWNER.NAME=VALUE for one of them.",
            metavar="NAME=VALUE",
        ),
    ] = None,
    text: Annotated[_Text, _option(_DATA, "The column of the texts.", metavar="COLUMN")] = None,
    pair: Annotated[
        _Text, _option(_DATA, "The column of the second texts.", metavar="COLUMN")
    ] = None,
    label: Annotated[_Text, _option(_DATA, "The column of the labels.", metavar="COLUMN")] = None,
    bad_rows: Annotated[
        Literal["skip", "fail"] | None,
        _option(
            _DATA, "Rows that cannot be read are left out and counted (default), or end the run."
        ),
    ] = None,
    limit: Annotated[
        _Count, _option(_WHICH, "The first so many rows.", metavar="N", least=1)
    ] = None,
    sample: Annotated[_Count, _option(_WHICH, "So many rows, drawn.", metavar="N", least=1)] = None,
    shard: Annotated[
        _Text, _option(_WHICH, "Part I of N (whence store merge).", metavar="I/N")
    ] = None,
    retry_failed: Annotated[
        bool, _option(_WHICH, "Try again what failed before.", "--retry-failed")
    ] = False,
    dry_run: Annotated[
        bool, _option(_WHICH, "Say what it would take, and write nothing.", "--dry-run")
    ] = False,
    backend: Annotated[
        Literal["in-process", "processes", "ray"] | None,
        _option(_WHO, "This process (default), several, or a Ray cluster."),
    ] = None,
    workers: Annotated[
        _Count, _option(_WHO, "Processes; one for each core by default.", metavar="N", least=1)
    ] = None,
    address: Annotated[
        _Text, _option(_WHO, "Of a Ray cluster; by default one on this machine.")
    ] = None,
    actors: Annotated[_Count, _option(_WHO, "Ray actors.", metavar="N", least=1)] = None,
    gpus_per_actor: Annotated[
        float | None, _option(_WHO, "GPUs of each Ray actor.", metavar="G")
    ] = None,
    batch_size: Annotated[
        _Count, _option(_WHO, "Inputs in a batch at most.", metavar="N", least=1)
    ] = None,
    device: Annotated[_Text, _option(_WHO, "cpu, cuda, cuda:1, mps.")] = None,
    dtype: Annotated[_Text, _option(_HOW, "float64, float32, bfloat16 or float16.")] = None,
    revision: Annotated[_Text, _option(_WHAT, "A revision of the Hugging Face id.")] = None,
    mlm: Annotated[
        _Text,
        _option(_HOW, "The masked language model that --remove draw draws from.", metavar="MODEL"),
    ] = None,
    target: Annotated[
        _Text,
        _option(
            _HOW, "A label or index, predicted (default), runner-up, gold, or a contrast: a:b."
        ),
    ] = None,
    remove: Annotated[
        _Text,
        _option(
            _HOW,
            "How tests take tokens or patches away; by default mask, if the model has one.",
            metavar="HOW",
        ),
    ] = None,
    unit: Annotated[
        Literal["token", "word"] | None, _option(_HOW, "What tests take away at a time.")
    ] = None,
    rankings: Annotated[
        _Count,
        _option(_HOW, "Random explanations of each example; 5 by default.", metavar="N", least=1),
    ] = None,
    seed: Annotated[_Count, _option(_HOW, "Other draws.", least=0)] = None,
    truncate: Annotated[
        _Flag,
        _option(
            _HOW,
            "Cut texts that are too long (default), or let them fail.",
            "--truncate/--no-truncate",
        ),
    ] = None,
    checkpoint: Annotated[
        _Flag, _option(_WHO, "Less memory for more time.", "--checkpoint")
    ] = None,
    compile: Annotated[
        _Flag, _option(_WHO, "Compile the model's forward pass.", "--compile")
    ] = None,
    as_json: asking.AsJson = False,
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
        "methods": _listed(methods),
        "metrics": _listed(metrics),
        "audit": _listed(audit),
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
        "compile": compile,
        "address": address,
        "actors": actors,
        "gpus_per_actor": gpus_per_actor,
    }
    given = asking.parameters(param)
    with interruptible() as interrupts:
        with importing():
            from whence.cli.running import Shown
            from whence.cli.spoken import answer, interrupted
            from whence.run.outcome import outcome
            from whence.run.run import estimate
            from whence.run.run import run as do

        asked, manner, folder = _asked(plan, options, given, out)
        with Shown(interrupts) as watch:
            if dry_run:
                found = estimate(asked, folder, manner, watch)
                if as_json:
                    asking.print_json({"version": 1, "kind": "estimate", **found.to_dict()})
                return
            if folder is None:
                raise BadPlan(
                    "There is no folder for the results. Name it: --out DIR, or out = ... in the plan."
                )
            try:
                do(asked, folder, manner, retry_failed=retry_failed, watch=watch)
            except KeyboardInterrupt as error:
                raise type(error)(interrupted(watch, folder)) from None
        answer(outcome(folder), watch, folder, as_json)


def _listed(given: list[str] | None) -> list[str] | None:
    return None if given is None else [name for one in given for name in one.split(",")]


def _asked(
    path: Path | None, options: dict[str, Any], params: dict[str, str], out: Path | None
) -> tuple["Plan", "Manner", Path | None]:
    """Put the options over what the file says."""
    from whence.run.plan.fields import over, planned
    from whence.run.plan.file import OUT, read_plan

    said = {} if path is None else read_plan(path)
    named = said.pop(OUT, None)
    folder = out if out is not None else None if named is None else Path(named)
    merged = over(said, options)
    for table, own in _shared_out(params, merged).items():
        if own:
            before = merged.get(table, {})
            merged[table] = {**before, **own} if isinstance(before, dict) else own
    plan, manner = planned(merged, "The plan" if path is None else str(path))
    return plan, manner, folder


def _shared_out(params: dict[str, str], merged: dict[str, Any]) -> dict[str, dict[str, str]]:
    """Tell the parameters of methods from those of metrics and experiments; a name of several goes to the first."""
    from whence.audit.experiments import experiment
    from whence.methods import method
    from whence.metrics import metric

    known = {
        "params": {"preset", *_names_in(method, merged.get("methods"))},
        "metric_params": _names_in(metric, merged.get("metrics")),
        "audit_params": _names_in(experiment, merged.get("audit")),
    }
    found: dict[str, dict[str, str]] = {table: {} for table in known}
    for key, value in params.items():
        owner = key.partition(".")[0]
        table = next((table for table, names in known.items() if owner in names), "params")
        found[table][key] = value
    return found


def _names_in(registry: "Registry", asked: Any) -> set[str]:
    """Return the names of those that were asked for, and of their parameters; of a group, those of all there are."""
    asked = asked.split(",") if isinstance(asked, str) else asked or []
    named = {name for name in asked if name in registry.names()}
    every = len(named) < len(asked) or not asked
    entries = [entry for entry in registry if every or entry.name in named]
    return {name for entry in entries for name in (entry.name, *entry.parameters)}
