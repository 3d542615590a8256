"""`recommend`: the method to use on a model; plan within a budget of forward passes, decision rule, reason.

1. A candidate beats random explanations by more than chance (Holm-corrected) in comprehensiveness and in
   sufficiency.
2. It is outdone if another candidate is better by more than chance in one of the two, and worse in neither.
   Of the rest, the best has the highest mean effect over the two. An effect is the mean gain over random
   explanations, example by example, in units of its spread. The other metrics do not decide: leave-one-out
   leads in `loo_correlation` by definition, and `sensitivity` measures stability, not faithfulness.
3. A candidate cannot be told from the best if the best is not better than it by more than chance in either
   of them.
4. Of these, the quickest is recommended, by the seconds that each method took alone on an example of the
   data; up to 1.25 times the shortest time counts as equally quick, and then the larger mean effect decides.
   Where nothing was timed, the fewest model calls decide. Scores do not depend on the machine; times do.

With too few examples for any candidate, the recommendation says how many are needed.
"""

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from statistics import fmean
from typing import Any, ClassVar

from whence.core.errors import BadParameter, InputError, WhenceError
from whence.core.progress import Progress, announce
from whence.core.result import RESULT_VERSION, Result
from whence.data.dataset import read_dataset, shuffle_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer, load
from whence.explain.inputs import encode_inputs
from whence.explain.request import MethodRequest, resolve_methods
from whence.methods import method as method_registry
from whence.metrics import metric as metric_registry
from whence.render.document import Document
from whence.studies.evaluation.evaluate import RANKINGS, evaluate
from whence.studies.evaluation.evaluation import Evaluation, describe_failure
from whence.studies.evaluation.statistics import LEVEL, describe_too_few

BUDGET = 20_000  # forward passes
TIMING_NOTE = (
    "Which methods fit depends on the seconds that each took alone on one example, and so on this machine; the "
    "scores of those that were tested do not."
)
DECIDING_METRICS = ("comprehensiveness", "sufficiency")
FIXED_METRICS = (*DECIDING_METRICS, "loo_correlation")
OPTIONAL_METRIC = "sensitivity"

_MAX_EXAMPLES = 100  # examples; more add little certainty
_MIN_EXAMPLES = 20  # fewer examples decide little
_SHARES = 5  # removal shares (ERASER) of each deciding metric
_PROBES = 3  # short passes that test once whether padding is neutral
_MAX_TIMED_CALLS = 100  # the time of more forward passes is estimated from that of one


@dataclass(frozen=True)
class RecommendationPlan:
    """The methods, metrics and examples of a recommendation, and its maximum of forward passes."""

    methods: tuple[str, ...]
    left_out: Mapping[str, int]  # methods over budget, and their forward passes per example
    metrics: tuple[str, ...]
    examples: tuple[int, ...]  # indices
    given: int
    calls: int
    budget: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # measured, per explanation

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        methods = "1 method" if len(self.methods) == 1 else f"{len(self.methods)} methods"
        text = (
            f"{methods} on {len(self.examples)} of {self.given} examples by "
            f"{', '.join(self.metrics)}: at most {self.calls:,} model calls, of a budget of {self.budget:,}."
        )
        left_out = [
            f"{name} ({calls:,}{f' calls, {self.seconds[name]:.2g} s' if name in self.seconds else ''})"
            for name, calls in self.left_out.items()
        ]
        if left_out:
            text += f" Left out, for what they would take per example: {', '.join(left_out)}."
        return f"{text} {TIMING_NOTE}" if self.seconds else text


