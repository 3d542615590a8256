"""Tiny models of every text class of transformers, each built from the class's own configuration."""

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

# What transformers' Auto classes choose from, by the end of their names.
HEADS = {
    "SequenceClassification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
    "CausalLM": "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MaskedLM": "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "Seq2SeqLM": "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "TokenClassification": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
    "QuestionAnswering": "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
}
LARGEST = 4_000_000  # weights: what is larger is not tiny, whatever was asked for

# Sizes by the names that configurations have for them; a name that a configuration lacks is not given to it.
_NAMES = {
    64: "vocab_size n_vocab src_vocab_size tgt_vocab_size text_vocab_size decoder_vocab_size pad_vocab_size "
    "expert_capacity max_position_embeddings n_positions max_seq_len n_ctx max_sequence_length "
    "max_source_positions max_target_positions seq_length",
    48: "intermediate_size d_ff d_inner ffn_dim n_inner inner_dim encoder_ffn_dim decoder_ffn_dim ffn_hidden_size "
    "moe_intermediate_size shared_expert_intermediate_size dense_intermediate_size feed_forward_size",
    32: "hidden_size d_model n_embd dim emb_dim model_dim n_embed embedding_size embed_dim rotary_dim hidden_dim "
    "d_embed",
    16: "sliding_window chunk_size attention_window_size local_attention window_size mamba_d_head mamba_head_dim",
    8: "head_dim linear_head_dim linear_key_head_dim linear_value_head_dim d_kv attention_head_size v_head_dim "
    "qk_nope_head_dim qk_rope_head_dim kv_channels rope_head_dim global_head_dim kv_lora_rank q_lora_rank "
    "o_lora_rank entity_vocab_size entity_emb_size mamba_d_state state_size",
    4: "num_attention_heads linear_num_heads linear_num_key_heads linear_num_value_heads n_head n_heads "
    "num_heads attention_heads encoder_attention_heads decoder_attention_heads num_decoder_attention_heads "
    "num_encoder_attention_heads num_experts num_local_experts n_routed_experts moe_num_experts mamba_n_heads "
    "mamba_num_heads mask_token_id mask_index",
    3: "num_labels eos_token_id sep_token_id sep_index eos_index",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers num_blocks num_key_value_heads num_kv_heads num_experts_per_tok num_experts_per_token "
    "moe_k moe_topk top_k_experts type_vocab_size expert_layer_period attn_layer_period bos_token_id "
    "decoder_start_token_id cls_token_id bos_index",
    1: "n_group topk_group n_shared_experts first_k_dense_replace num_hidden_groups n_langs unk_token_id "
    "unk_index",
    0: "pad_token_id pad_index lang_id",
}  # fmt: skip
_SIZES = {name: size for size, names in _NAMES.items() for name in names.split()}
_SIZES["use_mamba_kernels"] = False
_ALWAYS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "num_labels")
# Where a configuration has None for one of these, that is a choice: there is no such part, or it follows from others.
_OPTIONAL = (
    "num_key_value_heads", "q_lora_rank", "o_lora_rank", "sliding_window", "n_inner", "kv_channels", "n_group",
    "topk_group", "global_head_dim",
)  # fmt: skip
# What some need beside, because their sizes hang together.
_BESIDE: dict[str, dict[str, Any]] = {
    "big_bird": {"attention_type": "original_full", "block_size": 4},
    "bigbird_pegasus": {"attention_type": "original_full", "block_size": 4},
    "canine": {"num_hash_functions": 4, "num_hash_buckets": 64, "local_transformer_stride": 8},
    "codegen": {"rotary_dim": 4},
    "convbert": {"head_ratio": 2},
    "ctrl": {"dff": 48},
    "esm": {"token_dropout": False},
    "esmc": {"num_key_value_heads": 4},
    "funnel": {"block_sizes": [1, 1], "d_head": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "gptj": {"rotary_dim": 4},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_offset": 1, "expert_layer_offset": 1},
    "led": {"attention_window": 4},
    "lilt": {"hidden_size": 48},
    "longformer": {"attention_window": 4},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 1},
    "mobilebert": {"intra_bottleneck_size": 16, "true_hidden_size": 16},
    "nemotron": {"num_key_value_heads": 2},
    "nemotron_h": {"n_groups": 1},
    "nystromformer": {"segment_means_seq_len": 8, "num_landmarks": 8},
    "perceiver": {"d_latents": 32, "num_latents": 8, "num_self_attends_per_block": 1},
    "pegasus_x": {"block_size": 8, "num_global_tokens": 4},
    "persimmon": {"partial_rotary_factor": 0.5},
    "reformer": {
        "attn_layers": ["local", "lsh"], "axial_pos_shape": [4, 16], "axial_pos_embds_dim": [16, 16],
        "feed_forward_size": 48, "local_attn_chunk_length": 8, "lsh_attn_chunk_length": 8, "num_buckets": 4,
        "is_decoder": True,
    },
    "roc_bert": {
        "shape_vocab_size": 64, "pronunciation_vocab_size": 64, "shape_embed_dim": 8, "pronunciation_embed_dim": 8,
    },
    "xlnet": {"d_head": 8, "d_inner": 48},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "yoso": {"use_expectation": True},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip

_WORDS = (
    "a film was good bad very not and but the of in it is made by they plot acting thin slow bright great dull we "
    "saw this one you them last year"
)
TEXTS = ("the film was very good", "it was not bad and not slow", "we saw a bright plot")


@cache
def tokenizer() -> Any:
    """Return a tokenizer of whole words, of 64 ids with its special ones."""
    known = ["<pad>", "<unk>", "<s>", "</s>", "<mask>", *_WORDS.split()]
    known += [f"w{i}" for i in range(64 - len(known))]
    core = Tokenizer(models.WordLevel({word: i for i, word in enumerate(known)}, unk_token="<unk>"))
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
    names = set(inspect.signature(cls.__init__).parameters) | set(cls.attribute_map)
    names |= set(getattr(cls, "__dataclass_fields__", {}))
    default = cls()
    absent = {name for name in _OPTIONAL if getattr(default, name, 0) is None}
    wanted: dict[str, Any] = {n: v for n, v in _SIZES.items() if n in names and n not in absent}
    # Ids and labels every configuration takes, named or not.
    wanted |= {name: _SIZES[name] for name in _ALWAYS}
    if "qk_rope_head_dim" in names and "num_key_value_heads" in wanted:
        wanted["num_key_value_heads"] = 4  # latent attention has no groups
    for name in ("layer_types", "mlp_layer_types", "layers_block_type"):
        own = getattr(default, name, None)
        fixed = isinstance(getattr(cls, name, None), property)
        if isinstance(own, list | tuple) and own and name in names and not fixed:
            every = list(dict.fromkeys(own))
            wanted["num_hidden_layers"] = max(2, len(every))
            wanted[name] = (every * 2)[: wanted["num_hidden_layers"]]
    for name in cls.sub_configs:
        own = getattr(default, name, None)
        if own is not None and any(part in name for part in ("text", "encoder", "decoder")):
            wanted[name] = _small(type(own), own.model_type).to_dict()
    return cls(**{**wanted, **_BESIDE.get(kind, {})})


def make(kind: str, name: str, dtype: torch.dtype = torch.float64) -> Any:
    """Build a tiny model of a class, or raise ValueError where it cannot be tiny."""
    cls, config = getattr(hf, name), config_of(kind)
    if hasattr(config, "is_decoder") or name.endswith("ForMaskedLM"):
        config.is_decoder = name.endswith(("ForCausalLM", "LMHeadModel", "WithLMHead", "Decoder"))
    if "QuestionAnswering" in name:
        config.num_labels = 2
    with torch.device("meta"):
        weights = sum(one.numel() for one in cls(config).parameters())
    if weights > LARGEST:
        raise ValueError(f"it has {weights:,} weights at its smallest here")
    return seeded(lambda: cls(config)).to(dtype).eval()
