"""Random-weight BERT and Llama models for the speed benchmarks, random input ids, and their bare pass.

What a pass costs is a matter of shapes, not of what was learned: nothing is downloaded, and no tokenizer is needed.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

SEED = 8
VOCABULARY = 32000
_RESERVED = 8  # ids that no input is made of: padding, and what may stand for a removed token
MASK = 4


def build_bert(
    layers: int = 12,
    width: int = 768,
    heads: int = 12,
    *,
    longest: int = 512,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Any:
    """Return a classifier of BERT-base's shape; by default 12 layers, 768 wide, 12 heads."""
    from transformers import BertConfig, BertForSequenceClassification

    config = BertConfig(
        vocab_size=30522,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        max_position_embeddings=longest,
        pad_token_id=0,
        num_labels=2,
    )
    return _build_model(lambda: BertForSequenceClassification(config), device, dtype)


def build_llama(
    layers: int = 16,
    width: int = 2048,
    heads: int = 32,
    key_heads: int = 8,
    intermediate: int = 8192,
    *,
    head_width: int | None = None,
    longest: int = 32768,
    generates: bool = False,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Any:
    """Return a decoder of the Llama shape: a classifier that reads the last token, or a language model.

    Both read one row of the last block. A language model is asked one more forward, to find out which tokens it
    expects: a comparison with the bare passes is fair on the classifier.
    """
    from transformers import LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        num_hidden_layers=layers,
        hidden_size=width,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        head_dim=head_width,
        intermediate_size=intermediate,
        max_position_embeddings=longest,
        pad_token_id=0,
        num_labels=2,
    )
    kind = LlamaForCausalLM if generates else LlamaForSequenceClassification
    return _build_model(lambda: kind(config), device, dtype)


def build_inputs(batch: int, tokens: int, vocabulary: int = 30522) -> dict[str, list[list[int]]]:
    """Return inputs of random ids, all of one length, as `explain` takes them."""
    draw = torch.Generator().manual_seed(SEED + tokens)
    ids = torch.randint(_RESERVED, vocabulary, (batch, tokens), generator=draw).tolist()
    return {"input_ids": ids, "attention_mask": [[1] * tokens for _ in range(batch)]}


def build_bare_pass(model: Any, given: dict[str, list[list[int]]]) -> Callable[[], Tensor]:
    """Return the floor: one forward with SDPA, and the gradient of the largest logits at the embeddings."""
    device = next(model.parameters()).device
    ids, mask = (
        torch.tensor(given[name], device=device) for name in ("input_ids", "attention_mask")
    )
    table = model.get_input_embeddings()
    settings: dict[str, Any] = {}
    if not hasattr(model, "bert"):
        settings["use_cache"] = False
    if type(model).__name__.endswith("ForCausalLM"):
        settings["logits_to_keep"] = (
            1  # it is read at its last token: all other logits would be dead weight
        )

    def run() -> Tensor:
        embedded = table(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, attention_mask=mask, **settings).logits
        value = logits.reshape(len(ids), -1).max(-1).values.sum()
        (found,) = torch.autograd.grad(value, embedded)
        return found

    return run


def _build_model(build: Callable[[], Any], device: str, dtype: torch.dtype) -> Any:
    """Build a model where it will run, with the same weights every time, frozen."""
    with torch.random.fork_rng(), torch.device(device):
        torch.manual_seed(SEED)
        before = torch.get_default_dtype()
        torch.set_default_dtype(dtype)
        try:
            model = build()
        finally:
            torch.set_default_dtype(before)
    return model.eval().requires_grad_(False)
