"""Generic attention explainability with materialised maps, as public implementations compute it.

Eager attention gives every layer's map; each is kept with its gradient, and n x n matrices are multiplied from the
first layer to the last. Written to be measured, and to be the same numbers on inputs where both can run.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def build_generic_attention(
    model: Any, inputs: Mapping[str, Tensor], row: int
) -> Callable[[], dict[str, Tensor]]:
    """Return a run from ids to the scores of the token that the prediction reads: row 0 or -1."""
    ids = inputs["input_ids"]
    table = model.get_input_embeddings()

    def run() -> dict[str, Tensor]:
        with use_eager_attention(model):
            embedded = table(ids).detach().requires_grad_()
            output = model(
                inputs_embeds=embedded,
                attention_mask=inputs["attention_mask"],
                output_attentions=True,
                **({} if model.config.model_type == "bert" else {"use_cache": False}),
            )
            for one in output.attentions:
                one.retain_grad()
            output.logits.max(-1).values.sum().backward()
        rolled = torch.eye(ids.shape[1], dtype=embedded.dtype, device=ids.device)
        rolled = rolled.expand(len(ids), -1, -1)
        for one in output.attentions:
            weight = (one.grad * one.detach()).clamp(min=0).mean(1)
            rolled = rolled + weight @ rolled
        return {"generic_attention": rolled[:, row]}

    return run


@contextmanager
def use_eager_attention(model: Any) -> Iterator[None]:
    """Switch a model to eager attention, which materialises its maps."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        yield
    finally:
        model.set_attn_implementation(before)
