"""Report of a run, or of two runs compared, as a document.

Two runs are compared over the examples that both tested: 95% bootstrap intervals of the gain, paired sign-flip tests
corrected by Holm's procedure, and Kendall's tau-b between the scores.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from whence.render.blocks import build_pictures, build_score_details, build_tinted_input
from whence.render.colour import TEXT_SCALE_NOTE
from whence.render.document import (
    Block,
    Bullets,
    Code,
    Details,
    Document,
    FactList,
    Heading,
    Paragraph,
    Plot,
    Section,
    Table,
    choose_decimals,
    format_interval,
    format_number,
)
from whence.render.text import format_probability, format_row_sample, select_top_features
from whence.studies.audit.report import build_sections, format_answer
from whence.studies.evaluation.report import (
    ARROWS,
    COST_HEADS,
    COST_LEGEND,
    build_blocks,
    build_cost_rows,
)


def build_document(payload: Mapping[str, Any]) -> Document:
    """Return the document of a run's report, or of a comparison of two runs."""
    build = build_run_comparison_document if payload["kind"] == "runs" else build_run_document
    return build(payload)


Payload = Mapping[str, Any]

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


def build_run_document(payload: Payload) -> Document:
    """Return the document of a single run's report."""
    name = f"{shorten_model_name(payload['model']['name'])} on {payload['data']['name']}"
    audit = payload["audit"]
    sections = [
        Section(name, list(_build_run_overview(payload))),
        Section("Methods held against each other", list(_build_evaluation_section(payload))),
        Section("Drawings", [Plot(plot) for plot in payload["plots"]]),
        Section(_choose_examples_heading(payload), list(_build_extreme_examples(payload))),
        *(build_sections(audit) if audit else ()),
        Section("What is left out", list(_build_omissions(payload))),
        Section("Where this comes from", list(_build_provenance(payload))),
        Section("How to reproduce it", list(_build_reproduction(payload))),
    ]
    known = [one for one in sections if one.blocks]
    return Document("whence: a run", known, TEXT_SCALE_NOTE, contents=True)


