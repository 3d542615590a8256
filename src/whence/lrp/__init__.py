"""Layer-wise relevance propagation (LRP) as tables of rules, on unmodified models.

A tape holds every operation of the forward pass (`whence.tracing.tape`). A table gives, for each operation,
the rule by which the relevance of its output is handed to its inputs. Walking the tape backwards by a table
gives relevance, as autograd's walk gives the gradient; both stand on the same forward pass.
"""

from typing import Any, Literal

from whence.lrp.decompose import DECOMPOSE
from whence.lrp.tables import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP, RuleTable

# Stated on the card of every LRP method.
NOTICE = "LRP is claimed as a patented technology, free for personal and scientific use: README, last section"

# By the name used in errors; users may add rows to a table.
TABLES: dict[str, RuleTable[Any]] = {
    table.name: table for table in (CHEFER, ORIGINAL_LRP, ATTN_LRP, CP_LRP, DECOMPOSE)
}
Rules = Literal["ours", "original"]  # of Chefer et al.: the tables CHEFER and ORIGINAL_LRP

__all__ = ["NOTICE", "TABLES", "RuleTable", "Rules", "rules"]
