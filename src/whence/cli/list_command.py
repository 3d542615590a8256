"""The commands `whence list` (methods, metrics, experiments, models) and `whence doctor` (versions, devices)."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from whence.cli.progress_bar import pause_garbage_collection


def doctor(
    model: Annotated[
        str | None,
        typer.Option(help="Try every method on this model and say what works and why not."),
    ] = None,
    text: Annotated[
        str, typer.Option(help="The text to try with.")
    ] = "whence tries every method on this short text",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show versions and devices, and what can be explained on a model."""
    report: dict[str, Any] = {"versions": _list_versions(), "devices": _list_devices()}
    if model is not None:
        with pause_garbage_collection():
            from whence.explain.explainer import load

            explainer = load(model, device=device)
        report["model"] = explainer.examine(text)
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=1))
        return
    _print_diagnosis(report)


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

    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    devices += [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
    ]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return devices


def _print_diagnosis(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    facts = Table.grid(padding=(0, 2))
    for name, value in report["versions"].items():
        facts.add_row(Text(name, "bold"), value)
    facts.add_row(Text("devices", "bold"), ", ".join(report["devices"]))
    console.print(facts)
    if "model" not in report:
        console.print("\n[dim]whence doctor --model M says what can be explained on a model.")
        return
    diagnosis = report["model"]
    console.print()
    table = Table.grid(padding=(0, 2))
    for name, value in diagnosis["facts"].items():
        table.add_row(Text(name, "bold"), Text(str(value)))
    console.print(table)
    console.print()
    methods = Table("method", "works", "why not", box=None, pad_edge=False)
    for row in diagnosis["methods"]:
        mark = Text("yes", "green") if row["works"] else Text("no", "red")
        methods.add_row(Text(row["method"], "bold"), mark, Text(row["why_not"] or ""))
    console.print(methods)


def list_methods(
    name: Annotated[str | None, typer.Argument(help="Show everything about one method.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods, or show one: formula, cost, parameters, when it misleads."""
    with pause_garbage_collection():
        from whence.methods import method

        entries = [method.get(name)] if name else list(method)
    if as_json:
        print(
            json.dumps([_describe_method(entry) for entry in entries], ensure_ascii=False, indent=1)
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_render_method(_describe_method(entries[0])))
        return
    table = Table.grid(padding=(0, 2))
    family = ""
    for entry in sorted(entries, key=lambda e: (e.facts["family"], e.name)):
        if entry.facts["family"] != family:
            family = entry.facts["family"]
            table.add_row(Text(family, "dim"))
        table.add_row(Text(f"  {entry.name}", "bold"), Text(entry.summary))
    console.print(table)
    console.print(
        "\n[dim]whence list methods NAME shows the formula, the parameters and when it misleads."
    )


def list_metrics(
    name: Annotated[str | None, typer.Argument(help="Show everything about one metric.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the metrics, or show one: formula, range, what random explanations get, when it misleads."""
    with pause_garbage_collection():
        from whence.metrics import KINDS, metric

        entries = [metric.get(name)] if name else list(metric)
    if as_json:
        print(
            json.dumps([_describe_metric(entry) for entry in entries], ensure_ascii=False, indent=1)
        )
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_render_metric(_describe_metric(entries[0])))
        return
    more, less = "^v" if console.options.ascii_only else "↑↓"
    table = Table.grid(padding=(0, 2))
    for kind in KINDS:
        own = [entry for entry in entries if entry.facts["kind"] == kind]
        if own:
            table.add_row(Text(kind, "dim"))
        for entry in own:
            arrow = more if entry.facts["direction"] == "higher" else less
            table.add_row(Text(f"  {entry.name}", "bold"), arrow, Text(entry.summary))
    console.print(table)
    console.print(
        f"\n[dim]{more} more is better, {less} less is better. "
        "whence list metrics NAME shows the formula, the range and when it misleads."
    )


def list_experiments(
    name: Annotated[
        str | None, typer.Argument(help="Show everything about one experiment.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the experiments of an audit, or show one: hypothesis, threshold, parameters, when it misleads."""
    with pause_garbage_collection():
        from whence.studies.audit.audit import resolve_names
        from whence.studies.audit.experiments import experiment

        entries = [
            experiment.get(experiment_name)
            for experiment_name in ([name] if name else resolve_names("all", can_train=True))
        ]
        descriptions = [_describe_experiment(entry) for entry in entries]
    if as_json:
        print(json.dumps(descriptions, ensure_ascii=False, indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_render_experiment(descriptions[0]))
        return
    table = Table.grid(padding=(0, 2))
    for facts in descriptions:
        mark = " (trains)" if facts["trains"] else ""
        table.add_row(Text(facts["name"], "bold"), Text(facts["summary"] + mark))
    console.print(table)
    console.print(
        "\n[dim]whence list experiments NAME shows the hypothesis, the threshold and when it misleads."
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


def _describe_method(entry: Any) -> dict[str, Any]:
    """Return a method's registered facts as plain data."""
    fact_names = ("family", "signed", "formula", "cost", "misleads_when", "cite")
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in fact_names},
        "notice": entry.facts.get("notice"),
        "needs": sorted(entry.facts["needs"]),
        "parameters": _describe_parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


_RANDOM_BASELINES = {
    "rankings": "what random rankings of the same input get",
    "reversed": "what random rankings of the same input get",
    "shuffles": "what the explanation's own scores get when they are dealt out anew",
}


def _describe_metric(entry: Any) -> dict[str, Any]:
    """Return a metric's registered facts as plain data."""
    fact_names = ("kind", "direction", "null", "formula", "cost", "misleads_when", "cite")
    low, high = entry.facts["range"]
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in fact_names},
        # JSON has no infinity.
        "range": [None if abs(end) == float("inf") else end for end in (low, high)],
        "parameters": _describe_parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _render_metric(facts: dict[str, Any]) -> Any:
    low, high = ("no bound" if end is None else f"{end:g}" for end in facts["range"])
    null = facts["null"]
    return _render_rows(
        {
            facts["name"]: facts["summary"],
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
    )


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


def _describe_experiment(entry: Any) -> dict[str, Any]:
    """Return an experiment's registered facts as plain data."""
    from whence.studies.audit.audit import AuditCostEstimate

    plan = AuditCostEstimate(**_TYPICAL_AUDIT)
    defaults = {name: parameter.default for name, parameter in entry.parameters.items()}
    fact_names = ("hypothesis", "measure", "threshold", "direction", "labels", "trains")
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in fact_names},
        "cost": {**_TYPICAL_AUDIT, "forward": round(entry.facts["calls"](plan, defaults))},
        "misleads_when": entry.facts["misleads_when"],
        "cite": entry.facts["cite"],
        "parameters": _describe_parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _render_experiment(facts: dict[str, Any]) -> Any:
    cost = facts["cost"]
    texts = f"{cost['n']} texts of {cost['tokens']} tokens"
    if facts["trains"]:
        texts += f", and {cost['train']:,} to train on for {cost['epochs']} epochs"
    needs = [
        what
        for what, needed in (("true labels", facts["labels"]), ("training data", facts["trains"]))
        if needed
    ]
    return _render_rows(
        {
            facts["name"]: facts["summary"],
            "hypothesis": facts["hypothesis"],
            "measure": facts["measure"],
            "holds": f"{facts['direction']} {facts['threshold']:g}",
            "needs": ", ".join(needs) or "nothing but texts",
            "cost": f"at most {cost['forward']:,} forward passes for {texts}: most are not whole ones",
            **_format_settings(facts),
            "misleads when": facts["misleads_when"],
            "source": facts["cite"],
        }
    )


def _describe_parameters(entry: Any) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "allowed": p.allowed_values, "default": p.default}
        for p in entry.parameters.values()
    ]


def _format_settings(facts: dict[str, Any]) -> dict[str, str]:
    parameters = "\n".join(
        f"{p['name']} = {p['default']}   ({p['allowed']})" for p in facts["parameters"]
    )
    presets = "\n".join(
        f"{name}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        for name, values in facts["presets"].items()
    )
    return {"parameters": parameters or "none", "presets": presets or "none"}


def _render_rows(rows: dict[str, str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, "bold"), Text(value))
    return table


def _render_method(facts: dict[str, Any]) -> Any:
    return _render_rows(
        {
            facts["name"]: facts["summary"],
            "formula": facts["formula"],
            "family": facts["family"],
            "signed": "yes" if facts["signed"] else "no",
            "cost": facts["cost"],
            **_format_settings(facts),
            "misleads when": facts["misleads_when"],
            "source": facts["cite"],
            **({"notice": facts["notice"]} if facts["notice"] else {}),
        }
    )
