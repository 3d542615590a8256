"""Rows of products of attention maps, without the maps.

With O = A V, the gradient of a map is dL/dA = dO Vᵀ and its relevance R_A = A ∘ (S Vᵀ) / 2, S = R_O / O. So a layer
that keeps q, k, v, dO and S can give any rows of f(A, dL/dA, R_A) when asked, and a method that reads a row of a
product of maps needs no more than "row times f". One interface, two implementations behind it: tiles in PyTorch
(`tiled`, any device) and fused kernels in Triton (`fused`, CUDA). Which of them runs is decided in `choice`.
"""

from whence.kernels.choice import Implementation, contract, contract_normalised, gather, using
from whence.kernels.maps import Combination, Maps
from whence.kernels.tiles import row_tiles, tile_of
from whence.kernels.visible import Visible

__all__ = [
    "Combination",
    "Implementation",
    "Maps",
    "Visible",
    "contract",
    "contract_normalised",
    "gather",
    "row_tiles",
    "tile_of",
    "using",
]
