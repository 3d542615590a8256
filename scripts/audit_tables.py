"""Generated parts of docs/reference/audit.md: table of experiments, and procedure and reason of each."""

from inspect import cleandoc

from whence.core.registry import Entry
from whence.studies.audit.audit import resolve_names
from whence.studies.audit.experiments import experiment


def render_experiments() -> str:
    """Return the table of experiments: claim and threshold of each."""
    lines = [
        "| experiment | hypothesis | measured | holds if | needs | source |",
        "|---|---|---|---|---|---|",
    ]
    for entry in _list_experiments():
        facts = entry.facts
        asked = f"{facts['direction']} {facts['threshold']:g}"
        cells = (facts["hypothesis"], facts["measure"], asked, _format_needs(entry), facts["cite"])
        lines.append(f"| `{entry.name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def render_reasons() -> str:
    """Return the section of each experiment: procedure, reason for the threshold, known pitfalls."""
    blocks = []
    for entry in _list_experiments():
        said = cleandoc(entry.fn.__doc__ or "")
        blocks.append(
            f"**`{entry.name}`.** {said}\n\n*Misleads when* {entry.facts['misleads_when']}."
        )
    return "\n\n".join(blocks)


def _list_experiments() -> list[Entry]:
    return [experiment.get(name) for name in resolve_names("all", can_train=True)]


def _format_needs(entry: Entry) -> str:
    needs = [("true labels", entry.facts["labels"]), ("training data", entry.facts["trains"])]
    return ", ".join(what for what, needed in needs if needed) or "texts"
