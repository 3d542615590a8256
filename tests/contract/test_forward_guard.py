"""Forward guard (traced logits must equal the model's own): rounding, fallbacks, refusals, threads, cost."""

from threading import Thread

import pytest
import torch
import transformers as hf
from torch import nn
from transformers.models.bert import modeling_bert

import whence
from tests import text_model_classes, zoo
from tests.text_model_classes import TEXTS, tokenizer
from whence.core.errors import ModelFailed, NotCapturable
from whence.models.facts import get_facts

_TWO = {
    "vocab_size": 64, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_position_embeddings": 48,
    "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 3,
}  # fmt: skip
# Decoders whose modules do not say that they are causal: by themselves they attend eagerly, and get a mask.
DECODERS = {
    "bigbird_pegasus": lambda: hf.BigBirdPegasusForConditionalGeneration(
        hf.BigBirdPegasusConfig(**_TWO, attention_type="original_full")
    ),
    "pegasus_x": lambda: hf.PegasusXForConditionalGeneration(hf.PegasusXConfig(**_TWO)),
    "nllb_moe": lambda: hf.NllbMoeForConditionalGeneration(
        hf.NllbMoeConfig(**_TWO, num_experts=4, expert_capacity=64)
    ),
}
IDS, ANSWER = [5, 6, 7, 8, 9, 3], [10, 11, 12, 13]
BERT = {"input_ids": zoo.rows("bert")[0]["input_ids"]}


def bert(**more):
    config = hf.BertConfig(**zoo._BERT, **more)
    return zoo.seeded(lambda: hf.BertForSequenceClassification(config)).eval()


def compute_own_logits(model, **inputs):
    with torch.no_grad():
        return model(**{name: torch.tensor([one]) for name, one in inputs.items()}).logits


@pytest.mark.parametrize("name", DECODERS)
def test_trace_logits_of_a_decoder_with_causality_by_mask_equal_plain_logits(name):
    model = zoo.seeded(DECODERS[name]).eval()
    explainer = whence.load(model, tokenizer=tokenizer())
    ids, said = (explainer.tokenizer(text)["input_ids"] for text in (TEXTS[0], TEXTS[2]))
    mark, *said = said[:-1]  # what the tokenizer puts before an answer, which nobody need say
    steps = compute_own_logits(model, input_ids=ids, decoder_input_ids=[3, mark, *said])[
        0, 1:-1
    ].log_softmax(-1)
    wanted = sum(float(step[i]) for step, i in zip(steps, said, strict=True))
    needs = {"watched": ("attention",), "unwatched": ("embedding_grad",), "taped": ("steps",)}
    for how, needed in needs.items():
        found = explainer.trace(TEXTS[0], answer=TEXTS[2], needs=needed).logits[0, 0]
        # float32, and two ways to sum a softmax.
        assert float(found) == pytest.approx(wanted, abs=1e-4), how
    assert explainer.predict(TEXTS[0], answer=TEXTS[2]).logits[0] == pytest.approx(wanted, abs=1e-4)
    assert get_facts(model).is_routable  # it is right there, and need not be left to itself


@pytest.mark.parametrize("name", DECODERS)
def test_plain_pass_in_another_thread_during_explain_gives_the_models_own_logits(name):
    model = zoo.seeded(DECODERS[name]).eval()
    wanted = compute_own_logits(model, input_ids=IDS, decoder_input_ids=[3, *ANSWER])
    seen = []

    def aside(*_):
        def run():
            seen.append(compute_own_logits(model, input_ids=IDS, decoder_input_ids=[3, *ANSWER]))

        if inside:
            return
        inside.append(1)
        thread = Thread(target=run)
        thread.start()
        thread.join()
        inside.clear()

    inside: list[int] = []
    handle = model.get_decoder().layers[1].register_forward_hook(aside)
    whence.load(model).explain({"input_ids": [IDS]}, method=["grad_x_input", "leave_one_out"])
    handle.remove()
    assert len(seen) > 2
    assert all(torch.equal(one, wanted) for one in seen)


class BranchingForSequenceClassification(hf.BertForSequenceClassification):
    """Halves what it says wherever its attention has a name that it does not know, as DeepSeek-V3.2 does worse."""

    def forward(self, input_ids, attention_mask=None, **named):
        out = super().forward(input_ids, attention_mask, **named)
        if self.config._attn_implementation not in ("eager", "sdpa"):
            out.logits = out.logits / 2
        return out


@pytest.mark.parametrize("method", ["attcat", "grad_x_input", "leave_one_out", "attn_lrp"])
def test_explain_of_a_model_that_changes_when_routed_uses_the_models_own_attention(
    method, monkeypatch
):
    monkeypatch.setattr(BranchingForSequenceClassification, "__module__", modeling_bert.__name__)
    model = zoo.seeded(
        lambda: BranchingForSequenceClassification(hf.BertConfig(**zoo._BERT))
    ).eval()
    plain = zoo.seeded(lambda: hf.BertForSequenceClassification(hf.BertConfig(**zoo._BERT))).eval()
    found = whence.load(model).explain(BERT, method=method)
    wanted = whence.load(plain).explain(BERT, method=method)
    assert found.prediction.logits == pytest.approx(
        compute_own_logits(model, **BERT)[0].tolist(), abs=1e-5
    )
    # The two are the same model; float32, by another kernel.
    assert found.scores == pytest.approx(wanted.scores, abs=1e-4)


