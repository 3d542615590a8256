"""The layout of image patches among a model's tokens, found by a probe, once for each image size.

Names of classes and settings do not say it reliably. But the first convolution cuts the image into patches,
and the token that changes with a patch is the one that stands for it.
"""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from whence.core.errors import BadPicture, NotCapturable
from whence.data.images import PatchLayout
from whence.models.facts import get_facts, get_parts
from whence.tracing.restore import restore_on_exit


@dataclass(eq=False)
class _PatchObserver:
    """Hooks that record the first convolution's grid, and the hidden states that enter the blocks."""

    grid: tuple[int, int] | None = None
    first: Tensor | None = None
    lengths: list[int] = field(default_factory=list)

    def cut(self, _: nn.Module, __: Any, output: Any) -> None:
        if self.grid is None and isinstance(output, Tensor) and output.dim() == 4:
            self.grid = (output.shape[2], output.shape[3])

    def enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        tensors = [x for x in (*args, kwargs.get("hidden_states")) if isinstance(x, Tensor)]
        if tensors and tensors[0].dim() == 3 and tensors[0].is_floating_point():
            self.first = tensors[0] if self.first is None else self.first
            self.lengths.append(tensors[0].shape[1])


def find_patch_layout(model: Any, pixels: Tensor) -> PatchLayout:
    """Return the layout of a model's patch tokens for pixels of (channels, height, width)."""
    known: dict[tuple[int, ...], PatchLayout] = get_facts(model).patch_layouts
    size = tuple(pixels.shape)
    if size not in known:
        known[size] = _detect_layout(model, pixels)
    return known[size]


def _detect_layout(model: Any, pixels: Tensor) -> PatchLayout:
    hooks = _observe_forward(model, pixels[None])
    name, (_, height, width) = type(model).__name__, pixels.shape
    if hooks.grid is None or hooks.first is None:
        raise NotCapturable(
            f"{name} does not cut its pictures into patches by a convolution and hand them to a list of layers, so "
            "that no patch can be told from another. Load a model such as ViT, DeiT, DINOv2, BEiT or Swin."
        )
    down, across = hooks.grid
    if len(set(hooks.lengths)) == 1 and height % down == 0 and width % across == 0:
        corners = pixels.repeat(3, 1, 1, 1)
        patch = (height // down, width // across)
        corners[1, :, : patch[0], : patch[1]] += 1
        corners[2, :, -patch[0] :, -patch[1] :] += 1
        tokens = _observe_forward(model, corners).first
        assert tokens is not None
        lead, last = (_find_changed_token(tokens[0], tokens[corner]) for corner in (1, 2))
        if lead is not None and last == lead + down * across - 1:
            return PatchLayout(hooks.grid, lead, tokens.shape[1])
    return PatchLayout(_find_coarse_grid(name, hooks, height, width), 0, 0)


def _find_changed_token(before: Tensor, after: Tensor) -> int | None:
    """Return the one token that changed, or None where several did."""
    change = (after - before).abs().amax(-1)
    numbers = (change > 1e-3 * change.max()).nonzero().flatten().tolist()
    return numbers[0] if len(numbers) == 1 else None


def _find_coarse_grid(name: str, hooks: _PatchObserver, height: int, width: int) -> tuple[int, int]:
    """Return the coarsest grid of patches: that of the last block, or of the first convolution."""
    last = hooks.lengths[-1]
    down = round((last * height / width) ** 0.5)
    candidates = [(down, last // down)] if last > 1 and last % down == 0 else []
    for rows, columns in [*candidates, *([hooks.grid] if hooks.grid else [])]:
        if height % rows == 0 and width % columns == 0:
            return rows, columns
    raise BadPicture(
        f"{name} divides a picture of {height} x {width} pixels into patches that do not fill it evenly. Give one "
        "whose sides are multiples of its patches."
    )


def _observe_forward(model: Any, pixels: Tensor) -> _PatchObserver:
    hooks = _PatchObserver()
    weight = next(model.parameters())
    forward = getattr(model, "get_image_features", model)
    with restore_on_exit(model) as stack, torch.no_grad():
        for block in get_parts(model).blocks:
            hook = block.register_forward_pre_hook(hooks.enter, with_kwargs=True)
            stack.callback(hook.remove)
        for part in model.modules():
            if isinstance(part, nn.Conv2d):
                stack.callback(part.register_forward_hook(hooks.cut).remove)
        try:
            forward(pixel_values=pixels.to(weight))
        except (ValueError, RuntimeError) as error:
            raise _build_pixels_error(model, pixels, error) from None
    return hooks


def _build_pixels_error(model: Any, pixels: Tensor, error: Exception) -> BadPicture:
    name, (_, channels, height, width) = type(model).__name__, pixels.shape
    config = getattr(model.config, "vision_config", model.config)
    image_size = getattr(config, "image_size", None)
    sides = (image_size, image_size) if isinstance(image_size, int) else image_size
    expected = getattr(config, "num_channels", channels)
    if channels != expected:
        return BadPicture(
            f"{name} takes pictures of {expected} channels, and these have {channels}. 'pixel_values' are (channels, "
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
