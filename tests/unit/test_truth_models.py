"""Truth models, built with known evidence: logits, attention and gradients as their cards state; exact rebuild.

The closed forms here are written from the cards; nothing is taken from the script that builds the models, except in
the test that builds them again.
"""

from __future__ import annotations

import json
import math
import random
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import build_truth
import pytest
import torch
from bench.science.truth import list_cases
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

BUILTIN = Path(__file__).resolve().parents[2] / "src" / "whence" / "models" / "builtin"
NAMES = (
    *("conjunction", "negation", "copy", "redundancy"),
    *("saturation", "damper", "spotlight"),
)
LARGEST_FOLDER = 200_000
FILLERS: tuple[tuple[str, ...], ...] = ((), ("[MASK]",), ("[PAD]",), ("[UNK]",))
# A head that has found what it looks for leaves exp(-32) = 1e-14 of its attention to each other token: 1e-12 at 128
# of them, which the gain of 16 and a threshold or two make 1e-11.
TOLERANCE = 1e-10
# How loud a word is counts in `spotlight`, and is read by sqrt(8) / 2 as a float32: of 5 it takes 8e-8, of m at most
# half of that (m is a tanh), of a logit as much as of m.
ROUNDED = 1e-7

GOOD = {"good": 1, "great": 2, "bad": -1, "awful": -2}
LOUDNESS = {
    **dict.fromkeys(("superb", "brilliant", "great"), (1, 5.0)),
    **dict.fromkeys(("dreadful", "terrible", "awful"), (-1, 5.0)),
    **{"fresh": (1, 0.0), "warm": (1, 0.5), "bright": (1, 1.0), "smooth": (1, 1.5)},
    **{"stale": (-1, 0.0), "slow": (-1, 0.5), "pale": (-1, 1.0), "uneven": (-1, 1.5)},
}


def truth(name: str) -> dict[str, Any]:
    return json.loads((BUILTIN / name / "truth.json").read_text(encoding="utf-8"))


@cache
def tokenizer(name: str) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(BUILTIN / name)


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> PreTrainedModel:
    loaded = AutoModelForSequenceClassification.from_pretrained(
        BUILTIN / name, attn_implementation="eager"
    )
    return loaded.to(dtype).eval().requires_grad_(False)


def compute_positive_logits(
    name: str, texts: list[str], dtype: torch.dtype = torch.float64
) -> torch.Tensor:
    """The positive logits of texts; the negative ones must be their opposites."""
    coded = tokenizer(name)(texts, padding=True, return_tensors="pt")
    logits = model(name, dtype)(**coded).logits
    assert torch.equal(logits[:, 0], -logits[:, 1])
    return logits[:, 1]


def average(words: list[str], strengths: dict[str, float]) -> float:
    found = [strengths[word] for word in words if word in strengths]
    return sum(found) / len(found) if found else 0.0


def compute_card_value(name: str, words: list[str]) -> float:
    """f of the cards."""
    have = set(words)
    if name == "conjunction":
        return ({"warm", "funny"} <= have) + ({"tense", "clever"} <= have)
    if name == "negation":
        return average(words, GOOD) * (-1 / 2 if "not" in have else 1)
    if name == "copy":
        m = average(words, GOOD)
        return m * math.sqrt((m * m + 4) / (m * m + 12))
    if name == "redundancy":
        return float(bool(have & {"superb", "brilliant", "moving"}))
    if name == "saturation":
        story = average(words, {"gripping": 1, "tedious": -1})
        acting = average(words, {"convincing": 1, "wooden": -1})
        return min(1, max(-1, 2 * story)) + min(1, max(-1, 2 * acting)) / 2
    if name == "spotlight":
        found = [LOUDNESS[word] for word in words if word in LOUDNESS]
        weights = [math.exp(loudness) for _, loudness in found]
        said = sum(weight * side for weight, (side, _) in zip(weights, found, strict=True))
        return said / sum(weights) / 2 if found else 0.0
    assert name == "damper"
    return average(words, {**GOOD, "hardly": 0})


def logit(name: str, words: list[str]) -> float:
    f = compute_card_value(name, words)
    above = f - 0.5 if name in ("conjunction", "redundancy") else f
    return 16 * math.tanh(above / (4 * math.sqrt(f * f + 4)))