class Shy(hf.BertForSequenceClassification):
    """Says something else whenever anybody watches its blocks."""

    def forward(self, input_ids, attention_mask=None, **named):
        out = super().forward(input_ids, attention_mask, **named)
        if any(block._forward_hooks for block in self.bert.encoder.layer):
            out.logits = out.logits.flip(-1)
        return out


def test_explain_of_a_model_that_changes_under_hooks_raises_not_capturable():
    model = zoo.seeded(lambda: Shy(hf.BertConfig(**zoo._BERT))).eval()
    explainer = whence.load(model)
    with pytest.raises(NotCapturable, match="Shy gives other logits while whence watches it"):
        explainer.explain(BERT, method="attcat")
    # As the sentence says.
    found = explainer.explain(BERT, method="leave_one_out")
    assert found.prediction.logits == pytest.approx(
        compute_own_logits(model, **BERT)[0].tolist(), abs=1e-5
    )


def count_passes(model):
    count = []
    handle = model.register_forward_pre_hook(lambda *_: count.append(1))
    return count, handle


def test_forward_guard_costs_one_extra_pass_at_the_first_explain_only():
    model = bert()
    explainer = whence.load(model)
    count, handle = count_passes(model)
    first = explainer.explain(BERT, method="attcat")
    assert len(count) == 2
    again = explainer.explain(BERT, method="attcat")
    explainer.explain(BERT, method="grad_x_input")
    assert len(count) == 4
    assert (first.scores == again.scores).all()
    handle.remove()


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["bert", "gemma3", "t5"])
def test_forward_guard_accepts_rounding_of_every_dtype_in_sdpa_and_eager_attention(
    name, dtype, implementation
):
    model = zoo.make(name, dtype=dtype)
    model.set_attn_implementation(implementation)
    whence.load(model).explain(zoo.rows(name), method="grad_x_input")
    assert get_facts(model).is_routable


def test_forward_guard_accepts_a_deep_model_in_bfloat16():
    config = hf.LlamaConfig(**{**zoo._DECODER, "num_hidden_layers": 24})
    model = zoo.seeded(lambda: hf.LlamaForSequenceClassification(config)).bfloat16().eval()
    whence.load(model).explain(zoo.rows("llama"), method="generic_attention")
    assert get_facts(model).is_routable


def test_forward_guard_accepts_a_model_with_dropout_in_training_mode():
    model = bert(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5).train()
    whence.load(model).explain(BERT, method="attcat")
    assert get_facts(model).is_routable and model.training


class Noisy(nn.Module):
    def forward(self, hidden):
        return hidden + torch.randn(hidden.shape[-1] + len(_drawn)).narrow(0, 0, hidden.shape[-1])


_drawn: list[int] = []


def test_forward_guard_accepts_a_model_that_draws_random_numbers():
    model = bert()
    model.dropout = Noisy()
    model.dropout.register_forward_hook(lambda *_: _drawn.append(1))
    whence.load(model).explain(BERT, method="attcat")
    assert get_facts(model).is_routable
    _drawn.clear()


def _vilt():
    config = hf.ViltConfig(**zoo._WIDTH, vocab_size=64, image_size=16, patch_size=4, num_labels=3)
    return hf.ViltForQuestionAnswering(config)


# Models that fail on a text whoever runs them, and what they say then.
FAILING = {
    "chunks that do not divide the text": (
        lambda: bert(chunk_size_feed_forward=7),
        "multiple of the chunk size 7.* Look at its configuration",
    ),
    "a model of text and picture without a picture": (_vilt, "specify either pixel_values"),
    "experts in float64": (
        lambda: zoo.seeded(
            lambda: hf.MixtralForSequenceClassification(hf.MixtralConfig(**zoo._DECODER))
        ).double(),
        "got Double.* load it with dtype='float32'",
    ),
    "FSMT in float64": (
        lambda: text_model_classes.make("fsmt", "FSMTForConditionalGeneration").double(),
        "overflow.* load it with dtype='float32'",
    ),
}


@pytest.mark.parametrize("method", ["grad_x_input", "leave_one_out", "attcat"])
@pytest.mark.parametrize("name", FAILING)
def test_explain_of_a_model_that_fails_without_whence_raises_model_failed(name, method):
    make, said = FAILING[name]
    with pytest.raises(ModelFailed, match=f"also by itself, without whence.*{said}"):
        whence.load(make().eval()).explain({"input_ids": [5, 6, 7, 8, 3]}, method=method)


def test_explain_with_a_failure_only_inside_whence_raises_the_original_error():
    """An exception of whence's own must not be blamed on the model."""
    model = bert()
    calls = []

    def fail(*_):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")

    handle = model.bert.pooler.register_forward_hook(fail)
    with pytest.raises(ValueError, match="once"):
        whence.load(model).explain(BERT, method="attcat")
    handle.remove()


def test_raw_attention_of_token_first_blocks_raises_for_any_number_of_inputs():
    """FSMT's blocks are (tokens, inputs, width): rows of one input must not be read as those of another."""
    model = text_model_classes.make("fsmt", "FSMTForConditionalGeneration", torch.float32)
    explainer = whence.load(model, tokenizer=text_model_classes.tokenizer())
    for count in (1, 2, 3):  # the decoder has two tokens
        with pytest.raises(NotCapturable, match="put tokens before inputs"):
            explainer.explain(
                [text_model_classes.TEXTS[0]] * count, method="raw_attention", answer="good"
            )
    found = explainer.explain(
        [text_model_classes.TEXTS[0]] * 2, method="leave_one_out", answer="good"
    )
    assert len(found) == 2
