"""Safety of model folders: pickles, outside links, odd configurations, tokenizers and adapters are refused."""

import json
import os
import pickle
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import whence
from tests import zoo
from tests.unit.small_tokenizers import wordpiece
from whence.core.errors import BadParameter, BadTokenizer, UnknownModel, UnsafeWeights
from whence.models.load import load_model

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


@pytest.fixture
def folder(tmp_path):
    """A model folder with a tokenizer, in a folder for models."""
    folder = tmp_path / "models" / "m"
    model = zoo.make("bert", dtype=torch.float32)
    model.resize_token_embeddings(400)
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    return folder


def update_json(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def index(folder, shard, file=INDEX):
    """Let an index name one file for all weights."""
    names = load_file(folder / WEIGHTS)
    table = {"metadata": {}, "weight_map": dict.fromkeys(names, str(shard))}
    (folder / file).write_text(json.dumps(table))


class Trap:
    """What leaves a mark when it is unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def write_trap_pickle(path, trap):
    with path.open("wb") as file:
        pickle.dump(Trap(trap), file)


@pytest.mark.parametrize("file", ["adapter_model.bin", "weights.bin", "../out.pt", 5, ["a"], {}])
def test_load_with_a_pickle_named_in_the_configuration_raises_and_does_not_unpickle(
    folder, tmp_path, file
):
    trap = tmp_path / "sprung"
    write_trap_pickle(folder / "adapter_model.bin", trap)
    write_trap_pickle(folder / "weights.bin", trap)
    update_json(folder / "config.json", transformers_weights=file)
    with pytest.raises(UnsafeWeights, match=r"transformers_weights.*safetensors only"):
        whence.load(folder)
    assert not trap.exists()


def test_load_with_a_pickle_named_in_another_index_raises_and_does_not_unpickle(folder, tmp_path):
    trap = tmp_path / "sprung"
    write_trap_pickle(folder / "evil.bin", trap)
    index(folder, "evil.bin", "other.safetensors.index.json")
    update_json(folder / "config.json", transformers_weights="other.safetensors.index.json")
    with pytest.raises(UnsafeWeights, match=r"index names 'evil\.bin'"):
        whence.load(folder)
    assert not trap.exists()


def test_load_of_a_pickle_named_safetensors_raises_and_does_not_unpickle(folder, tmp_path):
    trap = tmp_path / "sprung"
    write_trap_pickle(folder / WEIGHTS, trap)
    with pytest.raises(UnknownModel, match="is no safetensors file"):
        whence.load(folder)
    assert not trap.exists()


def test_load_takes_the_safetensors_file_that_the_configuration_names(folder):
    (folder / WEIGHTS).rename(folder / "mine.safetensors")
    update_json(folder / "config.json", transformers_weights="mine.safetensors")
    assert whence.load(folder).explain("a film").scores.shape == (4,)


def move_weights_beside(folder):
    """Move the weights into a folder beside that of the model."""
    beside = folder.parent / "base"
    beside.mkdir()
    shutil.move(folder / WEIGHTS, beside / "shared.safetensors")
    return beside / "shared.safetensors"


def test_load_takes_shards_from_a_folder_beside_the_model(folder):
    index(folder, "../base/shared.safetensors")
    move_weights_beside(folder)
    assert whence.load(folder).explain("a film").scores.shape == (4,)
    # By another name of the same folder, too.
    (folder.parent.parent / "link").symlink_to(folder)
    assert whence.load(folder.parent.parent / "link").explain("a film").scores.shape == (4,)


def test_load_with_shards_outside_the_neighbouring_folders_raises_unsafe_weights(folder, tmp_path):
    far = tmp_path / "far" / "away"
    far.mkdir(parents=True)
    for shard in ("../../far/away/w.safetensors", str(far / "w.safetensors")):
        shutil.copy(folder / WEIGHTS, far / "w.safetensors")
        index(folder, shard)
        (folder / WEIGHTS).rename(folder / "kept")
        with pytest.raises(
            UnsafeWeights, match=r"w\.safetensors', which lies neither in its folder"
        ):
            whence.load(folder)
        (folder / "kept").rename(folder / WEIGHTS)


@pytest.mark.parametrize("file", [WEIGHTS, "tokenizer.json", "config.json"])
def test_load_refuses_links_out_of_the_model_folder_and_takes_links_to_a_neighbour(
    folder, tmp_path, file
):
    shutil.move(folder / file, tmp_path / file)
    (folder / file).symlink_to(tmp_path / file)
    with pytest.raises(UnsafeWeights, match=f"{file}', which lies neither"):
        whence.load(folder)
    # A link to a neighbour's file is as good as the file.
    (folder / file).unlink()
    (folder.parent / "base").mkdir()
    shutil.move(tmp_path / file, folder.parent / "base" / file)
    (folder / file).symlink_to(f"../base/{file}")
    assert whence.load(folder).explain("a film").scores.shape == (4,)


def test_load_with_a_chat_template_linked_from_elsewhere_raises_unsafe_weights(folder, tmp_path):
    """A tokenizer reads these as well, and a chat template may show all that is in it."""
    secret = tmp_path / "elsewhere" / "deep" / "secret.txt"
    secret.parent.mkdir(parents=True)
    secret.write_text("a secret")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "default.jinja").symlink_to(secret)
    with pytest.raises(UnsafeWeights, match=r"default\.jinja.*neither in its folder"):
        whence.load(folder)


def test_load_follows_the_links_of_the_hub_cache(folder, tmp_path):
    repository = tmp_path / "hub" / "models--someone--model"
    blobs, snapshot = repository / "blobs", repository / "snapshots" / ("0f" * 20)
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, path in enumerate(sorted(folder.iterdir())):
        shutil.copy(path, blobs / f"blob{number}")
        (snapshot / path.name).symlink_to(f"../../blobs/blob{number}")
    assert whence.load(snapshot).explain("a film").scores.shape == (4,)


@pytest.mark.parametrize("file", [WEIGHTS, "tokenizer.json", "config.json"])
def test_load_refuses_a_model_file_that_is_a_pipe_or_a_device(folder, file):
    for make in (os.mkfifo, lambda path: path.symlink_to("/dev/zero")):
        (folder / file).unlink()
        make(folder / file)
        with pytest.raises(whence.WhenceError, match=r"no regular file|no config\.json"):
            whence.load(folder)


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        # 10 million are enough to tell: each label would be two strings in a dictionary, 2 GB.
        ("num_labels", 10**7, "num_labels=10,000,000.*rows"),
        ("num_labels", 1e15, "num_labels=1,000,000,000,000,000"),
        ("num_hidden_layers", 10**7, "num_hidden_layers=10,000,000"),
        ("vocab_size", 10**9, r"word_embeddings\.weight' would be \(1000000000, 32\) and is \(400, 32\)"),
        ("hidden_size", 10**6, "numbers, and its weights hold"),
        ("intermediate_size", 10**10, "numbers, and its weights hold"),
        ("max_position_embeddings", 10**10, "numbers, and its weights hold"),
    ],
)  # fmt: skip
def test_load_refuses_a_configuration_far_larger_than_the_weights(folder, setting, value, message):
    config = json.loads((folder / "config.json").read_text())
    for name in ("id2label", "label2id"):
        config.pop(name, None)
    (folder / "config.json").write_text(json.dumps({**config, setting: value}))
    with pytest.raises(UnknownModel, match=message) as refused:
        whence.load(folder)
    assert "\n" not in str(refused.value)


def test_load_takes_three_thousand_labels_that_the_weights_have(tmp_path):
    model = zoo.make("bert", dtype=torch.float32)
    config = type(model.config)(**{**model.config.to_dict(), "num_labels": 3000, "id2label": None})
    type(model)(config).save_pretrained(tmp_path)
    update_json(tmp_path / "config.json", num_labels=3000)
    assert len(whence.load(tmp_path).labels) == 3000


def test_load_with_a_vocab_size_unlike_the_weights_names_both_shapes(folder):
    update_json(folder / "config.json", vocab_size=300)
    with pytest.raises(UnknownModel, match=r"is \(400, 32\) there, and \(300, 32\) by the conf"):
        whence.load(folder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_load_model_takes_weights_of_every_floating_point_type(folder, dtype):
    zoo.make("bert", dtype=dtype).save_pretrained(folder)
    assert load_model(folder, dtype="float32").dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int32, torch.float8_e4m3fn])
def test_load_of_quantised_weights_raises_unknown_model_with_the_tensor_name(folder, dtype):
    weights = load_file(folder / WEIGHTS)
    weights["classifier.weight"] = (weights["classifier.weight"] * 100).to(dtype)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})
    with pytest.raises(UnknownModel, match=r"quantised \('classifier\.weight' is "):
        whence.load(folder)


def test_load_with_a_tokenizer_without_vocabulary_raises_bad_tokenizer(folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer.json").unlink()
    special = {
        f"{kind}_token": f"[{kind.upper()}]" for kind in ("unk", "sep", "pad", "cls", "mask")
    }
    config = {**config, **special, "tokenizer_class": "BertTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(BadTokenizer, match=r"knows 5 tokens.*embeddings of 400.*vocab\.txt"):
        whence.load(folder)
    bare = AutoTokenizer.from_pretrained(folder)
    with pytest.raises(BadTokenizer, match="knows 5 tokens"):
        whence.load(zoo.make("bert"), tokenizer=bare)
    # What it advises: the right one given, or none.
    assert whence.load(folder, tokenizer=wordpiece()).explain("a film").tokens[1].text == "a"
    (folder / "tokenizer_config.json").unlink()
    assert len(whence.load(folder).explain({"input_ids": [5, 6, 7]}).scores) == 3


def test_explain_warns_of_texts_whose_tokens_are_mostly_unknown(folder):
    explainer = whence.load(folder)
    with pytest.warns(UserWarning, match="does not know 2 of the 3 tokens of 'ꙮꙮ ☂☂ film'"):
        explainer.explain("ꙮꙮ ☂☂ film")
    with pytest.warns(UserWarning, match="most tokens of some of the texts"):
        explainer.explain(["a film", "ꙮꙮ ☂☂ film"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        explainer.explain(["a film", "a gripping ꙮꙮ film"])


@pytest.mark.parametrize("value", ["many", -1, 0, 0.5, float("nan"), True, [], "512"])
def test_load_with_a_model_max_length_that_is_no_count_raises_bad_tokenizer(folder, value):
    update_json(folder / "tokenizer_config.json", model_max_length=value)
    with pytest.raises(BadTokenizer, match=r"model_max_length is .*such as 512"):
        whence.load(folder)


@pytest.mark.parametrize(
    ("value", "limit"), [(16, 16), (16.0, 16), (1e30, 48), (None, 48), (1e999, 48)]
)
def test_load_model_max_length_is_the_smaller_limit_of_tokenizer_and_model(folder, value, limit):
    update_json(folder / "tokenizer_config.json", model_max_length=value)
    assert load_model(folder).max_length == limit


def test_load_removes_line_breaks_and_control_characters_from_labels(folder):
    update_json(
        folder / "config.json",
        id2label={"0": "very\r\n bad", "1": "\x1b[2Jgood\u2028", "2": "\n"},
        label2id={"very\r\n bad": 0, "\x1b[2Jgood\u2028": 1, "\n": 2},
    )
    explainer = whence.load(folder)
    assert explainer.labels == ("very bad", "[2Jgood", "LABEL_2")
    why = explainer.explain("a film", target="very bad")
    assert "for very bad, in logits" in str(why)
    assert set(why.prediction.probabilities) == set(explainer.labels)
    # Joiners within words, and spaces that do not break, are no line breaks.
    update_json(
        folder / "config.json", id2label={"0": "می\u200cخواهم", "1": "prix\xa0bas", "2": ""}
    )
    assert whence.load(folder).labels == ("می\u200cخواهم", "prix\xa0bas", "")


@pytest.mark.parametrize("whole", [True, False])
def test_load_of_an_adapter_raises_unknown_model_and_advises_to_merge(folder, whole):
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    if not whole:  # as peft writes it
        (folder / "config.json").unlink()
        (folder / WEIGHTS).rename(folder / "adapter_model.safetensors")
    with pytest.raises(UnknownModel, match=r"is an adapter.*merge_and_unload"):
        whence.load(folder)


def test_load_refuses_weights_on_the_meta_device_and_the_device_meta():
    with pytest.raises(UnknownModel, match=r"'bert\.embeddings.*meta device"):
        whence.load(zoo.make("bert").to("meta"))
    part = zoo.make("bert")
    part.classifier.to("meta")
    with pytest.raises(UnknownModel, match=r"'classifier\.weight' is on the meta device"):
        whence.load(part)
    for model in ("decoy", zoo.make("bert")):
        with pytest.raises(BadParameter, match="The device 'meta' cannot be used"):
            whence.load(model, device="meta")
