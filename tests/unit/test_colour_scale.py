"""Colour scales of scores: unit, floor and legend by method, and faint scores kept pale in every output."""

import re

import pytest

import whence
from tests import language_models, trust_card_payloads
from whence.core.errors import BadMethod
from whence.explain.report import build_document
from whence.explain.word_scores import compute_colour_scale
from whence.methods import SCORE_UNITS, method, resolve_score_unit
from whence.render.colour import compute_shades, get_colour_scale, scale_scores

FAINT = [0.005, -0.001, 0.0]


@pytest.mark.parametrize("entry", list(method), ids=lambda entry: entry.name)
def test_every_method_states_the_unit_of_its_scores(entry):
    assert entry.facts["unit"] in SCORE_UNITS


def test_resolve_score_unit_depends_on_parameters_and_is_relative_for_unknown_methods():
    assert resolve_score_unit("smoothgrad", {"times_input": True}) == "output"
    assert resolve_score_unit("smoothgrad", {"times_input": False}) == "relative"
    assert resolve_score_unit("globenc", {"row_normalise": False}) == "relative"
    assert resolve_score_unit("of another package", {}) == "relative"


def test_method_with_an_unknown_score_unit_is_refused_at_registration():
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
def test_colour_scale_of_faint_scores_has_full_colour_at_the_floor_and_a_note(
    unit, of, floor, legend, note
):
    scale = compute_colour_scale(FAINT, unit, of=of)
    assert (scale["floor"], scale["full"]) == (floor, floor)
    assert scale["legend"] == f"full colour: {legend}"
    assert scale["note"] == f"No word reaches {note}: no single word matters by this method."
    strong = compute_colour_scale([0.57, -0.1], unit, of=of)
    assert (strong["full"], strong["note"]) == (0.57, None)


def test_colour_scale_of_values_and_relative_scores_has_no_floor_and_a_legend():
    value = compute_colour_scale(FAINT, "output", is_value=True)
    assert (value["unit"], value["floor"], value["full"]) == ("value", None, 0.005)
    assert value["legend"] == "full colour: 0.005 in units of the output"
    slope = compute_colour_scale(FAINT, "relative", part="patch")
    assert (slope["floor"], slope["full"], slope["note"]) == (None, 0.005, None)
    assert "no unit, colours only compare the patches of this input" in slope["legend"]
    assert compute_colour_scale([0.0, 0.0], "relative")["legend"] == "no colour: every score is 0"


def test_colour_scale_of_unsigned_scores_starts_at_the_smallest_score():
    even = compute_colour_scale([0.050, 0.051, 0.052], "share", signed=False)
    assert (even["start"], even["full"]) == (0.05, pytest.approx(0.07))
    assert even["legend"] == "full colour: 7% of the whole, no colour: 5%"
    apart = compute_colour_scale([0.05, 0.3], "share", signed=False)
    assert (apart["start"], apart["full"]) == (0.05, 0.3)


def test_colour_scale_floor_of_shares_is_below_two_percent_for_many_parts():
    assert compute_colour_scale([1 / 200] * 200, "share")["floor"] == pytest.approx(
        0.01
    )  # twice what is even
    assert compute_colour_scale([1 / 50] * 50, "share")["floor"] == 0.02


@pytest.fixture(scope="module")
def faint_explanation():
    """Explain a text of which no word has a contribution worth the name by this method."""
    found = whence.load("reviews").explain("a great film", method="attcat")
    assert 0 < abs(found.word_scores).max() < 0.01
    return found


def test_faint_explanation_is_nearly_white_with_a_note_on_every_surface(faint_explanation):
    payload = faint_explanation.to_dict()
    own = payload["explanations"][0]
    assert 0 < max(map(abs, compute_shades(own, own["word_scores"]))) < 0.1
    note = payload["explanations"][0]["scale"]["note"]
    assert note.startswith("No word reaches 0.08 logits")
    html = build_document([payload]).to_html()
    strip = html[html.index('class="strip"') : html.index("<details")]
    colours = re.findall(r'<mark style="background: rgb\((\d+),(\d+),(\d+)\)"', strip)
    assert all(min(map(int, colour)) > 215 for colour in colours)
    assert "full colour: 0.08 logits" in html and note in html
    text = build_document([payload]).to_text()
    assert "attcat for positive, in logits" in text and note in text
    assert note in faint_explanation._repr_html_()


def test_colour_scale_is_set_by_words_and_not_by_special_tokens():
    found = whence.load("reviews").explain("a great film", method="rollout").to_dict()
    one = found["explanations"][0]
    special = [s for s, t in zip(one["scores"], found["tokens"], strict=True) if t["special"]]
    assert max(special) > max(one["word_scores"])
    assert one["scale"]["full"] == max(one["word_scores"])
    assert (one["scale"]["unit"], one["scale"]["floor"]) == ("share", 0.02)


def test_colour_scale_of_leave_one_out_has_the_unit_probability():
    one = whence.load("reviews").explain("a great film", method="leave_one_out").to_dict()
    assert one["explanations"][0]["scale"]["unit"] == "probability"


def test_trust_card_has_the_colour_scale_of_the_explanation_and_shows_its_legend(faint_explanation):
    card = faint_explanation.trust(60)
    assert (
        card.to_dict()["methods"][0]["scale"]
        == faint_explanation.to_dict()["explanations"][0]["scale"]
    )
    assert "full colour: 0.08 logits" in card.to_html()


def test_colour_scales_of_a_generation_ignore_special_tokens():
    explainer = whence.load(language_models.make("gpt2"))
    made = explainer.generate({"input_ids": [language_models.ROWS[0]]}, 3, method="grad_x_input")
    payload = made.to_dict()
    inner = [i for i, piece in enumerate(payload["pieces"]) if not piece["special"]]
    cells = [abs(row[i]) for row in payload["matrix"] for i in inner]
    totals = [abs(payload["total"][i]) for i in inner]
    assert payload["scale"]["full"] == pytest.approx(max(0.08, *cells))
    assert payload["total_scale"]["full"] == pytest.approx(max(0.08, *totals))
    assert all(one["scale"]["unit"] == "logit" for one in payload["explanations"])
    assert payload["scale"]["legend"] in made.to_html()
    assert payload["total_scale"]["legend"] in made.to_html()


def test_scale_scores_with_a_floor_keeps_faint_patches_below_full_colour():
    scores = [0.001 * place for place in range(10)]
    assert scale_scores(scores, signed=True).max() == 1
    assert scale_scores(scores, signed=True, floor=0.08).max() == pytest.approx(0.009 / 0.08)
    assert scale_scores(scores, signed=False, floor=0.08).max() == pytest.approx(0.009 / 0.08)


def test_get_colour_scale_of_an_older_payload_has_no_floor():
    one = trust_card_payloads.method()
    assert "scale" not in one
    assert get_colour_scale(one)["full"] == max(map(abs, one["word_scores"]))
    assert get_colour_scale(one)["floor"] is None
