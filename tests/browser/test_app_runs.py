"""Runs page of the app: stored runs are listed while they are written, opened and read by row."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests import stores
from tests.browser.app import APP, EVIL, RUN, photograph, settle, strip
from whence.runs.store import Store

pytestmark = APP

INJECTED = "img, object, embed, main script, [onload], [onerror], [onclick]"


@pytest.fixture
def runs(app):
    return {one["name"]: one for one in app.get("api/runs")["runs"]}


@pytest.fixture
def folder(app):
    return app.folder / "runs"  # the API names it without its place on this machine


def row(page, name):
    """Find the line of a run."""
    return page.get_by_role("region", name="Runs").get_by_role("row").filter(has_text=name)


def test_runs_page_lists_states_and_updates_while_a_run_is_written(tour, folder):
    page = tour("#/runs")
    expect(row(page, RUN)).to_contain_text("complete")
    expect(row(page, "torn").first).to_contain_text("damaged")
    expect(page.get_by_text("manifest")).to_be_visible()
    expect(row(page, "unfinished")).to_contain_text("2 of 40")
    with Store.open_locked(folder / "unfinished") as store:
        who = stores.identity()
        store.begin(stores.plan(limit=40), who, stores.DATA)
        store.find_results(stores.window())
        store.add_result(stores.make_task_result(who, stores.window(), 1))
        expect(row(page, "unfinished")).to_contain_text("4 of 40", timeout=20_000)
    photograph(page, "runs")


def test_click_on_a_run_opens_its_report_in_a_sandboxed_frame(tour, runs):
    page = tour("#/runs")
    page.get_by_role("button", name=RUN, exact=True).click()
    expect(page).to_have_url(re.compile(f"run={runs[RUN]['id']}"))
    settle(page)
    frame = page.frame_locator("iframe")
    expect(frame.get_by_text(RUN).first).to_be_visible()
    assert page.locator("iframe").get_attribute("sandbox") == ""
    with page.expect_download() as saved:
        page.get_by_role("link", name="Markdown").click()
    assert saved.value.suggested_filename == f"{runs[RUN]['id']}.md"
    photograph(page, "runs-report")
    page.go_back()
    expect(page.get_by_role("region", name="Runs")).to_be_visible()


def test_rows_of_a_run_are_filtered_and_one_opens_on_the_explain_page(tour, runs):
    page = tour(f"#/runs?run={runs[RUN]['id']}&tab=rows")
    table = page.get_by_role("region", name="Rows")
    expect(page.get_by_text("1–50 of 140 rows")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("51–100 of 140 rows")).to_be_visible()
    page.get_by_role("combobox", name="Explanations").select_option("failed")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(table).to_contain_text("It did not work.")
    page.get_by_role("combobox", name="Explanations").select_option("all")
    page.get_by_role("searchbox", name="Find").fill("NUMBER 17")
    expect(table.locator("tbody tr")).to_have_count(2)
    expect(page).to_have_url(re.compile("search"))
    table.get_by_role("button", name="review number 17").first.click()
    open_row = page.get_by_role("region", name="Row 17")
    expect(open_row.locator(".unit")).to_have_text(["review", "number", "17"])
    photograph(page, "runs-row")
    open_row.get_by_role("link", name="Explain this in the workbench").click()
    expect(page.get_by_role("textbox", name="Text")).to_have_value("review number 17")
    settle(page)
    expect(strip(page, "attcat")).to_be_visible()


def test_runs_page_displays_hostile_names_and_texts_as_plain_text(tour, visit, runs):
    page = tour(f"#/runs?run={runs[RUN]['id']}&tab=rows&found=at%3D0")
    expect(page.get_by_role("region", name="Row 0").locator(".run-words")).to_contain_text(
        "onerror"
    )
    expect(page.get_by_role("region", name="Rows")).to_contain_text(EVIL)
    assert page.locator(INJECTED).count() == 0
    attack = quote("../../<img src=x onerror=alert(1)>")
    page = tour(f"#/runs?run={attack}&found={attack}")
    expect(page.get_by_text("There is no run “../../<img")).to_be_visible()
    assert page.locator(INJECTED).count() == 0
