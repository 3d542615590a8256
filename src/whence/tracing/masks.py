"""The masks of transformers, kept as what they say instead of queries x keys answers.

A model asks transformers for its mask once and hands it through its layers to the attention, which is ours. So the
mask may be a tensor in name only: it has a shape, a type and a device, no memory, and carries a `Visible`. A model
that does anything else with it (cuts it, adds to it, writes into it) gets the answers themselves that moment, by
`__torch_dispatch__`, below everything that a model can do to a tensor. Nothing simpler is as safe: an attribute on an
ordinary tensor is lost by the first operation, and the tensor itself would have to be right, that is, written out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils._pytree import tree_map_only

from whence.kernels import Visible

# From the numbers of inputs, heads, queries and keys, each along a dimension of its own, to who sees what.
Answers = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
Band = tuple[int | None, int | None]  # how far a query sees to the left and to the right

_ROWS = 128  # of a band that are looked at together: 4 MiB of answers at 32,768 keys

# What was found out about functions of places alone, by their kind and the number of places looked at.
_bands: dict[Hashable, Band | None] = {}


class _Said:
    """What a mask says, shared by all that are the same mask."""

    def __init__(self, visible: Visible, dtype: torch.dtype) -> None:
        self._visible = visible
        self.dtype = dtype
        self._open: Tensor | None = None  # answers that somebody can write into

    def visible(self) -> Visible:
        """Return who sees what now."""
        return self._visible if self._open is None else Visible(dense=self._open.clone())

    def written(self, size: Sequence[int], device: torch.device) -> Tensor:
        """Return the answers, as they are now."""
        if self._open is not None:
            return self._open
        queries, keys = size[2:]
        seen = self._visible.seen(torch.arange(queries, device=device), keys)
        if seen is None:
            seen = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
        if (
            self.dtype != torch.bool
        ):  # what is added to scores: the lowest number there is, as transformers does
            none = torch.zeros((), dtype=self.dtype, device=device)
            seen = torch.where(seen, none, torch.finfo(self.dtype).min)
        return seen.expand(*size)

    def opened(self, size: Sequence[int], device: torch.device) -> Tensor:
        """Return the answers for somebody who may write into them or a part of them, and then means the mask."""
        if self._open is None:
            # Memory of its own, for one input or all: padding is the caller's.
            answers = self.written((-1, -1, *size[2:]), device)
            answers = answers.clone(memory_format=torch.contiguous_format)
            self._open = answers.expand(*size)
        return self._open


class Mask(Tensor):
    """Booleans, or numbers to add to scores, (batch, 1, queries, keys), that nobody has written out yet."""

    _said: _Said
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(
        cls,
        visible: Visible,
        size: Sequence[int],
        device: torch.device,
        dtype: torch.dtype = torch.bool,
    ) -> "Mask":
        """Make the mask; it takes no memory."""
        return cls._of(_Said(visible, dtype), size, device)

    @classmethod
    def _of(cls, said: _Said, size: Sequence[int], device: torch.device) -> "Mask":
        made: Mask = Tensor._make_wrapper_subclass(cls, size, dtype=said.dtype, device=device)
        made._said = said
        return made

    @property
    def visible(self) -> Visible:
        """Who sees what now."""
        return self._said.visible()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return f"Mask({tuple(self.shape)}, {self.visible})"

    def written(self) -> Tensor:
        """Write the mask out."""
        return self._said.written(self.shape, self.device)

    def _opened(self) -> Tensor:
        return self._said.opened(self.shape, self.device)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if func in _SAME and isinstance(args[0], Mask):
            return cls._of(args[0]._said, args[0].shape, args[0].device)
        # What it returns may share memory with what it is given, or be that.
        shares = any(one.alias_info is not None for one in func._schema.arguments)
        answers = Mask._opened if shares else Mask.written
        args, kwargs = tree_map_only(Mask, answers, (tuple(args), dict(kwargs or {})))
        return func(*args, **kwargs)


_SAME = {torch.ops.aten.detach.default, torch.ops.aten.alias.default}


def unwritten(
    written: Callable[..., Tensor | None],
    known: Mapping[Answers, Band],
    relies_on_flag: Callable[[Any], bool] = lambda _: True,
) -> Callable[..., Tensor | None]:
    """Return a mask function for transformers that does what its `sdpa_mask` does and writes nothing out.

    `known` are functions whose answers need no looking at. Masks that can only be made by `vmap`, those of a traced
    model and those of versions before 5.3, which ask in other words, are `written`. A model of whose configuration
    it is not true that it `relies_on_flag` gets a mask where others may do without one, because their modules say
    that they are causal; and one that adds its masks to scores gets numbers, should it look at them.
    """

    def mask(*args: Any, **given: Any) -> Tensor | None:
        config = given.get("config")
        if not relies_on_flag(config):
            given["allow_is_causal_skip"] = False
        stranger = (
            args or not given.keys() >= {"q_length", "mask_function"} or given.get("use_vmap")
        )
        moving = isinstance(given.get("q_offset"), Tensor) or torch.compiler.is_compiling()
        padding = given.get("attention_mask")
        flat = padding is None or (type(padding) is Tensor and padding.dim() == 2)
        if stranger or moving or not flat:
            return written(*args, **given)
        return _mask(known, **given)

    return mask


def _mask(
    known: Mapping[Answers, Band],
    *,
    batch_size: int,
    q_length: int,
    kv_length: int,
    mask_function: Answers,
    q_offset: int = 0,
    kv_offset: int = 0,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    allow_is_bidirectional_skip: bool = False,
    device: torch.device | str = "cpu",
    dtype: torch.dtype | None = None,
    config: Any = None,
    **_: Any,
) -> Mask | None:
    keys = _of_keys(attention_mask, kv_length, kv_offset)
    whole, trailing = (True, False) if keys is None else _padding(keys)
    local = local_size is not None and kv_length >= local_size
    square = q_length in (1, kv_length)
    skips = allow_is_bidirectional_skip or (allow_is_causal_skip and square)
    # None is what transformers says here too: everything, or all that comes before, whichever the layer means by it.
    if whole and not local and skips:
        return None
    device = torch.device(device)
    band = known.get(mask_function)
    if band is None and q_offset == kv_offset:
        band = _band(mask_function, local_size, max(q_length, kv_length), device)
    elif q_offset != kv_offset:
        band = None

    def rule(rows: Tensor) -> Tensor:
        inputs = torch.arange(batch_size, device=rows.device)
        places = torch.arange(kv_length, device=rows.device) + kv_offset
        answers = _asked(mask_function, inputs, rows + q_offset, places)
        return answers.expand(-1, -1, len(rows), kv_length)

    left, right = band or (None, None)
    visible = Visible(
        left=left,
        right=right,
        keys=None if whole else keys,
        rule=rule if band is None else None,
        trailing=trailing,
    )
    adds = getattr(config, "_attn_implementation_internal", None) == "eager"
    kind = dtype if adds and dtype is not None else torch.bool
    return Mask(visible, (batch_size, 1, q_length, kv_length), device, kind)


def _of_keys(mask: Tensor | None, keys: int, offset: int) -> Tensor | None:
    """Return which keys are real, (batch, keys), from a mask of everything there was so far."""
    if mask is None:
        return None
    missing = max(0, keys + offset - mask.shape[1])
    return F.pad(mask.bool(), (0, missing))[:, offset : offset + keys]


def _padding(keys: Tensor) -> tuple[bool, bool]:
    """Say whether there is none, and whether all of it stands at the end: one question to the device."""
    comes_back = (keys[:, 1:] & ~keys[:, :-1]).any()
    whole, trailing = torch.stack((keys.all(), ~comes_back)).tolist()
    return whole, trailing


def _asked(answers: Answers, inputs: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    head = torch.zeros_like(inputs[:1])
    return answers(
        inputs[:, None, None, None],
        head[None, :, None, None],
        queries[None, None, :, None],
        keys[None, None, None, :],
    )


def _band(answers: Answers, local: int | None, places: int, device: torch.device) -> Band | None:
    """Return how far every query sees, if it sees equally far everywhere, and nothing depends on the input."""
    kind = _kind(answers)
    if kind is None:
        return None
    size = 1 << max(8, (places - 1).bit_length())  # a few sizes, so that most are known already
    if (kind, local, size) not in _bands:
        candidates: list[Band] = [(None, 0), (None, None)]
        if local is not None:
            candidates = [(local - 1, 0), (local, local), (local, 0)]
        found = (band for band in candidates if _is_band(answers, band, size, device))
        _bands[kind, local, size] = next(found, None)
    return _bands[kind, local, size]


def _is_band(answers: Answers, band: Band, size: int, device: torch.device) -> bool:
    """Look at every answer, a few rows at a time."""
    visible = Visible(*band)
    keys = torch.arange(size, device=device, dtype=torch.int32)
    for start in range(0, size, _ROWS):
        rows = slice(start, min(start + _ROWS, size))
        given = _asked(answers, keys[:2], keys[rows], keys)
        if given.shape[0] != 1:  # it tells inputs apart
            return False
        given = given.expand(1, 1, rows.stop - start, size)
        near = visible.reach(rows, size)
        wanted = visible.part(rows, near).seen(keys[: rows.stop - start], near.stop - near.start)
        inside, left, right = given[..., near], given[..., : near.start], given[..., near.stop :]
        right_inside = inside.all() if wanted is None else (inside == wanted).all()
        if not bool(right_inside & ~left.any() & ~right.any()):
            return False
    return True


def _kind(thing: Any) -> Hashable | None:
    """Return what a function is made of, so that equal ones are equal; None where that cannot be told.

    One that holds a tensor depends on the input.
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
        parts = _kind((cells, thing.__defaults__ or (), named, read))
        return None if parts is None else (thing.__module__, thing.__code__, parts)
    if isinstance(thing, tuple):
        parts = tuple(_kind(one) for one in thing)
        return None if None in parts else parts
    return None
