"""Where the patches of a picture are among a model's tokens: found out by trying, once for each size.

Names of classes and settings do not say it reliably. But the first convolution cuts the picture into patches, and
the token that changes with a patch is the one that stands for it.
"""

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from whence.capture.found import as_found
from whence.core.errors import BadPicture, NotCapturable
from whence.data.vision.picture import Layout

_known: WeakKeyDictionary[nn.Module, dict[tuple[int, ...], Layout]] = WeakKeyDictionary()


@dataclass(eq=False)
class _Seen:
    """What a forward pass shows: the grid of the first convolution, and what enters each block."""

    grid: tuple[int, int] | None = None
    first: Tensor | None = None
    lengths: list[int] = field(default_factory=list)

    def cut(self, _: nn.Module, __: Any, output: Any) -> None:
        if self.grid is None and isinstance(output, Tensor) and output.dim() == 4:
            self.grid = (output.shape[2], output.shape[3])

    def enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = [x for x in (*args, kwargs.get("hidden_states")) if isinstance(x, Tensor)]
        if given and given[0].dim() == 3 and given[0].is_floating_point():
            self.first = given[0] if self.first is None else self.first
            self.lengths.append(given[0].shape[1])


def layout(model: Any, pixels: Tensor) -> Layout:
    """Say where a model's tokens are in pixels (channels, height, width)."""
    known, size = _known.setdefault(model, {}), tuple(pixels.shape)
    if size not in known:
        known[size] = _found(model, pixels)
    return known[size]


def _found(model: Any, pixels: Tensor) -> Layout:
    whole = _run(model, pixels[None])
    name, (_, height, width) = type(model).__name__, pixels.shape
    if whole.grid is None or whole.first is None:
        raise NotCapturable(
            f"{name} does not cut its pictures into patches by a convolution and hand them to a list of layers, so "
            "that no patch can be told from another. Load a model such as ViT, DeiT, DINOv2, BEiT or Swin."
        )
    down, across = whole.grid
    if len(set(whole.lengths)) == 1 and height % down == 0 and width % across == 0:
        corners = pixels.repeat(3, 1, 1, 1)
        patch = (height // down, width // across)
        corners[1, :, : patch[0], : patch[1]] += 1
        corners[2, :, -patch[0] :, -patch[1] :] += 1
        tokens = _run(model, corners).first
        assert tokens is not None
        lead, last = (_moved(tokens[0], tokens[corner]) for corner in (1, 2))
        if lead is not None and last == lead + down * across - 1:
            return Layout(whole.grid, lead, tokens.shape[1])
    return Layout(_coarse(name, whole, height, width), 0, 0)


def _moved(before: Tensor, after: Tensor) -> int | None:
    """Return the one token that changed, or None where several did."""
    change = (after - before).abs().amax(-1)
    moved = (change > 1e-3 * change.max()).nonzero().flatten().tolist()
    return moved[0] if len(moved) == 1 else None


def _coarse(name: str, seen: _Seen, height: int, width: int) -> tuple[int, int]:
    """Return the grid of cells that are told apart to the end: those of the last block, or of the convolution."""
    last = seen.lengths[-1]
    down = round((last * height / width) ** 0.5)
    candidates = [(down, last // down)] if last > 1 and last % down == 0 else []
    for rows, columns in [*candidates, *([seen.grid] if seen.grid else [])]:
        if height % rows == 0 and width % columns == 0:
            return rows, columns
    raise BadPicture(
        f"{name} divides a picture of {height} x {width} pixels into patches that do not fill it evenly. Give one "
        "whose sides are multiples of its patches."
    )


def _run(model: Any, pixels: Tensor) -> _Seen:
    seen = _Seen()
    weight = next(model.parameters())
    look = getattr(model, "get_image_features", model)
    with as_found(model) as stack, torch.no_grad():
        lists = [part for part in model.modules() if isinstance(part, nn.ModuleList)]
        for block in dict.fromkeys(member for part in lists for member in part):
            hook = block.register_forward_pre_hook(seen.enter, with_kwargs=True)
            stack.callback(hook.remove)
        for part in model.modules():
            if isinstance(part, nn.Conv2d):
                stack.callback(part.register_forward_hook(seen.cut).remove)
        try:
            look(pixel_values=pixels.to(weight))
        except (ValueError, RuntimeError) as error:
            raise _refused(model, pixels, error) from None
    return seen


def _refused(model: Any, pixels: Tensor, error: Exception) -> BadPicture:
    name, (_, channels, height, width) = type(model).__name__, pixels.shape
    config = getattr(model.config, "vision_config", model.config)
    wanted = getattr(config, "image_size", None)
    sides = (wanted, wanted) if isinstance(wanted, int) else wanted
    takes = getattr(config, "num_channels", channels)
    if channels != takes:
        return BadPicture(
            f"{name} takes pictures of {takes} channels, and these have {channels}. 'pixel_values' are (channels, "
            "height, width)."
        )
    if isinstance(sides, list | tuple) and tuple(sides) != (height, width):
        return BadPicture(
            f"{name} takes pictures of {sides[0]} x {sides[1]} pixels, and these have {height} x {width}. Give the "
            "picture itself, or pixels of that size."
        )
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return BadPicture(
        f"{name} does not take pixels of {tuple(pixels.shape[1:])}: {reason}. Give the picture itself, or what the "
        "model's image processor returned."
    )
