"""Rules of the trust card: the tests, their thresholds, and how a value becomes a verdict.

All thresholds were fixed before any result was seen. There are two kinds of rule. Against random rankings
of the same input, an explanation holds if at most 5% of them do as well and is weak if at most 25% do.
Where a property is measured directly, the bounds are on the measure itself. The overall verdict is never
better than the worst main test (deletion, sufficiency); axioms (completeness, conservation) do not count
against a method.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from whence.stats.intervals import Percentile

Verdict = Literal["holds", "weak", "fails", "not tested"]

# With fewer random rankings, beating all of them is not yet significant at 5%.
MIN_RANKINGS = 20
# The bars of holds and of weak.
CHANCE = 0.05, 0.25  # share of random rankings that do as well or better
NOISE = 0.25, 0.5  # change under noise, relative to the change to an unrelated explanation
RANDOMISED = 0.3, 0.6  # rank correlation with the explanation of a randomised model
OTHER_CLASS = 0.5, 0.9  # rank correlation between the explanations of two classes
RESIDUAL = 0.01, 0.1  # residual of an axiom, relative to the explained output
SAME_RANKING = 0.999  # rank correlation from which on rankings are equal, however short the text


def _grade(value: float, bars: tuple[float, float]) -> Verdict:
    return "holds" if value <= bars[0] else "weak" if value <= bars[1] else "fails"


@dataclass(frozen=True)
class Measurement:
    """The figures of one test, before the verdict."""

    value: float
    null: "NullSummary | None"
    percentile: Percentile | None
    chance: float | None = None  # share of random explanations that do as well or better
    exhaustive: bool = False  # whether the null holds all possible rankings
    subject: str = "the probability"  # name of the measured output

    def to_dict(self, *, ranked: bool) -> dict[str, Any]:
        """Return the figures as in the card's JSON object, with the place among random ones if it is `ranked`."""
        place = self.percentile if ranked else None
        return {
            "value": self.value,
            "null": self.null and asdict(self.null),
            "percentile": place and place.percent,
            "interval": place and [place.low, place.high],
            "beaten": place and place.beaten,
            "tied": place and place.tied,
            "of": place and place.of,
            "chance": self.chance if ranked else None,
        }


@dataclass(frozen=True)
class NullSummary:
    """The results of random explanations: their mean, and the range of 95 of 100."""

    mean: float
    low: float
    high: float


Judge = Callable[[Measurement], tuple[Verdict, str]]


@dataclass(frozen=True)
class VerdictRule:
    """The rule of one test: its question, its metric, and the meanings of its verdicts."""

    name: str
    metric: str
    question: str
    bounds: tuple[str, str, str]  # what holds, weak and fails mean
    judge: Judge = field(repr=False)
    params: Mapping[str, Any] = field(default_factory=dict)
    removes: bool = False  # whether the test removes features

    def to_dict(self) -> dict[str, str]:
        """Return the rule as in the card's JSON object."""
        facts = {"name": self.name, "metric": self.metric, "question": self.question}
        return facts | dict(zip(("holds", "weak", "fails"), self.bounds, strict=True))


def _build_random_judge(what: str) -> Judge:
    def judge(test: Measurement) -> tuple[Verdict, str]:
        place, chance = test.percentile, test.chance
        if place is None or chance is None:
            return "not tested", "There are no random rankings to compare with."
        verdict = _grade(chance, CHANCE)
        others = f"all {place.of} rankings" if test.exhaustive else f"{place.of} random rankings"
        only = "only " if verdict == "fails" else ""
        sentence = f"{what.format(test.subject)} {only}{place.beaten} of {others} do"
        # All rankings include the explanation's own.
        tied = place.tied - test.exhaustive
        as_well = f"; {tied} {'does' if tied == 1 else 'do'} exactly as well" if tied > 0 else ""
        missed = f"; to hold, at most {CHANCE[0]:.0%} of them may do as well"
        return verdict, f"{sentence}{as_well}{missed if verdict == 'weak' else ''}."

    return judge


_AGREES = "agrees by {:+.2f} (1 is the same, 0 unrelated)"
_TOO_SHORT_NOTE = "The input is too short to tell: unrelated rankings of it agree by up to {:.2f}."


def _judge_stability(test: Measurement) -> tuple[Verdict, str]:
    if test.null is None or test.null.mean == 0:
        return "not tested", "There is nothing to compare the change with."
    part = test.value / test.null.mean
    return _grade(part, NOISE), (
        f"Noise that does not change the prediction changes the scores by up to {test.value:.0%}, {part:.0%} as "
        "much as dealing them out anew."
    )


def _judge_randomisation(test: Measurement) -> tuple[Verdict, str]:
    high = RANDOMISED[0] if test.null is None else test.null.high
    verdict = _grade(test.value, RANDOMISED)
    too_short = verdict != "holds" and test.value <= high
    if (high > RANDOMISED[1] and test.value < SAME_RANKING) or too_short:
        return "not tested", _TOO_SHORT_NOTE.format(high)
    meaning = {
        "holds": "it comes from what the model has learnt",
        "weak": "a part of it does not come from what the model has learnt",
        "fails": "it hardly comes from what the model has learnt",
    }[verdict]
    agrees = _AGREES.format(test.value)
    return verdict, f"As the weights are made random, the ranking {agrees}: {meaning}."


