"""Language model answers: explained answers and contrasts, generation, granularity, files, display, refusals."""

import json
from io import StringIO
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

import whence
from tests import language_models
from tests.unit.small_tokenizers import byte_level, sentencepiece
from whence.core.errors import (
    BadEncoding,
    BadParameter,
    CannotRead,
    EmptyText,
    NoHead,
    TooLong,
    UnknownTarget,
)
from whence.explain.generation import Generation

PROMPT = "Once upon a time, there was a little girl named"
STORY = "[[Tom has a red car.]] Then: [[Lily has a blue ball. She is 5.]]\n\nLily likes her"
PLAIN = "Tom has a red car. Then: Lily has a blue ball. She is 5.\n\nLily likes her"
# The model's norms are computed in float32, whatever its dtype.
NORMS = 1e-5


@pytest.fixture(scope="module")
def stories(shared) -> whence.Explainer:
    """Return a model of children's stories, in float64."""
    return whence.load(shared / "models" / "stories260K", dtype="float64")


@pytest.fixture(scope="module")
def made(stories) -> Generation:
    """Return a generated answer, by tokens."""
    return stories.generate(PLAIN, 8, method="grad_x_input")


def _log_probabilities(explainer: Any, prompt: list[int], answer: list[int]) -> list[float]:
    """Return that of each token, one plain forward pass at a time."""
    found = []
    for k, token in enumerate(answer):
        with torch.no_grad():
            logits = explainer.model(input_ids=torch.tensor([[*prompt, *answer[:k]]])).logits[0, -1]
        found.append(float(logits.log_softmax(-1)[token]))
    return found


def test_explain_answer_has_the_summed_log_probability_of_its_tokens(stories) -> None:
    found = stories.explain(PROMPT, method="grad_x_input", answer=" Lily. She")
    prompt = [t.id for t in found.tokens if t.segment == 0]
    answer = [t.id for t in found.tokens if t.segment == 1]
    assert prompt == stories.tokenizer(PROMPT)["input_ids"]
    own = sum(_log_probabilities(stories, prompt, answer))
    assert found.prediction.logits[0] == pytest.approx(own, abs=NORMS)
    assert found.prediction.probability == pytest.approx(np.exp(own), abs=NORMS)
    assert sum(found.prediction.probabilities.values()) == pytest.approx(1, abs=1e-12)
    assert found.source.pair == " Lily. She"
    assert [w.text for w in found.spans if w.segment == 1] == ["Lily", ".", "She"]
    assert found.scores[-1] == 0  # the last token foretells nothing that was asked about


def test_explain_answer_without_leading_space_has_the_same_tokens_as_with_space(stories) -> None:
    with_space, without = (
        stories.explain(PROMPT, method="grad_x_input", answer=answer)
        for answer in (" Lily", "Lily")
    )
    assert with_space.tokens == without.tokens
    within = stories.explain("There was a little gi", method="grad_x_input", answer="rl")
    assert within.source.pair == "rl"


def test_explain_one_token_answer_equals_explaining_the_next_token_as_target(stories) -> None:
    answered = stories.explain(PROMPT, method="grad_x_input", answer=" Lily", of="probability")
    asked = stories.explain(PROMPT, method="grad_x_input", target="Lily", of="probability")
    assert answered.prediction.probability == pytest.approx(asked.prediction.probability, abs=NORMS)
    np.testing.assert_allclose(answered.scores[:-1], asked.scores, rtol=0, atol=NORMS)


def test_explain_contrast_of_one_token_answers_equals_the_token_contrast_exactly(stories) -> None:
    both = stories.explain(PROMPT, method="grad_x_input", answer=(" Lily", " S"))
    same = stories.explain(PROMPT, method="grad_x_input", target="Lily:▁S")
    assert str(both.target) == "Lily rather than S"
    np.testing.assert_array_equal(both.scores, same.scores)
    assert both.item is not None  # so that it can be tested
    logits = both.prediction.logits
    assert both.target.against is not None
    assert logits[0] - logits[1] > 0


