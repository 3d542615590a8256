"""Every class of transformers that reads texts, tiny: made on the spot from its own configuration, with random weights."""

import inspect
from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
import transformers as hf
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from tests.zoo import seeded

# What transformers' Auto classes choose from, by the task that whence has for it.
HEADS = {
    "SequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "TokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "QuestionAnswering": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
}
VOCABULARY, LENGTH = 64, 64
LARGEST = 4_000_000  # weights: what is larger is not tiny, whatever was asked for

# Sizes by the names that configurations have for them; a name that a configuration lacks is not given to it.
_SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "n_vocab", "src_vocab_size", "tgt_vocab_size"), VOCABULARY),
    **dict.fromkeys(("text_vocab_size", "decoder_vocab_size", "pad_vocab_size"), VOCABULARY),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim", "emb_dim", "model_dim", "n_embed"), 32),
    **dict.fromkeys(("embedding_size", "embed_dim", "rotary_dim", "hidden_dim", "d_embed"), 32),
    **dict.fromkeys(("intermediate_size", "d_ff", "d_inner", "ffn_dim", "n_inner", "inner_dim"), 48),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim", "ffn_hidden_size", "moe_intermediate_size"), 48),
    **dict.fromkeys(("shared_expert_intermediate_size", "dense_intermediate_size", "feed_forward_size"), 48),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers"), 2),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers", "num_encoder_layers", "num_blocks"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads", "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_encoder_attention_heads",), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("head_dim", "d_kv", "attention_head_size", "v_head_dim", "qk_nope_head_dim"), 8),
    **dict.fromkeys(("qk_rope_head_dim", "kv_channels", "rope_head_dim", "global_head_dim"), 8),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank", "o_lora_rank"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx", "max_sequence_length"), LENGTH),
    **dict.fromkeys(("max_source_positions", "max_target_positions", "seq_length"), LENGTH),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "num_experts_per_token", "moe_k", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(("sliding_window", "attention_window_size", "local_attention", "window_size"), 16),
    "expert_capacity": 64, "entity_vocab_size": 8, "entity_emb_size": 8, "type_vocab_size": 2, "num_labels": 3,
    "num_hidden_groups": 1, "expert_layer_period": 2, "attn_layer_period": 2, "mamba_d_state": 8,
    "mamba_n_heads": 4, "mamba_num_heads": 4, "mamba_d_head": 16, "mamba_head_dim": 16, "state_size": 8,
    "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2, "sep_token_id": 3,
    "cls_token_id": 2, "unk_token_id": 1, "mask_token_id": 4, "sep_index": 3, "pad_index": 0, "bos_index": 2,
    "eos_index": 3, "unk_index": 1, "mask_index": 4, "lang_id": 0, "n_langs": 1, "forced_eos_token_id": None,
    "forced_bos_token_id": None, "use_mamba_kernels": False,
}  # fmt: skip
_ALWAYS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "num_labels")
# Where a configuration has None for one of these, that is a choice: there is no such part, or it follows from others.
_OPTIONAL = (
    "num_key_value_heads", "q_lora_rank", "o_lora_rank", "sliding_window", "n_inner", "kv_channels", "n_group",
    "topk_group", "global_head_dim",
)  # fmt: skip
# What some need beside, because their sizes hang together.
_BESIDE: dict[str, dict[str, Any]] = {
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8}, "zaya": {"num_experts_per_tok": 1},
    "lilt": {"hidden_size": 48}, "nemotron": {"num_key_value_heads": 2}, "esmc": {"num_key_value_heads": 4},
    "jamba": {"attn_layer_offset": 1, "expert_layer_offset": 1}, "mamba2": {"num_heads": 4, "head_dim": 16},
    "roc_bert": {"shape_vocab_size": 64, "pronunciation_vocab_size": 64, "shape_embed_dim": 8, "pronunciation_embed_dim": 8},
    "big_bird": {"attention_type": "original_full", "block_size": 4},
    "bigbird_pegasus": {"attention_type": "original_full", "block_size": 4},
    "reformer": {
        "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 16], "axial_pos_embds_dim": [16, 16], "feed_forward_size": 48,
        "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "num_buckets": 4, "is_decoder": True,
    },
    "longformer": {"attention_window": 4}, "led": {"attention_window": 4}, "funnel": {"block_sizes": [1, 1], "d_head": 8},
    "xlnet": {"d_head": 8, "d_inner": 48}, "transfo-xl": {"d_head": 8}, "convbert": {"head_ratio": 2},
    "mobilebert": {"intra_bottleneck_size": 16, "true_hidden_size": 16}, "squeezebert": {"embedding_size": 32},
    "mpt": {"max_seq_len": LENGTH}, "ctrl": {"dff": 48}, "gptj": {"rotary_dim": 4}, "codegen": {"rotary_dim": 4},
    "esm": {"token_dropout": False}, "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "nystromformer": {"segment_means_seq_len": 8, "num_landmarks": 8}, "yoso": {"use_expectation": True},
    "persimmon": {"partial_rotary_factor": 0.5}, "perceiver": {"d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 1},
    "canine": {"num_hash_functions": 4, "num_hash_buckets": 64, "local_transformer_stride": 8},
}  # fmt: skip

