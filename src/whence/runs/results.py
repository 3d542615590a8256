"""`Run`, the reader of a run's folder: failures, evaluation, report data, examples, charts.

The evaluation is built by the code of `whence.evaluate`, so that both agree. Records are read one window at a time, in
bounded memory.
"""

import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whence.core.errors import BadStore, UnknownMethod, UnknownMetric, WhenceError, suggest_name
from whence.core.files import quote_path
from whence.core.result import RESULT_VERSION, Result
from whence.core.types import InputText, PassCount, Prediction, Target, Token, Word
from whence.explain.explanation import ExplainedImage, Explanation
from whence.explain.request import resolve_methods
from whence.explain.word_scores import NOT_CONSERVED_CODE, describe_conservation_failure
from whence.methods import method as method_registry
from whence.metrics import metric as metric_registry
from whence.runs.plan import PLAN_FIELDS, Plan, to_plain_fields
from whence.runs.records import TABLES, Record
from whence.runs.store import StoreReader, find_setting, is_store, read_row
from whence.stats.intervals import Array, clopper_pearson_interval, mean_of_known
from whence.studies.evaluation.evaluation import Evaluation, build_evaluation_data
from whence.studies.evaluation.measure import MetricRequest, resolve_metrics
from whence.studies.evaluation.recommend import DECIDING_METRICS, apply_rule
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import (
    AgreementScores,
    bootstrap_seconds_per_example,
    interval_to_dict,
)
from whence.studies.evaluation.stored_rows import StoredSetting, record_stored_rows

if TYPE_CHECKING:
    from whence.render.document import Document
    from whence.studies.audit.audit import Audit


@dataclass(frozen=True)
class FailureGroup:
    """Results that failed for the same reason, and the first of them."""

    count: int
    row: int
    method: str
    why: str


@dataclass(frozen=True)
class RunFailures:
    """The failures of a run by error code, most frequent first, and its unreadable rows."""

    failures: Mapping[str, FailureGroup]  # explanations
    tests: Mapping[str, FailureGroup]  # metrics of explanations that succeeded
    bad: list[dict[str, Any]]  # rows of the data that could not be read: row, where, why


def find_failures(folder: str | Path) -> RunFailures:
    """Return the failed explanations, failed metrics and unreadable rows of a run."""
    store, columns = StoreReader.open_existing(folder), ["error", "row", "method", "why"]
    tables = (store.read(name, columns, damage={}) for name in TABLES)
    explanations, tests = (t.filter(t["error"].is_valid()).to_pylist() for t in tables)
    without = {(row["row"], row["method"]) for row in explanations}
    tests = [row for row in tests if (row["row"], row["method"]) not in without]
    return RunFailures(_group_by_error(explanations), _group_by_error(tests), store.list_bad_rows())


def _group_by_error(failed: list[Record]) -> dict[str, FailureGroup]:
    groups: dict[str, list[tuple[int, str, str]]] = {}
    for row in failed:
        groups.setdefault(row["error"], []).append((row["row"], row["method"], row["why"]))
    counted = [(error, FailureGroup(len(own), *min(own))) for error, own in groups.items()]
    return dict(sorted(counted, key=lambda named: (-named[1].count, named[0])))


# Examples on which methods are compared: their scores must be read, and more change little.
MAX_COMPARED_EXAMPLES = 2000

_EXAMPLE_COLUMNS = (
    *("row", "example", "id", "label", "gold", "right", "method", "target", "predicted"),
    *("forward", "backward", "dropped", "refused", "error", "why"),
)
_SCORED_COLUMNS = ("ids", "words", "scores", "axioms")
_METRIC_COLUMNS = (
    *("row", "method", "metric", "value", "null"),
    *("part_names", "parts", "null_parts", "error", "why"),
)
_MAX_NAMED_EXAMPLES = 5


