"""Lazy attention masks for transformers: a rule of visibility instead of queries x keys booleans.

A model asks transformers for its mask once and hands it through its layers to the attention function, which
is ours. So the mask may be a tensor in name only: it has a shape, a dtype and a device, no memory, and
carries `VisibleKeys`. A model that does anything else with it (slices it, adds to it, writes into it) gets
the written-out mask that moment, by `__torch_dispatch__`. Nothing simpler is as safe: an attribute on an
ordinary tensor is lost by the first operation, and the tensor itself would have to be right, that is,
written out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from whence.kernels.maps import VisibleKeys

# Maps indices of inputs, heads, queries and keys, each along its own dimension, to visibility.
MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
AttentionBand = tuple[int | None, int | None]  # visible keys to the left and right; None: all

_ROWS_AT_A_TIME = 128  # rows of a band checked together: 4 MiB of booleans at 32,768 keys

# Attention implementations that do not take "no mask" plus `is_causal` for causal attention: only kernels with a
# causal flag do. Eager attention adds the mask it gets, and without one attends to all keys: there decoders always
# make masks, and `is_causal` of modules is missing or wrong.
WITHOUT_CAUSAL_FLAG = frozenset({"eager", "paged|eager", "flex_attention", None})

# Bands of mask functions of positions alone, by fingerprint, local size and number of positions.
_known_bands: dict[Hashable, AttentionBand | None] = {}


@dataclass(eq=False)
class _MaskContent:
    """The content of a lazy mask, shared by its aliases."""

    visible: VisibleKeys
    size: Sequence[int]
    device: torch.device
    dtype: torch.dtype
    dense: Tensor | None = None  # the materialised mask, once it may have been written into


class LazyMask(Tensor):
    """A mask, boolean or additive, (batch, 1, queries, keys), that is not materialised yet."""

    _content: _MaskContent
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, content: _MaskContent) -> "LazyMask":
        """Build the mask; it takes no memory."""
        new: LazyMask = Tensor._make_wrapper_subclass(
            cls, content.size, dtype=content.dtype, device=content.device
        )
        new._content = content
        return new

    @property
    def visible(self) -> VisibleKeys:
        """The current visible keys."""
        dense = self._content.dense
        return self._content.visible if dense is None else VisibleKeys(dense=dense.clone())

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Mask({tuple(self.shape)}, {self.visible})"

    def materialise(self, *, broadcast: bool = False) -> Tensor:
        """Return the mask as an ordinary tensor, in its current state; `broadcast` leaves equal inputs as one."""
        content = self._content
        if content.dense is not None:
            return content.dense
        queries, keys = content.size[2:]
        mask = content.visible.build_mask(torch.arange(queries, device=content.device), keys)
        if mask is None:
            mask = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=content.device)
        if content.dtype != torch.bool:  # additive: the dtype's lowest number, as in transformers
            zero = torch.zeros((), dtype=content.dtype, device=content.device)
            mask = torch.where(mask, zero, torch.finfo(content.dtype).min)
        return mask.expand(-1, -1, queries, keys) if broadcast else mask.expand(*content.size)

    def _materialise_writable(self) -> Tensor:
        """Return the mask as a tensor that may be written into; later reads see the writes."""
        content = self._content
        if content.dense is None:
            # A copy with memory of its own: the padding mask inside belongs to the caller.
            mask = self.materialise(broadcast=True).clone(memory_format=torch.contiguous_format)
            content.dense = mask.expand(*content.size)
        return content.dense

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _ALIAS_OPS and isinstance(args[0], LazyMask):
            return cls(args[0]._content)
        # The result may be a view of the argument, or the argument itself.
        may_alias = any(argument.alias_info is not None for argument in func._schema.arguments)
        convert = LazyMask._materialise_writable if may_alias else LazyMask.materialise
        args, kwargs = tree_map_only(LazyMask, convert, (tuple(args), dict(kwargs or {})))
        return func(*args, **kwargs)


_ALIAS_OPS = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}


def build_lazy_mask_function(
    build_dense: Callable[..., Tensor | None], bands: Mapping[MaskFunction, AttentionBand]
) -> Callable[..., Tensor | None]:
    """Return a mask function for transformers that builds lazy masks instead of `sdpa_mask`'s tensors.

    `bands` maps mask functions to their bands. The function `build_dense` makes masks that need `vmap`,
    masks of a compiled model, and those of transformers before 5.3, which passes other arguments. A
    model whose own attention has no causal flag always gets a mask, because its modules may be wrong
    about causality; an eager model's mask is additive once materialised.
    """

    def build_mask(*args: Any, **given: Any) -> Tensor | None:
        own = getattr(given.get("config"), "_attn_implementation_internal", "sdpa")
        if own in WITHOUT_CAUSAL_FLAG:
            given["allow_is_causal_skip"] = False
        padding, q_offset = given.get("attention_mask"), given.get("q_offset", 0)
        known = (
            not args and given.keys() >= {"q_length", "mask_function"} and not given.get("use_vmap")
        )
        dynamic = isinstance(q_offset, Tensor) or torch.compiler.is_compiling()
        flat = padding is None or (type(padding) is Tensor and padding.dim() == 2)
        if not known or dynamic or not flat:
            return build_dense(*args, **given)
        queries, key_count, kv_offset = (
            given["q_length"],
            given["kv_length"],
            given.get("kv_offset", 0),
        )
        whole, trailing, keys = True, False, None
        if padding is not None:  # the padding mask of all tokens so far
            missing = max(0, key_count + kv_offset - padding.shape[1])
            keys = F.pad(padding.bool(), (0, missing))[:, kv_offset : kv_offset + key_count]
            comes_back = (keys[:, 1:] & ~keys[:, :-1]).any()
            # In one device sync: whether there is no padding, and whether all of it is at the end.
            whole, trailing = torch.stack((keys.all(), ~comes_back)).tolist()
        local_size, function = given.get("local_size"), given["mask_function"]
        local = local_size is not None and key_count >= local_size
        skips = given.get("allow_is_bidirectional_skip", False) or (
            given.get("allow_is_causal_skip", True) and queries in (1, key_count)
        )
        # transformers returns None here too: all keys, or all earlier keys, by the layer's causal flag.
        if whole and not local and skips:
            return None
        device, band = torch.device(given.get("device", "cpu")), None
        if q_offset == kv_offset:
            band = bands.get(function) or _find_band(
                function, local_size, max(queries, key_count), device
            )

        def rule(rows: Tensor) -> Tensor:
            inputs = torch.arange(given["batch_size"], device=rows.device)
            places = torch.arange(key_count, device=rows.device) + kv_offset
            mask = _evaluate_mask_function(function, inputs, rows + q_offset, places)
            return mask.expand(-1, -1, len(rows), key_count)

        left, right = band or (None, None)
        visible = VisibleKeys(
            left=left,
            right=right,
            keys=None if whole else keys,
            rule=rule if band is None else None,
            trailing=trailing,
        )
        dtype = given.get("dtype") if own == "eager" else None
        size = (given["batch_size"], 1, queries, key_count)
        return LazyMask(_MaskContent(visible, size, device, dtype or torch.bool))

    return build_mask


def _evaluate_mask_function(
    function: MaskFunction, inputs: Tensor, queries: Tensor, keys: Tensor
) -> Tensor:
    head = torch.zeros_like(inputs[:1])
    return function(
        inputs[:, None, None, None],
        head[None, :, None, None],
        queries[None, None, :, None],
        keys[None, None, None, :],
    )


def _find_band(
    function: MaskFunction, local: int | None, places: int, device: torch.device
) -> AttentionBand | None:
    """Return the band of a mask function, or None if it is no band or depends on the input."""
    fingerprint = _fingerprint_function(function)
    if fingerprint is None:
        return None
    size = 1 << max(8, (places - 1).bit_length())  # few distinct sizes, so that most are cached
    if (fingerprint, local, size) not in _known_bands:
        candidates: list[AttentionBand] = [(None, 0), (None, None)]
        if local is not None:
            candidates = [(local - 1, 0), (local, local), (local, 0)]
        matches = (band for band in candidates if _is_band(function, band, size, device))
        _known_bands[fingerprint, local, size] = next(matches, None)
    return _known_bands[fingerprint, local, size]


def _is_band(function: MaskFunction, band: AttentionBand, size: int, device: torch.device) -> bool:
    """Return whether a mask function equals a band at every position, checked a few rows at a time."""
    visible = VisibleKeys(*band)
    keys = torch.arange(size, device=device, dtype=torch.int32)
    for start in range(0, size, _ROWS_AT_A_TIME):
        rows = slice(start, min(start + _ROWS_AT_A_TIME, size))
        actual = _evaluate_mask_function(function, keys[:2], keys[rows], keys)
        if actual.shape[0] != 1:  # the mask depends on the input
            return False
        actual = actual.expand(1, 1, rows.stop - start, size)
        near = visible.reach(rows, size)
        expected = visible.part(rows, near).build_mask(
            keys[: rows.stop - start], near.stop - near.start
        )
        inside, left, right = actual[..., near], actual[..., : near.start], actual[..., near.stop :]
        right_inside = inside.all() if expected is None else (inside == expected).all()
        if not bool(right_inside & ~left.any() & ~right.any()):
            return False
    return True


def _fingerprint_function(thing: Any) -> Hashable | None:
    """Return a key of a function's code and closure, equal for equal functions; None if unknown.

    A closure that holds a tensor depends on the input, and has no key.
    """
    if isinstance(thing, int | float | str):
        return (type(thing), thing)
    if isinstance(thing, FunctionType):
        cells = tuple(cell.cell_contents for cell in thing.__closure__ or ())
        named = tuple((thing.__kwdefaults__ or {}).items())
        looked_up = thing.__globals__
        read = tuple(
            looked_up[name]
            for name in thing.__code__.co_names
            if name in looked_up and not isinstance(looked_up[name], ModuleType)
        )
        parts = _fingerprint_function((cells, thing.__defaults__ or (), named, read))
        return None if parts is None else (thing.__module__, thing.__code__, parts)
    if isinstance(thing, tuple):
        parts = tuple(_fingerprint_function(item) for item in thing)
        return None if None in parts else parts
    return None
