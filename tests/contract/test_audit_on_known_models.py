"""Audit on models whose weights are known: verdicts and effects equal those computed from the weights.

In `spotlight`, and in a model of Jain & Wallace that does the same, a text has one loud word, which gets the weight
a ≈ 0.95, and quiet ones with the opposite sign; P rises with m = Σ_w a_w s_w alone, and all |s_w| are the same. In
`decoy`, and its counterpart of Jain & Wallace, nearly all weight is on a word without influence. The expected numbers
are computed from these facts.
"""

from functools import cache

import numpy as np
import pytest

import whence
from tests import audit_data
from tests.audit_subjects import subject_of
from whence.studies.audit.experiments import experiment

EXPLAINS = ("spotlight", "attentive spotlight")
EXPLAINS_NOT = ("decoy", "attentive decoy")
COUNT = 40
EPSILON = 0.05
# Large steps, so that few suffice.
SEARCH = {"steps": 60, "rate": 0.2}
PARAMS = {"adversarial": SEARCH, "diversity.steps": 60, "replacement.draws": 5}

explains = pytest.mark.parametrize("name", EXPLAINS)
explains_not = pytest.mark.parametrize("name", EXPLAINS_NOT)


@cache
def examples(name, count=COUNT):
    made = (
        audit_data.make_spotlight_examples if name in EXPLAINS else audit_data.make_decoy_examples
    )
    return made(count)


@cache
def explainer(name):
    if name == "attentive spotlight":
        return audit_data.attentive_spotlight()
    if name == "attentive decoy":
        return audit_data.attentive_decoy()
    return whence.load(name, dtype="float64")


@cache
def run_audit(name):
    built_in = name in ("spotlight", "decoy")
    return whence.audit(name if built_in else explainer(name), examples(name), params=PARAMS)


@cache
def subject(name):
    texts = [one["text"] for one in examples(name)]
    truth = [audit_data.LABELS.index(one["label"]) for one in examples(name)]
    return subject_of(explainer(name), texts, truth)


# --- the verdicts ------------------------------------------------------------------------------


@explains
def test_audit_of_a_spotlight_model_answers_yes_and_every_verdict_holds(name):
    found = run_audit(name)
    assert found.answer == "yes" and "is yes" in found.conclusion
    assert set(found.verdicts.values()) == {"holds"}
    assert {"correlation", "permutation", "replacement", "adversarial"} <= found.verdicts.keys()
    assert found.payload["performance"]["accuracy"] == 1


@explains_not
def test_audit_of_a_decoy_model_answers_no_and_every_verdict_fails(name):
    found = run_audit(name)
    assert found.answer == "no" and "is no" in found.conclusion
    assert set(found.verdicts.values()) == {"fails"}
    # It is no bad model: it is right about every text, and not because of where it looks.
    assert found.payload["performance"]["accuracy"] == 1


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("name", [*EXPLAINS, *EXPLAINS_NOT])
def test_audit_with_another_seed_gives_the_same_verdicts(name, seed):
    found = whence.audit(
        explainer(name), examples(name, 32), seed=seed, params={"adversarial": SEARCH, "replacement.draws": 2},
        experiments=("permutation", "replacement", "adversarial"),
    )  # fmt: skip
    assert set(found.verdicts.values()) == {"holds" if name in EXPLAINS else "fails"}
    assert found.experiment("permutation")["effect"] == pytest.approx(
        run_audit(name).experiment("permutation")["effect"], abs=0.02
    )


@pytest.mark.parametrize(("name", "verdict"), [("spotlight", "holds"), ("decoy", "fails")])
def test_audit_of_all_layers_holds_for_spotlight_and_fails_for_decoy(name, verdict):
    """`spotlight` has one layer. In the first of `decoy` the weight on evidence counts, and the decoy's may move."""
    found = whence.audit(
        explainer(name), examples(name, 32), site="all",
        experiments=("permutation", "adversarial"), params={"adversarial": SEARCH},
    )  # fmt: skip
    assert found.payload["setting"]["sites"] == ["all layers"]
    assert set(found.verdicts.values()) == {verdict}


