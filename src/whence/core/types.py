"""Plain data classes of an explanation: tokens, words, input text, prediction and target; the count of passes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

OutputScale = Literal["logit", "probability"]
# The task of a model: it chooses one label, several, or gives a value; or it points at an answer in a text, tags
# tokens, fills a mask, predicts the next token (as a decoder alone, or after an encoder), or compares pictures
# with texts; "none": it has no head.
Task = Literal[
    "single_label",
    "multi_label",
    "regression",
    "answer",
    "tags",
    "mask",
    "next",
    "sequence",
    "similarity",
    "none",
]


@dataclass(frozen=True, slots=True)
class Token:
    """One token; `text` is its part of the input, characters `start` to `end` of its segment."""

    text: str
    start: int | None  # None: the input came encoded and its text is not known
    end: int | None
    segment: (
        int  # 0 the text, 1 the second text of a pair; a special token closes the one before it
    )
    special: bool  # added by the tokenizer ([CLS], </s>, ...), not part of the text
    id: int


@dataclass(frozen=True, slots=True)
class Word:
    """A run of characters that no token crosses, and the tokens it is made of."""

    text: str
    start: int | None
    end: int | None
    segment: int
    tokens: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputText:
    """The input text or pair of texts; `dropped` counts the tokens that truncation cut off."""

    text: str | None
    pair: str | None = None
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Prediction:
    """The model's prediction; a regression has a value instead of probabilities."""

    label: str
    index: int
    probability: float | None
    probabilities: Mapping[str, float]
    logits: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Target:
    """The scalar that is explained: one output, or the difference of two."""

    label: str
    index: int
    against: "Target | None" = None
    of: OutputScale = "logit"

    def __str__(self) -> str:
        return (
            self.label if self.against is None else f"{self.label} rather than {self.against.label}"
        )


@dataclass(frozen=True, slots=True)
class PassCount:
    """The number of forward and backward passes for one input."""

    forward: int
    backward: int
