"""Explanations of one input as a page tells them: the scores of all methods, and how far they agree."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from whence.data.reading import REST
from whence.explainer.explanation import Explanation
from whence.stats import kendall, top_k_overlap
from whence.view import merge

# So many of the strongest words are held against each other; of a short text half, as all would always agree.
_STRONGEST = 5


def told(
    explanations: Sequence[Explanation],
    failed: Mapping[str, str] | None = None,
    warnings: Sequence[dict[str, Any]] = (),
) -> dict[str, Any]:
    """Join explanations of one input; `failed` says by method why there is none, `warnings` what to know first."""
    payload = merge([explanation.to_shown() for explanation in explanations])
    own = [one for one in payload.get("warnings", ()) if one not in warnings]
    return {
        **payload,
        "agreement": agreement(payload["explanations"]),
        "failed": [{"method": name, "message": why} for name, why in (failed or {}).items()],
        "warnings": [*own, *warnings],
        "runner_up": _runner_up(explanations[0]),
        "entities": [],  # what a tagger found besides: who asks for everything says it
        # The output that stands for all that have no name, if there is one.
        "rest": REST if REST in payload["prediction"]["probabilities"] else None,
    }


def agreement(explanations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Hold every two explanations against each other: the order of all words, and the strongest of them."""
    words = len(explanations[0]["word_scores"])
    if not words:
        return []
    k = max(1, min(_STRONGEST, words // 2))
    return [_pair(a, b, k, k / words) for a, b in combinations(explanations, 2)]


def _pair(a: dict[str, Any], b: dict[str, Any], k: int, chance: float) -> dict[str, Any]:
    one, two = np.array(a["word_scores"]), np.array(b["word_scores"])
    tau = float(kendall(one, two)[0])
    top = float(top_k_overlap(np.abs(one), np.abs(two), k)[0])
    return {
        "a": a["method"],
        "b": b["method"],
        "tau": None if np.isnan(tau) else tau,
        # Where all words are level the strongest are drawn by lot, which is what chance gives.
        "top": chance if np.isnan(top) else top,
        "k": k,
        "chance": chance,
    }


def _runner_up(explanation: Explanation) -> str | None:
    """Return the label that came second, if there are as many."""
    logits, labels = explanation.prediction.logits, list(explanation.model["labels"])
    shares = explanation.prediction.probabilities
    if shares and list(shares) != labels:
        # Such an input has outputs of its own; what is left over is none that could come second.
        named = [name for name in sorted(shares, key=lambda name: -shares[name]) if name != REST]
        return named[1] if len(named) > 1 else None
    if len(logits) < 2:
        return None
    return str(labels[sorted(range(len(logits)), key=lambda i: (-logits[i], i))[1]])
