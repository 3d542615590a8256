"""Built-in models: files, tokenizers, cards; accuracy of reviews; decoy's logits and attention as constructed."""

from __future__ import annotations

import importlib.util
import json
import sys
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from whence.models.model_files import BUILTIN as CATALOGUE

ROOT = Path(__file__).resolve().parents[2]
BUILTIN = ROOT / "src" / "whence" / "models" / "builtin"
SST2_DEV = ROOT.parent / "shared" / "data" / "sst2_glue" / "dev.tsv"
NAMES = (
    *("reviews", "reviews-base", "decoy"),
    *("conjunction", "negation", "copy", "redundancy", "saturation", "damper", "spotlight"),
)
PICTURES = "shapes"  # takes no text; test_shapes.py is about it
LARGEST_FOLDER = 8_000_000
LABELS = {0: "negative", 1: "positive"}


@cache
def tokenizer(name: str) -> PreTrainedTokenizerBase:
    return AutoTokenizer.from_pretrained(BUILTIN / name)


@cache
def model(name: str) -> PreTrainedModel:
    kind = AutoModelForMaskedLM if name == "reviews-base" else AutoModelForSequenceClassification
    return kind.from_pretrained(BUILTIN / name).eval()


@cache
def decoy() -> PreTrainedModel:
    """The decoy in float64, with attention that can be looked at."""
    loaded = AutoModelForSequenceClassification.from_pretrained(
        BUILTIN / "decoy", attn_implementation="eager"
    )
    return loaded.double().eval().requires_grad_(False)


@cache
def build_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "build_decoy", ROOT / "scripts" / "build_decoy.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def tensors(name: str) -> dict[str, tuple[int, ...]]:
    """Name and shape of every stored tensor."""
    with safe_open(BUILTIN / name / "model.safetensors", "pt") as stored:
        return {key: tuple(stored.get_slice(key).get_shape()) for key in stored.keys()}  # noqa: SIM118


# --- all folders -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_builtin_folder_has_all_files_and_at_most_eight_megabytes(name: str) -> None:
    files = {path.name: path.stat().st_size for path in (BUILTIN / name).iterdir()}
    needed = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert needed | {"README.md"} <= set(files)
    assert sum(files.values()) <= LARGEST_FOLDER


@pytest.mark.parametrize("name", NAMES)
def test_builtin_model_and_tokenizer_load_without_a_warning(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tokenizer.__wrapped__(name)
        model.__wrapped__(name)
    said = "".join(capfd.readouterr()).lower()
    for word in ("warn", "missing", "unexpected", "newly initialized", "mismatch"):
        assert word not in said


@pytest.mark.parametrize("name", NAMES)
def test_builtin_tokenizer_has_special_tokens_first_and_frames_texts(name: str) -> None:
    split = tokenizer(name)
    assert split.convert_ids_to_tokens(range(5)) == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert split.mask_token_id == 4 and split.pad_token_id == 0
    assert split("A", "a")["input_ids"] == split("a", "A")["input_ids"]
    single = split.convert_ids_to_tokens(split("the film")["input_ids"])
    assert single == ["[CLS]", "the", "film", "[SEP]"]
    assert split("the", "film")["token_type_ids"] == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "reviews-base"])
def test_builtin_classifier_labels_are_negative_and_positive(name: str) -> None:
    assert model(name).config.id2label == LABELS
    assert model(name).config.label2id == {label: number for number, label in LABELS.items()}


def test_catalogue_equals_the_shipped_folders_of_models() -> None:
    assert set(CATALOGUE) == {*NAMES, PICTURES}
    assert {path.name for path in BUILTIN.iterdir() if path.is_dir()} == {*NAMES, PICTURES}


