"""Loading of models: names, folders and objects; unsafe, broken and unknown ones are refused."""

import json
import shutil
import time

import numpy as np
import pytest
import torch
import transformers as hf
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput

import whence
from tests import text_model_classes, zoo
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    NoHead,
    NoTokenizer,
    RequestError,
    UnknownModel,
    UnsafeWeights,
)
from whence.models.fingerprint import compute_fingerprint
from whence.models.load import load_model
from whence.models.model_files import BUILTIN, find_builtin_folder


@pytest.fixture
def folder(tmp_path):
    """A model folder with a tokenizer."""
    model = zoo.make("bert", dtype=torch.float32)
    model.resize_token_embeddings(400)
    model.save_pretrained(tmp_path / "m")
    wordpiece().save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def test_load_of_a_folder_takes_labels_and_the_dtype_asked_for(folder):
    explainer = whence.load(folder)
    assert explainer.labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert explainer.explain("a film").scores.dtype == "float32"
    assert whence.load(str(folder), dtype="float64").explain("a film").scores.dtype == "float64"
    assert whence.load(folder, dtype=torch.float64).explain("a film").scores.dtype == "float64"


def test_load_model_of_float16_weights_computes_in_float32_on_a_cpu(folder):
    model = zoo.make("bert", dtype=torch.float16)
    model.save_pretrained(folder)
    assert load_model(folder).dtype == (
        torch.float16 if torch.cuda.is_available() else torch.float32
    )
    assert load_model(folder, dtype="float16").dtype == torch.float16


def test_a_folder_without_a_tokenizer_explains_ids_and_refuses_text(folder):
    for path in [*folder.glob("*token*"), *folder.glob("special*")]:
        path.unlink()
    explainer = whence.load(folder)
    assert explainer.tokenizer is None
    assert len(explainer.explain({"input_ids": [5, 6, 7]}).scores) == 3
    with pytest.raises(NoTokenizer, match="has no tokenizer"):
        explainer.explain("a film")
    given = whence.load(folder, tokenizer=wordpiece())
    assert given.explain("a film").tokens[1].text == "a"


def test_load_of_a_folder_with_pickled_weights_raises_unsafe_weights(folder, tmp_path):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(UnsafeWeights, match=r"pytorch_model\.bin.*save_pretrained"):
        whence.load(folder)


def test_load_of_a_folder_with_custom_code_raises_and_runs_none_of_the_code(folder, tmp_path):
    trap = tmp_path / "sprung"
    (folder / "evil.py").write_text(f"open({str(trap)!r}, 'w')")
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "evil"
    config["auto_map"] = {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsafeWeights, match="never does"):
        whence.load(folder)
    assert not trap.exists()


def test_load_of_a_classifier_without_head_weights_raises_no_head(folder):
    shutil.copytree(find_builtin_folder("reviews-base"), folder, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    config["architectures"] = ["BertForSequenceClassification"]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(NoHead, match="made up at random"):
        whence.load(folder)


def test_explain_predict_and_trace_of_a_model_without_output_head_raise_no_head():
    base = whence.load("reviews-base")
    explainer = whence.load(base.model.base_model, tokenizer=base.tokenizer)
    for ask in (explainer.explain, explainer.predict, explainer.trace):
        with pytest.raises(NoHead, match="BertModel"):
            ask("a film")


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("revews", "Did you mean 'reviews'"),
        ("./none", "There is no folder"),
        ("/none/at/all", "There is no folder"),
        ("someone/nothing", "nor found on the Hub"),
        (3, "Cannot load a int"),
    ],
)
def test_load_of_an_unknown_name_path_or_type_raises_unknown_model(what, message):
    with pytest.raises(UnknownModel, match=message):
        whence.load(what)


