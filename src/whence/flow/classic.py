"""Tokens reached along attention above a threshold, with counts of visits that decay (DeRose et al. 2020).

The symbols are theirs. The exact formula of their system is not known to us; this is a definition that fits
their description. Begin with the token that is read; from the tokens reached above a layer, go to all that
a head attends to with the threshold's weight or more; count how often each token is reached, and let the
counts from above decay.
"""

from dataclasses import dataclass

import numpy as np

from whence.core.errors import BadParameter
from whence.flow.graph import Bools
from whence.flow.weights import Floats


@dataclass(frozen=True)
class ClassicSettings:
    """The settings: threshold τ, decay α, and whether reached tokens stay reached (skip connection)."""

    threshold: float = 0.1
    decay: float = 0.5
    carry: bool = True

    def check(self) -> None:
        """Refuse a threshold or a decay outside 0 to 1, and a threshold of 0."""
        for name, value in (("threshold", self.threshold), ("decay", self.decay)):
            if not 0 <= value <= 1:
                raise BadParameter(f"The {name} is from 0 to 1, not {value!r}.")
        if self.threshold == 0:
            raise BadParameter("The threshold must be above 0: at 0 every edge is there.")


@dataclass(frozen=True, eq=False)
class ClassicInfluence:
    """The tokens reached at each level, and their decayed counts."""

    setting: ClassicSettings
    maps: Floats  # (layers, heads, tokens, tokens)
    reached: Bools  # (layers + 1, tokens); level 0 is the input
    values: Floats  # (layers + 1, tokens): I, the counts with decay

    def edges(self, layer: int) -> Bools:
        """Return the edges of a layer from reached tokens above the threshold, (heads, tokens, tokens)."""
        strong: Bools = self.maps[layer] >= self.setting.threshold
        strong &= self.reached[layer + 1][:, None]
        return strong


def compute_influence(
    maps: Floats,
    root: Floats,
    setting: ClassicSettings = ClassicSettings(),  # noqa: B008
) -> ClassicInfluence:
    """Follow attention down from the tokens with a weight in `root` (tokens,).

    V_L = the root's tokens, I_L = 1 at them; E_l = {(i, j, h): i in V_l, A ≥ τ};
    V_{l-1} = {j: (i, j, h) in E_l}, and V_l with `carry`;
    c_{l-1}(j) = |{(i, h): (i, j, h) in E_l}|; I_{l-1}(j) = c_{l-1}(j) + α I_l(j).
    """
    setting.check()
    layers, tokens = len(maps), maps.shape[-1]
    reached = np.zeros((layers + 1, tokens), dtype=bool)
    values = np.zeros((layers + 1, tokens))
    reached[layers] = np.asarray(root) > 0
    values[layers] = reached[layers]
    for layer in reversed(range(layers)):
        sources = np.flatnonzero(reached[layer + 1])
        counts = (maps[layer][:, sources] >= setting.threshold).sum(axis=(0, 1))
        reached[layer] = counts > 0
        if setting.carry:
            reached[layer] |= reached[layer + 1]
        values[layer] = counts + setting.decay * values[layer + 1]
    return ClassicInfluence(setting, maps, reached, values)