@pytest.mark.parametrize("name", [*NAMES, PICTURES])
def test_builtin_model_card_states_licence_and_limits(name: str) -> None:
    card = (BUILTIN / name / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card
    assert "Limits" in card


# --- reviews and reviews-base ----------------------------------------------------------------


def predict_labels(texts: list[str]) -> list[int]:
    coded = tokenizer("reviews")(texts, padding=True, return_tensors="pt")
    with torch.inference_mode():
        return model("reviews")(**coded).logits.argmax(-1).tolist()


def test_reviews_is_right_on_80_percent_of_sst2_dev_rows() -> None:
    if not SST2_DEV.exists():
        pytest.skip("needs ../shared/data/sst2_glue, which is not here")
    lines = SST2_DEV.read_text(encoding="utf-8").splitlines()[1::4]
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    assert len(texts) >= 200
    right = sum(
        guess == int(label)
        for guess, label in zip(predict_labels(list(texts)), labels, strict=True)
    )
    assert right / len(texts) >= 0.80


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A warm, funny and beautifully acted film.", 1),
        ("One of the best movies of the year.", 1),
        ("I loved every minute of it.", 1),
        ("A moving and thoughtful drama.", 1),
        ("A dull, lifeless mess.", 0),
        ("The plot is stupid and the acting is terrible.", 0),
        ("A waste of time.", 0),
        ("Tedious, predictable and badly written.", 0),
    ],
)
def test_reviews_predicts_the_sentiment_of_plain_sentences(text: str, label: int) -> None:
    assert predict_labels([text]) == [label]


@pytest.mark.parametrize(
    ("text", "some_of"),
    [
        ("a truly [MASK] film", {"funny", "good", "great", "bad", "moving", "compelling", "fun"}),
        ("[MASK] film is a mess .", {"the", "a", "this"}),
        ("it is one of [MASK] best films of the year .", {"the"}),
        ("a film that is both funny [MASK] sad", {"and"}),
    ],
)
def test_reviews_base_fills_masks_with_fitting_words(text: str, some_of: set[str]) -> None:
    split = tokenizer("reviews-base")
    coded = split(text, return_tensors="pt")
    place = coded["input_ids"][0].tolist().index(split.mask_token_id)
    with torch.inference_mode():
        scores = model("reviews-base")(**coded).logits[0, place]
    assert some_of & set(split.convert_ids_to_tokens(scores.topk(20).indices.tolist()))


def test_reviews_and_reviews_base_share_tokenizer_and_encoder_shapes() -> None:
    files = [(BUILTIN / name / "tokenizer.json").read_bytes() for name in NAMES[:2]]
    assert files[0] == files[1]
    fine, base = tensors("reviews"), tensors("reviews-base")
    encoder = {key: shape for key, shape in base.items() if key.startswith("bert.")}
    assert encoder
    added = {key for key in fine if key.startswith(("bert.pooler.", "classifier."))}
    assert encoder == {key: shape for key, shape in fine.items() if key not in added}


# --- decoy -----------------------------------------------------------------------------------

TRUTH = json.loads((BUILTIN / "decoy" / "truth.json").read_text(encoding="utf-8"))
EVIDENCE: dict[str, int] = TRUTH["evidence"]
DECOY: str = TRUTH["decoy"]
IDLE = [DECOY, *TRUTH["neutral"], "[UNK]", "[MASK]", "zyzzyva"]
# The only inexact steps in float64 are a few dozen roundings (1e-16 each) and LayerNorm's epsilon
# of 1e-16 against a variance that 40 decoys bring down to about 3e-5: 2e-12 of the logit.
TOLERANCE = 1e-10

evidence_words = st.lists(st.sampled_from(sorted(EVIDENCE)), max_size=10)
idle_words = st.lists(st.sampled_from(IDLE), max_size=30)


def decoy_logits(words: list[str], pair: list[str] | None = None) -> list[float]:
    texts = [" ".join(part) for part in (words, pair) if part is not None]
    return decoy()(**tokenizer("decoy")(*texts, return_tensors="pt")).logits[0].tolist()


def test_decoy_tokenizer_leaves_its_words_whole_and_maps_others_to_unk() -> None:
    split = tokenizer("decoy")
    words = [*EVIDENCE, DECOY, *TRUTH["neutral"]]
    assert split.tokenize(" ".join(words).upper()) == words
    assert split.tokenize("zyzzyva good") == ["[UNK]", "good"]
    assert len(words) == len(set(words))
    assert set(EVIDENCE.values()) == {-3, -2, -1, 1, 2, 3}


@settings(max_examples=30, deadline=None)
@given(evidence=evidence_words, idle=idle_words, order=st.randoms(use_true_random=False))
def test_decoy_logits_depend_on_evidence_alone(evidence, idle, order) -> None:
    words = evidence + idle
    order.shuffle(words)
    found = decoy_logits(words)
    strength = sum(EVIDENCE[word] for word in evidence)
    aim = build_script().compute_logit(strength)
    assert found == pytest.approx([-aim, aim], rel=TOLERANCE, abs=TOLERANCE)
    assert found == pytest.approx(decoy_logits(evidence), rel=TOLERANCE, abs=TOLERANCE)
    assert found[1] - found[0] == pytest.approx(strength, rel=2e-3, abs=TOLERANCE)


