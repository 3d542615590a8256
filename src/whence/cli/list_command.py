"""The commands `whence list` (methods, metrics, experiments, models) and `whence doctor` (versions, devices)."""

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import typer

from whence.cli.options import AsJson, Device, option
from whence.cli.progress_bar import pause_garbage_collection

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.core.registry import Entry

Name = str | None
ONE = typer.Argument(None, help="Show everything about one.")


def doctor(
    model: str | None = option(
        "Model", "Try every method on this model and say what works and why not."
    ),
    text: str = option(
        "Model", "The text to try with.", default="whence tries every method on this short text"
    ),
    device: Device = None,
    as_json: AsJson = False,
) -> None:
    """Show versions and devices, and what can be explained on a model."""
    report: dict[str, Any] = {"versions": _list_versions(), "devices": _list_devices()}
    if model is not None:
        with pause_garbage_collection():
            from whence.explain.explainer import load

            explainer = load(model, device=device)
        report["model"] = explainer.examine(text)
    if as_json:
        _print_facts(report)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(_render_rows({**report["versions"], "devices": ", ".join(report["devices"])}))
    if model is None:
        console.print("\n[dim]whence doctor --model M says what can be explained on a model.")
        return
    console.print()
    console.print(_render_rows(report["model"]["facts"]))
    console.print()
    methods = Table("method", "works", "why not", box=None, pad_edge=False)
    for row in report["model"]["methods"]:
        mark = Text("yes", "green") if row["works"] else Text("no", "red")
        methods.add_row(Text(row["method"], "bold"), mark, Text(row["why_not"] or ""))
    console.print(methods)


