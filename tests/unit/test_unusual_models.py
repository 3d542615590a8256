"""Unusual models (vision-language, offloaded, wrapped, layout) and inputs: explained, or refused with advice."""

import copy
import types
import warnings

import numpy as np
import pytest
import torch
import transformers as hf
from torch import nn

import whence
from tests import language_models, zoo
from tests.unit.small_tokenizers import byte_level, wordpiece
from whence.core.errors import BadEncoding, BadParameter, NoHead, UnknownModel, WhenceError
from whence.explain.examine import FallbackWarning

TEXT = "the plot is thin"
IDS = {"input_ids": [[5, 9, 14, 33, 7]]}
SMALL = {
    **{
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    **{"vocab_size": 400, "max_position_embeddings": 64, "pad_token_id": 2},
}
LLAMA = {**SMALL, "num_key_value_heads": 2, "bos_token_id": 0, "eos_token_id": 1}
EYES = {
    **{
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    },
    **{"image_size": 28, "patch_size": 14},
}
ROPE = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}
SOUND = {
    **{
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
    },
    **{"conv_dim": (8, 8), "conv_kernel": (3, 3), "conv_stride": (2, 2), "num_labels": 3},
    **{"num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2, "vocab_size": 40},
}


def _gemma3():
    texts = {**LLAMA, "head_dim": 8, "sliding_window": 16}
    config = hf.Gemma3Config(text_config=texts, vision_config=EYES, mm_tokens_per_image=4)
    return hf.Gemma3ForConditionalGeneration(config)


def _llava():
    eyes = hf.CLIPVisionConfig(**{**EYES, "num_hidden_layers": 2})
    config = hf.LlavaConfig(text_config=hf.LlamaConfig(**LLAMA), vision_config=eyes)
    return hf.LlavaForConditionalGeneration(config)


def _qwen2_vl():
    eyes = {"embed_dim": 32, "hidden_size": 32, "depth": 1, "num_heads": 4, "patch_size": 4}
    config = hf.Qwen2VLConfig(text_config={**LLAMA, "rope_parameters": ROPE}, vision_config=eyes)
    return hf.Qwen2VLForConditionalGeneration(config)


def _idefics3():
    config = hf.Idefics3Config(text_config=hf.LlamaConfig(**LLAMA), vision_config=EYES)
    return hf.Idefics3ForConditionalGeneration(config)


def _paligemma():
    texts = {**LLAMA, "model_type": "gemma", "head_dim": 8}
    eyes = {**EYES, "model_type": "siglip_vision_model", "projection_dim": 32}
    config = hf.PaliGemmaConfig(text_config=texts, vision_config=eyes, projection_dim=32)
    return hf.PaliGemmaForConditionalGeneration(config)


@pytest.mark.parametrize("make", [_gemma3, _llava, _qwen2_vl, _idefics3, _paligemma])
def test_vision_language_models_explain_and_generate_from_a_text_alone(make):
    model = zoo.seeded(make).eval()
    explainer = whence.load(model, tokenizer=byte_level())
    assert (explainer.loaded.task, explainer.loaded.modality) == ("next", "text")
    found = explainer.explain(TEXT, method="grad_x_input")
    ids = torch.tensor([[token.id for token in found.tokens]])
    with torch.no_grad():
        own = model(input_ids=ids, attention_mask=torch.ones_like(ids)).logits[0, -1]
    # float32: the same passes by way of another kernel of attention.
    assert found.prediction.logits[0] == pytest.approx(own[own.argmax()].item(), abs=1e-4)
    made = explainer.generate(TEXT, 2, method="gradient")
    assert made.output_tokens[0].id == own.argmax().item()


@pytest.mark.parametrize(
    ("make", "own"),
    [
        (lambda: hf.Wav2Vec2ForSequenceClassification(hf.Wav2Vec2Config(**SOUND)), "input_values"),
        (lambda: hf.Wav2Vec2ForCTC(hf.Wav2Vec2Config(**SOUND)), "input_values"),
        (
            lambda: hf.WhisperForConditionalGeneration(
                hf.WhisperConfig(
                    vocab_size=40, d_model=32, encoder_layers=1, decoder_layers=1,
                    encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=48,
                    decoder_ffn_dim=48, max_source_positions=30, max_target_positions=30,
                    pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
                )
            ),
            "input_features",
        ),
    ],
)  # fmt: skip
def test_models_of_sound_raise_no_head_with_the_name_of_their_input(make, own):
    explainer = whence.load(make().eval(), tokenizer=byte_level())
    for ask in (explainer.explain, explainer.predict, explainer.inside):
        with pytest.raises(NoHead, match=f"its input is '{own}', and whence explains texts and"):
            ask(TEXT)


def test_model_that_needs_a_picture_beside_a_text_raises_no_head():
    texts = hf.OPTConfig(
        hidden_size=32, ffn_dim=48, num_hidden_layers=1, num_attention_heads=4, vocab_size=400,
        word_embed_proj_dim=32, pad_token_id=2,
    )  # fmt: skip
    former = {**EYES, "encoder_hidden_size": 32, "vocab_size": 40}
    config = hf.Blip2Config(
        text_config=texts, vision_config=EYES, qformer_config=former, num_query_tokens=4
    )
    explainer = whence.load(hf.Blip2ForConditionalGeneration(config), tokenizer=byte_level())
    with pytest.raises(NoHead, match="needs 'pixel_values' beside a text"):
        explainer.explain(TEXT)


def _xlnet():
    sizes = {"d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48}
    return hf.XLNetForSequenceClassification(hf.XLNetConfig(vocab_size=400, **sizes))


def _longformer():
    sizes = {**SMALL, "max_position_embeddings": 130, "pad_token_id": 1, "attention_window": 8}
    return hf.LongformerForSequenceClassification(hf.LongformerConfig(**sizes))


def _mixtral():
    sizes = {**LLAMA, "num_local_experts": 2, "num_experts_per_tok": 1, "num_labels": 3}
    return hf.MixtralForSequenceClassification(hf.MixtralConfig(**sizes))


@pytest.mark.parametrize(
    ("make", "instead"), [(_xlnet, "grad_x_input"), (_longformer, "leave_one_out")]
)
def test_explain_falls_back_and_warns_where_the_default_method_does_not_work(make, instead):
    explainer = whence.load(zoo.seeded(make).eval(), tokenizer=byte_level())
    with pytest.warns(FallbackWarning, match=f"the default method, does not.*{instead} explains"):
        found = explainer.explain(TEXT)
    assert found.method == explainer.default_method() == instead
    assert [code for code, _ in found.warnings] == ["other-method"]
    assert f"{instead} explains in its place" in str(found)
    # It is said of what stands in, and once in the log.
    assert explainer.explain(TEXT, method="random").warnings == ()
    assert instead in str(explainer.trust(TEXT, budget=40))


@pytest.mark.parametrize("make", [_xlnet, _longformer, _mixtral])
def test_method_advised_by_a_refusal_works_on_the_model(make):
    explainer = whence.load(zoo.seeded(make).eval(), tokenizer=byte_level())
    found = explainer.examine()["methods"]
    works = {one["method"] for one in found if one["works"]}
    advised = 0
    for one in found:
        _, use, advice = (one["why_not"] or "").partition("Use ")
        if use:
            first = advice.replace("a gradient method, like ", "").split(",")[0].split(" or ")[0]
            assert first.strip(". ") in works, one
            advised += 1
    assert advised


class KeywordWrapper(nn.Module):
    """A module of one's own around a model, which takes whatever it is given by name."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config

    def forward(self, **inputs):
        return self.inner(**inputs)


class KeywordClassifier(hf.BertForSequenceClassification):
    """A model whose forward names no argument."""

    def forward(self, **inputs):
        return super().forward(**inputs)


def _bert():
    return zoo.make("bert", dtype=torch.float32)


def _bert_under_inference_mode():
    with torch.inference_mode():
        return _bert()


def _keyword_bert():
    plain = _bert()
    made = KeywordClassifier(plain.config).eval()
    made.load_state_dict(plain.state_dict())
    return made


def _offloaded(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    return accelerate.cpu_offload(_bert(), execution_device=torch.device("cpu"))


def _on_disk(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    return accelerate.disk_offload(_bert(), str(tmp_path), execution_device=torch.device("cpu"))


def _mapped(tmp_path):
    """Return a model of which one half lies on disk, as from_pretrained with a device_map gives it."""
    pytest.importorskip("accelerate")
    _bert().save_pretrained(tmp_path / "model")
    places = {"bert.embeddings": "cpu", "bert.encoder": "disk", "bert.pooler": "cpu"}
    return hf.BertForSequenceClassification.from_pretrained(
        tmp_path / "model",
        device_map={**places, "classifier": "cpu"},
        offload_folder=tmp_path / "rest",
    )


@pytest.mark.parametrize("method", ["attcat", "grad_x_input", "leave_one_out", "attn_lrp"])
@pytest.mark.parametrize(
    "make",
    [
        *(
            lambda _: KeywordWrapper(_bert()),
            lambda _: _bert_under_inference_mode(),
            lambda _: _keyword_bert(),
        ),
        *(_offloaded, _on_disk, _mapped),
    ],
    ids=["wrapped", "inference_mode", "keywords", "offloaded", "on disk", "device_map"],
)
def test_wrapped_offloaded_and_inference_mode_models_give_the_usual_scores(make, method, tmp_path):
    wanted = whence.load(_bert()).explain(IDS, method=method, target=1)
    found = whence.load(make(tmp_path)).explain(IDS, method=method, target=1)
    # float32: another order of the same sums.
    np.testing.assert_allclose(found.scores, wanted.scores, atol=1e-5)


def test_offloaded_model_has_the_fingerprint_of_its_weights_and_stays_on_disk(tmp_path):
    wanted = whence.load(_bert()).explain(IDS, method="random").model["fingerprint"]
    model = _on_disk(tmp_path)
    assert whence.load(model).explain(IDS, method="random").model["fingerprint"] == wanted
    assert next(model.parameters()).is_meta
    # Passes under inference_mode leave place holders of their own.
    card = whence.load(model).trust(IDS, method="grad_x_input", remove="delete", budget=60)
    assert "grad_x_input" in str(card)
    assert whence.load(model).explain(IDS, method="random").model["fingerprint"] == wanted
    with pytest.raises(BadParameter, match=r"offloaded.*leave device and dtype out"):
        whence.load(model, dtype="float64")


def test_load_of_a_model_made_under_inference_mode_leaves_that_model_unchanged():
    model = _bert_under_inference_mode()
    explainer = whence.load(model)
    assert next(model.parameters()).is_inference()
    assert not next(explainer.model.parameters()).is_inference()


class ForeignConfigModule(nn.Module):
    """A module whose config is none of transformers'."""

    def __init__(self, config):
        super().__init__()
        self.config, self.linear = config, nn.Linear(2, 2)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: ForeignConfigModule({"num_labels": 2}), "a config that is a dict"),
        (
            lambda: ForeignConfigModule(types.SimpleNamespace(num_labels=2)),
            "a config that is a SimpleNamespace",
        ),
        (lambda: nn.Linear(2, 2), "it has no config"),
        (lambda: _bert().to("meta"), "on the meta device"),
    ],
)
def test_load_of_a_module_without_transformers_config_or_weights_raises_unknown_model(make, why):
    with pytest.raises(UnknownModel, match=why):
        whence.load(make())