def test_load_of_a_folder_without_config_or_weights_raises_unknown_model(tmp_path):
    with pytest.raises(UnknownModel, match=r"no config\.json"):
        whence.load(tmp_path)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UnknownModel, match="cannot be read"):
        whence.load(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    with pytest.raises(UnknownModel, match="no weights"):
        whence.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(UnknownModel, match="cannot be loaded"):
        whence.load(tmp_path)


@pytest.mark.parametrize(
    "options",
    [{"dtype": "float12"}, {"dtype": torch.int64}, {"device": "abacus"}, {"device": "cuda:99"}],
)
def test_load_with_a_bad_dtype_or_device_raises_bad_parameter(options):
    with pytest.raises(BadParameter):
        whence.load("decoy", **options)


def test_load_of_a_model_object_uses_that_object_and_copies_for_another_dtype():
    model = zoo.make("bert", dtype=torch.float32)
    assert whence.load(model).model is model
    other = whence.load(model, dtype="float64")
    assert other.model is not model
    assert next(model.parameters()).dtype == torch.float32
    assert other.explain(zoo.rows("bert"))[0].scores.dtype == "float64"


def test_fingerprint_changes_with_weights_and_not_with_mode_or_attention(folder):
    a, b = (load_model(folder).model for _ in range(2))
    assert compute_fingerprint(a) == compute_fingerprint(b)
    b.set_attn_implementation("eager")
    b.train()
    assert compute_fingerprint(a) == compute_fingerprint(b)
    before = compute_fingerprint(b)
    with torch.no_grad():
        b.classifier.bias[0] += 1
    assert compute_fingerprint(b) != before


@pytest.mark.parametrize("name", BUILTIN)
def test_load_model_of_builtin_models_gives_a_tokenizer_or_a_processor(name):
    loaded = load_model(name)
    # The one reads pictures, the others texts.
    assert (loaded.tokenizer is None) == (loaded.processor is not None) == (name == "shapes")
    assert loaded.name == name


def test_explain_with_nan_logits_raises_that_logits_are_not_finite():
    model = zoo.make("bert")
    with torch.no_grad():
        model.classifier.bias[0] = float("nan")
    with pytest.raises(whence.WhenceError, match="logits are not finite"):
        whence.load(model).explain(zoo.rows("bert"))


def test_multi_label_probabilities_do_not_sum_to_one_and_regression_has_none():
    model = zoo.make("bert")
    model.config.problem_type = "multi_label_classification"
    e = whence.load(model).explain(zoo.rows("bert")[0], method="leave_one_out", target=1)
    assert sum(e.prediction.probabilities.values()) != pytest.approx(1)
    model.config.problem_type = "regression"
    e = whence.load(model).explain(zoo.rows("bert")[0], method="leave_one_out", target=1)
    assert e.prediction.probability is None
    assert "=" in str(e).splitlines()[0]


class MeanPoolingClassifier(BertPreTrainedModel):
    """A classifier of one's own: mean pooling and a linear layer, under a name that says nothing."""

    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.out = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids, attention_mask=None):
        hidden = self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        mean = (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return SequenceClassifierOutput(logits=self.out(mean))


def test_custom_mean_pooling_classifier_has_uniform_read_rows_and_equal_batch_scores():
    config = zoo.make("bert").config
    explainer = whence.load(MeanPoolingClassifier(config).double().eval())
    trace = explainer.trace(zoo.rows("bert"))
    wanted = trace.real / trace.real.sum(1, keepdim=True)
    torch.testing.assert_close(trace.rows, wanted.double())
    found = explainer.explain(zoo.rows("bert"), method=["rollout", "attcat", "generic_attention"])
    alone = explainer.explain(
        zoo.rows("bert")[1], method=["rollout", "attcat", "generic_attention"]
    )
    for name, one in alone.items():
        torch.testing.assert_close(torch.tensor(found[1][name].scores), torch.tensor(one.scores))


def test_explain_with_more_outputs_than_labels_raises_no_head():
    model = MeanPoolingClassifier(zoo.make("bert").config).eval()
    model.out = torch.nn.Linear(32, 5)
    with pytest.raises(NoHead, match="gives 5 outputs, its configuration names 3 labels"):
        whence.load(model).explain(zoo.rows("bert"))


def test_load_of_a_module_without_transformers_config_raises_unknown_model():
    with pytest.raises(UnknownModel, match="no transformers configuration"):
        whence.load(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("shard", ["evil.bin", "../../etc/hostname"])
def test_load_with_an_index_of_unsafe_shards_raises_unsafe_weights(folder, shard):
    weights = dict.fromkeys(zoo.make("bert").state_dict(), shard)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    torch.save({}, folder / "evil.bin")
    with pytest.raises(UnsafeWeights, match="index names"):
        whence.load(folder)


def test_load_with_an_unreadable_index_raises_unknown_model(folder):
    (folder / "model.safetensors.index.json").write_text("[]")
    with pytest.raises(UnknownModel, match="index"):
        whence.load(folder)


def test_load_of_sharded_weights_gives_the_same_scores(folder, tmp_path):
    wanted = whence.load(folder).explain("a film").scores
    load_model(folder).model.save_pretrained(tmp_path / "s", max_shard_size="50KB")
    wordpiece().save_pretrained(tmp_path / "s")
    assert len(list((tmp_path / "s").glob("*.safetensors"))) > 1
    found = whence.load(tmp_path / "s").explain("a film").scores
    # The same weights at other offsets of other files: sums may be added in another order.
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_load_with_a_broken_or_missing_tokenizer_raises_bad_tokenizer(folder):
    with pytest.raises(BadTokenizer, match="cannot be loaded"):
        whence.load("decoy", tokenizer="./nowhere")
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(BadTokenizer, match="cannot be loaded"):
        whence.load(folder)


def test_load_by_name_while_the_hub_is_unreachable_fails_within_ten_seconds(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    started = time.perf_counter()
    with pytest.raises(UnknownModel, match="nor found on the Hub"):
        whence.load("someone/nothing")
    assert time.perf_counter() - started < 10  # its client retries for half a minute


def test_read_rows_are_equal_for_logit_and_saturated_probability():
    config = zoo.make("modernbert").config
    config.classifier_pooling = "mean"
    model = hf.ModernBertForSequenceClassification(config).eval()
    with torch.no_grad():
        model.classifier.weight *= 1e5
    explainer = whence.load(model)
    row = zoo.rows("modernbert")[0]
    logit, share = (
        explainer.explain(row, method="raw_attention", of=of) for of in ("logit", "probability")
    )
    assert max(share.prediction.probabilities.values()) == 1
    assert (logit.scores == share.scores).all()
    assert explainer.trace(row, of="probability").rows.ne(0).all()


def test_fingerprint_sees_changes_of_weight_data_and_configuration():
    model = zoo.make("bert")
    seen = {compute_fingerprint(model)}
    model.classifier.weight.data.mul_(2)
    seen.add(compute_fingerprint(model))
    model.config.hidden_act = "relu"
    seen.add(compute_fingerprint(model))
    assert len(seen) == 3


@pytest.mark.parametrize(
    "options",
    [
        {"method": 5},
        {"method": ["attcat", 5]},
        {"method": []},
        {"params": "x"},
        {"params": {1: 2}},
    ],
)
def test_explain_with_malformed_methods_or_params_raises_request_error(options):
    with pytest.raises(RequestError):
        whence.load(zoo.make("bert")).explain(zoo.rows("bert"), **options)


def test_explain_takes_numpy_integers_as_target_and_params():
    explainer = whence.load(zoo.make("bert"))
    found = explainer.explain(
        zoo.rows("bert")[0], method="cat", params={"layer": np.int64(1)}, target=np.int64(1)
    )
    assert found.params == {"layer": 1}


@pytest.mark.parametrize(
    ("kind", "name", "more", "task"),
    [
        ("xlm", "XLMWithLMHeadModel", {}, "mask"),
        ("xlm", "XLMWithLMHeadModel", {"causal": True}, "next"),
        ("flaubert", "FlaubertWithLMHeadModel", {}, "mask"),
        ("bert", "BertLMHeadModel", {"is_decoder": False}, "mask"),
        ("bert", "BertLMHeadModel", {"is_decoder": True}, "next"),
        ("roberta", "RobertaForCausalLM", {"is_decoder": False}, "mask"),
        ("gpt2", "GPT2LMHeadModel", {}, "next"),
        ("llama", "LlamaForCausalLM", {}, "next"),
        ("reformer", "ReformerModelWithLMHead", {}, "next"),
    ],
)
def test_load_takes_a_bidirectional_language_model_as_masked_and_a_causal_one_as_next(
    kind, name, more, task
):
    config = text_model_classes.config_of(kind)
    for key, value in more.items():
        setattr(config, key, value)
    model = getattr(hf, name)(config).eval()
    assert whence.load(model).loaded.task == task
    ids = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12]])
    with torch.no_grad():
        one, other = (
            model(input_ids=ids.clone().index_fill_(1, torch.tensor([7]), i)).logits
            for i in (12, 13)
        )
    assert torch.equal(one[0, 0], other[0, 0]) == (task == "next")
