"""Data page of the app: rows by surprise, a row explained, an uploaded file, words and heads over all rows."""

import re

from playwright.sync_api import expect

from tests.browser.app import (
    APP,
    EVIL,
    ROWS,
    WRONG,
    App,
    Visitor,
    photograph,
    settle,
    strip,
)

pytestmark = APP


def rows(page):
    """Return the texts of the table, in its order."""
    return page.get_by_role("region", name="Rows").locator("tbody td.text").all_inner_texts()


def test_data_page_lists_predicted_rows_with_the_most_surprising_first(tour):
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


def test_click_on_a_data_row_opens_the_explain_page_with_its_text(tour):
    page = tour("#/data?model=reviews")
    page.get_by_role("button", name=WRONG).click()
    expect(page).to_have_url(re.compile("#/explain"))
    expect(page.get_by_role("textbox", name="Text")).to_have_value(WRONG)
    page.go_back()
    expect(page.get_by_role("region", name="Rows")).to_be_visible()


def test_data_row_under_a_folder_model_is_explained_by_that_model(tour):
    page = tour("#/data?model=own-reviews")
    page.get_by_role("button", name=WRONG).click()
    expect(page).to_have_url(re.compile("#/explain.*model=own-reviews"))
    settle(page)
    expect(strip(page, "attcat")).to_be_visible()


def test_next_row_button_on_the_explain_page_opens_the_second_row(tour):
    page = tour("#/data?model=own-reviews")
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    first, second = rows(page)[:2]
    page.get_by_role("button", name=first).click()
    walk = page.get_by_role("navigation", name="Rows of the data set")
    expect(walk).to_contain_text(f"1 of {len(ROWS)} by surprise")
    expect(walk.get_by_role("button", name="Previous row")).to_be_disabled()
    walk.get_by_role("button", name="Next row").click()
    expect(page.get_by_role("textbox", name="Text")).to_have_value(second)
    settle(page)
    photograph(page, "data-row")
    # Another text is no row.
    page.get_by_role("textbox", name="Text").fill("a text of my own")
    page.get_by_role("button", name="Explain", exact=True).click()
    expect(walk).to_have_count(0)


def test_uploaded_csv_is_listed_and_its_empty_row_is_left_out(tour, tmp_path):
    path = tmp_path / "mine <b>.csv"
    path.write_text('sentence,label\n"good, and short",1\ndull,0\n,1\n', encoding="utf-8")
    page = tour("#/data?model=reviews")
    page.get_by_label("Bring a file").set_input_files(path)
    expect(page.get_by_role("heading", name="mine _b_.csv")).to_be_visible()
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    assert sorted(rows(page)) == ["dull", "good, and short"]
    expect(page.get_by_text("1 row was left out (number 2)")).to_be_visible()
    expect(page).to_have_url(re.compile("data="))


def test_choice_of_another_text_column_lists_the_texts_of_that_column(tour, tmp_path):
    path = tmp_path / "columns.csv"
    path.write_text("sentence,title,label\ndull,fine,1\ngood,bad,0\n", encoding="utf-8")
    page = tour("#/data?model=reviews")
    page.get_by_label("Bring a file").set_input_files(path)
    expect(page.get_by_role("heading", name="columns.csv")).to_be_visible()
    column = page.get_by_role("combobox", name="Text in column")
    expect(column).to_have_value("sentence")
    expect(page.get_by_text("guessed")).to_have_count(2)
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    assert sorted(rows(page)) == ["dull", "good"]
    column.select_option("title")
    expect(page.get_by_role("button", name="fine")).to_be_visible()
    assert sorted(rows(page)) == ["bad", "fine"]
    page.get_by_role("combobox", name="Labels").select_option("none")
    expect(page.get_by_text("The file has no labels")).to_be_visible()
    expect(page.get_by_role("combobox", name="Text in column")).to_have_value("title")


def test_uploaded_file_of_unknown_columns_is_read_after_columns_are_chosen(visit, tmp_path):
    path = tmp_path / "news.tsv"
    path.write_text(
        "id\theadline\tverdict\n1\ta fine film\tpositive\n2\ta dull film\tnegative\n",
        encoding="utf-8",
    )
    page = visit("#/data?model=reviews", forgive="Failed to load resource")
    settle(page)
    page.get_by_label("Bring a file").set_input_files(path)
    expect(
        page.get_by_role("heading", name="Which column of news.tsv is the text?")
    ).to_be_visible()
    first = page.get_by_role("region", name="First rows of news.tsv")
    expect(first).to_contain_text("a dull film")
    photograph(page, "data-columns")
    read = page.get_by_role("button", name="Read the file")
    expect(read).to_be_disabled()
    first.get_by_role("group", name="headline is").get_by_role(
        "button", name="Text", exact=True
    ).click()
    first.get_by_role("group", name="verdict is").get_by_role("button", name="Label").click()
    read.click()
    expect(page.get_by_role("heading", name="news.tsv", exact=True)).to_be_visible()
    expect(page.get_by_role("region", name="Rows")).to_be_visible()
    assert sorted(rows(page)) == ["a dull film", "a fine film"]
    expect(page.get_by_role("combobox", name="Text in column")).to_have_value("headline")
    expect(page.get_by_role("combobox", name="Labels")).to_have_value("verdict")


