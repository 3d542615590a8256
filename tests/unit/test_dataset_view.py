"""Data set views: predictions, word scores and head habits against arithmetic on a model with known logits."""

import math
import re

import numpy as np
import pytest
import torch
from draw_shapes import draw_scene
from PIL import Image
from transformers import GPT2Config, GPT2ForSequenceClassification

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.app.schema import Habits, PredictionTable, WordsByClass
from whence.core.errors import BadPicture, EmptyText, NoHead, UnknownMethod
from whence.flow.heads import POSITION_KINDS, compute_special_mass
from whence.stats.intervals import Interval, bootstrap_columns
from whence.studies.compare.dataset_view import (
    _build_head_row,
    predict_dataset,
    summarise_heads,
    summarise_words,
)

# In `decoy` the difference of the logits is S, the sum of the strengths, less S^2 / (2 512^2) of it (its README
# has the formula): 5e-5 where |S| is 3, and as many nats, or 7e-5 bits.
NEAR = 1e-4


@pytest.fixture(scope="module")
def decoy():
    return whence.load("decoy", dtype="float64")


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews")


def rows(*pairs):
    return [{"text": text, "label": label} for text, label in pairs]


def test_predict_dataset_surprise_is_the_negative_log2_probability_of_the_true_label(decoy):
    found = predict_dataset(
        decoy, rows(("good film", "positive"), ("superb", "negative"), ("bad", "negative"))
    )
    PredictionTable.model_validate(found)
    # p(positive) = 1 / (1 + e^-S): S is 1, 3, -1; -log2 of what the true label got.
    surprise = [
        math.log2(1 + math.exp(-1)),
        math.log2(1 + math.exp(3)),
        math.log2(1 + math.exp(-1)),
    ]
    assert [row["surprise"] for row in found["rows"]] == pytest.approx(surprise, abs=NEAR)
    assert [row["predicted"] for row in found["rows"]] == ["positive", "positive", "negative"]
    assert [row["right"] for row in found["rows"]] == [True, False, True]
    assert found["confusion"] == [[1, 1], [0, 1]]  # true x predicted, negative first
    assert found["accuracy"] == {"mean": 2 / 3, "low": None, "high": None, "n": 3}
    assert found["left_out"] == []


def test_predict_dataset_without_labels_reports_the_entropy_as_surprise(decoy):
    found = predict_dataset(decoy, ["film", "good"])
    share = 1 / (1 + math.exp(-1))
    bits = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    assert [row["surprise"] for row in found["rows"]] == pytest.approx([1, bits], abs=NEAR)
    assert found["accuracy"] is found["confusion"] is None
    assert "entropy" in found["surprise"]
    assert all(row["right"] is None and row["label"] is None for row in found["rows"])


def test_predict_dataset_resolves_numeric_labels_and_does_not_judge_unlabelled_rows(decoy):
    found = predict_dataset(
        decoy, [*rows(("good", "1"), ("bad", "1")), {"text": "fine", "label": None}]
    )
    assert [row["label"] for row in found["rows"]] == ["positive", "positive", None]
    assert [row["right"] for row in found["rows"]] == [True, False, None]
    assert found["rows"][2]["surprise"] is None
    assert found["accuracy"]["n"] == 2


def test_predict_dataset_with_unknown_labels_reports_them_and_no_accuracy(decoy):
    found = predict_dataset(decoy, rows(("good", "sports"), ("bad", "politics")))
    assert found["accuracy"] is None
    assert [row["label"] for row in found["rows"]] == ["sports", "politics"]
    (said,) = found["left_out"]
    assert "'sports'" in said
    assert "entropy" in found["surprise"]


def test_predict_dataset_accuracy_interval_is_that_of_clopper_and_pearson(decoy):
    found = predict_dataset(decoy, rows(*[("good", "positive")] * 9, ("bad", "positive")))
    # Clopper & Pearson, 9 of 10.
    assert found["accuracy"]["mean"] == 0.9
    assert found["accuracy"]["low"] == pytest.approx(0.5550, abs=5e-5)
    assert found["accuracy"]["high"] == pytest.approx(0.9975, abs=5e-5)