def test_explain_contrast_of_longer_answers_equals_the_difference_of_two_explanations(
    stories,
) -> None:
    one, other = (
        stories.explain(PROMPT, method="grad_x_input", answer=a) for a in (" Lily and", " Tom")
    )
    both = stories.explain(PROMPT, method="grad_x_input", answer=(" Lily and", " Tom"))
    prompt = len([t for t in one.tokens if t.segment == 0])
    np.testing.assert_allclose(
        both.scores, one.scores[:prompt] - other.scores[:prompt], rtol=0, atol=NORMS
    )
    assert "difference of two explanations" in both.provenance["contrast"]
    assert "difference of two explanations" in str(both)
    assert sum(both.prediction.probabilities.values()) == pytest.approx(1)
    many = stories.explain(
        [PROMPT, PROMPT], method=["gradient", "grad_x_input"], answer=(" Lily and", " Tom")
    )
    assert [set(one.methods) for one in many] == [{"gradient", "grad_x_input"}] * 2
    np.testing.assert_allclose(many[1]["grad_x_input"].scores, both.scores, rtol=0, atol=NORMS)


def _load_with_tokenizer(name: str, tokenizer: Any) -> whence.Explainer:
    """Return a tiny model with a vocabulary that is written."""
    model = language_models.make(name)
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    return whence.load(model.double(), tokenizer=tokenizer)


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_integrated_gradients_of_an_answer_are_complete(name: str) -> None:
    explainer = _load_with_tokenizer(name, byte_level())
    found = explainer.explain(
        "a film", method="integrated_gradients", answer=" acted", params={"steps": 200}
    )
    # The integral of a smooth function by 200 Gauss-Legendre nodes is exact to rounding.
    assert abs(found.axioms["completeness"]) < 1e-8
    assert abs(found.scores.sum()) > 1e-3


@pytest.mark.parametrize("name", language_models.SEQUENCE)
def test_explain_answer_of_an_encoder_decoder_has_the_answer_as_second_segment(name: str) -> None:
    tokenizer = byte_level() if name == "bart" else sentencepiece()
    explainer = _load_with_tokenizer(name, tokenizer)
    found = explainer.explain("a gripping film", method="grad_x_input", answer="acted film")
    source = [t.id for t in found.tokens if t.segment == 0]
    said = [t for t in found.tokens if t.segment == 1]
    assert source == tokenizer("a gripping film")["input_ids"]
    start = explainer.model.config.decoder_start_token_id
    lead = [start, tokenizer.bos_token_id] if name == "bart" else [start]
    assert [t.id for t in said if t.special] == lead
    assert [w.text for w in found.spans if w.segment == 1] == ["acted", "film"]
    ids = [t.id for t in said]
    with torch.no_grad():
        logits = explainer.model(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids])
        ).logits[0]
    steps = logits.log_softmax(-1)
    own = sum(float(steps[k - 1, ids[k]]) for k in range(len(lead), len(ids)))
    assert found.prediction.logits[0] == pytest.approx(own, abs=1e-9)
    made = explainer.generate("a gripping film", method="grad_x_input", answer="acted film")
    assert len(made.prompt_tokens) == len(source) + len(lead)
    assert np.log([o["probability"] for o in made.outputs]).sum() == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"answer": ""}, EmptyText, "answer is empty"),
        ({"answer": "x " * 300}, TooLong, "together, and the model takes at most 512"),
        ({"answer": (" a", " a b")}, UnknownTarget, "begins with the other"),
        ({"answer": ("a", "b", "c")}, BadParameter, "two to hold against"),
        ({"answer": 7}, BadParameter, "two to hold against"),
        ({"answer": " a", "target": "b"}, BadParameter, "Give one of them"),
        ({"target": "Paris"}, UnknownTarget, r"'P', 'ar', 'is'.*answer='Paris'"),
        ({"target": 512}, UnknownTarget, "from 0 to 511"),
        ({"target": ("Lily", "▁Lily")}, UnknownTarget, "two different tokens"),
        ({"target": ""}, UnknownTarget, "no empty token"),
        ({"of": "odds"}, BadParameter, "'odds'"),
        ({"at": 3}, BadParameter, "means nothing"),
    ],
)
def test_explain_of_a_language_model_with_bad_arguments_raises_the_matching_error(
    stories, asked, error, said
) -> None:
    with pytest.raises(error, match=said):
        stories.explain(PROMPT, method="grad_x_input", **asked)


def test_explain_of_a_language_model_with_a_pair_raises_bad_encoding(stories) -> None:
    with pytest.raises(BadEncoding, match="one text and got a pair"):
        stories.explain(("a", "b"), method="grad_x_input")


