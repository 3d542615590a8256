"""Hyperparameters of the built-in review models, their training data classes, and the reader of SST-2 files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL_TOKENS))
LABELS = ("negative", "positive")
MAX_TOKENS = 128


@dataclass(frozen=True)
class Recipe:
    """Everything that decides the weights; the model cards print it."""

    seed: int = 20
    vocab_size: int = 7500
    hidden_size: int = 128
    layers: int = 4
    heads: int = 4
    intermediate_size: int = 512
    positions: int = 256
    batch_size: int = 64
    weight_decay: float = 0.01
    warmup: float = 0.06
    mlm_epochs: int = 6
    mlm_rate: float = 1.5e-3
    mlm_masked: float = 0.25
    altered_copies: int = 2
    joined: float = 0.5
    epochs: int = 3
    rate: float = 3e-4
    hard_weight: float = 0.3
    state_weight: float = 2.0


@dataclass(frozen=True)
class Sentences:
    """Rows of one SST-2 file."""

    texts: list[str]
    labels: list[int]


@dataclass(frozen=True)
class Targets:
    """Training targets of the student: token ids, teacher outputs, and the label (-1: none)."""

    ids: list[list[int]]
    logits: Tensor
    states: Tensor
    labels: Tensor


def read_rows(path: Path) -> Sentences:
    """Read ``sentence<TAB>label`` rows below a header; SST-2 has no quoting."""
    texts, labels = [], []
    with path.open(encoding="utf-8") as lines:
        next(lines)
        for line in lines:
            text, label = line.rstrip("\n").split("\t")
            texts.append(text)
            labels.append(int(label))
    return Sentences(texts, labels)
