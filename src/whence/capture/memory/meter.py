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
