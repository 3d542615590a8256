"""A model asked by hand: what the definitions of the metrics ask about, and the metrics as a plain loop.

Nothing here is shared, remembered or batched, and no code of the metrics is used.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import torch

from whence.core.seed import generator
from whence.data.coalitions import Stratum, spread

BINS = ("0.01", "0.05", "0.1", "0.2", "0.5")  # of comprehensiveness and sufficiency
SAMPLES = 64  # sets of tokens for infidelity

Ids = tuple[int, ...]
Hole = frozenset[int]  # tokens that are gone, counted without special ones
Order = Sequence[int]  # tokens, highest score first


class Plain:
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
        self.target = self.label(frozenset())

    @property
    def whole(self) -> Ids:
        """The input as it is, special tokens included."""
        return tuple(self._features["input_ids"])

    def ids(self, hole: Hole) -> Ids:
        """Return the input with masks in the place of what is gone."""
        gone = {self.places[unit] for unit in hole}
        return tuple(self._mask if i in gone else one for i, one in enumerate(self.whole))

    def shares(self, hole: Hole) -> torch.Tensor:
        """Ask the model."""
        inputs = {**self._features, "input_ids": self.ids(hole)}
        with torch.inference_mode():
            batch = {name: torch.tensor([values]) for name, values in inputs.items()}
            shares: torch.Tensor = self._model(**batch).logits[0].double().softmax(-1)
        return shares

    def probability(self, hole: Sequence[int]) -> float:
        """Return the predicted label's probability without some tokens."""
        return float(self.shares(frozenset(hole))[self.target])

    def label(self, hole: Hole) -> int:
        """Return the label that is predicted without some tokens; remembered, because counting takes many."""
        if hole not in self._labels:
            self._labels[hole] = int(self.shares(hole).argmax())
        return self._labels[hole]

    def order(self, scores: Any) -> list[int]:
        """Return the tokens from the highest score down."""
        return list(np.argsort(-np.asarray(scores)[self.places], kind="stable"))


# --- what is asked about ----------------------------------------------------------------------------------------


def steps_of(units: int) -> list[int]:
    """Return how many tokens are gone after each of ten steps."""
    return [ceil(Fraction(step * units, 10)) for step in range(1, 11)]


def bins_of(units: int) -> list[int]:
    """Return how many tokens each share of them is."""
    return [ceil(Fraction(share) * units) for share in BINS]


def without_top(orders: Sequence[Order], counts: Sequence[int]) -> set[Hole]:
    """Remove so many of the highest tokens, for each ranking and count."""
    return {frozenset(order[:count]) for order in orders for count in counts}


def only_top(orders: Sequence[Order], counts: Sequence[int]) -> set[Hole]:
    """Remove all but so many of the highest tokens, for each ranking and count."""
    return {frozenset(order[count:]) for order in orders for count in counts}


def until_flipped(plain: Plain, orders: Sequence[Order]) -> set[Hole]:
    """Remove the highest tokens one by one, up to the first that changes the label."""
    asked = set()
    for order in orders:
        for count in range(1, len(order) + 1):
            hole = frozenset(order[:count])
            asked.add(hole)
            if plain.label(hole) != plain.target:
                break
    return asked


def drawn_sets(plain: Plain) -> list[tuple[int, ...]]:
    """Return the sets that infidelity draws; the draw is the one thing that must be whence's."""
    sizes = [Stratum(plain.units, size, mass=1.0) for size in range(1, plain.units + 1)]
    draw = generator("infidelity", 0, plain.whole)
    return [one for one, _ in spread(sizes, SAMPLES, draw)]


def needed(name: str, plain: Plain, orders: Sequence[Order]) -> set[Ids]:
    """Return the different inputs that a metric asks about, by its definition; the whole input is known."""
    units, steps = plain.units, steps_of(plain.units)
    ask: dict[str, Callable[[], set[Hole]]] = {
        "comprehensiveness": lambda: without_top(orders, bins_of(units)),
        "sufficiency": lambda: only_top(orders, bins_of(units)),
        "aopc": lambda: without_top(orders, steps),
        "log_odds": lambda: without_top(orders, steps),
        "deletion": lambda: without_top(orders, steps),
        "insertion": lambda: only_top(orders, [units - gone for gone in steps]),
        "flip": lambda: until_flipped(plain, orders),
        "loo_correlation": lambda: {frozenset([unit]) for unit in range(units)},
        "infidelity": lambda: {frozenset(one) for one in drawn_sets(plain)},
    }
    return {plain.ids(hole) for hole in ask[name]() if hole}


FAITHFULNESS = [
    *("comprehensiveness", "sufficiency", "aopc", "log_odds", "deletion", "insertion", "flip"),
    *("loo_correlation", "infidelity"),
]


# --- the metrics as a loop --------------------------------------------------------------------------------------


def comprehensiveness(plain: Plain, scores: Any) -> float:
    """Remove the highest tokens and take the mean fall."""
    order, base = plain.order(scores), plain.probability(())
    falls = [base - plain.probability(order[:count]) for count in bins_of(plain.units)]
    return float(np.mean(falls))


def sufficiency(plain: Plain, scores: Any) -> float:
    """Keep the highest tokens alone and take the mean fall."""
    order, base = plain.order(scores), plain.probability(())
    falls = [base - plain.probability(order[count:]) for count in bins_of(plain.units)]
    return float(np.mean(falls))


def leave_one_out(plain: Plain) -> list[float]:
    """Return the fall when one token goes, for each."""
    base = plain.probability(())
    return [base - plain.probability([unit]) for unit in range(plain.units)]


def loo_correlation(plain: Plain, scores: Any, signed: bool) -> float:
    """Hold the scores against leave-one-out by Kendall's tau-b."""
    from scipy.stats import kendalltau

    falls = np.array(leave_one_out(plain))
    own = np.asarray(scores, dtype=float)[plain.places]
    return float(kendalltau(own, falls if signed else np.abs(falls)).statistic)


def deletion(plain: Plain, scores: Any) -> float:
    """Remove the highest tokens first and take the area under the probability."""
    order, gone = plain.order(scores), [0, *sorted(set(steps_of(plain.units)))]
    heights = [plain.probability(order[:count]) for count in gone]
    return float(np.trapezoid(heights, np.array(gone) / plain.units))


def insertion(plain: Plain, scores: Any) -> float:
    """Put the highest tokens back first and take the area under the probability."""
    order, gone = plain.order(scores), [0, *sorted(set(steps_of(plain.units)))]
    there = [plain.units - count for count in reversed(gone)]
    heights = [plain.probability(order[count:]) for count in there]
    return float(np.trapezoid(heights, np.array(there) / plain.units))
