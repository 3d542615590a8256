"""A model of BERT-base's shape with random weights, in a folder with a tokenizer, and documents of so many tokens.

What a document costs is a matter of shapes. Words are of four letters, one token each: with the space that is five
characters to a token, about what English has.
"""

from collections.abc import Iterator
from itertools import islice, product
from pathlib import Path
from string import ascii_lowercase

import torch
from bench.speed.shapes import bert

from whence.core.seed import generator
from whence.data.sets.examples import Example
from whence.data.sets.source import Entry

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
VOCABULARY = 30522
AROUND = 2  # tokens that the tokenizer adds


def folder(
    where: Path, *, layers: int = 12, width: int = 768, heads: int = 12, longest: int = 512
) -> Path:
    """Make the model and its tokenizer, unless they are there, and return the folder."""
    from transformers import BertTokenizerFast

    if not (where / "config.json").is_file():
        where.mkdir(parents=True, exist_ok=True)
        vocabulary = where / "vocab.txt"
        vocabulary.write_text("\n".join([*SPECIAL, *words()]) + "\n")
        with torch.random.fork_rng():
            bert(layers, width, heads, longest=longest).save_pretrained(where)
        BertTokenizerFast(str(vocabulary), model_max_length=longest).save_pretrained(where)
    return where


def words() -> list[str]:
    """Return the words of the vocabulary."""
    letters = product(ascii_lowercase, repeat=4)
    return ["".join(some) for some in islice(letters, VOCABULARY - len(SPECIAL))]


def documents(count: int, tokens: int) -> Iterator[Entry]:
    """Yield documents of exactly so many tokens, those that the tokenizer adds included."""
    known = words()
    for row in range(count):
        drawn = generator("documents", tokens, row).integers(len(known), size=tokens - AROUND)
        text = " ".join(known[place] for place in drawn)
        yield Entry(row, str(row), Example(text))