def test_explain_with_a_predicted_label_as_target_has_the_same_probability(stories) -> None:
    found = stories.explain(PROMPT, method="grad_x_input")
    labels = list(found.prediction.probabilities)[:-1]
    assert len(set(labels)) == 20
    for label in labels[:8]:
        again = stories.explain(PROMPT, method="grad_x_input", target=label)
        share = found.prediction.probabilities[label]
        assert again.prediction.probabilities[again.target.label] == pytest.approx(share, abs=1e-9)


def test_generate_from_a_marked_prompt_equals_the_unmarked_prompt(stories, made) -> None:
    marked = stories.generate(STORY, 8, method="grad_x_input", granularity="passage")
    assert marked.payload["input"]["text"] == PLAIN
    assert marked.text == made.text
    for one, other in zip(marked.explanations, made.explanations, strict=True):
        np.testing.assert_array_equal(one.scores, other.scores)
    texts = [(p["text"], p["marked"]) for p in marked.pieces if not p["special"]]
    assert texts == [
        ("Tom has a red car.", True), ("Then:", False), ("Lily has a blue ball. She is 5.", True),
        ("Lily likes her", False),
    ]  # fmt: skip
    with pytest.raises(BadParameter, match="No passages were marked"):
        made.by("passage")


@pytest.mark.parametrize("granularity", ["token", "word", "sentence", "paragraph"])
def test_generation_by_any_granularity_preserves_the_sums_of_scores(made, granularity) -> None:
    found = made.by(granularity)
    scores = [one.scores for one in made.explanations]
    count = len(made.prompt_tokens)
    assert found.matrix.sum() == pytest.approx(sum(s[:count].sum() for s in scores))
    assert found.earlier.sum() == pytest.approx(sum(s[count:].sum() for s in scores))
    inner = [p for p in found.pieces if not p["special"]]
    assert sum(p["share"] for p in inner) == pytest.approx(1)
    assert sum(p["chance"] for p in inner) == pytest.approx(1)
    np.testing.assert_allclose(found.total, [p["total"] for p in found.pieces])
    if granularity == "word":
        assert "".join(o["text"] for o in found.outputs) == made.text.replace(" ", "")


def test_generation_shares_of_random_scores_are_proportional_to_length(stories) -> None:
    # The mean share over 40 x 8 rankings; each piece's lies within five standard errors of its length.
    shares = []
    for seed in range(40):
        found = stories.generate(
            STORY, 8, method="random", params={"seed": seed}, granularity="passage"
        )
        shares.append([p["share"] for p in found.pieces if not p["special"]])
    lengths = [p["chance"] for p in found.pieces if not p["special"]]
    errors = np.std(shares, axis=0, ddof=1) / np.sqrt(len(shares))
    assert (np.abs(np.mean(shares, axis=0) - lengths) < 5 * errors).all()


def test_explanation_pieces_add_up_and_passages_need_a_marked_text(stories) -> None:
    found = stories.explain(PLAIN, method="grad_x_input")
    by = found.pieces("sentence")
    assert [piece.text for piece in by] == [
        "Tom has a red car.", "Then: Lily has a blue ball.", "She is 5.", "Lily likes her",
    ]  # fmt: skip
    inner = sum(s for s, t in zip(found.scores, found.tokens, strict=True) if not t.special)
    for kind in ("token", "word", "sentence", "paragraph"):
        assert sum(piece.score for piece in found.pieces(kind)) == pytest.approx(inner)
    assert len(found.pieces("passage", marked=STORY)) == 4
    for wrong in (None, "[[another]] text"):
        with pytest.raises(BadParameter, match="the explained text with passages marked"):
            found.pieces("passage", marked=wrong)


def test_generate_with_a_given_answer_equals_the_generated_answer(stories, made) -> None:
    given = stories.generate(PLAIN, method="grad_x_input", answer=made.text)
    assert [t.id for t in given.output_tokens] == [t.id for t in made.output_tokens]
    assert given.output_tokens == made.output_tokens
    np.testing.assert_allclose(given.matrix, made.matrix, rtol=0, atol=NORMS)
    assert given.payload["passes"]["decode"] == 1
    strange = stories.generate(
        "Él dijo:", answer=" 🙂 ¡olé!", method="grad_x_input", granularity="word"
    )
    assert [o["text"] for o in strange.outputs] == ["🙂", "¡", "olé", "!"]


