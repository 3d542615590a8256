"""Attention flow (Abnar & Zuidema 2020): maximum flow from prediction to each token, attention as capacities."""

from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray

from whence.core.params import Range
from whence.methods import Query, Scores, method, query_rows
from whence.tracing.trace import Trace

# The solver takes 32-bit integers. The flow out of a node adds up to 1, so no sum exceeds 2^30 by more than the
# rounding: half of the range is left. Rounding a capacity errs by at most 2^-31; a flow at 60 tokens and 12 layers
# errs by 5e-9, and that is corrected below.
_SCALE = 2**30

_ABNAR = {"start_layer": 0, "residual": 0.5, "query": "read", "normalise": True}


@method(
    "max_flow",
    family="attention",
    needs={"attention"},
    signed=False,
    unit="share",
    unit_when=lambda parameters: "share" if parameters["normalise"] else "relative",
    presets={"abnar": _ABNAR, "abnar_sst": {**_ABNAR, "query": "max"}},
    cite="Abnar & Zuidema 2020, arXiv:2005.00928",
    formula="s_j = max-flow((L, i) -> (start, j)) over capacities (1-r) mean_h A_l + r I,  divided by Σ_j",
    cost="1 forward, and n maximum flows on a graph of L·n² edges: slow for texts of hundreds of tokens",
    misleads_when="several tokens can each take all that flows, and tie; values, heads and MLPs move information "
    "that the weights do not show; it knows no class",
)
def max_flow(
    trace: Trace,
    *,
    start_layer: int = 0,
    residual: Annotated[float, Range(0, 1)] = 0.5,
    query: Query = "read",
    normalise: bool = True,
) -> Scores:
    """Take attention for the width of pipes, and find the largest flow from the prediction to each token.

    Where a model reads several rows, their weights are the first pipes. `query` may read another row than the
    prediction does; "max" solves n times as many flows.
    """
    layers = trace.from_layer(start_layer)
    scores = torch.zeros_like(trace.rows)
    queries = torch.stack(query_rows(trace, query)).cpu().double().numpy()
    means = [layer.map().to(scores.dtype).mean(1) for layer in layers]
    maps = torch.stack(means, dim=1).cpu().double().numpy()  # (batch, layers, queries, keys)
    for item, length in enumerate(trace.real.sum(1).tolist()):
        pipes = (1 - residual) * maps[item, :, :length, :length] + residual * np.eye(length)
        flows = np.stack([_compute_flows(pipes, row[item, :length]) for row in queries])
        if normalise:
            totals = flows.sum(1, keepdims=True)
            flows = np.divide(flows, totals, out=np.zeros_like(flows), where=totals > 0)
        scores[item, :length] = torch.as_tensor(flows.max(0)).to(scores)
    return scores


def _compute_flows(pipes: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest flow to each token from a source that feeds the rows by their weights.

    Node l·n + i is token i above l layers, and pipes[l] leads from there down: (layers, queries, keys).
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    depth, n, _ = pipes.shape
    source = (depth + 1) * n
    layer, query, key = np.nonzero(pipes)
    fed = np.nonzero(weights)[0]
    above = np.concatenate([(layer + 1) * n + query, np.full(len(fed), source)]).astype(np.int32)
    below = np.concatenate([layer * n + key, depth * n + fed]).astype(np.int32)
    capacity = np.concatenate([pipes[layer, query, key], weights[fed]])
    scaled = np.rint(capacity * _SCALE).astype(np.int32)
    graph = csr_array((scaled, (above, below)), shape=(source + 1, source + 1))
    flows = np.zeros(n)
    for token in range(n):
        left = graph - maximum_flow(graph, source, token).flow
        left.eliminate_zeros()
        reached = np.zeros(source + 1, dtype=bool)
        reached[breadth_first_order(left, source, return_predecessors=False)] = True
        # The flow is as large as the smallest cut. The integers say where that is, the capacities as they were say
        # how large: rounding is felt only where two cuts are as good as equal, and then by no more than itself.
        flows[token] = capacity[reached[above] & ~reached[below]].sum()
    return flows
