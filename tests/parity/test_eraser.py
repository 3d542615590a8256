"""Equal to what ERASER's own code gives: every figure of every case, also where the authors' F1 is 1.2."""

import json
from itertools import chain

import numpy as np
import pytest

from whence.stats.rationale import (
    RationaleCounts,
    auprc,
    average_precision,
    count_exact_spans,
    count_overlapping_spans,
    count_tokens,
    entropy,
    kl_divergence,
    macro_average,
    macro_average_of_means,
    mean_over_bins,
    micro_average,
    roc_auc,
)

CASES = (
    "main5", "main5_iou_0.1_0.3_0.5_0.7", "single_a1", "single_a2", "single_a3", "single_a5", "pair_a1_a4",
    "edge_double_hit_and_all_true",
)  # fmt: skip
BINS = (0.01, 0.05, 0.1, 0.2, 0.5)


@pytest.fixture(scope="module")
def known(golden):
    return json.loads((golden / "eraser.json").read_text())


@pytest.fixture(scope="module", params=CASES)
def case(known, request):
    return next(case for case in known["cases"] if case["name"] == request.param)


def spans(given):
    return [(one["start_token"], one["end_token"]) for one in given]


def hard(case):
    """Return the predicted and the gold spans of each instance; in these cases each has one document."""
    gold = {
        one["annotation_id"]: spans(chain.from_iterable(one["evidences"]))
        for one in case["annotations"]
    }
    return [
        (spans(rationale["hard_rationale_predictions"]), gold[one["annotation_id"]])
        for one in case["results"]
        for rationale in one["rationales"]
    ]


def soft(case):
    """Return for each instance which tokens are gold, and the scores of all."""
    found = []
    rationales = [rationale for one in case["results"] for rationale in one["rationales"]]
    for rationale, (_, gold) in zip(rationales, hard(case), strict=True):
        scores = rationale["soft_rationale_predictions"]
        places = {place for span in gold for place in range(*span)}
        found.append(([place in places for place in range(len(scores))], scores))
    return found


def written(rates):
    return {"p": rates.precision, "r": rates.recall, "f1": rates.f1}


def iou_scores(case, threshold):
    counts = [count_overlapping_spans(predicted, gold, threshold) for predicted, gold in hard(case)]
    return {
        "threshold": threshold,
        "macro": written(macro_average_of_means(counts)),
        "micro": written(micro_average(counts)),
    }


def prf(case, count):
    counts = [count(predicted, gold) for predicted, gold in hard(case)]
    return {
        "instance_macro": written(macro_average(counts)),
        "instance_micro": written(micro_average(counts)),
    }


def soft_metrics(case):
    pairs = soft(case)

    def mean(measure):
        return np.mean([value for pair in pairs if (value := measure(*pair)) is not None])

    return {
        "auprc": mean(auprc),
        "average_precision": mean(average_precision),
        "roc_auc_score": mean(roc_auc),
    }


def falls(case, side):
    """Return how much of the predicted class's probability is gone in each bin: (instances, bins)."""
    found = []
    for one in case["results"]:
        assert tuple(point["threshold"] for point in one["thresholded_scores"]) == BINS
        chosen = one["classification"]
        left = [x[f"{side}_classification_scores"][chosen] for x in one["thresholded_scores"]]
        found.append(one["classification_scores"][chosen] - np.array(left))
    return np.array(found)


def faithfulness(case, side):
    """Return the figures of comprehensiveness or sufficiency: what the model says without, or of, the rationale."""
    results = case["results"]
    labels = sorted(results[0]["classification_scores"])
    whole, part = (
        np.array([[one[name][label] for label in labels] for one in results])
        for name in ("classification_scores", f"{side}_classification_scores")
    )
    rows = np.arange(len(results))
    chosen = [labels.index(one["classification"]) for one in results]
    return {
        side: np.mean(whole[rows, chosen] - part[rows, chosen]),
        f"{side}_aopc": mean_over_bins(falls(case, side)).mean(),
        f"{side}_aopc_points": falls(case, side).mean(0).tolist(),
        f"{side}_entropy": np.mean(entropy(whole) - entropy(part)),
        f"{side}_kl": np.mean(kl_divergence(part, whole)),
    }


def predictions(case):
    """Return how well the model classifies: a label is predicted, gold, or hit, as a token is."""
    gold = [one["classification"] for one in case["annotations"]]
    guess = [one["classification"] for one in case["results"]]
    both = list(zip(gold, guess, strict=True))
    labels = sorted({*gold, *guess})
    counts = [RationaleCounts(both.count((x, x)), guess.count(x), gold.count(x)) for x in labels]
    support = np.array([one.gold for one in counts], dtype=float)

    def row(rates, number):
        return {
            "precision": rates.precision,
            "recall": rates.recall,
            "f1-score": rates.f1,
            "support": float(number),
        }

    rows = [row(one, one.gold) for one in counts]
    rates = ("precision", "recall", "f1-score")
    weighted = {rate: np.average([one[rate] for one in rows], weights=support) for rate in rates}
    accuracy = sum(x == y for x, y in both) / len(both)
    return {
        "accuracy": accuracy,
        "prf": {
            **dict(zip(labels, rows, strict=True)),
            "accuracy": accuracy,
            "macro avg": row(macro_average(counts), len(gold)),
            "weighted avg": {**weighted, "support": float(len(gold))},
        },
    }


def flat(figures, name=""):
    """Return every number under the way that leads to it."""
    if isinstance(figures, dict):
        return {k: v for key in figures for k, v in flat(figures[key], f"{name}/{key}").items()}
    if isinstance(figures, list):
        return {k: v for i, one in enumerate(figures) for k, v in flat(one, f"{name}/{i}").items()}
    return {name: float(figures)}


def test_every_figure(case):
    thresholds = [float(word) for word in case["args"][1:] if not word.startswith("--")] or [0.5]
    found = {
        "iou_scores": [iou_scores(case, threshold) for threshold in thresholds],
        "rationale_prf": prf(case, count_exact_spans),
        "token_prf": prf(case, count_tokens),
        "token_soft_metrics": soft_metrics(case),
        "classification_scores": {
            **predictions(case),
            "aopc_thresholds": list(BINS),
            **faithfulness(case, "comprehensiveness"),
            **faithfulness(case, "sufficiency"),
        },
    }
    # Sums of at most 25 numbers of size 1 that may be added in another order: some 25 roundings of 1e-16.
    assert flat(found) == pytest.approx(flat(case["scores"]), rel=0, abs=1e-12)


def test_every_case_is_compared(known):
    assert tuple(case["name"] for case in known["cases"]) == CASES


@pytest.mark.parametrize("side", ["comprehensiveness", "sufficiency"])
def test_the_paper_counts_the_empty_bin(case, side):
    # Five bins and the empty one. A product and a quotient may round differently.
    paper = mean_over_bins(falls(case, side), "paper").mean()
    wanted = case["scores"]["classification_scores"][f"{side}_aopc"] * 5 / 6
    assert paper == pytest.approx(wanted, rel=1e-12)


def test_two_spans_that_hit_one_pass_the_end_of_the_scale(known):
    case = next(one for one in known["cases"] if one["name"] == "edge_double_hit_and_all_true")
    # e1: both halves of one gold span, IoU 1/2 each: P 2/2, R 2/1. e2: P 1, R 1. Means 1 and 1.5, F1 3 / 2.5.
    assert macro_average_of_means(
        [count_overlapping_spans(*pair) for pair in hard(case)]
    ).f1 == pytest.approx(1.2)
