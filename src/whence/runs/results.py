"""Two runs held against each other, example by example, over the examples that both have.

Runs over different data have no example in common, and a difference of their means would say as much about the data
as about the runs; so they are refused.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from whence.core.errors import BadExamples
from whence.evaluation.judge import LEVEL, corrected, plain
from whence.evaluation.measures import Measure
from whence.report.shown import VERSION
from whence.run.results.alike import agreements
from whence.run.results.differences import differences
from whence.run.results.evaluated import data_of
from whence.run.results.figures import correct, share_of
from whence.run.results.gathered import Reader
from whence.run.results.noted import Noted, noted
from whence.run.results.summary import Written, about
from whence.stats import Interval, least_p, needed
from whence.stats.interval import Array
from whence.stats.together import bootstraps, sign_flips

if TYPE_CHECKING:
    from whence.run.results import Run

_KEY = ("whence report", "two runs")
# Probabilities of a float32 model are good to about so much, and another batch or machine may round them otherwise.
_ROUNDING = 1e-6
_CHANGED = 10  # predictions that are listed
_LETTERS = 120  # of a text in a list


@dataclass(frozen=True, eq=False)
class RunComparison(Written):
    """What changed from one run to another."""

    _kind: ClassVar[str] = "runs"

    def __repr__(self) -> str:
        told = self.payload
        return f"<RunComparison of {told['a']['name']} and {told['b']['name']}: {told['sentence']}>"


@dataclass(frozen=True)
class Pairs:
    """Two runs, and the numbers of the examples that both have, in an order that no run decides."""

    runs: tuple["Run", "Run"]
    noted: tuple[Noted, Noted]
    numbers: tuple[list[int], list[int]]

    def __len__(self) -> int:
        return len(self.numbers[0])


def compare(a: "Run", b: "Run") -> RunComparison:
    """Compare two runs; `b` is the one that gains or loses."""
    found = noted(a), noted(b)
    pairs = Pairs((a, b), found, _shared(*found))
    if not len(pairs):
        names = " and ".join(repr(one.manifest["data"]["name"]) for one in (a, b))
        raise BadExamples(
            f"The runs {a.name!r} and {b.name!r} have no example in common (data: {names}), so nothing can be "
            "compared example by example. Give two runs over the same data; `whence report DIR` reports on each."
        )
    methods = [name for name in a.methods if name in b.methods]
    gains, tests = _gains(pairs, methods)
    alike, apart = agreements(pairs.runs, found, list(zip(*pairs.numbers, strict=True)), methods)
    said = _predictions(pairs)
    told = {
        "a": _side(a, found[0]),
        "b": _side(b, found[1]),
        "data": {
            "shared": len(pairs),
            "only_a": len(found[0].rows) - len(pairs),
            "only_b": len(found[1].rows) - len(pairs),
        },
        "only": {
            "a": [one for one in [*a.methods, *a.metrics] if one not in {*b.methods, *b.metrics}],
            "b": [one for one in [*b.methods, *b.metrics] if one not in {*a.methods, *a.metrics}],
        },
        "differences": differences(a, b, methods, [one for one in a.metrics if one in b.metrics]),
        "gains": gains,
        "comparisons": tests,
        "needed": needed(max(tests, 1), LEVEL),
        "agreement": alike,
        "predictions": said,
        "apart": apart,
    }
    return RunComparison({"version": VERSION, "kind": "runs", "sentence": _sentence(told), **told})


def _shared(a: Noted, b: Noted) -> tuple[list[int], list[int]]:
    """Return the numbers of the examples of both, by their digests; of copies the first goes with the first."""
    there: dict[str, list[int]] = defaultdict(list)
    for number in reversed(range(len(b.digests))):
        there[b.digests[number]].append(number)
    found = [
        (number, there[digest].pop())
        for digest, number in sorted(zip(a.digests, range(len(a.digests)), strict=True))
        if there[digest]
    ]
    return [one for one, _ in found], [other for _, other in found]


def _side(run: "Run", found: Noted) -> dict[str, Any]:
    return {
        **about(run, found),
        "model": dict(run.manifest["model"]),
        "data": run.manifest["data"]["name"],
        "taken": data_of(run),
    }


def _gains(pairs: Pairs, methods: Sequence[str]) -> tuple[list[dict[str, Any]], int]:
    """Return how much better the second run is by each method and metric, and how many tests that took."""
    a, b = (one.notes for one in pairs.noted)
    there = {one.name for one in b.measures}
    rows = [(name, one) for one in a.measures if one.name in there for name in methods]
    if not rows:
        return [], 0
    columns = [_columns(pairs, name, measure) for name, measure in rows]
    apart = np.column_stack(
        [
            measure.sign * _difference(own[0], own[1])
            for (_, measure), own in zip(rows, columns, strict=True)
        ]
    )
    p_values = corrected(sign_flips(apart, _KEY, max(10_000, 100 * len(rows))))
    counts = (~np.isnan(apart)).sum(0)
    least = corrected([least_p(int(n)) if n else None for n in counts])
    gains = bootstraps(apart, _KEY)
    found = []
    for place, ((name, measure), own) in enumerate(zip(rows, columns, strict=True)):
        enough = (one := least[place]) is not None and one < LEVEL
        values = [plain(one) for one in bootstraps(np.column_stack(own), _KEY)]
        found.append(
            {
                "method": name,
                "metric": measure.name,
                "direction": measure.entry.facts["direction"],
                **dict(zip(("a", "b", "null_a", "null_b"), values, strict=True)),
                "gain": plain(gains[place]),
                "p": p_values[place],
                "enough": enough,
                "verdict": _verdict(gains[place], p_values[place], enough),
            }
        )
    return found, sum(p is not None for p in p_values)


def _columns(pairs: Pairs, method: str, measure: Measure) -> list[Array]:
    """Return the values of both runs and of random explanations, over the examples that both tested."""
    values, nulls = [], []
    for found, numbers in zip(pairs.noted, pairs.numbers, strict=True):
        place = found.notes.methods.index(method)
        values.append(found.notes.values[measure.name][numbers, place])
        nulls.append(found.notes.nulls[measure.name][numbers, place])
    both = ~np.isnan(values[0]) & ~np.isnan(values[1])
    return [np.where(both, one, np.nan) for one in (*values, *nulls)]


def _difference(one: Array, other: Array) -> Array:
    """Return by how much values differ; rounding, which may lean to one side in every example, is no difference."""
    apart = other - one
    return np.where(np.abs(apart) <= _ROUNDING * np.maximum(1, np.abs(one)), 0 * apart, apart)


def _verdict(gain: Interval | None, p: float | None, enough: bool) -> str:
    if gain is None or p is None:
        return "not tested in both"
    if not enough:
        return "too few examples"
    if p >= LEVEL:
        return "no difference to be told"
    return "better" if gain.mean > 0 else "worse"


def _predictions(pairs: Pairs) -> dict[str, Any]:
    a, b = (
        [found.predicted[number] for number in numbers]
        for found, numbers in zip(pairs.noted, pairs.numbers, strict=True)
    )
    same = np.array(
        [np.nan if None in two else float(two[0] == two[1]) for two in zip(a, b, strict=True)]
    )
    changed = sorted(
        (pairs.noted[0].rows[number], place)
        for place, number in enumerate(pairs.numbers[0])
        if same[place] == 0
    )
    first = changed[:_CHANGED]
    texts = _texts(pairs.runs[0], [row for row, _ in first])
    names = pairs.noted[0]
    return {
        "same": share_of(same),
        "changed": len(changed),
        "accuracy_a": _accuracy(pairs, 0),
        "accuracy_b": _accuracy(pairs, 1),
        "first": [
            {
                "id": names.ids[pairs.numbers[0][place]],
                "a": a[place],
                "b": b[place],
                "label": names.labels[pairs.numbers[0][place]],
                "gold": names.gold_of(pairs.numbers[0][place]),
                "text": texts.get(row, ""),
            }
            for row, place in first
        ],
    }


def _accuracy(pairs: Pairs, side: int) -> dict[str, Any] | None:
    right = correct(pairs.noted[side])
    return None if right is None else share_of(right[pairs.numbers[side]])


def _texts(run: "Run", rows: Sequence[int]) -> dict[int, str]:
    """Return the texts of some rows, cut where they are long."""
    wanted, found = set(rows), dict[int, str]()
    if not wanted:
        return found
    for records in Reader(run.store).records("explanations", ("row", "text", "pair")):
        for one in records:
            if one["row"] in wanted:
                text = " | ".join(part for part in (one["text"], one["pair"]) if part)
                found[one["row"]] = text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"
    return found


def _sentence(told: Mapping[str, Any]) -> str:
    return " ".join(_sentences(told))


def _sentences(told: Mapping[str, Any]) -> Iterator[str]:
    shared, tests = told["data"]["shared"], told["comparisons"]
    examples = "1 example" if shared == 1 else f"{shared:,} examples"
    verdicts = Counter(one["verdict"] for one in told["gains"])
    if not tests:
        yield f"The runs have {examples} in common, and no test of them."
    elif not any(one["enough"] for one in told["gains"]):
        yield f"The runs have {examples} in common: too few for a difference to show."
    else:
        count = (
            "the only comparison" if tests == 1 else f"{verdicts['better']} of {tests} comparisons"
        )
        better = (
            ("better in" if verdicts["better"] else "not better in") if tests == 1 else "better in"
        )
        worse = f"worse in {verdicts['worse']}" if verdicts["worse"] else "worse in none"
        yield f"On {examples} of both, the second run is {better} {count} and {worse}."
    if (same := told["predictions"]["same"]) and same["n"]:
        yield f"It predicts the same in {same['mean']:.1%} of them (n={same['n']:,})."
    known = [one for one in told["agreement"] if one["tau"]]
    if known:
        least = min(known, key=lambda one: float(one["tau"]["mean"]))
        whose = f"of {least['method']}" if len(known) == 1 else f"change most by {least['method']}"
        if least["tau"]["mean"] == 1:
            yield "The explanations rank the tokens alike."
        else:
            tau = f"τ-b {least['tau']['mean']:.2f} between the runs (n={least['tau']['n']:,})"
            yield f"The explanations {whose}: {tau}."


"""What came of a run: what failed and why, and which rows of the data could not be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.run.store import Store


