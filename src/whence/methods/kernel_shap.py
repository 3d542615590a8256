"""KernelSHAP (Lundberg & Lee 2017): Shapley values by weighted regression on sampled token coalitions."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch

from whence.core.errors import BadParameter
from whence.core.params import Range
from whence.core.seed import build_generator
from whence.data.batches import Batch
from whence.data.removal import (
    BULK_REMOVALS,
    CoalitionStratum,
    Removal,
    build_presence_matrix,
    list_players,
    resolve_removal,
    sample_coalitions,
)
from whence.data.tokens import EncodedInput
from whence.methods import Scores, method, settle_removal
from whence.tracing.ask import ModelQuery

Coalitions = list[tuple[tuple[int, ...], float]]  # players that are gone, and the weight


def _count_calls(tokens: int, parameters: Mapping[str, Any]) -> int:
    # Coalitions come in pairs. The empty and the full coalition are extra, and the full one is known already.
    return 1 + 2 * min((int(parameters["samples"]) - 2) // 2, (1 << (tokens - 1)) - 1)


@method(
    "kernel_shap",
    family="perturbation",
    needs=set(),
    signed=True,
    unit="output",
    settle=partial(settle_removal, prefer=BULK_REMOVALS),
    of="probability",
    calls=_count_calls,
    cite="Lundberg & Lee 2017, arXiv:1705.07874; pairs of coalitions as in Covert & Lee 2021, arXiv:2012.01536",
    formula="s_j = Σ_S |S|! (n-|S|-1)! / n! · (p(y | S + j) - p(y | S)),  by least squares over S of weight "
    "(n-1) / (C(n,|S|) |S| (n-|S|)), with Σ s = p(y | x) - p(y | nothing) built in",
    cost="up to `samples` forwards; 2ⁿ for n tokens if that is less",
    misleads_when="the model never saw text with most of it gone, as in most coalitions; or samples are few, and "
    "another seed gives another answer",
)
def kernel_shap(
    ask: ModelQuery,
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
    how = resolve_removal(remove, ask.fillers, BULK_REMOVALS)
    places = [list_players(item, ask.anchors) for item in batch.items]
    drawn = [
        _draw_coalitions(len(own), samples, seed, item)
        for item, own in zip(batch.items, places, strict=True)
    ]
    # First the empty coalition, then the others; an input without players needs no query.
    masked = [
        [own, *([own[player] for player in gone] for gone, _ in sets)] if own else []
        for own, sets in zip(places, drawn, strict=True)
    ]
    after = ask.without(masked, how)
    base = ask.base("probability")
    exact = torch.promote_types(base.dtype, torch.float32)
    parts = [base.new_zeros(len(item), dtype=exact) for item in batch.items]
    rises = torch.zeros(len(batch), dtype=exact, device=base.device)
    for row, (own, sets) in enumerate(zip(places, drawn, strict=True)):
        if not own:
            continue
        nothing, *values = after[row].tolist()
        rises[row] = rise = base[row].item() - nothing
        shapley = _fit(len(own), sets, np.array(values) - nothing, rise)
        parts[row][own] = torch.as_tensor(shapley).to(parts[row])
    scores = batch.pad_values(parts)
    return scores, {"completeness": scores.sum(1) - rises}


def _draw_coalitions(number: int, samples: int, seed: int, item: EncodedInput) -> Coalitions:
    """Return sets of players and their complements: all of them, or as many as `samples` allows."""
    if samples < min(2 * number, 2**number):
        raise BadParameter(
            f"kernel_shap cannot tell {number} tokens apart by samples={samples}. Give at least {2 * number}."
        )
    strata = [
        # At half the size complements are in the same stratum: only sets with the first player are drawn.
        CoalitionStratum(number, size, (1 if 2 * size == number else 2) / (size * (number - size)), 2 * size == number)
        for size in range(1, number // 2 + 1)
    ]  # fmt: skip
    pairs = sample_coalitions(
        strata, (samples - 2) // 2, build_generator("kernel_shap", seed, item.key)
    )
    players = frozenset(range(number))
    return [
        (side, weight / 2)
        for gone, weight in pairs
        for side in (gone, tuple(sorted(players.difference(gone))))
    ]


def _fit(number: int, sets: Coalitions, values: Any, rise: float) -> Any:
    """Return the weighted least-squares solution that adds up to `rise`.

    Every score starts from an equal share, so the remainder to fit adds up to zero. The centred rows do not see
    the sum of a solution; a constant in the normal equations makes it zero.
    """
    present = build_presence_matrix(number, [gone for gone, _ in sets])
    share = present.mean(1)
    rows = present - share[:, None]
    weighted = rows * np.array([weight for _, weight in sets])[:, None]
    squares = weighted.T @ rows
    squares += np.trace(squares) / number**2
    left = weighted.T @ (values - share * rise)
    # Least squares instead of a plain solve: the samples may leave some directions undetermined.
    return rise / number + np.linalg.lstsq(squares, left, rcond=1e-10)[0]
