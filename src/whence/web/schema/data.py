"""Data sets: predictions, the words of a class, what heads attend to."""

from typing import Literal

from pydantic import Field

from whence.web.schema.base import Asked, Fault, Given, Interval


class DataSet(Given):
    """A data set that was given at the start or brought in."""

    id: str
    name: str
    rows: int
    text: str
    pair: str | None
    label: str | None
    guessed: list[str]
    columns: list[str]  # that the file has; none where it has no header
    problem: Fault | None = (
        None  # its columns are to be chosen before it can be used; problem.table has them
    )


class ColumnsAsked(Asked):
    """Read a data set anew, by these columns.

    For null the usual names are looked for, and with a text given there is no second one; "" is none.
    """

    text: str | None = Field(default=None, max_length=200)
    pair: str | None = Field(default=None, max_length=200)
    label: str | None = Field(default=None, max_length=200)


class PredictAsked(Asked):
    """Predict a data set; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=1000, ge=1, le=10_000)


class Row(Given):
    """One example, and how surprised the model is by its label."""

    number: int  # in the file, from 0
    text: str
    pair: str | None
    label: str | None  # the true one
    predicted: str
    probability: float | None
    surprise: (
        float | None
    )  # -log2 of the true label's probability; without labels, the entropy of all
    right: bool | None


class Predicted(Given):
    """A data set with its predictions."""

    kind: Literal["predicted"] = "predicted"
    model: str
    data: str
    rows: list[Row]
    given: int
    left_out: list[str]  # sentences: how many, and why
    accuracy: Interval | None
    confusion: list[list[int]] | None  # true x predicted
    labels: list[str]
    surprise: str  # what surprise means here


class WordsAsked(Asked):
    """Find the words that each class leans on; a job."""

    model: str = Field(max_length=300)
    method: str | None = Field(default=None, max_length=100)  # null: the model's default
    limit: int = Field(default=100, ge=1, le=2000)
    least: int = Field(default=3, ge=1, le=1000)  # a word counts from so many examples on


class LeaningWord(Given):
    """A word with its mean score where this class was predicted."""

    word: str
    score: Interval  # share of the sum of |scores| of its text, signed
    examples: list[int]  # numbers of some texts it stands in


class ClassWords(Given):
    """The words of one class, the strongest first."""

    label: str
    predicted: int
    words: list[LeaningWord]


class Leaning(Given):
    """Which words each class leans on."""

    kind: Literal["leaning"] = "leaning"
    model: str
    data: str
    method: str
    signed: bool
    used: int
    left_out: list[str]  # sentences: how many, and why
    classes: list[ClassWords]
    note: str


class HabitsAsked(Asked):
    """Find what heads attend to; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=100, ge=1, le=2000)


class Habit(Given):
    """What one head attends to: shares of its attention, by kind of place, and the tokens it prefers."""

    layer: int
    head: int
    shares: dict[
        str, Interval
    ]  # "special", "itself", "previous", "next", "same word", "punctuation", "other"
    entropy: Interval
    tokens: list[tuple[str, float]]
    words: str  # a sentence


class Habits(Given):
    """What all heads attend to."""

    kind: Literal["habits"] = "habits"
    model: str
    data: str
    used: int
    left_out: list[str]
    heads: list[Habit]
    kinds: dict[str, str]  # what each kind of place means
