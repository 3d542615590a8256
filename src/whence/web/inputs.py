"""What was seen inside a model stays for the next question about the same input."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.explainer.inside.inside import Inside

# Of each edge four numbers, as wide as the model computes: its attention and what it weighs in the flow that was
# asked for last, and of both what they were made from.
_NUMBERS = 4


class Inputs:
    """The inputs that were asked about last, as many as fit into so many bytes, and at least one.

    Used in the thread of its model alone.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[Hashable, Inside] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], "Inside"]) -> "Inside":
        """Return what is known of an input, or look for the first time."""
        if key not in self._found:
            self._found[key] = make()
        self._found.move_to_end(key)
        while len(self._found) > 1 and self.size() > self._most:
            self._found.popitem(last=False)
        return self._found[key]

    def size(self) -> int:
        """How many bytes it may come to, as far as that is known."""
        return sum(_size(inside) for inside in self._found.values())

    def __len__(self) -> int:
        return len(self._found)


def _size(inside: "Inside") -> int:
    config = inside.loaded.model.config
    layers = getattr(config, "num_hidden_layers", None) or 1
    heads = getattr(config, "num_attention_heads", None) or 1
    wide = max(4, inside.loaded.dtype.itemsize)
    return int(layers) * int(heads) * len(inside.tokens) ** 2 * _NUMBERS * wide