def test_data_option_with_unknown_columns_lets_the_page_choose_the_text_column(browser, tmp_path):
    path = tmp_path / "tweets.csv"
    path.write_text("who,tweet\nann,a fine film\nben,a dull film\n", encoding="utf-8")
    running = App(tmp_path, "--model", "reviews", "--data", str(path))
    visitor = Visitor(browser, running)
    try:
        page = visitor("#/data")
        settle(page)
        expect(page.get_by_role("navigation", name="Data sets")).to_contain_text(
            "columns to be chosen"
        )
        first = page.get_by_role("region", name="First rows of tweets.csv")
        first.get_by_role("group", name="tweet is").get_by_role(
            "button", name="Text", exact=True
        ).click()
        page.get_by_role("button", name="Read the file").click()
        expect(page.get_by_role("heading", name="tweets.csv", exact=True)).to_be_visible()
        expect(page.get_by_role("region", name="Rows")).to_be_visible()
        assert sorted(rows(page)) == ["a dull film", "a fine film"]
    finally:
        visitor.close()
        running.kill()


def test_upload_of_an_empty_file_shows_an_alert_that_names_the_file(visit, tmp_path):
    path = tmp_path / "empty.tsv"
    path.write_text("", encoding="utf-8")
    page = visit("#/data", forgive="Failed to load resource")
    page.get_by_label("Bring a file").set_input_files(path)
    alert = page.get_by_role("alert")
    expect(alert).to_contain_text("empty.tsv")
    expect(alert).not_to_contain_text("Traceback")


def test_words_tab_draws_a_figure_for_each_of_two_classes(tour):
    page = tour("#/data?model=reviews&tab=words")
    page.get_by_role("spinbutton", name=re.compile("In at least")).fill("1")
    page.get_by_role("button", name="Find the words").click()
    section = page.get_by_role("region", name="Words of each class")
    expect(section.locator("figure")).to_have_count(2, timeout=30_000)
    expect(section).to_contain_text("If all words weighed the same")
    expect(page).to_have_url(re.compile("rows=least%3D1"))
    photograph(page, "data-words")


def test_example_of_a_word_is_explained_by_the_chosen_folder_model(tour):
    page = tour("#/data?model=own-reviews&tab=words&rows=least%3D1")
    page.get_by_role("button", name="Find the words").click()
    section = page.get_by_role("region", name="Words of each class")
    bars = section.get_by_role("listbox").first
    expect(bars).to_be_visible(timeout=30_000)
    bars.focus()
    bars.press("Home")
    bars.press("Enter")
    section.locator(".examples li button").first.click()
    expect(page).to_have_url(re.compile("#/explain.*model=own-reviews"))
    settle(page)
    expect(strip(page, "attcat")).to_be_visible()


def test_heads_tab_sorts_heads_by_attention_to_the_chosen_kind_of_place(tour):
    page = tour("#/data?model=reviews&tab=heads")
    page.get_by_role("button", name="Look at the heads").click()
    section = page.get_by_role("region", name="What heads attend to")
    expect(section.locator("figure").first).to_be_visible(timeout=30_000)
    section.get_by_role("combobox", name="Kind of place").select_option("previous")
    expect(section.get_by_role("heading", name=re.compile("Attention to previous"))).to_be_visible()
    expect(page).to_have_url(re.compile("rows=place%3Dprevious"))
    table = page.get_by_role("region", name=re.compile("heads by previous, the most first"))
    shares = [
        float(said.rstrip("%")) for said in table.locator("tbody td:nth-child(3)").all_inner_texts()
    ]
    assert shares == sorted(shares, reverse=True)
    table.locator("tbody button").first.click()
    expect(section.get_by_role("heading", name=re.compile(r"^Layer \d, head \d$"))).to_be_visible()
    expect(section).to_contain_text("spread evenly it would be")
    photograph(page, "data-heads")


def test_data_page_displays_a_hostile_row_as_plain_text(tour):
    page = tour("#/data?model=reviews")
    expect(page.get_by_role("button", name=f"a good film {EVIL}")).to_be_visible()
    assert page.locator("img, script:not([src])").count() == 0
