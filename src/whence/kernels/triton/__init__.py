"""Triton kernels: contractions in which no tile ever leaves the processor that made it.

Triton is imported in this package alone, and this package only where `whence.kernels.contract` finds
Triton.
"""