@dataclass
class StoredExample:
    """An example of a run, beside its scores."""

    row: int
    digest: str
    id: str = ""
    label: str | None = None
    gold: str | None = None  # its label as the model calls it
    predicted: str | None = None
    right: bool | None = None  # whether that is predicted
    n_features: int = 0  # where the agreement of methods is known


@dataclass
class CollectedResults:
    """The results of a run in memory; tables are indexed by the number of the example."""

    notes: ScoreTables
    alike: AgreementScores
    examples: list[StoredExample]
    groups: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)  # of failures
    damage: dict[str, str] = field(default_factory=dict)  # file -> reason it is left out

    @cached_property
    def measure(self) -> MetricRequest | None:
        """The metric that selects examples: a deciding one, or the first that should beat random."""
        known = {measure.name: measure for measure in self.notes.measures if measure.aim == "beat"}
        return next((known[name] for name in (*DECIDING_METRICS, *known) if name in known), None)

    @cached_property
    def gains(self) -> Array | None:
        """Each explanation's gain over random ones by that metric, (examples, methods)."""
        if self.measure is None:
            return None
        values, nulls = (
            table[self.measure.name] for table in (self.notes.values, self.notes.nulls)
        )
        return np.asarray(self.measure.sign * (values - nulls))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Failures by method and error code, most frequent first, with the first few examples."""
        return sorted(
            self.groups.values(), key=lambda one: (-one["count"], one["method"], one["error"])
        )

    def add_example(self, number: int, records: Sequence[Record]) -> None:
        """Add the explanations of an example."""
        example, first = self.examples[number], records[0]
        example.id, example.label, example.gold = first["id"], first["label"], first["gold"]
        words = next((record["words"] for record in records if record.get("words")), ())
        example.n_features = sum(word is not None for word in words)
        for record in records:
            if record["error"] is None:
                example.predicted, example.right = record["predicted"], record["right"]
                continue
            facts = {name: record[name] for name in ("method", "error", "why")}
            group = self.groups.setdefault(
                (record["method"], record["error"]), {**facts, "count": 0, "first": []}
            )
            group["count"] += 1
            if len(group["first"]) < _MAX_NAMED_EXAMPLES:
                group["first"].append(record["id"])


def collect_results(run: "Run", agreement: Sequence[str] = ()) -> CollectedResults:
    """Return the results of a run in memory; `agreement` names the metrics between methods."""
    manifest, store, damage = run.manifest, run.store, dict[str, str]()
    found = store.read_current("explanations", ("row", "example"), damage)
    ids = dict(zip(found["row"].to_pylist(), found["example"].to_pylist(), strict=True))
    examples = [StoredExample(row, ids[row]) for row in sorted(ids)]
    plan, methods = manifest["plan"], run.methods
    compared = resolve_metrics(list(agreement)) if agreement and len(methods) > 1 else []
    if strange := [metric.name for metric in compared if metric.kind != "agreement"]:
        raise UnknownMetric(f"{', '.join(strange)} measures no agreement between methods.")
    # The metrics that are installed here, with their parameters.
    digests = {m: digest for own in manifest["tested"].values() for m, digest in own.items()}
    names = [
        name for name in plan["metrics"] if name in digests and name in metric_registry.names()
    ]
    params = {name: manifest["settings"][digests[name]].get("params", {}) for name in names}
    measures = resolve_metrics(names, params) if names else []
    results = CollectedResults(
        ScoreTables(methods, measures, len(examples), plan["rankings"]),
        AgreementScores(compared, methods, len(examples), plan["rankings"]),
        examples,
        damage=damage,
    )
    numbers = {example.row: number for number, example in enumerate(examples)}
    task = manifest["model"].get("task", "single_label")
    setting = StoredSetting(find_method_params(manifest), plan["unit"], plan["seed"], task)
    left = MAX_COMPARED_EXAMPLES if compared else 0
    for window in store.windows():
        columns = (*_EXAMPLE_COLUMNS, *_SCORED_COLUMNS) if left else _EXAMPLE_COLUMNS
        explanations, metrics = (
            store.read_current(name, own, damage, window=window).to_pylist()
            for name, own in (("explanations", columns), ("metrics", _METRIC_COLUMNS))
        )
        tests = {row: list(own) for row, own in groupby(metrics, key=itemgetter("row"))}
        for row, group in groupby(explanations, key=itemgetter("row")):
            if (number := numbers.get(row)) is None:
                continue  # written while this was read
            own = list(group)
            results.add_example(number, own)
            alike = results.alike if left else None
            record_stored_rows(results.notes, alike, number, own, tests.get(row, []), setting)
            left = max(0, left - 1)
    return results


def find_method_params(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the methods of a run with their parameters."""
    settings, digests = manifest["settings"], manifest["explained"]
    return {
        name: dict(settings[digests[name]].get("params", {}))
        for name in manifest["plan"]["methods"]
    }