def plan_recommendation(
    explainer: Explainer,
    examples: Sequence[Example],
    *,
    budget: int = BUDGET,
    methods: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> RecommendationPlan:
    """Choose the methods and examples that fit into a budget of forward passes.

    Each method is timed on one example first. The slowest are left out until twenty examples fit, or all if there are
    fewer; then as many examples are drawn as fit, up to a hundred. The plan makes no more calls than the budget, and
    explains no longer than these calls would take. Repeating every explanation for `sensitivity` comes last, if the
    budget allows.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise BadParameter(
            f"budget must be a whole number of model calls, at least 1. Got {budget!r}."
        )
    defaults = [name for name in method_registry.names() if name != "random"]
    requests = resolve_methods(defaults if methods is None else methods, params, explainer.fillers)
    drawn = _draw_lengths(explainer, examples, seed)
    few = dict([*drawn.items()][:_MIN_EXAMPLES])
    costs = {
        request.name: 1 + sum(map(request.extra_forwards, few.values())) / len(few)
        for request in requests
    }
    forward, timings, spent = _time_typical_example(explainer, requests, examples, few)

    def count_calls(some: Sequence[MethodRequest], chosen: Mapping[int, int]) -> int:
        return spent + _count_calls(some, list(chosen.values()))

    def fits(some: Sequence[MethodRequest], chosen: Mapping[int, int]) -> bool:
        seconds = len(chosen) * sum(timings.get(request.name, 0.0) for request in some)
        return count_calls(some, chosen) <= budget and seconds <= budget * forward

    affordable = sorted(requests, key=lambda r: (timings.get(r.name, 0.0), costs[r.name]))
    while len(affordable) > 1 and not fits(affordable, few):
        affordable.pop()
    if (least := count_calls(affordable, few)) > budget:
        raise BadParameter(
            f"A budget of {budget:,} model calls is too small: {affordable[0].name} alone on {len(few)} examples takes "
            f"{least:,}. Give at least that."
        )
    samples = (dict([*drawn.items()][:count]) for count in range(len(drawn), 0, -1))
    # A single slow method is still tested, on the minimum number of examples.
    chosen = next((sample for sample in samples if fits(affordable, sample)), few)
    calls = count_calls(affordable, chosen)
    metrics: tuple[str, ...] = FIXED_METRICS
    # Sensitivity repeats every explanation.
    entry = metric_registry.get(OPTIONAL_METRIC)
    settings = {name: parameter.default for name, parameter in entry.parameters.items()}
    lengths = chosen.values()
    repeats = sum(1 + request.extra_forwards(n) for request in affordable for n in lengths)
    repeats *= int(entry.facts["again"](0, settings))
    if calls + repeats <= budget:
        metrics, calls = (*FIXED_METRICS, OPTIONAL_METRIC), calls + repeats
    names = {request.name for request in affordable}
    return RecommendationPlan(
        tuple(request.name for request in requests if request.name in names),
        {name: round(calls) for name, calls in costs.items() if name not in names},
        metrics,
        tuple(sorted(chosen)),
        len(examples),
        calls,
        budget,
        timings,
    )


def _time_typical_example(
    explainer: Explainer,
    requests: Sequence[MethodRequest],
    examples: Sequence[Example],
    few: Mapping[int, int],
) -> tuple[float, dict[str, float], int]:
    """Time a forward pass and the methods on the example of median length, or the nearest that the model can take.

    Return the seconds of the pass, those of each method that works on this model, and the passes spent. Methods that
    make equally many calls may differ by fifty times in seconds. Trace methods run twice: the first run warms up.
    """
    middle = sorted(few.values())[len(few) // 2]
    for number, tokens in sorted(few.items(), key=lambda pair: abs(pair[1] - middle)):
        value, seconds = examples[number].given, dict[str, float]()
        with warnings.catch_warnings(), suppress(WhenceError):  # the evaluation reports both
            warnings.simplefilter("ignore")
            forward, calls = _time_last(partial(explainer.predict, value, truncate=True), 2), 2
            for request in requests:
                extra, runs = (0, 2) if request.reads else (request.extra_forwards(tokens), 1)
                if extra > _MAX_TIMED_CALLS:
                    seconds[request.name] = forward * (1 + extra)
                    continue
                calls += runs * (1 + extra)
                explain = partial(explainer.explain, method=request.name, params=request.params)
                with suppress(WhenceError):
                    seconds[request.name] = _time_last(partial(explain, value, truncate=True), runs)
            return forward, seconds, calls
    return 0.0, {}, 0


def _time_last(run: Callable[[], Any], runs: int) -> float:
    """Return the seconds of the last of several runs."""
    for _ in range(runs):
        started = time.perf_counter()
        run()
    return time.perf_counter() - started


def _draw_lengths(explainer: Explainer, examples: Sequence[Example], seed: int) -> dict[int, int]:
    """Draw readable examples, up to the maximum; return the number of tokens of each, by its index."""
    lengths: dict[int, int] = {}
    error: InputError | None = None
    for number in shuffle_indices(examples, seed):
        if len(lengths) == _MAX_EXAMPLES:
            break
        try:
            (item,), _ = encode_inputs([examples[number].given], explainer.loaded, truncate=True)
            lengths[number] = len(item)
        except InputError as wrong:
            error = wrong
    if error is not None and not lengths:
        raise error
    return lengths


def _count_calls(requests: Sequence[MethodRequest], lengths: Sequence[int]) -> int:
    """Return the maximum of forward passes: explaining, removing shares, leaving out each token."""

    def count_extra(tokens: int) -> int:
        return sum(request.extra_forwards(tokens) for request in requests)

    shares = 2 * _SHARES * (len(requests) + RANKINGS)
    # Each method is first tried alone on one example, at most the longest.
    tries = _PROBES + len(requests) + count_extra(max(lengths, default=0))
    return tries + sum(1 + count_extra(tokens) + shares + tokens + 1 for tokens in lengths)


_MAX_NAMED_METHODS = 3  # methods named in a sentence
_AS_QUICK = 1.25  # times the quickest; two runs of one method differ by as much


class Recommendation(Result):
    """The recommended method, with a sentence that gives the reason, the plan and the evaluation."""

    kind: ClassVar[str] = "recommendation"

    @property
    def sentence(self) -> str:
        """The recommendation and its reason, in one sentence."""
        return str(self.data["sentence"])

    @property
    def method(self) -> str | None:
        """The method to use; None where none beats random explanations."""
        name: str | None = self.data["method"]
        return name

    @property
    def evaluation(self) -> Evaluation:
        """The evaluation that the recommendation is based on."""
        return Evaluation(self.data["evaluation"])

    @property
    def plan(self) -> RecommendationPlan:
        """The plan: tested methods, metrics and examples, and the methods left out."""
        fields = dict(self.data["plan"])
        for name in ("methods", "metrics", "examples"):
            fields[name] = tuple(fields[name])
        return RecommendationPlan(**fields)

    def document(self) -> Document:
        """Return the blocks that every surface shows."""
        from whence.studies.evaluation.report import build_document

        return build_document(self.data["evaluation"], answer=self.sentence, plan=str(self.plan))

    def __repr__(self) -> str:
        return f"<Recommendation {self.method}: {self.sentence}>"


def recommend(
    explainer: Any,
    examples: Any,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    budget: int = BUDGET,
    methods: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Recommendation:
    """Compare methods on a sample, within a budget of forward passes, and recommend one.

    `explainer`: an `Explainer`, or what `whence.load` takes. `examples`, `text`, `pair` and `label`: as
    `whence.evaluate` takes them. A method `announce` of `progress` gets the plan before anything is
    run.
    """
    dataset = read_dataset(examples, text=text, pair=pair, label=label, question_first=True)
    explainer = explainer if isinstance(explainer, Explainer) else load(explainer)
    dataset.check_pairs(explainer.labels)
    plan = plan_recommendation(
        explainer, dataset.examples, budget=budget, methods=methods, params=params, seed=seed
    )
    announce(progress, plan)
    table = evaluate(
        explainer,
        dataset.select(plan.examples, seed),
        list(plan.methods),
        list(plan.metrics),
        # Parameters of methods that are left out would be refused.
        params={
            name: value
            for name, value in (params or {}).items()
            if name.partition(".")[0] not in plan.left_out
        },
        seed=seed,
        progress=progress,
    )
    return Recommendation(
        {
            "version": RESULT_VERSION,
            "kind": "recommendation",
            **apply_rule(table, plan.left_out, plan.seconds),
            "plan": plan.to_dict(),
            "evaluation": table.to_dict(),
        }
    )


def apply_rule(
    table: Evaluation, left_out: Collection[str] = (), seconds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Apply the rule to an evaluation; left-out methods are named, because nothing is known about them.

    `seconds` is the time of each method alone on one example.
    """
    n = table.data["examples"]["explained"]
    candidates = [
        name
        for name in table.methods
        if all(table.cell(name, metric).beats_random for metric in DECIDING_METRICS)
    ]
    untested = (
        f" Not tested, as the budget is too small for them: {', '.join(left_out)}."
        if left_out
        else ""
    )
    if not candidates:
        sentence = _describe_no_candidate(table, n) + untested
        return {"method": None, "best": None, "equals": [], "sentence": sentence}
    effects = {}
    for name in candidates:
        cells = [table.cell(name, metric) for metric in DECIDING_METRICS]
        effects[name] = fmean(cell.effect for cell in cells if cell.effect is not None)
    outdone = {
        name
        for name in candidates
        for other in candidates
        if _find_losing_metrics(table, name, other) and not _find_losing_metrics(table, other, name)
    }
    standing = [name for name in candidates if name not in outdone] or candidates
    best = max(standing, key=lambda name: effects[name])
    equals = [n for n in standing if n == best or not _find_losing_metrics(table, n, best)]
    timed = seconds is not None and seconds.keys() >= set(equals)
    costs = {
        name: seconds[name] if seconds is not None and timed else _compute_mean_calls(table, name)
        for name in equals
    }
    most = min(costs.values()) * (_AS_QUICK if timed else 1)
    chosen = max((n for n in equals if costs[n] <= most), key=lambda name: effects[name])
    sentence = _describe_choice(table, chosen, best, candidates, costs, n, timed=timed) + untested
    return {"method": chosen, "best": best, "equals": equals, "sentence": sentence}


def _find_losing_metrics(table: Evaluation, method: str, best: str) -> list[str]:
    """Return the deciding metrics by which the best method is better than another, beyond chance."""
    return [
        metric
        for metric in DECIDING_METRICS
        for pair in table.pairs(metric)
        if {pair["a"], pair["b"]} == {method, best} and pair["gain"] is not None
        if pair["gain"]["mean"] * (1 if pair["a"] == best else -1) > 0 and pair["p"] < LEVEL
    ]


def _compute_mean_calls(table: Evaluation, method: str) -> float:
    costs = (table.cost[method][what] for what in ("forward", "backward"))
    return sum(cost.mean for cost in costs if cost is not None)


def _describe_choice(
    table: Evaluation,
    chosen: str,
    best: str,
    candidates: Sequence[str],
    costs: Mapping[str, float],  # of the methods that cannot be told from the best
    n: int,
    *,
    timed: bool,
) -> str:
    def format_cost(name: str) -> str:
        if timed:
            return f"{costs[name]:.2g} s per example"
        seconds = table.cost[name]["seconds"]
        timing = "" if seconds is None else f" ({seconds.mean:.2g} s)"
        return f"{_compute_mean_calls(table, name):.3g}{timing} per example"

    figures = []
    for metric in DECIDING_METRICS:
        cell = table.cell(chosen, metric)
        assert cell.value and cell.null, "true of every method that beats random explanations"
        figures.append(f"{metric} {cell.value.mean:.2f} against {cell.null.mean:.2f}")
    text = f"Use {chosen}: on {n} examples it beats random explanations ({', '.join(figures)})"
    others = [name for name in costs if name != chosen]
    if len(table.methods) == 1:
        return f"{text}; no other method was tested."
    if len(candidates) == 1:
        text += f", as no other of the {len(table.methods)} methods does in both"
    elif not others:
        worse = len(candidates) - 1
        whom = "the other method that does" if worse == 1 else f"each of the other {worse} that do"
        text += f" and is better than {whom} by {' or '.join(DECIDING_METRICS)}"
    elif chosen == best:
        whom = f"{len(others)} others" if len(others) > _MAX_NAMED_METHODS else " and ".join(others)
        verb = "is as quick as any of them" if timed else "takes no more model calls than they do"
        text += f", has the largest mean effect, cannot be told to be better than {whom}, and {verb}, {format_cost(chosen)}"
    else:
        verb = "is quicker" if timed else "takes fewer model calls"
        of_best = format_cost(best).removesuffix(" per example" if timed else "")
        text += f", cannot be told from the best, {best}, and {verb}, {format_cost(chosen)} instead of {of_best}"
    return f"{text}{_describe_better_methods(table, chosen)}."


def _describe_better_methods(table: Evaluation, chosen: str) -> str:
    """Describe the methods that are better than the chosen one by a deciding metric, beyond chance."""
    better = [
        f"{name} is better by {' and '.join(metrics)}"
        for name in table.methods
        if name != chosen and (metrics := _find_losing_metrics(table, chosen, name))
    ]
    more = len(better) - _MAX_NAMED_METHODS
    named = ", ".join([*better[:_MAX_NAMED_METHODS], *([f"and {more} more are"] * (more > 0))])
    return f"; but {named}" if better else ""


def _describe_no_candidate(table: Evaluation, n: int) -> str:
    tested = [
        name for name in table.methods if all(table.cell(name, m).value for m in DECIDING_METRICS)
    ]
    both = " and ".join(DECIDING_METRICS)
    if not tested:
        only = [cell for cell in table.data["cells"] if cell["metric"] in DECIDING_METRICS]
        why = (
            describe_failure({**table.data, "cells": only, "agreement": []})
            or "The table says why."
        )
        return f"No method could be tested by both {both} on these {n} examples. {why}"
    if not any(all(table.cell(name, m).enough for m in DECIDING_METRICS) for name in tested):
        most = max(
            value.n
            for name in tested
            for m in DECIDING_METRICS
            if (value := table.cell(name, m).value)
        )
        facts = [row for row in table.data["metrics"] if row["metric"] in DECIDING_METRICS]
        few = describe_too_few(most, len(tested), max(row["needed"] for row in facts))
        return f"No method can be recommended: {few} Give more examples, or compare fewer methods."
    count = len(table.methods)
    who = f"{table.methods[0]} cannot" if count == 1 else f"None of the {count} methods can"
    them = "it" if count == 1 else "any of them"
    return (
        f"{who} be told from random explanations in both {both} on these {n} examples: do not rely "
        f"on {them} here, or test on more examples."
    )