def test_decoy_logits_do_not_depend_on_the_number_of_decoys() -> None:
    alone = decoy_logits(["great", "dull"])
    for count in (1, 5, 40):
        crowd = decoy_logits(["great", *[DECOY] * count, "dull"])
        assert crowd == pytest.approx(alone, rel=TOLERANCE)


def test_decoy_logits_ignore_padding_and_agree_in_float32() -> None:
    texts = ["superb", "the film is awful , decoy", "decoy " * 60 + "good"]
    coded = tokenizer("decoy")(texts, padding=True, return_tensors="pt")
    compute_logit = build_script().compute_logit
    expected = [compute_logit(3), compute_logit(-2), compute_logit(1)]
    assert decoy()(**coded).logits[:, 1].tolist() == pytest.approx(expected, rel=TOLERANCE)
    with torch.inference_mode():
        single = model("decoy")(**coded).logits[:, 1].tolist()
    # The reference is 512 times a strength of 1, so float32's 6e-8 grows to some 1e-5.
    assert single == pytest.approx(expected, rel=1e-4)


def test_decoy_logit_difference_halves_for_pairs() -> None:
    aim = build_script().compute_logit(3 - 1, separators=2)
    found = decoy_logits(["superb", DECOY], ["the", "dull", "film"])
    assert found == pytest.approx([-aim, aim], rel=TOLERANCE)
    assert found[1] - found[0] == pytest.approx((3 - 1) / 2, rel=2e-3)


@settings(max_examples=25, deadline=None)
@given(
    words=st.lists(st.sampled_from([*EVIDENCE, *IDLE[1:]]), max_size=29),
    at=st.integers(min_value=0, max_value=29),
)
def test_decoy_token_takes_most_attention_and_has_zero_value_vectors(words, at) -> None:
    words.insert(at, DECOY)
    coded = tokenizer("decoy")(" ".join(words), return_tensors="pt")
    tokens = tokenizer("decoy").convert_ids_to_tokens(coded["input_ids"][0].tolist())
    place = tokens.index(DECOY)
    out = decoy()(**coded, output_attentions=True, output_hidden_states=True)
    for layer, block in enumerate(decoy().bert.encoder.layer):
        assert out.attentions[layer][0, :, :, place].min() >= 0.8
        values = block.attention.self.value(out.hidden_states[layer][0])
        assert not values[place].any()
        if layer == 0:
            carriers = {i for i, token in enumerate(tokens) if token in (*EVIDENCE, "[SEP]")}
            assert carriers == set(values.any(-1).nonzero().flatten().tolist())
    assert not out.hidden_states[0][0, 0].any()  # [CLS] enters as zero


def test_decoy_gradient_times_input_is_proportional_to_the_evidence() -> None:
    words = ["the", DECOY, "film", "is", "superb", "but", "dull"]
    split = tokenizer("decoy")
    coded = split(" ".join(words), return_tensors="pt")
    vectors = decoy().get_input_embeddings()(coded["input_ids"]).requires_grad_()
    logits = decoy()(inputs_embeds=vectors, attention_mask=coded["attention_mask"]).logits[0]
    (slope,) = torch.autograd.grad(logits[1] - logits[0], vectors)
    scores = (slope * vectors).sum(-1)[0, 1:-1].tolist()
    assert scores == pytest.approx(
        [36 / 64 * EVIDENCE.get(w, 0) for w in words], rel=1e-3, abs=1e-9
    )


def test_decoy_effect_of_removing_a_word_equals_its_strength() -> None:
    words = ["superb", "a", DECOY, "dull", "moving"]
    whole = decoy_logits(words)
    for number, word in enumerate(words):
        rest = words[:number] + words[number + 1 :]
        effect = whole[1] - whole[0] - (decoy_logits(rest)[1] - decoy_logits(rest)[0])
        assert effect == pytest.approx(EVIDENCE.get(word, 0), rel=3e-4, abs=1e-9)
        masked = [*words[:number], "[MASK]", *words[number + 1 :]]
        assert decoy_logits(masked) == pytest.approx(decoy_logits(rest), rel=TOLERANCE)


def test_build_decoy_script_rebuilds_the_shipped_folder_to_the_byte(tmp_path: Path) -> None:
    build_script().write_folder(tmp_path)
    shipped = {path.name: path.read_bytes() for path in (BUILTIN / "decoy").iterdir()}
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == shipped
