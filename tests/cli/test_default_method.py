"""Default method in Python, commands and app: generic_attention for causal models and CLIP, attcat for encoders."""

import json

import pytest
import torch
import transformers as hf

import whence
from tests import image_models
from tests.unit.small_tokenizers import byte_level
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.studies.compare.compare import compare
from whence.studies.compare.dataset_view import summarise_words

CAUSAL = "generic_attention"
SIZES = {
    "vocab_size": 400,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 3,
}
SEQ2SEQ = {
    **{"vocab_size": 400, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"encoder_attention_heads": 4, "decoder_attention_heads": 4},
    **{"encoder_ffn_dim": 48, "decoder_ffn_dim": 48},
}
GPT2 = {"vocab_size": 400, "n_embd": 32, "n_layer": 2, "n_head": 4, "pad_token_id": 0}
ENDS = {"bos_token_id": 2, "eos_token_id": 3}


def _bert(**more):
    return hf.BertForSequenceClassification(hf.BertConfig(**SIZES, **more))


def _llama(kind):
    return kind(hf.LlamaConfig(**SIZES, num_labels=3))


MODELS = {
    "a decoder that goes on": (lambda: _llama(hf.LlamaForCausalLM), CAUSAL),
    "a decoder that classifies": (lambda: _llama(hf.LlamaForSequenceClassification), CAUSAL),
    "a decoder that tags": (lambda: _llama(hf.LlamaForTokenClassification), CAUSAL),
    "a decoder that answers": (lambda: _llama(hf.LlamaForQuestionAnswering), CAUSAL),
    "GPT-2 as a classifier": (
        lambda: hf.GPT2ForSequenceClassification(hf.GPT2Config(**GPT2, **ENDS, num_labels=3)),
        CAUSAL,
    ),
    "a BERT with a causal mask": (lambda: _bert(is_decoder=True), CAUSAL),
    "an encoder-decoder that generates": (
        lambda: hf.BartForConditionalGeneration(hf.BartConfig(**SEQ2SEQ)),
        CAUSAL,
    ),
    "an encoder that classifies": (_bert, "attcat"),
    "an encoder that fills in": (lambda: hf.BertForMaskedLM(hf.BertConfig(**SIZES)), "attcat"),
}


@pytest.mark.parametrize("name", MODELS)
def test_default_method_is_generic_attention_for_causal_models_and_attcat_for_encoders(name):
    make, expected = MODELS[name]
    torch.manual_seed(0)
    explainer = whence.load(make().eval(), tokenizer=byte_level())
    assert explainer.default_method() == expected


def test_default_method_of_clip_for_an_image_is_generic_attention():
    explainer = whence.load(image_models.make("clip"), **image_models.load_options("clip"))
    assert explainer.default_method(image="a picture") == CAUSAL


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A language model and two classifiers, all causal, with random weights."""
    folder = tmp_path_factory.mktemp("causal")
    tokenizer = whence.load("reviews").tokenizer
    sizes = {**SIZES, "vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    kinds = {
        "writer": hf.LlamaForCausalLM,
        "judge": hf.LlamaForSequenceClassification,
        "other": hf.LlamaForSequenceClassification,
    }
    for seed, (name, kind) in enumerate(kinds.items()):
        torch.manual_seed(seed)
        kind(hf.LlamaConfig(**sizes)).save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


def test_the_command_line_explains_causal_models_by_generic_attention(run, folder):
    for model in ("writer", "judge"):
        status, out, _ = run("explain", "a fine film", "--model", folder / model, "--json")
        assert status == 0
        assert [one["method"] for one in json.loads(out)["explanations"]] == [CAUSAL]
    status, out, _ = run(
        *("explain", "a fine film", "--model", folder / "writer", "--generate", "2", "--json"),
        *("--param", "start_layer=1"),  # its own, which attcat does not have
    )
    assert status == 0
    assert json.loads(out)["method"] == CAUSAL
    status, _, err = run("explain", "a film", "--model", folder / "writer", "--param", "nonsense=1")
    assert status != 0
    assert "nonsense" in err


def test_the_app_explains_causal_models_by_generic_attention(folder):
    app = create_app(Settings(models=tuple(str(folder / name) for name in ("judge", "writer"))))
    try:
        for name in ("judge", "writer"):
            loaded = ask(app, "POST", "/api/models", json={"name": name}).json()
            assert loaded["method"] == CAUSAL
    finally:
        assert app.state.app_state.close(10)


def test_generate_compare_words_and_workbench_use_the_default_method_of_the_model(folder):
    writer, judge = (whence.load(folder / name) for name in ("writer", "judge"))
    assert writer.generate("a fine film", 2).to_dict()["method"] == CAUSAL
    texts = ["a fine film", "a dull film", "the plot is thin"]
    assert summarise_words(judge, texts, least=1)["method"] == CAUSAL
    compared = compare(judge, folder / "other", texts).to_dict()
    assert compared["setting"]["method"] == compared["attribution"]["method"] == CAUSAL
    pytest.importorskip("anywidget")
    assert whence.workbench(judge, "a fine film").state["methods"] == [CAUSAL]


def test_list_methods_attcat_warns_about_a_causal_mask(run):
    status, out, _ = run("list", "methods", "attcat")
    assert status == 0
    said = " ".join(out.split())
    for part in ("causal", "20 of 40", "38", "69.5 %"):
        assert part in said
