"""Links of the app: the address holds the whole state, so reload, back button and copied links restore the page."""

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.app import APP, edges, export_picture_table, settle, strip

pytestmark = APP

TEXT = "not a bad film at all"
# Everything that a link can say about one input.
FULL = (
    f"#/explain?model=reviews&text={quote(TEXT)}&m=rollout,attcat&target=negative&of=probability&C=norm&p=70&L=1-3"
    "&specials=show&view=rings&stat=special&head=2.1&words=0"
)
PLACES = {
    "explain": FULL,
    "a filter": f"#/explain?text={quote(TEXT)}&pin=3,4&H=2.1,3.0&least=0.02",
    "forward": f"#/explain?text={quote(TEXT)}&dir=forward&tok=3",
    "classic": f"#/explain?text={quote(TEXT)}&classic=0.2,0.5,1",
    "compare": f"#/compare?model=reviews&other=reviews-base&text={quote(TEXT)}&p=30&diff=1",
    "data": "#/data?model=decoy&rows=by%3D-text",
    "help": "#/help?card=attcat",
}


def snapshot_page(page):
    """Return what the page shows, once it is there."""
    settle(page)
    expect(page.locator("main :is(table, dl, figure)").first).to_be_visible()
    method = page.get_by_role("combobox", name=re.compile("^Method"))
    if method.count():
        expect(method.locator("option").nth(9)).to_be_attached()
    return page.locator("main").aria_snapshot()


@pytest.mark.parametrize("place", PLACES)
def test_reload_of_an_app_link_gives_the_same_page_and_address(tour, place):
    page = tour(PLACES[place])
    before, address = snapshot_page(page), page.url
    page.reload()
    assert snapshot_page(page) == before
    assert page.url == address


def test_every_control_of_the_explain_page_takes_its_value_from_the_link(tour):
    page = tour(FULL)
    expect(strip(page, "rollout")).to_be_visible()
    expect(strip(page, "attcat")).to_be_visible()
    expect(page.get_by_role("textbox", name="Text")).to_have_value(TEXT)
    expect(page.get_by_role("radio", name=re.compile("^negative"))).to_be_checked()
    expect(page.get_by_role("combobox", name="Weight")).to_have_value("norm")
    expect(page.get_by_role("slider", name="Coverage")).to_have_value("70")
    expect(page.get_by_role("combobox", name="Specials")).to_have_value("show")
    expect(page.get_by_role("button", name="Rings", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    expect(page.get_by_role("button", name="Layer 0", exact=True)).to_have_attribute(
        "aria-pressed", "false"
    )
    expect(page.get_by_role("combobox", name="One number per head")).to_have_value("special")
    expect(page.get_by_role("heading", name=re.compile("^Head 2.1"))).to_be_visible()
    expect(page.get_by_role("checkbox", name="words")).not_to_be_checked()


def test_back_button_restores_the_earlier_edge_weight(visit):
    page = visit(f"#/explain?text={quote(TEXT)}")
    before = edges(page)
    page.get_by_role("combobox", name="Weight").select_option("norm")
    expect(page).to_have_url(re.compile("C=norm"))
    page.get_by_role("link", name="Help").click()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("combobox", name="Weight")).to_have_value("norm")
    page.go_back()
    expect(page.get_by_role("combobox", name="Weight")).to_have_value("attention")
    assert edges(page) == before


def test_copied_link_opens_the_same_flow_in_another_browser_context(visit, app):
    page = visit(
        f"#/explain?text={quote(TEXT)}&p=30", permissions=["clipboard-read", "clipboard-write"]
    )
    strip(page, "attcat").get_by_role("button", name=re.compile("^bad: ")).click()
    expect(page.get_by_role("list", name="In force")).to_contain_text("through “bad”")
    settle(page)
    page.get_by_role("button", name="Copy link").click()
    expect(
        page.get_by_role("status").filter(has_text="The link is in the clipboard.")
    ).to_have_count(1)
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(app.url)
    other = visit(link.removeprefix(app.url))
    expect(other.get_by_role("list", name="In force")).to_contain_text("through “bad”")
    assert edges(other) == edges(page)
    assert export_picture_table(other, "flow") == export_picture_table(page, "flow")


def test_address_without_parameters_is_completed_with_the_server_defaults(visit, app):
    session = app.get("api/session")
    text = quote(session["samples"][0]["text"], safe=",").replace("%20", "+")
    page = visit()
    settle(page)
    first = session["models"][0]["id"]
    expect(page).to_have_url(f"{app.url}#/explain?model={first}&text={text}&m=attcat&p=50")
    page.goto(f"{app.url}#/compare")
    settle(page)
    base, tuned = session["compare"]
    expect(page).to_have_url(
        f"{app.url}#/compare?model={base}&other={tuned}&text={text}&m=attcat&p=50"
    )


def test_link_to_an_unknown_page_or_an_empty_text_shows_a_message(visit):
    page = visit("#/nonsense")
    expect(page.get_by_text("There is no page “nonsense”.")).to_be_visible()
    page = visit("#/explain?text=")
    expect(page.get_by_text("The link's text is empty")).to_be_visible()


def test_broken_link_applies_valid_parameters_and_reports_the_others(visit):
    page = visit(f"#/explain?text={quote(TEXT)}&p=700&view=cube&nonsense=1&C=norm")
    notice = page.get_by_role("status").filter(has_text="cannot be read")
    expect(notice).to_contain_text("p=700")
    expect(notice).to_contain_text("view=cube")
    expect(notice).to_contain_text("nonsense")
    expect(page.get_by_role("combobox", name="Weight")).to_have_value("norm")
    expect(page.get_by_role("slider", name="Coverage")).to_have_value("50")
    page.get_by_role("button", name="Understood").click()
    expect(notice).to_have_count(0)
