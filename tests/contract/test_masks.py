"""Masks of attention routed through whence: results equal the model's own for each mask kind and padding side."""

from functools import cache

import pytest
import torch
import transformers as hf
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

from tests import zoo
from tests.unit.test_masks import Largest
from tests.unit.test_sdpa import in_small_blocks
from whence.tracing.attention_interface import route_attention
from whence.tracing.masks import LazyMask

_DECODER = zoo._DECODER
_MORE = {
    "mistral": lambda: hf.MistralForSequenceClassification(
        hf.MistralConfig(**_DECODER, sliding_window=4)
    ),
    "gemma2": lambda: hf.Gemma2ForSequenceClassification(
        hf.Gemma2Config(**_DECODER, head_dim=8, sliding_window=4)
    ),
    "gpt-oss": lambda: hf.GptOssForSequenceClassification(
        hf.GptOssConfig(
            **_DECODER, head_dim=8, sliding_window=4, num_local_experts=2, num_experts_per_tok=1,
            experts_implementation="eager",
        )
    ),
    "opt": lambda: hf.OPTForSequenceClassification(
        hf.OPTConfig(
            vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=48, word_embed_proj_dim=32, pad_token_id=0,
        )
    ),
    "llama 4": lambda: hf.Llama4ForCausalLM(
        hf.Llama4TextConfig(
            **_DECODER, head_dim=8, attention_chunk_size=5, intermediate_size_mlp=48, num_local_experts=2
        )
    ),
}  # fmt: skip
NAMES = [
    "bert", "roberta", "modernbert", "distilbert", "albert", "gpt2", "llama", "qwen3", "gemma3", "bart", "t5", *_MORE,
]  # fmt: skip
WINDOWS = {"modernbert", "gemma3", "mistral", "gemma2", "gpt-oss"}
LENGTHS = (19, 6, 13)  # longer than any window


@cache
def build_model(name):
    return zoo.seeded(_MORE[name]).double().eval() if name in _MORE else zoo.make(name)


def build_padded_inputs(name, side, lengths=LENGTHS):
    """Return inputs of several lengths, filled up on one side."""
    rows = [row["input_ids"] for row in zoo.rows(name, lengths)]
    width, pad = max(lengths), 1 if name == "roberta" else 0
    fill = [[pad] * (width - len(row)) for row in rows]
    ids = [
        row + more if side == "right" else more + row for row, more in zip(rows, fill, strict=True)
    ]
    real = [
        [1] * len(row) + [0] * len(more) if side == "right" else [0] * len(more) + [1] * len(row)
        for row, more in zip(rows, fill, strict=True)
    ]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(real)}


def run_routed(model, inputs):
    calls = []
    with torch.no_grad(), route_attention(model, calls.append):
        out = model(**inputs, output_hidden_states=True, use_cache=False)
    return out, calls


def attend_written_out(
    module,
    query,
    key,
    value,
    mask,
    scaling=None,
    softcap=None,
    s_aux=None,
    position_bias=None,
    is_causal=None,
    **_,
):
    """Attend as it is written, map and all; eager attention of transformers rounds to float32 in most models."""
    groups, queries = query.shape[1] // key.shape[1], query.shape[2]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = (
        query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    )
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if position_bias is not None:
        scores = scores + position_bias
    if mask is None:
        causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
        mask = torch.ones(queries, key.shape[2], dtype=torch.bool)
        mask = mask.tril() if causal and queries > 1 else mask
    powers = scores.exp() * mask
    rest = 0 if s_aux is None else s_aux[:, None, None].exp()
    weights = powers / (powers.sum(-1, keepdim=True) + rest).clamp(min=1e-300)
    return (weights @ value).transpose(1, 2).contiguous(), None


