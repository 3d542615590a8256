"""What is tested, and what counts as holding. Every threshold stands here, and stood here before any result.

Two kinds of rule. Where random rankings of the same input say what knowing nothing achieves, an explanation must beat
them: chance may do as well one time in twenty, the customary bar, or at least no more than one time in four. Where a
property is measured directly, bounds are put on the measure itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from whence.stats.interval import Percentile

Verdict = Literal["holds", "weak", "fails", "not tested"]

# With fewer random rankings than this, beating all of them is not yet one chance in twenty.
FEWEST_RANKINGS = 20
UNLIKELY, POSSIBLE = 0.05, 0.25  # how often knowing nothing does as well or better
STEADY, SHAKY = 0.25, 0.5  # change under noise, in parts of the change to an unrelated explanation
SAME = 0.999  # a rank correlation that no text is too short for
CHANGED, UNCHANGED = 0.3, 0.6  # rank correlation with the explanation of a randomised model
APART, ALIKE = 0.5, 0.9  # rank correlation between the explanations of two classes
EXACT, ROUGH = 0.01, 0.1  # residual of an axiom, in parts of what is explained


@dataclass(frozen=True)
class Found:
    """The figures of one test, before they are judged."""

    value: float
    null: "Null | None"
    percentile: Percentile | None
    chance: float | None = None  # how often explanations that know nothing do as well or better
    exhaustive: bool = False  # whether these are all the rankings there are
    subject: str = "the probability"  # what is measured


@dataclass(frozen=True)
class Null:
    """What explanations that know nothing get: the mean, and where 95 of 100 of them lie."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Bounds:
    """What the verdicts of a test mean, in words."""

    holds: str
    weak: str
    fails: str


