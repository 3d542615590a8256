"""What flows along the edges: back from the decision or a token, forward from a token, or through a word.

Levels count from 0 at the input; layer l lies between level l and level l + 1. Of what stands at level l + 1 and
token i, a share goes past the layer by the skip connection, and the rest goes along the edges of row i down to level
l. All flows are products of three factors, one of them for each token above the layer, one for each token below it
and one for the edge, so that no more than one layer of them is ever written out.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from whence.core.errors import BadParameter
from whence.flow.weights import Floats, Weights

Direction = Literal["back", "forward", "through"]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


@dataclass(frozen=True, eq=False)
class Traced:
    """One trace through the graph of one input."""

    weights: Weights
    direction: Direction
    token: int | None  # None: the decision
    nodes: Floats  # (layers + 1, tokens): what arrived there
    residual: Floats  # (layers, tokens): what went past the layer by the skip connection
    moved: Floats  # (layers, tokens): what the layer's edges carry to or from the token below it
    above: Floats  # (layers, tokens): the factor of the token that attends
    below: Floats  # (layers, tokens): the factor of the token that is attended to

    @property
    def layers(self) -> int:
        return self.weights.layers

    @property
    def tokens(self) -> int:
        return self.weights.tokens

    @property
    def shares(self) -> Floats:
        """What ends at each token: at the input, or where the trace goes forward, above the last layer."""
        shares: Floats = self.nodes[-1 if self.direction == "forward" else 0]
        return shares

    @property
    def whole(self) -> float:
        """What all edges carry."""
        return float(self.moved.sum())

    def flow(self, layer: int) -> Floats:
        """Write out what the edges of one layer carry, (heads or 1, tokens, tokens), in float64."""
        factor = self.above[layer][:, None] * self.below[layer]
        flows: Floats = np.multiply(self.weights.edge[layer], factor, dtype=np.float64)
        return flows


def trace_flow(
    weights: Weights, root: Floats, direction: Direction = "back", token: int | None = None
) -> Traced:
    """Trace what flows; `root` (tokens,) are the rows that the decision reads, adding up to 1.

    - "back": from the decision to the words, or from a token's place above the last layer.
    - "forward": where what a token holds at the input goes. A node's figure is the share of what stands there that
      comes from the token, and an edge carries what its lower end holds of it, times the edge's share.
    - "through": the paths from the decision that end at the token, at the input; they add up, at every level, to
      what the token has in the trace back from the decision.
    """
    _check(weights, direction, token)
    layers, tokens = weights.layers, weights.tokens
    # Everything above layer l at token i, before it is divided by heads and sources.
    factor = weights.scale * (1 - weights.residual)
    down: Floats = np.ones((layers + 1, tokens))
    up: Floats = np.ones((layers + 1, tokens))
    if direction != "forward":
        down = _down(
            weights, factor, _start(weights, root, None if direction == "through" else token)
        )
    if direction != "back":
        assert token is not None
        up = _up(weights, factor, token)
    above, below = down[1:] * factor, up[:-1]
    moved = np.stack(
        [below[layer] * (above[layer] @ weights.together[layer]) for layer in range(layers)]
    )
    return Traced(
        weights,
        direction,
        token,
        nodes=down * up,
        residual=down[1:] * weights.residual * up[:-1],
        moved=moved,
        above=above,
        below=below,
    )


def _down(weights: Weights, factor: Floats, start: Floats) -> Floats:
    """Return what arrives at each level on the way from the start to the input."""
    levels = [start]
    for layer in reversed(range(weights.layers)):
        here = levels[-1]
        levels.append(
            (here * factor[layer]) @ weights.together[layer] + here * weights.residual[layer]
        )
    return np.stack(levels[::-1])


def _up(weights: Weights, factor: Floats, token: int) -> Floats:
    """Return the share of each place that comes from the token, on the way from the input to the output."""
    levels = [_one(weights.tokens, token)]
    for layer in range(weights.layers):
        here = levels[-1]
        levels.append(
            factor[layer] * (weights.together[layer] @ here) + here * weights.residual[layer]
        )
    return np.stack(levels)


def _start(weights: Weights, root: Floats, token: int | None) -> Floats:
    return np.asarray(root, dtype=np.float64) if token is None else _one(weights.tokens, token)


def _one(tokens: int, token: int) -> Floats:
    start = np.zeros(tokens)
    start[token] = 1
    return start


def _check(weights: Weights, direction: Direction, token: int | None) -> None:
    if direction not in DIRECTIONS:
        raise BadParameter(
            f"There is no direction {direction!r}. There are: {', '.join(DIRECTIONS)}."
        )
    if token is None and direction != "back":
        raise BadParameter(f"A trace {direction!r} needs a token: 0 to {weights.tokens - 1}.")
    if token is not None and not (
        isinstance(token, int | np.integer) and 0 <= token < weights.tokens
    ):
        raise BadParameter(
            f"There is no token {token}: the input has {weights.tokens}, counted from 0."
        )
