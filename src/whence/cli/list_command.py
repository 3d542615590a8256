"""`whence list`: what there is."""

import json
from typing import Annotated, Any

import typer

from whence.cli.cold import importing


def methods(
    name: Annotated[str | None, typer.Argument(help="Show everything about one method.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the methods, or show one: formula, cost, parameters, when it misleads."""
    with importing():
        from whence.methods import method

        entries = [method.get(name)] if name else list(method)
    if as_json:
        print(json.dumps([_facts(entry) for entry in entries], ensure_ascii=False, indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_card(_facts(entries[0])))
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


def metrics(
    name: Annotated[str | None, typer.Argument(help="Show everything about one metric.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the metrics, or show one: formula, range, what random explanations get, when it misleads."""
    with importing():
        from whence.metrics import KINDS, metric

        entries = [metric.get(name)] if name else list(metric)
    if as_json:
        print(json.dumps([_measure(entry) for entry in entries], ensure_ascii=False, indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_measure_card(_measure(entries[0])))
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


def experiments(
    name: Annotated[
        str | None, typer.Argument(help="Show everything about one experiment.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the experiments of an audit, or show one: hypothesis, threshold, parameters, when it misleads."""
    with importing():
        from whence.audit.chosen import names
        from whence.audit.experiments import experiment

        entries = [
            experiment.get(one) for one in ([name] if name else names("all", can_train=True))
        ]
        told = [_trial(entry) for entry in entries]
    if as_json:
        print(json.dumps(told, ensure_ascii=False, indent=1))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if name:
        console.print(_trial_card(told[0]))
        return
    table = Table.grid(padding=(0, 2))
    for facts in told:
        mark = " (trains)" if facts["trains"] else ""
        table.add_row(Text(facts["name"], "bold"), Text(facts["summary"] + mark))
    console.print(table)
    console.print(
        "\n[dim]whence list experiments NAME shows the hypothesis, the threshold and when it misleads."
    )


def models() -> None:
    """List the built-in models."""
    from rich.console import Console
    from rich.table import Table

    from whence.models.catalogue import BUILTIN

    table = Table("model", "what it is", box=None, pad_edge=False)
    for name, what in BUILTIN.items():
        table.add_row(f"[bold]{name}", what)
    console = Console()
    console.print(table)
    console.print(
        "\n[dim]A folder or a Hugging Face id can be given as well; whence doctor --model M tries it."
    )


def _facts(entry: Any) -> dict[str, Any]:
    """Return what a method says about itself, as plain data."""
    told = ("family", "signed", "formula", "cost", "misleads_when", "cite")
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in told},
        "notice": entry.facts.get("notice"),
        "needs": sorted(entry.facts["needs"]),
        "parameters": _parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


_NULLS = {
    "rankings": "what random rankings of the same input get",
    "reversed": "what random rankings of the same input get",
    "shuffles": "what the explanation's own scores get when they are dealt out anew",
}


def _measure(entry: Any) -> dict[str, Any]:
    """Return what a metric says about itself, as plain data."""
    told = ("kind", "direction", "null", "formula", "cost", "misleads_when", "cite")
    low, high = entry.facts["range"]
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in told},
        # JSON has no infinity.
        "range": [None if abs(end) == float("inf") else end for end in (low, high)],
        "parameters": _parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _measure_card(facts: dict[str, Any]) -> Any:
    low, high = ("no bound" if end is None else f"{end:g}" for end in facts["range"])
    null = facts["null"]
    return _rows(
        {
            facts["name"]: facts["summary"],
            "formula": facts["formula"],
            "kind": facts["kind"],
            "better": "more" if facts["direction"] == "higher" else "less",
            "range": f"{low} to {high}",
            "random": _NULLS[null] if isinstance(null, str) else f"{null:g}",
            "cost": facts["cost"],
            **_settings(facts),
            "misleads when": facts["misleads_when"],
            "source": facts["cite"],
        }
    )


# An audit that the cost of an experiment is told for.
_TYPICAL: dict[str, Any] = {
    "n": 100,
    "tokens": 25,
    "layers": 6,
    "heads": 12,
    "sites": 1,
    "train": 1000,
    "epochs": 8,
}


def _trial(entry: Any) -> dict[str, Any]:
    """Return what an experiment says about itself, as plain data."""
    from whence.audit.plan import Plan

    plan = Plan(**_TYPICAL)
    defaults = {name: parameter.default for name, parameter in entry.parameters.items()}
    told = ("hypothesis", "measure", "threshold", "direction", "labels", "trains")
    return {
        "name": entry.name,
        "summary": entry.summary,
        **{fact: entry.facts[fact] for fact in told},
        "cost": {**_TYPICAL, "forward": round(entry.facts["calls"](plan, defaults))},
        "misleads_when": entry.facts["misleads_when"],
        "cite": entry.facts["cite"],
        "parameters": _parameters(entry),
        "presets": {name: dict(values) for name, values in entry.presets.items()},
    }


def _trial_card(facts: dict[str, Any]) -> Any:
    cost = facts["cost"]
    texts = f"{cost['n']} texts of {cost['tokens']} tokens"
    if facts["trains"]:
        texts += f", and {cost['train']:,} to train on for {cost['epochs']} epochs"
    needs = [
        what
        for what, needed in (("true labels", facts["labels"]), ("training data", facts["trains"]))
        if needed
    ]
    return _rows(
        {
            facts["name"]: facts["summary"],
            "hypothesis": facts["hypothesis"],
            "measure": facts["measure"],
            "holds": f"{facts['direction']} {facts['threshold']:g}",
            "needs": ", ".join(needs) or "nothing but texts",
            "cost": f"at most {cost['forward']:,} forward passes for {texts}: most are not whole ones",
            **_settings(facts),
            "misleads when": facts["misleads_when"],
            "source": facts["cite"],
        }
    )


def _parameters(entry: Any) -> list[dict[str, Any]]:
    return [
        {"name": p.name, "allowed": p.allowed, "default": p.default}
        for p in entry.parameters.values()
    ]


def _settings(facts: dict[str, Any]) -> dict[str, str]:
    parameters = "\n".join(
        f"{p['name']} = {p['default']}   ({p['allowed']})" for p in facts["parameters"]
    )
    presets = "\n".join(
        f"{name}: {', '.join(f'{key}={value}' for key, value in values.items())}"
        for name, values in facts["presets"].items()
    )
    return {"parameters": parameters or "none", "presets": presets or "none"}


def _rows(rows: dict[str, str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in rows.items():
        table.add_row(Text(name, "bold"), Text(value))
    return table


def _card(facts: dict[str, Any]) -> Any:
    return _rows(
        {
            facts["name"]: facts["summary"],
            "formula": facts["formula"],
            "family": facts["family"],
            "signed": "yes" if facts["signed"] else "no",
            "cost": facts["cost"],
            **_settings(facts),
            "misleads when": facts["misleads_when"],
            "source": facts["cite"],
            **({"notice": facts["notice"]} if facts["notice"] else {}),
        }
    )


"""`whence doctor`: what this installation and this model can do, found out by trying."""

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer

from whence.cli.cold import importing


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
    report: dict[str, Any] = {"versions": _versions(), "devices": _devices()}
    if model is not None:
        with importing():
            from whence.explainer import load

            explainer = load(model, device=device)
        report["model"] = explainer.examine(text)
    if as_json:
        print(json.dumps(report, ensure_ascii=False, indent=1))
        return
    _show(report)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in ("whence", "torch", "transformers", "tokenizers", "safetensors", "numpy"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def _devices() -> list[str]:
    with importing():
        import torch

    found = [f"cpu ({torch.get_num_threads()} threads)"]
    found += [
        f"cuda:{i} ({torch.cuda.get_device_name(i)})" for i in range(torch.cuda.device_count())
    ]
    if torch.backends.mps.is_available():
        found.append("mps")
    return found


def _show(report: dict[str, Any]) -> None:
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
    found = report["model"]
    console.print()
    table = Table.grid(padding=(0, 2))
    for name, value in found["facts"].items():
        table.add_row(Text(name, "bold"), Text(str(value)))
    console.print(table)
    console.print()
    tried = Table("method", "works", "why not", box=None, pad_edge=False)
    for row in found["methods"]:
        mark = Text("yes", "green") if row["works"] else Text("no", "red")
        tried.add_row(Text(row["method"], "bold"), mark, Text(row["why_not"] or ""))
    console.print(tried)
