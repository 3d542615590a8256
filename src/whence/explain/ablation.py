"""Paths and heads put to the test: cut, and the prediction looked at, beside random cuts of the same size."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from whence.capture.changed.knockout import Cuts, cut_logits
from whence.capture.target import probabilities
from whence.core.errors import BadParameter
from whence.core.seed import generator

if TYPE_CHECKING:
    from whence.explainer.inside.inside import Inside


class Value(NamedTuple):
    """The target, as a probability (or what a regression gives) and as a logit."""

    probability: float
    logit: float


Edge = tuple[int, int, int, int]  # layer, head (-1: all of them), source, to
Progress = Callable[[int, int], None]
Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]
Numbers = np.ndarray[Any, np.dtype[np.int64]]

# Changes below both are called small: of a probability, and of a logit what the first is at a probability of one
# half (dp = p (1 - p) dy), since a probability near 1 hardly moves whatever its logit does.
_HARDLY = Value(probability=0.01, logit=0.04)
_NO_CHANGE = 1e-6
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
    layers = sorted({int(layer) for layer in chosen[:, 0]})
    tests, before = [], _uncut(inside, layers)
    attention = inside.attention()
    masses = [float(attention[tuple(one.T)].sum()) for one in sets]
    for renormalise in (True, False):
        values: list[Value] = []
        for some in _some(sets, _size(inside)):
            values += _values(inside, some, renormalise=renormalise)
            done += len(some)
            if progress is not None:
                progress(done, total)
        tests.append(_told(before, values, masses, renormalise, str(target), inside.loaded.task))
    return {
        "kind": "verified",
        "edges": len(chosen),
        "layers": layers,
        "target": asdict(target),
        "before": before.probability,
        "tests": tests,
        "sentence": _both_ways(before, tests, str(target), inside.loaded.task),
        "warnings": _warnings(masses),
    }


def ablated(inside: "Inside", progress: Progress | None) -> Floats:
    """Return how the target's probability changes when each head attends to nothing, (layers, heads)."""
    n, places = (
        len(inside.tokens),
        [(a, b) for a in range(inside.layers) for b in range(inside.heads)],
    )
    before = _uncut(inside, range(inside.layers)).probability
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
        if len(edge) != 4 or not all(
            isinstance(b, int | np.integer) and a <= b < c
            for a, b, c in zip(low, edge, bounds, strict=True)
        ):
            raise BadParameter(
                f"There is no edge {tuple(edge)}: layer, head, source and to are whole numbers below {bounds}; "
                "head -1 means all."
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
        random = generator("knockout", seed, draw, *inside.item.key)
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


def _uncut(inside: "Inside", layers: Iterable[int]) -> Value:
    """Return the target with nothing cut, by the same way of computing attention in these layers.

    In a narrow dtype the model's own way gives another result, and that would count as a change.
    """
    return _values(inside, [_NOTHING], renormalise=False, layers=layers)[0]


def _values(
    inside: "Inside", sets: Sequence[Numbers], *, renormalise: bool, layers: Iterable[int] = ()
) -> list[Value]:
    """Return what becomes of the target with each of the sets cut, one forward for all of them."""
    loaded, batch = inside.loaded, inside.copies(len(sets))
    target = inside.target
    assert target is not None
    with cut_logits(loaded.model, len(sets), renormalise=renormalise) as run:
        logits = run(batch, _cuts(inside, sets, layers)).double()
    both = []
    for outputs in (probabilities(logits, loaded.task), logits):
        found = outputs[:, target.index]
        both.append(found if target.against is None else found - outputs[:, target.against.index])
    return [Value(float(one), float(two)) for one, two in zip(*both, strict=True)]


def _cuts(inside: "Inside", sets: Sequence[Numbers], layers: Iterable[int]) -> Cuts:
    tokens, device = len(inside.tokens), inside.loaded.device
    touched = {*layers, *(int(layer) for edges in sets for layer in edges[:, 0])}
    shape = (len(sets), inside.heads, tokens, tokens)
    cuts = {layer: torch.zeros(shape, dtype=torch.bool, device=device) for layer in sorted(touched)}
    for row, edges in enumerate(sets):
        for layer in set(edges[:, 0].tolist()):
            head, source, to = torch.from_numpy(edges[edges[:, 0] == layer, 1:].T).to(device)
            cuts[layer][row, head, source, to] = True
    return cuts


def _told(
    before: Value,
    values: Sequence[Value],
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
    logit = "" if task == "regression" else f" (its logit by {_signed(logits[0])})"
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
        "sentence": f"Cutting these edges, {how}, moves {target} from {_plain(before.probability)} by "
        f"{_signed(own)}{logit}; as many random edges move it by {_signed(random.mean())} ({_signed(low)} to "
        f"{_signed(high)}). That is more than {beaten} of {len(random)} random sets do.",
    }


def _both_ways(before: Value, tests: Sequence[Mapping[str, Any]], target: str, task: str) -> str:
    """Say what both ways of cutting did, and if neither moved anything, that the decision hardly depends on it."""
    moved = " and ".join(
        f"by {_signed(test['change'])} (more than {test['beaten']} of {test['of']} random sets) {way}"
        for test, way in zip(
            tests, ("where the rest of each row makes up for it", "where nothing does"), strict=True
        )
    )
    small = task != "regression" and all(
        abs(test["change"]) < _HARDLY.probability and abs(test["logit_change"]) < _HARDLY.logit
        for test in tests
    )
    said = f"Without these edges, {target} moves from {_plain(before.probability)} {moved}."
    return f"{said} The decision hardly depends on them." if small else said


def _plain(value: float) -> str:
    """Write a figure without an exponent, and with a minus that is one."""
    return f"{Decimal(f'{value:.3g}'):f}".replace("-", "\u2212")


def _signed(value: float) -> str:
    """Write a change: with its sign, without an exponent; what no eye could tell from nothing is 0."""
    if abs(value) < _NO_CHANGE:
        return "0"
    return f"{Decimal(f'{value:.2g}'):+f}".replace("-", "\u2212")


def _warnings(masses: Sequence[float]) -> list[dict[str, str]]:
    """Say so where random edges are no fair match: strong edges carry more attention than random ones."""
    random = float(np.mean(masses[1:]))
    if masses[0] <= 2 * random:
        return []
    return [
        {
            "code": "heavier-than-random",
            "message": f"These edges hold as much attention as {masses[0]:.3g} whole rows do, random ones as much as "
            f"{random:.3g}: part of what the cut does is that it takes away more attention, whatever the path.",
        }
    ]
