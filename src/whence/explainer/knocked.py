"""Paths and heads put to the test: cut, and the prediction looked at, beside random cuts of the same size."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from whence.capture.knockout import Cuts, cut_logits
from whence.capture.target import probabilities
from whence.core.errors import BadParameter
from whence.core.seed import generator

if TYPE_CHECKING:
    from whence.explainer.inside import Inside


class Value(NamedTuple):
    """The target, as a probability (or what a regression gives) and as a logit."""

    probability: float
    logit: float


Edge = tuple[int, int, int, int]  # layer, head (-1: all of them), source, to
Progress = Callable[[int, int], None]
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

# Changes of a probability below this are shown, and called small.
_HARDLY = 0.01
_NOTHING = np.empty((0, 4), dtype=np.int64)

# Weights of all copies of one layer's map; cuts and maps of a batch stay below a few of these.
_CELLS = 1 << 26


def verified(
    inside: "Inside",
    edges: Sequence[Edge],
    *,
    draws: int,
    seed: int,
    progress: Progress | None,
) -> dict[str, Any]:
    """Cut a path with and without making up for it in its rows, and random paths in the same way."""
    if draws < 5:
        raise BadParameter(f"draws must be at least 5, to tell a path from chance. Got {draws}.")
    chosen = _checked(inside, edges)
    sets = [chosen, *_random_sets(inside, chosen, draws, seed)]
    target = inside.target
    assert target is not None
    done, total = 0, 2 * len(sets)
    tests, before = [], _values(inside, [_NOTHING], renormalise=False)[0]
    attention = inside.attention()
    masses = [float(attention[tuple(one.T)].sum()) for one in sets]
    for renormalise in (True, False):
        values: list[Value] = []
        for some in _some(sets, _size(inside)):
            values += _values(inside, some, renormalise=renormalise)
            done += len(some)
            if progress is not None:
                progress(done, total)
        tests.append(_told(before, values, masses, renormalise, str(target)))
    return {
        "kind": "verified",
        "edges": len(chosen),
        "layers": sorted({int(layer) for layer in chosen[:, 0]}),
        "target": asdict(target),
        "before": before.probability,
        "tests": tests,
        "sentence": tests[0]["sentence"],
        "warnings": _warnings(masses),
    }


def ablated(inside: "Inside", progress: Progress | None) -> Floats:
    """Return how the target's probability changes when each head attends to nothing, (layers, heads)."""
    n, places = (
        len(inside.tokens),
        [(a, b) for a in range(inside.layers) for b in range(inside.heads)],
    )
    before = _values(inside, [_NOTHING], renormalise=False)[0].probability
    rows, columns = (part.ravel() for part in np.indices((n, n)))
    changes: list[float] = []
    for some in _some(places, _size(inside)):
        whole = [
            np.stack([np.full(n * n, layer), np.full(n * n, head), rows, columns], 1)
            for layer, head in some
        ]
        changes += [
            value.probability - before for value in _values(inside, whole, renormalise=False)
        ]
        if progress is not None:
            progress(len(changes), len(places))
    return np.array(changes).reshape(inside.layers, inside.heads)


def _checked(inside: "Inside", edges: Sequence[Edge]) -> Numbers:
    """Return the edges, each once, one row each: those of all heads become one for each head."""
    if not edges:
        raise BadParameter("There is nothing to cut: no edge was given. Show some, then verify.")
    tokens = len(inside.tokens)
    bounds = (inside.layers, inside.heads, tokens, tokens)
    for edge in edges:
        low = (0, -1, 0, 0)
        if len(edge) != 4 or not all(a <= b < c for a, b, c in zip(low, edge, bounds, strict=True)):
            raise BadParameter(
                f"There is no edge {tuple(edge)}: layer, head, source and to are below {bounds}; head -1 means all."
            )
    spread = {
        (layer, one, source, to)
        for layer, head, source, to in edges
        for one in (range(inside.heads) if head == -1 else [head])
    }
    return np.array(sorted(spread), dtype=np.int64)