def _layout_model(kind, **more):
    sizes = {**SMALL, "hidden_size": 48, "max_2d_position_embeddings": 128, "num_labels": 3, **more}
    config = getattr(hf, f"{kind}Config")(**sizes)
    return zoo.seeded(lambda: getattr(hf, f"{kind}ForSequenceClassification")(config)).eval()


@pytest.mark.parametrize(
    ("kind", "more"), [("LayoutLM", {}), ("Lilt", {"channel_shrink_ratio": 2})]
)
def test_layout_models_refuse_inputs_without_boxes_and_explain_inputs_with_boxes(kind, more):
    model = _layout_model(kind, **more)
    explainer = whence.load(model, tokenizer=wordpiece())
    with pytest.raises(BadEncoding, match=r"The boxes are missing.*'bbox' beside 'input_ids'"):
        explainer.explain(TEXT, method="gradient")
    ids, boxes = [2, 30, 31, 32, 3], [[10 * i, 5, 10 * i + 9, 20] for i in range(5)]
    found = explainer.explain({"input_ids": [ids], "bbox": [boxes]}, method="leave_one_out")
    with torch.no_grad():
        own = model(input_ids=torch.tensor([ids]), bbox=torch.tensor([boxes])).logits[0]
    assert found.prediction.logits == pytest.approx(own.tolist(), abs=1e-5)
    short = {"input_ids": ids[:3], "bbox": torch.tensor(boxes[:3])}
    both = explainer.explain([{"input_ids": ids, "bbox": boxes}, short], method="leave_one_out")
    np.testing.assert_allclose(both[0].scores, found.scores, atol=1e-5)
    for wrong, why in ([9, 1, 2, 9], "must be"), ([0, 0, 200, 1], "to 127"), ([1, 2], "of four"):
        with pytest.raises(BadEncoding, match=why):
            explainer.explain({"input_ids": ids, "bbox": [wrong] * 5}, method="gradient")