_MAX_BAD_ROWS = 5  # unreadable rows that are listed
_AGREEMENT = "tau_b"


class RunReport(Result):
    """The report of a run: tables, charts, examples, failures, provenance, how to reproduce it."""

    kind: ClassVar[str] = "run"

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        from whence.runs.report import build_document

        return build_document(self.data)

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation of the run's methods by its metrics."""
        return Evaluation(self.data["evaluation"])

    def __repr__(self) -> str:
        facts = self.data
        return f"<RunReport of {facts['name']}: {facts['state']}, {facts['examples']} examples>"


def build_report(run: "Run") -> RunReport:
    """Return the report of a run, finished or not, from the results in its folder."""
    manifest, results = run.manifest, collect_results(run, (_AGREEMENT,))
    table = build_evaluation(run, (_AGREEMENT,), results)
    facts, bad, audit, stored = (
        run.facts(),
        run.store.list_bad_rows(),
        run.audits,
        run.store.audits(),
    )
    can_advise = (
        set(DECIDING_METRICS) <= set(table.metrics) and table.payload["examples"]["explained"]
    )
    return RunReport(
        {
            "version": RESULT_VERSION,
            "kind": "run",
            "name": run.name,
            "state": facts["state"],
            "examples": len(results.examples),
            "total": facts["total"],
            "parts": manifest["parts"],
            "damage": [
                f"{file} is damaged and left out: {why}. The same command, run again, computes it anew."
                for file, why in results.damage.items()
            ],
            "model": dict(manifest["model"]),
            "data": {**manifest["data"], "bad": {"count": len(bad), "first": bad[:_MAX_BAD_ROWS]}},
            "setting": {**describe_run_setting(manifest), "seed": manifest["plan"]["seed"]},
            "methods": run.methods,
            "metrics": run.metrics,
            "predictions": {
                **summarise_predictions(results),
                "labels": manifest["data"].get("labels"),
            },
            "advice": str(apply_rule(table)["sentence"]) if can_advise else None,
            "evaluation": table.to_dict(),
            "plots": build_charts(results, table.payload),
            "extremes": select_examples(run, results),
            "failures": results.failures,
            "audit": None if audit is None else audit.to_dict(),
            "not_audited": [
                {
                    "name": name,
                    "why": str(stored[name]["why"]) if name in stored else "It was not made yet.",
                }
                for name in manifest["plan"]["audit"]
                if name not in stored or stored[name]["experiment"] is None
            ],
            "provenance": {
                **run.store.sum_up_log().get("software", {}),
                "code": manifest["code"],
                "format": manifest["version"],
            },
            "settings": manifest["settings"],
            "sessions": list_sessions(run),
            "reproduce": describe_reproduction(manifest, run.name),
        }
    )


