"""From what a user gives to what a model takes: encoding, words, batches, removal."""

from whence.data.batch import Batch, Policy, batches, collate
from whence.data.encode import Encoded, Given, encode, from_mapping, is_mapping

__all__ = [
    "Batch",
    "Encoded",
    "Given",
    "Policy",
    "batches",
    "collate",
    "encode",
    "from_mapping",
    "is_mapping",
]
