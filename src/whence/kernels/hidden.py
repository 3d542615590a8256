"""What of a tile is hidden: the keys that its queries may not see."""

from dataclasses import dataclass

import torch
from torch import Tensor

from whence.kernels.visible import Rows, Visible


@dataclass(frozen=True, eq=False)
class Hidden:
    """The hidden part of a tile of some inputs, rows and keys, whatever its heads."""

    before: int | None = None  # all that stands before this diagonal
    after: int | None = None  # all that stands after this one
    # And where one of these is true, (inputs or 1, heads or 1, rows or 1, keys or 1).
    masks: tuple[Tensor, ...] = ()

    def zero(self, tile: Tensor, heads: slice) -> None:
        """Write zero over what is hidden, whatever stood there."""
        if self.after is not None:
            tile.tril_(self.after)
        if self.before is not None:
            tile.triu_(self.before)
        for mask in self.masks:
            tile.masked_fill_(some(mask, 1, heads), 0)

    def exclude(self, scores: Tensor, heads: slice) -> None:
        """Make the scores of what is hidden so low that no softmax sees them."""
        rows, keys = (torch.arange(size, device=scores.device) for size in scores.shape[-2:])
        for mask in (*_beyond(keys - rows[:, None], self.before, self.after), *self.masks):
            scores.masked_fill_(some(mask, 1, heads), -torch.inf)


def hidden(
    visible: Visible, inputs: slice, rows: Rows, keys: slice, device: torch.device
) -> Hidden:
    """Return what is hidden from some rows."""
    masks: list[Tensor] = []
    left = None if visible.left is None else -visible.left
    before, after = left, visible.right
    if isinstance(rows, slice):
        first = rows.start - keys.start
        before = None if before is None else first + before
        after = None if after is None else first + after
    else:
        ahead = torch.arange(keys.start, keys.stop, device=device) - rows[:, None]
        masks += _beyond(ahead, before, after)
        before = after = None
    if visible.keys is not None:
        masks.append(~visible.keys[inputs, None, None, keys])
    if visible.rule is not None:
        numbers = rows
        if isinstance(numbers, slice):
            numbers = torch.arange(numbers.start, numbers.stop, device=device)
        masks.append(~some(visible.rule(numbers), 0, inputs)[..., keys])
    if visible.dense is not None:
        dense = part(visible.dense, inputs, rows, keys)
        masks.append(~dense if dense.dtype == torch.bool else dense == -torch.inf)
    return Hidden(before, after, tuple(masks))


def some(table: Tensor, dim: int, chosen: Rows) -> Tensor:
    """Choose along a dimension, unless the table is the same all along it."""
    if table.shape[dim] == 1:
        return table
    return table[(*[slice(None)] * dim, chosen)]


def part(table: Tensor, inputs: slice, rows: Rows, keys: slice) -> Tensor:
    """Return a mask's or a bias's part in a tile of all heads."""
    return some(some(table, 0, inputs), 2, rows)[..., keys]


def _beyond(ahead: Tensor, before: int | None, after: int | None) -> list[Tensor]:
    """Return where keys so far ahead of their queries, (rows, keys), are out of reach."""
    found = []
    if before is not None:
        found.append((ahead < before)[None, None])
    if after is not None:
        found.append((ahead > after)[None, None])
    return found