def test_predict_dataset_with_a_limit_takes_the_first_rows_and_reports_omissions(decoy):
    found = predict_dataset(decoy, ["good", "", "bad", "fine"], limit=3)
    assert [row["number"] for row in found["rows"]] == [0, 2]
    assert found["given"] == 4
    first, second = found["left_out"]
    assert first == "Only the first 3 of 4 rows were taken."
    assert second == "1 row was left out (number 1): The text '' is empty. Give at least one word."


def test_predict_dataset_truncates_long_texts_and_counts_them(reviews):
    found = predict_dataset(reviews, ["good", "very " * 400, "too long " * 400])
    assert len(found["rows"]) == 3
    assert found["left_out"] == ["2 rows were cut to the 256 tokens that the model takes."]


def test_predict_dataset_equals_explainer_predictions_in_the_order_of_the_file(reviews):
    # More than are taken at a time, of many lengths.
    texts = [("a film " * (1 + i % 7)) + ("good", "dull")[i % 2] for i in range(150)]
    found = predict_dataset(reviews, texts, limit=None)
    assert [row["number"] for row in found["rows"]] == list(range(150))
    for number in (0, 1, 77, 149):
        one = reviews.predict(texts[number])
        assert found["rows"][number]["text"] == texts[number]
        assert found["rows"][number]["predicted"] == one.label
        # float32, in batches of another shape.
        assert found["rows"][number]["probability"] == pytest.approx(one.probability, abs=1e-5)


def test_predict_dataset_of_empty_texts_raises_empty_text(decoy):
    with pytest.raises(EmptyText, match="None of the 2 examples"):
        predict_dataset(decoy, ["", " "])


def test_summarise_words_shares_are_signed_and_add_up_over_repeated_words(decoy):
    # Gradient x input is proportional to the strength. Shares by text:
    #   0 "good film":           good 1,   film 0
    #   1 "Good GOOD bad film":  good 2/3, bad -1/3, film 0
    #   2 "great good":          great 2/3, good 1/3
    #   3 "bad":                 bad 1, for negative
    texts = ["good film", "Good GOOD bad film", "great good", "bad"]
    found = summarise_words(decoy, texts, method="grad_x_input", least=1)
    WordsByClass.model_validate(found)
    negative, positive = found["classes"]
    assert (negative["predicted"], positive["predicted"]) == (1, 3)
    means = {one["word"]: (one["score"]["mean"], one["score"]["n"]) for one in positive["words"]}
    # The strongest first; of equals the first by the alphabet.
    assert list(means) == ["good", "great", "bad", "film"]
    expected = {"good": (2 / 3, 3), "great": (2 / 3, 1), "bad": (-1 / 3, 1), "film": (0, 2)}
    for word, (mean, n) in expected.items():
        assert means[word] == (pytest.approx(mean, abs=NEAR), n)
    assert [one["word"] for one in negative["words"]] == ["bad"]
    assert negative["words"][0]["score"] == {
        "mean": pytest.approx(1),
        "low": None,
        "high": None,
        "n": 1,
    }
    # Texts by how much the word weighs there.
    assert positive["words"][0]["examples"] == [0, 1, 2]
    assert found["signed"]
    # Even shares: 1/2, 1/4, 1/2, 1.
    assert f"{(0.5 + 0.25 + 0.5 + 1) / 4:.3f}" in found["note"]


def test_summarise_words_leaves_out_rare_words_and_texts_with_zero_scores(decoy):
    found = summarise_words(decoy, ["good film", "good", "film"], method="grad_x_input", least=2)
    assert found["used"] == 2
    assert found["left_out"] == [
        "1 row was left out (number 2): grad_x_input gives every word a score of 0."
    ]
    assert [one["word"] for one in found["classes"][1]["words"]] == ["good"]


def test_summarise_words_lists_at_most_fifty_words_with_means_inside_their_intervals(reviews):
    texts = [f"{'good' if i % 3 else 'dull'} w{i} w{i + 1}" for i in range(120)]
    found = summarise_words(reviews, texts, limit=100, least=1)
    assert found["used"] == 100
    for one in found["classes"]:
        assert len(one["words"]) <= 50
        sizes = [abs(word["score"]["mean"]) for word in one["words"]]
        assert sizes == sorted(sizes, reverse=True)
        for word in one["words"]:
            score = word["score"]
            assert score["n"] < 5 or score["low"] <= score["mean"] <= score["high"]
            assert all(word["word"] in texts[i].split() for i in word["examples"])
    assert sum(one["predicted"] for one in found["classes"]) == 100
    assert summarise_words(reviews, texts, limit=100, least=1) == found


