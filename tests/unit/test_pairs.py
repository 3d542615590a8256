"""Text pairs: models that accept them, truncation equal to the tokenizer's, and memory for very long pairs."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

import whence
from tests import zoo
from tests.unit.small_tokenizers import KINDS, TEXTS, byte_level, wordpiece
from whence.data.tokens import encode
from whence.explain.inputs import can_take_pairs


def together():
    """Return a tokenizer that puts the second text right behind the first."""
    found = copy.deepcopy(byte_level())
    found.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1")
    return found


@pytest.mark.parametrize(
    ("tokenizer", "wanted"), [(wordpiece, True), (byte_level, True), (together, False)]
)
def test_can_take_pairs_is_true_only_if_the_tokenizer_separates_the_texts(tokenizer, wanted):
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    assert can_take_pairs(whence.load(model, tokenizer=tokenizer()).loaded) is wanted


def test_can_take_pairs_is_false_for_a_model_of_one_segment_type():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    tokenizer = copy.deepcopy(wordpiece())
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert can_take_pairs(whence.load(model, tokenizer=tokenizer).loaded) is True
    model.config.type_vocab_size = 1
    assert can_take_pairs(whence.load(model, tokenizer=tokenizer).loaded) is False


def test_can_take_pairs_is_false_without_a_tokenizer():
    assert can_take_pairs(whence.load(zoo.make("bert")).loaded) is False


LONG = " ".join(TEXTS * 8)
SHORT = "don't watch it"


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("most", [16, 17, 63])
@pytest.mark.parametrize(
    "given",
    [
        (LONG, LONG[9:]),
        (LONG[9:], LONG),
        (LONG, LONG),
        (LONG, SHORT),
        (SHORT, LONG),
        (LONG, LONG[:300]),
    ],
    ids=["both long", "the second longer", "equal", "first", "second", "one and a half"],
)
@pytest.mark.parametrize("kind", KINDS)
def test_encode_truncates_a_long_pair_exactly_as_its_tokenizer_does(kind, given, most, side):
    """What cannot matter is cut off before; that must not show."""
    tokenizer = copy.deepcopy(KINDS[kind]())
    tokenizer.truncation_side = side
    found = encode(given, tokenizer, max_length=most, truncate=True)
    wanted = tokenizer(*given, truncation="longest_first", max_length=most)
    assert found.features["input_ids"] == tuple(wanted["input_ids"])
    for token in found.tokens:
        if not token.special:
            assert token.text == given[token.segment][token.start : token.end]
    everything = len(tokenizer(*given)["input_ids"])
    assert found.source.dropped == everything - len(found.tokens)


def test_explain_of_a_pair_of_50_000_characters_each_takes_under_300_megabytes():
    """The combinations of what was cut off took 7.4 GB: what all of it takes is measured in a process of its own."""
    script = """
import whence
from tests.peak import peak_kilobytes
explainer = whence.load("reviews")
explainer.explain(("a film", "a film"))
before = peak_kilobytes()
why = explainer.explain((". , ! ? ; : " * 4166, "? a " * 12500), truncate=True)
assert len(why.tokens) == 256
print(peak_kilobytes() - before)
"""
    # Here, where it goes wrong, no more of the machine's memory is taken than that.
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))"
    found = subprocess.run(
        [sys.executable, "-c", limit + script],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=Path(__file__).parents[2],
    )
    assert found.returncode == 0, found.stderr[-1000:]
    assert int(found.stdout) < 300_000  # kilobytes; 50,000 tokens as objects of Python are 50 MB
