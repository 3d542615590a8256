"""AG News, world or business: the descriptions, without the titles."""

from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import plain
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    apart,
    by_length,
    cut,
    table,
    words,
)

CLASSES = {"0": "0", "2": "1"}  # of four: world and business
SEED = 16377


def corpus(data: Path) -> Corpus:
    """Read the sample of 10,000 training texts, and the whole test file."""

    def rows(file: str, column: str) -> list[Row]:
        return [
            Row(plain(line[column]), CLASSES[line["label"]])
            for line in table(data / "agnews" / file)
            if line["label"] in CLASSES
        ]

    train, dev = apart(rows("train10k.tsv.gz", "text"), 0.15, SEED)
    return Corpus(
        "AG News",
        {
            "train": cut(train),
            "dev": by_length(cut(dev)),
            "test": by_length(cut(rows("test_full.tsv.gz", "description"))),
        },
        words(train, least=5),
        {"0": "world", "1": "business"},
        by_class=True,
        differs="the test split is theirs; the training split is a sample, a twelfth of theirs",
    )