def describe_reproduction(manifest: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the plan as TOML and as a command line."""
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) and key != "target" else value
        for key, value in manifest["plan"].items()
        if key in PLAN_FIELDS
    }
    plan, parts = Plan(**values), ["whence", "run"]
    for key, value in to_plain_fields(plan).items():
        option = f"--{key.replace('_', '-')}"
        if key in ("params", "metric_params", "audit_params"):
            for one, own in sorted(value.items()):
                parts += ["--param", f"{one}={own}"]
        elif isinstance(value, bool):
            parts.append(option if value else f"--no-{key.replace('_', '-')}")
        elif isinstance(value, list | tuple):
            parts += [option, (":" if key == "target" else ",").join(map(str, value))]
        else:
            parts += [option, str(value)]
    command = f"{shlex.join(parts)} --out {quote_path(name)}"
    return {"plan": plan.to_toml(), "command": command}


_EVALUATION_MODEL_FIELDS = ("name", "revision", "class", "fingerprint", "labels")


def build_evaluation(
    run: "Run", agreement: Sequence[str], results: CollectedResults | None = None
) -> Evaluation:
    """Return the evaluation of a run's methods; `results` are its results if already read."""
    results = collect_results(run, agreement) if results is None else results
    manifest, log = run.manifest, run.store.sum_up_log()
    plan, data, counted = manifest["plan"], manifest["data"], log.get("of")
    limits = (limit for limit in (plan["sample"], plan["limit"]) if limit is not None)
    drawn = min(limits, default=None)
    if counted is not None and drawn is not None and drawn >= counted:
        drawn = None
    columns = data.get("columns") or {}
    payload = build_evaluation_data(
        results.notes,
        results.alike,
        methods=find_method_params(manifest),
        origin={
            "model": {name: manifest["model"].get(name) for name in _EVALUATION_MODEL_FIELDS},
            "provenance": log.get("software", {}),
        },
        setting=describe_run_setting(manifest),
        digests=[example.digest for example in results.examples],
        data={
            "name": data["name"],
            "rows": counted,
            "drawn": drawn,
            "seed": None if plan["sample"] is None or drawn is None else plan["seed"],
            **{role: columns.get(role) for role in ("text", "pair", "label")},
            "guessed": list(data.get("guessed") or ()),
        },
        seed=plan["seed"],
        calls=None,  # a run stores the passes of explanations, not those of metrics
        seconds=None,
    )
    times = _estimate_method_times(run, plan["seed"])
    for entry in payload["methods"]:
        entry["seconds"] = times.get(entry["method"])
    return Evaluation(payload)


def describe_run_setting(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting of a run as an evaluation has it: removal, unit, target, rankings."""
    plan, test = manifest["plan"], find_setting(manifest, "test")
    return {
        "remove": test.get("remove", plan["remove"]),
        "unit": test.get("unit", plan["unit"]),
        "target": plan["target"],
        "truncate": plan["truncate"],
        "rankings": plan["rankings"],
    }


def _estimate_method_times(run: "Run", seed: int) -> dict[str, dict[str, Any] | None]:
    """Return each method's seconds per example with an interval; tasks of the log are the observations."""
    tasks: dict[str, list[tuple[float, int]]] = {}
    for event in run.store.events("task"):
        for name, cost in (event.get("costs") or {}).items():
            examples = cost.get("examples", event.get("examples"))
            if name and examples and cost.get("seconds") is not None:
                tasks.setdefault(name, []).append((float(cost["seconds"]), int(examples)))
    times: dict[str, dict[str, Any] | None] = {}
    for name, own in tasks.items():
        seconds, counts = np.array(own, dtype=np.float64).T
        key = ("evaluate", "cost", seed)
        interval = interval_to_dict(bootstrap_seconds_per_example(seconds, counts, key))
        ends = {"least": float((seconds / counts).min()), "most": float((seconds / counts).max())}
        times[name] = interval and {**interval, **ends}
    return times


EXPLANATION_COLUMNS = (
    *("row", "id", "label", "text", "pair", "method", "setting"),
    *("target", "predicted", "probability"),
    *("tokens", "special", "starts", "ends", "segments", "ids", "words", "scores", "axioms"),
    *("forward", "backward", "dropped", "error", "why"),
)
_PATCH_NAME = re.compile(r"row (\d+), column (\d+)")


def build_explanation_data(
    record: Record, model: Mapping[str, Any], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a successful row of the explanations table as a payload.

    Logits and the probabilities of other classes are not stored, so they are absent. A picture has its patches by
    name, without pixels.
    """
    columns = (record[n] for n in ("tokens", "starts", "ends", "segments", "special", "ids"))
    tokens = tuple(Token(*own) for own in zip(*columns, strict=True))
    name, params, probability = record["method"], setting.get("params", {}), record["probability"]
    # How a method's word scores are made; nothing is known of one whose package is not installed here.
    facts = method_registry.get(name).facts if name in method_registry.names() else {}
    try:
        (request,) = resolve_methods(name, dict(params), {"mask": 0, "pad": 0, "unk": 0})
        signed = request.is_signed
    except WhenceError:  # a method that is not installed here
        signed = any(score < 0 for score in record["scores"])
    # A regression value has no probability: methods of the probability explain the value.
    of = (facts.get("of") if probability is not None else None) or setting.get("of", "logit")
    axioms = {axiom["axiom"]: axiom["residual"] for axiom in record["axioms"] or ()}
    unkept = describe_conservation_failure(name, record["scores"], axioms, None, of)
    predicted, labels = record["predicted"], {n: i for i, n in enumerate(model.get("labels") or ())}
    # The last patch of a picture says how many there are.
    last = _PATCH_NAME.fullmatch(tokens[-1].text) if record["text"] is None and tokens else None
    grid = None if last is None else (int(last[1]), int(last[2]))
    payload = Explanation(
        scores=np.array(record["scores"], dtype=np.float64),
        tokens=tokens,
        spans=_group_words(record, tokens),
        source=InputText(record["text"], record["pair"], record["dropped"] or 0),
        prediction=Prediction(
            predicted,
            labels.get(predicted, 0),
            probability,
            {} if probability is None else {predicted: probability},
            (),
        ),
        target=Target(record["target"], labels.get(record["target"], 0), of=of),
        method=name,
        params=params,
        signed=signed,
        axioms=axioms,
        passes=PassCount(record["forward"], record["backward"]),
        seconds=0.0,
        model=model,
        provenance={},
        shown=None if grid is None else ExplainedImage(grid, np.zeros((*grid, 3), np.uint8), None),
        words_by=facts.get("words", "sum"),
        warnings=() if unkept is None else ((NOT_CONSERVED_CODE, unkept),),
    ).to_dict()
    payload["explanations"][0]["seconds"] = None
    return payload | ({"picture": {"name": record["id"], "grid": list(grid)}} if grid else {})


def _group_words(record: Record, tokens: Sequence[Token]) -> tuple[Word, ...]:
    """Return the words of an input; a non-special token outside any word is a word by itself."""
    members: dict[tuple[bool, int], list[int]] = {}
    for place, (token, number) in enumerate(zip(tokens, record["words"], strict=True)):
        if not token.special:
            alone = number is None or number < 0
            members.setdefault((alone, place if alone else number), []).append(place)
    words = []
    for places in members.values():
        own = [tokens[place] for place in places]
        start = min((token.start for token in own if token.start is not None), default=None)
        end = max((token.end for token in own if token.end is not None), default=None)
        source = record["pair" if own[0].segment else "text"]
        known = source is not None and start is not None
        text = source[start:end] if known else "".join(token.text for token in own)
        words.append(Word(text, start, end, own[0].segment, tuple(places)))
    return tuple(words)


MAX_METHODS = 6  # methods with examples in the report; more would not be read
# Methods, and examples of each, shown in a run without metrics.
_MAX_UNTESTED_METHODS, _MAX_UNTESTED_EXAMPLES = 2, 3
_MAX_DISAGREEMENT_EXAMPLES = 500  # examples searched for the largest disagreement
_MIN_FEATURES = 4  # fewer features agree or not by chance


def select_examples(run: "Run", results: CollectedResults) -> list[dict[str, Any]]:
    """Return the examples of the report with their explanations."""
    gains, chosen = results.gains, list[tuple[str, int, int]]()
    if gains is not None:
        # Methods measured on several examples, by mean gain, best first.
        tested = np.flatnonzero((~np.isnan(gains)).sum(0) > 1).tolist()
        for place in sorted(tested, key=lambda at: -float(np.nanmean(gains[:, at])))[:MAX_METHODS]:
            chosen.append(("best", int(np.nanargmax(gains[:, place])), place))
            chosen.append(("worst", int(np.nanargmin(gains[:, place])), place))
    else:
        for place in range(min(_MAX_UNTESTED_METHODS, len(results.notes.methods))):
            numbers = _select_untested_examples(results, place)
            chosen += [("example", number, place) for number in numbers]
    examples = [_build_example(run, results, *one) for one in chosen]
    if (lowest := _find_disagreement(results)) is not None:
        number, note = lowest
        explained = ~np.isnan(results.notes.forward[number, :MAX_METHODS])
        for place in np.flatnonzero(explained).tolist():
            example = _build_example(run, results, "disagreed", number, place)
            examples.append({**example, "says": [note]})
    return examples


def _select_untested_examples(results: CollectedResults, place: int) -> list[int]:
    """Return examples of a run without metrics: the first wrong prediction, the first of each class."""
    examples = results.examples
    explained = [
        number
        for number, example in enumerate(examples)
        if example.predicted is not None and not np.isnan(results.notes.forward[number, place])
    ]
    wrong = [number for number in explained if examples[number].right is False]
    firsts = {examples[number].predicted: number for number in reversed(explained)}
    chosen = dict.fromkeys([*wrong[:1], *sorted(firsts.values())])
    return sorted(list(chosen)[:_MAX_UNTESTED_EXAMPLES])


def _build_example(
    run: "Run", results: CollectedResults, which: str, number: int, place: int
) -> dict[str, Any]:
    notes, measure, example = results.notes, results.measure, results.examples[number]
    value = null = None
    if measure is not None:
        values = (table[measure.name][number, place] for table in (notes.values, notes.nulls))
        value, null = (None if np.isnan(one) else float(one) for one in values)
    return {
        "which": which,
        "method": notes.methods[place],
        "metric": None if measure is None else measure.name,
        "value": value,
        "null": null,
        "direction": None if measure is None else measure.entry.facts["direction"],
        "row": example.row,
        "id": example.id,
        "label": example.label,
        "gold": example.gold,
        "says": [],
        "explained": run.explanation(example.row, notes.methods[place]),
    }


def _find_disagreement(results: CollectedResults) -> tuple[int, str] | None:
    """Return the example whose methods agree least, and a sentence on it; None if nothing is known."""
    pairs = results.alike.pairs.get(_AGREEMENT)
    if pairs is None:
        return None
    short = np.array([example.n_features < _MIN_FEATURES for example in results.examples])
    means = np.where(short, np.nan, mean_of_known(pairs, 1))[:_MAX_DISAGREEMENT_EXAMPLES]
    if np.isnan(means).all():
        return None
    number = int(np.nanargmin(means))
    of = "" if len(means) == len(pairs) else f" of the first {len(means):,} examples"
    mean = f"{means[number]:.2f}, the lowest{of}"
    return number, f"Mean Kendall's τ-b of each two methods here: {mean}."


_HISTOGRAM_BINS = 24


def summarise_predictions(results: CollectedResults) -> dict[str, Any]:
    """Return counts of predicted classes; with true labels also accuracy and majority share."""
    known = [example for example in results.examples if example.predicted is not None]
    classes = dict(Counter(example.predicted for example in known))
    right = [example.right for example in known if example.right is not None]
    if not right:
        return {"classes": classes, "accuracy": None, "majority": None}
    low, high = clopper_pearson_interval(sum(right), len(right))
    accuracy = {"mean": sum(right) / len(right), "low": low, "high": high, "n": len(right)}
    truths = Counter(example.label for example in known if example.label is not None)
    majority = truths.most_common(1)[0][1] / truths.total()
    return {"classes": classes, "accuracy": accuracy, "majority": majority}


def build_charts(results: CollectedResults, evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return chart data: a histogram of gains over random, and a matrix of agreement."""
    charts: list[dict[str, Any]] = []
    methods, measure, gains = results.notes.methods, results.measure, results.gains
    if measure is not None and gains is not None:
        known = gains[~np.isnan(gains)]
        if len(known) and known.min() < known.max():
            edges = np.histogram_bin_edges(known, _HISTOGRAM_BINS)
            series = [
                {"name": name, "counts": np.histogram(own, edges)[0].tolist(), "n": len(own)}
                for place, name in enumerate(methods)
                if len(own := gains[~np.isnan(gains[:, place]), place])
            ]
            charts.append(
                {
                    "kind": "histogram",
                    "title": f"Gain over random explanations by {measure.name}, example by example",
                    "x": "gain",
                    "edges": edges.tolist(),
                    "threshold": 0.0,
                    "series": series,
                }
            )
    counts = sorted({row["n"] for row in evaluation["agreement"] if row["n"]})
    if counts and len(methods) > 2:
        means = {(row["a"], row["b"]): row["mean"] for row in evaluation["agreement"]}
        means |= {(b, a): mean for (a, b), mean in means.items()}
        n = f"n={counts[0]}" if len(counts) == 1 else f"n={counts[0]} to {counts[-1]}"
        charts.append(
            {
                "kind": "matrix",
                "title": f"Agreement of each two methods by {_AGREEMENT.replace('_', ' ')}, {n}",
                "rows": methods,
                "columns": methods,
                "values": [[1.0 if a == b else means[a, b] for b in methods] for a in methods],
                "range": [-1, 1],
            }
        )
    return charts


def list_sessions(run: "Run") -> list[dict[str, Any]]:
    """Return the sessions of a run from its log: begin, end, workers, tasks, software."""
    sessions: list[dict[str, Any]] = []
    for event in run.store.events("start", "task"):
        at = event.get("at")
        if event["kind"] == "start" or not sessions:
            facts = {name: event.get(name) for name in ("backend", "device", "batch_size")}
            known = {name: value for name, value in facts.items() if value is not None}
            session = {"began": at, "ended": at, "workers": event.get("workers"), "tasks": 0}
            sessions.append({**session, "with": {**event.get("software", {}), **known}})
        sessions[-1]["ended"] = at
        sessions[-1]["tasks"] += event["kind"] == "task"
    for session in sessions:
        session["seconds"] = None
        with suppress(TypeError, ValueError):  # the log is cut short, or not of whence
            began, ended = map(datetime.fromisoformat, (session["began"], session["ended"]))
            if ended >= began:  # else the clock was set back
                session["seconds"] = (ended - began).total_seconds()
    return sessions


class Run:
    """The folder of a run, finished or not. It is only read, also while a run is writing to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_store(self.folder):
            what = "is no folder" if not self.folder.is_dir() else "holds no run"
            raise BadStore(
                f"{str(folder)!r} {what}. Give the folder that `whence run --out` wrote to; `whence runs DIR` lists "
                "those in a folder."
            )

    @cached_property
    def store(self) -> StoreReader:
        """The store; BadStore where its manifest is lost or damaged."""
        return StoreReader.open_existing(self.folder)

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest: plan, data, model, settings by digest, and the state of the run."""
        return self.store.manifest

    @property
    def complete(self) -> bool:
        """Whether all results of the plan are stored."""
        return bool(self.manifest["state"] == "complete")

    @property
    def name(self) -> str:
        """The name of the folder."""
        return self.folder.resolve().name or str(self.folder)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the plan."""
        return list(self.manifest["plan"]["methods"])

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order of the plan."""
        return list(self.manifest["plan"]["metrics"])

    @property
    def last_write_time(self) -> str | None:
        """The time of the last write in the log, in ISO 8601; None if the log is lost."""
        times = [str(event["at"]) for event in self.store.events("start", "task") if "at" in event]
        return times[-1] if times else None

    def table(self, name: str) -> Any:
        """Return the table "explanations" or "metrics" as a lazy `pyarrow.dataset.Dataset`.

        `.to_table()` reads it, `.to_table().to_pandas()` makes a data frame. docs/reference/store.md describes the
        columns.
        """
        if name not in TABLES:
            raise BadStore(f"A run has the tables {' and '.join(TABLES)}. Got {name!r}.")
        return self.store.table(name)

    def facts(self) -> dict[str, Any]:
        """Return the summary for a list of runs, as plain data, without reading any results."""
        try:
            manifest = self.manifest
        except BadStore as error:
            return {
                **{"folder": str(self.folder), "name": self.name, "model": None, "data": None},
                **{"methods": [], "metrics": [], "audit": [], "state": "damaged"},
                **{"done": 0, "total": None, "failed": 0, "bad": 0, "why": str(error)},
            }
        plan, totals = manifest["plan"], self.store.totals()
        if manifest["state"] == "complete":
            done = total = totals["examples"]
        else:
            counts = self.store.count_results()
            done = min((counts.get(one, 0) for one in manifest["explained"].values()), default=0)
            total = min((n for n in (plan["limit"], plan["sample"]) if n is not None), default=None)
            total = self.store.sum_up_log().get("examples", total)  # as the last session counted
        return {
            "folder": str(self.folder),
            "name": self.name,
            "model": manifest["model"]["name"],
            "data": manifest["data"]["name"],
            "methods": self.methods,
            "metrics": self.metrics,
            "audit": list(plan["audit"]),
            "state": manifest["state"],
            "done": done,
            "total": total,
            "failed": totals["explanations"]["failed"],
            "bad": totals["bad"],
            "why": None,
        }

    def evaluation(self, agreement: str | Sequence[str] = "tau_b") -> "Evaluation":
        """Return the evaluation of methods by metrics, as `whence.evaluate` has it for the same model and examples.

        Agreement between methods is not stored in a run; it is computed here from the scores.
        """

        return build_evaluation(
            self, [agreement] if isinstance(agreement, str) else list(agreement)
        )

    @property
    def audits(self) -> "Audit | None":
        """The audit of attention by the finished experiments; None if the plan has none."""
        if not self.manifest["plan"]["audit"]:
            return None
        from whence.runs.run import load_audit

        return load_audit(self.store)

    def explanation(self, row: int, method: str) -> dict[str, Any]:
        """Return one explanation as a payload (docs/reference/json.md), as far as a run stores it.

        `row` is the example's place in the data, counted from 0.
        """

        if method not in self.methods:
            raise UnknownMethod(
                f"The run has no explanations by {method!r}.{suggest_name(method, self.methods)} There are "
                f"{', '.join(self.methods)}."
            )
        records, _ = read_row(self.store, row, EXPLANATION_COLUMNS)
        record = next((one for one in records if one["method"] == method), None)
        if record is None:
            raise BadStore(
                f"The run has no explanation of row {row} by {method!r}. Rows count from 0 in the data; those that "
                "could not be read have none."
            )
        if record["error"] is not None:
            raise BadStore(f"{method} failed for row {row}: {record['why']}")
        return build_explanation_data(
            record, self.manifest["model"], self.manifest["settings"][record["setting"]]
        )

    def report(self) -> "RunReport":
        """Return the report of this run."""
        return build_report(self)

    def __repr__(self) -> str:
        facts = self.facts()
        return f"<Run {facts['name']}: {facts['state']}, {facts['done']} examples>"
