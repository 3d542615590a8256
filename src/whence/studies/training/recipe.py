"""Recipe: all training settings that the weights depend on, as plain data."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from math import ceil, isfinite
from typing import Any

from whence.core.errors import BadParameter


@dataclass(frozen=True, slots=True)
class Recipe:
    """The settings of a training with Adam; the defaults are Jain & Wallace's for classification."""

    epochs: int = 8
    batch_size: int = 32
    learning_rate: float = 1e-3
    weight_decay: float = 1e-5
    attention_weight_decay: float | None = 0.0  # of a single attention; None: as for all weights
    amsgrad: bool = True
    decoupled: bool = False  # AdamW: weight decay apart from the gradient
    pos_weight: bool = True  # two labels: the second counts N / N_second - 1 times
    summed: bool = True  # the loss of a batch is the sum over its examples, not their mean
    patience: int | None = None  # stop after this many epochs without a better one
    seed: int = 0

    def __post_init__(self) -> None:
        least_counts = {"epochs": 1, "batch_size": 1, "patience": 1, "seed": 0}
        for name in (*least_counts, "learning_rate", "weight_decay", "attention_weight_decay"):
            value, is_count = getattr(self, name), name in least_counts
            if value is None and name in ("patience", "attention_weight_decay"):
                continue
            kinds, least = (int,) if is_count else (int, float), least_counts.get(name, 0)
            good = isinstance(value, kinds) and not isinstance(value, bool) and isfinite(value)
            if not good or value < least:
                what = "a whole number" if is_count else "a number"
                raise BadParameter(f"{name} must be {what}, at least {least}. Got {value!r}.")

    def count_epochs(self, examples: int, least: int) -> int:
        """Return the epochs that take at least so many steps: small data get more than the recipe has."""
        steps = max(1, ceil(examples / self.batch_size))
        return max(self.epochs, ceil(least / steps))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a JSON object."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Recipe":
        """Build a recipe from a JSON object; missing settings have their defaults."""
        known = [field.name for field in fields(cls)]
        if unknown := [name for name in data if name not in known]:
            raise BadParameter(f"A recipe has no {str(unknown[0])!r}; it has {', '.join(known)}.")
        return cls(**data)


# The recipes of Jain & Wallace, by task, and a common one to fine-tune a Transformer.
TEXT_RECIPE = Recipe()
QUERY_RECIPE = Recipe(
    epochs=25, batch_size=128, attention_weight_decay=None, pos_weight=False, summed=False
)
RECIPES: Mapping[str, Recipe] = {
    "text": TEXT_RECIPE,
    "query": QUERY_RECIPE,
    "cnn": replace(QUERY_RECIPE, batch_size=90),
    "babi": replace(QUERY_RECIPE, epochs=100, batch_size=50),
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


def choose_recipe(*, query: bool, labels: int) -> Recipe:
    """Return the recipe of Jain & Wallace for a task."""
    if query:
        return QUERY_RECIPE
    # Jain & Wallace classify texts into two classes; with more, none is positive, and the query loss is used.
    return TEXT_RECIPE if labels == 2 else replace(TEXT_RECIPE, pos_weight=False, summed=False)