def _fold_table(name: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Details:
    """Return a table folded away on a page; elsewhere a line says where it is."""
    where = f"{name}: {len(rows):,}, on the page (--html) and in the JSON object (--json)."
    return Details(f"{name} ({len(rows):,})", [Table(heads, rows)], [Paragraph(where, "dim")])


def _build_run_overview(payload: Payload) -> Iterator[Block]:
    if payload["advice"]:
        yield Paragraph(str(payload["advice"]), "strong")
    yield Paragraph(describe_progress(payload), "" if payload["state"] == "complete" else "warning")
    yield from (Paragraph(str(line), "warning") for line in payload["damage"])
    if payload["data"].get("warning"):
        yield Paragraph(str(payload["data"]["warning"]), "warning")
    yield FactList([(name, text) for name, text in _list_run_facts(payload) if text])


def _list_run_facts(payload: Payload) -> Iterator[tuple[str, str]]:
    data, setting = payload["data"], payload["setting"]
    yield "model", describe_model(payload["model"])
    yield "data", _format_run_data(payload)
    yield "methods", format_list(payload["methods"], 40)
    yield "metrics", format_list(payload["metrics"], 40)
    if payload["metrics"]:
        how = f"removed by {setting['remove']}, " if setting.get("remove") else ""
        unit = str(setting["unit"])
        rankings = format_count(setting["rankings"], "random explanation")
        yield "tested", f"{how}{unit} by {unit}, {rankings} of each example"
    yield "seed", str(setting["seed"])
    predictions = payload["predictions"]
    yield "predicted", format_classes(predictions["classes"])
    yield "labels of the data", describe_labels(predictions.get("labels"))
    if predictions["accuracy"]:
        share = f"; always the most frequent label: {predictions['majority']:.1%}"
        yield "accuracy", format_percent(predictions["accuracy"]) + share
    yield "bad rows", f"{data['bad']['count']:,}" if data["bad"]["count"] else ""
    failed = sum(row["count"] for row in payload["failures"])
    yield "failures", format_count(failed, "explanation") if failed else ""
    if payload["audit"]:
        yield "attention is an explanation here", format_answer(payload["audit"])


def _format_run_data(payload: Payload) -> str:
    data = payload["data"]
    columns = ", ".join(f"{role} from {name!r}" for role, name in data.get("columns", {}).items())
    guessed = f" ({format_list(data['guessed'])} guessed)" if data.get("guessed") else ""
    text = f"{data['name']}, {format_count(payload['examples'], 'example')}"
    sample = (payload["evaluation"] or {}).get("data")
    if sample and sample["drawn"] is not None:
        text += f", {format_row_sample(sample)}"
    return text + (f"; {columns}{guessed}" if columns else "")


def _build_evaluation_section(payload: Payload) -> Iterator[Block]:
    table = payload["evaluation"]
    if table is None:
        return
    if table["metrics"] and table["examples"]["explained"]:
        yield from build_blocks(table)
        yield from _build_agreement_table(table)
        return
    if not table["examples"]["explained"]:
        yield Paragraph("No example is explained, so there is nothing to hold against each other.")
        return
    yield Paragraph("Explanations were made and not tested: the plan has no metrics.")
    yield Table(COST_HEADS, build_cost_rows(table))
    yield Paragraph(COST_LEGEND, "dim")


def _build_agreement_table(table: Payload) -> Iterator[Block]:
    """Yield the table of pairwise agreement with intervals, which the chart does not show."""
    rows = [
        (
            str(pair["a"]),
            str(pair["b"]),
            str(pair["measure"]).replace("_", " "),
            format_mean(pair),
            format_mean(pair["null"]),
        )
        for pair in table["agreement"]
        if pair["n"]
    ]
    if len(rows) > 1:
        heads = ("method", "and method", "measure", "agreement", "chance")
        yield _fold_table("Agreement of each two methods", heads, rows)


def _choose_examples_heading(payload: Payload) -> str:
    tested = any(example["which"] in ("best", "worst") for example in payload["extremes"])
    return "Best and worst explanations" if tested else "Explanations"


def _build_extreme_examples(payload: Payload) -> Iterator[Block]:
    if any(example["which"] in ("best", "worst") for example in payload["extremes"]):
        yield Paragraph(_EXTREMES_NOTE, "dim")
    elif payload["extremes"]:
        yield Paragraph(_UNTESTED_NOTE, "dim")
    for example in payload["extremes"]:
        yield from _build_explanation(example, _EXAMPLE_TITLES[example["which"]])


def _build_omissions(payload: Payload) -> Iterator[Block]:
    if payload["not_audited"]:
        yield Paragraph("Experiments on attention that were asked for and found nothing:")
        rows = [(str(one["name"]), str(one["why"])) for one in payload["not_audited"]]
        yield Table(("experiment", "why"), rows)
    bad = payload["data"]["bad"]
    if bad["count"]:
        n_shown = len(bad["first"])
        first = "" if n_shown == bad["count"] else f" The first {n_shown}:"
        yield Paragraph(
            f"{format_count(bad['count'], 'row')} could not be read and had to be skipped.{first}"
        )
        rows = [(str(row["where"]), str(row["why"])) for row in bad["first"]]
        yield Table(("where", "why"), rows)
    if payload["failures"]:
        yield Paragraph("What could not be explained; --retry-failed tries again.")
        yield Table(FAILURE_HEADS, build_failure_rows(payload["failures"]))


def _build_provenance(payload: Payload) -> Iterator[Block]:
    facts = {**payload["model"], **payload["provenance"]}
    yield FactList([(str(name), _format_value(value)) for name, value in facts.items() if value])
    yield from _build_setting_tables(payload["settings"])
    if payload["sessions"]:
        heads = ("began", "took", "workers", "tasks", "with")
        rows = [_format_session_row(session) for session in payload["sessions"]]
        yield _fold_table("Sessions", heads, rows)
        yield Paragraph(
            "Times are of the machine that did the work; no result depends on them.", "dim"
        )


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return format_list((f"{name} = {own}" for name, own in value.items()), 40) or "none"
    if value is None:
        return "none"
    return format_list(value) if isinstance(value, list | tuple) else str(value)


def _build_setting_tables(settings: Mapping[str, Mapping[str, Any]]) -> Iterator[Block]:
    """Yield the settings of results: those common to all, and a table of digests."""
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
        shared = "; ".join(f"{key} {_format_value(first[key])}" for key in sorted(common))
        rows = [
            (digest, str(facts.get(name)), _format_other_settings(facts, {*common, name}))
            for digest, facts in own.items()
        ]
        yield Paragraph(f"Every {kind} here: {shared}.", "dim")
        yield _fold_table(f"Digests of {kind}s", (kind, name, "what else determines it"), rows)


def _format_other_settings(facts: Mapping[str, Any], known: Collection[str]) -> str:
    rest = {name: value for name, value in facts.items() if name not in known and value is not None}
    return "; ".join(f"{name} {_format_value(value)}" for name, value in rest.items()) or "-"


def _format_utc_time(at: Any) -> str:
    """Return a time of the journal, which is in UTC, to the second."""
    return f"{str(at)[:19].replace('T', ' ')} UTC" if at else "-"


def _format_session_row(session: Mapping[str, Any]) -> tuple[str, ...]:
    took = "-" if session["seconds"] is None else f"{session['seconds']:,.1f} s"
    known = {**session["with"]}
    return (
        _format_utc_time(session["began"]),
        took,
        str(session["workers"] or "-"),
        f"{session['tasks']:,}",
        "; ".join(f"{name} {value}" for name, value in known.items()),
    )


def _build_reproduction(payload: Payload) -> Iterator[Block]:
    reproduction = payload["reproduce"]
    yield Paragraph("The plan:")
    yield Code(reproduction["plan"], "toml")
    yield Paragraph("The same from the command line:")
    yield Code(reproduction["command"], "sh")


_SIDES = (("a", "first"), ("b", "second"))
_GAIN_HEADS = ("method", "metric", "n", "gain of the second", "p", "verdict")
_GAIN_LEGEND = (
    "By how much the second run is better than the first, example by example, over the examples that both tested "
    "[95% bootstrap interval]; what differs by rounding alone does not differ. Paired "
    "sign-flip tests, corrected by Holm's procedure for all rows of this table, at 5%."
)
_MEAN_HEADS = ("method", "metric", "n", "first run", "its chance", "second run", "its chance")
_MEAN_LEGEND = (
    "Means over the same examples. ↑ more is better, ↓ less is better. Chance: what random explanations of these "
    "examples get."
)
_AGREEMENT_HEADS = ("method", "agreement of the ranks", "chance")
_AGREEMENT_LEGEND = (
    "Kendall's τ-b between the scores of the first run and the second, over the examples that both cut into the same "
    "tokens and explained for the same target; 1 is the same order. Chance: the second run's scores dealt out at "
    "random."
)


def build_run_comparison_document(payload: Payload) -> Document:
    """Return the document of a comparison of two runs."""
    names = " and ".join(str(payload[side]["name"]) for side, _ in _SIDES)
    sections = [
        Section(names, list(_build_comparison_overview(payload))),
        Section("What differs between the settings", list(_build_setting_differences(payload))),
        Section("Are the explanations better?", list(_build_gain_tables(payload))),
        Section("Are they the same?", list(_build_rank_agreement(payload))),
        Section("Predictions", list(_build_prediction_changes(payload))),
        Section("Where they differ most", list(_build_divergent_examples(payload))),
    ]
    return Document("whence: two runs compared", [one for one in sections if one.blocks])


def _build_comparison_overview(payload: Payload) -> Iterator[Block]:
    yield Paragraph(str(payload["sentence"]), "strong")
    for side, which in _SIDES:
        if payload[side]["state"] != "complete":
            yield Paragraph(f"The {which} run: {describe_progress(payload[side])}", "warning")
        for line in payload[side]["damage"]:
            yield Paragraph(f"The {which} run: {line}", "warning")
    facts = []
    for side, which in _SIDES:
        run = payload[side]
        facts.append((f"{which} run", str(run["name"])))
        facts.append(("model", describe_model(run["model"])))
        sample = run.get("taken") or {"drawn": None}
        rows = "" if sample["drawn"] is None else f", {format_row_sample(sample)}"
        facts.append(
            (
                "data",
                f"{run['data']}, {format_count(run['examples'], 'example')}{rows}",
            )
        )
    facts.append(("examples of both", _format_shared_examples(payload["data"])))
    yield FactList(facts)


def _format_shared_examples(data: Mapping[str, Any]) -> str:
    alone = [
        f"{data[f'only_{side}']:,} only in the {which}"
        for side, which in _SIDES
        if data[f"only_{side}"]
    ]
    return f"{data['shared']:,}" + (f"; {', '.join(alone)}" if alone else "")


def _build_setting_differences(payload: Payload) -> Iterator[Block]:
    for side, which in _SIDES:
        if payload["only"][side]:
            yield Paragraph(f"Only in the {which} run: {format_list(payload['only'][side], 40)}.")
    if not payload["differences"]:
        yield Paragraph("Nothing that determines a result differs.")
        return
    rows = [(str(row["what"]), str(row["a"]), str(row["b"])) for row in payload["differences"]]
    yield Table(("setting", "first run", "second run"), rows)


def _build_gain_tables(payload: Payload) -> Iterator[Block]:
    rows = payload["gains"]
    if not rows:
        yield Paragraph("No metric was tested in both runs by the same method.")
        return
    yield Table(_GAIN_HEADS, [_format_gain_row(row) for row in rows])
    yield Paragraph(_GAIN_LEGEND, "dim")
    if not any(row["enough"] for row in rows):
        yield Paragraph(
            f"The examples are too few: with {format_count(payload['comparisons'], 'comparison')}, differences can only "
            f"show from n={payload['needed']} on.",
            "warning",
        )
    yield Table(_MEAN_HEADS, [_format_mean_row(row) for row in rows if row["gain"]])
    yield Paragraph(_MEAN_LEGEND, "dim")


def _format_gain_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    gain, name = row["gain"], (str(row["method"]), str(row["metric"]))
    if not gain:
        return (*name, "0", "-", "-", str(row["verdict"]))
    text = format_interval(gain, choose_decimals([gain]), gain["n"])
    return (*name, f"{gain['n']:,}", text, format_p_value(row["p"]), str(row["verdict"]))


def _format_mean_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    n, four = row["gain"]["n"], [row[name] for name in ("a", "null_a", "b", "null_b")]
    digits = choose_decimals([figure for figure in four if figure])
    cells = [format_interval(figure, digits, n) if figure else "-" for figure in four]
    return (
        str(row["method"]),
        f"{row['metric']} {ARROWS[row['direction']]}",
        f"{n:,}",
        *cells,
    )


def _build_rank_agreement(payload: Payload) -> Iterator[Block]:
    rows = [
        (str(row["method"]), format_mean(row["tau"]), format_mean(row["null"]))
        for row in payload["agreement"]
        if row["tau"]
    ]
    if rows:
        yield Table(_AGREEMENT_HEADS, rows)
        yield Paragraph(_AGREEMENT_LEGEND, "dim")
    for row in payload["agreement"]:
        if not row["tau"]:
            yield Paragraph(f"{row['method']}: {row['why']}")
    equal = [row for row in payload["agreement"] if row["equal"]]
    if equal:
        counts = [f"{row['method']} {row['equal']:,} of {row['tau']['n']:,}" for row in equal]
        yield Paragraph(f"Equal to the last bit: {format_list(counts, 40)}.")


def _build_prediction_changes(payload: Payload) -> Iterator[Block]:
    facts = payload["predictions"]
    if not facts["same"]:
        return
    yield Paragraph(f"Both runs predict the same: {format_percent(facts['same'])}.")
    for side, which in _SIDES:
        if facts[f"accuracy_{side}"]:
            yield Paragraph(
                f"Accuracy of the {which}: {format_percent(facts[f'accuracy_{side}'])}."
            )
    if facts["changed"]:
        note = (
            f" The first {len(facts['first'])}:" if facts["changed"] > len(facts["first"]) else ""
        )
        yield Paragraph(f"{format_count(facts['changed'], 'prediction')} changed.{note}")
        rows = [
            tuple(
                str(part or "-")
                for part in (
                    *(change["id"], change["a"], change["b"]),
                    change.get("gold") or change["label"],
                    change["text"],
                )
            )
            for change in facts["first"]
        ]
        yield Table(("example", "first run", "second run", "label", "text"), rows)


def _build_divergent_examples(payload: Payload) -> Iterator[Block]:
    if payload["apart"]:
        yield Paragraph("Of each method, the example on which the two runs agree least.", "dim")
    for example in payload["apart"]:
        yield from _build_explanation(example["a"], "First run")
        yield from _build_explanation(example["b"], "Second run")


_MAX_LISTED = 8  # names shown of a long list
_TOP_WORDS = 6  # words listed per example

JsonObject = Mapping[str, Any]


def format_count(count: int, what: str) -> str:
    """Return a number with its noun, in the plural if needed."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def format_list(names: Iterable[Any], most: int = _MAX_LISTED) -> str:
    """Return names joined by commas, the first `most` and a count of the rest."""
    texts = [str(name) for name in names]
    more = [f"{len(texts) - most:,} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def format_mean(interval: JsonObject | None, digits: int | None = None) -> str:
    """Return a mean with its interval and n, as text."""
    if interval is None or not interval["n"]:
        return "not known"
    return format_interval(interval, choose_decimals([interval]) if digits is None else digits)


def format_percent(share: JsonObject | None) -> str:
    """Return a share in percent with its interval and n, as text."""
    if share is None or not share["n"]:
        return "not known"
    return format_interval(share, 3) if share["low"] is None else _format_percent_interval(share)


def _format_percent_interval(share: JsonObject) -> str:
    ends = "" if share["low"] == share["high"] else f" [{share['low']:.1%}, {share['high']:.1%}]"
    return f"{share['mean']:.1%}{ends} n={share['n']}"


def format_p_value(p: float | None) -> str:
    """Return a p-value as text: three decimals, or one significant digit below 0.001."""
    if p is None:
        return "-"
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def shorten_model_name(name: Any) -> str:
    """Return a model's name; for a folder, the last part of its path."""
    text = str(name)
    looks_like_path = text.startswith(("/", "./", "../", "~")) or text[1:3] == ":\\"
    return re.split(r"[/\\]", text.rstrip("/\\"))[-1] if looks_like_path else text


def describe_model(facts: JsonObject) -> str:
    """Return a model's name with class, revision and dtype."""
    details = [str(facts[name]) for name in ("class", "revision", "dtype") if facts.get(name)]
    return str(facts["name"]) + (f" ({', '.join(details)!s})" if details else "")


def describe_progress(facts: JsonObject) -> str:
    """Return a sentence on the progress of a run."""
    examples, total = facts["examples"], facts.get("total")
    if facts["state"] == "complete" and facts.get("parts"):
        parts = format_list(f"{part} of {of}" for part, of in facts["parts"])
        extent = f"{format_count(examples, 'example')} of part {parts} of the run"
        return f"All there is to do here is done: {extent}. `whence store merge` brings the parts together."
    if facts["state"] == "complete":
        return f"The run is complete: {format_count(examples, 'example')}."
    of = "" if total is None else f" of {total:,}"
    return f"The run is not finished: {examples:,}{of} examples are there. The same command goes on with it."


def format_classes(counts: Mapping[str, int]) -> str:
    """Return the counts of predicted classes as text, most frequent first."""
    most = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    return format_list(f"{name} {count:,}" for name, count in most)


_LABEL_READINGS = {
    "number": "numbers, taken for the model's labels counted from 0",
    "own number": "numbers, taken for those in the names of the model's labels",
    "truth": "false and true, taken for the first and the second of the model's labels",
}


def describe_labels(match: JsonObject | None) -> str:
    """Return how the data's labels were matched to the model's; empty if the names are equal."""
    if not match or match["by"] not in _LABEL_READINGS:
        return ""
    return f"{_LABEL_READINGS[match['by']]}: {format_list(f'{label} {name}' for label, name in match['names'].items())}"


def _build_explanation(example: JsonObject, title: str) -> Iterator[Block]:
    """Yield one explanation, with its metric value and that of random ones."""
    payload = example["explained"]
    (explanation,) = payload["explanations"]
    prediction = payload["prediction"]
    predicted = prediction["label"] or "nothing"
    if prediction["probability"] is not None:
        predicted += f" ({format_probability(prediction['probability'])})"
    true = example.get("gold") or example.get("label")  # in the model's words, if matched
    label = "" if true is None else f", labelled {true}"
    says = [f"{example['id']}: predicted {predicted}{label}."]
    if example.get("value") is not None:
        value, null = example["value"], example["null"]
        digits = 3 if all(abs(one) < 1000 for one in (value, null or 0.0)) else None
        random = "" if null is None else f", random explanations {format_number(null, digits)}"
        says.append(
            f"{example['metric']} {format_number(value, digits)}{random} (this example alone)."
        )
    yield Heading(f"{title}: {explanation['method']}")
    yield Bullets([*says, *(example.get("says") or ())], "dim")
    if payload.get("picture"):
        yield Paragraph(f"the picture {payload['picture']['name']}")
        yield from build_pictures([payload])
    text = " | ".join(one for one in (payload["input"]["text"], payload["input"]["pair"]) if one)
    yield from build_tinted_input(payload, explanation, text)
    top = select_top_features(payload, explanation, _TOP_WORDS)
    yield Paragraph(", ".join(f"{word} {score:+.3g}" for word, score in top))
    yield build_score_details(payload, explanation)


def build_failure_rows(rows: Sequence[JsonObject]) -> list[tuple[str, ...]]:
    """Return the table rows of failures, with the columns of `FAILURE_HEADS`."""
    return [
        (
            str(row["method"] or "any method"),
            str(row["error"]),
            f"{row['count']:,}",
            format_list(row["first"], 3),
            str(row["why"]),
        )
        for row in rows
    ]


FAILURE_HEADS = ("method", "error", "examples", "such as", "why")
