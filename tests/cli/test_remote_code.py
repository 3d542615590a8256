"""Remote code in a model folder: never run, even with a yes on standard input; unusable configs are refused."""

import json
import subprocess
import sys

import pytest
import torch
import transformers as hf

from tests import zoo
from tests.unit.small_tokenizers import wordpiece

real = pytest.mark.xdist_group("app")  # those that start processes share one that starts them


@pytest.fixture
def trap(tmp_path):
    """Where the code of the author would leave a mark."""
    return tmp_path / "sprung"


@pytest.fixture
def folder(tmp_path, trap):
    """A model folder with a tokenizer, and code of its author beside it."""
    folder = tmp_path / "m"
    model = zoo.make("bert", dtype=torch.float32)
    model.resize_token_embeddings(400)
    model.save_pretrained(folder)
    wordpiece().save_pretrained(folder)
    (folder / "evil.py").write_text(
        f"open({str(trap)!r}, 'w').close()\n"
        "from transformers import BertForSequenceClassification, PreTrainedTokenizerFast\n"
        "class Model(BertForSequenceClassification): pass\n"
        "class Tokenizer(PreTrainedTokenizerFast): pass\n"
    )
    return folder


def change(path, **values):
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def run_answering_yes(folder, *arguments):
    """Run a real command with a yes to every question on its standard input; return status and output."""
    done = subprocess.run(
        [sys.executable, "-m", "whence", *arguments, "--model", str(folder)],
        input="y\nyes\n1\n" * 20,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


PYTHON = """
import sys, whence
try:
    whence.load(sys.argv[-1])
except whence.WhenceError as error:
    print(error)
    sys.exit(error.exit_status)
"""


def load_answering_yes(folder):
    """Load the model in a real process with a yes to every question on its standard input."""
    done = subprocess.run(
        [sys.executable, "-c", PYTHON, str(folder)],
        input="y\nyes\n1\n" * 20,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


AUTO = ["AutoModelForSpeechSeq2Seq", "AutoModelForSequenceClassification", "AutoModel"]


@real
@pytest.mark.parametrize("named", AUTO)
def test_an_auto_class_runs_no_code_of_the_author_though_standard_input_says_yes(
    folder, trap, named
):
    change(folder / "config.json", architectures=[named], auto_map={named: "evil.Model"})
    status, said = run_answering_yes(folder, "explain", "a film")
    assert (status, f"the class '{named}'" in said) == (30, True), said
    assert "[y/N]" not in said
    assert not trap.exists()


@real
def test_neither_the_doctor_nor_python_runs_code_of_the_author(folder, trap):
    named = "AutoModelForSpeechSeq2Seq"
    change(folder / "config.json", architectures=[named], auto_map={named: "evil.Model"})
    for status, said in (run_answering_yes(folder, "doctor"), load_answering_yes(folder)):
        assert status == 30
        assert "[y/N]" not in said
    assert not trap.exists()


@real
def test_a_part_of_a_composed_model_runs_no_code_of_the_author(folder, trap):
    """The class of a decoder is chosen by its configuration, deep inside of transformers."""
    encoder = json.loads((folder / "config.json").read_text())
    # There is no language model of pictures, so that transformers would turn to the author's.
    decoder = {
        **hf.ViTConfig(hidden_size=32, num_hidden_layers=1, num_attention_heads=2).to_dict(),
        "auto_map": {"AutoModelForCausalLM": "evil.Model"},
        "_name_or_path": str(folder),
        "name_or_path": str(folder),
        "is_decoder": True,
    }
    composed = {
        "model_type": "encoder-decoder",
        "architectures": ["EncoderDecoderModel"],
        "is_encoder_decoder": True,
        "encoder": encoder,
        "decoder": decoder,
    }
    (folder / "config.json").write_text(json.dumps(composed))
    status, said = run_answering_yes(folder, "explain", "a film")
    assert status in (30, 31), said
    assert "[y/N]" not in said
    assert not trap.exists()


@real
@pytest.mark.parametrize("file", ["tokenizer_config.json", "config.json"])
def test_a_tokenizer_runs_no_code_of_the_author(folder, trap, file):
    change(folder / "tokenizer_config.json", tokenizer_class="Tokenizer")
    change(folder / file, auto_map={"AutoTokenizer": ["evil.Tokenizer", "evil.Tokenizer"]})
    _, said = run_answering_yes(folder, "explain", "a film")
    assert "[y/N]" not in said
    assert not trap.exists()


def test_explain_with_a_hub_kernel_in_the_config_exits_31(folder, run):
    change(folder / "config.json", attn_implementation="somebody/their-kernel:attention")
    status, _, err = run("explain", "a film", "--model", folder)
    assert status == 31
    assert "somebody/their-kernel" in err


ODD = [
    "BertForSequenceClassification", 5, True, {"a": 1}, [5], [None], [["BertModel"]], [{}], [""],
    ["torch"], ["logging"], ["pipeline"], ["BertTokenizer"], ["BertConfig"], ["BertPreTrainedModel"],
    ["PreTrainedModel"], ["NoSuchModel"], ["__name__"], ["utils"],
]  # fmt: skip


@pytest.mark.parametrize("value", ODD, ids=repr)
def test_architectures_that_name_no_model_are_refused_in_one_line(folder, run, value):
    change(folder / "config.json", architectures=value)
    status, out, err = run("explain", "a film", "--model", folder)
    assert (status, out, err.count("\n")) == (30, "", 1), err


@pytest.mark.parametrize("value", [None, []])
def test_config_without_architectures_exits_34_in_one_line(folder, run, value):
    change(folder / "config.json", architectures=value)
    status, _, err = run("explain", "a film", "--model", folder)
    assert (status, err.count("\n")) == (34, 1), err
