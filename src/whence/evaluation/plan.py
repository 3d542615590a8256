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