def run_with_dense_masks(name, inputs):
    """Run the model with masks that transformers writes; return what it says, and the masks of its calls."""
    masks = []

    def attend(module, query, key, value, mask, *args, **kwargs):
        masks.append(mask)
        return attend_written_out(module, query, key, value, mask, *args, **kwargs)

    model = build_model(name)
    AttentionInterface.register("paper", attend)
    AttentionMaskInterface.register("paper", sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("paper")
    try:
        with torch.no_grad():
            return model(**inputs, output_hidden_states=True, use_cache=False), masks
    finally:
        model.set_attn_implementation(before)


def states(out):
    return out.encoder_hidden_states if "encoder_hidden_states" in out else out.hidden_states


# These compute their norms in float32 whatever their dtype: half of its digits.
ROUGH = {
    "llama",
    "qwen3",
    "gemma3",
    "t5",
    "mistral",
    "gemma2",
    "gpt-oss",
    "llama 4",
}


@pytest.mark.parametrize("lengths", [LENGTHS, (19,)], ids=["padded", "alone"])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_routed_attention_equals_the_model_with_dense_masks_on_either_padding_side(
    name, blocks, side, lengths, monkeypatch
):
    if blocks:
        in_small_blocks(monkeypatch)
    inputs = build_padded_inputs(name, side, lengths)
    real = inputs["attention_mask"].bool()
    out, calls = run_routed(build_model(name), inputs)
    wanted, _ = run_with_dense_masks(name, inputs)
    assert calls
    if out.logits.dim() == 2:  # and not of every token, of which padding has its own
        torch.testing.assert_close(
            out.logits, wanted.logits, rtol=1e-5 if name in ROUGH else 1e-12, atol=1e-13
        )
    for one, other in zip(states(out), states(wanted), strict=True):
        size = other[real].abs().max()
        gap = (one[real] - other[real]).abs().max() / size
        assert gap <= (1e-5 if name in ROUGH else 1e-12)
    for layer in calls:
        assert layer.visible.dense is None, "a mask was written"
        assert layer.out.isfinite().all()


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", NAMES)
def test_each_routed_layer_equals_written_out_attention_with_a_dense_mask(name, side):
    """To the last digits, also in models that round elsewhere: of the queries, keys and values that they made."""
    inputs = build_padded_inputs(name, side)
    _, calls = run_routed(build_model(name), inputs)
    _, masks = run_with_dense_masks(name, inputs)
    for layer, mask in zip(calls, masks, strict=True):
        visible, keys = layer.visible, layer.k.shape[2]
        shape = (len(layer.q), 1, layer.length, keys)
        seen = visible.build_mask(torch.arange(layer.length), keys)
        seen = torch.ones(shape, dtype=torch.bool) if seen is None else seen.expand(shape)
        if mask is not None:
            assert torch.equal(seen, mask)
        wanted, _ = attend_written_out(
            None,
            layer.q,
            layer.k,
            layer.v,
            seen,
            layer.scale,
            layer.softcap,
            layer.sink,
            layer.bias,
        )
        read = seen.any(-1)[:, 0]
        if visible.is_causal and visible.keys is not None:
            read = read & visible.keys
        gap = (layer.out.transpose(1, 2) - wanted).abs().amax((2, 3))
        assert gap[read].max() <= 1e-12 * layer.v.abs().max()


@pytest.mark.parametrize("name", sorted({*NAMES} - {"bart", "t5"}))
def test_routed_padded_batch_equals_its_inputs_one_by_one(name):
    inputs = build_padded_inputs(name, "right")
    together, _ = run_routed(build_model(name), inputs)
    for place, length in enumerate(LENGTHS):
        one = {key: value[place : place + 1, :length] for key, value in inputs.items()}
        alone, _ = run_routed(build_model(name), one)
        for many, few in zip(states(together), states(alone), strict=True):
            torch.testing.assert_close(
                many[place, :length],
                few[0],
                rtol=0,
                atol=float(few.abs().max()) * (1e-5 if name in ROUGH else 1e-12),
            )


def test_routed_sliding_windows_have_left_and_right_band_widths():
    for name in sorted(WINDOWS):
        _, calls = run_routed(build_model(name), build_padded_inputs(name, "right"))
        bands = {(layer.visible.left, layer.visible.right) for layer in calls}
        wide = (None, None) if name == "modernbert" else (None, 0)
        local = (3, 3) if name == "modernbert" else (3, 0)
        assert local in bands and bands <= {local, wide}
        assert all(layer.visible.is_banded for layer in calls)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", ["bert", "llama", "mistral", "modernbert"])
def test_routed_attention_at_4096_tokens_makes_no_tensor_of_queries_times_keys(name, side):
    long = {"max_position_embeddings": 4096, "num_hidden_layers": 1}
    configs = {
        "bert": lambda: hf.BertModel(hf.BertConfig(**{**zoo._BERT, **long})),
        "llama": lambda: hf.LlamaModel(hf.LlamaConfig(**{**_DECODER, **long})),
        "mistral": lambda: hf.MistralModel(
            hf.MistralConfig(**{**_DECODER, **long}, sliding_window=100)
        ),
        "modernbert": lambda: hf.ModernBertModel(
            hf.ModernBertConfig(
                **{**zoo._BERT, **long, "num_hidden_layers": 2}, local_attention=100,
                global_attn_every_n_layers=2, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
            )
        ),
    }  # fmt: skip
    model = configs[name]().eval()
    inputs = build_padded_inputs(name, side, (4096, 3000))
    with route_attention(model, None), Largest() as largest:
        model(**inputs, use_cache=False).last_hidden_state.sum().backward()
    # One map of one head has 4096² answers. Of the tensors that are made, activations have 2 x 4096 x 48 numbers and
    # a block of a mask a million at most.
    assert largest.elements <= 4096 * 4096 / 8


def test_route_attention_of_one_model_gives_another_model_no_lazy_mask():
    first, second = build_model("mistral"), zoo.seeded(_MORE["mistral"], 1).double().eval()
    inputs, seen = build_padded_inputs("mistral", "left"), []

    def look(module, args, kwargs):
        seen.append(kwargs["attention_mask"])

    handle = second.model.layers[0].self_attn.register_forward_pre_hook(look, with_kwargs=True)
    with torch.no_grad():
        wanted = second(**inputs).logits
        with route_attention(first, None):
            first(**inputs)
            found = second(**inputs).logits
    handle.remove()
    assert torch.equal(found, wanted)
    assert len(seen) == 2 and not any(isinstance(one, LazyMask) for one in seen)
