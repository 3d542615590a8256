"""Tiny language models (GPT-2, Llama, Qwen3, Gemma 3, Mistral, T5, BART) with random weights in float64."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from tests.zoo import seeded

_WIDTH = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 64,
    "max_position_embeddings": 48,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}


def _gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=64,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=48,
        pad_token_id=0,
        bos_token_id=2,
        eos_token_id=3,
    )
    return hf.GPT2LMHeadModel(config)


def _t5() -> Any:
    config = hf.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0,
    )  # fmt: skip
    return hf.T5ForConditionalGeneration(config)


def _bart() -> Any:
    config = hf.BartConfig(
        vocab_size=64, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=48,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3, forced_eos_token_id=None,
    )  # fmt: skip
    return hf.BartForConditionalGeneration(config)


_MAKERS: dict[str, Callable[[], Any]] = {
    "gpt2": _gpt2,
    "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**_WIDTH)),
    "qwen3": lambda: hf.Qwen3ForCausalLM(hf.Qwen3Config(**_WIDTH, head_dim=8)),
    "gemma3": lambda: hf.Gemma3ForCausalLM(
        hf.Gemma3TextConfig(**_WIDTH, head_dim=8, sliding_window=4)
    ),
    "mistral": lambda: hf.MistralForCausalLM(hf.MistralConfig(**_WIDTH, sliding_window=None)),
    "t5": _t5,
    "bart": _bart,
}
CAUSAL = ("gpt2", "llama", "qwen3", "gemma3", "mistral")
SEQUENCE = ("t5", "bart")
ROWS = ([5, 9, 14, 33, 7, 21], [40, 6, 11])  # prompts, as numbers


def make(name: str) -> Any:
    """Build a language model."""
    return seeded(_MAKERS[name]).to(torch.float64).eval()
