"""A flow as plain data: what the page draws and what is stored."""

from typing import Any

import numpy as np

from whence.flow.classic import Influence
from whence.flow.graph import Traced
from whence.flow.query import Bools
from whence.flow.select import Edges
from whence.flow.weights import CLASS_FREE, Floats

VERSION = 1


def flow_payload(
    traced: Traced, edges: Edges, special: Bools, reached: Influence | None = None
) -> dict[str, Any]:
    """Return a flow as plain data: all of it but the model, the target and the tokens.

    Shares are those of all edges, whatever the query, and nothing is rescaled for what is left out.
    """
    weights, moved = traced.weights, traced.moved
    past, along = traced.residual.sum(axis=1), moved.sum(axis=1)
    return {
        "version": VERSION,
        "kind": "flow",
        "weight": weights.name,
        "class_free": weights.name in CLASS_FREE,
        "direction": traced.direction,
        "token": traced.token,
        "layers": weights.layers,
        "heads": weights.heads,
        "per_head": weights.per_head,
        "edges": {
            name: getattr(edges, name).tolist()
            for name in ("layer", "head", "source", "to", "flow", "weight")
        },
        "count": edges.count,
        "total": edges.total,
        "sent": edges.sent,
        "whole": traced.whole,
        "nodes": traced.nodes.tolist(),
        "residual": traced.residual.tolist(),
        "residual_share": _shares(past, past + along),
        "special_share": _shares(moved[:, np.asarray(special, dtype=bool)].sum(axis=1), along),
        "shares": traced.shares.tolist(),
        "influence": None if reached is None else _influence(reached),
        "note": weights.note,
    }


def _shares(parts: Floats, wholes: Floats) -> list[float | None]:
    """Divide layer by layer; where nothing flows there is no share."""
    pairs = zip(parts.tolist(), wholes.tolist(), strict=True)
    return [part / whole if whole > 0 else None for part, whole in pairs]


def _influence(found: Influence) -> dict[str, Any]:
    return {
        "threshold": found.setting.threshold,
        "decay": found.setting.decay,
        "carry": found.setting.carry,
        "values": found.values.tolist(),
        "reached": found.reached.sum(axis=1).tolist(),
    }
