"""Masked and causal language models in the app: targets, masks, generation and answers."""

import re

import pytest
from playwright.sync_api import expect

from tests.browser.app import (
    APP,
    App,
    Visitor,
    export_picture,
    export_picture_table,
    photograph,
    settle,
    strip,
)
from tests.browser.test_app_accessibility import axe, findings  # noqa: F401
from tests.conftest import SHARED
from whence.explain.explainer import load
from whence.explain.report import EARLIER_LABEL, build_generation_document

pytestmark = APP

MASK = "the plot is thin, but the actors are [MASK]."
PROMPT = "Once upon a time, there was a little girl named"
STORIES = SHARED / "models" / "stories260K"
needs_stories = pytest.mark.skipif(
    not STORIES.is_dir(), reason="no ../shared/models/stories260K beside the repository"
)


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    """Return the app with a model that fills masks, and one that writes where it is there."""
    more = ["--model", str(STORIES)] if STORIES.is_dir() else []
    running = App(tmp_path_factory.mktemp("tasks"), "--model", "reviews-base", *more)
    yield running
    running.kill()


@pytest.fixture
def visit(browser, tasks):
    visitor = Visitor(browser, tasks)
    yield visitor
    visitor.close()


def labels(page):
    """Return the names of the targets, the likeliest first."""
    return page.locator("fieldset.targets .target .name").all_inner_texts()


def test_mask_targets_and_scores_equal_those_of_the_library(visit):
    page = visit(f"#/explain?model=reviews-base&text={MASK}&m=attcat")
    settle(page)
    said = load("reviews-base").predict(MASK)
    likely = sorted(said.probabilities, key=lambda name: -said.probabilities[name])
    shown = [name for name in labels(page) if " rather than " not in name]
    assert shown[:5] == [name for name in likely if name != "(anything else)"][:5]
    assert shown[-1] == "(anything else)"  # what has no name here comes last, and cannot be chosen
    assert page.locator(".target", has_text="(anything else)").locator("input").count() == 0
    expect(strip(page, "attcat")).to_be_visible()
    rows = export_picture_table(page, "text")
    scores = load("reviews-base").explain(MASK, method="attcat").word_scores
    assert [float(row["attcat"]) for row in rows] == pytest.approx(scores.tolist(), rel=1e-5)
    photograph(page, "tasks-mask")


def test_contrast_of_two_words_is_explained_and_restored_from_the_link(visit):
    page = visit(f"#/explain?model=reviews-base&text={MASK}&m=attcat")
    settle(page)
    field = page.get_by_label("another word")
    field.fill("good:bad")
    field.press("Enter")
    settle(page)
    assert "target=good%3Abad" in page.url
    expect(page.get_by_text("for good rather than bad")).to_be_visible()
    page.reload()
    settle(page)
    expect(page.get_by_text("for good rather than bad")).to_be_visible()


def test_mask_target_of_several_tokens_is_named_in_a_message(visit):
    page = visit(f"#/explain?model=reviews-base&text={MASK}&target=zzyzx", forgive="422")
    settle(page)
    # What was asked cannot be; what was predicted is explained instead, and that is said.
    expect(page.get_by_text("zzyzx").first).to_be_visible()


def test_choice_of_the_second_mask_explains_its_prediction(visit):
    page = visit("#/explain?model=reviews-base&text=a+[MASK]+film+with+a+[MASK]+ending&m=attcat")
    settle(page)
    page.get_by_label("Which mask").select_option("1")
    page.get_by_role("button", name="Explain", exact=True).click()
    settle(page)
    assert "at=1" in page.url
    text = "a [MASK] film with a [MASK] ending"
    expect(
        page.get_by_text(f"for {load('reviews-base').predict(text, at=1).label}").first
    ).to_be_visible()


def test_text_without_a_mask_shows_the_flow_and_an_alert(visit):
    page = visit("#/explain?model=reviews-base&text=the+actors+are+fine", forgive="422")
    settle(page)
    expect(page.get_by_role("alert").first).to_contain_text("write [MASK]")
    expect(page.get_by_role("status").filter(has_text=re.compile("^shown "))).to_be_visible()


def test_trust_card_of_a_mask_is_made_without_an_alert(visit):
    page = visit(f"#/explain?model=reviews-base&text={MASK}&m=attcat")
    settle(page)
    page.get_by_role("button", name="Test it").click()
    expect(page.get_by_text("Nobody has asked yet")).to_have_count(0)
    expect(page.locator(".side progress")).to_have_count(0, timeout=90_000)
    expect(page.get_by_role("alert")).to_have_count(0)


