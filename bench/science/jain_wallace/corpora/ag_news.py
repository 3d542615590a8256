"""Loader of AG News, world or business: descriptions cleaned, split and filtered as Jain & Wallace do."""

from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import clean_text
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    collect_words,
    filter_by_length,
    load_table,
    sort_by_length,
    split_rows,
)

CLASSES = {"0": "0", "2": "1"}  # of four: world and business
SEED = 16377


def load_corpus(data: Path) -> Corpus:
    """Read the sample of 10,000 training texts, and the whole test file."""

    def load_rows(file: str, column: str) -> list[Row]:
        return [
            Row(clean_text(line[column]), CLASSES[line["label"]])
            for line in load_table(data / "agnews" / file)
            if line["label"] in CLASSES
        ]

    train, dev = split_rows(load_rows("train10k.tsv.gz", "text"), 0.15, SEED)
    return Corpus(
        "AG News",
        {
            "train": filter_by_length(train),
            "dev": sort_by_length(filter_by_length(dev)),
            "test": sort_by_length(filter_by_length(load_rows("test_full.tsv.gz", "description"))),
        },
        collect_words(train, least=5),
        {"0": "world", "1": "business"},
        by_class=True,
        differs="the test split is theirs; the training split is a sample, a twelfth of theirs",
    )