@pytest.mark.parametrize("size", ["a", 0, -1, True, 1.5])
def test_invalid_batch_size_is_refused_by_explain_trials_generate_and_run(size):
    explainer = whence.load(zoo.make("bert"))
    talker = whence.load(language_models.make("llama"))
    rows = [IDS, IDS]
    for ask in (
        lambda: explainer.explain(rows, batch_size=size),
        lambda: list(explainer.trials(rows, method="gradient", batch_size=size)),
        lambda: list(
            explainer.explain_each(rows, method="gradient", failed=print, batch_size=size)
        ),
        lambda: talker.generate(IDS, 1, batch_size=size),
        lambda: whence.run(model="reviews", data="a.tsv", out="none", batch_size=size),
    ):
        with pytest.raises(WhenceError, match=r"'?batch_size'? must be a whole number, at least 1"):
            ask()


def _load_with_labels(labels, tokenizer=wordpiece, **config):
    model = copy.deepcopy(zoo.make("bert"))
    model.resize_token_embeddings(400)
    model.config.id2label = dict(enumerate(labels))
    for name, value in config.items():
        setattr(model.config, name, value)
    return whence.load(model, tokenizer=tokenizer())


NLI = ("contradiction", "neutral", "entailment")
MOODS = ("negative", "neutral", "positive")
PAIR = ("the plot is thin", "a film")