@needs_stories
def test_generate_button_writes_the_text_and_scores_of_the_library(visit):
    page = visit(f"#/explain?model=stories260K&text={PROMPT}&m=attcat")
    settle(page)
    page.get_by_label("tokens", exact=True).fill("4")
    page.get_by_role("button", name="Generate").click()
    picture = page.locator("[data-picture='generation']")
    expect(picture).to_be_visible(timeout=60_000)
    settle(page)
    assert "generate=4" in page.url
    made = load(str(STORIES)).generate(PROMPT, 4, method="attcat")
    expect(page.locator(".written b")).to_have_text(made.to_dict()["text"], use_inner_text=True)
    cells = export_picture_table(page, "generation")
    of_prompt = [row for row in cells if row["piece"] != "before"]
    first = [float(row["score"]) for row in of_prompt if row["output"] == "0"]
    assert first == pytest.approx(made.matrix[0].tolist(), rel=1e-5)
    assert len([row for row in of_prompt if row["output"] == "all"]) == len(made.total)
    page.get_by_label("The prompt by").select_option("word")
    expect(page.locator("[data-picture='generation'] [role=listbox]")).to_have_accessible_name(
        re.compile("4 outputs by 12 pieces")  # ten words, a comma, and what begins the text
    )
    photograph(page, "tasks-generation")


@needs_stories
def test_generation_picture_has_the_earlier_output_row_of_the_terminal(visit):
    page = visit(f"#/explain?model=stories260K&text={PROMPT}&m=attcat&generate=4")
    picture = page.locator("[data-picture='generation']")
    expect(picture).to_be_visible(timeout=60_000)
    settle(page)
    made = load(str(STORIES)).generate(PROMPT, 4, method="attcat")
    said = [row for row in export_picture_table(page, "generation") if row["piece"] == "before"]
    assert {row["piece text"] for row in said} == {EARLIER_LABEL}
    before = [sum(cells) for cells in made.payload["earlier"]]
    assert [float(cell["score"]) for cell in said] == pytest.approx(
        [*before, sum(before)], rel=1e-5
    )
    # Written out in the picture, in hundredths of the largest piece that is no special token.
    drawn = export_picture(page, "generation", "SVG").decode()
    text = build_generation_document(made.payload).to_text()
    row = next(line for line in text.splitlines() if EARLIER_LABEL in line)
    for figure in row.removeprefix(f"  {EARLIER_LABEL}").split()[1 : len(before)]:
        assert f">{figure.replace('-', chr(0x2212))}</text>" in drawn


@needs_stories
def test_answer_rather_than_another_is_explained_as_a_contrast(visit):
    # What flowed to two answers at once is refused, in a sentence, where the flow would stand.
    page = visit(f"#/explain?model=stories260K&text={PROMPT}&m=attcat", forgive="422")
    settle(page)
    page.get_by_label("Answer").fill(" Lily")
    page.get_by_label("rather than", exact=True).fill(" Tom")
    page.get_by_role("button", name="Explain", exact=True).click()
    settle(page)
    assert "answer=" in page.url and "rather=" in page.url
    expect(page.locator(".asking").get_by_role("alert")).to_have_count(0)
    expect(strip(page, "attcat")).to_be_visible()
    expect(page.get_by_text("for Lily rather than Tom")).to_be_visible()
    # No one label is what is explained, and no other can be chosen.
    assert page.locator("fieldset.targets input:checked").count() == 0
    expect(page.get_by_text("now: Lily rather than Tom")).to_be_visible()
    page.get_by_label("rather than", exact=True).fill("")
    page.get_by_role("button", name="Token by token").click()
    expect(page.locator(".written b")).to_have_text(" Lily", use_inner_text=True, timeout=60_000)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_language_model_pages_have_no_serious_axe_finding(visit, axe, scheme):  # noqa: F811
    page = visit(f"#/explain?model=reviews-base&text={MASK}", color_scheme=scheme)
    settle(page)
    assert findings(page, axe) == []
    if STORIES.is_dir():
        page = visit(f"#/explain?model=stories260K&text={PROMPT}&generate=3", color_scheme=scheme)
        expect(page.locator("[data-picture='generation']")).to_be_visible(timeout=60_000)
        settle(page)
        assert findings(page, axe) == []
