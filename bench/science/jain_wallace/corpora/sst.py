"""Loader of the Stanford Sentiment Treebank: whole sentences, cleaned, neutral ones left out."""

import re
from collections.abc import Sequence
from pathlib import Path

from bench.science.jain_wallace.corpora.cleaning import normalise_spaces, tokenize_lower
from bench.science.jain_wallace.corpora.corpus import (
    SPLITS,
    Corpus,
    Row,
    collect_words,
    filter_by_length,
    load_objects,
    sort_by_length,
)

NEUTRAL = 2


def clean_leaves(leaves: Sequence[str]) -> str:
    """Clean the leaves of a tree: drop brackets, replace signs by spaces, then split by spaCy."""
    text = " ".join(leaves).replace("-LRB-", "").replace("-RRB-", " ")
    return " ".join(tokenize_lower(normalise_spaces(re.sub(r"\W", " ", text))))


def load_corpus(data: Path) -> Corpus:
    """Read the three files of trees."""
    every = {
        split: [
            Row(clean_leaves(tree["tokens"]), str(int(tree["label5"] > NEUTRAL)))
            for tree in load_objects(data / "sst_trees" / f"{split}.jsonl.gz")
            if tree["label5"] != NEUTRAL
        ]
        for split in SPLITS
    }
    kept = {split: filter_by_length(rows, shortest=5) for split, rows in every.items()}
    return Corpus(
        "SST",
        {
            "train": kept["train"],
            "dev": sort_by_length(kept["dev"]),
            "test": sort_by_length(kept["test"]),
        },
        collect_words(every["train"], least=1),
        {"0": "negative", "1": "positive"},
        by_class=True,
        differs="nothing: sizes and vocabulary are theirs",
    )
