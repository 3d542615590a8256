"""Which method to use on a model: tested on examples, decided by a rule that is written down here.

1. A candidate beats random explanations by more than chance (Holm-corrected) in comprehensiveness and in sufficiency.
2. It is outdone if another is better than it by more than chance in one of the two, and it is not in the other.
   Of those that are not, the best has the highest mean effect over the two. An effect is the mean gain over random
   explanations, example by example, in units of its spread. The other metrics are there to be seen: leave-one-out has
   `loo_correlation` by definition, and `sensitivity` tells how steady an explanation is, not how true.
3. A candidate cannot be told from the best if the best is not better than it by more than chance in either of them.
4. Of these, the quickest is recommended, by the seconds that each method took alone on an example of the data; those
   that take hardly longer are as quick, and of them it is the one with the larger mean effect. Where nothing was
   timed, the fewest model calls decide. Scores do not depend on time; who is the quickest depends on the machine.

Where there are so few examples that no method could have become a candidate, the answer is how many are needed.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import CannotRead
from whence.core.io import read_json, write_text
from whence.data.sets.examples import collect
from whence.evaluation.evaluation import VERSION, Evaluation
from whence.evaluation.judge import LEVEL
from whence.evaluation.plan import BUDGET, DECIDING, Plan, plan
from whence.evaluation.run import evaluate
from whence.explainer import Explainer, load
from whence.explainer.work import Progress
from whence.report.table.failure import failure
from whence.report.table.power import too_few

if TYPE_CHECKING:
    from rich.console import RenderableType

_NAMED = 3  # methods in a sentence
_AS_QUICK = 1.25  # times as long as the quickest: two runs of one method differ by as much

__all__ = ["Plan", "Recommendation", "plan", "recommend"]


@dataclass(frozen=True, eq=False)
class Recommendation:
    """Which method to use, and why: a sentence, the plan it stands on, and the table behind it."""

    payload: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """The answer."""
        return str(self.payload["sentence"])

    @property
    def method(self) -> str | None:
        """The method to use; None where none beats random explanations."""
        found: str | None = self.payload["method"]
        return found

    @property
    def evaluation(self) -> Evaluation:
        """The table behind it."""
        return Evaluation(self.payload["evaluation"])

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.payload)

    def save(self, path: str | Path) -> Path:
        """Write the recommendation as JSON."""
        return write_text(path, json.dumps(self.payload, ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Recommendation":
        """Read what `save` wrote."""
        payload = read_json(path, "recommendation")
        if not isinstance(payload, dict) or payload.get("kind") != "recommendation":
            raise CannotRead(
                f"{str(path)!r} is not a recommendation. Give a file that save() wrote."
            )
        Evaluation.from_dict(payload.get("evaluation"))
        found = cls(payload)
        try:
            _ = found.sentence, found.method, found.plan
        except (KeyError, TypeError) as error:
            raise CannotRead(
                f"{str(path)!r} is not a recommendation ({type(error).__name__} {error}). Give one that save() wrote."
            ) from None
        return found

    @property
    def plan(self) -> Plan:
        """What was done for it, and what was left out."""
        told = dict(self.payload["plan"])
        for name in ("methods", "metrics", "examples"):
            told[name] = tuple(told[name])
        return Plan(**told)

    def __str__(self) -> str:
        return f"{self.sentence}\n{self.plan}\n\n{self.evaluation}"

    def __repr__(self) -> str:
        return f"<Recommendation {self.method}: {self.sentence}>"

    def __rich__(self) -> "RenderableType":
        from whence.report.table.terminal import answered

        return answered(self.sentence, self.payload["evaluation"], str(self.plan))

    def _repr_html_(self) -> str:
        from whence.report.table import fragment

        return fragment(self.payload["evaluation"], self.sentence, str(self.plan))


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
    announce: Callable[[Plan], None] | None = None,
    progress: Progress | None = None,
) -> Recommendation:
    """Hold methods against each other on a sample, within a budget of forward passes, and say which one to use.

    `explainer`: an `Explainer`, or what `whence.load` takes. `examples`, `text`, `pair` and `label`: as
    `whence.evaluate` takes them. `announce` gets the plan before anything is run.
    """
    given = collect(examples, text=text, pair=pair, label=label)
    explainer = explainer if isinstance(explainer, Explainer) else load(explainer)
    given.refuse_labels(explainer.labels)
    planned = plan(
        explainer, given.examples, budget=budget, methods=methods, params=params, seed=seed
    )
    if announce is not None:
        announce(planned)
    table = evaluate(
        explainer,
        given.choose(planned.examples, seed),
        list(planned.methods),
        list(planned.metrics),
        params={name: value for name, value in (params or {}).items() if _kept(name, planned)},
        seed=seed,
        progress=progress,
    )
    return Recommendation(
        {
            "version": VERSION,
            "kind": "recommendation",
            **decided(table, planned.left_out, planned.seconds),
            "plan": planned.to_dict(),
            "evaluation": table.to_dict(),
        }
    )


def _kept(name: str, planned: Plan) -> bool:
    """Parameters of a method that was left out are left out with it."""
    return name.partition(".")[0] not in planned.left_out


def decided(
    table: Evaluation, left_out: Collection[str] = (), seconds: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Apply the rule to a table; methods that were left out of it are named, as nothing is known of them.

    `seconds` is what each method took on one example, alone.
    """
    n = table.payload["examples"]["explained"]
    candidates = [
        name
        for name in table.methods
        if all(table.cell(name, metric).beats_random for metric in DECIDING)
    ]
    if not candidates:
        said = _nobody(table, n) + _unknown(left_out)
        return {"method": None, "best": None, "equals": [], "sentence": said}
    effects = {name: _mean_effect(table, name) for name in candidates}
    standing = [name for name in candidates if not _outdone(table, name, candidates)] or candidates
    best = max(standing, key=lambda name: effects[name])
    equals = [name for name in standing if name == best or not _worse(table, name, best)]
    calls = {name: _calls(table, name) for name in equals}
    timed = seconds is not None and all(name in seconds for name in equals)
    took = {name: seconds[name] for name in equals} if seconds is not None and timed else calls
    quick = [
        name for name in equals if took[name] <= min(took.values()) * (_AS_QUICK if timed else 1)
    ]
    chosen = max(quick, key=lambda name: effects[name])
    return {
        "method": chosen,
        "best": best,
        "equals": equals,
        "sentence": _sentence(table, chosen, best, candidates, calls, n, took if timed else None)
        + _unknown(left_out),
    }