def random_texts(name: str, number: int, seed: int) -> list[list[str]]:
    """Words of all kinds, special ones and unknown ones among them, in any number and order."""
    draw = random.Random(seed)
    known = sorted(tokenizer(name).get_vocab())
    telling = [word for word in known if word not in truth(name)["neutral"] and word[0] != "["]
    pool = telling * 4 + known + ["zyzzyva"]
    return [draw.choices(pool, k=draw.randint(1, 126)) for _ in range(number)]


@pytest.mark.parametrize("name", NAMES)
def test_folder_of_each_truth_model_is_smaller_than_200_kilobytes(name: str) -> None:
    assert sum(path.stat().st_size for path in (BUILTIN / name).iterdir()) < LARGEST_FOLDER


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_the_closed_form_of_the_card(name: str) -> None:
    texts = random_texts(name, 200, seed=1)
    aims = torch.tensor([logit(name, words) for words in texts], dtype=torch.float64)
    assert len(set(aims.tolist())) > 1
    found = compute_positive_logits(name, [" ".join(words) for words in texts])
    within = ROUNDED if name == "spotlight" else TOLERANCE
    assert torch.allclose(found, aims, rtol=0, atol=within)
    single = compute_positive_logits(name, [" ".join(words) for words in texts], torch.float32)
    # float32 rounds at 6e-8; some dozens of steps and the gain of 16 make some 1e-5 of it.
    assert torch.allclose(single.double(), aims, rtol=0, atol=1e-4)


def effects(name: str, words: list[str], filler: tuple[str, ...]) -> list[list[float]]:
    """For each word, what it adds to the positive logit beside every selection of the other words."""
    kept = list(product((False, True), repeat=len(words)))
    texts = [
        " ".join(
            w for word, keep in zip(words, row, strict=True) for w in ((word,) if keep else filler)
        )
        for row in kept
    ]
    value = dict(zip(kept, compute_positive_logits(name, texts).tolist(), strict=True))
    return [
        [value[row] - value[(*row[:i], False, *row[i + 1 :])] for row in kept if row[i]]
        for i in range(len(words))
    ]


@pytest.mark.parametrize("filler", FILLERS, ids=["delete", "mask", "pad", "unk"])
@pytest.mark.parametrize("name", ["decoy", *NAMES])
def test_evidence_of_truth_sentences_is_the_words_that_change_the_logit(
    name: str, filler: tuple[str, ...]
) -> None:
    for case in list_cases(name):
        words = case.text.split()
        found: dict[str, int] = {}
        for word, added in zip(words, effects(name, words, filler), strict=True):
            rises, falls = max(added) > 0.01, min(added) < -0.01
            # Nothing in between: an effect is large, or it is rounding.
            assert all(abs(one) > 0.01 or abs(one) < TOLERANCE for one in added)
            if rises or falls:
                found[word] = rises - falls
        assert found == case.evidence, case.text


@pytest.mark.parametrize("name", NAMES)
def test_truth_sentences_and_neutral_words_tokenize_to_whole_known_words(name: str) -> None:
    split, known = tokenizer(name), truth(name)
    texts = [sentence["text"] for sentence in known["sentences"]]
    assert len(texts) == len(set(texts)) >= 6
    for text in [*texts, " ".join(known["neutral"])]:
        assert split.tokenize(text.upper()) == text.split()
        assert "[UNK]" not in split.convert_ids_to_tokens(split(text)["input_ids"])


def test_conjunction_model_ignores_either_word_of_a_pair_alone() -> None:
    none, *alone = compute_positive_logits(
        "conjunction", ["a film", "a warm film", "a funny film", "tense , warm", "warm warm"]
    ).tolist()
    assert alone == pytest.approx([none] * len(alone), abs=TOLERANCE)
    assert none < 0 < compute_positive_logits("conjunction", ["a warm and funny film"]).item()


def test_negation_model_flips_the_sign_and_ignores_a_negation_alone() -> None:
    none, alone, good, bad, not_good, not_bad = compute_positive_logits(
        "negation", ["a film", "not a film", "good", "bad", "not good", "bad , not"]
    ).tolist()
    assert none == pytest.approx(0, abs=TOLERANCE) and alone == pytest.approx(0, abs=TOLERANCE)
    assert good > 0 > bad and not_good < 0 < not_bad