# --- attention that explains -------------------------------------------------------------------


def loud_weights(name):
    """The weight of the loud word in each text, from the loudness of its words."""
    texts = [one["text"].split() for one in examples(name)]
    loudness = [[audit_data.LOUDNESS[w] for w in words if w in audit_data.SAYS] for words in texts]
    return np.array([np.exp(max(row)) / np.exp(row).sum() for row in loudness])


def probability(name, m):
    """P of the loud word's side: the cards' logit difference, or σ(2 m)."""
    f = m / 2
    z = 32 * np.tanh(f / (4 * np.hypot(f, 2))) if name == "spotlight" else 2 * m
    return 1 / (1 + np.exp(-z))


def invert_probability(name, p):
    """The m at which P is p: the inverse of the above."""
    z = np.log(p / (1 - p))
    if name != "spotlight":
        return z / 2
    r = 4 * np.arctanh(z / 32)  # f / sqrt(f² + 4)
    return 2 * 2 * r / np.sqrt(1 - r**2)


@explains
def test_spotlight_attention_and_probabilities_follow_the_formula(name):
    a = loud_weights(name)
    assert 0.93 < a.min() < a.max() < 0.98
    found = subject(name).attention()
    # 5e-8 is the rounding of sqrt(8) in the weights of `spotlight`.
    assert [weights.max() for weights in found] == pytest.approx(a, abs=1e-7)
    own = subject(name).probabilities.max(1)
    # Of the loud word's weight a, the others' 1 - a is taken: m = 2a - 1.
    assert own == pytest.approx(probability(name, 2 * a - 1), abs=1e-7)
    assert invert_probability(name, own) == pytest.approx(2 * a - 1, abs=1e-6)


@explains
def test_correlation_experiment_on_a_spotlight_model_finds_all_pairs_equal_to_one(name):
    """What a word adds is a_w s_w, and leaving it out shifts m by a_w (m - s_w) / (1 - a_w): both grow with a_w."""
    found = run_audit(name).experiment("correlation")
    assert found["effect"] == 0
    assert [pair["mean"] for pair in found["detail"]["pairs"]] == [1] * 6


@explains
def test_permutation_experiment_on_a_spotlight_model_is_within_computed_bounds(name):
    """The weight a lands on a word that says the opposite more often than not, so the median is among these.

    Then m is -a and what the others add, at most 1 - a of either sign: from -1 to -a + (1 - a) = -m. As P(-m) =
    1 - P(m), the distance is from 2 P(m) - 1 to P(m) + P(1) - 1.
    """
    own = probability(name, 2 * loud_weights(name) - 1)
    low, high = 2 * own - 1, own + probability(name, 1.0) - 1
    found = experiment.get("permutation").fn(subject(name)).values
    assert (found > low - 1e-7).all() and (found < high + 1e-7).all()
    effect = run_audit(name).experiment("permutation")["effect"]
    assert low.mean() < effect < high.mean() and high.mean() - low.mean() < 0.06


@explains
def test_replacement_experiment_on_a_spotlight_model_changes_the_computed_share(name):
    """With the same weight for all, k words outvote one. All on the last word, its side wins.

    Random weights are exponential variables, scaled: with k words against one, the sum of k such must be above one of
    them, which it is not with probability 2^-k. `spotlight` has four heads, and takes the mean of four such votes.
    """
    texts = [one["text"].split() for one in examples(name)]
    found = run_audit(name).experiment("replacement")
    assert found["detail"]["uniform"]["changed"]["mean"] == 1
    quiet_end = [audit_data.LOUDNESS[words[-1]] < 5 for words in texts]
    assert found["detail"]["last_token"]["changed"]["mean"] == pytest.approx(np.mean(quiet_end))
    expected = []
    for words in texts:
        says = np.array([audit_data.SAYS.get(word, 0) for word in words])
        against = -np.sign(says.sum())  # of the many: it is the loud one that was predicted
        if name == "spotlight":
            weights = np.random.default_rng(0).dirichlet(np.ones(len(words)), size=(20_000, 4))
            expected.append(((weights @ says).mean(1) * against < 0).mean())
        else:
            expected.append(1 - 2.0 ** -(np.abs(says).sum() - 1))
    share = np.mean(expected)
    # Four standard deviations of as many draws.
    within = 4 * np.sqrt(share * (1 - share) / (COUNT * PARAMS["replacement.draws"]))
    assert found["effect"] == pytest.approx(share, abs=within)
    # The model is always right, so that whatever changes becomes wrong.
    wrong = 1 - found["detail"]["random"]["accuracy"]["mean"]
    assert wrong == pytest.approx(found["effect"])


