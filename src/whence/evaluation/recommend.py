"""Which method to use on a model: tested on examples, decided by a rule that is written down here.

1. A candidate beats random explanations by more than chance (Holm-corrected) in comprehensiveness and in sufficiency.
2. The best candidate has the highest mean effect over all metrics that were run but `loo_correlation`, which is there
   to be seen: leave-one-out has it by definition. An effect is the mean gain over random explanations, example by
   example, in units of its spread.
3. A candidate cannot be told from the best if the best is not better than it by more than chance in any of these.
4. Of these, the one with the fewest model calls is recommended; between equals, the one with the larger mean effect.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import CannotRead
from whence.core.io import read_json, write_text
from whence.data.examples import examples as read
from whence.evaluation.evaluation import VERSION, Evaluation
from whence.evaluation.judge import LEVEL
from whence.evaluation.plan import BUDGET, DECIDING, Plan, plan
from whence.evaluation.run import evaluate
from whence.explainer import Explainer
from whence.explainer.work import Progress

if TYPE_CHECKING:
    from rich.console import RenderableType

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
        payload = read_json(path)
        if not isinstance(payload, dict) or payload.get("kind") != "recommendation":
            raise CannotRead(
                f"{str(path)!r} is not a recommendation. Give a file that save() wrote."
            )
        Evaluation.from_dict(payload.get("evaluation"))
        return cls(payload)

    def __str__(self) -> str:
        return f"{self.sentence}\n\n{self.evaluation}"

    def __repr__(self) -> str:
        return f"<Recommendation {self.method}: {self.sentence}>"

    def __rich__(self) -> "RenderableType":
        from whence.report.table.terminal import answered

        return answered(self.sentence, self.payload["evaluation"])

    def _repr_html_(self) -> str:
        from whence.report.table import fragment

        return fragment(self.payload["evaluation"], self.sentence)


def recommend(
    explainer: Explainer,
    examples: Any,
    *,
    budget: int = BUDGET,
    methods: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    seed: int = 0,
    announce: Callable[[Plan], None] | None = None,
    progress: Progress | None = None,
) -> Recommendation:
    """Hold methods against each other on a sample, within a budget of forward passes, and say which one to use.

    `announce` gets the plan before anything is run.
    """
    given = read(examples)
    planned = plan(explainer, given, budget=budget, methods=methods, params=params, seed=seed)
    if announce is not None:
        announce(planned)
    table = evaluate(
        explainer,
        [given[number] for number in planned.examples],
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
            **decided(table),
            "plan": planned.to_dict(),
            "evaluation": table.to_dict(),
        }
    )


def _kept(name: str, planned: Plan) -> bool:
    """Parameters of a method that was left out are left out with it."""
    return name.partition(".")[0] not in planned.left_out


def decided(table: Evaluation) -> dict[str, Any]:
    """Apply the rule to a table."""
    n = table.payload["examples"]["explained"]
    candidates = [
        name
        for name in table.methods
        if all(table.cell(name, metric).beats_random for metric in DECIDING)
    ]
    if not candidates:
        return {"method": None, "best": None, "equals": [], "sentence": _nobody(table, n)}
    effects = {name: _mean_effect(table, name) for name in candidates}
    best = max(candidates, key=lambda name: effects[name])
    equals = [name for name in candidates if name == best or not _worse(table, name, best)]
    calls = {name: _calls(table, name) for name in equals}
    chosen = min(equals, key=lambda name: (calls[name], -effects[name]))
    return {
        "method": chosen,
        "best": best,
        "equals": equals,
        "sentence": _sentence(table, chosen, best, calls, n),
    }


def _counting(table: Evaluation) -> list[str]:
    return [metric for metric in table.metrics if metric != "loo_correlation"]


def _mean_effect(table: Evaluation, method: str) -> float:
    found = [table.cell(method, metric).effect for metric in _counting(table)]
    known = [effect for effect in found if effect is not None]
    return sum(known) / len(known)


def _worse(table: Evaluation, method: str, best: str) -> bool:
    """Say whether the best is better than a method by more than chance, in any metric that counts."""
    for metric in _counting(table):
        for pair in table.pairs(metric):
            if {pair["a"], pair["b"]} == {method, best} and pair["gain"] is not None:
                gain = pair["gain"]["mean"] * (1 if pair["a"] == best else -1)
                if gain > 0 and pair["p"] < LEVEL:
                    return True
    return False


def _calls(table: Evaluation, method: str) -> float:
    cost = table.cost[method]
    return sum(one.mean for what in ("forward", "backward") if (one := cost[what]) is not None)


def _sentence(table: Evaluation, chosen: str, best: str, calls: Mapping[str, float], n: int) -> str:
    figures = []
    for metric in DECIDING:
        cell = table.cell(chosen, metric)
        assert cell.value is not None and cell.null is not None  # it beats random explanations
        figures.append(f"{metric} {cell.value.mean:.2f} against {cell.null.mean:.2f}")
    said = f"Use {chosen}: on {n} examples it beats random explanations ({', '.join(figures)})"
    if chosen == best and len(calls) == 1:
        return f"{said} and is better than every other method."
    if chosen == best:
        others = [name for name in calls if name != chosen]
        return f"{said}, no method is better, and none of its equals ({', '.join(others)}) takes fewer model calls."
    return (
        f"{said}, cannot be told from the best, {best}, and takes {calls[chosen]:.3g} model calls per example "
        f"instead of {calls[best]:.3g}."
    )


def _nobody(table: Evaluation, n: int) -> str:
    count = len(table.methods)
    who = f"{table.methods[0]} cannot" if count == 1 else f"None of the {count} methods can"
    return (
        f"{who} be told from random explanations in both {' and '.join(DECIDING)} on these {n} examples: do not rely "
        "on any of them here, or test on more examples."
    )
