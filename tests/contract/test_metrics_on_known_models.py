"""Metrics on models whose true attribution is known: the truth scores best, apart from stated exceptions."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from bench.science import truth
from bench.science.truth import MODELS, Case

import whence
from whence.methods import method
from whence.metrics import metric
from whence.metrics._trial import Trial
from whence.stats.intervals import percentile

# Metrics of a ranking; the true one has what speaks for the label at the top, what speaks against it at the bottom.
RANKED = ("comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion", "insertion", "flip")
# Where `not` is gone, `good` speaks for the other label, and removing it too helps the prediction again. What removes
# the top of the ranking therefore wants it last, though it counts. What keeps the top does not.
MISLED_BY_NEGATION = {"comprehensiveness", "deletion", "aopc", "log_odds"}
# Sums of the same probabilities in another order.
ROUNDING = 1e-9


@dataclass(frozen=True)
class KnownCase:
    """A sentence whose truth is known, on trial with every method there is."""

    model: str
    case: Case
    trial: Trial
    towards: int  # 1 if positive was predicted, else -1

    def true(self, *, signed: bool) -> Trial:
        """Return the trial of the true attribution: 1 on what counts, by its sign for the label, 0 elsewhere.

        A word that counts but has no sign of its own gets a half.
        """
        scores = np.zeros(len(self.trial.item))
        for word in self.trial.item.words:
            sign = self.case.evidence.get(word.text)
            if sign is not None:
                one = 1.0 if not signed else sign * self.towards or 0.5
                scores[list(word.tokens)] = one
        return with_scores(self.trial, scores, signed)

    @property
    def negated(self) -> bool:
        """Whether a word turns others round."""
        return 0 in self.case.evidence.values()

    @property
    def against(self) -> bool:
        """Whether a word that counts speaks against what is predicted."""
        return -self.towards in self.case.evidence.values()


def with_scores(trial: Trial, scores: Any, signed: bool = True) -> Trial:
    return replace(
        trial, names=("true",), scores=np.array([scores]), signed=(signed,), axioms=({},)
    )


@pytest.fixture(scope="module")
def known() -> list[KnownCase]:
    found = []
    for model in MODELS:
        cases = truth.list_cases(model)
        explainer = whence.load(model, dtype="float64")
        texts = [case.text for case in cases]
        for number, trial, by_name in explainer.trials(texts, method=method.names()):
            label = by_name["random"].target.label
            found.append(KnownCase(model, cases[number], trial, 1 if label == "positive" else -1))
    assert len(found) == 6 * len(MODELS)
    return found


def compute_lead(name: str, mine: Trial, others: Trial) -> float:
    """Return by how much an explanation is better than the best of all methods and 200 random rankings."""
    entry = metric.get(name)
    sign = 1 if entry.facts["direction"] == "higher" else -1
    (value,) = entry.fn(mine).values
    rest = np.concatenate([entry.fn(others).values, entry.fn(others.null(200)).values])
    return float(sign * value - np.nanmax(sign * rest))


@pytest.mark.parametrize("name", RANKED)
def test_true_attribution_scores_best_except_by_removal_metrics_on_negation(known, name):
    for one in known:
        ahead = compute_lead(name, one.true(signed=True), one.trial)
        if one.negated and name in MISLED_BY_NEGATION:
            assert ahead < -0.05, (one.model, one.case.text)
        else:
            assert ahead >= -ROUNDING, (one.model, one.case.text)


@pytest.mark.parametrize("name", sorted(MISLED_BY_NEGATION))
def test_removal_metrics_prefer_a_false_ranking_to_the_truth_on_negation(known, name):
    """The ranking that beats the truth is known: `not` first, and the word that it turns round last."""
    entry = metric.get(name)
    sign = 1 if entry.facts["direction"] == "higher" else -1
    negated = [one for one in known if one.negated]
    assert len(negated) == 4 and {one.model for one in negated} == {"negation"}
    for one in negated:
        true = one.true(signed=True)
        false = with_scores(one.trial, np.where(true.scores[0] == 0.5, -1, true.scores[0]))
        assert sign * (entry.fn(false).values[0] - entry.fn(true).values[0]) > 0.05


@pytest.mark.parametrize("name", RANKED)
def test_unsigned_truth_is_beaten_only_where_a_word_speaks_against_the_label(known, name):
    """An explanation without signs cannot say that removing a word would help.

    Where all that counts speaks for the label it is as good as any; where something does not, it depends on which of
    the two is drawn first, and it is never better than the truth with signs.
    """
    entry = metric.get(name)
    sign = 1 if entry.facts["direction"] == "higher" else -1
    for one in known:
        with_signs, without = (entry.fn(one.true(signed=s)).values[0] for s in (True, False))
        if not one.against and not one.negated:
            assert compute_lead(name, one.true(signed=False), one.trial) >= -ROUNDING
        if not one.negated:
            assert sign * (with_signs - without) >= -ROUNDING
    apart = [one for one in known if one.against]
    assert len(apart) == 13  # decoy 1, copy 2, saturation 2, damper 4, spotlight 4
    if name != "flip":  # how far it gets after the flip does not count
        beaten = [
            sign
            * (entry.fn(one.true(signed=True)).values - entry.fn(one.true(signed=False)).values)[0]
            for one in apart
        ]
        assert max(beaten) > 0.05


def test_infidelity_of_the_truth_is_best_only_where_all_evidence_counts_alike(known):
    """One for every word is the truth about sizes only if all that counts counts alike, and for the label.

    There it is best. Elsewhere a method that knows how strong a word is comes closer to the sums.
    """
    for one in known:
        ahead = compute_lead("infidelity", one.true(signed=True), one.trial)
        strengths = {"gripping", "convincing"}
        if one.negated or one.against or strengths <= one.case.evidence.keys():
            assert ahead < -1e-4, (one.model, one.case.text)
        else:
            assert ahead >= -ROUNDING, (one.model, one.case.text)


def test_loo_correlation_of_the_truth_is_best_except_where_evidence_is_unequal(known):
    """It counts every pair of tokens, so 1 for two words that are not equally strong is a tie that costs a little.

    On `redundancy` nothing falls if one of several words goes, but for what the model's own arithmetic leaks, 1e-14:
    there is nothing to agree with.
    """
    entry = metric.get("loo_correlation")
    for one in known:
        where = (one.model, one.case.text)
        mine = one.true(signed=True)
        found = entry.fn(mine)
        several = sum(word.text in one.case.evidence for word in one.trial.item.words) > 1
        if one.model == "redundancy" and several:
            assert np.abs(one.trial.removed.loo).max() < 1e-12, where
            continue
        ahead = compute_lead("loo_correlation", mine, one.trial)
        unequal = {"gripping", "convincing"} <= one.case.evidence.keys()
        assert (ahead >= -ROUNDING) != unequal, where
        assert found.values[0] > 0.6, where


def test_faithfulness_metrics_prefer_the_truth_to_raw_attention_on_decoy(known):
    for one in known:
        if one.model != "decoy":
            continue
        attention = one.trial.select_rows([one.trial.names.index("raw_attention")])
        for name in (
            "comprehensiveness",
            "sufficiency",
            "aopc",
            "log_odds",
            "deletion",
            "insertion",
        ):
            entry = metric.get(name)
            sign = 1 if entry.facts["direction"] == "higher" else -1
            better = entry.fn(one.true(signed=True)).values[0] - entry.fn(attention).values[0]
            assert sign * better > 0.01, (name, one.case.text)


def test_deletion_percentile_of_the_truth_is_the_highest_possible_with_ties(known):
    """Where one word of n decides, a ranking is as good as the truth if it has that word first: one in n.

    Such ties count half, so the truth gets 100 (1 - 1/(2n)): with all n! rankings exactly that.
    """
    entry = metric.get("deletion")
    seen = 0
    for one in known:
        words = [word.text for word in one.trial.item.words]
        units = len(one.trial.units)
        counts = sum(word in one.case.evidence for word in words)
        if counts != 1 or units > 6:
            continue
        seen += 1
        null = entry.fn(one.trial.null(720)).values
        place = percentile(entry.fn(one.true(signed=True)).values[0], null, False)
        assert place.percent == pytest.approx(100 * (1 - 1 / (2 * units)))
        assert place.beaten + place.tied == place.of
    assert seen >= 10


def test_plausibility_metrics_of_the_truth_are_one_for_a_true_rationale(known):
    """Marked are the words that count: the truth then agrees perfectly with the person."""
    for one in known:
        words = {place: word.text for word in one.trial.item.words for place in word.tokens}
        marked = tuple(words[unit[0]] in one.case.evidence for unit in one.trial.units)
        mine = replace(one.true(signed=False), marked=marked)
        for name in ("token_f1", "iou_f1", "auprc"):
            assert metric.get(name).fn(mine).values[0] == 1, name
