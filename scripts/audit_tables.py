"""The parts of docs/reference/audit.md that are made from the registered experiments."""

from inspect import cleandoc

from whence.audit.chosen import names
from whence.audit.experiments import experiment
from whence.core.registry import Entry


def experiments() -> str:
    """Return what each experiment claims, and what decides."""
    lines = [
        "| experiment | hypothesis | measured | holds if | needs | source |",
        "|---|---|---|---|---|---|",
    ]
    for entry in _ordered():
        facts = entry.facts
        asked = f"{facts['direction']} {facts['threshold']:g}"
        cells = (facts["hypothesis"], facts["measure"], asked, _needs(entry), facts["cite"])
        lines.append(f"| `{entry.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def reasons() -> str:
    """Return how each experiment is made, why its threshold is what it is, and when it misleads."""
    blocks = []
    for entry in _ordered():
        said = cleandoc(entry.fn.__doc__ or "")
        blocks.append(
            f"**`{entry.name}`.** {said}\n\n*Misleads when* {entry.facts['misleads_when']}."
        )
    return "\n\n".join(blocks)


def _ordered() -> list[Entry]:
    return [experiment.get(name) for name in names("all", can_train=True)]


def _needs(entry: Entry) -> str:
    needs = [("true labels", entry.facts["labels"]), ("training data", entry.facts["trains"])]
    return ", ".join(what for what, needed in needs if needed) or "texts"