def test_generate_by_attention_methods_has_the_scores_of_explain_in_its_first_row(stories) -> None:
    for method in ("raw_attention", "rollout", "attcat", "generic_attention", "leave_one_out"):
        found = stories.generate(PROMPT, 3, method=method)
        assert np.isfinite(found.matrix).all()
        one = stories.explain(PROMPT, method=method)
        np.testing.assert_allclose(found.matrix[0], one.scores, rtol=0, atol=NORMS)


def test_generation_load_restores_a_saved_generation_and_refuses_another_file(
    made, tmp_path
) -> None:
    again = Generation.load(made.save(tmp_path / "a.json"))
    assert again.to_dict() == json.loads(json.dumps(made.to_dict()))
    for one, other in zip(again.explanations, made.explanations, strict=True):
        assert (one.tokens, one.spans, one.source) == (other.tokens, other.spans, other.source)
        np.testing.assert_array_equal(one.scores, other.scores)
        assert (one.target, one.prediction) == (other.target, other.prediction)
    assert again.by("word").to_dict() == made.by("word").to_dict()
    (tmp_path / "b.json").write_text('{"kind": "generation", "version": 1}')
    with pytest.raises(CannotRead, match="not a saved generation"):
        Generation.load(tmp_path / "b.json")


@pytest.mark.parametrize("width", [40, 80, 200])
def test_generation_printed_on_a_console_fits_the_width_of_the_console(made, width) -> None:
    for granularity in ("token", "word", "sentence"):
        console = Console(width=width, record=True, file=StringIO())
        console.print(made.by(granularity))
        lines = console.export_text().splitlines()
        assert all(len(line) <= width for line in lines)
        shown = "".join(lines)
        assert "share" in shown
        assert "by length" in shown


def test_generation_html_escapes_the_prompt_and_has_no_script(stories) -> None:
    evil = "<script>alert(1)</script> & [[<b>bold</b>]] \x1b[31m said"
    page = stories.generate(evil, 2, method="grad_x_input", granularity="passage").to_html()
    assert "<script" not in page
    assert "<b>" not in page
    assert "\x1b" not in page
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "http" not in page.replace("http-equiv", "")


def test_generate_with_a_classifier_raises_no_head() -> None:
    with pytest.raises(NoHead, match="does not generate"):
        whence.load("reviews").generate("a film")


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"tokens": 0}, BadParameter, "from 1 to 1000"),
        ({"tokens": 2.5}, BadParameter, "2.5"),
        ({"granularity": "chapter"}, BadParameter, "'chapter'"),
        ({"granularity": "passage"}, BadEncoding, "There are none"),
        ({"answer": "x " * 300}, TooLong, "together"),
        ({"of": "odds"}, BadParameter, "'odds'"),
    ],
)
def test_generate_with_bad_arguments_raises_the_matching_error(stories, asked, error, said) -> None:
    with pytest.raises(error, match=said):
        stories.generate(PROMPT, method="grad_x_input", **asked)


def test_generate_with_too_long_prompt_raises_too_long_unless_truncated(stories) -> None:
    with pytest.raises(TooLong, match="at most 512"):
        stories.generate("word " * 600, 2, method="grad_x_input")
    # Cut so that there is room for the answer.
    cut = stories.generate("word " * 600, 2, method="gradient", truncate=True)
    assert len(cut.prompt_tokens) == 510
    assert "did not fit and were cut off" in str(cut)
    with pytest.raises(TooLong, match="no room for an answer"):
        stories.generate({"input_ids": [[5] * 512]}, 2, method="grad_x_input")
    with pytest.raises(BadEncoding, match="one prompt at a time"):
        stories.generate([PROMPT, PROMPT], 2)


def test_explain_and_predict_with_a_list_of_answers_use_one_answer_for_each_prompt(stories):
    found = stories.explain([PROMPT, PROMPT], method="gradient", answer=[" Lily and", " Tom"])
    assert [one.source.pair for one in found] == [" Lily and", " Tom"]
    said = stories.predict([PROMPT, PROMPT], answer=[" Lily and", " Tom"])
    assert [one.label for one in said] == [one.prediction.label for one in found]
    with pytest.raises(BadParameter, match="a contrast of two is a tuple"):
        stories.explain(PROMPT, answer=[" Lily", " Tom"])
