"""Explanations: a sequence of explanations that is also indexed by method, shown and saved as a whole."""

import numpy as np
import pytest

import whence
from tests.snapshots import models
from whence.core.errors import BadParameter, CannotRead, UnknownMethod
from whence.explain.explanation import Explanation
from whence.explain.explanations import Explanations
from whence.tracing.ask import count_forwards

TEXTS = ["a gripping film", "=1+1 dull and slow", "not bad at all"]
METHODS = ["attcat", "rollout"]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def several(explainer):
    return explainer.explain(TEXTS, method=METHODS)


def test_one_text_by_one_method_gives_an_explanation(explainer):
    assert isinstance(explainer.explain(TEXTS[0], method="attcat"), Explanation)


def test_one_text_by_several_methods_is_indexed_by_place_and_by_method(explainer):
    found = explainer.explain(TEXTS[0], method=METHODS)
    assert [one.method for one in found] == METHODS == list(found.keys())
    assert found["rollout"] is found[1]
    assert dict(found.items()) == {"attcat": found[0], "rollout": found[1]}
    assert "rollout" in found and "lime" not in found and found[0] in found


def test_several_texts_are_indexed_by_place_and_by_method(several):
    assert len(several) == 3 and several.methods == tuple(METHODS)
    assert several[1]["rollout"].source.text == TEXTS[1]
    column = several["rollout"]
    assert [one.method for one in column] == ["rollout"] * 3
    assert [one.source.text for one in column] == TEXTS
    assert column[1] is several[1]["rollout"]
    assert [one.source.text for one in several[1:]["attcat"]] == TEXTS[1:]


def test_a_method_that_did_not_explain_is_refused_with_those_that_did(several):
    with pytest.raises(UnknownMethod, match=r"no explanation by 'lime'.*attcat, rollout"):
        several["lime"]


def test_no_texts_give_no_explanations(explainer):
    assert explainer.explain([], method="attcat") == []


def test_results_equal_those_of_single_texts(explainer, several):
    for text, by_method in zip(TEXTS, several, strict=True):
        for name, one in by_method.items():
            single = explainer.explain(text, method=name)
            # A batch adds up in another order: a few units in the last place of float32.
            np.testing.assert_allclose(one.scores, single.scores, rtol=1e-4, atol=1e-6)


def test_the_table_has_a_row_for_every_word_of_every_input_by_every_method(several):
    table = several.to_dataframe()
    assert len(table) == sum(len(one.spans) for one in several.flatten())
    own = table[(table.input == 2) & (table.method == "attcat")]
    words = several[2]["attcat"].words()
    assert own.word.tolist() == [word.text for word in words]
    assert own.score.tolist() == [word.score for word in words]


def test_saved_explanations_come_back_in_the_same_shape_bit_for_bit(several, tmp_path):
    for one in (several, several[0], several["rollout"]):
        again = Explanations.load(one.save(tmp_path / "all.json"))
        assert again.to_dict() == one.to_dict()
        assert [type(entry) for entry in again] == [type(entry) for entry in one]


def test_a_file_of_something_else_is_refused(several, tmp_path):
    path = several[0][0].save(tmp_path / "one.json")
    with pytest.raises(CannotRead, match="saved explanations"):
        Explanations.load(path)


def test_csv_quotes_what_a_spreadsheet_would_run(several, tmp_path):
    text = several.save(tmp_path / "all.csv").read_text()
    assert "'=" in text and ",=" not in text


def test_every_surface_shows_every_text_and_method(several):
    page, shown, cell = several.to_html(flows=False), str(several), several._repr_html_()
    for surface in (page, shown, cell):
        assert all(name in surface for name in METHODS)
        assert "gripping" in surface and "slow" in surface
    assert "<script>" not in cell
    assert repr(several) == "<Explanations of 3 inputs by attcat, rollout>"


def test_arrays_are_the_scores_of_the_objects(explainer, several):
    found = explainer.explain(TEXTS, method=METHODS, as_arrays=True)
    assert list(found) == METHODS and len(found) == 2
    for name in METHODS:
        assert [type(scores) for scores in found[name]] == [np.ndarray] * len(TEXTS)
        for scores, one in zip(found[name], several[name], strict=True):
            np.testing.assert_array_equal(scores, one.scores)
    assert [str(target) for target in found.targets] == [
        str(one.target) for one in several["attcat"]
    ]
    assert found.inputs == [0, 1, 2]


def test_arrays_of_listed_targets_and_of_one_text_are_in_the_order_of_the_inputs(explainer):
    targets = ["positive", "negative", "positive"]
    found = explainer.explain(TEXTS, method="attcat", target=targets, as_arrays=True)
    assert [str(target) for target in found.targets] == targets
    objects = explainer.explain(TEXTS, method="attcat", target=targets)
    for scores, one in zip(found["attcat"], objects, strict=True):
        np.testing.assert_array_equal(scores, one.scores)
    (scores,) = explainer.explain(TEXTS[0], as_arrays=True)["attcat"]
    np.testing.assert_array_equal(scores, explainer.explain(TEXTS[0]).scores)
    assert explainer.explain([], method="attcat", as_arrays=True)["attcat"] == []


def test_arrays_of_tokens_take_no_passes_for_whole_words(explainer):
    text = "an unwatchably gripping film"
    (one,) = explainer.explain([text], method="leave_one_out")
    pieced = sum(len(word.tokens) > 1 for word in one.spans)
    assert pieced > 0
    with count_forwards(explainer.model) as runs:
        (scores,) = explainer.explain([text], method="leave_one_out", as_arrays=True)[
            "leave_one_out"
        ]
    np.testing.assert_array_equal(scores, one.scores)
    # The text, and without each token; whole words are asked about for the objects alone.
    assert runs.forward == 1 + len(one.tokens)


def test_arrays_of_a_tagger_name_the_input_of_each_entity():
    tagger = models.model("tags")
    texts = ["the film is not bad", "a gripping film"]
    found = tagger.explain(texts, method="grad_x_input", as_arrays=True)
    objects = tagger.explain(texts, method="grad_x_input")
    assert found.inputs == [number for number, own in enumerate(objects) for _ in own]
    for scores, one in zip(found["grad_x_input"], objects.flatten(), strict=True):
        np.testing.assert_array_equal(scores, one.scores)


def test_arrays_of_a_contrast_of_long_answers_are_refused():
    generator = models.model("gpt")
    with pytest.raises(BadParameter, match="Leave as_arrays out"):
        generator.explain("the film", answer=("is good", "was not bad"), as_arrays=True)
