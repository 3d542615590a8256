"""Explain page of the app: scores equal the library's; methods, targets, models, text limits, trust card."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.app import APP, photograph, read_csv_rows, settle, strip

pytestmark = APP

TEXT = "a gripping, beautifully acted film"


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def scores(page, method):
    """Return what the strip of a method says of each word."""
    found = {}
    for word in strip(page, method).get_by_role("button").all():
        name, said = re.fullmatch(
            r"(.*): ([+−-][^,]+|0), rank .*", word.get_attribute("aria-label")
        ).groups()
        found[name] = float(said.replace("−", "-"))
    return found


def assert_scores(page, why):
    """Hold the strip against the library: two or more digits are shown."""
    shown = scores(page, why.method)
    assert list(shown) == [word.text for word in why.words()]
    for word in why.words():
        assert shown[word.text] == pytest.approx(word.score, rel=0.02, abs=2e-3)


def test_app_without_a_link_opens_with_the_first_sample_explained(visit, app):
    page = visit()
    sample = app.get("api/session")["samples"][0]["text"]
    expect(strip(page, "attcat")).to_be_visible()
    expect(page.get_by_role("textbox", name="Text")).to_have_value(sample)
    expect(page.get_by_role("radio", name=re.compile("^positive (?!rather)"))).to_be_checked()
    photograph(page, "explain")


def test_explain_page_displays_the_word_scores_of_the_library(tour, explainer):
    page = tour("#/explain")
    page.get_by_role("textbox", name="Text").fill(TEXT)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(
        strip(page, "attcat").get_by_role("button", name=re.compile("^gripping: "))
    ).to_be_visible()
    assert_scores(page, explainer.explain(TEXT))


def test_switched_and_stacked_methods_display_the_scores_of_the_library(tour, explainer):
    page = tour(f"#/explain?text={TEXT}")
    page.get_by_role("combobox", name=re.compile("^Method")).select_option("leave_one_out")
    expect(strip(page, "leave_one_out")).to_be_visible()
    expect(strip(page, "attcat")).to_have_count(0)
    assert_scores(page, explainer.explain(TEXT, method="leave_one_out"))
    page.get_by_label("Stack another method").select_option("rollout")
    expect(strip(page, "rollout")).to_be_visible()
    assert_scores(page, explainer.explain(TEXT, method="rollout"))
    agreement = page.get_by_role("table", name="How far the methods agree")
    expect(agreement.get_by_text("τ ")).to_have_count(1)
    expect(agreement.get_by_text(re.compile(r"% \(.*%\)$"))).to_have_count(1)  # and by chance
    # Every strip has a legend of its own, and the one without a sign says so.
    expect(page.get_by_text(re.compile(", for positive$"))).to_have_count(1)
    expect(page.get_by_text("no sign: may count for positive or against")).to_have_count(1)


def test_stack_of_four_methods_disables_adding_a_fifth(tour):
    page = tour(f"#/explain?text={TEXT}&m=attcat,gradient,rollout,grad_x_input")
    expect(strip(page, "grad_x_input")).to_be_visible()
    expect(page.get_by_label("Stack another method")).to_be_disabled()
    agreement = page.get_by_role("table", name="How far the methods agree")
    expect(agreement.get_by_role("rowheader")).to_have_count(4)
    expect(agreement.get_by_text("τ ")).to_have_count(6)


def test_target_radio_explains_the_chosen_label_as_the_library_does(tour, explainer):
    page = tour(f"#/explain?text={TEXT}&m=grad_x_input")
    page.get_by_role("radio", name=re.compile("^negative (?!rather)")).check()
    expect(page).to_have_url(re.compile("target=negative"))
    why = explainer.explain(TEXT, method="grad_x_input", target="negative")
    word = why.top(1)[0]
    sign = "+" if word.score > 0 else "−"
    expect(
        strip(page, "grad_x_input").get_by_role(
            "button", name=re.compile(f"^{word.text}: \\{sign}")
        )
    ).to_be_visible()
    assert_scores(page, why)
    page.get_by_role("radio", name="positive rather than negative").check()
    expect(page).to_have_url(re.compile("target=positive%3Anegative|target=positive:negative"))


def test_explain_page_warns_that_a_too_long_text_was_cut(tour):
    page = tour("#/explain")
    page.get_by_role("textbox", name="Text").fill("a good film " * 120)
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(page.get_by_role("list", name="Warnings")).to_contain_text(re.compile("cut|left out"))


def test_model_switch_replaces_a_sample_text_but_not_a_text_of_the_user(visit):
    page = visit("#/explain?model=reviews")
    settle(page)
    box = page.get_by_role("textbox", name="Text")
    expect(box).to_have_value("the plot is thin, but the actors are wonderful")
    page.reload()  # the address now holds the sample, which is nobody's own text all the same
    settle(page)
    page.get_by_role("combobox", name="Model", exact=True).select_option("decoy")
    settle(page)
    expect(box).to_have_value("the decoy has a superb story but its ending is dull")
    word = strip(page, "leave_one_out").get_by_role("button", name=re.compile("^superb: "))
    assert float(re.search(r": \+?([\d.]+)", word.get_attribute("aria-label"))[1]) > 0.1
    expect(page.get_by_role("list", name="Warnings")).to_have_count(0)
    box.fill("the ending is awful")
    page.get_by_role("button", name="Explain", exact=True).click()
    settle(page)
    page.get_by_role("combobox", name="Model", exact=True).select_option("reviews")
    settle(page)
    expect(box).to_have_value("the ending is awful")


def test_text_above_the_character_limit_is_refused_and_not_cut(visit, app):
    most = app.get("api/session")["limits"]["characters"]
    page = visit("#/explain")
    box = page.get_by_role("textbox", name="Text")
    box.fill("x" * (most + 13))
    expect(box).to_have_value("x" * (most + 13))
    expect(
        page.get_by_text("The text has 50 013 characters, and 50 000 are the most: give a part")
    ).to_be_visible()
    expect(page.get_by_role("button", name="Explain", exact=True)).to_be_disabled()
    # One long word, and the field stays within the window.
    place = box.bounding_box()
    assert place["x"] >= 0 and place["x"] + place["width"] <= 1360
    assert place["height"] < 300
    assert page.evaluate("document.documentElement.scrollWidth") <= 1360
    # A link may hold it all the same: then the server says it, in one sentence.
    page = visit(f"#/explain?text={'x' * (most + 13)}", forgive="413")
    expect(page.get_by_role("alert").first).to_contain_text(
        "The text has 50,013 characters, and the app takes 50,000: give a part of it."
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 1360


@pytest.mark.parametrize(
    ("wrong", "asked"), [("m=nomethod", "attcat"), ("target=banana", "attcat")]
)
def test_link_with_an_unknown_method_or_target_falls_back_to_the_default(visit, wrong, asked):
    page = visit(f"#/explain?text={TEXT}&{wrong}", forgive="422")
    expect(strip(page, asked)).to_be_visible()
    expect(page.get_by_role("status").filter(has_text="instead: ")).to_contain_text(
        wrong.split("=")[1]
    )
    expect(page).not_to_have_url(re.compile(re.escape(wrong)))
    expect(page.get_by_role("combobox", name=re.compile("^Method"))).to_be_enabled()


def test_old_explanation_is_marked_as_old_while_the_next_one_is_computed(visit):
    page = visit(f"#/explain?text={TEXT}")
    settle(page)
    waiting, held = [], [True]

    def answer(asked):
        waiting.append(asked) if held[0] else asked.continue_()

    page.route(re.compile("/api/(explain|flow|heads)$"), answer)
    page.get_by_role("textbox", name="Text").fill("another text")
    page.get_by_role("button", name="Explain", exact=True).click()
    old = page.get_by_text("Of the question before")
    expect(old.first).to_be_visible()
    expect(page.get_by_role("button", name="Test it")).to_be_disabled()
    expect(page.get_by_role("button", name="Verify path")).to_be_disabled()
    expect(page.get_by_text("No edge is shown.")).to_have_count(0)
    held[0] = False
    for asked in waiting:
        asked.continue_()
    expect(
        strip(page, "attcat").get_by_role("button", name=re.compile("^another: "))
    ).to_be_visible()
    expect(old).to_have_count(0)
    expect(page.get_by_role("button", name="Test it")).to_be_enabled()


def test_method_name_on_the_explain_page_links_to_its_card(visit):
    page = visit(f"#/explain?text={TEXT}")
    page.get_by_role("link", name="attcat", exact=True).click()
    expect(page).to_have_url(re.compile("#/help.*card=method%3Aattcat"))
    page.go_back()
    expect(strip(page, "attcat")).to_be_visible()


def test_trust_card_on_the_explain_page_gives_verdicts_and_exports_csv(tour):
    page = tour(f"#/explain?text={TEXT}")
    page.get_by_role("button", name=re.compile("^Test")).first.click()
    card = page.get_by_role("region", name=re.compile("[Tt]rust"))
    expect(card.get_by_text(re.compile("holds|weak|fails")).first).to_be_visible(timeout=60_000)
    photograph(page, "trust")
    with page.expect_download() as saved:
        card.get_by_role("button", name="CSV: trust").click()
    rows = read_csv_rows(Path(saved.value.path()).read_bytes())
    assert {"deletion", "sufficiency"} <= {row["test"] for row in rows}
