"""Attention flow: a graph of weighted edges from the decision back to the words.

A trace becomes `EdgeWeights` (the weight of every edge, and the share of the skip connection), these and a
root become a `TracedFlow`, and `select_edges` takes the strongest edges of it within an `EdgeQuery`.
"""

from whence.flow.classic import ClassicSettings
from whence.flow.graph import EdgeQuery

__all__ = ["ClassicSettings", "EdgeQuery"]
