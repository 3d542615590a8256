"""What the report of one run says, in the order in which it is read."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from whence.report.audit.wording import answer, one_line
from whence.report.data import rows_told
from whence.report.run.blocks import (
    Audited,
    Block,
    Code,
    Document,
    Drawing,
    Evaluated,
    Facts,
    Line,
    Section,
    Table,
)
from whence.report.run.wording import (
    REASONS,
    classes,
    counted,
    example,
    figure,
    labels,
    listed,
    model,
    percent,
    progress,
    reasons,
    short_name,
)
from whence.report.table.grid import COSTS, COSTS_LEGEND, costs

Payload = Mapping[str, Any]

_TITLES = {
    "best": "Fared best",
    "worst": "Fared worst",
    "disagreed": "Methods disagree most",
    "example": "An example",
}
_EXAMPLES = (
    "Of each method, the explanations that did best and worst by the first metric it was tested by, against random "
    "explanations of the same example. They are the extremes of many: the tables say how it does as a rule."
)

_UNTESTED = (
    "Nothing was tested, so these are no extremes: a wrong prediction, where there is one, and the first example of "
    "each class that was predicted."
)


def of_run(payload: Payload) -> Document:
    """Lay out a run."""
    name = f"{short_name(payload['model']['name'])} on {one_line(payload['data']['name'])}"
    made = [
        Section(name, list(_overall(payload))),
        Section("Methods held against each other", list(_evaluated(payload))),
        Section("Drawings", [Drawing(plot) for plot in payload["plots"]]),
        Section(_heading(payload), list(_examples(payload))),
        Section("Is attention an explanation here?", list(_audited(payload))),
        Section("What is left out", list(_left_out(payload))),
        Section("Where this comes from", list(_origin(payload))),
        Section("How to reproduce it", list(_again(payload))),
    ]
    return Document("whence: a run", [one for one in made if one.blocks])


def _overall(payload: Payload) -> Iterator[Block]:
    if payload["advice"]:
        yield Line(one_line(payload["advice"]), "strong")
    yield Line(progress(payload), "" if payload["state"] == "complete" else "warning")
    yield from (Line(one_line(line), "warning") for line in payload["damage"])
    if payload["data"].get("warning"):
        yield Line(one_line(payload["data"]["warning"]), "warning")
    yield Facts([(name, text) for name, text in _facts(payload) if text])


def _facts(payload: Payload) -> Iterator[tuple[str, str]]:
    data, setting = payload["data"], payload["setting"]
    yield "model", model(payload["model"])
    yield "data", _data(payload)
    yield "methods", listed(payload["methods"], 40)
    yield "metrics", listed(payload["metrics"], 40)
    if payload["metrics"]:
        how = f"removed by {one_line(setting['remove'])}, " if setting.get("remove") else ""
        unit = one_line(setting["unit"])
        rankings = counted(setting["rankings"], "random explanation")
        yield "tested", f"{how}{unit} by {unit}, {rankings} of each example"
    yield "seed", str(setting["seed"])
    found = payload["predictions"]
    yield "predicted", classes(found["classes"])
    yield "labels of the data", labels(found.get("labels"))
    if found["accuracy"]:
        share = f"; always the most frequent label: {found['majority']:.1%}"
        yield "accuracy", percent(found["accuracy"]) + share
    yield "bad rows", f"{data['bad']['count']:,}" if data["bad"]["count"] else ""
    failed = sum(row["count"] for row in payload["failures"])
    yield "failures", counted(failed, "explanation") if failed else ""
    if payload["audit"]:
        yield "attention is an explanation here", answer(payload["audit"])


def _data(payload: Payload) -> str:
    data = payload["data"]
    columns = ", ".join(
        f"{role} from {one_line(name)!r}" for role, name in data.get("columns", {}).items()
    )
    guessed = f" ({listed(data['guessed'])} guessed)" if data.get("guessed") else ""
    said = f"{one_line(data['name'])}, {counted(payload['examples'], 'example')}"
    taken = (payload["evaluation"] or {}).get("data")
    if taken and taken["drawn"] is not None:
        said += f", {rows_told(taken)}"
    return said + (f"; {columns}{guessed}" if columns else "")


def _evaluated(payload: Payload) -> Iterator[Block]:
    table = payload["evaluation"]
    if table is None:
        return
    if table["metrics"] and table["examples"]["explained"]:
        yield Evaluated(table)
        yield from _agreement(table)
        return
    if not table["examples"]["explained"]:
        yield Line("No example is explained, so there is nothing to hold against each other.")
        return
    yield Line("Explanations were made and not tested: the plan has no metrics.")
    yield Table(COSTS, costs(table))
    yield Line(COSTS_LEGEND, "dim")


def _agreement(table: Payload) -> Iterator[Block]:
    """Return how much each two methods agree, with the intervals that a drawing has no room for."""
    rows = [
        (
            one_line(one["a"]),
            one_line(one["b"]),
            one_line(one["measure"]).replace("_", " "),
            figure(one),
            figure(one["null"]),
        )
        for one in table["agreement"]
        if one["n"]
    ]
    if len(rows) > 1:
        heads = ("method", "and method", "measure", "agreement", "chance")
        yield Table(heads, rows, "Agreement of each two methods", folded=True)


def _heading(payload: Payload) -> str:
    tested = any(one["which"] in ("best", "worst") for one in payload["extremes"])
    return "Best and worst explanations" if tested else "Explanations"


def _examples(payload: Payload) -> Iterator[Block]:
    if any(one["which"] in ("best", "worst") for one in payload["extremes"]):
        yield Line(_EXAMPLES, "dim")
    elif payload["extremes"]:
        yield Line(_UNTESTED, "dim")
    for one in payload["extremes"]:
        yield example(one, _TITLES[one["which"]])


def _audited(payload: Payload) -> Iterator[Block]:
    if payload["audit"]:
        yield Audited(payload["audit"])


def _left_out(payload: Payload) -> Iterator[Block]:
    if payload["not_audited"]:
        yield Line("Experiments on attention that were asked for and found nothing:")
        rows = [(one_line(one["name"]), one_line(one["why"])) for one in payload["not_audited"]]
        yield Table(("experiment", "why"), rows)
    bad = payload["data"]["bad"]
    if bad["count"]:
        shown = len(bad["first"])
        first = "" if shown == bad["count"] else f" The first {shown}:"
        yield Line(
            f"{counted(bad['count'], 'row')} could not be read and had to be skipped.{first}"
        )
        rows = [(one_line(one["where"]), one_line(one["why"])) for one in bad["first"]]
        yield Table(("where", "why"), rows)
    if payload["failures"]:
        yield Line("What could not be explained; --retry-failed tries again.")
        yield Table(REASONS, reasons(payload["failures"]))


def _origin(payload: Payload) -> Iterator[Block]:
    told = {**payload["model"], **payload["provenance"]}
    yield Facts([(one_line(name), _plain(value)) for name, value in told.items() if value])
    yield from _settings(payload["settings"])
    if payload["sessions"]:
        heads = ("began", "took", "workers", "tasks", "with")
        yield Table(heads, [_session(one) for one in payload["sessions"]], "Sessions", folded=True)
        yield Line("Times are of the machine that did the work; no result depends on them.", "dim")


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return listed((f"{name} = {own}" for name, own in value.items()), 40) or "none"
    if value is None:
        return "none"
    return listed(value) if isinstance(value, list | tuple) else one_line(value)


def _settings(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Say what determines a result: what all have in common, and what each digest in the tables stands for."""
    for kind, name in (("explanation", "method"), ("test", "metric")):
        own = {digest: facts for digest, facts in settings.items() if facts.get("kind") == kind}
        if not own:
            continue
        first = next(iter(own.values()))
        common = [
            key
            for key in first
            if key != name and all(facts.get(key) == first[key] for facts in own.values())
        ]
        shared = "; ".join(f"{one_line(key)} {_plain(first[key])}" for key in sorted(common))
        rows = [
            (digest, one_line(facts.get(name)), _rest(facts, {*common, name}))
            for digest, facts in own.items()
        ]
        yield Line(f"Every {kind} here: {shared}.", "dim")
        yield Table(
            (kind, name, "what else determines it"), rows, f"Digests of {kind}s", folded=True
        )


def _rest(facts: Mapping[str, Any], known: Collection[str]) -> str:
    told = {name: value for name, value in facts.items() if name not in known and value is not None}
    return "; ".join(f"{one_line(name)} {_plain(value)}" for name, value in told.items()) or "-"


def _time(at: Any) -> str:
    """Write a time of the journal, which is in UTC, to the second."""
    return f"{one_line(at)[:19].replace('T', ' ')} UTC" if at else "-"


def _session(one: Mapping[str, Any]) -> tuple[str, ...]:
    took = "-" if one["seconds"] is None else f"{one['seconds']:,.1f} s"
    known = {**one["with"]}
    return (
        _time(one["began"]),
        took,
        one_line(one["workers"] or "-"),
        f"{one['tasks']:,}",
        "; ".join(f"{one_line(name)} {one_line(value)}" for name, value in known.items()),
    )


def _again(payload: Payload) -> Iterator[Block]:
    again = payload["reproduce"]
    yield Line("The plan:")
    yield Code(again["plan"], "toml")
    yield Line("The same from the command line:")
    yield Code(again["command"], "sh")