def _mean_effect(table: Evaluation, method: str) -> float:
    found = [table.cell(method, metric).effect for metric in DECIDING]
    known = [effect for effect in found if effect is not None]
    return sum(known) / len(known)


def _worse(table: Evaluation, method: str, best: str) -> list[str]:
    """Return those of the deciding metrics by which the best is better than a method by more than chance."""
    found = []
    for metric in DECIDING:
        for pair in table.pairs(metric):
            if {pair["a"], pair["b"]} == {method, best} and pair["gain"] is not None:
                gain = pair["gain"]["mean"] * (1 if pair["a"] == best else -1)
                if gain > 0 and pair["p"] < LEVEL:
                    found.append(metric)
    return found


def _outdone(table: Evaluation, method: str, candidates: Sequence[str]) -> bool:
    """Say whether a candidate is better than a method in one of the deciding metrics, and worse in none."""
    return any(
        _worse(table, method, other) and not _worse(table, other, method)
        for other in candidates
        if other != method
    )


def _calls(table: Evaluation, method: str) -> float:
    cost = table.cost[method]
    return sum(one.mean for what in ("forward", "backward") if (one := cost[what]) is not None)


def _sentence(
    table: Evaluation,
    chosen: str,
    best: str,
    candidates: Sequence[str],
    calls: Mapping[str, float],
    n: int,
    took: Mapping[str, float] | None,
) -> str:
    figures = []
    for metric in DECIDING:
        cell = table.cell(chosen, metric)
        assert cell.value is not None and cell.null is not None  # it beats random explanations
        figures.append(f"{metric} {cell.value.mean:.2f} against {cell.null.mean:.2f}")
    said = f"Use {chosen}: on {n} examples it beats random explanations ({', '.join(figures)})"
    others, though = [name for name in calls if name != chosen], _though(table, chosen)
    if len(table.methods) == 1:
        return f"{said}; no other method was tested."
    if len(candidates) == 1:
        return f"{said}, as no other of the {len(table.methods)} methods does in both{though}."
    if not others:
        worse = len(candidates) - 1
        whom = "the other method that does" if worse == 1 else f"each of the other {worse} that do"
        return f"{said} and is better than {whom} by {' or '.join(DECIDING)}{though}."
    if chosen == best:
        whom = f"{len(others)} others" if len(others) > _NAMED else " and ".join(others)
        return (
            f"{said}, has the largest mean effect, cannot be told to be better than {whom}, and takes no more model "
            f"calls than they do, {_price(table, chosen)}{though}."
            if took is None
            else f"{said}, has the largest mean effect, cannot be told to be better than {whom}, and is as quick as "
            f"any of them, {took[chosen]:.2g} s per example{though}."
        )
    if took is not None:
        return (
            f"{said}, cannot be told from the best, {best}, and is quicker, {took[chosen]:.2g} s per example instead "
            f"of {took[best]:.2g} s{though}."
        )
    return (
        f"{said}, cannot be told from the best, {best}, and takes fewer model calls, {_price(table, chosen)} instead "
        f"of {_price(table, best)}{though}."
    )


