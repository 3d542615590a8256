"""JSON-ready data of a traced flow (edges, nodes, shares, influence), for pages, the app and storage."""

from typing import Any

import numpy as np

from whence.flow.classic import ClassicInfluence
from whence.flow.graph import Bools, StrongestEdges, TracedFlow
from whence.flow.weights import CLASS_FREE_WEIGHTS, Floats

PAYLOAD_VERSION = 1


def build_flow_payload(
    traced: TracedFlow,
    edges: StrongestEdges,
    special: Bools,
    reached: ClassicInfluence | None = None,
) -> dict[str, Any]:
    """Return a flow as plain data, without the model, the target and the tokens.

    Shares refer to all edges, whatever the query; nothing is rescaled for edges that are left out.
    """
    weights, moved = traced.weights, traced.moved
    past, along = traced.residual.sum(axis=1), moved.sum(axis=1)
    return {
        "version": PAYLOAD_VERSION,
        "kind": "flow",
        "weight": weights.name,
        "class_free": weights.name in CLASS_FREE_WEIGHTS,
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
        "sent": edges.total_flow,
        "whole": traced.whole,
        "nodes": traced.nodes.tolist(),
        "residual": traced.residual.tolist(),
        "residual_share": _compute_shares(past, past + along),
        "special_share": _compute_shares(
            moved[:, np.asarray(special, dtype=bool)].sum(axis=1), along
        ),
        "shares": traced.shares.tolist(),
        "influence": None
        if reached is None
        else {
            "threshold": reached.setting.threshold,
            "decay": reached.setting.decay,
            "carry": reached.setting.carry,
            "values": reached.values.tolist(),
            "reached": reached.reached.sum(axis=1).tolist(),
        },
        "note": weights.note,
    }


def _compute_shares(parts: Floats, wholes: Floats) -> list[float | None]:
    """Return parts over wholes, layer by layer; None where nothing flows."""
    pairs = zip(parts.tolist(), wholes.tolist(), strict=True)
    return [part / whole if whole > 0 else None for part, whole in pairs]