WORDS = [
    "a",
    "film",
    "was",
    "good",
    "bad",
    "very",
    "not",
    "and",
    "but",
    "the",
    "of",
    "in",
    "it",
    "is",
    "made",
    "by",
    "they",
    "plot",
    "acting",
    "thin",
    "slow",
    "bright",
    "great",
    "dull",
    "we",
    "saw",
    "this",
    "one",
    "you",
    "them",
    "last",
    "year",
]
TEXTS = ("the film was very good", "it was not bad and not slow", "we saw a bright plot")


@cache
def tokenizer() -> Any:
    """Return a tokenizer of whole words, of 64 ids with its special ones."""
    special = ["<pad>", "<unk>", "<s>", "</s>", "<mask>"]
    more = [f"w{i}" for i in range(VOCABULARY - len(special) - len(WORDS))]
    core = Tokenizer(
        models.WordLevel({w: i for i, w in enumerate([*special, *WORDS, *more])}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> $B </s>",
        special_tokens=[("<s>", 2), ("</s>", 3)],
    )
    return hf.PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        mask_token="<mask>", model_max_length=48,
    )  # fmt: skip


def classes() -> Iterator[tuple[str, str, str]]:
    """Yield every model type, head, and name of the class that transformers has for the two."""
    for head, mapping in HEADS.items():
        for kind, name in getattr(modeling_auto, mapping).items():
            for one in name if isinstance(name, tuple | list) else (name,):
                yield kind, head, one


def config_of(kind: str) -> Any:
    """Return a small configuration of a model type."""
    return _small(CONFIG_MAPPING[kind], kind)


def _small(cls: Any, kind: str) -> Any:
    names = set(inspect.signature(cls.__init__).parameters)
    names |= set(getattr(cls, "attribute_map", {})) | {
        f for f in getattr(cls, "__dataclass_fields__", {})
    }
    wanted = {name: value for name, value in _SIZES.items() if name in names}
    # Ids and labels every configuration takes, named or not.
    wanted |= {name: _SIZES[name] for name in _ALWAYS}
    default = cls()
    absent = [name for name in _OPTIONAL if getattr(default, name, 0) is None]
    wanted = {name: value for name, value in wanted.items() if name not in absent}
    if (
        "qk_rope_head_dim" in names and "num_key_value_heads" in wanted
    ):  # latent attention has no groups
        wanted["num_key_value_heads"] = 4
    layers = wanted.get("num_hidden_layers", 2)
    for name in ("layer_types", "mlp_layer_types", "layers_block_type"):
        own = getattr(default, name, None)
        plain = not isinstance(getattr(cls, name, None), property)
        if isinstance(own, list | tuple) and own and name in names and plain:
            every = list(dict.fromkeys(own))
            wanted[name] = (every * layers)[: max(layers, len(every))]
            wanted["num_hidden_layers"] = max(layers, len(every))
    for name in getattr(cls, "sub_configs", {}):
        own = getattr(default, name, None)
        if own is not None and any(part in name for part in ("text", "encoder", "decoder")):
            wanted[name] = _small(type(own), own.model_type).to_dict()
    return cls(**{**wanted, **_BESIDE.get(kind, {})})


def make(kind: str, name: str, dtype: torch.dtype = torch.float64) -> Any:
    """Build a tiny model of a class, or raise ValueError where it cannot be tiny."""
    cls, config = getattr(hf, name), config_of(kind)
    if name.endswith(("ForCausalLM", "LMHeadModel")) and hasattr(config, "is_decoder"):
        config.is_decoder = True
    if name.endswith("ForMaskedLM"):
        config.is_decoder = False
    if "QuestionAnswering" in name:
        config.num_labels = 2
    with torch.device("meta"):
        weights = sum(one.numel() for one in cls(config).parameters())
    if weights > LARGEST:
        raise ValueError(f"{weights:,} weights")
    return seeded(lambda: cls(config)).to(dtype).eval()
