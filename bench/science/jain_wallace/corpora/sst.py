"""The Stanford Sentiment Treebank: whole sentences, neutral ones left out."""

import re
from collections.abc import Sequence
from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import lowered, spaced
from bench.science.jain_wallace.corpora.corpus import (
    SPLITS,
    Corpus,
    Row,
    by_length,
    cut,
    objects,
    words,
)

NEUTRAL = 2


def cleaned(leaves: Sequence[str]) -> str:
    """Clean the leaves of a tree: brackets go, what is no letter or digit becomes a space, then spaCy splits."""
    text = " ".join(leaves).replace("-LRB-", "").replace("-RRB-", " ")
    return " ".join(lowered(spaced(re.sub(r"\W", " ", text))))


def corpus(data: Path) -> Corpus:
    """Read the three files of trees."""
    every = {
        split: [
            Row(cleaned(tree["tokens"]), str(int(tree["label5"] > NEUTRAL)))
            for tree in objects(data / "sst_trees" / f"{split}.jsonl.gz")
            if tree["label5"] != NEUTRAL
        ]
        for split in SPLITS
    }
    kept = {split: cut(rows, shortest=5) for split, rows in every.items()}
    return Corpus(
        "SST",
        {
            "train": kept["train"],
            "dev": by_length(kept["dev"]),
            "test": by_length(kept["test"]),
        },
        words(every["train"], least=1),
        {"0": "negative", "1": "positive"},
        by_class=True,
        differs="nothing: sizes and vocabulary are theirs",
    )
