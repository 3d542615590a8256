"""A data set in the app: predictions by surprise, a row picked, a file brought, words and heads of all rows."""

import re

from playwright.sync_api import expect

from tests.browser.app import APP, EVIL, ROWS, WRONG, photograph

pytestmark = APP


def rows(page):
    """Return the texts of the table, in its order."""
    return page.get_by_role("region", name="Rows").locator("tbody td.text").all_inner_texts()


def test_rows_are_predicted_and_the_most_surprising_comes_first(tour):
    page = tour("#/data?model=reviews")
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    assert len(rows(page)) == len(ROWS)
    assert rows(page)[0] == WRONG
    expect(page.get_by_role("region", name="Predictions")).to_contain_text("n = 8")
    expect(page.get_by_role("region", name="Rows").locator("tr").nth(1)).to_contain_text("wrong")
    photograph(page, "data")
    page.get_by_role("combobox", name="Answers").select_option("wrong")
    assert WRONG in rows(page)
    expect(page).to_have_url(re.compile("rows="))
    page.get_by_role("button", name="Show all").click()
    page.get_by_role("searchbox", name="Find").fill("gripping")
    assert rows(page) == [ROWS[0][0]]


def test_a_row_is_explained(tour):
    page = tour("#/data?model=reviews")
    page.get_by_role("button", name=WRONG).click()
    expect(page).to_have_url(re.compile("#/explain"))
    expect(page.get_by_role("textbox", name="Text")).to_have_value(WRONG)
    page.go_back()
    expect(page.get_by_role("region", name="Rows")).to_be_visible()


def test_a_file_is_brought(tour, tmp_path):
    path = tmp_path / "mine <b>.csv"
    path.write_text('sentence,label\n"good, and short",1\ndull,0\n,1\n', encoding="utf-8")
    page = tour("#/data?model=reviews")
    page.get_by_label("Bring a file").set_input_files(path)
    expect(page.get_by_role("heading", name="mine _b_.csv")).to_be_visible()
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    assert sorted(rows(page)) == ["dull", "good, and short"]
    expect(page.get_by_text("1 row was left out (number 2)")).to_be_visible()
    expect(page).to_have_url(re.compile("data="))


def test_a_file_that_cannot_be_read_says_why(visit, tmp_path):
    path = tmp_path / "empty.tsv"
    path.write_text("", encoding="utf-8")
    page = visit("#/data", forgive="Failed to load resource")
    page.get_by_label("Bring a file").set_input_files(path)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("empty.tsv")
    expect(alert).not_to_contain_text("Traceback")


def test_words_of_each_class(tour):
    page = tour("#/data?model=reviews&tab=words")
    page.get_by_role("spinbutton", name=re.compile("In at least")).fill("1")
    page.get_by_role("button", name="Find the words").click()
    section = page.get_by_role("region", name="Words of each class")
    expect(section.locator("figure")).to_have_count(2, timeout=30_000)
    expect(section).to_contain_text("If all words weighed the same")
    photograph(page, "data-words")


def test_what_heads_attend_to(tour):
    page = tour("#/data?model=reviews&tab=heads")
    page.get_by_role("button", name="Look at the heads").click()
    section = page.get_by_role("region", name="What heads attend to")
    expect(section.locator("figure").first).to_be_visible(timeout=30_000)
    section.get_by_role("combobox", name="Kind of place").select_option("previous")
    expect(section.get_by_role("heading", name=re.compile("Attention to previous"))).to_be_visible()
    table = page.get_by_role("region", name="Heads by previous, with 95% intervals")
    table.locator("tbody button").first.click()
    expect(section.get_by_role("heading", name=re.compile(r"^Layer \d, head \d$"))).to_be_visible()
    expect(section).to_contain_text("spread evenly it would be")
    photograph(page, "data-heads")


def test_a_hostile_row_is_text(tour):
    page = tour("#/data?model=reviews")
    expect(page.get_by_role("button", name=f"a good film {EVIL}")).to_be_visible()
    assert page.locator("img, script:not([src])").count() == 0
