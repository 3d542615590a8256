"""Timed cases of the speed benchmarks: a bare forward, and a trace with its methods from ids to scores."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from whence.data.batches import Batch, collate
from whence.data.tokens import from_mapping
from whence.explain.request import MethodRequest, resolve_methods
from whence.kernels.contract import Implementation, use_implementation
from whence.models.load import load_model
from whence.tracing.target import TargetSpec
from whence.tracing.trace import run_traced

Given = Mapping[str, Any]
PREDICTED = TargetSpec("predicted", None, "logit")
# Nine readers that one forward and one gradient pass serve: all there are whose scores need no more than those.
NINE = (
    "raw_attention", "rollout", "attention_gradient", "attention_gradcam", "generic_attention",
    "cat", "attcat", "gradient", "grad_x_input",
)  # fmt: skip
# A tenth of the same passes, rollout as AttCAT's authors ran it on SQuAD; and one that adds a relevance pass.
TEN = (*NINE, "rollout:attcat_squad")
TEN_WITH_RELEVANCE = (*NINE, "transformer_attribution")


def build_batch(model: Any, given: Given) -> Batch:
    """Return encoded inputs as a batch on the model's device."""
    items = from_mapping(given, None, pad_ids=frozenset({0}), max_length=None, vocabulary=None)
    return collate(items, pad_id=0, device=next(model.parameters()).device)


def build_reading(
    model: Any,
    batch: Batch,
    names: str | Sequence[str],
    implementation: Implementation = "auto",
    *,
    checkpoint: bool = False,
) -> Callable[[], dict[str, Tensor]]:
    """Return a run from the batch to the scores of some trace methods: one trace, then each of them.

    A reader's name may have a preset behind it, as in "rollout:attcat_squad".
    """
    asked = {
        name: _resolve_request(name) for name in ([names] if isinstance(names, str) else names)
    }
    loaded, needs = (
        load_model(model),
        frozenset[str]().union(*(one.needs for one in asked.values())),
    )

    def run() -> dict[str, Tensor]:
        with use_implementation(implementation):
            seen = run_traced(
                loaded.model,
                batch,
                needs,
                PREDICTED,
                loaded.task,
                readers=len(asked),
                checkpoint=checkpoint,
            )
            found = {}
            for name, one in asked.items():
                returned = one.entry.fn(seen, **one.params)
                found[name] = returned[0] if isinstance(returned, tuple) else returned
        return found

    return run


def build_forward(model: Any, inputs: Mapping[str, Tensor]) -> Callable[[], Tensor]:
    """Return one bare forward of a batch, without a gradient."""

    def run() -> Tensor:
        with torch.inference_mode():
            logits: Tensor = model(**inputs).logits
        return logits

    return run


def _resolve_request(name: str) -> MethodRequest:
    name, _, preset = name.partition(":")
    return resolve_methods(name, {"preset": preset} if preset else None, {})[0]
