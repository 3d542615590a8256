"""IMDB reviews of under 400 words."""

import re
from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import spaced
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    apart,
    by_length,
    cut,
    table,
    words,
)

SEED = 1378
LONGEST = 400


def cleaned(text: str) -> str:
    """Clean as Keras did for the file that the authors use: lower case, and no signs but the apostrophe."""
    return spaced(re.sub(r"[!-&(-/:-@[-`{-~]", " ", text.lower()))


def corpus(data: Path) -> Corpus:
    """Read both files."""

    def rows(split: str) -> list[Row]:
        found = [
            Row(cleaned(line["text"]), line["label"]) for line in table(data / "imdb" / f"{split}.tsv.gz")
        ]  # fmt: skip
        return [row for row in found if row.length < LONGEST]

    train, dev = apart(rows("train"), 0.2, SEED)
    return Corpus(
        "IMDB",
        {
            "train": cut(train, shortest=6),
            "dev": by_length(cut(dev, shortest=6)),
            "test": by_length(cut(rows("test"), shortest=6)),
        },
        words(train, least=10),
        {"0": "negative", "1": "positive"},
        by_class=True,
        differs="another sample of the same reviews, about a quarter of theirs in training",
    )
