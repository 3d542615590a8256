"""Which test file answers for which arrays of the authors' files: every array has exactly one that does."""

import re
from functools import cache
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
FILES = ("chefer_bert.npz", "attcat_bert.npz")

# The relevance calculus has a file of its own; everything else is attention and gradients.
_RELEVANCE = r"attn_R|lrp|transformer_attribution|TransAtt|PartialLRP|bert_trace"
CLAIMS = {"test_relevance.py": _RELEVANCE, "test_golden.py": rf"^(?!.*({_RELEVANCE}))"}


def arrays(test_file: str, npz: str) -> list[str]:
    """Return the names of the arrays in a file of the authors that a test file answers for."""
    return [name for name in golden(npz) if re.search(CLAIMS[test_file], name)]


@cache
def golden(npz: str) -> dict[str, np.ndarray]:
    """Return a file of the authors as a mapping from name to array."""
    with np.load(FOLDER / "golden" / npz) as known:
        return {name: known[name] for name in known.files}
