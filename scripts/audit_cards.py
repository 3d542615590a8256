"""Text of docs/audits/NAME.md, the cards of the audit's experiments with stored verdicts, and of their index."""

from __future__ import annotations

import card_markdown as parts
from card_markdown import format_code_block, format_facts, format_table, join_parts, load_result

from whence.core.registry import Entry
from whence.studies.audit.audit import AuditCostEstimate, resolve_names
from whence.studies.audit.experiments import experiment

# The audit whose cost is given, as by `whence list experiments`.
TYPICAL = AuditCostEstimate(n=100, tokens=25, layers=6, heads=12, sites=1, train=1000, epochs=8)
DATA = "reviews.tsv"
# Values with which an experiment is quick.
QUICK = {"steps": 20, "permutations": 20, "runs": 1, "seeds": 1, "weights": "0,1"}
LONG = {"guides"}  # slow with the values of QUICK, too


def list_experiments() -> list[Entry]:
    """Return the experiments in the order in which an audit makes them."""
    return [experiment.get(name) for name in resolve_names("all", can_train=True)]


def render_card(name: str) -> str:
    """Return the card of an experiment."""
    entry = experiment.get(name)
    first, *more = parts.format_docstring(entry).split("\n\n")
    return join_parts(
        f"# {name}",
        first,
        format_facts(
            {
                "hypothesis": entry.facts["hypothesis"],
                "measured": entry.facts["measure"],
                "holds if": f"the whole 95% interval lies {_format_threshold(entry)}",
                "needs": _format_needs(entry),
                "cost": _format_cost(entry),
            }
        ),
        *more,
        "## When it misleads",
        parts.format_misleads(entry),
        *parts.format_settings(entry),
        *_format_calls(entry),
        "## Verdicts",
        *_render_verdicts(entry),
        *parts.format_source(entry),
    )


def render_index() -> str:
    """Return the page of all experiments."""
    audits = _list_audits()
    head = ["experiment", "hypothesis", "holds if", "needs", *(title for _, title in audits)]
    body = [
        [
            f"[`{entry.name}`]({entry.name}.md)",
            entry.facts["hypothesis"],
            _format_threshold(entry),
            _format_needs(entry),
            *(_read_verdict(file, entry.name)[0] for file, _ in audits),
        ]
        for entry in list_experiments()
    ]
    return join_parts(
        "# Audits",
        "An audit asks whether a model's attention may be read as an explanation of what it predicts. Each "
        "experiment states a claim that must hold for that, and its threshold, before anything is measured; "
        "the verdict "
        "follows from the interval alone. [How to read an audit](../guides/audit-attention.md), "
        "[everything about it](../reference/audit.md).",
        format_table(head, body),
        f"The last columns are verdicts on {parts.format_list(_format_audit(file) for file, _ in audits)}; others may come out "
        "otherwise."
        if audits
        else "",
    )


def _format_threshold(entry: Entry) -> str:
    return f"{entry.facts['direction']} {entry.facts['threshold']:g}"


def _format_needs(entry: Entry) -> str:
    needs = [("true labels", entry.facts["labels"]), ("training data", entry.facts["trains"])]
    return ", ".join(what for what, needed in needs if needed) or "texts"


def _format_cost(entry: Entry) -> str:
    defaults = {name: parameter.default for name, parameter in entry.parameters.items()}
    forwards = round(entry.facts["calls"](TYPICAL, defaults))
    texts = f"{TYPICAL.n} texts of {TYPICAL.tokens:g} tokens"
    if entry.facts["trains"]:
        texts += f", and {TYPICAL.train:,} to train on for {TYPICAL.epochs} epochs"
    return f"at most {forwards:,} forward passes for {texts}; most are not whole ones"


def _format_calls(entry: Entry) -> list[str]:
    train, option = "", ""
    if entry.facts["trains"]:
        train, option = f', train="{DATA}", epochs=1', f" --train {DATA} --epochs 1"
    small = {name: value for name, value in QUICK.items() if name in entry.parameters}
    given = f", params={small}".replace("'", '"') if small else ""
    options = "".join(f" --param {name}={value}" for name, value in small.items())
    told = ["`limit`", *(["`epochs`"] if train else []), *(f"`{name}`" for name in small)]
    before = (
        "<!-- not run: it trains a dozen models, which takes long -->\n"
        if entry.name in LONG
        else ""
    )
    python = (
        "import whence\n\nfound = whence.audit(\n"
        f'    "reviews", "{DATA}", experiments="{entry.name}", limit=8{train}{given}\n)\n'
        f'print(found.verdicts["{entry.name}"])'
    )
    are, them = ("are", "them") if len(told) > 1 else ("is", "it")
    return [
        "## Call it",
        format_code_block("python", python, before),
        format_code_block(
            "sh",
            f"whence audit {DATA} --experiment {entry.name} --limit 8{option}{options}",
            before,
        ),
        f"{parts.format_list(told)} {are} small here, to be quick; leave {them} out for an answer that can be believed.",
    ]


def _list_audits() -> list[tuple[str, str]]:
    """Return the stored audits: the file, and the model and data in short."""
    found = sorted(path.stem for path in parts.RESULTS.glob("audit-*.json"))
    return [(file, (load_result(file) or {})["model"]["name"]) for file in found]


def _format_audit(file: str) -> str:
    found = load_result(file) or {}
    return (
        f"`{found['model']['name']}` ({found['data']['title']}, {found['data']['used']} examples)"
    )


def _read_verdict(file: str, name: str) -> tuple[str, str, str]:
    """Return the verdict, the effect with its interval, and the reason where there is no verdict."""
    found = load_result(file) or {}
    for one in found["experiments"]:
        if one["name"] == name:
            low, high = one["interval"] or (None, None)
            effect = "–" if one["effect"] is None else f"{one['effect']:.3f}"
            interval = "" if low is None else f" [{low:.3f}, {high:.3f}]"
            chance = "" if one["chance"] is None else f", chance {one['chance']:.3f}"
            return one["verdict"], f"{effect}{interval}{chance}, n = {one['n']}", one["why"] or ""
    why = next((one["why"] for one in found.get("not_run", []) if one["name"] == name), "")
    return "not made", "–", why


def _render_verdicts(entry: Entry) -> list[str]:
    body = [[_format_audit(file), *_read_verdict(file, entry.name)] for file, _ in _list_audits()]
    if not body:
        return ["No audit is stored yet."]
    return [
        format_table(["model", "verdict", "effect", "why"], body),
        "[Transformers](../science/transformers.md) · [the models of Jain & Wallace](../science/jain_wallace.md)",
    ]