def _random_sets(inside: "Inside", chosen: Numbers, draws: int, seed: int) -> Iterator[Numbers]:
    """Draw sets with as many edges of each layer, among all that lead from the decision.

    Of the last layer only the rows that are read do: a random edge of another row would change nothing for certain,
    and any path would look better than chance.
    """
    possible = _leading(inside)
    counts = {
        int(layer): int((chosen[:, 0] == layer).sum()) for layer in set(chosen[:, 0].tolist())
    }
    places = {layer: np.argwhere(possible[layer]) for layer in counts}
    for draw in range(draws):
        random = generator("knockout", seed, draw, *inside.item.ids)
        parts = []
        for layer, count in counts.items():
            where = places[layer]
            # A path may hold edges that lead nowhere, so that there may be fewer to draw from.
            picked = where[random.choice(len(where), min(count, len(where)), replace=False)]
            parts.append(np.column_stack([np.full(len(picked), layer), picked]))
        yield np.concatenate(parts)


def _leading(inside: "Inside") -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Say which edges have any weight and start where something leads from the decision, level by level down."""
    edges = inside.attention() > 0
    reached = inside.rows > 0
    for layer in reversed(edges):
        layer &= reached[:, None]
        reached = reached | layer.any(axis=(0, 1))
    return edges


def _size(inside: "Inside") -> int:
    return max(1, min(inside.at_a_time(), _CELLS // (inside.heads * len(inside.tokens) ** 2)))


def _some(many: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    for start in range(0, len(many), size):
        yield many[start : start + size]


def _values(inside: "Inside", sets: Sequence[Numbers], *, renormalise: bool) -> list[Value]:
    """Return what becomes of the target with each of the sets cut, one forward for all of them."""
    loaded, batch = inside.loaded, inside.copies(len(sets))
    target = inside.target
    assert target is not None
    with cut_logits(loaded.model, len(sets), renormalise=renormalise) as run:
        logits = run(batch, _cuts(inside, sets)).double()
    both = []
    for outputs in (probabilities(logits, loaded.task), logits):
        found = outputs[:, target.index]
        both.append(found if target.against is None else found - outputs[:, target.against.index])
    return [Value(float(one), float(two)) for one, two in zip(*both, strict=True)]


def _cuts(inside: "Inside", sets: Sequence[Numbers]) -> Cuts:
    tokens, device = len(inside.tokens), inside.loaded.device
    cuts: dict[int, torch.Tensor] = {}
    for row, edges in enumerate(sets):
        for layer in set(edges[:, 0].tolist()):
            if layer not in cuts:
                shape = (len(sets), inside.heads, tokens, tokens)
                cuts[layer] = torch.zeros(shape, dtype=torch.bool, device=device)
            head, source, to = torch.from_numpy(edges[edges[:, 0] == layer, 1:].T).to(device)
            cuts[layer][row, head, source, to] = True
    return cuts


def _told(
    before: Value, values: Sequence[Value], masses: Sequence[float], renormalise: bool, target: str
) -> dict[str, Any]:
    changes = np.array([value.probability - before.probability for value in values])
    own, random = float(changes[0]), changes[1:]
    logits = np.array([value.logit - before.logit for value in values])
    beaten = int((np.abs(random) < abs(own)).sum())
    low, high = np.quantile(random, [0.025, 0.975])
    how = "and letting the rest of each row make up for it" if renormalise else "and nothing else"
    small = " So done, the decision hardly depends on them." if abs(own) < _HARDLY else ""
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
        "sentence": f"Cutting these edges, {how}, moves {target} from {before.probability:.3g} by {own:+.2g} "
        f"(its logit by {logits[0]:+.2g}); as many random edges move it by {random.mean():+.2g} "
        f"({low:+.2g} to {high:+.2g}). That is more than {beaten} of {len(random)} random sets do.{small}",
    }


def _warnings(masses: Sequence[float]) -> list[dict[str, str]]:
    """Say so where random edges are no fair match: strong edges carry more attention than random ones."""
    random = float(np.mean(masses[1:]))
    if masses[0] <= 2 * random:
        return []
    return [
        {
            "code": "heavier-than-random",
            "message": f"These edges hold {masses[0]:.3g} of attention together, random ones {random:.3g}: "
            "part of what the cut does is that it takes away more attention, whatever the path.",
        }
    ]
