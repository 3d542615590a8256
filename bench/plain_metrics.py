"""Faithfulness metrics as plain loops, and the inputs each needs: the reference of bench/metrics.py.

Nothing here is shared, remembered or batched, and no code of the metrics is used.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import torch

from whence.core.seed import build_generator
from whence.data.removal import CoalitionStratum, sample_coalitions

BINS = ("0.01", "0.05", "0.1", "0.2", "0.5")  # of comprehensiveness and sufficiency
SAMPLES = 64  # sets of tokens for infidelity

Ids = tuple[int, ...]
Hole = frozenset[int]  # tokens that are gone, counted without special ones
Order = Sequence[int]  # tokens, highest score first


class PlainModel:
    """A model and one text."""

    def __init__(self, explainer: Any, text: str) -> None:
        self._model = explainer.model
        encoded = explainer.tokenizer(text, return_special_tokens_mask=True)
        special = encoded.pop("special_tokens_mask")
        self._features = dict(encoded)
        self._mask = explainer.fillers["mask"]
        self._labels: dict[Hole, int] = {}
        self.places = [place for place, is_special in enumerate(special) if not is_special]
        self.units = len(self.places)
        self.target = self.predict_label(frozenset())

    @property
    def whole(self) -> Ids:
        """The input as it is, special tokens included."""
        return tuple(self._features["input_ids"])

    def mask_ids(self, hole: Hole) -> Ids:
        """Return the input with the mask token in the removed positions."""
        gone = {self.places[unit] for unit in hole}
        return tuple(self._mask if i in gone else one for i, one in enumerate(self.whole))

    def predict(self, hole: Hole) -> torch.Tensor:
        """Return the model's probabilities without some tokens."""
        inputs = {**self._features, "input_ids": self.mask_ids(hole)}
        with torch.inference_mode():
            batch = {name: torch.tensor([values]) for name, values in inputs.items()}
            shares: torch.Tensor = self._model(**batch).logits[0].double().softmax(-1)
        return shares

    def compute_probability(self, hole: Sequence[int]) -> float:
        """Return the predicted label's probability without some tokens."""
        return float(self.predict(frozenset(hole))[self.target])

    def predict_label(self, hole: Hole) -> int:
        """Return the label that is predicted without some tokens; cached, because counting repeats it."""
        if hole not in self._labels:
            self._labels[hole] = int(self.predict(hole).argmax())
        return self._labels[hole]

    def rank_tokens(self, scores: Any) -> list[int]:
        """Return the tokens from the highest score down."""
        return list(np.argsort(-np.asarray(scores)[self.places], kind="stable"))


# --- what is asked about ----------------------------------------------------------------------------------------


def list_steps(units: int) -> list[int]:
    """Return the number of removed tokens after each of ten steps."""
    return [ceil(Fraction(step * units, 10)) for step in range(1, 11)]


def list_bins(units: int) -> list[int]:
    """Return the number of tokens of each share in BINS."""
    return [ceil(Fraction(share) * units) for share in BINS]


def remove_top(orders: Sequence[Order], counts: Sequence[int]) -> set[Hole]:
    """Remove so many of the highest tokens, for each ranking and count."""
    return {frozenset(order[:count]) for order in orders for count in counts}


def keep_top(orders: Sequence[Order], counts: Sequence[int]) -> set[Hole]:
    """Remove all but so many of the highest tokens, for each ranking and count."""
    return {frozenset(order[count:]) for order in orders for count in counts}


def remove_until_flipped(plain: PlainModel, orders: Sequence[Order]) -> set[Hole]:
    """Remove the highest tokens one by one, up to the first that changes the label."""
    asked = set()
    for order in orders:
        for count in range(1, len(order) + 1):
            hole = frozenset(order[:count])
            asked.add(hole)
            if plain.predict_label(hole) != plain.target:
                break
    return asked


def draw_sets(plain: PlainModel) -> list[tuple[int, ...]]:
    """Return the sets that infidelity draws, by whence's own generator."""
    sizes = [CoalitionStratum(plain.units, size, mass=1.0) for size in range(1, plain.units + 1)]
    draw = build_generator("infidelity", 0, plain.whole)
    return [one for one, _ in sample_coalitions(sizes, SAMPLES, draw)]


def list_needed_inputs(name: str, plain: PlainModel, orders: Sequence[Order]) -> set[Ids]:
    """Return the distinct inputs that a metric's definition needs; the whole input is known."""
    units, steps = plain.units, list_steps(plain.units)
    ask: dict[str, Callable[[], set[Hole]]] = {
        "comprehensiveness": lambda: remove_top(orders, list_bins(units)),
        "sufficiency": lambda: keep_top(orders, list_bins(units)),
        "aopc": lambda: remove_top(orders, steps),
        "log_odds": lambda: remove_top(orders, steps),
        "deletion": lambda: remove_top(orders, steps),
        "insertion": lambda: keep_top(orders, [units - gone for gone in steps]),
        "flip": lambda: remove_until_flipped(plain, orders),
        "loo_correlation": lambda: {frozenset([unit]) for unit in range(units)},
        "infidelity": lambda: {frozenset(one) for one in draw_sets(plain)},
    }
    return {plain.mask_ids(hole) for hole in ask[name]() if hole}


FAITHFULNESS = [
    *("comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion", "insertion", "flip"),
    *("loo_correlation", "infidelity"),
]


# --- the metrics as a loop --------------------------------------------------------------------------------------


def comprehensiveness(plain: PlainModel, scores: Any) -> float:
    """Return the mean fall when the highest tokens are removed."""
    order, base = plain.rank_tokens(scores), plain.compute_probability(())
    falls = [base - plain.compute_probability(order[:count]) for count in list_bins(plain.units)]
    return float(np.mean(falls))


def sufficiency(plain: PlainModel, scores: Any) -> float:
    """Return the mean fall when only the highest tokens are kept."""
    order, base = plain.rank_tokens(scores), plain.compute_probability(())
    falls = [base - plain.compute_probability(order[count:]) for count in list_bins(plain.units)]
    return float(np.mean(falls))


def leave_one_out(plain: PlainModel) -> list[float]:
    """Return the fall of the probability for each token that is removed alone."""
    base = plain.compute_probability(())
    return [base - plain.compute_probability([unit]) for unit in range(plain.units)]


def loo_correlation(plain: PlainModel, scores: Any, signed: bool) -> float:
    """Return Kendall's tau-b of the scores with leave-one-out."""
    from scipy.stats import kendalltau

    falls = np.array(leave_one_out(plain))
    own = np.asarray(scores, dtype=float)[plain.places]
    return float(kendalltau(own, falls if signed else np.abs(falls)).statistic)


def deletion(plain: PlainModel, scores: Any) -> float:
    """Return the area under the probability when the highest tokens are removed first."""
    order, gone = plain.rank_tokens(scores), [0, *sorted(set(list_steps(plain.units)))]
    heights = [plain.compute_probability(order[:count]) for count in gone]
    return float(np.trapezoid(heights, np.array(gone) / plain.units))


def insertion(plain: PlainModel, scores: Any) -> float:
    """Return the area under the probability when the highest tokens are put back first."""
    order, gone = plain.rank_tokens(scores), [0, *sorted(set(list_steps(plain.units)))]
    there = [plain.units - count for count in reversed(gone)]
    heights = [plain.compute_probability(order[count:]) for count in there]
    return float(np.trapezoid(heights, np.array(there) / plain.units))
