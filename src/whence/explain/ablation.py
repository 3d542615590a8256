"""Ablation of attention edges and heads, edges tested against random cuts, and sentences on the result.

Random edges are drawn among those that lead from the decision; others would change nothing for certain.
A change is small below 0.01 of a probability and 0.04 of a logit (dp = p (1 - p) dy at p = 1/2).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from whence.core.errors import BadParameter
from whence.core.progress import Progress
from whence.core.seed import build_generator
from whence.tracing.alter import EdgeCuts, cut_edges
from whence.tracing.target import compute_probabilities

if TYPE_CHECKING:
    from whence.explain.inside import Inside


class TargetValue(NamedTuple):
    """The target's value, as a probability (or a regression's output) and as a logit."""

    probability: float
    logit: float


Edge = tuple[int, int, int, int]  # layer, head (-1: all of them), source, to
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

# A change is small if it is below both: 0.01 of a probability, and 0.04 of a logit, which is the same at p = 1/2
# (dp = p (1 - p) dy). Near 1 a probability hardly moves whatever its logit does, so both are tested.
_SMALL_CHANGE = TargetValue(probability=0.01, logit=0.04)
_NO_CHANGE = 1e-6
_NO_EDGES = np.empty((0, 4), dtype=np.int64)

# Attention weights in one layer's maps of all copies in a batch: 64 Mi, 256 MB in float32.
_CELLS = 1 << 26


def verify_edges(
    inside: "Inside",
    edges: Sequence[Edge],
    *,
    draws: int,
    seed: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """Cut a path with and without renormalising its rows, and random paths in the same way."""
    if draws < 5:
        raise BadParameter(f"draws must be at least 5, to tell a path from chance. Got {draws}.")
    chosen = _expand_edges(inside, edges)
    sets = [chosen, *_draw_random_sets(inside, chosen, draws, seed)]
    target = inside.target
    assert target is not None
    count, total = 0, 2 * len(sets)
    layers = sorted({int(layer) for layer in chosen[:, 0]})
    tests, before = [], _compute_values(inside, [_NO_EDGES], renormalise=False, layers=layers)[0]
    attention = inside.attention()
    masses = [float(attention[tuple(cut.T)].sum()) for cut in sets]
    for renormalise in (True, False):
        values: list[TargetValue] = []
        for chunk in _split_batches(inside, sets):
            values += _compute_values(inside, chunk, renormalise=renormalise)
            count += len(chunk)
            if progress is not None:
                progress(count, total)
        tests.append(
            _describe_test(before, values, masses, renormalise, str(target), inside.loaded.task)
        )
    warnings, random = [], float(np.mean(masses[1:]))
    if masses[0] > 2 * random:  # no fair match
        message = (
            f"These edges hold as much attention as {masses[0]:.3g} whole rows do, random ones as much as "
            f"{random:.3g}: part of what the cut does is that it takes away more attention, whatever the path."
        )
        warnings.append({"code": "heavier-than-random", "message": message})
    return {
        "kind": "verified",
        "edges": len(chosen),
        "layers": layers,
        "target": asdict(target),
        "before": before.probability,
        "tests": tests,
        "sentence": _describe_both_tests(before, tests, str(target), inside.loaded.task),
        "warnings": warnings,
    }


def ablate_heads(inside: "Inside", progress: Progress | None) -> Floats:
    """Return the change of the target's probability when each head is ablated, (layers, heads)."""
    n, layers = len(inside.tokens), range(inside.layers)
    places = [(layer, head) for layer in layers for head in range(inside.heads)]
    before = _compute_values(inside, [_NO_EDGES], renormalise=False, layers=layers)[0].probability
    rows, columns = (part.ravel() for part in np.indices((n, n)))
    changes: list[float] = []
    for chunk in _split_batches(inside, places):
        whole = [
            np.stack([np.full(n * n, layer), np.full(n * n, head), rows, columns], 1)
            for layer, head in chunk
        ]
        values = _compute_values(inside, whole, renormalise=False)
        changes += [value.probability - before for value in values]
        if progress is not None:
            progress(len(changes), len(places))
    return np.array(changes).reshape(inside.layers, inside.heads)


def _expand_edges(inside: "Inside", edges: Sequence[Edge]) -> Numbers:
    """Return the edges as distinct rows; an edge of all heads (-1) becomes one edge per head."""
    if not edges:
        raise BadParameter("There is nothing to cut: no edge was given. Show some, then verify.")
    tokens = len(inside.tokens)
    bounds = (inside.layers, inside.heads, tokens, tokens)
    for edge in edges:
        low = (0, -1, 0, 0)
        if len(edge) != 4 or not all(
            isinstance(b, int | np.integer) and a <= b < c
            for a, b, c in zip(low, edge, bounds, strict=True)
        ):
            raise BadParameter(
                f"There is no edge {tuple(edge)}: layer, head, source and to are whole numbers below {bounds}; "
                "head -1 means all."
            )
    spread = {
        (layer, number, source, to)
        for layer, head, source, to in edges
        for number in (range(inside.heads) if head == -1 else [head])
    }
    return np.array(sorted(spread), dtype=np.int64)


