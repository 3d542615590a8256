"""The scale of colours: a unit and a floor for every method, on every surface that tints."""

import re

import pytest

import whence
from tests import cards, languages
from whence.core.errors import BadMethod
from whence.methods import method, unit_of
from whence.report import page, plain
from whence.report.picture.colour import scaled
from whence.view.scale import UNITS, scale_in, scale_of
from whence.view.shade import shades

FAINT = [0.005, -0.001, 0.0]


@pytest.mark.parametrize("entry", list(method), ids=lambda entry: entry.name)
def test_every_method_states_the_unit_of_its_scores(entry):
    assert entry.facts["unit"] in UNITS


def test_a_unit_may_depend_on_parameters_and_an_unknown_method_has_none():
    assert unit_of("smoothgrad", {"times_input": True}) == "output"
    assert unit_of("smoothgrad", {"times_input": False}) == "relative"
    assert unit_of("globenc", {"row_normalise": False}) == "relative"
    assert unit_of("of another package", {}) == "relative"


def test_a_method_with_an_unknown_unit_is_refused():
    facts = dict.fromkeys(("family", "cite", "formula", "cost", "misleads_when"), "-")
    with pytest.raises(BadMethod, match="must state a unit out of output, weighted, share, rel"):

        @method("litres", needs=set(), signed=True, unit="litres", **facts)
        def litres(trace):
            """Score nothing."""


@pytest.mark.parametrize(
    ("unit", "of", "floor", "legend", "note"),
    [
        ("output", "logit", 0.08, "0.08 logits", "0.08 logits, less than two points of probability"),
        ("output", "probability", 0.02, "0.02 of probability", "0.02 of probability, two points"),
        ("share", "logit", 0.02, "2% of the whole", "2% of the whole"),
        ("weighted", "logit", 0.08, "0.08 logits, weighted by attention",
         "0.08 logits, weighted by attention"),
    ],
)  # fmt: skip
def test_full_colour_is_never_below_the_floor_and_the_note_says_so(unit, of, floor, legend, note):
    scale = scale_of(FAINT, unit, of=of)
    assert (scale["floor"], scale["full"]) == (floor, floor)
    assert scale["legend"] == f"full colour: {legend}"
    assert scale["note"] == f"No word reaches {note}: no single word matters by this method."
    strong = scale_of([0.57, -0.1], unit, of=of)
    assert (strong["full"], strong["note"]) == (0.57, None)


def test_a_value_and_slopes_have_no_floor_and_the_legend_says_what_they_have():
    value = scale_of(FAINT, "output", is_value=True)
    assert (value["unit"], value["floor"], value["full"]) == ("value", None, 0.005)
    assert value["legend"] == "full colour: 0.005 in units of the output"
    slope = scale_of(FAINT, "relative", part="patch")
    assert (slope["floor"], slope["full"], slope["note"]) == (None, 0.005, None)
    assert "no unit, colours only compare the patches of this input" in slope["legend"]
    assert scale_of([0.0, 0.0], "relative")["legend"] == "no colour: every score is 0"


def test_without_a_sign_no_colour_is_the_smallest_score_and_full_at_least_the_floor_away():
    even = scale_of([0.050, 0.051, 0.052], "share", signed=False)
    assert (even["start"], even["full"]) == (0.05, pytest.approx(0.07))
    assert even["legend"] == "full colour: 7% of the whole, no colour: 5%"
    apart = scale_of([0.05, 0.3], "share", signed=False)
    assert (apart["start"], apart["full"]) == (0.05, 0.3)


def test_of_many_parts_a_share_need_not_be_two_percent():
    assert scale_of([1 / 200] * 200, "share")["floor"] == pytest.approx(0.01)  # twice what is even
    assert scale_of([1 / 50] * 50, "share")["floor"] == 0.02


@pytest.fixture(scope="module")
def faint():
    """Explain a text of which no word has a contribution worth the name by this method."""
    found = whence.load("reviews").explain("a great film", method="attcat")
    assert 0 < abs(found.word_scores).max() < 0.01
    return found


def test_a_largest_score_of_some_thousandths_is_nearly_white_on_every_surface(faint):
    payload = faint.to_dict()
    tints = shades(payload, payload["explanations"][0])
    assert 0 < max(map(abs, tints.words)) < 0.1
    note = payload["explanations"][0]["scale"]["note"]
    assert note.startswith("No word reaches 0.08 logits")
    html = page([payload])
    strip = html[html.index('class="strip"') : html.index("<details")]
    colours = re.findall(r'<mark style="background: rgb\((\d+),(\d+),(\d+)\)"', strip)
    assert all(min(map(int, colour)) > 215 for colour in colours)
    assert "full colour: 0.08 logits" in html and note in html
    assert "attcat for positive, in logits:" in plain(payload) and note in plain(payload)
    assert note in faint._repr_html_()


def test_special_tokens_do_not_set_the_scale_and_words_do():
    found = whence.load("reviews").explain("a great film", method="rollout").to_dict()
    one = found["explanations"][0]
    special = [s for s, t in zip(one["scores"], found["tokens"], strict=True) if t["special"]]
    assert max(special) > max(one["word_scores"])
    assert one["scale"]["full"] == max(one["word_scores"])
    assert (one["scale"]["unit"], one["scale"]["floor"]) == ("share", 0.02)


def test_what_removes_words_is_scaled_by_the_probability_that_it_measures():
    one = whence.load("reviews").explain("a great film", method="leave_one_out").to_dict()
    assert one["explanations"][0]["scale"]["unit"] == "probability"


def test_a_trust_card_carries_the_scale_and_shows_it(faint):
    card = faint.trust(60)
    assert card.to_dict()["methods"][0]["scale"] == faint.to_dict()["explanations"][0]["scale"]
    assert "full colour: 0.08 logits" in card.to_html()


def test_a_generated_answer_has_scales_that_special_tokens_do_not_set():
    explainer = whence.load(languages.make("gpt2"))
    made = explainer.generate({"input_ids": [languages.ROWS[0]]}, 3, method="grad_x_input")
    payload = made.to_dict()
    inner = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [abs(row[i]) for row in payload["matrix"] for i in inner]
    totals = [abs(payload["total"][i]) for i in inner]
    assert payload["scale"]["full"] == pytest.approx(max(0.08, *cells))
    assert payload["total_scale"]["full"] == pytest.approx(max(0.08, *totals))
    assert all(one["scale"]["unit"] == "logit" for one in payload["explanations"])
    assert payload["scale"]["legend"] in made.to_html()
    assert payload["total_scale"]["legend"] in made.to_html()


def test_a_picture_whose_patches_differ_by_next_to_nothing_is_not_painted_in_full():
    scores = [0.001 * place for place in range(10)]
    assert scaled(scores, signed=True).max() == 1
    assert scaled(scores, signed=True, floor=0.08).max() == pytest.approx(0.009 / 0.08)
    assert scaled(scores, signed=False, floor=0.08).max() == pytest.approx(0.009 / 0.08)


def test_an_explanation_of_an_older_file_is_still_shown_without_a_unit():
    one = cards.method()
    assert "scale" not in one
    assert scale_in(one)["full"] == max(map(abs, one["word_scores"]))
    assert scale_in(one)["floor"] is None
