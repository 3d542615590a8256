"""Synthetic model of BERT-base's shape with random weights and a tokenizer, and documents of fixed length.

What a document costs is a matter of shapes. Words are of four letters, one token each: with the space that is five
characters to a token, about what English has.
"""

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import torch
from bench.speed.random_models import build_bert

from whence.core.seed import build_generator
from whence.data.dataset import DatasetRow
from whence.data.example import Example

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 30522
AROUND = 2  # tokens that the tokenizer adds


def save_model(
    where: Path, *, layers: int = 12, width: int = 768, heads: int = 12, longest: int = 512
) -> Path:
    """Save the model and its tokenizer, unless they exist, and return the folder."""
    from transformers import BertTokenizerFast

    if not (where / "config.json").is_file():
        where.mkdir(parents=True, exist_ok=True)
        vocabulary = where / "vocab.txt"
        vocabulary.write_text("\n".join([*SPECIAL, *list_words()]) + "\n")
        with torch.random.fork_rng():
            build_bert(layers, width, heads, longest=longest).save_pretrained(where)
        BertTokenizerFast(str(vocabulary), model_max_length=longest).save_pretrained(where)
    return where


def list_words() -> list[str]:
    """Return the words of the vocabulary."""
    letters = product(ascii_lowercase, repeat=4)
    return ["".join(some) for some in islice(letters, VOCABULARY - len(SPECIAL))]


def generate_documents(count: int, tokens: int) -> Iterator[DatasetRow]:
    """Yield documents of exactly so many tokens, special tokens included."""
    known = list_words()
    for row in range(count):
        drawn = build_generator("documents", tokens, row).integers(len(known), size=tokens - AROUND)
        text = " ".join(known[place] for place in drawn)
        yield DatasetRow(row, str(row), Example(text))
