"""Batches that are halved and repeated when memory runs out.

After a failure all later batches are cut to the size that fitted, for the rest of the process, because
memory does not come back by itself. The results are the same, only later.
"""

import gc
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

import torch

from whence.core.errors import OutOfMemory
from whence.data.batches import BatchRules, plan_batches
from whence.data.tokens import EncodedInput

T = TypeVar("T")

# Messages of PyTorch on a CPU, and of accelerator libraries that allocate memory themselves.
_MEMORY_MESSAGES = (
    "can't allocate memory",
    "not enough memory",
    "std::bad_alloc",
    "out of memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
)

# By model and kind of work: the cells (inputs x longest) that fitted.
_fitting_cells: WeakKeyDictionary[Any, dict[str, int]] = WeakKeyDictionary()


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory ran out."""
    if isinstance(error, OutOfMemory | MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(text in str(error) for text in _MEMORY_MESSAGES)


def is_device_lost(error: BaseException) -> bool:
    """Return whether an error means a lost accelerator: every later call on it fails."""
    return "CUDA error" in str(error) and not is_out_of_memory(error)


@dataclass(eq=False)
class RetryHalved(Generic[T]):
    """Iterator over parts of work on a model; a part that runs out of memory comes back in halves.

    Work on a part belongs inside `retry_halved`. `kind` names the work: a size that does not fit one
    kind may fit another.
    """

    model: Any
    kind: str
    parts: Iterable[Sequence[T]]
    cells: Callable[[Sequence[T]], int]  # the size of a part
    advice: Callable[[T], str] | None = None
    _queue: list[Sequence[T]] = field(default_factory=list)  # the next one last
    _failed: bool = False

    def __iter__(self) -> Iterator[Sequence[T]]:
        for whole in self.parts:
            self._queue.append(whole)
            while self._queue:
                part = self._queue.pop()
                fitted = _fitting_cells.get(self.model, {}).get(self.kind)
                if fitted is not None and len(part) > 1 and self.cells(part) > fitted:
                    self._halve(part)
                    continue
                yield part
                if self._failed:  # the failed attempt's tensors are unreferenced by now
                    self._failed = False
                    gc.collect()
                    if torch.cuda.is_available():
                        torch.cuda.empty_cache()

    @contextmanager
    def retry_halved(self, part: Sequence[T]) -> Iterator[None]:
        """Run the block on a part; if memory runs out, the part's halves come next."""
        try:
            yield
        except Exception as error:  # some devices raise a RuntimeError when memory runs out
            if not is_out_of_memory(error):
                raise
            if len(part) == 1:
                if isinstance(error, OutOfMemory):
                    raise
                raise self._build_too_large_error(part[0], error) from error
            self._failed = True
            cells = self._halve(part)
            known = _fitting_cells.setdefault(self.model, {})
            first = not known
            known[self.kind] = min(cells, known.get(self.kind, cells))
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
        self._queue += [part[half:], part[:half]]
        return self.cells(part[:half])

    def _build_too_large_error(self, item: T, error: Exception) -> OutOfMemory:
        advice = "" if self.advice is None else self.advice(item)
        hint = f" {advice}" if advice else ""
        return OutOfMemory(
            f"One input of {self.cells([item])} tokens is too large for the memory.{hint} Try a shorter one, "
            "checkpoint=True (--checkpoint), a method without gradients, or half precision: dtype='bfloat16'. "
            f"PyTorch says: {str(error).splitlines()[0][:160] if str(error) else type(error).__name__}"
        )


def build_retry_batches(
    model: Any,
    kind: str,
    items: Sequence[EncodedInput],
    policy: BatchRules,
    advice: Callable[[int], str] | None = None,
) -> RetryHalved[int]:
    """Return the inputs' numbers in batches that are halved when memory runs out."""

    def cells(numbers: Sequence[int]) -> int:
        return len(numbers) * max(len(items[i]) for i in numbers)

    return RetryHalved(model, kind, plan_batches(items, policy), cells, advice)
