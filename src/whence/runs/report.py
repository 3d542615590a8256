"""Report of a run, laid out once as a document of blocks for every surface."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whence.render import document as doc
from whence.render.blocks import build_score_details, build_tinted_input, build_top_table
from whence.render.colour import TEXT_SCALE_NOTE
from whence.render.document import choose_decimals, format_interval, format_number
from whence.render.text import (
    format_columns,
    format_count,
    format_list,
    format_name,
    format_probability,
    format_row_sample,
)
from whence.studies.audit.report import build_sections as build_audit_sections
from whence.studies.audit.report import format_answer
from whence.studies.evaluation.report import (
    COST_HEADS,
    COST_LEGEND,
    build_blocks,
    build_cost_rows,
    describe_evaluation,
)

_TOP_WORDS = 6  # words listed of an explanation
_EXAMPLE_TITLES = {
    "best": "Fared best",
    "worst": "Fared worst",
    "disagreed": "Methods disagree most",
    "example": "An example",
}
_EXTREMES_NOTE = (
    "Of each method, the explanations that did best and worst by the first metric it was tested by, against random "
    "explanations of the same example. They are the extremes of many: the tables say how it does as a rule."
)
_UNTESTED_NOTE = (
    "Nothing was tested, so these are no extremes: a wrong prediction, where there is one, and the first example of "
    "each class that was predicted."
)
_LABEL_READINGS = {
    "number": "numbers, taken for the model's labels counted from 0",
    "own number": "numbers, taken for those in the names of the model's labels",
    "truth": "false and true, taken for the first and the second of the model's labels",
}


def build_document(data: doc.JsonObject) -> doc.Document:
    """Return the document of a run's report."""
    audit = build_audit_sections(data["audit"]) if data["audit"] else []
    name = data["model"]["name"]
    if name.startswith(("/", "./", "../", "~")) or name[1:3] == ":\\":  # the last part of a path
        name = re.split(r"[/\\]", name.rstrip("/\\"))[-1]
    reproduce: list[doc.Block] = [
        doc.Paragraph("The plan:"),
        doc.Code(data["reproduce"]["plan"], "toml"),
        doc.Paragraph("The same from the command line:"),
        doc.Code(data["reproduce"]["command"], "sh"),
    ]
    sections = [
        doc.Section(f"{name} on {data['data']['name']}", list(_build_overview(data))),
        doc.Section("Methods held against each other", list(_build_evaluation(data["evaluation"]))),
        doc.Section("Drawings", [doc.Plot(plot) for plot in data["plots"]]),
        _build_examples(data["extremes"]),
        *audit,
        doc.Section("What is left out", list(_build_omissions(data))),
        doc.Section("Where this comes from", list(_build_provenance(data))),
        doc.Section("How to reproduce it", reproduce),
    ]
    return doc.Document("whence: a run", sections, foot=TEXT_SCALE_NOTE, contents=True)


def _build_overview(data: doc.JsonObject) -> Iterator[doc.Block]:
    yield doc.Paragraph(data["advice"] or "", "strong")
    yield doc.Paragraph(_describe_progress(data), "" if data["state"] == "complete" else "warning")
    for line in (*data["damage"], data["data"].get("warning") or ""):
        yield doc.Paragraph(line, "warning")
    yield doc.FactList([(name, text) for name, text in _list_facts(data) if text])


def _list_facts(data: doc.JsonObject) -> Iterator[tuple[str, str]]:
    setting, predictions = data["setting"], data["predictions"]
    source, sample = data["data"], (data["evaluation"] or {}).get("data")
    columns = source.get("columns", {})
    text = f"{source['name']}, {format_count(data['examples'], 'example')}"
    text += f", {format_row_sample(sample)}" if sample and sample["drawn"] is not None else ""
    yield "model", _describe_model(data["model"])
    yield "data", text + format_columns(columns, source.get("guessed"), roles=columns)
    yield "methods", format_list(data["methods"], 40)
    yield "metrics", format_list(data["metrics"], 40)
    if data["metrics"]:
        how = f"removed by {setting['remove']}, " if setting.get("remove") else ""
        rankings = format_count(setting["rankings"], "random explanation")
        yield "tested", f"{how}{setting['unit']} by {setting['unit']}, {rankings} of each example"
    yield "seed", str(setting["seed"])
    most = sorted(predictions["classes"].items(), key=lambda pair: (-pair[1], pair[0]))
    yield "predicted", format_list(f"{name} {count:,}" for name, count in most)
    yield "labels of the data", _describe_labels(predictions.get("labels"))
    if predictions["accuracy"]:
        share = f"; always the most frequent label: {predictions['majority']:.1%}"
        yield "accuracy", _format_percent(predictions["accuracy"]) + share
    bad, failed = source["bad"]["count"], sum(row["count"] for row in data["failures"])
    yield "bad rows", f"{bad:,}" if bad else ""
    yield "failures", format_count(failed, "explanation") if failed else ""
    if data["audit"]:
        yield "attention is an explanation here", format_answer(data["audit"])


