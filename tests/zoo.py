"""Tiny random-weight models of every architecture for tests: text, attentive, ViT; and their encoded inputs."""

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf

from whence.models.rnn import AttentiveConfig, AttentiveForSequenceClassification

_WIDTH = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
_TEXT = {**_WIDTH, "vocab_size": 64, "max_position_embeddings": 48, "num_labels": 3}
_BERT = {**_TEXT, "pad_token_id": 0}
_ROBERTA = {**_TEXT, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
_DECODER = {**_BERT, "num_key_value_heads": 2, "bos_token_id": 2, "eos_token_id": 3}
_TWO_STREAMS = {"vocab_size": 64, "num_labels": 3, "d_model": 32}


def _distilbert() -> Any:
    config = hf.DistilBertConfig(
        vocab_size=64,
        dim=32,
        hidden_dim=48,
        n_layers=3,
        n_heads=4,
        max_position_embeddings=48,
        num_labels=3,
    )
    return hf.DistilBertForSequenceClassification(config)


def _modernbert() -> Any:
    config = hf.ModernBertConfig(
        **_BERT, global_attn_every_n_layers=2, local_attention=6,
        bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
    )  # fmt: skip
    return hf.ModernBertForSequenceClassification(config)


def _deberta() -> Any:
    config = hf.DebertaV2Config(
        **_BERT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8
    )
    return hf.DebertaV2ForSequenceClassification(config)


def _gpt2() -> Any:
    config = hf.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=3, n_head=4, n_positions=48, num_labels=3,
        pad_token_id=0, bos_token_id=2, eos_token_id=3,
    )  # fmt: skip
    return hf.GPT2ForSequenceClassification(config)


def _bart() -> Any:
    config = hf.BartConfig(
        **_TWO_STREAMS, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=48,
        pad_token_id=0, bos_token_id=2, eos_token_id=3, decoder_start_token_id=3,
    )  # fmt: skip
    return hf.BartForSequenceClassification(config)


def _t5() -> Any:
    config = hf.T5Config(
        **_TWO_STREAMS, d_kv=8, d_ff=48, num_layers=2, num_heads=4,
        pad_token_id=0, eos_token_id=3, decoder_start_token_id=0,
    )  # fmt: skip
    return hf.T5ForSequenceClassification(config)


def _attentive(encoder: str) -> Callable[[], Any]:
    config = AttentiveConfig(
        vocab_size=64, embedding_size=12, hidden_size=16, num_labels=3, encoder=encoder
    )
    return lambda: AttentiveForSequenceClassification(config)


_MAKERS: dict[str, Callable[[], Any]] = {
    "bert": lambda: hf.BertForSequenceClassification(hf.BertConfig(**_BERT)),
    "roberta": lambda: hf.RobertaForSequenceClassification(hf.RobertaConfig(**_ROBERTA)),
    "xlm-roberta": lambda: hf.XLMRobertaForSequenceClassification(hf.XLMRobertaConfig(**_ROBERTA)),
    "camembert": lambda: hf.CamembertForSequenceClassification(hf.CamembertConfig(**_ROBERTA)),
    "distilbert": _distilbert,
    "electra": lambda: hf.ElectraForSequenceClassification(
        hf.ElectraConfig(**_BERT, embedding_size=16)
    ),
    "albert": lambda: hf.AlbertForSequenceClassification(
        hf.AlbertConfig(**_BERT, embedding_size=16)
    ),
    "modernbert": _modernbert,
    "deberta-v2": _deberta,
    "mpnet": lambda: hf.MPNetForSequenceClassification(hf.MPNetConfig(**_ROBERTA)),
    "gpt2": _gpt2,
    "llama": lambda: hf.LlamaForSequenceClassification(hf.LlamaConfig(**_DECODER)),
    "qwen3": lambda: hf.Qwen3ForSequenceClassification(hf.Qwen3Config(**_DECODER, head_dim=8)),
    "gemma3": lambda: hf.Gemma3TextForSequenceClassification(
        hf.Gemma3TextConfig(**_DECODER, head_dim=8, sliding_window=4)
    ),
    "bart": _bart,
    "t5": _t5,
}

# The models of Jain & Wallace: one row of attention that pools the tokens, no stack of layers.
_POOLING = {name: _attentive(name) for name in ("bilstm", "cnn", "average")}

ARCHITECTURES = tuple(_MAKERS)
POOLING = tuple(_POOLING)
PIXELS = (3, 16, 16)  # of the ViT's pictures: 16 patches, and the class token
TWO_STREAMS = frozenset({"bart", "t5"})  # an encoder and a decoder: no single attention row
CAUSAL = frozenset({"gpt2", "llama", "qwen3", "gemma3"})


def make(name: str, *, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """Build a model with random weights, large enough that nothing is nearly linear."""
    return seeded({**_MAKERS, **_POOLING}[name], seed).to(dtype).eval()


def make_vit(*, dtype: torch.dtype = torch.float64, seed: int = 0) -> Any:
    """Build a picture classifier; it takes no text, so it is not among the architectures above."""
    config = hf.ViTConfig(**_WIDTH, image_size=PIXELS[1], patch_size=4, num_labels=3)
    return seeded(lambda: hf.ViTForImageClassification(config), seed).to(dtype).eval()


def seeded(maker: Callable[[], Any], seed: int = 0) -> Any:
    """Make a model and draw its matrices anew, the same ones every time."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = maker()
        for weight in model.parameters():
            if weight.dim() > 1:
                torch.nn.init.normal_(weight, std=0.25)
    return model


def rows(
    name: str, lengths: tuple[int, ...] = (9, 5, 7), seed: int = 0
) -> list[dict[str, list[int]]]:
    """Return encoded inputs of several lengths; each ends with the end-of-sequence token."""
    generator = torch.Generator().manual_seed(seed)
    end = 2 if name in {"roberta", "xlm-roberta", "camembert", "mpnet"} else 3
    return [
        {"input_ids": [*torch.randint(4, 64, (n - 1,), generator=generator).tolist(), end]}
        for n in lengths
    ]
