"""Whether two texts can be given to a model, and whether they must be."""

import copy
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers.processors import TemplateProcessing

import whence
from tests import zoo
from tests.unit.tokenizers import KINDS, TEXTS, byte_level, wordpiece
from whence.data import encode
from whence.explainer.intake import takes_pairs


def together():
    """Return a tokenizer that puts the second text right behind the first."""
    found = copy.deepcopy(byte_level())
    found.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B:1")
    return found


@pytest.mark.parametrize(
    ("tokenizer", "wanted"), [(wordpiece, True), (byte_level, True), (together, False)]
)
def test_two_texts_can_be_given_where_the_tokenizer_keeps_them_apart(tokenizer, wanted):
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    assert takes_pairs(whence.load(model, tokenizer=tokenizer()).loaded) is wanted


def test_a_model_of_one_segment_takes_no_pairs():
    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    tokenizer = copy.deepcopy(wordpiece())
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    assert takes_pairs(whence.load(model, tokenizer=tokenizer).loaded) is True
    model.config.type_vocab_size = 1
    assert takes_pairs(whence.load(model, tokenizer=tokenizer).loaded) is False


def test_a_model_without_a_tokenizer_takes_no_pairs():
    assert takes_pairs(whence.load(zoo.make("bert")).loaded) is False


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
def test_a_long_pair_is_cut_as_its_tokenizer_cuts_it(kind, given, most, side):
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


def test_two_texts_of_50_000_characters_take_no_gigabytes():
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
