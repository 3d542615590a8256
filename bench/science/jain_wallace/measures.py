"""Measures of one model for Jain & Wallace's table: performance, tau, permutation, adversarial attention."""

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.data.dataset import resolve_label_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_dataset
from whence.stats.intervals import kendall_p_value
from whence.stats.rank import kendall
from whence.studies.audit import importance
from whence.studies.audit.experiments.adversarial import adversarial
from whence.studies.audit.experiments.permutation import permutation
from whence.studies.audit.subject import AuditSubject
from whence.studies.training.performance import compute_performance

Numbers = NDArray[np.float64]

ALL = "all"
BINS = ("0 to 0.25", "0.25 to 0.5", "0.5 to 0.75", "0.75 to 1")  # of the largest weight
SIGNIFICANT = 0.05
# The authors' figures come from histograms of 40 bins up to 0.7, and one of them begins here.
NEARLY_0_6 = 0.595


def build_subject(explainer: Explainer, examples: Sequence[Example], seed: int = 0) -> AuditSubject:
    """Return the audit subject of a model and all examples."""
    encoded = encode_dataset([one.given for one in examples], explainer.loaded, False, None)
    kept = [examples[i] for i in encoded.numbers]
    truth = np.array(resolve_label_indices(kept, explainer.labels), dtype=np.int64)
    return AuditSubject(explainer.loaded, encoded.items, truth, seed=seed)


def measure_model(on: AuditSubject, *, by_class: bool) -> dict[str, Any]:
    """Compute all measures; `by_class`: also by predicted class, as the authors report them."""
    found: dict[str, Any] = {"performance": _measure_performance(on)}
    seconds = {}
    for name, measure in (
        ("tau", _measure_taus),
        ("permutation", _measure_permutation),
        ("adversarial", _measure_adversarial),
    ):
        started = time.perf_counter()
        found[name] = measure(on, by_class)
        seconds[name] = round(time.perf_counter() - started, 1)
    return {**found, "seconds": seconds}


def _measure_performance(on: AuditSubject) -> dict[str, Any]:
    assert on.truth is not None
    with np.errstate(divide="ignore"):
        found = compute_performance(np.log(on.probabilities), on.truth.tolist())
    area = {} if found.roc_auc is None else {"roc_auc": found.roc_auc}
    return {"accuracy": found.accuracy, "f1": found.f1, **area, "n": found.n}


def _iterate_groups(on: AuditSubject, by_class: bool) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Yield all examples, and those of each predicted class."""
    yield ALL, np.ones(len(on), dtype=bool)
    if by_class:
        for number, label in enumerate(on.loaded.labels):
            chosen = on.predictions == number
            if chosen.any():
                yield label, chosen


def _measure_taus(on: AuditSubject, by_class: bool) -> dict[str, Any]:
    """Return Kendall's tau between attention, gradients (attention held constant) and leave-one-out (deleted)."""
    scores = {
        "attention": on.attention(),
        "gradient": importance.gradient(on, detached=True),
        "leave_one_out": importance.leave_one_out(on, remove="delete"),
    }
    pairs = {
        "gradient": ("attention", "gradient"),
        "leave_one_out": ("attention", "leave_one_out"),
        "leave_one_out_gradient": ("leave_one_out", "gradient"),
    }
    found = {}
    for name, (one, other) in pairs.items():
        both = list(zip(scores[one], scores[other], strict=True))
        taus = np.array([kendall(a, b)[0] for a, b in both])
        p = np.array([kendall_p_value(a, b)[0] for a, b in both])
        found[name] = {
            group: _summarise_tau(taus[chosen], p[chosen])
            for group, chosen in _iterate_groups(on, by_class)
        }
    return found


def _summarise_tau(taus: Numbers, p: Numbers) -> dict[str, Any]:
    """Return mean and spread of the defined taus; an undefined one is not significant, as in the paper."""
    known = taus[np.isfinite(taus)]
    return {
        "mean": float(known.mean()) if len(known) else None,
        "std": float(known.std()) if len(known) else None,
        "significant": float((np.nan_to_num(p, nan=1.0) <= SIGNIFICANT).mean()),
        "n": len(taus),
        "constant": len(taus) - len(known),
    }


def _measure_permutation(on: AuditSubject, by_class: bool) -> dict[str, Any]:
    """Return the median over examples, by the largest weight, of the median distance of 100 permutations."""
    values = np.asarray(permutation(on, permutations=100).values)
    largest = np.array([weights.max() for weights in on.attention()])
    place = np.minimum((largest * len(BINS)).astype(int), len(BINS) - 1)
    return {
        group: {
            ALL: _summarise_median(values[chosen]),
            **{
                name: _summarise_median(values[chosen & (place == number)])
                for number, name in enumerate(BINS)
                if (chosen & (place == number)).any()
            },
        }
        for group, chosen in _iterate_groups(on, by_class)
    }


def _summarise_median(values: Numbers) -> dict[str, Any]:
    return {"median": float(np.median(values)), "n": len(values)}


def _measure_adversarial(on: AuditSubject, by_class: bool) -> dict[str, Any]:
    """Return the largest divergences of attention that leaves the prediction within 0.05."""
    values = np.asarray(adversarial(on).values)
    return {
        group: {
            "mean": float(values[chosen].mean()),
            "median": float(np.median(values[chosen])),
            "at_least_0.595": float((values[chosen] >= NEARLY_0_6).mean()),
            "at_least_0.6": float((values[chosen] >= 0.6).mean()),
            "below_0.2": float((values[chosen] < 0.2).mean()),
            "n": int(chosen.sum()),
        }
        for group, chosen in _iterate_groups(on, by_class)
    }


def round_numbers(given: Any, digits: int = 5) -> Any:
    """Round every number of plain data: more digits would only be of this run's rounding."""
    if isinstance(given, float):
        return round(given, digits)
    if isinstance(given, Mapping):
        return {key: round_numbers(value, digits) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [round_numbers(value, digits) for value in given]
    return given