def _build_evaluation(table: doc.JsonObject | None) -> Iterator[doc.Block]:
    if table is None:
        return
    if not table["examples"]["explained"]:
        nothing = "No example is explained, so there is nothing to hold against each other."
        yield doc.Paragraph(nothing)
    elif table["metrics"]:
        yield doc.Paragraph(f"{describe_evaluation(table)}.", "dim")
        yield from build_blocks(table)
        yield _build_agreement(table)
    else:
        yield doc.Paragraph("Explanations were made and not tested: the plan has no metrics.")
        yield doc.Table(COST_HEADS, build_cost_rows(table))
        yield doc.Paragraph(COST_LEGEND, "dim")


def _build_agreement(table: doc.JsonObject) -> doc.Block:
    """Return the table of pairwise agreement with intervals, which the chart does not show."""
    rows = []
    for pair in table["agreement"]:
        if pair["n"]:
            figures = _format_mean(pair), _format_mean(pair["null"])
            rows.append((pair["a"], pair["b"], format_name(pair["measure"]), *figures))
    heads = ("method", "and method", "measure", "agreement", "chance")
    return _fold("Agreement of each two methods", heads, rows if len(rows) > 1 else [])


def _build_examples(extremes: Sequence[doc.JsonObject]) -> doc.Section:
    tested = any(example["which"] in ("best", "worst") for example in extremes)
    note = _EXTREMES_NOTE if tested else _UNTESTED_NOTE
    return doc.Section(
        "Best and worst explanations" if tested else "Explanations",
        [
            doc.Paragraph(note if extremes else "", "dim"),
            *(block for example in extremes for block in _build_example(example)),
        ],
    )


def _build_example(example: doc.JsonObject) -> Iterator[doc.Block]:
    """Yield one explanation, with its metric value and that of random ones."""
    explained = example["explained"]
    (explanation,) = explained["explanations"]
    prediction = explained["prediction"]
    probability = prediction["probability"]
    sure = "" if probability is None else f" ({format_probability(probability)})"
    true = example.get("gold") or example.get("label")  # in the model's words, if matched
    label = "" if true is None else f", labelled {true}"
    lines = [f"{example['id']}: predicted {prediction['label'] or 'nothing'}{sure}{label}."]
    if (value := example.get("value")) is not None:
        null = example["null"]
        digits = 3 if max(abs(value), abs(null or 0)) < 1000 else None
        random = "" if null is None else f", random explanations {format_number(null, digits)}"
        shown = f"{example['metric']} {format_number(value, digits)}{random}"
        lines.append(f"{shown} (this example alone).")
    texts = [text for text in (explained["input"]["text"], explained["input"]["pair"]) if text]
    yield doc.Heading(f"{_EXAMPLE_TITLES[example['which']]}: {explanation['method']}")
    yield doc.Bullets([*lines, *(example.get("says") or ())])
    yield from build_tinted_input(explained, explanation, " ".join(" | ".join(texts).split()))
    yield build_top_table(explained, explanation, _TOP_WORDS)
    yield build_score_details(explained, explanation)


def _build_omissions(data: doc.JsonObject) -> Iterator[doc.Block]:
    if data["not_audited"]:
        yield doc.Paragraph("Experiments on attention that were asked for and found nothing:")
        rows = [(one["name"], one["why"]) for one in data["not_audited"]]
        yield doc.Table(("experiment", "why"), rows)
    bad = data["data"]["bad"]
    if bad["count"]:
        n_shown = len(bad["first"])
        first = "" if n_shown == bad["count"] else f" The first {n_shown}:"
        count = format_count(bad["count"], "row")
        yield doc.Paragraph(f"{count} could not be read and had to be skipped.{first}")
        yield doc.Table(("where", "why"), [(row["where"], row["why"]) for row in bad["first"]])
    if data["failures"]:
        yield doc.Paragraph("What could not be explained; --retry-failed tries again.")
        failures = []
        for row in data["failures"]:
            method, examples = row["method"] or "any method", format_list(row["first"], 3)
            failures.append((method, row["error"], f"{row['count']:,}", examples, row["why"]))
        yield doc.Table(("method", "error", "examples", "such as", "why"), failures)