@pytest.mark.parametrize(
    ("labels", "config", "given", "code"),
    [
        (NLI, {}, TEXT, "one-text"),
        (NLI, {}, PAIR, None),
        (MOODS, {}, PAIR, "two-texts"),
        (MOODS, {}, TEXT, None),
        (("1 star", "2 stars", "3 stars"), {}, PAIR, "two-texts"),
        (("LABEL_0", "LABEL_1", "LABEL_2"), {"finetuning_task": "MNLI"}, TEXT, "one-text"),
        (("LABEL_0", "LABEL_1", "LABEL_2"), {"finetuning_task": "sst-2"}, PAIR, "two-texts"),
        (("bug", "duplicate", "question"), {}, TEXT, None),
        (("LABEL_0", "LABEL_1", "LABEL_2"), {"type_vocab_size": 2}, PAIR, None),
        (("LABEL_0", "LABEL_1", "LABEL_2"), {}, TEXT, None),
    ],
)
def test_explain_warns_of_one_text_for_pair_models_and_two_for_text_models(
    labels, config, given, code
):
    found = _load_with_labels(labels, **config).explain(given, method="gradient")
    assert [one for one, _ in found.warnings] == ([] if code is None else [code])
    if code is not None:
        assert "seems to be trained on" in str(found)


def test_zero_shot_labels_on_an_nli_model_give_no_warning_of_one_text():
    found = _load_with_labels(NLI).explain(TEXT, labels=["thin", "film"], method="gradient")
    assert found.warnings == ()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert _load_with_labels(NLI).default_method() == "attcat"
