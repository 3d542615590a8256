"""From what a user gives to what a model takes: encoding, words, batches, removal."""

from whence.data.batch import Batch, Policy, batches, collate
from whence.data.text.encode import Encoded, encode
from whence.data.text.mapping import from_mapping, is_mapping

__all__ = [
    "Batch",
    "Encoded",
    "Policy",
    "batches",
    "collate",
    "encode",
    "from_mapping",
    "is_mapping",
]


"""Data sets: where they are, how they are read, and what an example is."""


"""Texts to tokens with exact offsets, and tokens back to words and larger pieces."""


"""Pictures to pixels and patches, and pictures drawn by ourselves."""
