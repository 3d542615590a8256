"""KernelSHAP: Shapley values by a weighted regression (Lundberg & Lee 2017)."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
import torch

from whence.capture import Ask
from whence.core.errors import BadParameter
from whence.core.params import Range
from whence.core.seed import generator
from whence.data import Batch, Encoded
from whence.data.coalitions import Stratum, presence, spread
from whence.data.removal import MANY, Removal, players, resolve
from whence.methods import Scores, method

Coalitions = list[tuple[tuple[int, ...], float]]  # players that are gone, and the weight


def _settle(parameters: dict[str, Any], fillers: Mapping[str, int]) -> dict[str, Any]:
    return {**parameters, "remove": resolve(parameters["remove"], fillers, MANY)}


def _calls(tokens: int, parameters: Mapping[str, Any]) -> int:
    # Coalitions come in pairs; the two that have nobody and everybody are apart, and the last is known already.
    return 1 + 2 * min((int(parameters["samples"]) - 2) // 2, (1 << (tokens - 1)) - 1)


@method(
    "kernel_shap",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=_settle,
    of="probability",
    calls=_calls,
    cite="Lundberg & Lee 2017, arXiv:1705.07874; pairs of coalitions as in Covert & Lee 2021, arXiv:2012.01536",
    formula="s_j = Σ_S |S|! (n-|S|-1)! / n! · (p(y | S + j) - p(y | S)),  by least squares over S of weight "
    "(n-1) / (C(n,|S|) |S| (n-|S|)), with Σ s = p(y | x) - p(y | nothing) built in",
    cost="up to `samples` forwards; 2ⁿ for n tokens if that is less",
    misleads_when="the model never saw text with most of it gone, as in most coalitions; or samples are few, and "
    "another seed gives another answer",
)
def kernel_shap(
    ask: Ask,
    batch: Batch,
    *,
    samples: Annotated[int, Range(min=4)] = 2048,
    remove: Removal | None = None,
    seed: int = 0,
) -> Scores:
    """Divide the probability among the tokens as Shapley's axioms demand: what each adds, over all orders.

    If all 2ⁿ coalitions of n tokens fit into `samples` they are all asked about, and the answer is exact. Special
    tokens, and those without which the model is undefined, always stay and score 0.
    """
    how = resolve(remove, ask.fillers, MANY)
    places = [players(item, ask.anchors) for item in batch.items]
    drawn = [
        _coalitions(len(own), samples, seed, item)
        for item, own in zip(batch.items, places, strict=True)
    ]
    # First without any player, then coalition by coalition; an input that has no players is not asked about.
    holes = [
        [own, *([own[player] for player in gone] for gone, _ in sets)] if own else []
        for own, sets in zip(places, drawn, strict=True)
    ]
    after = ask.without(holes, how)
    base = ask.base("probability")
    exact = torch.promote_types(base.dtype, torch.float32)
    parts = [base.new_zeros(len(item), dtype=exact) for item in batch.items]
    rises = torch.zeros(len(batch), dtype=exact, device=base.device)
    for row, (own, sets) in enumerate(zip(places, drawn, strict=True)):
        if not own:
            continue
        nothing, *values = after[row].tolist()
        rises[row] = rise = base[row].item() - nothing
        found = _fit(len(own), sets, np.array(values) - nothing, rise)
        parts[row][own] = torch.as_tensor(found).to(parts[row])
    scores = batch.spread(parts)
    return scores, {"completeness": scores.sum(1) - rises}


def _coalitions(number: int, samples: int, seed: int, item: Encoded) -> Coalitions:
    """Return sets of players and their complements: all of them, or as many as `samples` allows."""
    if samples < min(2 * number, 2**number):
        raise BadParameter(
            f"kernel_shap cannot tell {number} tokens apart by samples={samples}. Give at least {2 * number}."
        )
    strata = [
        # Of two halves, the one that holds the first player stands for both.
        Stratum(number, size, (1 if 2 * size == number else 2) / (size * (number - size)), 2 * size == number)
        for size in range(1, number // 2 + 1)
    ]  # fmt: skip
    pairs = spread(strata, (samples - 2) // 2, generator("kernel_shap", seed, item.key))
    everyone = frozenset(range(number))
    return [
        (side, weight / 2)
        for gone, weight in pairs
        for side in (gone, tuple(sorted(everyone.difference(gone))))
    ]


def _fit(number: int, sets: Coalitions, values: Any, rise: float) -> Any:
    """Return the weighted least-squares solution that adds up to `rise`.

    With every score starting from an equal share, what is left to fit adds up to zero. The centred rows do not see
    the sum of a solution; a constant in the normal equations makes it zero.
    """
    present = presence(number, [gone for gone, _ in sets])
    share = present.mean(1)
    rows = present - share[:, None]
    weighted = rows * np.array([weight for _, weight in sets])[:, None]
    squares = weighted.T @ rows
    squares += np.trace(squares) / number**2
    left = weighted.T @ (values - share * rise)
    # Least squares once more, for directions in which the samples say nothing at all.
    return rise / number + np.linalg.lstsq(squares, left, rcond=1e-10)[0]
