"""Data sets, tokens, words, images, batches and token removal: from user input to model input."""

from whence.data.batches import Batch, BatchRules, collate, plan_batches
from whence.data.tokens import EncodedInput, encode, from_mapping, is_mapping

__all__ = [
    "Batch",
    "BatchRules",
    "EncodedInput",
    "collate",
    "encode",
    "from_mapping",
    "is_mapping",
    "plan_batches",
]
