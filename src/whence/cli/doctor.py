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
