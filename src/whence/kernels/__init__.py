"""Kernels: rows of products of attention maps, without the maps.

With O = A V, the gradient of a map is dL/dA = dO Vᵀ and its relevance R_A = A ∘ (S Vᵀ) / 2, S = R_O / O. So
a layer that keeps q, k, v, dO and S can give any rows of f(A, dL/dA, R_A) on demand, and a method that
reads a row of a product of maps needs no more than "row times f". There are two implementations: tiles in
PyTorch (`tiled`, any device) and fused kernels in Triton (`triton`, CUDA). `contract` chooses between them.
"""

from whence.kernels.contract import (
    Implementation,
    contract,
    contract_normalised,
    gather,
    use_implementation,
)
from whence.kernels.maps import AttentionMaps, Combination, VisibleKeys
from whence.kernels.tiled import iterate_row_tiles, use_tile_size

__all__ = [
    "AttentionMaps",
    "Combination",
    "Implementation",
    "VisibleKeys",
    "contract",
    "contract_normalised",
    "gather",
    "iterate_row_tiles",
    "use_implementation",
    "use_tile_size",
]
