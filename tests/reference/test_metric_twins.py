"""Every metric of faithfulness again, slowly and plainly: one forward pass at a time, straight through the model.

Nothing is shared with whence. Ties it breaks by lot, so the scores of these tests have none.
"""

import math
from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.stats import kendalltau

import whence
from tests import zoo
from whence.metrics import metric

# float64 on both sides; whence runs the variants in padded batches, which moves a probability by some 1e-15, and the
# logarithm of a small one by more.
EXACT = {"rtol": 0, "atol": 1e-9}
METHODS = ["attcat", "gradient", "leave_one_out", "random"]
BINS = [0.01, 0.05, 0.1, 0.2, 0.5]
TEXT = "the plot is thin, but the actors are wonderful and the music is good"


class Plain:
    """One input and a model, asked the hard way."""

    def __init__(self, model, ids, content, target, how, filler):
        self.model, self.ids, self.content = model, ids, content
        self.target, self.how, self.filler = target, how, filler

    def shares(self, gone):
        """Run the model once, on the input without the tokens at these places."""
        if self.how == "delete":
            ids = [token for place, token in enumerate(self.ids) if place not in gone]
        else:
            ids = [self.filler if place in gone else token for place, token in enumerate(self.ids)]
        with torch.no_grad():
            inputs = torch.tensor([ids])
            logits = self.model(input_ids=inputs, attention_mask=torch.ones_like(inputs)).logits[0]
        exps = [math.exp(value) for value in (logits - logits.max()).tolist()]
        return [one / sum(exps) for one in exps]

    def p(self, gone):
        return self.shares(gone)[self.target]

    def ranking(self, scores):
        return sorted(self.content, key=lambda place: -scores[place])


def rounded_up(number):
    return math.ceil(number - 1e-9)


def steps_of(n, steps):
    counts = []
    for i in range(1, steps + 1):
        count = rounded_up(i * n / steps)
        if count not in counts:
            counts.append(count)
    return counts


def trapezoids(xs, ys):
    return sum((xs[i + 1] - xs[i]) * (ys[i + 1] + ys[i]) / 2 for i in range(len(xs) - 1))


def comprehensiveness(run, scores, signed):
    ranking, total = run.ranking(scores), 0.0
    for share in BINS:
        total += run.p(set()) - run.p(set(ranking[: rounded_up(share * len(ranking))]))
    return total / len(BINS)


def sufficiency(run, scores, signed):
    ranking, total = run.ranking(scores), 0.0
    for share in BINS:
        total += run.p(set()) - run.p(set(ranking[rounded_up(share * len(ranking)) :]))
    return total / len(BINS)


def deletion(run, scores, signed):
    ranking = run.ranking(scores)
    counts = [0, *steps_of(len(ranking), 10)]
    heights = [run.p(set(ranking[:count])) for count in counts]
    return trapezoids([count / len(ranking) for count in counts], heights)


def insertion(run, scores, signed):
    ranking = run.ranking(scores)
    n = len(ranking)
    present = [0, *sorted(n - count for count in steps_of(n, 10) if count < n), n]
    heights = [run.p(set(ranking[count:])) for count in present]
    return trapezoids([count / n for count in present], heights)


def aopc(run, scores, signed):
    ranking = run.ranking(scores)
    falls = [run.p(set()) - run.p(set(ranking[:count])) for count in steps_of(len(ranking), 10)]
    return sum(falls) / len(falls)


def log_odds(run, scores, signed):
    ranking = run.ranking(scores)
    logs = [
        math.log(run.p(set(ranking[:count])) / run.p(set())) for count in steps_of(len(ranking), 10)
    ]
    return sum(logs) / len(logs)


def flip(run, scores, signed):
    ranking = run.ranking(scores)
    whole = run.shares(set())
    for count in range(1, len(ranking) + 1):
        left = run.shares(set(ranking[:count]))
        if left.index(max(left)) != whole.index(max(whole)):
            return count / len(ranking)
    return 1.0


def loo_correlation(run, scores, signed):
    falls = [run.p(set()) - run.p({place}) for place in run.content]
    if not signed:
        falls = [abs(fall) for fall in falls]
    return kendalltau([scores[place] for place in run.content], falls).statistic


def infidelity(run, scores, signed):
    """Go through every set; each size has the same weight."""
    n = len(run.content)
    cases = []
    for size in range(1, n + 1):
        for gone in combinations(run.content, size):
            fall = run.p(set()) - run.p(set(gone))
            claim = sum(scores[place] for place in gone)
            cases.append((1 / n / math.comb(n, size), claim, fall))
    scale = sum(w * c * f for w, c, f in cases) / sum(w * c * c for w, c, f in cases)
    return sum(w * (max(scale, 0) * c - f) ** 2 for w, c, f in cases)


def precision_at_k(run, scores, signed):
    return sum(place % 3 == 0 for place in run.ranking(scores)[:4]) / 4


TWINS = {
    fn.__name__: fn
    for fn in (
        comprehensiveness, sufficiency, deletion, insertion, aopc, log_odds, flip, loo_correlation, infidelity,
        precision_at_k,
    )
}  # fmt: skip
PARAMS = {"infidelity": {"samples": 2**8}, "precision_at_k": {"k": 4}}


def marks(number, item, units):
    return [place % 3 == 0 for (place,) in units]


def both(explainer, given, name, *, how, filler):
    """Return what whence finds and what the twin finds, for several methods."""
    ((_, trial, found),) = explainer.trials([given], method=METHODS, remove=how, marks=marks)
    content = [place for place, token in enumerate(trial.item.tokens) if not token.special]
    target = found[METHODS[0]].target.index
    run = Plain(explainer.model, list(trial.item.ids), content, target, how, filler)
    outcome = metric.get(name).fn(trial, **PARAMS.get(name, {}))
    assert not outcome.why_not
    for one in found.values():
        assert len({one.scores[place] for place in content}) == len(content)
    twins = [TWINS[name](run, one.scores.tolist(), one.signed) for one in found.values()]
    return outcome.values, np.array(twins)


def test_every_metric_has_its_twin():
    texts = [entry for entry in metric if entry.facts.get("takes") != "picture"]
    assert set(TWINS) == {e.name for e in texts if e.facts["kind"] == "faithfulness"}


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews", dtype="float64")


@pytest.mark.parametrize("how", ["mask", "delete"])
@pytest.mark.parametrize("name", TWINS)
def test_reviews(reviews, name, how):
    # All sets of 15 tokens would be 32 767 forward passes: a short text for infidelity.
    text = "a thin plot, but wonderful" if name == "infidelity" else TEXT
    found, wanted = both(reviews, text, name, how=how, filler=reviews.fillers["mask"])
    np.testing.assert_allclose(found, wanted, **EXACT)
    assert len(set(found)) > 1 or name == "precision_at_k"


@pytest.mark.parametrize("name", TWINS)
def test_gpt2(name):
    """Three labels, a causal model, no special tokens; what is removed becomes padding that is still attended to."""
    explainer = whence.load(zoo.make("gpt2"))
    length = 7 if name == "infidelity" else 13
    row = zoo.rows("gpt2", lengths=(length,))[0]
    found, wanted = both(
        explainer, {**row, "attention_mask": [1] * length}, name, how="pad", filler=0
    )
    np.testing.assert_allclose(found, wanted, **EXACT)
