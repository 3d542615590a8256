"""Judgement of every method on the truth models: words that count recovered, signs right; results stored.

    python -m bench.science.truth

writes `bench/results/truth.json`; `make docs` makes the tables of it.

A sentence is *recovered* if every word that counts scores higher, by size, than every word that does not. Scores that
differ by less than rounding can explain are equal. Special tokens are not judged. The *signs* are judged apart, for
methods that have signs and words that have one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

import torch

import whence
from whence.core.files import write_text
from whence.explain.explanation import Explanation
from whence.methods import method
from whence.models.model_files import find_builtin_folder

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "bench" / "results" / "truth.json"
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
    """A sentence, and its words that count: 1 if they speak for positive, -1 against, 0 if either."""

    text: str
    evidence: dict[str, int]

    @property
    def chance(self) -> float:
        """Probability that random scores recover the sentence."""
        words = self.text.split()
        return 1 / comb(len(words), sum(word in self.evidence for word in words))


@dataclass(frozen=True)
class Verdict:
    """Counts of one method's right answers on one model."""

    recovered: int
    sentences: int
    right_signs: int
    signs: int


@dataclass(frozen=True)
class Judgement:
    """One method: its verdicts by model, and the axioms whose residuals its explanations carry."""

    models: dict[str, Verdict]
    axioms: tuple[str, ...]


Verdicts = dict[str, Judgement]  # by method


def list_cases(model: str) -> list[Case]:
    """Return the sentences on which a truth model is judged."""
    truth = json.loads((find_builtin_folder(model) / "truth.json").read_text(encoding="utf-8"))
    if model != "decoy":
        return [Case(s["text"], s["evidence"]) for s in truth["sentences"]]
    strength = truth["evidence"]
    return [
        Case(text, {w: 1 if strength[w] > 0 else -1 for w in text.split() if w in strength})
        for text in DECOY_SENTENCES
    ]


def is_recovered(found: Explanation, case: Case, rounding: float) -> bool:
    """Return whether every word that counts has a higher score than every word that does not."""
    size = [(abs(word.score), word.text in case.evidence) for word in found.words()]
    idle = max((score for score, counts in size if not counts), default=0.0)
    return min(score for score, counts in size if counts) > idle + rounding


def check_signs(found: Explanation, case: Case, rounding: float) -> list[bool]:
    """Return, for each word with a sign, whether the scores have it; the prediction is explained."""
    if not found.signed:
        return []
    towards = 1 if found.target.label == "positive" else -1
    signs = [(word.score, case.evidence.get(word.text, 0)) for word in found.words()]
    return [score * sign * towards > rounding for score, sign in signs if sign]


def compute_usual_size(found: Iterable[Explanation]) -> float:
    """Return the size of a method's scores: the median over all texts of the largest."""
    return median(float(abs(one.scores).max()) for one in found)


def judge_methods() -> Verdicts:
    """Judge every method on every model."""
    judged = {model: list_cases(model) for model in MODELS}
    explainers = {model: whence.load(model, dtype="float64") for model in MODELS}
    by_method: Verdicts = {}
    for name in method.names():
        found = {
            model: explainers[model].explain([case.text for case in judged[model]], method=name)
            for model in MODELS
        }
        rounding = ROUNDING * compute_usual_size(one for ones in found.values() for one in ones)
        verdicts: dict[str, Verdict] = {}
        for model in MODELS:
            pairs = list(zip(found[model], judged[model], strict=True))
            signs = [right for one, case in pairs for right in check_signs(one, case, rounding)]
            recovered = sum(is_recovered(one, case, rounding) for one, case in pairs)
            verdicts[model] = Verdict(recovered, len(pairs), sum(signs), len(signs))
        # Residuals of several layers are one axiom.
        axioms = {axiom.partition(".")[0] for ones in found.values() for axiom in ones[0].axioms}
        by_method[name] = Judgement(verdicts, tuple(sorted(axioms)))
    return by_method


def collect_results() -> dict[str, Any]:
    """Return the judgements with provenance, as they are stored."""
    found: dict[str, Any] = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def to_dict(found: Verdicts) -> dict[str, Any]:
    """Return the judgements as plain data, with their sums."""
    return {
        "chance": {model: sum(case.chance for case in list_cases(model)) for model in MODELS},
        "methods": {
            name: {
                "models": {model: asdict(verdict) for model, verdict in judged.models.items()},
                "all": {
                    part: sum(getattr(verdict, part) for verdict in judged.models.values())
                    for part in ("recovered", "sentences", "right_signs", "signs")
                },
                "axioms": list(judged.axioms),
            }
            for name, judged in found.items()
        },
    }


def collect_provenance() -> dict[str, str]:
    """Return commit, versions and dtype."""
    asked = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=ROOT)
    return {
        "commit": commit.stdout.strip(),
        "whence": whence.__version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "dtype": "float64",
    }


def main() -> None:
    """Judge all methods, and store the results."""
    found = {"provenance": collect_provenance(), **to_dict(judge_methods())}
    write_text(RESULTS, json.dumps(found, indent=1) + "\n")
    print(f"Written: {RESULTS.relative_to(ROOT)}. Run `make docs`.")


if __name__ == "__main__":
    main()
