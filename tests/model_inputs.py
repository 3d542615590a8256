"""Recorder of model inputs: the token ids of everything that a model is run on."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def record_model_inputs(model: Any) -> Iterator[list[tuple[int, ...]]]:
    """Yield a list that grows by the token ids of every input the model is run on, without padding."""
    asked: list[tuple[int, ...]] = []

    def hear(module: Any, args: Any, kwargs: dict[str, torch.Tensor]) -> None:
        ids = kwargs["input_ids"]
        mask = kwargs.get("attention_mask", torch.ones_like(ids)).bool()
        asked.extend(tuple(row[real].tolist()) for row, real in zip(ids, mask, strict=True))

    handle = model.register_forward_pre_hook(hear, with_kwargs=True)
    try:
        yield asked
    finally:
        handle.remove()