def _judge_class_sensitivity(test: Measurement) -> tuple[Verdict, str]:
    if test.null is not None and test.null.high >= OTHER_CLASS[1] and test.value < SAME_RANKING:
        return "not tested", _TOO_SHORT_NOTE.format(test.null.high)
    verdict = _grade(test.value, OTHER_CLASS)
    meaning = {
        "holds": "the two are told apart",
        "weak": "the two are much alike",
        "fails": "whichever class is asked about, the answer is the same",
    }[verdict]
    agrees = _AGREES.format(test.value)
    return verdict, f"Asked about another class, the ranking {agrees}: {meaning}."


def _build_residual_judge(sentence: str) -> Judge:
    return lambda test: (_grade(test.value, RESIDUAL), sentence.format(test.value))


def _describe_bars(bars: tuple[float, float], *meanings: str) -> tuple[str, str, str]:
    """Return what holds, weak and fails mean, each with its bar."""
    holds, weak, fails = meanings
    return holds.format(bars[0]), weak.format(bars[1]), fails.format(bars[1])


_RANDOM_MEANINGS = _describe_bars(
    CHANCE,
    "at most {:.0%} of random rankings do as well",
    "at most {:.0%} do",
    "more than {:.0%} do",
)
_AXIOM_MEANINGS = _describe_bars(
    RESIDUAL, "off by at most {:.0%}", "off by at most {:.0%}", "off by more than {:.0%}"
)
_CORRELATION_MEANINGS = ("rank correlation at most {:g}", "at most {:g}", "more than {:g}")
REMOVAL_STEPS = 10  # steps of deletion and sufficiency: tenths of the tokens
# Kept shares are rounded down: deletion removes the complement, and both tests share their queries.
_KEPT_SHARES = ",".join(f"{step / REMOVAL_STEPS:g}" for step in range(REMOVAL_STEPS))

MAIN_TESTS = ("deletion", "sufficiency")  # a method fails if one of these does
AXIOM_TESTS = frozenset({"completeness", "conservation"})

VERDICT_RULES: tuple[VerdictRule, ...] = (
    VerdictRule(
        "deletion",
        "deletion",
        "Does the probability fall when the tokens it points at are removed?",
        _RANDOM_MEANINGS,
        _build_random_judge("Removing what it points at lowers {} more than"),
        params={"steps": REMOVAL_STEPS},
        removes=True,
    ),
    VerdictRule(
        "sufficiency",
        "sufficiency",
        "Do the tokens it points at keep the probability up, alone?",
        _RANDOM_MEANINGS,
        _build_random_judge("What it points at, alone, keeps {} higher than"),
        params={"bins": _KEPT_SHARES, "rounding": "down"},
        removes=True,
    ),
    VerdictRule(
        "leave_one_out",
        "loo_correlation",
        "Does it rank the tokens as removing them one at a time does?",
        _RANDOM_MEANINGS,
        _build_random_judge("It agrees with leave-one-out more than"),
        removes=True,
    ),
    VerdictRule(
        "stability",
        "sensitivity",
        "Does it stay the same under noise that does not change the prediction?",
        _describe_bars(
            NOISE,
            "moves at most {:.0%} as far as an unrelated explanation is away",
            "at most {:.0%}",
            "more than {:.0%}",
        ),
        _judge_stability,
    ),
    VerdictRule(
        "randomisation",
        "randomisation",
        "Does it change when the model's weights are replaced by random ones?",
        _describe_bars(RANDOMISED, *_CORRELATION_MEANINGS),
        _judge_randomisation,
    ),
    VerdictRule(
        "class_sensitivity",
        "class_sensitivity",
        "Is the explanation of another class a different one?",
        _describe_bars(OTHER_CLASS, *_CORRELATION_MEANINGS),
        _judge_class_sensitivity,
    ),
    VerdictRule(
        "completeness",
        "completeness",
        "Do the scores add up to what they explain, as the method promises?",
        _AXIOM_MEANINGS,
        _build_residual_judge("The scores miss what they should add up to by {:.1%} of it."),
    ),
    VerdictRule(
        "conservation",
        "conservation",
        "Is nothing lost or made up on the way through the layers, as the method promises?",
        _AXIOM_MEANINGS,
        _build_residual_judge(
            "At the worst layer, {:.1%} of what was given out is lost or made up."
        ),
    ),
)


def judge_method(verdicts: Mapping[str, Verdict]) -> Verdict:
    """Return the verdict on a method from those of its tests.

    The overall verdict is never better than that of the worst main test. It fails if a main test, deletion or
    sufficiency, fails, or if the ranking stays the same with random weights; it holds if both main tests hold and no
    other test of its behaviour fails; without either of them it is not tested; all else is weak. Axioms do not count
    against a method: scores that do not add up may still point at the right tokens.
    """
    main = {verdicts.get(name, "not tested") for name in MAIN_TESTS}
    if "fails" in main or verdicts.get("randomisation") == "fails":
        return "fails"
    if main == {"not tested"}:
        return "not tested"
    failed = {name for name, verdict in verdicts.items() if verdict == "fails"} - AXIOM_TESTS
    return "holds" if main == {"holds"} and not failed else "weak"


def to_patch_wording(sentence: str) -> str:
    """Replace "token" by "patch" in a sentence for images; the sentence must hold no user text."""
    return sentence.replace("tokens", "patches").replace("token", "patch")
