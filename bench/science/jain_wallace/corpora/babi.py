"""Loader of bAbI tasks 1 to 3: stories with a question of place, after one, two or three supporting facts."""

from pathlib import Path
from typing import Any

from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    collect_words,
    load_objects,
    sort_by_length,
    split_rows,
)

SEED = 16377
TRAINING = {1: "qa1_train_10k", 2: "qa2_train_10k", 3: "qa3_train"}
SETTINGS = {"embedding_size": 50, "hidden_size": 32, "epochs": 100, "batch_size": 50}


def build_row(one: dict[str, Any]) -> Row:
    """Join the sentences of a story by dots that are words; the last dot goes, and so does the question mark."""
    story = " . ".join(sentence.removesuffix(".") for sentence in one["story"])
    return Row(story, one["answer"], one["question"].removesuffix("?"))


def load_corpus(data: Path, task: int) -> Corpus:
    """Read a task; every word of the three tasks may be an answer, as in the authors' code."""

    def load_rows(file: str) -> list[Row]:
        return [build_row(one) for one in load_objects(data / "babi" / f"{file}.jsonl.gz")]

    every = {number: load_rows(file) for number, file in TRAINING.items()}
    train, dev = split_rows(every[task], 0.15, SEED)
    answers = sorted(collect_words((one for found in every.values() for one in found), least=1))
    return Corpus(
        f"bAbI {task}",
        {
            "train": train,
            "dev": sort_by_length(dev),
            "test": sort_by_length(load_rows(f"qa{task}_test")),
        },
        collect_words(train, least=1),
        {answer: answer for answer in answers},
        by_class=False,
        settings=SETTINGS,
        differs=f"{len(every[task]):,} stories for training and dev, of their 10,000"
        if task == 3
        else "nothing that could be seen: the vocabulary is theirs; every word of the tasks may be the answer, as in "
        "their code, whatever stands in the story",
    )


def load_first(data: Path) -> Corpus:
    """Read the task with one supporting fact."""
    return load_corpus(data, 1)


def load_second(data: Path) -> Corpus:
    """Read the task with two supporting facts."""
    return load_corpus(data, 2)


def load_third(data: Path) -> Corpus:
    """Read the task with three supporting facts."""
    return load_corpus(data, 3)
