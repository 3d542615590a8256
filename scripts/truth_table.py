"""Which method recovers the truth: every method on every truth model, judged by one rule.

A sentence is *recovered* if every word that counts scores higher, by size, than every word that does not. Scores that
differ by less than rounding can explain are equal. Special tokens are not judged. The *signs* are judged apart, for
methods that have signs and words that have one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import comb
from statistics import median

import whence
from whence.core.registry import Entry
from whence.explainer.explanation import Explanation
from whence.methods import method
from whence.models import builtin_folder

MODELS = (
    *("decoy", "conjunction", "negation", "copy"),
    *("redundancy", "saturation", "damper", "spotlight"),
)
DECOY_SENTENCES = (
    "the decoy film is great",
    "decoy a good movie",
    "the movie is superb decoy",
    "a film the decoy is awful",
    "the dreadful decoy movie",
    "a superb film but the decoy is dull",
)
# A difference smaller than this part of what is usual for the method is rounding. In float64 those came out below
# 1e-13, and real ones above 1e-6.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Case:
    """A sentence, and the words of it that count: 1 if they speak for positive, -1 against, 0 if either."""

    text: str
    evidence: dict[str, int]

    @property
    def chance(self) -> float:
        """How likely scores drawn at random recover the sentence."""
        words = self.text.split()
        return 1 / comb(len(words), sum(word in self.evidence for word in words))


@dataclass(frozen=True)
class Verdict:
    """How often one method was right about one model."""

    recovered: int
    sentences: int
    right_signs: int
    signs: int


Verdicts = dict[str, dict[str, Verdict]]  # by method and model


def cases(model: str) -> list[Case]:
    """The sentences on which a truth model is judged."""
    truth = json.loads((builtin_folder(model) / "truth.json").read_text(encoding="utf-8"))
    if model != "decoy":
        return [Case(s["text"], s["evidence"]) for s in truth["sentences"]]
    strength = truth["evidence"]
    return [
        Case(text, {w: 1 if strength[w] > 0 else -1 for w in text.split() if w in strength})
        for text in DECOY_SENTENCES
    ]


def recovers(found: Explanation, case: Case, rounding: float) -> bool:
    """Say whether every word that counts stands above every word that does not."""
    size = [(abs(word.score), word.text in case.evidence) for word in found.words()]
    idle = max((score for score, counts in size if not counts), default=0.0)
    return min(score for score, counts in size if counts) > idle + rounding


def right_signs(found: Explanation, case: Case, rounding: float) -> list[bool]:
    """Say of each word that has a sign whether the method gives it; what is explained is the prediction."""
    if not found.signed:
        return []
    towards = 1 if found.target.label == "positive" else -1
    signs = [(word.score, case.evidence.get(word.text, 0)) for word in found.words()]
    return [score * sign * towards > rounding for score, sign in signs if sign]


def usual(found: Iterable[Explanation]) -> float:
    """The size of a method's scores: the median over all texts of the largest."""
    return median(float(abs(one.scores).max()) for one in found)


def judgements() -> Verdicts:
    """The verdicts by method and model."""
    judged = {model: cases(model) for model in MODELS}
    explainers = {model: whence.load(model, dtype="float64") for model in MODELS}
    verdicts: Verdicts = {}
    for name in method.names():
        found = {
            model: explainers[model].explain([case.text for case in judged[model]], method=name)
            for model in MODELS
        }
        rounding = ROUNDING * usual(one for ones in found.values() for one in ones)
        verdicts[name] = {}
        for model in MODELS:
            pairs = list(zip(found[model], judged[model], strict=True))
            signs = [right for one, case in pairs for right in right_signs(one, case, rounding)]
            recovered = sum(recovers(one, case, rounding) for one, case in pairs)
            verdicts[name][model] = Verdict(recovered, len(pairs), sum(signs), len(signs))
    return verdicts


def table(rows: Iterable[tuple[Entry | str, Iterable[str]]]) -> str:
    """A table with a column per model."""
    models = [f"`{model}`" for model in MODELS]
    lines = ["| " + " | ".join(["method", "family", *models, "all"]) + " |"]
    lines.append("|---|---|" + "---:|" * (len(models) + 1))
    for who, cells in rows:
        named = (f"*{who}*", "") if isinstance(who, str) else (f"`{who.name}`", who.facts["family"])
        lines.append("| " + " | ".join([*named, *cells]) + " |")
    return "\n".join(lines)


def counted(counts: list[tuple[int, int]]) -> list[str]:
    """How many out of how many, and the sum; bold where none is missing."""
    counts = [*counts, (sum(right for right, _ in counts), sum(n for _, n in counts))]
    return [f"**{right}/{n}**" if right == n else f"{right}/{n}" for right, n in counts]


def tables(verdicts: Verdicts) -> str:
    """The two tables of docs/science/truth.md: by family, and what knows nothing last."""
    entries = sorted(
        method,
        key=lambda entry: (entry.facts["family"] == "baseline", entry.facts["family"], entry.name),
    )
    places: list[tuple[Entry | str, list[str]]] = [
        (entry, counted([(v.recovered, v.sentences) for v in verdicts[entry.name].values()]))
        for entry in entries
    ]
    expected = [sum(case.chance for case in cases(model)) for model in MODELS]
    places.append(("expected of chance", [f"{n:.1f}" for n in (*expected, sum(expected))]))
    signs = [
        (entry, counted([(v.right_signs, v.signs) for v in verdicts[entry.name].values()]))
        for entry in entries
        if entry.facts["signed"]
    ]
    return "\n\n".join(
        (
            "Sentences in which every word that counts stands above every word that does not:",
            table(places),
            "Words whose sign is right, for the methods that have signs:",
            table(signs),
        )
    )


def markdown() -> str:
    """Judge all methods, and return the tables."""
    return tables(judgements())
