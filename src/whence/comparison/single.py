"""Two models on one input: their flows, what differs between these, and how far each head is from its twin."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from whence.comparison.match import check_shape, check_tokens
from whence.comparison.rows import Array, read_rows
from whence.explainer import Explanation, Inside
from whence.explainer.work import origin
from whence.flow import Direction, Name, Query, difference, divergence, possible, trace_flow

_EDGES = 5000

Given = Explanation | Mapping[str, Any] | None


def compared(
    a: Inside,
    b: Inside,
    *,
    weight: Name = "attention",
    direction: Direction = "back",
    token: int | None = None,
    query: Query | None = None,
    most: int = _EDGES,
    explanations: Sequence[Given] = (None, None),
) -> dict[str, Any]:
    """Return two models on one input as the documented object.

    `a` and `b` are what `explainer.inside(...)` gave for the same text. `weight` to `most` are those of
    `Inside.flow`. `explanations`: one for each model, or None.
    """
    names = (a.loaded.name, b.loaded.name)
    check_tokens(a.source.text, a.tokens, b.tokens, names)
    check_shape((a.layers, a.heads), (b.layers, b.heads), names)
    asked = query or Query()
    rows = read_rows(a, b)
    sides = list(zip((a, b), rows, strict=True))
    flows = [
        side.flow(weight, direction=direction, token=token, query=asked, most=most, rows=read)
        for side, read in sides
    ]
    first, second = (
        trace_flow(side.weights(weight), read, direction, token) for side, read in sides
    )
    mean, decision = divergence(a.attention(), b.attention(), (rows[0] + rows[1]) / 2)
    return {
        "kind": "compared",
        "a": origin(a.loaded)["model"],
        "b": origin(b.loaded)["model"],
        "input": asdict(a.source),
        "tokens": [asdict(one) for one in a.tokens],
        "words": [asdict(one) for one in a.words],
        "predictions": [_prediction(side) for side in (a, b)],
        "flows": flows,
        "difference": difference(first, second, most, asked, a.special, a.segments).to_dict(),
        "possible": possible(first, second, asked, a.special, a.segments),
        "divergence": mean.tolist(),
        "decision": decision.tolist(),
        "layers": mean.mean(1).tolist(),
        "changed": _changed(mean, decision),
        "explanations": [_explanation(one) for one in explanations],
        "warnings": [
            {"code": one["code"], "message": _named(side.loaded.name, one["message"])}
            for side in ((a, b) if a.loaded is not b.loaded else (a,))
            for one in side.warnings()
        ],
    }


def _named(name: str, message: str) -> str:
    return message if message.startswith(name) else f"{name}: {message}"


def _prediction(inside: Inside) -> dict[str, Any] | None:
    said = inside.prediction
    if said is None:
        return None
    return {**asdict(said), "logits": list(said.logits)}


def _changed(mean: Array, read: Array) -> list[dict[str, Any]]:
    """Return the heads, the most changed first; those that did not change are not among them."""
    heads = mean.shape[1]
    order = sorted(range(mean.size), key=lambda place: (-float(mean.flat[place]), place))
    places = [divmod(place, heads) for place in order]
    return [
        {
            "layer": layer,
            "head": head,
            "divergence": float(mean[layer, head]),
            "decision": float(read[layer, head]),
        }
        for layer, head in places
        if mean[layer, head] > 0
    ]


def _explanation(given: Given) -> dict[str, Any] | None:
    if isinstance(given, Explanation):
        return dict(given.to_dict()["explanations"][0])
    return None if given is None else dict(given)