def _though(table: Evaluation, chosen: str) -> str:
    """Name those that are better by a deciding metric, by more than chance, whatever became of them."""
    better = [
        f"{name} is better by {' and '.join(metrics)}"
        for name in table.methods
        if name != chosen and (metrics := _worse(table, chosen, name))
    ]
    more = f", and {len(better) - _NAMED} more are" if len(better) > _NAMED else ""
    return f"; but {', '.join(better[:_NAMED])}{more}" if better else ""


def _price(table: Evaluation, method: str) -> str:
    seconds = table.cost[method]["seconds"]
    took = "" if seconds is None else f" ({seconds.mean:.2g} s)"
    return f"{_calls(table, method):.3g}{took} per example"


def _nobody(table: Evaluation, n: int) -> str:
    tested = [name for name in table.methods if all(table.cell(name, m).value for m in DECIDING)]
    both = " and ".join(DECIDING)
    if not tested:
        only = [cell for cell in table.payload["cells"] if cell["metric"] in DECIDING]
        why = failure({**table.payload, "cells": only, "agreement": []}) or "The table says why."
        return f"No method could be tested by both {both} on these {n} examples. {why}"
    if not any(all(table.cell(name, m).enough for m in DECIDING) for name in tested):
        most = max(
            value.n for name in tested for m in DECIDING if (value := table.cell(name, m).value)
        )
        facts = [one for one in table.payload["metrics"] if one["metric"] in DECIDING]
        few = too_few(most, len(tested), max(one["needed"] for one in facts))
        return f"No method can be recommended: {few} Give more examples, or compare fewer methods."
    count = len(table.methods)
    who = f"{table.methods[0]} cannot" if count == 1 else f"None of the {count} methods can"
    them = "it" if count == 1 else "any of them"
    return (
        f"{who} be told from random explanations in both {both} on these {n} examples: do not rely "
        f"on {them} here, or test on more examples."
    )


def _unknown(left_out: Collection[str]) -> str:
    if not left_out:
        return ""
    return f" Not tested, as the budget is too small for them: {', '.join(left_out)}."


