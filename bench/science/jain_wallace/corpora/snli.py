"""Loader of SNLI pairs; the development file, 1.8% of its size, replaces the unavailable training file."""

from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import clean_text
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    collect_words,
    load_objects,
    sort_by_length,
    split_rows,
)

SEED = 16377
LABELS = ("contradiction", "entailment", "neutral")


def load_corpus(data: Path) -> Corpus:
    """Read the development and the test file; pairs with the same premise stay together."""

    def load_rows(file: str) -> list[Row]:
        return [
            Row(clean_text(one["premise"]), one["label"], clean_text(one["hypothesis"]))
            for one in load_objects(data / "nli" / f"{file}.jsonl.gz")
        ]

    every = load_rows("esnli_dev")
    premises = list(dict.fromkeys(row.text for row in every))
    held = set(split_rows(premises, 0.15, SEED)[1])
    train = [row for row in every if row.text not in held]
    return Corpus(
        "SNLI",
        {
            "train": train,
            "dev": sort_by_length([row for row in every if row.text in held]),
            "test": sort_by_length(load_rows("esnli_test")),
        },
        collect_words(train, least=3),
        {label: label for label in LABELS},
        by_class=True,
        settings={"epochs": 25, "batch_size": 128},
        differs="trained on 85% of the development file, in place of 549,367 pairs; the test split is theirs",
    )
