"""bAbI, questions 1 to 3: where is somebody or something, after one, two or three supporting facts."""

from pathlib import Path
from typing import Any

from bench.science.jain_wallace.corpora.corpus import (
    Corpus,
    Row,
    apart,
    by_length,
    objects,
    words,
)

SEED = 16377
TRAINING = {1: "qa1_train_10k", 2: "qa2_train_10k", 3: "qa3_train"}
SETTINGS = {"embedding_size": 50, "hidden_size": 32, "epochs": 100, "batch_size": 50}


def row(one: dict[str, Any]) -> Row:
    """Join the sentences of a story by dots that are words; the last dot goes, and so does the question mark."""
    story = " . ".join(sentence.removesuffix(".") for sentence in one["story"])
    return Row(story, one["answer"], one["question"].removesuffix("?"))


def corpus(data: Path, task: int) -> Corpus:
    """Read a task; every word of the three tasks may be an answer, as in the authors' code."""

    def rows(file: str) -> list[Row]:
        return [row(one) for one in objects(data / "babi" / f"{file}.jsonl.gz")]

    every = {number: rows(file) for number, file in TRAINING.items()}
    train, dev = apart(every[task], 0.15, SEED)
    answers = sorted(words((one for found in every.values() for one in found), least=1))
    return Corpus(
        f"bAbI {task}",
        {"train": train, "dev": by_length(dev), "test": by_length(rows(f"qa{task}_test"))},
        words(train, least=1),
        {answer: answer for answer in answers},
        by_class=False,
        settings=SETTINGS,
        differs=f"{len(every[task]):,} stories for training and dev, of their 10,000"
        if task == 3
        else "nothing that could be seen: the vocabulary is theirs; every word of the tasks may be the answer, as in "
        "their code, whatever stands in the story",
    )


def first(data: Path) -> Corpus:
    """Read the task with one supporting fact."""
    return corpus(data, 1)


def second(data: Path) -> Corpus:
    """Read the task with two supporting facts."""
    return corpus(data, 2)


def third(data: Path) -> Corpus:
    """Read the task with three supporting facts."""
    return corpus(data, 3)
