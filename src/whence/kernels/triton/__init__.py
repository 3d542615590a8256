"""Contractions in Triton, where no tile ever leaves the processor that made it.

Triton is imported in this package alone, and this package only where `whence.kernels.choice` finds Triton.
"""

from whence.kernels.fused.able import pays, takes
from whence.kernels.fused.launch import contract, contract_normalised, gather, logsumexp_of

__all__ = ["contract", "contract_normalised", "gather", "logsumexp_of", "pays", "takes"]
