"""What may share a batch with what, on this model and machine: found out by trying, once, when it first matters."""

from collections.abc import Sequence
from dataclasses import replace

from whence.capture.probe import Capacity, capacity
from whence.data import Encoded, Policy
from whence.explainer.request import Request
from whence.models import Loaded

# Cells (inputs x longest) of one batch. On a CPU larger batches fall out of its cache and are slower
# (bench/tiles.py); an accelerator wants more work at a time.
_CELLS = {"cpu": 1024}
_CELLS_ELSEWHERE = 8192
INPUTS = 64
# Of variants that are only run forward, an accelerator takes more: nothing is kept of them.
_VARIANTS_ELSEWHERE, _VARIANT_CELLS_ELSEWHERE = 1024, 32768
# What values that are split by token may take up; one input is taken whatever it takes.
_PARTS_BYTES = 1 << 32


class Sharing:
    """Decides about batches for one model."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded
        self._capacity: Capacity | None = None

    def policy(
        self,
        items: Sequence[Encoded],
        size: int = INPUTS,
        *,
        asks: bool = False,
        tests: bool = False,
    ) -> Policy:
        """Return what may share a batch; with `asks`, variants of the inputs will come too.

        With `tests`, very many variants will come, and it is found out in any case whether lengths may mix.
        """
        loaded = self._loaded
        cells = _CELLS.get(loaded.device.type, _CELLS_ELSEWHERE)
        several = len(items) > 1 or asks or tests
        # Inputs of one length need no padding, and a model that knows a padding token takes many at once.
        pads = getattr(loaded.model.config, "pad_token_id", None) is not None
        sure = (pads or loaded.modality == "picture") and len({len(i) for i in items}) <= 1
        if not tests and (sure or not several):
            return Policy(size, cells, False, loaded.anchors)
        if self._capacity is None:
            self._capacity = capacity(
                loaded.model,
                min(items, key=len),
                pad_id=loaded.pad_id,
                device=loaded.device,
                max_length=loaded.max_length,
            )
        size = 1 if self._capacity == "single" else size
        return Policy(size, cells, self._capacity == "mixed", loaded.anchors)

    def variants(self, policy: Policy) -> Policy:
        """Return the policy for variants that are only run forward."""
        if policy.size == 1 or self._loaded.device.type in _CELLS:
            return policy
        return replace(policy, size=_VARIANTS_ELSEWHERE, cells=_VARIANT_CELLS_ELSEWHERE)

    def small_enough(
        self, policy: Policy, items: Sequence[Encoded], asked: Sequence[Request]
    ) -> Policy:
        """Return the policy for methods that split values by token, if there are any: fewer inputs at a time."""
        if not any("steps" in request.needs for request in asked):
            return policy
        return replace(policy, cells=min(policy.cells, self._parts_at_a_time(items)))

    def _parts_at_a_time(self, items: Sequence[Encoded]) -> int:
        """Return the cells of a batch whose values, split by token, still fit: tokens count once more there."""
        config, itemsize = self._loaded.model.config, self._loaded.dtype.itemsize
        # Feed-forward parts are about four times as wide as the rest, and about three values are held at once.
        width = 4 * getattr(config, "hidden_size", 768) * max(itemsize, 4) * 3
        return _PARTS_BYTES // (width * max((len(item) for item in items), default=1))
