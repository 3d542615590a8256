"""The relevance of an attention's output, shared out slowly: from the map written out, entry by entry, in float64."""

import torch
from torch import Tensor

from tests.reference.twins_kernels import written


def divided(n: float, d: float, signed: bool, eps: float) -> float:
    """Divide as the stabilisers do."""
    if signed:
        return n / (d - eps if d < 0 else d + eps)
    return 0.0 if d == 0 else n / (d + eps or eps)


def shared(
    layer, quotient: Tensor, *, signed: bool, masked: bool, eps: float
) -> tuple[list[Tensor], list[Tensor], list[float], list[float]]:
    """Return what q, k and v get, the sizes of these sums, and what the map carries before and after its mask."""
    map_of = written(layer, quotient)
    batch, heads, queries, keys = map_of.weights.shape
    share = heads // layer.k.shape[1]
    scale = layer.q.shape[-1] ** -0.5 if layer.scale is None else layer.scale
    q, k, v, s = (one.double() for one in (layer.q, layer.k, layer.v, quotient))
    k, v = (one.nan_to_num() for one in (k, v))
    got = [torch.zeros_like(one) for one in (q, k, v)]
    size = [torch.zeros_like(one) for one in (q, k, v)]
    before, after = [0.0] * batch, [0.0] * batch
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                for j in range(keys):
                    weight = float(map_of.weights[b, h, i, j])
                    if weight == 0:
                        continue
                    key, value = k[b, h // share, j], v[b, h // share, j]
                    score = float(q[b, h, i] @ key)
                    carried = float(map_of.relevance[b, h, i, j])
                    before[b] += carried
                    if masked and not signed:
                        carried = divided(carried, score * scale, signed, eps) * score * scale
                    after[b] += carried
                    each = divided(carried, score, signed, eps) * q[b, h, i] * key / 2
                    of_value = weight * s[b, h, i] * value / 2
                    for part, to in ((0, each), (1, each), (2, of_value)):
                        at = (b, h, i) if part == 0 else (b, h // share, j)
                        got[part][at] += to
                        size[part][at] += to.abs()
    return got, size, before, after