def forward(name: str, text: str) -> tuple[list[str], Any]:
    coded = tokenizer(name)(text, return_tensors="pt")
    out = model(name)(**coded, output_attentions=True, output_hidden_states=True)
    return tokenizer(name).convert_ids_to_tokens(coded["input_ids"][0].tolist()), out


def test_last_layer_of_copy_attends_to_the_carrier_and_not_to_the_evidence() -> None:
    for sentence in truth("copy")["sentences"]:
        tokens, out = forward("copy", sentence["text"])
        first, last = (layer[0, :, 0].mean(0) for layer in out.attentions)
        assert last[tokens.index("overall")] > 0.9
        for word in sentence["evidence"]:
            assert last[tokens.index(word)] < 0.02
        evidence = sum(first[tokens.index(word)] for word in sentence["evidence"])
        assert evidence == pytest.approx(1, abs=TOLERANCE)


def test_damper_word_receives_attention_and_has_a_zero_value_vector() -> None:
    tokens, out = forward("damper", "the film is hardly good")
    place = tokens.index("hardly")
    assert out.attentions[0][0, :, 0, place].tolist() == pytest.approx([0.5] * 4, abs=TOLERANCE)
    values = model("damper").bert.encoder.layer[0].attention.self.value(out.hidden_states[0][0])
    assert not values[place].any()
    assert values[tokens.index("good")].any()


def test_spotlight_attention_weights_equal_the_contributions_of_the_words() -> None:
    tokens, out = forward("spotlight", "a superb film , stale slow pale and uneven")
    values = model("spotlight").bert.encoder.layer[0].attention.self.value(out.hidden_states[0][0])
    sizes = values.abs().sum(-1)
    telling = [tokens.index(word) for word in ("superb", "stale", "slow", "pale", "uneven")]
    rest = [place for place in range(len(tokens)) if place not in telling]
    # s_w / 2, a quarter of it in each of the four heads, and its opposite beside it
    assert sizes[telling].tolist() == [1.0] * 5 and not values[rest].any()
    loud, *quiet = (math.exp(loudness) for loudness in (5, 0, 0.5, 1, 1.5))
    weights = torch.tensor([loud, *quiet], dtype=torch.float64) / (loud + sum(quiet))
    assert weights[0] > 0.93
    for head in out.attentions[0][0, :, 0]:
        assert torch.allclose(head[telling], weights, rtol=0, atol=ROUNDED)


def test_redundancy_model_is_unchanged_without_either_of_two_words() -> None:
    both, first, second, none = compute_positive_logits(
        "redundancy", ["a superb and brilliant film", "a superb film", "brilliant", "a film"]
    ).tolist()
    assert first == pytest.approx(both, abs=TOLERANCE)
    assert second == pytest.approx(both, abs=TOLERANCE)
    assert none < 0 < both


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_evidence_vanish_in_the_saturation_model_only(name: str) -> None:
    for sentence in truth(name)["sentences"]:
        coded = tokenizer(name)(sentence["text"], return_tensors="pt")
        vectors = model(name).get_input_embeddings()(coded["input_ids"]).requires_grad_()
        out = model(name)(inputs_embeds=vectors, attention_mask=coded["attention_mask"])
        (slope,) = torch.autograd.grad(out.logits[0, 1], vectors)
        tokens = tokenizer(name).convert_ids_to_tokens(coded["input_ids"][0].tolist())
        for place, token in enumerate(tokens[1:-1], start=1):
            if name == "saturation":
                assert slope[0, place].abs().max() < 1e-12  # rounding
            elif token in sentence["evidence"]:
                assert slope[0, place].abs().max() > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_build_truth_rebuilds_each_shipped_folder_to_the_byte(name: str, tmp_path: Path) -> None:
    build_truth.write_folder(build_truth.MODELS[name], tmp_path)
    shipped = {path.name: path.read_bytes() for path in (BUILTIN / name).iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == shipped


def test_build_truth_lists_exactly_the_tested_models() -> None:
    assert tuple(build_truth.MODELS) == NAMES