def _list_versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in ("whence", "torch", "transformers", "tokenizers", "safetensors", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    return versions


def _list_devices() -> list[str]:
    with pause_garbage_collection():
        import torch

    cuda = torch.cuda
    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    devices += [f"cuda:{i} ({cuda.get_device_name(i)})" for i in range(cuda.device_count())]
    return [*devices, *(["mps"] if torch.backends.mps.is_available() else [])]


def list_methods(name: Name = ONE, as_json: AsJson = False) -> None:
    """List the methods, or show one: formula, cost, parameters, when it misleads."""
    with pause_garbage_collection():
        from whence.methods import method

        entries = [method.get(name)] if name else list(method)
    facts = [_describe_method(entry) for entry in entries]
    if _print_one(facts, name, as_json, _list_method_rows):
        return
    rows: list[tuple[str, ...]] = []
    for each in sorted(facts, key=lambda each: (each["family"], each["name"])):
        if (each["family"],) not in rows:
            rows.append((each["family"],))
        rows.append((each["name"], each["summary"]))
    _print_list(
        rows, "whence list methods NAME shows the formula, the parameters and when it misleads."
    )


def list_metrics(name: Name = ONE, as_json: AsJson = False) -> None:
    """List the metrics, or show one: formula, range, what random explanations get, when it misleads."""
    with pause_garbage_collection():
        from whence.metrics import KINDS, metric

        entries = [metric.get(name)] if name else list(metric)
    facts = [_describe_metric(entry) for entry in entries]
    if _print_one(facts, name, as_json, _list_metric_rows):
        return
    from rich.console import Console

    more, less = "^v" if Console().options.ascii_only else "↑↓"
    rows: list[tuple[str, ...]] = []
    for kind in KINDS:
        own = [each for each in facts if each["kind"] == kind]
        rows += [(kind,)] * bool(own)
        rows += [
            (each["name"], more if each["direction"] == "higher" else less, each["summary"])
            for each in own
        ]
    _print_list(
        rows,
        f"{more} more is better, {less} less is better. "
        "whence list metrics NAME shows the formula, the range and when it misleads.",
    )


def list_experiments(name: Name = ONE, as_json: AsJson = False) -> None:
    """List the experiments of an audit, or show one: hypothesis, threshold, parameters, when it misleads."""
    with pause_garbage_collection():
        from whence.studies.audit.audit import resolve_names
        from whence.studies.audit.experiments import experiment

        names = [name] if name else resolve_names("all", can_train=True)
        facts = [_describe_experiment(experiment.get(each)) for each in names]
    if _print_one(facts, name, as_json, _list_experiment_rows):
        return
    _print_list(
        [(each["name"], each["summary"] + " (trains)" * each["trains"]) for each in facts],
        "whence list experiments NAME shows the hypothesis, the threshold and when it misleads.",
        indent="",
    )


def list_models() -> None:
    """List the built-in models."""
    from rich.console import Console
    from rich.table import Table

    from whence.models.model_files import BUILTIN

    table = Table("model", "what it is", box=None, pad_edge=False)
    for name, description in BUILTIN.items():
        table.add_row(f"[bold]{name}", description)
    console = Console()
    console.print(table)
    console.print(
        "\n[dim]A folder or a Hugging Face id can be given as well; whence doctor --model M tries it."
    )


def _describe_entry(entry: "Entry", facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry's registered facts as plain data."""
    return {
        "name": entry.name,
        "summary": entry.summary,
        **facts,
        "parameters": [
            {"name": p.name, "allowed": p.allowed_values, "default": p.default}
            for p in entry.parameters.values()
        ],
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _select_facts(entry: "Entry", *names: str) -> dict[str, Any]:
    return {name: entry.facts[name] for name in names}


def _describe_method(entry: "Entry") -> dict[str, Any]:
    facts = _select_facts(entry, "family", "signed", "formula", "cost", "misleads_when", "cite")
    notice, needs = entry.facts.get("notice"), sorted(entry.facts["needs"])
    return _describe_entry(entry, {**facts, "notice": notice, "needs": needs})


def _list_method_rows(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        "formula": facts["formula"],
        "family": facts["family"],
        "signed": "yes" if facts["signed"] else "no",
        "cost": facts["cost"],
        **_format_settings(facts),
        "misleads when": facts["misleads_when"],
        "source": facts["cite"],
        **({"notice": facts["notice"]} if facts["notice"] else {}),
    }


_RANDOM_BASELINES = {
    "rankings": "what random rankings of the same input get",
    "reversed": "what random rankings of the same input get",
    "shuffles": "what the explanation's own scores get when they are dealt out anew",
}


def _describe_metric(entry: "Entry") -> dict[str, Any]:
    names = ("kind", "direction", "null", "formula", "cost", "misleads_when", "cite")
    # JSON has no infinity.
    ends = [None if abs(end) == float("inf") else end for end in entry.facts["range"]]
    return _describe_entry(entry, {**_select_facts(entry, *names), "range": ends})


def _list_metric_rows(facts: dict[str, Any]) -> dict[str, Any]:
    low, high = ("no bound" if end is None else f"{end:g}" for end in facts["range"])
    null = facts["null"]
    return {
        "formula": facts["formula"],
        "kind": facts["kind"],
        "better": "more" if facts["direction"] == "higher" else "less",
        "range": f"{low} to {high}",
        "random": _RANDOM_BASELINES[null] if isinstance(null, str) else f"{null:g}",
        "cost": facts["cost"],
        **_format_settings(facts),
        "misleads when": facts["misleads_when"],
        "source": facts["cite"],
    }


# The audit for which an experiment's cost is computed.
_TYPICAL_AUDIT: dict[str, Any] = {
    "n": 100,
    "tokens": 25,
    "layers": 6,
    "heads": 12,
    "sites": 1,
    "train": 1000,
    "epochs": 8,
}


def _describe_experiment(entry: "Entry") -> dict[str, Any]:
    from whence.studies.audit.audit import AuditCostEstimate

    plan = AuditCostEstimate(**_TYPICAL_AUDIT)
    defaults = {name: parameter.default for name, parameter in entry.parameters.items()}
    names = ("hypothesis", "measure", "threshold", "direction", "labels", "trains")
    cost = {**_TYPICAL_AUDIT, "forward": round(entry.facts["calls"](plan, defaults))}
    sources = _select_facts(entry, "misleads_when", "cite")
    return _describe_entry(entry, {**_select_facts(entry, *names), "cost": cost, **sources})


def _list_experiment_rows(facts: dict[str, Any]) -> dict[str, Any]:
    cost = facts["cost"]
    texts = f"{cost['n']} texts of {cost['tokens']} tokens"
    if facts["trains"]:
        texts += f", and {cost['train']:,} to train on for {cost['epochs']} epochs"
    needs = ["true labels"] * facts["labels"] + ["training data"] * facts["trains"]
    return {
        "hypothesis": facts["hypothesis"],
        "measure": facts["measure"],
        "holds": f"{facts['direction']} {facts['threshold']:g}",
        "needs": ", ".join(needs) or "nothing but texts",
        "cost": f"at most {cost['forward']:,} forward passes for {texts}: most are not whole ones",
        **_format_settings(facts),
        "misleads when": facts["misleads_when"],
        "source": facts["cite"],
    }


def _format_settings(facts: dict[str, Any]) -> dict[str, str]:
    parameters = "\n".join(
        f"{p['name']} = {p['default']}   ({p['allowed']})" for p in facts["parameters"]
    )
    presets = "\n".join(
        f"{name}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        for name, values in facts["presets"].items()
    )
    return {"parameters": parameters or "none", "presets": presets or "none"}


def _print_one(
    facts: list[dict[str, Any]],
    name: str | None,
    as_json: bool,
    list_rows: Callable[[dict[str, Any]], dict[str, Any]],
) -> bool:
    """Print all as JSON, or the one that is named; return whether nothing is left to print."""
    if as_json:
        _print_facts(facts)
    elif name:
        from rich.console import Console

        (one,) = facts
        Console().print(_render_rows({one["name"]: one["summary"], **list_rows(one)}))
    return as_json or bool(name)


def _print_facts(facts: Any) -> None:
    print(json.dumps(facts, ensure_ascii=False, indent=1))


def _render_rows(rows: Mapping[str, Any]) -> "RenderableType":
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, "bold"), Text(str(value)))
    return table


def _print_list(rows: Iterable[tuple[str, ...]], note: str, indent: str = "  ") -> None:
    """Print names with their summaries; a row of one cell is the heading of a group."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, *cells in rows:
        if cells:
            table.add_row(Text(f"{indent}{name}", "bold"), *map(Text, cells))
        else:
            table.add_row(Text(name, "dim"))
    Console().print(table)
    Console().print(f"\n[dim]{note}")