def test_summarise_heads_equals_a_plain_loop_over_the_attention_maps(decoy):
    # No word comes twice and none is cut, so: special, itself, previous, next, punctuation, other.
    texts = ["good , film", "a dull decoy"]
    found = summarise_heads(decoy, texts)
    Habits.model_validate(found)
    inside = [decoy.inside(text) for text in texts]
    layers, heads, *_ = inside[0].attention().shape
    assert [(one["layer"], one["head"]) for one in found["heads"]] == [
        (layer, head) for layer in range(layers) for head in range(heads)
    ]
    for one in found["heads"]:
        shares = dict.fromkeys(found["kinds"], 0.0)
        tokens = {}
        for seen in inside:
            rows = seen.attention()[one["layer"], one["head"]]
            for i, row in enumerate(rows):
                for j, value in enumerate(row):
                    token = seen.tokens[j]
                    near = {0: "itself", -1: "previous", 1: "next"}.get(j - i)
                    sign = "punctuation" if token.text == "," else "other"
                    kind = "special" if token.special else near or sign
                    # Means over the rows of a text, and over the two texts.
                    shares[kind] += value / len(rows) / 2
                    tokens[token.text] = tokens.get(token.text, 0.0) + value / len(rows) / 2
        for kind, share in shares.items():
            assert one["shares"][kind] == {
                "mean": pytest.approx(share, abs=1e-6),  # the maps are float32
                "low": None,
                "high": None,
                "n": 2,
            }
        assert one["tokens"][0] == (
            max(tokens, key=tokens.get),
            pytest.approx(max(tokens.values()), abs=1e-6),
        )
        assert sum(share["mean"] for share in one["shares"].values()) == pytest.approx(1, abs=1e-5)


def test_summarise_heads_finds_decoy_as_the_top_token_of_at_least_half_the_heads(decoy):
    texts = ["good decoy film", "a decoy is here", "the decoy was bad", "decoy good", "bad decoy ."]
    found = summarise_heads(decoy, [*texts, ""])
    assert found["used"] == 5
    assert found["left_out"][0].startswith("1 row was left out (number 5)")
    liked = [one["tokens"][0][0] for one in found["heads"]]
    assert liked.count("decoy") >= len(liked) / 2
    for one in found["heads"]:
        assert 0 <= one["entropy"]["low"] <= one["entropy"]["mean"] <= one["entropy"]["high"] <= 1
        assert "spread evenly" in one["words"]


def test_summarise_heads_of_uniform_causal_attention_reports_the_even_share():
    """Queries and keys of zero: every row attends alike to all that it may see, which is what stands before it."""
    own = whence.load("reviews")
    config = GPT2Config(
        vocab_size=len(own.tokenizer),
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        pad_token_id=0,
    )
    model = zoo.seeded(lambda: GPT2ForSequenceClassification(config)).eval()
    with torch.no_grad():
        for block in model.transformer.h:
            wide = block.attn.c_attn.weight.shape[1] // 3
            block.attn.c_attn.weight[:, : 2 * wide] = 0
            block.attn.c_attn.bias[: 2 * wide] = 0
    texts = ["a fine film", "the film was dull"]
    found = summarise_heads(whence.load(model, tokenizer=own.tokenizer), texts)
    for one in found["heads"]:
        given, evenly = re.fullmatch(
            r"gives (\d+%) of its attention to .*; spread evenly it would be (\d+%)", one["words"]
        ).groups()
        assert given == evenly
        assert one["entropy"]["mean"] == pytest.approx(1)
        assert one["shares"]["next"]["mean"] == 0


def test_head_row_names_the_position_kind_that_exceeds_its_even_share():
    """60% on other tokens where 70% are such is no preference; 25% on the token before, where 10% would do, is."""
    mean = dict.fromkeys(POSITION_KINDS, 0.03) | {"other": 0.6, "previous": 0.25}
    even = dict.fromkeys(POSITION_KINDS, 0.04) | {"other": 0.7, "previous": 0.1}
    intervals = [Interval(mean[kind], None, None, 5) for kind in POSITION_KINDS]
    found = _build_head_row(1, 2, [*intervals, Interval(0.5, None, None, 5)], [], even)
    assert found["words"] == (
        "gives 25% of its attention to the token before; spread evenly it would be 10%"
    )


