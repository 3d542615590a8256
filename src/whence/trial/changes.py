"""Circumstances under which an input can be explained anew."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from whence.core.types import Passes


@dataclass(frozen=True)
class Noise:
    """Every token's embedding is moved in a random direction, by `radius` times its own length."""

    radius: float
    seed: int


@dataclass(frozen=True)
class Randomised:
    """The weights of the stages 0 to `stage`, counted from the output, are replaced by random ones."""

    stage: int
    seed: int


@dataclass(frozen=True)
class Dropout:
    """The model drops features out as it did in training."""

    seed: int


@dataclass(frozen=True)
class Padded:
    """The input is padded by so many tokens."""

    extra: int


@dataclass(frozen=True)
class Beside:
    """The input shares its batch with others."""


@dataclass(frozen=True)
class OtherClass:
    """Another class is explained: the runner-up, or the prediction if the runner-up was explained."""


Change = Noise | Randomised | Dropout | Padded | Beside | OtherClass


@dataclass(frozen=True)
class Anew:
    """The explanations made anew. A row is NaN exactly where `why_not` says why there is none."""

    scores: np.ndarray[Any, np.dtype[np.float64]]  # (explanations, tokens)
    predicted: int  # the label that the model now predicts
    why_not: Mapping[int, str]


class Again(Protocol):
    """Explains the input of a trial again."""

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        ...

    @property
    def prices(self) -> list[int]:
        """The forwards that making each explanation once more takes."""
        ...

    @property
    def passes(self) -> Passes:
        """What was run so far."""
        ...

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        """Return all explanations, or those in `rows`, under `change`. The same change is made only once."""
        ...
