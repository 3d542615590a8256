"""Loader of 20 Newsgroups, baseball or hockey: posts cleaned, and the authors' shuffle and split rebuilt.

The authors shuffle all 18,846 posts of 20 groups and then split the two groups. Here only the two groups are at hand,
whole; where their posts come in the shuffled list follows from how many posts the other groups have.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench.science.jain_wallace.corpora.cleaning import clean_text, normalise_spaces
from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    collect_words,
    filter_by_length,
    load_objects,
    sort_by_length,
    split_rows,
)

BASEBALL, HOCKEY = 9, 10
SEED = 13478
# Posts of each group, in the order of the groups' names, in the two parts of the "bydate" collection.
POSTS = {
    "train": (480, 584, 591, 590, 578, 593, 585, 594, 598, 597,
              600, 595, 591, 593, 594, 599, 546, 564, 465, 377),
    "test": (319, 389, 394, 392, 385, 395, 390, 396, 398, 397,
             399, 396, 393, 396, 394, 398, 364, 376, 310, 251),
}  # fmt: skip


def shuffle_rows(rows: Sequence[Any], seed: int) -> list[Any]:
    """Put rows in the order that scikit-learn puts them in."""
    order = np.arange(len(rows))
    np.random.RandomState(seed).shuffle(order)
    return [rows[i] for i in order]


def load_posts(data: Path) -> list[dict[str, Any]]:
    """Return the posts on baseball and then those on hockey, as scikit-learn's subset "all" has them."""
    every: list[dict[str, Any] | None] = []
    for split, counts in POSTS.items():
        found = sorted(
            load_objects(data / "20newsgroups" / f"{split}.jsonl.gz"),
            key=lambda post: (post["label"], post["id"]),
        )
        if len(found) != counts[BASEBALL] + counts[HOCKEY]:
            raise SystemExit(
                f"20newsgroups/{split}.jsonl.gz has {len(found)} posts: not all of two groups"
            )
        before, after = sum(counts[:BASEBALL]), sum(counts[HOCKEY + 1 :])
        every += shuffle_rows([None] * before + found + [None] * after, 0)
    ours = [post for post in shuffle_rows(every, 42) if post is not None]
    return sorted(ours, key=lambda post: post["label"])


def clean_post(body: str) -> str:
    """Clean a post without footer and quotes; a run of signs leaves its last one, as a word."""
    from sklearn.datasets import _twenty_newsgroups as groups

    body = groups.strip_newsgroup_quoting(groups.strip_newsgroup_footer(body))
    return normalise_spaces(re.sub(r"(\W)+", r" \1 ", clean_text(body)))


def load_corpus(data: Path) -> Corpus:
    """Read both files, and split anew as the authors do."""
    rows = [
        Row(clean_post(post["body"]), str(int(post["label"] == HOCKEY)))
        for post in load_posts(data)
    ]
    rows = [row for row in rows if row.text]
    most, test = split_rows(rows, 0.2, SEED, [row.label for row in rows])
    train, dev = split_rows(most, 0.2, SEED, [row.label for row in most])
    return Corpus(
        "20 Newsgroups",
        {
            "train": filter_by_length(train, 6, 500),
            "dev": sort_by_length(filter_by_length(dev, 6, 500)),
            "test": sort_by_length(filter_by_length(test, 6, 500)),
        },
        collect_words(train, least=2),
        {"0": "baseball", "1": "hockey"},
        by_class=True,
        differs="the same posts and splits, as far as can be told: the test split has their sizes. Two words "
        "more, of a newer spaCy",
    )