@dataclass(frozen=True)
class Rule:
    """One test: its question, the metric that answers it, and what its verdicts mean."""

    name: str
    metric: str
    question: str
    bounds: Bounds
    judge: Callable[[Found], tuple[Verdict, str]] = field(repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    removes: bool = False  # whether the kind of removal matters

    def to_dict(self) -> dict[str, str]:
        """Return what a reader of the card must know."""
        return {
            "name": self.name,
            "metric": self.metric,
            "question": self.question,
            **asdict(self.bounds),
        }


def _against_random(what: str) -> Callable[[Found], tuple[Verdict, str]]:
    def judge(found: Found) -> tuple[Verdict, str]:
        place, chance = found.percentile, found.chance
        if place is None or chance is None:
            return "not tested", "There are no random rankings to compare with."
        verdict: Verdict = (
            "holds" if chance <= UNLIKELY else "weak" if chance <= POSSIBLE else "fails"
        )
        others = f"all {place.of} rankings" if found.exhaustive else f"{place.of} random rankings"
        only = "only " if verdict == "fails" else ""
        said = f"{what.format(found.subject)} {only}{place.beaten} of {others} do"
        # Among all rankings there is the explanation's own.
        tied = place.tied - found.exhaustive
        as_well = f"; {tied} {'does' if tied == 1 else 'do'} exactly as well" if tied > 0 else ""
        missed = f"; to hold, at most {UNLIKELY:.0%} of them may do as well"
        return verdict, f"{said}{as_well}{missed if verdict == 'weak' else ''}."

    return judge


_TOO_SHORT = "The input is too short to tell: unrelated rankings of it agree by up to {:.2f}."


def _stability(found: Found) -> tuple[Verdict, str]:
    if found.null is None or found.null.mean == 0:
        return "not tested", "There is nothing to compare the change with."
    part = found.value / found.null.mean
    verdict: Verdict = "holds" if part <= STEADY else "weak" if part <= SHAKY else "fails"
    said = (
        f"Noise that does not change the prediction changes the scores by up to {found.value:.0%}, {part:.0%} as "
        "much as dealing them out anew."
    )
    return verdict, said


def _randomisation(found: Found) -> tuple[Verdict, str]:
    high = CHANGED if found.null is None else found.null.high
    if high > UNCHANGED and found.value < SAME:
        return "not tested", _TOO_SHORT.format(high)
    said = f"As the weights are made random, the ranking {_alike(found.value)}"
    if found.value <= CHANGED:
        return "holds", f"{said}: it comes from what the model has learnt."
    if found.value <= high:
        return "not tested", _TOO_SHORT.format(high)
    if found.value <= UNCHANGED:
        return "weak", f"{said}: a part of it does not come from what the model has learnt."
    return "fails", f"{said}: it hardly comes from what the model has learnt."


def _class_sensitivity(found: Found) -> tuple[Verdict, str]:
    if found.null is not None and found.null.high >= ALIKE and found.value < SAME:
        return "not tested", _TOO_SHORT.format(found.null.high)
    said = f"Asked about another class, the ranking {_alike(found.value)}"
    if found.value <= APART:
        return "holds", f"{said}: the two are told apart."
    if found.value <= ALIKE:
        return "weak", f"{said}: the two are much alike."
    return "fails", f"{said}: whichever class is asked about, the answer is the same."


def _alike(correlation: float) -> str:
    return f"agrees by {correlation:+.2f} (1 is the same, 0 unrelated)"


def _completeness(found: Found) -> tuple[Verdict, str]:
    return _off(
        found.value
    ), f"The scores miss what they should add up to by {found.value:.1%} of it."


def _conservation(found: Found) -> tuple[Verdict, str]:
    return _off(
        found.value
    ), f"At the worst layer, {found.value:.1%} of what was given out is lost or made up."


def _off(residual: float) -> Verdict:
    return "holds" if residual <= EXACT else "weak" if residual <= ROUGH else "fails"


_RANDOM = Bounds(
    holds=f"at most {UNLIKELY:.0%} of random rankings do as well",
    weak=f"at most {POSSIBLE:.0%} do",
    fails=f"more than {POSSIBLE:.0%} do",
)
_AXIOM = Bounds(
    holds=f"off by at most {EXACT:.0%}",
    weak=f"off by at most {ROUGH:.0%}",
    fails=f"off by more than {ROUGH:.0%}",
)
STEPS = 10  # of deletion and sufficiency: tenths of the tokens
# Of what is kept, rounded down: what is missing is then what deletion removes, and both ask the same questions.
_TENTHS = ",".join(f"{step / STEPS:g}" for step in range(STEPS))

MAIN = ("deletion", "sufficiency")  # a method fails if one of these does
AXIOMS = frozenset({"completeness", "conservation"})

RULES: tuple[Rule, ...] = (
    Rule(
        "deletion",
        "deletion",
        "Does the probability fall when the tokens it points at are removed?",
        _RANDOM,
        _against_random("Removing what it points at lowers {} more than"),
        params={"steps": STEPS},
        removes=True,
    ),
    Rule(
        "sufficiency",
        "sufficiency",
        "Do the tokens it points at keep the probability up, alone?",
        _RANDOM,
        _against_random("What it points at, alone, keeps {} higher than"),
        params={"bins": _TENTHS, "rounding": "down"},
        removes=True,
    ),
    Rule(
        "leave_one_out",
        "loo_correlation",
        "Does it rank the tokens as removing them one at a time does?",
        _RANDOM,
        _against_random("It agrees with leave-one-out more than"),
        removes=True,
    ),
    Rule(
        "stability",
        "sensitivity",
        "Does it stay the same under noise that does not change the prediction?",
        Bounds(
            holds=f"moves at most {STEADY:.0%} as far as an unrelated explanation is away",
            weak=f"at most {SHAKY:.0%}",
            fails=f"more than {SHAKY:.0%}",
        ),
        _stability,
    ),
    Rule(
        "randomisation",
        "randomisation",
        "Does it change when the model's weights are replaced by random ones?",
        Bounds(
            holds=f"rank correlation at most {CHANGED:g}",
            weak=f"at most {UNCHANGED:g}",
            fails=f"more than {UNCHANGED:g}",
        ),
        _randomisation,
    ),
    Rule(
        "class_sensitivity",
        "class_sensitivity",
        "Is the explanation of another class a different one?",
        Bounds(
            holds=f"rank correlation at most {APART:g}",
            weak=f"at most {ALIKE:g}",
            fails=f"more than {ALIKE:g}",
        ),
        _class_sensitivity,
    ),
    Rule(
        "completeness",
        "completeness",
        "Do the scores add up to what they explain, as the method promises?",
        _AXIOM,
        _completeness,
    ),
    Rule(
        "conservation",
        "conservation",
        "Is nothing lost or made up on the way through the layers, as the method promises?",
        _AXIOM,
        _conservation,
    ),
)


def overall(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Judge a method by its tests: what it points at must matter, and must come from the model.

    The overall verdict is never better than that of the worst main test. It fails if a main test, deletion or
    sufficiency, fails, or if the ranking stays the same with random weights; it holds if both main tests hold and no
    other test of its behaviour fails; without either of them it is not tested; all else is weak. Axioms are not held
    against it: what does not add up may still point at the right tokens.
    """
    main = {verdicts.get(name, "not tested") for name in MAIN}
    if "fails" in main or verdicts.get("randomisation") == "fails":
        return "fails"
    if main == {"not tested"}:
        return "not tested"
    failed = {name for name, verdict in verdicts.items() if verdict == "fails"} - AXIOMS
    return "holds" if main == {"holds"} and not failed else "weak"
