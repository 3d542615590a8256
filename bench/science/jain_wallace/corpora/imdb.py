"""Loader of IMDB reviews of under 400 words, cleaned and split as Jain & Wallace do."""

import re
from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import normalise_spaces
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    collect_words,
    filter_by_length,
    load_table,
    sort_by_length,
    split_rows,
)

SEED = 1378
LONGEST = 400


def clean_review(text: str) -> str:
    """Clean as Keras did for the file that the authors use: lower case, and no signs but the apostrophe."""
    return normalise_spaces(re.sub(r"[!-&(-/:-@[-`{-~]", " ", text.lower()))


def load_corpus(data: Path) -> Corpus:
    """Read both files."""

    def load_rows(split: str) -> list[Row]:
        found = [
            Row(clean_review(line["text"]), line["label"]) for line in load_table(data / "imdb" / f"{split}.tsv.gz")
        ]  # fmt: skip
        return [row for row in found if row.length < LONGEST]

    train, dev = split_rows(load_rows("train"), 0.2, SEED)
    return Corpus(
        "IMDB",
        {
            "train": filter_by_length(train, shortest=6),
            "dev": sort_by_length(filter_by_length(dev, shortest=6)),
            "test": sort_by_length(filter_by_length(load_rows("test"), shortest=6)),
        },
        collect_words(train, least=10),
        {"0": "negative", "1": "positive"},
        by_class=True,
        differs="another sample of the same reviews, about a quarter of theirs in training",
    )