@dataclass(frozen=True)
class Failure:
    """Results that failed for the same reason, and the first of them."""

    count: int
    row: int
    method: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """What did not work out; failures by the error's code, the most frequent first."""

    failures: Mapping[str, Failure]  # explanations
    tests: Mapping[str, Failure]  # tests of explanations that did not fail
    bad: list[dict[str, Any]]  # rows of the data that could not be read: row, where, why


def outcome(folder: str | Path) -> Outcome:
    """Look through a run's results for what did not work out."""
    store = Store.read(folder)
    explanations = list(_failed(store, "explanations"))
    without = {(one["row"], one["method"]) for one in explanations}
    tests = [one for one in _failed(store, "metrics") if (one["row"], one["method"]) not in without]
    return Outcome(_by_reason(explanations), _by_reason(tests), list(store.bad()))


def _failed(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Go through the rows with an error; where there is none, nothing is read."""
    if any(index["tables"].get(table, {}).get("failed") for index in store.indices()):
        columns = ["error", "row", "method", "why"]
        for batch in store.table(table).to_batches(columns=columns):
            yield from batch.filter(batch.column("error").is_valid()).to_pylist()


def _by_reason(failed: list[dict[str, Any]]) -> dict[str, Failure]:
    found: dict[str, Failure] = {}
    for one in failed:
        known = found.get(one["error"])
        own = (one["row"], one["method"], one["why"])
        first = own if known is None else min((known.row, known.method, known.why), own)
        found[one["error"]] = Failure(1 if known is None else known.count + 1, *first)
    return dict(sorted(found.items(), key=lambda named: (-named[1].count, named[0])))


"""What is in the folder of a run, for people: tables, an evaluation, an audit, reports."""

from whence.run.results.folder import Run, is_run

__all__ = ["Run", "is_run"]


"""Whether two runs explain the same examples alike, method by method."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.core.seed import generator
from whence.evaluation.judge import plain
from whence.evaluation.stored import units
from whence.run.results.gathered import Reader, Record
from whence.run.results.noted import Noted
from whence.stats import kendall
from whence.stats.together import bootstraps

if TYPE_CHECKING:
    from whence.run.results import Run

_COMPARED = 1000  # examples: their scores are held in memory, of both runs
_SHOWN = 3  # methods of which examples are shown
_COLUMNS = ("row", "method", "target", "tokens", "words", "scores", "error")
_KEY = ("whence report", "agreement of two runs")


def agreements(
    runs: tuple["Run", "Run"],
    noted: tuple[Noted, Noted],
    shared: Sequence[tuple[int, int]],
    methods: Sequence[str],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return how much each method's explanations agree between the runs, and where they agree least."""
    chosen = shared[:_COMPARED]
    rows = [(noted[0].rows[a], noted[1].rows[b]) for a, b in chosen]
    found = [_scores(run, {two[side] for two in rows}) for side, run in enumerate(runs)]
    told: list[dict[str, Any]] = []
    apart: list[dict[str, Any]] = []
    for method in methods:
        own = [(found[0].get((a, method)), found[1].get((b, method))) for a, b in rows]
        taus, nulls, equal = _compared(own, [noted[0].digests[a] for a, _ in chosen])
        one, null = bootstraps(np.column_stack([taus, nulls]), _KEY)
        told.append(
            {
                "method": method,
                "tau": plain(one),
                "null": plain(null),
                "equal": equal,
                "why": None
                if one
                else "No example has the same tokens and the same target in both runs.",
            }
        )
        if one is not None and np.nanmin(taus) < 1 and len(apart) < _SHOWN:
            place = int(np.nanargmin(taus))
            sides = [
                _shown(run, each, number, method)
                for run, each, number in zip(runs, noted, chosen[place], strict=True)
            ]
            apart.append(
                {"method": method, "tau": float(taus[place]), "a": sides[0], "b": sides[1]}
            )
    return told, apart


def _scores(run: "Run", rows: set[int]) -> dict[tuple[int, str], Record]:
    return {
        (one["row"], one["method"]): {**one, "scores": np.array(one["scores"], dtype=np.float64)}
        for records in Reader(run.store).records("explanations", _COLUMNS)
        for one in records
        if one["row"] in rows and one["error"] is None
    }


def _compared(
    own: Sequence[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]], digests: Sequence[str]
) -> tuple[Any, Any, int]:
    """Return the agreement of each example, the same with scores that are dealt out anew, and how many are equal."""
    taus, nulls, equal = np.full(len(own), np.nan), np.full(len(own), np.nan), 0
    for place, (a, b) in enumerate(own):
        if a is None or b is None or a["tokens"] != b["tokens"] or a["target"] != b["target"]:
            continue
        places = [one for (one,) in units(a["words"], "token")]
        if len(places) < 2:
            continue
        one, other = a["scores"][places], b["scores"][places]
        dealt = generator(*_KEY, digests[place]).permutation(other)
        taus[place], nulls[place] = kendall(np.stack([other, dealt]), one)
        equal += bool(np.array_equal(a["scores"], b["scores"]))
    return taus, np.where(np.isnan(taus), np.nan, nulls), equal


def _shown(run: "Run", found: Noted, number: int, method: str) -> dict[str, Any]:
    return {
        "method": method,
        "metric": None,
        "value": None,
        "null": None,
        "row": found.rows[number],
        "id": found.ids[number],
        "label": found.labels[number],
        "says": [],
        "explained": run.explanation(found.rows[number], method),
    }


"""What determines results and is not the same in two runs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whence.run.results.evaluated import setting_of, software

if TYPE_CHECKING:
    from whence.run.results import Run

_MODEL = ("name", "revision", "class", "fingerprint", "dtype", "tokenizer", "processor")
_PLAN = ("seed", "limit", "sample", "mlm")


def differences(
    a: "Run", b: "Run", methods: Sequence[str], metrics: Sequence[str]
) -> list[dict[str, Any]]:
    """Return every setting that differs, by name, with what it is in either run.

    Of the parameters, those of the methods and metrics that both runs have.
    """
    sides = [dict(_told(run, methods, metrics)) for run in (a, b)]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [
        {"what": name, "a": _plain(sides[0].get(name)), "b": _plain(sides[1].get(name))}
        for name in names
        if sides[0].get(name) != sides[1].get(name)
    ]


def _told(run: "Run", methods: Sequence[str], metrics: Sequence[str]) -> Iterator[tuple[str, Any]]:
    manifest = run.manifest
    for name in _MODEL:
        yield f"model: {name}", manifest["model"].get(name)
    yield "data", manifest["data"]["name"]
    yield "code", manifest["code"]
    for name, value in {
        **{one: manifest["plan"].get(one) for one in _PLAN},
        **setting_of(manifest),
    }.items():
        yield name, value
    settings = manifest["settings"]
    for method in methods:
        yield from _params(method, settings.get(manifest["explained"].get(method), {}))
    tested: dict[str, str] = {}
    for own in manifest["tested"].values():
        tested |= own
    for metric in metrics:
        yield from _params(metric, settings.get(tested[metric], {}))
    for name, value in software(run).items():
        yield f"with: {name}", value


def _params(owner: str, setting: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in (setting.get("params") or {}).items():
        yield f"{owner}.{name}", value
    if setting.get("source"):
        yield f"{owner}: source", setting["source"]


def _plain(value: Any) -> str:
    return "-" if value is None else str(value)


"""The evaluation of a run: made of its rows by what `whence.evaluate` is made by, so that both say the same."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.evaluation import Evaluation
from whence.evaluation.cost import timed
from whence.evaluation.judge import plain
from whence.evaluation.payload import payload
from whence.run.results.noted import Noted, noted, params_of
from whence.run.store.manifest import settings_of

if TYPE_CHECKING:
    from whence.run.results import Run

_MODEL = ("name", "revision", "class", "fingerprint", "labels")


def evaluated(run: "Run", agreement: Sequence[str], found: Noted | None = None) -> Evaluation:
    """Return how the methods of a run do by its metrics; `found` is what was gone through already."""
    found = noted(run, agreement) if found is None else found
    manifest = run.manifest
    seed = manifest["plan"]["seed"]
    told = payload(
        found.notes,
        found.alike,
        methods=params_of(manifest),
        origin={
            "model": {name: manifest["model"].get(name) for name in _MODEL},
            "provenance": software(run),
        },
        setting=setting_of(manifest),
        digests=found.digests,
        data=data_of(run),
        seed=seed,
        calls=None,  # a run counts passes by explanation; those of tests are not kept
        seconds=None,
    )
    times = _times(run)
    for one in told["methods"]:
        one["seconds"] = _seconds(times.get(one["method"], []), seed)
    return Evaluation(told)


def data_of(run: "Run") -> dict[str, Any]:
    """Return what the data set of a run is called, and what was drawn from how many rows, as evaluations say it."""
    plan, data = run.manifest["plan"], run.manifest["data"]
    columns, counted = data.get("columns") or {}, None
    for event in run.store.events("start"):
        counted = event.get("of", counted)
    some = [one for one in (plan["sample"], plan["limit"]) if one is not None]
    drawn = min(some, default=None)
    if counted is not None and drawn is not None and drawn >= counted:
        drawn = None
    return {
        "name": data["name"],
        "rows": counted,
        "drawn": drawn,
        "seed": None if plan["sample"] is None or drawn is None else plan["seed"],
        "text": columns.get("text"),
        "pair": columns.get("pair"),
        "label": columns.get("label"),
        "guessed": list(data.get("guessed") or ()),
    }


def setting_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return how explanations were made and tested, as an evaluation says it."""
    plan = manifest["plan"]
    asked = (manifest["settings"].get(one, {}) for one in settings_of(manifest))
    tests = [one for one in asked if one.get("kind") == "test"]
    test = tests[0] if tests else {}
    return {
        "remove": test.get("remove", plan["remove"]),
        "unit": test.get("unit", plan["unit"]),
        "target": plan["target"],
        "truncate": plan["truncate"],
        "rankings": plan["rankings"],
    }


def software(run: "Run") -> dict[str, Any]:
    """Return the versions and the device that the journal names last; nothing where it is lost."""
    found: dict[str, Any] = {}
    for event in run.store.events("begin"):
        found = event.get("software") or found
    return dict(found)


def _times(run: "Run") -> dict[str, list[tuple[float, int]]]:
    """Return the seconds and the examples of every task, by method, as far as the journal has them."""
    found: dict[str, list[tuple[float, int]]] = {}
    for event in run.store.events("task"):
        for name, cost in (event.get("costs") or {}).items():
            examples = cost.get("examples", event.get("examples"))
            if name and examples and cost.get("seconds") is not None:
                found.setdefault(name, []).append((float(cost["seconds"]), int(examples)))
    return found


def _seconds(tasks: Sequence[tuple[float, int]], seed: int) -> dict[str, Any] | None:
    """Return the seconds per example of a method: tasks are the observations."""
    if not tasks:
        return None
    seconds, counts = np.array(tasks, dtype=np.float64).T
    each = seconds / counts
    found = plain(timed(seconds, counts, ("evaluate", "cost", seed)))
    return found and {**found, "least": float(each.min()), "most": float(each.max())}


"""A stored explanation as the JSON object of one (docs/reference/json.md), so that everything that shows one can."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import WhenceError
from whence.explainer.kept.scaling import scale_for
from whence.explainer.request import requests
from whence.methods import method
from whence.view import VERSION
from whence.view.conserved import CODE, unconserved
from whence.view.words import WordsBy, word_score

Record = Mapping[str, Any]

COLUMNS = (
    *(
        "row",
        "id",
        "label",
        "text",
        "pair",
        "method",
        "setting",
        "target",
        "predicted",
        "probability",
    ),
    *("tokens", "special", "starts", "ends", "segments", "ids", "words", "scores", "axioms"),
    *("forward", "backward", "dropped", "error", "why"),
)
_PATCH = re.compile(r"row (\d+), column (\d+)")


def explained(
    record: Record, model: Mapping[str, Any], setting: Mapping[str, Any]
) -> dict[str, Any]:
    """Return one row of the table of explanations, which is no failure, as a payload.

    What a run does not keep is left out: logits, and probabilities of other classes. Of a picture there are the
    patches by name, and not its pixels.
    """
    tokens = [
        {
            "text": text,
            "start": start,
            "end": end,
            "segment": segment,
            "special": special,
            "id": number,
        }
        for text, start, end, segment, special, number in zip(
            *(record[name] for name in ("tokens", "starts", "ends", "segments", "special", "ids")),
            strict=True,
        )
    ]
    grid = _grid(tokens) if record["text"] is None else None
    words = [] if grid else _words(record, tokens)
    scores, params = list(record["scores"]), dict(setting.get("params", {}))
    said = record["probability"]
    signed = _signed(record["method"], params, scores)
    facts = _facts(record["method"])
    by: WordsBy = facts.get("words", "sum")
    # A value has no probability: what measures one measures the value.
    of = (facts.get("of") if said is not None else None) or setting.get("of", "logit")
    axioms = {one["axiom"]: one["residual"] for one in record["axioms"] or ()}
    unkept = unconserved(record["method"], scores, axioms, None, of)
    word_scores = [word_score(scores, word["tokens"], by) for word in words]
    return {
        "version": VERSION,
        "model": dict(model),
        "input": {
            "text": record["text"],
            "pair": record["pair"],
            "dropped": record["dropped"] or 0,
        },
        "tokens": tokens,
        "words": words,
        "prediction": {
            "label": record["predicted"],
            "index": _place(record["predicted"], model),
            "probability": said,
            "probabilities": {} if said is None else {record["predicted"]: said},
            "logits": [],
        },
        "target": {
            "label": record["target"],
            "index": _place(record["target"], model),
            "against": None,
            "of": of,
        },
        "read": [],
        "explanations": [
            {
                "method": record["method"],
                "params": params,
                "of": of,
                "signed": signed,
                "scores": scores,
                "word_scores": word_scores,
                "words_by": by,
                "scale": scale_for(
                    record["method"],
                    params,
                    word_scores or scores,
                    signed=signed,
                    of=of,
                    is_value=said is None,
                    part="patch" if grid else "word",
                ),
                "axioms": axioms,
                "passes": {"forward": record["forward"], "backward": record["backward"]},
                "seconds": None,
                "dtype": "float64",
            }
        ],
        "provenance": {},
        **({"warnings": [{"code": CODE, "message": unkept}]} if unkept else {}),
        **({"picture": {"name": record["id"], "grid": grid}} if grid else {}),
    }


def _facts(name: str) -> Mapping[str, Any]:
    """Return what a method says about itself; nothing of one from a package that is not installed here.

    How words get their scores is among it: a run keeps those of tokens, and nothing that was measured on words.
    """
    return method.get(name).facts if name in method.names() else {}


def _words(record: Record, tokens: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Put the tokens of a word together; one that is in none, and is no special one, is a word by itself."""
    members: dict[tuple[str, int], list[int]] = {}
    for place, (token, number) in enumerate(zip(tokens, record["words"], strict=True)):
        if not token["special"]:
            own = ("alone", place) if number is None or number < 0 else ("word", number)
            members.setdefault(own, []).append(place)
    return [
        _word(record, [(place, tokens[place]) for place in places]) for places in members.values()
    ]


def _word(record: Record, own: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, Any]:
    segment = own[0][1]["segment"]
    source = record["pair" if segment else "text"]
    starts = [token["start"] for _, token in own if token["start"] is not None]
    ends = [token["end"] for _, token in own if token["end"] is not None]
    start, end = min(starts, default=None), max(ends, default=None)
    known = source is not None and start is not None
    text = source[start:end] if known else "".join(token["text"] for _, token in own)
    return {
        "text": text,
        "start": start,
        "end": end,
        "segment": segment,
        "tokens": [place for place, _ in own],
    }


def _grid(tokens: Sequence[Mapping[str, Any]]) -> list[int] | None:
    """Return how many patches a picture has down and across, if tokens are patches."""
    places = [_PATCH.fullmatch(token["text"]) for token in tokens]
    found = [(int(one[1]), int(one[2])) for one in places if one]
    if not found or len(found) != len(tokens):
        return None
    rows, columns = (max(side) for side in zip(*found, strict=True))
    return [rows, columns] if rows * columns == len(tokens) else None


def _place(label: Any, model: Mapping[str, Any]) -> int:
    labels = list(model.get("labels") or ())
    return labels.index(label) if label in labels else 0


def _signed(method: str, params: Mapping[str, Any], scores: Sequence[float]) -> bool:
    """Say whether a method's scores have a sign; one that is not known here has it if its scores do."""
    try:
        (request,) = requests(method, dict(params), {"mask": 0, "pad": 0, "unk": 0})
    except WhenceError:
        return any(score < 0 for score in scores)
    return request.signed


"""The examples worth looking at: where a method did best and worst, and where methods say different things."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.evaluation.measures import Measure
from whence.evaluation.plan import DECIDING
from whence.evaluation.stored import units
from whence.run.results.gathered import Reader, Record
from whence.run.results.noted import Noted
from whence.stats import kendall
from whence.stats.interval import Array

if TYPE_CHECKING:
    from whence.run.results import Run

METHODS = 6  # that examples are shown of; more nobody reads
_UNTESTED, _CLASSES = 2, 3  # methods, and examples of each, that are shown where nothing was tested
_LOOKED_AT = 500  # examples, for where methods disagree
_FEWEST = 4  # units; fewer agree or not by chance

_SCORES = ("row", "method", "words", "scores", "error")


def deciding(noted: Noted) -> Measure | None:
    """Return the metric that examples are chosen by: one that decides about methods, or the first to be beaten."""
    known = {one.name: one for one in noted.notes.measures if one.aim == "beat"}
    return next((known[name] for name in (*DECIDING, *known) if name in known), None)


def gains_of(noted: Noted, measure: Measure) -> Array:
    """Return by how much each explanation is better than random ones, (examples, methods)."""
    values, nulls = noted.notes.values[measure.name], noted.notes.nulls[measure.name]
    return np.asarray(measure.sign * (values - nulls))


def extremes(run: "Run", noted: Noted) -> list[dict[str, Any]]:
    """Return examples with their explanations, as the report shows them."""
    found = []
    measure = deciding(noted)
    if measure is not None:
        gains = gains_of(noted, measure)
        for place in _best(gains):
            own = gains[:, place]
            for which, pick in (("best", np.nanargmax), ("worst", np.nanargmin)):
                found.append(_shown(run, noted, int(pick(own)), place, measure, which))
    else:
        found = [
            _shown(run, noted, number, place, None, "example")
            for place in range(min(_UNTESTED, len(noted.notes.methods)))
            for number in _some(noted, place)
        ]
    return [*found, *_disagreed(run, noted, measure)]


def _some(noted: Noted, place: int) -> list[int]:
    """Choose examples where nothing was tested: the first that is predicted wrongly, and the first of each class."""
    explained = [
        number
        for number, said in enumerate(noted.predicted)
        if said is not None and not np.isnan(noted.notes.forward[number, place])
    ]
    wrong = [
        number
        for number in explained
        if (gold := noted.gold_of(number)) is not None and gold != noted.predicted[number]
    ]
    firsts = {noted.predicted[number]: number for number in reversed(explained)}
    return sorted(list(dict.fromkeys([*wrong[:1], *sorted(firsts.values())]))[:_CLASSES])


def _best(gains: Array) -> list[int]:
    """Return the methods that were tested on several examples, the best first."""
    tested = np.flatnonzero((~np.isnan(gains)).sum(0) > 1)
    return sorted(tested.tolist(), key=lambda place: -float(np.nanmean(gains[:, place])))[:METHODS]


def _shown(
    run: "Run", noted: Noted, number: int, place: int, measure: Measure | None, which: str
) -> dict[str, Any]:
    notes, method = noted.notes, noted.notes.methods[place]
    told = None if measure is None else (notes.values[measure.name], notes.nulls[measure.name])
    return {
        "which": which,
        "method": method,
        "metric": None if measure is None else measure.name,
        "value": None if told is None else _known(told[0][number, place]),
        "null": None if told is None else _known(told[1][number, place]),
        "direction": None if measure is None else measure.entry.facts["direction"],
        "row": noted.rows[number],
        "id": noted.ids[number],
        "label": noted.labels[number],
        "gold": noted.gold_of(number),
        "says": [],
        "explained": run.explanation(noted.rows[number], method),
    }


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _disagreed(run: "Run", noted: Noted, measure: Measure | None) -> Iterator[dict[str, Any]]:
    """Find the example whose explanations agree least; of very many, the first are looked at."""
    if len(noted.notes.methods) < 2:
        return
    looked, least = 0, (2.0, -1)
    for row, own in islice(_scores(run), _LOOKED_AT):
        looked += 1
        if (mean := agreement(own)) is not None:
            least = min(least, (mean, row))
    mean, row = least
    if row < 0:
        return
    number = noted.number(row)
    of = "" if looked == len(noted.rows) else f" of the first {looked:,} examples"
    for place, method in enumerate(noted.notes.methods[:METHODS]):
        if not np.isnan(noted.notes.forward[number, place]):
            said = f"Mean Kendall's τ-b of each two methods here: {mean:.2f}, the lowest{of}."
            yield {
                **_shown(run, noted, number, place, measure, "disagreed"),
                "says": [said],
                "method": method,
            }


def _scores(run: "Run") -> Iterator[tuple[int, list[Record]]]:
    """Go through the scores of every example that several methods explained."""
    for records in Reader(run.store).records("explanations", _SCORES):
        rows: dict[int, list[Record]] = {}
        for record in records:
            if record["error"] is None:
                rows.setdefault(record["row"], []).append(record)
        yield from ((row, own) for row, own in rows.items() if len(own) > 1)


def agreement(own: Sequence[Record]) -> float | None:
    """Return the mean agreement of each two explanations of an example; None where there is none to be had."""
    places = [place for (place,) in units(own[0]["words"], "token")]
    scores = [np.array(one["scores"], dtype=np.float64) for one in own]
    if len(places) < _FEWEST or any(len(one) != len(scores[0]) for one in scores):
        return None
    values = np.stack(scores)[:, places]
    found = [kendall(values[row + 1 :], values[row]) for row in range(len(values) - 1)]
    known = np.concatenate(found)
    known = known[~np.isnan(known)]
    return float(known.mean()) if len(known) else None


"""What the report says of a run beside its evaluation: predictions, drawings, sessions."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.run.results.extremes import deciding, gains_of
from whence.run.results.noted import Noted
from whence.stats import proportion

if TYPE_CHECKING:
    from whence.run.results import Run

_BINS = 24


def predictions(noted: Noted) -> dict[str, Any]:
    """Return how often each class was predicted, and how often rightly, where the data has the model's labels."""
    known = [one for one in noted.predicted if one is not None]
    found = {"classes": dict(Counter(known)), "accuracy": None, "majority": None}
    right = correct(noted)
    if right is None:
        return found
    both = zip(noted.labels, noted.predicted, strict=True)
    truths = [label for label, said in both if label is not None and said is not None]
    most = Counter(truths).most_common(1)[0][1]
    return {**found, "accuracy": share_of(right), "majority": most / len(truths)}


def share_of(flags: Any) -> dict[str, Any] | None:
    """Return the share of ones among zeros and ones, with its exact interval; what is NaN does not count."""
    known = flags[~np.isnan(flags)]
    if not len(known):
        return None
    low, high = proportion(int(known.sum()), len(known))
    return {"mean": float(known.mean()), "low": low, "high": high, "n": len(known)}


def correct(noted: Noted) -> Any | None:
    """Return 1 for each example that was predicted rightly, 0 for others, NaN without a label; None without any."""
    right = [
        np.nan if said is None or (gold := noted.gold_of(number)) is None else float(said == gold)
        for number, said in enumerate(noted.predicted)
    ]
    found = np.array(right, dtype=np.float64)
    return found if len(found) and not np.isnan(found).all() else None


def plots(noted: Noted, evaluation: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return drawings: how gains over random explanations are spread, and how much methods agree."""
    found = []
    measure = deciding(noted)
    if measure is not None:
        gains = gains_of(noted, measure)
        known = gains[~np.isnan(gains)]
        if len(known) and known.min() < known.max():
            edges = np.histogram_bin_edges(known, _BINS)
            series = [
                {"name": name, "counts": np.histogram(own, edges)[0].tolist(), "n": len(own)}
                for place, name in enumerate(noted.notes.methods)
                if len(own := gains[~np.isnan(gains[:, place]), place])
            ]
            found.append(
                {
                    "kind": "histogram",
                    "title": f"Gain over random explanations by {measure.name}, example by example",
                    "x": "gain",
                    "edges": edges.tolist(),
                    "threshold": 0.0,
                    "series": series,
                }
            )
    return [*found, *_matrices(noted.notes.methods, evaluation["agreement"])]


def _matrices(methods: list[str], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for measure in dict.fromkeys(row["measure"] for row in rows):
        own = {(row["a"], row["b"]): row for row in rows if row["measure"] == measure}
        counts = {row["n"] for row in own.values() if row["n"]}
        if not counts or len(methods) < 3:
            continue
        either = {**own, **{(b, a): row for (a, b), row in own.items()}}
        n = f"n={min(counts)}" if len(counts) == 1 else f"n={min(counts)} to {max(counts)}"
        found.append(
            {
                "kind": "matrix",
                "title": f"Agreement of each two methods by {measure.replace('_', ' ')}, {n}",
                "rows": methods,
                "columns": methods,
                "values": [
                    [1.0 if a == b else either[a, b]["mean"] for b in methods] for a in methods
                ],
                "range": [-1, 1],
            }
        )
    return found


def sessions(run: "Run") -> list[dict[str, Any]]:
    """Return every time that somebody worked on the run, as the journal tells it."""
    found: list[dict[str, Any]] = []
    for event in run.store.events():
        kind, at = event.get("kind"), event.get("at")
        if kind == "begin" or not found:
            found.append({"began": at, "ended": at, "workers": None, "tasks": 0, "with": {}})
        own = found[-1]
        own["ended"] = at or own["ended"]
        own["tasks"] += kind == "task"
        if kind == "begin":
            own["with"] |= event.get("software") or {}
        if kind == "start":
            facts = {name: event.get(name) for name in ("backend", "device", "batch_size")}
            own["with"] |= {name: value for name, value in facts.items() if value is not None}
            own["workers"] = event.get("workers")
    return [{**one, "seconds": _between(one["began"], one["ended"])} for one in found]


def _between(began: Any, ended: Any) -> float | None:
    """Return the seconds between two times; None where they are none, or the clock was set back."""
    try:
        spent = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds()
    except (TypeError, ValueError):
        return None
    return spent if spent >= 0 else None


"""What a run found, for people: the facts, the tables, the evaluation, the audit, and a report of all of it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadStore, UnknownMethod, did_you_mean
from whence.run.store import Store
from whence.run.store.layout import Layout
from whence.run.store.schema import TABLES

if TYPE_CHECKING:
    from whence.audit import Audit
    from whence.evaluation import Evaluation
    from whence.run.results.compare import RunComparison
    from whence.run.results.summary import RunReport


def is_run(folder: str | Path) -> bool:
    """Say whether a folder holds a run, whole or damaged."""
    return Layout(folder).used


class Run:
    """The folder of a run, finished or not. It is only read, also while a run is writing to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_run(self.folder):
            what = "is no folder" if not self.folder.is_dir() else "holds no run"
            raise BadStore(
                f"{str(folder)!r} {what}. Give the folder that `whence run --out` wrote to; `whence runs DIR` lists "
                "those in a folder."
            )

    @cached_property
    def store(self) -> Store:
        """The store; BadStore where its manifest is lost or damaged."""
        return Store.read(self.folder)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the results are results of: plan, data, model, settings by digest, and how far the run is."""
        return self.store.manifest

    @property
    def complete(self) -> bool:
        """Whether all is there that was asked for."""
        return bool(self.manifest["state"] == "complete")

    @property
    def name(self) -> str:
        """What it is called: its folder's name."""
        return self.folder.resolve().name or str(self.folder)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return list(self.manifest["plan"]["methods"])

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order they were asked for."""
        return list(self.manifest["plan"]["metrics"])

    @property
    def written(self) -> str | None:
        """When something was last written, as the journal has it: ISO 8601, or None where it is lost."""
        last = None
        for event in self.store.events():
            last = event.get("at", last)
        return None if last is None else str(last)

    def table(self, name: str) -> Any:
        """Return a table, "explanations" or "metrics", as a `pyarrow.dataset.Dataset`: nothing is read until asked.

        `.to_table()` reads it, `.to_table().to_pandas()` makes a data frame. What windows hold that are not complete
        is in it, too. docs/reference/store.md describes the columns.
        """
        if name not in TABLES:
            raise BadStore(f"A run has the tables {' and '.join(TABLES)}. Got {name!r}.")
        return self.store.table(name, pending=True)

    def facts(self) -> dict[str, Any]:
        """Return what a list of runs shows, as plain data, without reading any results."""
        try:
            manifest, counts = self.manifest, self.store.counts()
        except BadStore as error:
            return {**_NOTHING, "folder": str(self.folder), "name": self.name, "why": str(error)}
        plan, indices = manifest["plan"], list(self.store.indices())
        failed = sum(one["tables"].get("explanations", {}).get("failed", 0) for one in indices)
        totals = manifest["totals"] or {}
        limits = [one for one in (plan["limit"], plan["sample"]) if one is not None]
        for event in self.store.events(
            "start"
        ):  # what the last one counted, while nobody knows better
            limits = limits if event.get("examples") is None else [event["examples"]]
        return {
            "folder": str(self.folder),
            "name": self.name,
            "model": manifest["model"]["name"],
            "data": manifest["data"]["name"],
            "methods": self.methods,
            "metrics": self.metrics,
            "audit": list(plan["audit"]),
            "state": manifest["state"],
            "done": min((counts.get(one, 0) for one in manifest["explained"].values()), default=0),
            "total": totals.get("examples", min(limits, default=None)),
            "failed": failed,
            "bad": sum(len(one["bad"]) for one in indices),
            "why": None,
        }

    def evaluation(self, agreement: str | Sequence[str] = "tau_b") -> "Evaluation":
        """Return how the methods do by the metrics: what `whence.evaluate` returns of the same model and examples.

        Agreement between methods is no result of its own in a run; it is computed here from the scores.
        """
        from whence.run.results.evaluated import evaluated

        return evaluated(self, [agreement] if isinstance(agreement, str) else list(agreement))

    @property
    def audits(self) -> "Audit | None":
        """The audit of attention, of the experiments that are done; None where none was asked for."""
        if not self.manifest["plan"]["audit"]:
            return None
        from whence.run.audits import audit_of

        return audit_of(self.store)

    def explanation(self, row: int, method: str) -> dict[str, Any]:
        """Return one explanation as the documented JSON object (docs/reference/json.md), as far as a run keeps it.

        `row` is the example's place in the data, counted from 0.
        """
        from whence.run.results.explained import COLUMNS, explained
        from whence.run.results.gathered import Reader

        if method not in self.methods:
            raise UnknownMethod(
                f"The run has no explanations by {method!r}.{did_you_mean(method, self.methods)} There are "
                f"{', '.join(self.methods)}."
            )
        record = Reader(self.store).find(row, method, COLUMNS)
        if record is None:
            raise BadStore(
                f"The run has no explanation of row {row} by {method!r}. Rows count from 0 in the data; those that "
                "could not be read have none."
            )
        if record["error"] is not None:
            raise BadStore(f"{method} failed for row {row}: {record['why']}")
        return explained(
            record, self.manifest["model"], self.manifest["settings"][record["setting"]]
        )

    def report(self, other: "Run | None" = None) -> "RunReport | RunComparison":
        """Return the report of this run, or of this run and another that comes after it, compared."""
        if other is not None:
            from whence.run.results.compare import compare

            return compare(self, other)
        from whence.run.results.summary import report

        return report(self)

    def __repr__(self) -> str:
        told = self.facts()
        return f"<Run {told['name']}: {told['state']}, {told['done']} examples>"


_NOTHING: dict[str, Any] = {
    "model": None,
    "data": None,
    "methods": [],
    "metrics": [],
    "audit": [],
    "state": "damaged",
    "done": 0,
    "total": None,
    "failed": 0,
    "bad": 0,
}


"""The results of a run as they lie in its folder, a window at a time: in bounded memory, whatever its size."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.run.store import Store
from whence.run.store.manifest import settings_of
from whence.run.store.opened import Opened, opened
from whence.run.store.rows import gathered, read

Record = dict[str, Any]


@dataclass
class Reader:
    """Goes through the rows of a run that are of the settings it asks for now, and notes what could not be read."""

    store: Store
    damage: dict[str, str] = field(default_factory=dict)  # by file: why it is left out

    def __post_init__(self) -> None:
        self._settings = set(settings_of(self.store.manifest))

    def windows(self) -> list[int]:
        """Return the numbers of all windows of which anything is there."""
        layout = self.store.layout
        waiting = {layout.numbers(path)[0] for path in layout.chunks()}
        return sorted({*self.store.windows(), *waiting})

    def records(self, name: str, columns: Sequence[str]) -> Iterator[list[Record]]:
        """Go through a table, the rows of one window at a time, sorted as in the files."""
        for window in self.windows():
            if own := self.of(window, name, columns):
                yield own

    def of(self, window: int, name: str, columns: Sequence[str]) -> list[Record]:
        """Return the rows of one window."""
        found = opened(self.store.layout, window)
        for path, why in found.damage:
            self.damage[f"{path.parent.name}/{path.name}"] = why
        rows: list[Record] = _table(found, name, [*columns, "setting"]).to_pylist()
        return [row for row in rows if row["setting"] in self._settings]

    def find(self, row: int, method: str, columns: Sequence[str]) -> Record | None:
        """Return the explanation of one row of the data by a method, if it is there."""
        spans = {one["window"]: (one["first"], one["last"]) for one in self.store.indices()}
        for window in self.windows():
            first, last = spans.get(window, (None, None))
            if first is not None and last is not None and not first <= row <= last:
                continue
            for record in self.of(window, "explanations", columns):
                if record["row"] == row and record["method"] == method:
                    return record
        return None


def _table(found: Opened, name: str, columns: Sequence[str]) -> Any:
    wanted = list(dict.fromkeys(columns))
    if found.chunks:
        return gathered(name, list(found.tables(name))).select(wanted)
    if name in found.parts:
        return read(found.parts[name], wanted)
    return gathered(name, []).select(wanted)


"""All results of a run, gone through once: numbers by example and method, and what each example is."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from whence.core.errors import UnknownMetric
from whence.data.sets.labels import label_names
from whence.evaluation.agreement import Alike
from whence.evaluation.measures import Measure, measures
from whence.evaluation.notes import Notes
from whence.evaluation.stored import Setting, take
from whence.metrics import metric
from whence.run.results.gathered import Reader, Record

if TYPE_CHECKING:
    from whence.run.results import Run

# Examples on which explanations are compared with each other: scores must be read for it, and more tell little more.
COMPARED = 2000

_LIGHT = (
    *("row", "example", "id", "label", "method", "target", "predicted"),
    *("forward", "backward", "dropped", "refused", "error", "why"),
)
_SCORED = ("ids", "words", "scores", "axioms")
_TESTS = (
    "row",
    "method",
    "metric",
    "value",
    "null",
    "part_names",
    "parts",
    "null_parts",
    "error",
    "why",
)
_NAMED = 5


@dataclass
class Noted:
    """What a run found. Lists go by an example's number: its place among those that are there."""

    notes: Notes
    alike: Alike
    rows: list[int]
    digests: list[str]
    ids: list[str]
    labels: list[str | None]
    predicted: list[str | None]
    gold: Mapping[str, str] = field(default_factory=dict)  # what the model calls the data's labels
    failures: list[dict[str, Any]] = field(default_factory=list)
    damage: dict[str, str] = field(default_factory=dict)

    def gold_of(self, number: int) -> str | None:
        """Return an example's true label as the model calls it; None where there is none, or nobody can tell."""
        label = self.labels[number]
        return None if label is None else self.gold.get(label)

    def number(self, row: int) -> int:
        """Return an example's number."""
        return self.rows.index(row)


def noted(run: "Run", agreement: Sequence[str] = ()) -> Noted:
    """Go through the results of a run."""
    manifest, reader = run.manifest, Reader(run.store)
    places = _places(reader)
    rows, count = sorted(places), len(places)
    draws, methods = int(manifest["plan"]["rankings"]), run.methods
    compared = measures(list(agreement)) if agreement and len(methods) > 1 else []
    if strange := [one.name for one in compared if one.kind != "agreement"]:
        raise UnknownMetric(f"{', '.join(strange)} measures no agreement between methods.")
    found = Noted(
        Notes(methods, tests_of(manifest), count, draws),
        Alike(compared, methods, count, draws),
        rows,
        digests=[places[row] for row in rows],
        ids=[""] * count,
        labels=[None] * count,
        predicted=[None] * count,
    )
    numbers = {row: number for number, row in enumerate(rows)}
    setting, reasons = _setting(manifest), _Reasons()
    left = COMPARED if compared else 0
    for window in reader.windows():
        columns = (*_LIGHT, *_SCORED) if left else _LIGHT
        tests = dict(_by_row(reader.of(window, "metrics", _TESTS)))
        for row, own in _by_row(reader.of(window, "explanations", columns)):
            if (number := numbers.get(row)) is None:
                continue  # it came while this was read
            _describe(found, number, own, reasons)
            take(
                found.notes, found.alike if left else None, number, own, tests.get(row, []), setting
            )
            left = max(0, left - 1)
    found.failures, found.damage = reasons.listed(), reader.damage
    found.gold = (labels_of(run.manifest, found.labels) or {}).get("names", {})
    return found


def labels_of(manifest: Mapping[str, Any], said: Sequence[str | None]) -> dict[str, Any] | None:
    """Return what the model calls the labels of the data, and how that is known; None where nobody can tell.

    A run notes it when it begins; of one that an earlier whence began, it is found by the labels that are there.
    """
    if "labels" in manifest["data"]:
        noted: dict[str, Any] | None = manifest["data"]["labels"]
        return noted
    model = manifest["model"]
    known = [one for one in said if one is not None]
    found = label_names(known, tuple(model.get("labels") or ()))
    return None if found is None else found.to_dict()


def tests_of(manifest: Mapping[str, Any]) -> list[Measure]:
    """Return the metrics of a run with their parameters, those that are known here."""
    own = {
        name: digest for tested in manifest["tested"].values() for name, digest in tested.items()
    }
    known = [name for name in manifest["plan"]["metrics"] if name in own and name in metric.names()]
    params = {name: manifest["settings"][own[name]].get("params", {}) for name in known}
    return measures(known, params) if known else []


def params_of(manifest: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the methods of a run with their parameters."""
    settings, digests = manifest["settings"], manifest["explained"]
    return {
        name: dict(settings[digests[name]].get("params", {}))
        for name in manifest["plan"]["methods"]
    }


def _setting(manifest: Mapping[str, Any]) -> Setting:
    plan = manifest["plan"]
    task = manifest["model"].get("task", "single_label")
    return Setting(params_of(manifest), plan["unit"], plan["seed"], task)


def _places(reader: Reader) -> dict[int, str]:
    """Return the digest of every example that is there, by its row."""
    return {
        record["row"]: record["example"]
        for records in reader.records("explanations", ("row", "example"))
        for record in records
    }


def _by_row(records: Sequence[Record]) -> Iterator[tuple[int, list[Record]]]:
    """Put the rows of an example together: they stand side by side."""
    for row, own in groupby(records, key=lambda record: int(record["row"])):
        yield row, list(own)


def _describe(found: Noted, number: int, own: Sequence[Record], reasons: "_Reasons") -> None:
    found.ids[number], found.labels[number] = own[0]["id"], own[0]["label"]
    for record in own:
        if record["error"] is None:
            found.predicted[number] = record["predicted"]
        else:
            reasons.add(record)


class _Reasons:
    """Failures, counted by method and kind of error."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def add(self, record: Record) -> None:
        facts = {"method": record["method"], "error": record["error"], "why": record["why"]}
        own = self._found.setdefault(
            (record["method"], record["error"]), {**facts, "count": 0, "first": []}
        )
        own["count"] += 1
        if len(own["first"]) < _NAMED:
            own["first"].append(record["id"])

    def listed(self) -> list[dict[str, Any]]:
        return sorted(
            self._found.values(), key=lambda one: (-one["count"], one["method"], one["error"])
        )


"""The report of a run: everything that was found, as one documented JSON object (docs/reference/json.md)."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from whence.core.io import written
from whence.core.typed import typed
from whence.evaluation.advice import decided
from whence.evaluation.evaluation import Evaluation
from whence.evaluation.plan import DECIDING
from whence.report.shown import VERSION, Stored
from whence.run.plan import Plan, told
from whence.run.results.evaluated import evaluated, setting_of, software
from whence.run.results.extremes import extremes
from whence.run.results.figures import plots, predictions, sessions
from whence.run.results.noted import Noted, labels_of, noted

if TYPE_CHECKING:
    from whence.run.results import Run

_BAD = 5  # rows that cannot be read, named
_AGREEMENT = ("tau_b",)


@dataclass(frozen=True, eq=False)
class Written(Stored):
    """A report that can also be written for a paper or a repository."""

    _report: ClassVar[str] = "run"

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report in Markdown, and write it if a path is given."""
        from whence.report.run import markdown

        return written(markdown(self.to_dict()), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """Return the report in LaTeX (needs booktabs and xcolor), and write it if a path is given."""
        from whence.report.run import latex

        return written(latex(self.to_dict()), path)


@dataclass(frozen=True, eq=False)
class RunReport(Written):
    """What a run found, and what it takes to do it again."""

    _kind: ClassVar[str] = "run"

    @property
    def evaluation(self) -> Evaluation:
        """The tables."""
        return Evaluation(self.payload["evaluation"])

    def __repr__(self) -> str:
        said = self.payload
        return f"<RunReport of {said['name']}: {said['state']}, {said['examples']} examples>"


def report(run: "Run") -> RunReport:
    """Make the report of a run, finished or not, from what is in its folder."""
    manifest, found = run.manifest, noted(run, _AGREEMENT)
    table = evaluated(run, _AGREEMENT, found)
    audit = run.audits
    return RunReport(
        {
            "version": VERSION,
            "kind": "run",
            **about(run, found),
            "model": dict(manifest["model"]),
            "data": {**manifest["data"], "bad": _bad(run)},
            "setting": {**setting_of(manifest), "seed": manifest["plan"]["seed"]},
            "methods": run.methods,
            "metrics": run.metrics,
            "predictions": {
                **predictions(found),
                "labels": labels_of(manifest, found.labels),
            },
            "advice": _advice(table),
            "evaluation": table.to_dict(),
            "plots": plots(found, table.payload),
            "extremes": extremes(run, found),
            "failures": found.failures,
            "audit": None if audit is None else audit.to_dict(),
            "not_audited": _not_audited(run),
            "provenance": {
                **software(run),
                "code": manifest["code"],
                "format": manifest["version"],
            },
            "settings": manifest["settings"],
            "sessions": sessions(run),
            "reproduce": reproduce(manifest, run.name),
        }
    )


def about(run: "Run", found: Noted) -> dict[str, Any]:
    """Return what a run is called, how far it is, and what of it could not be read."""
    aside = {str(one.get("file")): str(one.get("why")) for one in run.store.damage()}
    facts = run.facts()
    return {
        "name": run.name,
        "state": facts["state"],
        "examples": len(found.rows),
        "total": facts["total"],
        "parts": run.manifest["parts"],
        "damage": [
            *(f"{file} is damaged and left out: {why}. The same command, run again, computes it anew."
              for file, why in found.damage.items()),
            *(f"{file} was damaged and set aside: {why}." for file, why in aside.items() if not run.complete),
        ],
    }  # fmt: skip


def _bad(run: "Run") -> dict[str, Any]:
    rows = run.store.bad()
    first = list(islice(rows, _BAD))
    return {"count": len(first) + sum(1 for _ in rows), "first": first}


def _not_audited(run: "Run") -> list[dict[str, str]]:
    """Return the experiments that were asked for and have found nothing, with the reason."""
    asked, there = run.manifest["plan"]["audit"], run.store.audits()
    waiting = "It was not made yet."
    return [
        {"name": name, "why": str(there[name]["why"]) if name in there else waiting}
        for name in asked
        if name not in there or there[name]["experiment"] is None
    ]


def _advice(table: Evaluation) -> str | None:
    """Say which method to use, where what decides about it was measured."""
    if not set(DECIDING) <= set(table.metrics) or not table.payload["examples"]["explained"]:
        return None
    return str(decided(table)["sentence"])


def reproduce(manifest: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the plan as a file, and as a command line."""
    known = {one.name for one in fields(Plan)}
    asked: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) and key != "target" else value
        for key, value in manifest["plan"].items()
        if key in known
    }
    plan = Plan(**asked)
    return {"plan": plan.to_toml(), "command": _command(plan, name)}


def _command(plan: Plan, name: str) -> str:
    parts = ["whence", "run"]
    for key, value in told(plan).items():
        option = f"--{key.replace('_', '-')}"
        if key in ("params", "metric_params", "audit_params"):
            parts += [
                part for one, own in sorted(value.items()) for part in ("--param", f"{one}={own}")
            ]
        elif key == "target" and isinstance(value, list | tuple):
            parts += [option, ":".join(map(str, value))]
        elif isinstance(value, bool):
            parts.append(option if value else f"--no-{key.replace('_', '-')}")
        else:
            parts += [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return f"{shlex.join(parts)} --out {typed(name)}"
