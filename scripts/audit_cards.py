"""The card of each experiment of an audit, docs/audits/NAME.md, and the page of all of them."""

from __future__ import annotations

import card_parts as parts
from card_parts import block, facts, page, stored, table

from whence.audit.chosen import names
from whence.audit.experiments import experiment
from whence.audit.plan import Plan
from whence.core.registry import Entry

# An audit for which the cost is told, as `whence list experiments` does.
TYPICAL = Plan(n=100, tokens=25, layers=6, heads=12, sites=1, train=1000, epochs=8)
DATA = "reviews.tsv"
# Values with which an experiment is quick.
QUICK = {"steps": 20, "permutations": 20, "runs": 1, "seeds": 1, "weights": "0,1"}
LONG = {"guides"}  # even then


def ordered() -> list[Entry]:
    """Return the experiments in the order in which an audit makes them."""
    return [experiment.get(name) for name in names("all", can_train=True)]


def card(name: str) -> str:
    """Return the card of an experiment."""
    entry = experiment.get(name)
    first, *more = parts.said(entry).split("\n\n")
    return page(
        f"# {name}",
        first,
        facts(
            {
                "hypothesis": entry.facts["hypothesis"],
                "measured": entry.facts["measure"],
                "holds if": f"the whole 95% interval lies {_asked(entry)}",
                "needs": _needs(entry),
                "cost": _cost(entry),
            }
        ),
        *more,
        "## When it misleads",
        parts.misleads(entry),
        *parts.settings(entry),
        *_called(entry),
        "## Verdicts",
        *_verdicts(entry),
        *parts.source(entry),
    )


def index() -> str:
    """Return the page of all experiments."""
    audits = _audits()
    head = ["experiment", "hypothesis", "holds if", "needs", *(title for _, title in audits)]
    body = [
        [
            f"[`{entry.name}`]({entry.name}.md)",
            entry.facts["hypothesis"],
            _asked(entry),
            _needs(entry),
            *(_verdict(file, entry.name)[0] for file, _ in audits),
        ]
        for entry in ordered()
    ]
    return page(
        "# Audits",
        "An audit asks whether a model's attention may be read as an explanation of what it predicts. Each "
        "experiment states a claim that must hold for that, and its threshold, before anything is measured; "
        "the verdict "
        "follows from the interval alone. [How to read an audit](../guides/audit-attention.md), "
        "[everything about it](../reference/audit.md).",
        table(head, body),
        f"The last columns are verdicts on {parts.listed(_named(file) for file, _ in audits)}; others may come out "
        "otherwise."
        if audits
        else "",
    )


def _asked(entry: Entry) -> str:
    return f"{entry.facts['direction']} {entry.facts['threshold']:g}"


def _needs(entry: Entry) -> str:
    needs = [("true labels", entry.facts["labels"]), ("training data", entry.facts["trains"])]
    return ", ".join(what for what, needed in needs if needed) or "texts"


def _cost(entry: Entry) -> str:
    defaults = {name: parameter.default for name, parameter in entry.parameters.items()}
    forwards = round(entry.facts["calls"](TYPICAL, defaults))
    texts = f"{TYPICAL.n} texts of {TYPICAL.tokens:g} tokens"
    if entry.facts["trains"]:
        texts += f", and {TYPICAL.train:,} to train on for {TYPICAL.epochs} epochs"
    return f"at most {forwards:,} forward passes for {texts}; most are not whole ones"


def _called(entry: Entry) -> list[str]:
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
        block("python", python, before),
        block(
            "sh",
            f"whence audit {DATA} --experiment {entry.name} --limit 8{option}{options}",
            before,
        ),
        f"{parts.listed(told)} {are} small here, to be quick; leave {them} out for an answer that can be believed.",
    ]


def _audits() -> list[tuple[str, str]]:
    """Return the stored audits: the file, and the model and data in short."""
    found = sorted(path.stem for path in parts.RESULTS.glob("audit-*.json"))
    return [(file, (stored(file) or {})["model"]["name"]) for file in found]


def _named(file: str) -> str:
    found = stored(file) or {}
    return (
        f"`{found['model']['name']}` ({found['data']['title']}, {found['data']['used']} examples)"
    )


def _verdict(file: str, name: str) -> tuple[str, str, str]:
    """Return the verdict, the effect with its interval, and why there is none, if so."""
    found = stored(file) or {}
    for one in found["experiments"]:
        if one["name"] == name:
            low, high = one["interval"] or (None, None)
            effect = "–" if one["effect"] is None else f"{one['effect']:.3f}"
            interval = "" if low is None else f" [{low:.3f}, {high:.3f}]"
            chance = "" if one["chance"] is None else f", chance {one['chance']:.3f}"
            return one["verdict"], f"{effect}{interval}{chance}, n = {one['n']}", one["why"] or ""
    why = next((one["why"] for one in found.get("not_run", []) if one["name"] == name), "")
    return "not made", "–", why


def _verdicts(entry: Entry) -> list[str]:
    body = [[_named(file), *_verdict(file, entry.name)] for file, _ in _audits()]
    if not body:
        return ["No audit is stored yet."]
    return [
        table(["model", "verdict", "effect", "why"], body),
        "[Transformers](../science/transformers.md) · [the models of Jain & Wallace](../science/jain_wallace.md)",
    ]
