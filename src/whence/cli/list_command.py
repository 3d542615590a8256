"""The commands `whence list` (methods, metrics, experiments, models) and `whence doctor` (versions, devices)."""

import json
import platform
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import typer

from whence.cli.options import AsJson, Device, option
from whence.cli.progress_bar import pause_garbage_collection

if TYPE_CHECKING:
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
    versions = {"python": platform.python_version()}
    for package in ("whence", "torch", "transformers", "tokenizers", "safetensors", "numpy"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "not installed"
    with pause_garbage_collection():
        import torch

        devices = [f"cpu ({torch.get_num_threads()} threads)"]
        for i in range(torch.cuda.device_count()):
            devices.append(f"cuda:{i} ({torch.cuda.get_device_name(i)})")
        if torch.backends.mps.is_available():
            devices.append("mps")
        report: dict[str, Any] = {"versions": versions, "devices": devices}
        if model is not None:
            from whence.explain.explainer import load

            explainer = load(model, device=device)
    if model is not None:
        report["model"] = explainer.examine(text)
    if as_json:
        _print_json(report)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    facts = {**versions, "devices": ", ".join(devices)}
    if model is None:
        note = "whence doctor --model M says what can be explained on a model."
        _print_list(facts.items(), note, indent="")
        return
    console = Console()
    for rows in (facts, report["model"]["facts"]):
        _print_list([(name, str(value)) for name, value in rows.items()], indent="")
        console.print()
    methods = Table("method", "works", "why not", box=None, pad_edge=False)
    for row in report["model"]["methods"]:
        mark = Text("yes", "green") if row["works"] else Text("no", "red")
        methods.add_row(Text(row["method"], "bold"), mark, Text(row["why_not"] or ""))
    console.print(methods)


def list_methods(name: Name = ONE, as_json: AsJson = False) -> None:
    """List the methods, or show one: formula, cost, parameters, when it misleads."""
    with pause_garbage_collection():
        from whence.methods import method

        names = ("family", "signed", "formula", "cost", "misleads_when", "cite", "notice", "needs")
        facts = []
        for entry in [method.get(name)] if name else method:
            notice, needs = entry.facts.get("notice"), sorted(entry.facts["needs"])
            facts.append(_describe_entry(entry, names, notice=notice, needs=needs))
    if as_json:
        _print_json(facts)
        return
    if name:
        (one,) = facts
        signed = "yes" if one["signed"] else "no"
        _print_one(one, ("formula", "family", "signed", "cost"), signed=signed)
        return
    rows: list[tuple[str, ...]] = []
    for each in sorted(facts, key=lambda each: (each["family"], each["name"])):
        if (each["family"],) not in rows:
            rows.append((each["family"],))
        rows.append((each["name"], each["summary"]))
    _print_list(
        rows, "whence list methods NAME shows the formula, the parameters and when it misleads."
    )


_RANDOM_BASELINES = {
    "rankings": "what random rankings of the same input get",
    "reversed": "what random rankings of the same input get",
    "shuffles": "what the explanation's own scores get when they are dealt out anew",
}


def list_metrics(name: Name = ONE, as_json: AsJson = False) -> None:
    """List the metrics, or show one: formula, range, what random explanations get, when it misleads."""
    with pause_garbage_collection():
        from whence.metrics import KINDS, metric

        names = ("kind", "direction", "null", "formula", "cost", "misleads_when", "cite", "range")
        facts = []
        for entry in [metric.get(name)] if name else metric:
            # JSON has no infinity.
            ends = [None if abs(end) == float("inf") else end for end in entry.facts["range"]]
            facts.append(_describe_entry(entry, names, range=ends))
    if as_json:
        _print_json(facts)
        return
    if name:
        (one,) = facts
        low, high = ("no bound" if end is None else f"{end:g}" for end in one["range"])
        null = one["null"]
        _print_one(
            one,
            ("formula", "kind", "better", "range", "random", "cost"),
            better="more" if one["direction"] == "higher" else "less",
            range=f"{low} to {high}",
            random=_RANDOM_BASELINES[null] if isinstance(null, str) else f"{null:g}",
        )
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
        from whence.studies.audit.audit import AuditCostEstimate, resolve_names
        from whence.studies.audit.experiments import experiment

        # The audit for which an experiment's cost is computed.
        size: dict[str, Any] = {"n": 100, "tokens": 25, "layers": 6, "heads": 12, "sites": 1}
        size |= {"train": 1000, "epochs": 8}
        plan = AuditCostEstimate(**size)
        names = ("hypothesis", "measure", "threshold", "direction", "labels", "trains", "cost")
        facts = []
        for each in [name] if name else resolve_names("all", can_train=True):
            entry = experiment.get(each)
            defaults = {key: parameter.default for key, parameter in entry.parameters.items()}
            cost = {**size, "forward": round(entry.facts["calls"](plan, defaults))}
            facts.append(_describe_entry(entry, (*names, "misleads_when", "cite"), cost=cost))
    if as_json:
        _print_json(facts)
        return
    if name:
        (one,) = facts
        texts = f"{size['n']} texts of {size['tokens']} tokens"
        if one["trains"]:
            texts += f", and {size['train']:,} to train on for {size['epochs']} epochs"
        needs = ["true labels"] * one["labels"] + ["training data"] * one["trains"]
        passes = f"at most {one['cost']['forward']:,} forward passes for {texts}"
        _print_one(
            one,
            ("hypothesis", "measure", "holds", "needs", "cost"),
            holds=f"{one['direction']} {one['threshold']:g}",
            needs=", ".join(needs) or "nothing but texts",
            cost=f"{passes}: most are not whole ones",
        )
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


def _describe_entry(entry: "Entry", names: Sequence[str], **computed: Any) -> dict[str, Any]:
    """Return the named facts of an entry, registered or `computed`, and its parameters, as plain data."""
    facts = {**entry.facts, **computed}
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{name: facts[name] for name in names},
        "parameters": [
            {"name": p.name, "allowed": p.allowed_values, "default": p.default}
            for p in entry.parameters.values()
        ],
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _print_json(facts: Any) -> None:
    print(json.dumps(facts, ensure_ascii=False, indent=1))


def _print_one(facts: dict[str, Any], names: Sequence[str], **computed: str) -> None:
    """Print what an entry is, the named facts, its settings, when it misleads, and its source."""
    parameters = (f"{p['name']} = {p['default']}   ({p['allowed']})" for p in facts["parameters"])
    presets = (
        f"{name}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        for name, values in facts["presets"].items()
    )
    rows = {
        facts["name"]: facts["summary"],
        **{name: computed.get(name) or facts[name] for name in names},
        "parameters": "\n".join(parameters) or "none",
        "presets": "\n".join(presets) or "none",
        "misleads when": facts["misleads_when"],
        "source": facts["cite"],
    }
    if facts.get("notice"):
        rows["notice"] = facts["notice"]
    _print_list(rows.items(), indent="")


def _print_list(rows: Iterable[tuple[str, ...]], note: str = "", indent: str = "  ") -> None:
    """Print names with what is to say of each; a row of one cell is the heading of a group."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, *cells in rows:
        if cells:
            table.add_row(Text(f"{indent}{name}", "bold"), *map(Text, cells))
        else:
            table.add_row(Text(name, "dim"))
    console = Console()
    console.print(table)
    if note:
        console.print(f"\n[dim]{note}")
