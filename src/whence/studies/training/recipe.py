"""How a model is trained: every choice that its weights depend on, as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import isfinite
from typing import Any

from whence.core.errors import BadParameter


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a training. The optimiser is Adam; the defaults are Jain & Wallace's for classification."""

    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    attention_weight_decay: float | None = 0.0  # of a model's one attention; None: as all weights
    amsgrad: bool = True
    decoupled: bool = False  # AdamW: weights decay by themselves, not through the gradient
    pos_weight: bool = True  # two labels: the second counts N / N_second - 1 times
    summed: bool = True  # the loss of a batch is the sum over its examples, not their mean
    patience: int | None = None  # stop after so many epochs without a better one
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            _check(name, getattr(self, name), whole=True, least=1)
        if self.patience is not None:
            _check("patience", self.patience, whole=True, least=1)
        _check("seed", self.seed, whole=True, least=0)
        _check("learning_rate", self.learning_rate)
        _check("weight_decay", self.weight_decay)
        if self.attention_weight_decay is not None:
            _check("attention_weight_decay", self.attention_weight_decay)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Recipe":
        """Take the settings from plain data; what is not said has its default."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in given if name not in known]:
            raise BadParameter(f"A recipe has no {str(unknown[0])!r}; it has {', '.join(known)}.")
        return cls(**given)


def _check(name: str, value: Any, *, whole: bool = False, least: float = 0.0) -> None:
    kinds = (int,) if whole else (int, float)
    good = isinstance(value, kinds) and not isinstance(value, bool) and isfinite(value)
    if not good or value < least:
        what = "a whole number" if whole else "a number"
        raise BadParameter(f"{name} must be {what}, at least {least:g}. Got {value!r}.")


# Jain & Wallace's, by task, and a usual one to fine-tune a Transformer.
TEXT = Recipe()
QUERY = Recipe(
    epochs=25, batch_size=128, attention_weight_decay=None, pos_weight=False, summed=False
)
RECIPES: Mapping[str, Recipe] = {
    "text": TEXT,
    "query": QUERY,
    "cnn": replace(QUERY, batch_size=90),
    "babi": replace(QUERY, epochs=100, batch_size=50),
    "transformer": Recipe(
        epochs=3,
        learning_rate=3e-5,
        weight_decay=0.01,
        attention_weight_decay=None,
        amsgrad=False,
        decoupled=True,
        pos_weight=False,
        summed=False,
    ),
}


def usual(*, query: bool, labels: int) -> Recipe:
    """Return the recipe of Jain & Wallace for such a task."""
    if query:
        return QUERY
    # Their text classification has two classes. With more there is no positive one, and the loss is that of queries.
    return TEXT if labels == 2 else replace(TEXT, pos_weight=False, summed=False)
