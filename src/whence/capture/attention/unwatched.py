"""Models that attend through the seam though nobody watches: then no mask of queries x keys is written out.

Left to themselves, models write one for every batch with padding and for every window, also where they never attend
by it. What they say is the same up to rounding, and the same as in a trace, which watches.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar
from weakref import WeakSet

from whence.capture.attention.layer import AttentionLayer
from whence.capture.attention.seam import attention_seam, implementations, untouched
from whence.capture.found import turn
from whence.capture.memory.fitting import lacks_memory
from whence.models.parts import held

# Models that offer the seam and, as one forward pass showed, do not use it, or say something else through it.
_unrouted: WeakSet[Any] = WeakSet()
# Attention that takes a mask of queries x keys. Any other has none, or is somebody's own and stays.
_MASKED = frozenset({"sdpa", "eager", None})

Result = TypeVar("Result")


class Do(Protocol):
    """Does a piece of work, and returns what it gives; once more without the seam where that does not agree."""

    def __call__(
        self, work: Callable[[], Result], agrees: Callable[[Result], bool] | None = None
    ) -> Result: ...


def offers_seam(model: Any) -> bool:
    """Say whether attention may go through the seam: true unless a pass found out that it does not."""
    return model not in _unrouted


def leave_unrouted(model: Any) -> None:
    """Remember that a model does not use the seam that it offers."""
    _unrouted.add(model)


def _replaceable(model: Any) -> list[str | None]:
    """Return how the parts of a model attend, if that may go through the seam though nobody watches; else nothing."""
    own = implementations(model) if offers_seam(model) else []
    return own if _MASKED.issuperset(own) else []


def is_routed(model: Any) -> bool:
    """Say whether a model's attention goes through the seam though nobody watches, or would."""
    return bool(_replaceable(model))


class _Unwatched:
    """Does work on a model while its attention goes through the seam, as long as that turns out to be so."""

    def __init__(self, model: Any, open_seam: ExitStack, *, adds: bool) -> None:
        """`adds`: by itself the model would be given masks to add to scores, and no booleans."""
        self._model = model
        self._open = open_seam
        self._adds = adds
        self._used = False
        self._left = False

    def attention(self, _: AttentionLayer) -> None:
        """Note that there was attention, and nothing of it."""
        self._used = True

    def __call__(
        self, work: Callable[[], Result], agrees: Callable[[Result], bool] | None = None
    ) -> Result:
        """Do some work in which the model runs at least once."""
        if self._left:
            return work()
        try:
            found = work()
        except (RuntimeError, TypeError) as error:
            if self._used or not self._adds or lacks_memory(error):
                raise
        else:
            if self._used and (agrees is None or agrees(found)):
                return found
        # It went past the seam, and its masks may not have been what it takes; or it says something else there.
        leave_unrouted(self._model)
        self._open.close()
        self._left = True
        return work()


@contextmanager
def unwatched(model: Any) -> Iterator[Do]:
    """Yield what does work with a model's attention going through the seam, where it can and does not already."""
    with turn(model), held(model), ExitStack() as stack:
        own = _replaceable(model)
        if not own:
            yield _call
            return
        do = _Unwatched(model, stack, adds="eager" in own)
        stack.enter_context(untouched())
        stack.enter_context(attention_seam(model, do))
        yield do


def unmasked(
    model: Any, work: Callable[[], Result], agrees: Callable[[Result], bool] | None = None
) -> Result:
    """Do some work in which the model runs at least once, without masks written out where that can be."""
    with unwatched(model) as do:
        return do(work, agrees)


def _call(work: Callable[[], Result], agrees: Callable[[Result], bool] | None = None) -> Result:
    return work()