def _build_provenance(data: doc.JsonObject) -> Iterator[doc.Block]:
    facts = {**data["model"], **data["provenance"]}
    yield doc.FactList([(name, _format_value(value)) for name, value in facts.items() if value])
    yield from _build_setting_tables(data["settings"])
    sessions = [_build_session_row(session) for session in data["sessions"]]
    yield _fold("Sessions", ("began", "took", "workers", "tasks", "with"), sessions)
    if data["sessions"]:
        note = "Times are of the machine that did the work; no result depends on them."
        yield doc.Paragraph(note, "dim")


def _build_setting_tables(settings: Mapping[str, doc.JsonObject]) -> Iterator[doc.Block]:
    """Yield the settings of results: those common to all, and a table of digests."""
    for kind, name in (("explanation", "method"), ("test", "metric")):
        own = {digest: facts for digest, facts in settings.items() if facts.get("kind") == kind}
        first: doc.JsonObject = next(iter(own.values()), {})
        shared = {
            key: value
            for key, value in first.items()
            if key != name and all(facts.get(key) == value for facts in own.values())
        }
        if own:
            common = "; ".join(f"{key} {_format_value(shared[key])}" for key in sorted(shared))
            yield doc.Paragraph(f"Every {kind} here: {common}.", "dim")
        rows = []
        for digest, facts in own.items():
            more = [
                f"{key} {_format_value(value)}"
                for key, value in facts.items()
                if key not in shared and key != name and value is not None
            ]
            rows.append((digest, str(facts.get(name)), "; ".join(more) or "-"))
        yield _fold(f"Digests of {kind}s", (kind, name, "what else determines it"), rows)


def _build_session_row(session: doc.JsonObject) -> tuple[str, ...]:
    began = str(session["began"] or "")[:19].replace("T", " ")
    return (
        f"{began} UTC" if began else "-",
        "-" if session["seconds"] is None else f"{session['seconds']:,.1f} s",
        str(session["workers"] or "-"),
        f"{session['tasks']:,}",
        "; ".join(f"{name} {value}" for name, value in session["with"].items()),
    )


def _fold(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> doc.Block:
    """Return a table folded away on a page; elsewhere a line says where it is."""
    if not rows:
        return doc.Paragraph("")
    where = f"{name}: {len(rows):,}, on the page (--html) and in the JSON object (--json)."
    instead, table = doc.Paragraph(where, "dim"), doc.Table(heads, rows)
    return doc.Details(f"{name} ({len(rows):,})", [table], [instead])


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return format_list((f"{name} = {own}" for name, own in value.items()), 40) or "none"
    if value is None:
        return "none"
    return format_list(value) if isinstance(value, list | tuple) else str(value)


def _format_mean(interval: doc.JsonObject | None) -> str:
    if not interval or not interval["n"]:
        return "not known"
    return format_interval(interval, choose_decimals([interval]))


def _format_percent(share: doc.JsonObject) -> str:
    """Return a share in percent with its interval and n."""
    low, high = share["low"], share["high"]
    if low is None:
        return format_interval(share, 3)
    ends = "" if low == high else f" [{low:.1%}, {high:.1%}]"
    return f"{share['mean']:.1%}{ends} n={share['n']}"


def _describe_model(facts: doc.JsonObject) -> str:
    """Return a model's name with class, revision and dtype."""
    details = [str(facts[name]) for name in ("class", "revision", "dtype") if facts.get(name)]
    return f"{facts['name']} ({', '.join(details)})" if details else str(facts["name"])


def _describe_progress(facts: doc.JsonObject) -> str:
    """Return a sentence on the progress of a run."""
    examples, total = facts["examples"], facts.get("total")
    if facts["state"] != "complete":
        of = "" if total is None else f" of {total:,}"
        return f"The run is not finished: {examples:,}{of} examples are there. The same command goes on with it."
    if facts.get("parts"):
        parts = format_list(f"{part} of {of}" for part, of in facts["parts"])
        extent = f"{format_count(examples, 'example')} of part {parts} of the run"
        return f"All there is to do here is done: {extent}. `whence store merge` brings the parts together."
    return f"The run is complete: {format_count(examples, 'example')}."


def _describe_labels(match: doc.JsonObject | None) -> str:
    """Return how the data's labels were matched to the model's; empty if the names are equal."""
    if not match or match["by"] not in _LABEL_READINGS:
        return ""
    names = format_list(f"{label} {name}" for label, name in match["names"].items())
    return f"{_LABEL_READINGS[match['by']]}: {names}"