"""What a recommendation will do, and what it will cost at most, found out before it is done."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from whence.core.errors import BadParameter, InputError, WhenceError
from whence.data.sets.examples import Example, shuffled
from whence.evaluation.run import RANKINGS
from whence.evaluation.timing import Timed, timed
from whence.explainer import Explainer
from whence.explainer.intake import take
from whence.explainer.request import Request, requests
from whence.methods import method
from whence.metrics import metric

BUDGET = 20_000  # forward passes
RULE = (
    "Which methods fit depends on the seconds that each took alone on one example, and so on this machine; the "
    "scores of those that were tested do not."
)
DECIDING = ("comprehensiveness", "sufficiency")
ALWAYS = (*DECIDING, "loo_correlation")
IF_IT_FITS = "sensitivity"

_MOST = 100  # examples; more would tell little more
_FEWEST = 20  # fewer tell little
_SHARES = 5  # of ERASER, in either of the two deciding metrics
_PROBES = 3  # short passes that find out once whether padding is neutral


@dataclass(frozen=True)
class Plan:
    """Which methods will be held against each other, by what, on which examples, and the forward passes at most."""

    methods: tuple[str, ...]
    left_out: Mapping[
        str, int
    ]  # methods too dear, and the forward passes that each example would take
    metrics: tuple[str, ...]
    examples: tuple[int, ...]  # by number
    given: int
    calls: int
    budget: int
    seconds: Mapping[str, float] = field(default_factory=dict)  # of one explanation, as measured

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        return {
            **asdict(self),
            "left_out": dict(self.left_out),
            "seconds": dict(self.seconds),
        }

    def __str__(self) -> str:
        methods = "1 method" if len(self.methods) == 1 else f"{len(self.methods)} methods"
        said = (
            f"{methods} on {len(self.examples)} of {self.given} examples by "
            f"{', '.join(self.metrics)}: at most {self.calls:,} model calls, of a budget of {self.budget:,}."
        )
        if self.left_out:
            dear = ", ".join(
                f"{name} ({calls:,}{self._took(name)})" for name, calls in self.left_out.items()
            )
            said += f" Left out, for what they would take per example: {dear}."
        if self.seconds:
            said += f" {RULE}"
        return said

    def _took(self, name: str) -> str:
        return f" calls, {self.seconds[name]:.2g} s" if name in self.seconds else ""


def plan(
    explainer: Explainer,
    examples: Sequence[Example],
    *,
    budget: int = BUDGET,
    methods: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> Plan:
    """Fit methods and examples into a budget of forward passes.

    Each method is timed on one example first. Those that take the longest are left out until twenty examples fit, or
    all if there are fewer; then so many examples are drawn as fit, up to a hundred. What fits makes no more calls
    than the budget has, and explains no longer than these would take. Making every explanation anew for `sensitivity`
    comes last, if there is room.
    """
    if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
        raise BadParameter(
            f"budget must be a whole number of model calls, at least 1. Got {budget!r}."
        )
    every = [name for name in method.names() if name != "random"]
    asked = requests(every if methods is None else methods, params, explainer.fillers)
    drawn = _lengths(explainer, examples, seed)
    few = drawn[: min(_FEWEST, len(drawn))]
    dear = {r.name: 1 + sum(r.extra_forwards(n) for _, n in few) / len(few) for r in asked}
    times = _timed(explainer, asked, examples, few)
    took, allowed = times.methods, budget * times.forward

    def fits(some: Sequence[Request], chosen: Sequence[tuple[int, int]]) -> bool:
        seconds = len(chosen) * sum(took.get(one.name, 0.0) for one in some)
        return times.calls + _calls(some, chosen) <= budget and seconds <= allowed

    kept = sorted(asked, key=lambda one: (took.get(one.name, 0.0), dear[one.name]))
    while len(kept) > 1 and not fits(kept, few):
        kept.pop()
    if (least := times.calls + _calls(kept, few)) > budget:
        raise BadParameter(
            f"A budget of {budget:,} model calls is too small: {kept[0].name} alone on {len(few)} examples takes "
            f"{least:,}. Give at least that."
        )
    most = range(min(_MOST, len(drawn)), 0, -1)
    # A single method that is slow is tested all the same, on as few examples as tell anything.
    count = next((n for n in most if fits(kept, drawn[:n])), len(few))
    chosen = drawn[:count]
    calls = times.calls + _calls(kept, chosen)
    metrics: tuple[str, ...] = ALWAYS
    anew = _anew(kept, chosen)
    if anew is not None and calls + anew <= budget:
        metrics, calls = (*ALWAYS, IF_IT_FITS), calls + anew
    names = {request.name for request in kept}
    return Plan(
        tuple(request.name for request in asked if request.name in names),
        {name: round(calls) for name, calls in dear.items() if name not in names},
        metrics,
        tuple(sorted(number for number, _ in chosen)),
        len(examples),
        calls,
        budget,
        took,
    )


def _timed(
    explainer: Explainer,
    asked: Sequence[Request],
    examples: Sequence[Example],
    few: Sequence[tuple[int, int]],
) -> Timed:
    """Time the methods on the example of middle length; one that the model cannot take gives way to the next."""
    middle = sorted(tokens for _, tokens in few)[len(few) // 2]
    for number, tokens in sorted(few, key=lambda one: abs(one[1] - middle)):
        try:
            return timed(explainer, asked, examples[number].given, tokens)
        except WhenceError:  # the table will say why it cannot be explained
            continue
    return Timed(0.0, {}, 0)


def _lengths(explainer: Explainer, examples: Sequence[Example], seed: int) -> list[tuple[int, int]]:
    """Draw examples that can be read, as many as could be wanted: their numbers, and how many tokens they have."""
    found: list[tuple[int, int]] = []
    error: InputError | None = None
    for number in shuffled(examples, seed):
        if len(found) == _MOST:
            break
        try:
            (item,), _ = take([examples[number].given], explainer.loaded, truncate=True)
            found.append((number, len(item)))
        except InputError as wrong:
            error = wrong
    if error is not None and not found:
        raise error
    return found


def _calls(asked: Sequence[Request], chosen: Sequence[tuple[int, int]]) -> int:
    """Return the forward passes at most: explaining, each explanation's shares, and one for each token left out."""
    # Each method is first tried alone on one of them, whichever comes first: at most the longest.
    longest = max((tokens for _, tokens in chosen), default=0)
    total = _PROBES + len(asked) + sum(request.extra_forwards(longest) for request in asked)
    for _, tokens in chosen:
        own = sum(request.extra_forwards(tokens) for request in asked)
        shares = 2 * _SHARES * (len(asked) + RANKINGS)
        total += 1 + own + shares + tokens + 1
    return total


def _anew(asked: Sequence[Request], chosen: Sequence[tuple[int, int]]) -> int | None:
    """Return the forward passes of explaining again as often as `sensitivity` does."""
    if IF_IT_FITS not in metric.names():
        return None
    entry = metric.get(IF_IT_FITS)
    times = int(
        entry.facts["again"](0, {name: one.default for name, one in entry.parameters.items()})
    )
    each = sum(len(asked) + sum(r.extra_forwards(t) for r in asked) for _, t in chosen)
    return times * each
