"""Work that is done in parts, none of which may be larger than the memory.

A part that does not fit is halved and tried again, and everything after it is cut to what fitted: for the rest of the
process, because memory does not come back by itself. Whoever works in parts gets the same results, only later.
"""

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import torch

from whence.core.errors import OutOfMemory
from whence.data import Encoded, Policy, batches

T = TypeVar("T")

# What PyTorch says on a CPU, and where an accelerator's libraries ask for memory themselves.
_SAID = (
    "can't allocate memory",
    "not enough memory",
    "std::bad_alloc",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)

# By model, and by what is done with it: the cells (inputs x longest) that fitted.
_fitted: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()


def lacks_memory(error: BaseException) -> bool:
    """Say whether this is how memory that ran out shows."""
    if isinstance(error, OutOfMemory | MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def device_lost(error: BaseException) -> bool:
    """Say whether an accelerator will not recover from this: all that it is asked from then on fails."""
    return "CUDA error" in str(error) and not lacks_memory(error)


class Fitting(Generic[T]):
    """Parts of some work on a model, each to be done within `trying`; iterate over it.

    `kind` names the work: what does not fit in one kind may in another. `cells` tells how large a part is.
    """

    def __init__(
        self,
        model: Any,
        kind: str,
        parts: Iterable[Sequence[T]],
        cells: Callable[[Sequence[T]], int],
        advice: Callable[[T], str] | None = None,
    ) -> None:
        self._model = model
        self._kind = kind
        self._parts = iter(parts)
        self._cells = cells
        self._advice = advice
        self._again: list[Sequence[T]] = []  # the next one last
        self._failed = False

    def __iter__(self) -> Iterator[Sequence[T]]:
        while True:
            if self._failed:  # what was tried is gone by now, as far as nothing else holds it
                _release()
                self._failed = False
            if not self._again:
                part = next(self._parts, None)
                if part is None:
                    return
                self._again.append(part)
            part = self._again.pop()
            fitted = _fitted.get(self._model, {}).get(self._kind)
            if fitted is not None and len(part) > 1 and self._cells(part) > fitted:
                self._halve(part)
            else:
                yield part

    @contextmanager
    def trying(self, part: Sequence[T]) -> Iterator[None]:
        """Do the work on a part; if the memory does not suffice, its halves come next."""
        try:
            yield
        except (
            Exception
        ) as error:  # memory runs out as a RuntimeError, too; all else goes on its way
            if not lacks_memory(error):
                raise
            if len(part) == 1:
                if isinstance(error, OutOfMemory):
                    raise
                raise self._too_large(part[0], error) from error
            self._failed = True
            cells = self._halve(part)
            known = _fitted.setdefault(self._model, {})
            first = not known
            known[self._kind] = min(cells, known.get(self._kind, cells))
        else:
            return
        if first:
            warnings.warn(
                f"The memory is too small for {len(part)} inputs at a time: going on with {(len(part) + 1) // 2}. "
                "The results are the same.",
                stacklevel=2,
            )

    def _halve(self, part: Sequence[T]) -> int:
        half = (len(part) + 1) // 2
        self._again += [part[half:], part[:half]]
        return self._cells(part[:half])

    def _too_large(self, one: T, error: Exception) -> OutOfMemory:
        advice = "" if self._advice is None else self._advice(one)
        told = f" {advice}" if advice else ""
        return OutOfMemory(
            f"One input of {self._cells([one])} tokens is too large for the memory.{told} Try a shorter one, "
            "checkpoint=True (--checkpoint), a method without gradients, or half precision: dtype='bfloat16'. "
            f"PyTorch says: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}"
        )


def fitting_batches(
    model: Any,
    kind: str,
    items: Sequence[Encoded],
    policy: Policy,
    advice: Callable[[int], str] | None = None,
) -> Fitting[int]:
    """Return the numbers of inputs in batches that fit; see `data.batches`."""

    def cells(chosen: Sequence[int]) -> int:
        return len(chosen) * max(len(items[i]) for i in chosen)

    return Fitting(model, kind, batches(items, policy), cells, advice)


def _release() -> None:
    """Give back what nobody holds any more."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


"""Passes that fit into memory: in parts, run again instead of kept, compiled."""


"""How much memory a piece of work takes at its peak: every tensor that is made counts for as long as it lives."""

import weakref
from collections.abc import Container, Mapping, Sequence
from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Meter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all storages made while it is open, on any device. What kernels use inside is not seen.

    Storages of as many numbers as `apart` has are counted apart: copies of weights, say.
    """

    def __init__(self, apart: Container[int] = ()) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = 0
        self.peak: int = 0
        self.now_apart = 0
        self.peak_apart: int = 0
        self._apart = apart
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {id(storage) for storage in map(_storage, tree_leaves((args, kwargs))) if storage}
        for one in tree_leaves(result):
            storage = _storage(one)
            if storage is not None and id(storage) not in given and storage not in self._seen:
                self._count(storage, storage.nbytes() // one.element_size() in self._apart)
        return result

    def _count(self, storage: Any, apart: bool) -> None:
        size = storage.nbytes()
        self._seen.add(storage)
        weakref.finalize(storage, self._add, -size, apart).atexit = False
        self._add(size, apart)

    def _add(self, size: int, apart: bool) -> None:
        if apart:
            self.now_apart += size
            self.peak_apart = max(self.peak_apart, self.now_apart)
        else:
            self.now += size
            self.peak = max(self.peak, self.now)


def _storage(value: Any) -> Any:
    if not isinstance(value, Tensor) or value.device.type == "meta":
        return None
    try:
        return value.untyped_storage()
    except (
        NotImplementedError,
        RuntimeError,
    ):  # a tensor without storage: sparse, or a mask that is not written out
        return None
