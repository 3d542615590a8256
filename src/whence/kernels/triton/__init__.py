"""Triton kernels: contractions in which no tile ever leaves the processor that made it.

Triton is imported in this package alone, and this package only where `whence.kernels.contract` finds
Triton.
"""

from whence.kernels.triton.launch import (
    can_contract,
    contract,
    ensure_logsumexp,
    gather,
    is_faster,
)

__all__ = [
    "can_contract",
    "contract",
    "ensure_logsumexp",
    "gather",
    "is_faster",
]