@explains
def test_adversarial_experiment_on_a_spotlight_model_stays_below_the_proved_bound(name):
    """Whatever leaves the prediction where it is leaves the weight where it is.

    Take other weights, and let b be the loud word's, in the mean over the heads. No other word is on its side, so
    m <= b; P rises with m, so P >= P_own - ε means b >= m_least. In a head, distributions that give a and b to one
    word are at most 1 - min(a, b) <= (1 - a) + (1 - b) apart in total variation, and JSD <= ln 2 times that (Lin
    1991). So the mean over the heads is at most ln 2 (2 - a - m_least): below the threshold, whoever searches.
    """
    a = loud_weights(name)
    bound = np.log(2) * (2 - a - invert_probability(name, probability(name, 2 * a - 1) - EPSILON))
    entry = experiment.get("adversarial")
    assert bound.max() < entry.facts["threshold"]
    found = entry.fn(subject(name), epsilon=EPSILON, **SEARCH)
    assert found.detail["only_the_original"] < 0.1  # the search was no failure
    assert (found.values <= bound).all() and found.values.max() > 0.01


# --- attention that does not -------------------------------------------------------------------


@explains_not
def test_permutation_and_replacement_on_a_decoy_model_change_no_prediction(name):
    """The values of the decoy's last layer are all zero. In its likeness P is 1 to 1e-7, whatever is permuted."""
    found = run_audit(name)
    moved = found.experiment("permutation")["effect"]
    assert moved == 0 if name == "decoy" else moved < 1e-6
    assert found.experiment("replacement")["effect"] == 0


@explains_not
def test_adversarial_experiment_on_a_decoy_model_nearly_reaches_the_upper_bound(name):
    """JSD(p, q) is convex in q, so nothing is farther from p than all weight on the word that has the least, u.

    The middle has (1 + u) / 2 there and p_i / 2 elsewhere, so twice the JSD is
    (1 - u) ln 2 + u ln(2u / (1 + u)) + ln(2 / (1 + u)).
    """
    entry = experiment.get("adversarial")
    found = entry.fn(subject(name), epsilon=EPSILON, **SEARCH).values
    bounds = []
    for heads in subject(name).attention_by_head():
        own = heads[-1] / heads[-1].sum(-1, keepdims=True)
        u = own.min(-1)
        terms = (1 - u) * np.log(2) + u * np.log(2 * u / (1 + u)) + np.log(2 / (1 + u))
        bounds.append(terms.mean() / 2)
    assert (found <= np.array(bounds) + 1e-9).all()
    assert (found / bounds).mean() > 0.97 and min(bounds) > 0.6


@explains_not
def test_correlation_of_attention_and_gradient_on_a_decoy_model_equals_computed_tau(name):
    """Attention ties all words but the decoy, the gradient all but the evidence.

    So of all pairs of n words one is in opposite order, the others are tied in one ranking or both, and in each
    ranking n - 1 pairs are not tied: tau is -1 / (n - 1).
    """
    lengths = np.array([len(one["text"].split()) for one in examples(name)])
    pairs = run_audit(name).experiment("correlation")["detail"]["pairs"]
    (found,) = (p for p in pairs if (p["one"], p["other"]) == ("attention", "gradient"))
    assert found["mean"] == pytest.approx(np.mean(-1 / (lengths - 1)))
