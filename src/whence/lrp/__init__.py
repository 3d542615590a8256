"""The op-rule calculus: layer-wise relevance propagation as a table of rules, on unmodified models.

A tape holds every operation of the forward pass (`whence.capture.tape`). A table says, operation by operation, how
what the output carries is handed to the inputs. Walking the tape backwards by a table gives relevance, as
autograd's walk gives the gradient; both stand on the same forward pass.
"""

from typing import Any, Literal

from whence.lrp import rules
from whence.lrp.block import Block, block, inlet
from whence.lrp.decompose import DECOMPOSE, Bias, by_token, decompose
from whence.lrp.relevance import Relevance, outlets, relevance
from whence.lrp.stabiliser import Choice as Stabiliser
from whence.lrp.tables import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP, Table
from whence.lrp.vectors import rolled_out, turned, vectors

# Stated by every method that is LRP, beside its other facts.
NOTICE = "LRP is claimed as a patented technology, free for personal and scientific use: README, last section"

# By the name that an error gives; rows may be added.
TABLES: dict[str, Table[Any]] = {
    table.name: table for table in (CHEFER, ORIGINAL_LRP, ATTN_LRP, CP_LRP, DECOMPOSE)
}
Rules = Literal["ours", "original"]  # of Chefer et al.: the tables CHEFER and ORIGINAL_LRP

__all__ = [
    "ATTN_LRP",
    "CHEFER",
    "CP_LRP",
    "DECOMPOSE",
    "NOTICE",
    "ORIGINAL_LRP",
    "TABLES",
    "Bias",
    "Block",
    "Relevance",
    "Rules",
    "Stabiliser",
    "Table",
    "block",
    "by_token",
    "decompose",
    "inlet",
    "outlets",
    "relevance",
    "rolled_out",
    "rules",
    "turned",
    "vectors",
]