def _draw_random_sets(
    inside: "Inside", chosen: Numbers, draws: int, seed: int
) -> Iterator[Numbers]:
    """Draw sets with as many edges in each layer as `chosen`, among edges that lead from the decision.

    In the last layer only the read rows do: a random edge of another row would change nothing for certain,
    and any path would look better than chance.
    """
    possible, reached = inside.attention() > 0, inside.rows > 0
    for layer_edges in reversed(possible):
        layer_edges &= reached[:, None]
        reached = reached | layer_edges.any(axis=(0, 1))
    counts = Counter(chosen[:, 0].tolist())
    places = {layer: np.argwhere(possible[layer]) for layer in counts}
    for draw in range(draws):
        random = build_generator("knockout", seed, draw, *inside.item.key)
        parts = []
        for layer, count in counts.items():
            where = places[layer]
            # The path may include edges that do not lead from the decision: there may be fewer to draw from.
            picked = where[random.choice(len(where), min(count, len(where)), replace=False)]
            parts.append(np.column_stack([np.full(len(picked), layer), picked]))
        yield np.concatenate(parts)


def _split_batches(inside: "Inside", many: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield so many at a time as copies of the input that fit into a batch."""
    fitting = _CELLS // (inside.heads * len(inside.tokens) ** 2)
    size = max(1, min(inside.max_batch_copies(), fitting))
    for start in range(0, len(many), size):
        yield many[start : start + size]


def _compute_values(
    inside: "Inside", sets: Sequence[Numbers], *, renormalise: bool, layers: Iterable[int] = ()
) -> list[TargetValue]:
    """Return the target's value with each set of edges cut, in one forward pass.

    Attention in `layers` is computed as for cuts there, also without any: in half precision the model's own attention
    kernel gives another result, and that would count as a change.
    """
    loaded, batch = inside.loaded, inside.copies(len(sets))
    target = inside.target
    assert target is not None
    with cut_edges(loaded.model, len(sets), renormalise=renormalise) as run:
        logits = run(batch, _build_cuts(inside, sets, layers)).double()
    both = []
    for outputs in (compute_probabilities(logits, loaded.task), logits):
        value = outputs[:, target.index]
        both.append(value if target.against is None else value - outputs[:, target.against.index])
    return [TargetValue(float(p), float(logit)) for p, logit in zip(*both, strict=True)]


def _build_cuts(inside: "Inside", sets: Sequence[Numbers], layers: Iterable[int]) -> EdgeCuts:
    tokens, device = len(inside.tokens), inside.loaded.device
    touched = {*layers, *(int(layer) for edges in sets for layer in edges[:, 0])}
    shape = (len(sets), inside.heads, tokens, tokens)
    cuts = {layer: torch.zeros(shape, dtype=torch.bool, device=device) for layer in sorted(touched)}
    for row, edges in enumerate(sets):
        for layer in set(edges[:, 0].tolist()):
            head, source, to = torch.from_numpy(edges[edges[:, 0] == layer, 1:].T).to(device)
            cuts[layer][row, head, source, to] = True
    return cuts


def _describe_test(
    before: TargetValue,
    values: Sequence[TargetValue],
    masses: Sequence[float],
    renormalise: bool,
    target: str,
    task: str,
) -> dict[str, Any]:
    changes = np.array([value.probability - before.probability for value in values])
    own, random = float(changes[0]), changes[1:]
    logits = np.array([value.logit - before.logit for value in values])
    beaten = int((np.abs(random) < abs(own)).sum())
    low, high = np.quantile(random, [0.025, 0.975])
    how = "and letting the rest of each row make up for it" if renormalise else "and nothing else"
    logit = "" if task == "regression" else f" (its logit by {_format_change(logits[0])})"
    return {
        "renormalised": renormalise,
        "probability": values[0].probability,
        "change": own,
        "random": random.tolist(),
        "random_mean": float(random.mean()),
        "random_low": float(low),
        "random_high": float(high),
        "logit_change": float(logits[0]),
        "random_logit_change": float(logits[1:].mean()),
        "beaten": beaten,
        "of": len(random),
        "mass": masses[0],
        "random_mass": float(np.mean(masses[1:])),
        "sentence": f"Cutting these edges, {how}, moves {target} from {_format_value(before.probability)} by "
        f"{_format_change(own)}{logit}; as many random edges move it by {_format_change(random.mean())} ({_format_change(low)} to "
        f"{_format_change(high)}). That is more than {beaten} of {len(random)} random sets do.",
    }


def _describe_both_tests(
    before: TargetValue, tests: Sequence[Mapping[str, Any]], target: str, task: str
) -> str:
    """Return a sentence on both ways of cutting, also where neither changed anything."""
    moved = " and ".join(
        f"by {_format_change(test['change'])} (more than {test['beaten']} of {test['of']} random sets) {way}"
        for test, way in zip(
            tests, ("where the rest of each row makes up for it", "where nothing does"), strict=True
        )
    )
    small = task != "regression" and all(
        abs(test["change"]) < _SMALL_CHANGE.probability
        and abs(test["logit_change"]) < _SMALL_CHANGE.logit
        for test in tests
    )
    text = f"Without these edges, {target} moves from {_format_value(before.probability)} {moved}."
    return f"{text} The decision hardly depends on them." if small else text


def _format_value(value: float) -> str:
    """Format a number without an exponent, and with a typographic minus sign."""
    return f"{Decimal(f'{value:.3g}'):f}".replace("-", "\u2212")


def _format_change(value: float) -> str:
    """Format a change with its sign and without an exponent; a change below 1e-6 is 0."""
    if abs(value) < _NO_CHANGE:
        return "0"
    return f"{Decimal(f'{value:.2g}'):+f}".replace("-", "\u2212")
