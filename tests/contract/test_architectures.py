"""Architecture matrix: traced logits, maps and gradients equal the model's own; docs table; encoder-decoders."""

from functools import cache

import architecture_table
import build_docs
import pytest
import torch

import whence
from tests import image_models, zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import NotCapturable

# Llama, Qwen3, Gemma 3 and T5 compute their norms in float32 whatever the model's dtype: half of its digits.
ROUGH = {"llama", "qwen3", "gemma3", "t5"}
ONE_STREAM = [name for name in zoo.ARCHITECTURES if name not in zoo.TWO_STREAMS]
ROUTED = [
    name for name in ONE_STREAM if name not in {"deberta-v2", "mpnet"}
]  # use the attention interface


everywhere = pytest.mark.parametrize("name", zoo.ARCHITECTURES)


@cache
def build_model(name):
    return zoo.make(name)


@pytest.fixture
def model(name):
    return build_model(name)


def own_logits(model, row):
    with torch.no_grad():
        return model(input_ids=torch.tensor([row["input_ids"]])).logits[0]


@everywhere
def test_trace_logits_equal_the_models_own_and_the_model_is_unchanged(name, model):
    before = snapshot(model)
    trace = whence.load(model).trace(zoo.rows(name))
    wanted = torch.stack([own_logits(model, row) for row in zoo.rows(name)])
    # Padded against unpadded: other shapes, other order of summation.
    torch.testing.assert_close(trace.logits, wanted, rtol=0, atol=1e-6 if name in ROUGH else 1e-12)
    assert_unchanged(before, snapshot(model))


@everywhere
def test_trace_has_attention_of_every_layer_with_rows_that_sum_to_one(name, model):
    trace = whence.load(model).trace(zoo.rows(name))
    # Encoder, decoder and cross attention, two layers each; or three layers of one stack.
    assert len(trace.attention) == (6 if name in zoo.TWO_STREAMS else 3)
    real = trace.real
    for layer in trace.attention:
        rows = layer.map().sum(-1).transpose(1, 2)[real]
        torch.testing.assert_close(rows, torch.ones_like(rows), rtol=0, atol=1e-6)


@everywhere
def test_trace_attention_maps_equal_those_of_transformers(name, model):
    ids = torch.tensor([zoo.rows(name)[0]["input_ids"]])
    trace = whence.load(model).trace({"input_ids": ids})
    # DeBERTa and MPNet are eager already and cannot be switched; the others must be told.
    if model.config._attn_implementation != "eager":
        model = zoo.make(name)
        model.set_attn_implementation("eager")
    with torch.no_grad():
        out = model(input_ids=ids, output_attentions=True)
    if name in zoo.TWO_STREAMS:
        pairs = zip(out.decoder_attentions, out.cross_attentions, strict=True)
        wanted = [*out.encoder_attentions, *(one for pair in pairs for one in pair)]
    else:
        wanted = list(out.attentions)
    for layer, one in zip(trace.attention, wanted, strict=True):
        # Several eager implementations take the softmax in float32 even in a float64 model.
        torch.testing.assert_close(layer.map(), one.double(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ROUTED)
def test_trace_map_gradients_equal_central_differences_of_the_logit(name, model):
    """Nudge one attention weight by hand and see the target move as its gradient says."""
    from transformers.masking_utils import AttentionMaskInterface, eager_mask
    from transformers.modeling_utils import AttentionInterface

    ids = torch.tensor([zoo.rows(name)[0]["input_ids"]])
    trace = whence.load(model).trace({"input_ids": ids}, target=1)
    nudged, calls = (1, 2, 6, 3), []  # layer, head, query, key
    size = 1e-2 if name in ROUGH else 1e-3  # a logit of a ROUGH model is known to about 3e-7 only

    def attend(module, query, key, value, mask, scaling=None, **_):
        scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        scores = query @ key.transpose(-1, -2) * scaling + (0 if mask is None else mask)
        weights = scores.softmax(-1)
        if len(calls) == nudged[0]:
            weights = weights.clone()
            weights[0, nudged[1], nudged[2], nudged[3]] += size * attend.sign
        calls.append(1)
        return (weights @ value).transpose(1, 2).contiguous(), None

    AttentionInterface.register("nudge", attend)
    AttentionMaskInterface.register("nudge", eager_mask)
    other = zoo.make(name)
    other.set_attn_implementation("nudge")
    values = []
    for attend.sign in (1, -1):
        calls.clear()
        values.append(own_logits(other, {"input_ids": ids[0].tolist()})[1].item())
    slope = (values[0] - values[1]) / (2 * size)
    wanted = trace.layer(nudged[0]).map_grad()[0][nudged[1:]].item()
    # A central difference is off by size² times the third derivative, plus the logits' error over size.
    assert slope == pytest.approx(wanted, rel=5e-3, abs=1e-4 if name in ROUGH else 1e-6)


@pytest.mark.parametrize("name", ONE_STREAM)
def test_trace_read_row_is_the_last_token_of_causal_models_and_otherwise_the_first(name, model):
    trace = whence.load(model).trace(zoo.rows(name))
    wanted = [len(row["input_ids"]) - 1 if name in zoo.CAUSAL else 0 for row in zoo.rows(name)]
    assert trace.rows.argmax(1).tolist() == wanted
    assert trace.rows.max(1).values.tolist() == [1.0] * len(wanted)


def test_architecture_table_of_the_docs_is_up_to_date_for_every_method():
    """The table is computed here: what neither works nor refuses for a stated reason raises."""
    page = (build_docs.DOCS / "reference" / "architectures.md").read_text(encoding="utf-8")
    table = architecture_table.render_table()
    assert build_docs.replace_table(page, "architectures", table) == page, (
        "out of date: run `make docs`"
    )
    assert set(architecture_table.TITLES) == {
        *zoo.ARCHITECTURES,
        *zoo.POOLING,
        *image_models.PICTURES,
    }


@pytest.mark.parametrize("name", sorted(zoo.TWO_STREAMS))
def test_rollout_on_an_encoder_decoder_raises_and_suggests_leave_one_out(name, model):
    with pytest.raises(
        NotCapturable, match="Use leave_one_out, which works wherever the model runs"
    ):
        whence.load(model).explain(zoo.rows(name), method="rollout")


@pytest.mark.parametrize("name", sorted(zoo.TWO_STREAMS))
def test_grad_x_input_of_an_encoder_decoder_counts_both_copies_of_a_token(name, model):
    """A BART or T5 classifier reads each token twice; the gradient must be that of the token, not of one copy."""
    row = zoo.rows(name)[0]
    found = whence.load(model).explain(row, method="grad_x_input", target=1)
    ids = torch.tensor([row["input_ids"]])
    place = 2
    size = 1e-2 if name in ROUGH else 1e-4  # a logit of a ROUGH model is known to about 3e-7 only
    values = []
    for sign in (1, -1):
        other = zoo.make(name)
        weight = other.get_input_embeddings().weight
        with torch.no_grad():
            weight[ids[0, place]] *= 1 + sign * size
        values.append(own_logits(other, row)[1].item())
    assert ids[0].tolist().count(ids[0, place]) == 1
    slope = (values[0] - values[1]) / (2 * size)
    assert found.scores[place] == pytest.approx(
        slope, rel=5e-3, abs=1e-4 if name in ROUGH else 1e-6
    )