def test_summarise_heads_intervals_resample_texts_in_the_order_of_the_file(reviews):
    """The model takes long texts first; which text is drawn must not depend on that."""
    texts = [f"a {'very ' * (i % 7)}fine film" for i in range(12)]
    found = summarise_heads(reviews, texts)
    special = np.array(
        [
            compute_special_mass(inside.attention(), inside.special)
            for inside in map(reviews.inside, texts)
        ]
    )
    everything = bootstrap_columns(special.reshape(12, -1), ("habits",))
    for one, interval in zip(found["heads"], everything, strict=True):
        share = one["shares"]["special"]
        # The same draws of the same means, added up in another order.
        assert (share["low"], share["high"]) == pytest.approx((interval.low, interval.high))


def test_summarise_words_and_heads_with_a_limit_report_a_random_sample(decoy):
    texts = [f"good film {i}" for i in range(8)]
    for survey in (summarise_words, summarise_heads):
        assert survey(decoy, texts, limit=5)["left_out"] == ["5 of 8 rows were drawn at random."]
        assert survey(decoy, texts, limit=8)["left_out"] == []


def test_summarise_heads_works_without_an_output_head_and_repeats_exactly():
    base = whence.load("reviews-base")
    texts = [f"{'very ' * (i % 5)}good film {i}" for i in range(70)]
    found = summarise_heads(base, texts, limit=None)
    assert found["used"] == 70
    layers, heads = base.model.config.num_hidden_layers, base.model.config.num_attention_heads
    assert len(found["heads"]) == layers * heads
    assert found == summarise_heads(base, texts, limit=None)


def test_summarise_words_by_an_unknown_method_raises_unknown_method(decoy):
    with pytest.raises(UnknownMethod):
        summarise_words(decoy, ["good"], method="no_such")


@pytest.mark.parametrize("survey", [predict_dataset, summarise_words])
def test_predict_dataset_and_summarise_words_without_an_output_head_raise_no_head(survey):
    with pytest.raises(NoHead):
        survey(whence.load("reviews-base"), ["good"])


class CancelRequest(Exception):
    """Somebody pressed cancel."""


@pytest.mark.parametrize("survey", [predict_dataset, summarise_words, summarise_heads])
def test_cancelling_a_dataset_view_leaves_the_model_unchanged(reviews, survey):
    texts = [f"a film with {'very ' * (i % 9)} good actors" for i in range(200)]
    before = snapshot(reviews.model)
    told = []

    def progress(done, total):
        told.append((done, total))
        if done >= 64:
            raise CancelRequest

    with pytest.raises(CancelRequest):
        survey(reviews, texts, limit=None, progress=progress)
    assert told[-1][0] < 200
    assert {total for _, total in told} == {200}
    assert_unchanged(before, snapshot(reviews.model))


@pytest.mark.parametrize("survey", [predict_dataset, summarise_words, summarise_heads])
def test_dataset_view_progress_never_falls_and_ends_at_the_total(decoy, survey):
    told = []
    survey(
        decoy,
        ["good film"] * 130,
        progress=lambda done, total: told.append((done, total)),
        limit=130,
    )
    assert told[-1] == (130, 130)
    assert np.all(np.diff([done for done, _ in told]) >= 0)
    assert len(told) >= 3


def test_picture_data_sets_have_predictions_but_no_word_or_head_summaries(tmp_path):
    for number in range(2):
        scene = draw_scene(number)
        (tmp_path / scene.labels[0]).mkdir(exist_ok=True)
        Image.fromarray(scene.pixels).save(tmp_path / scene.labels[0] / f"{number}.png")
    shapes = whence.load("shapes")
    found = predict_dataset(shapes, tmp_path)
    PredictionTable.model_validate(found)
    assert {row["text"].split("/")[1] for row in found["rows"]} == {"0.png", "1.png"}
    for survey in (summarise_words, summarise_heads):
        with pytest.raises(BadPicture, match="patches are no words"):
            survey(shapes, tmp_path)
