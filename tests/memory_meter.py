"""A meter of the memory that tensors take, for tests of what is let go of."""

import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemoryMeter(TorchDispatchMode):
    """A meter of the bytes of all storages made while it is open; workspace inside kernels is not counted."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self._counted = weakref.WeakSet()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        inputs = {id(one) for one in map(_find_storage, tree_leaves((args, kwargs))) if one}
        for storage in map(_find_storage, tree_leaves(result)):
            if storage is not None and id(storage) not in inputs and storage not in self._counted:
                self._counted.add(storage)
                weakref.finalize(storage, self._add, -storage.nbytes()).atexit = False
                self._add(storage.nbytes())
        return result

    def _add(self, size):
        self.now += size
        self.peak = max(self.peak, self.now)


def _find_storage(value):
    if not isinstance(value, torch.Tensor) or value.device.type == "meta":
        return None
    try:
        return value.untyped_storage()
    except (NotImplementedError, RuntimeError):  # no storage: a sparse tensor or a lazy mask
        return None
