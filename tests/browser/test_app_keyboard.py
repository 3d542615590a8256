"""Keyboard use of the app: every shortcut of the key map, and a whole task without a pointer."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.app import APP, edges, settle, status, strip
from tests.conftest import ROOT

pytestmark = APP

TEXT = "the plot is thin, but the actors are wonderful"
LINK = f"#/explain?text={TEXT}"
KEYS = Path(ROOT, "web", "src", "state", "keyMap.ts").read_text(encoding="utf-8")


def press_key(page, key):
    settle(page)
    page.keyboard.press(key)


def at(page, pattern):
    expect(page).to_have_url(re.compile(pattern))


def focused(page):
    return page.evaluate(
        "document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.tagName"
    )


def arrows(page):
    press_key(page, "ArrowRight")
    first = focused(page)
    assert first.startswith("the: ")
    press_key(page, "ArrowRight")
    assert focused(page).startswith("plot: ")
    press_key(page, "ArrowLeft")
    assert focused(page) == first


def layers(page):
    press_key(page, "]")
    at(page, r"head=3\.0")
    press_key(page, "ArrowDown")
    at(page, r"head=2\.0")
    press_key(page, "ArrowUp")
    at(page, r"head=3\.0")


def heads(page):
    press_key(page, "]")
    at(page, r"head=3\.0")
    press_key(page, "]")
    at(page, r"head=3\.1")
    press_key(page, "[")
    at(page, r"head=3\.0")


def pin_and_unpin(page):
    press_key(page, "ArrowRight")
    press_key(page, "ArrowRight")
    press_key(page, "Enter")
    at(page, "dir=through&tok=2")
    expect(page.get_by_role("list", name="In force")).to_contain_text("through “plot”")
    press_key(page, "Escape")
    expect(page.get_by_role("list", name="In force")).to_have_count(0)


def test_escape_unselects_the_edge_the_head_and_the_words(tour):
    page = tour(LINK)
    settle(page)
    page.get_by_role("region", name="Details").get_by_role("row").nth(1).get_by_role(
        "button"
    ).first.click()
    chosen = page.locator("p.chosen")
    expect(chosen).to_contain_text("takes this edge")
    press_key(page, "Escape")
    expect(chosen).to_contain_text("Click an edge, a head or a word")
    page = tour(f"{LINK}&head=2.1&H=2.1&pin=2")
    settle(page)
    expect(page.get_by_role("list", name="In force")).to_be_visible()
    expect(page.get_by_text("Layer 2, head 1: ")).to_be_visible()
    press_key(page, "Escape")
    expect(page.get_by_role("list", name="In force")).to_have_count(0)
    expect(page.get_by_text("Layer 2, head 1: ")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("head=|H=|pin="))


def trace(page):
    press_key(page, "ArrowRight")
    press_key(page, "ArrowRight")
    press_key(page, "f")
    at(page, "dir=forward&tok=2")
    press_key(page, "t")
    at(page, "dir=through&tok=2")


def coverage(page):
    for key, share in (("+", 55), ("=", 60), ("-", 55)):
        press_key(page, key)
        expect(page.get_by_role("slider", name="Coverage")).to_have_value(str(share))


def specials(page):
    for value in ("show", "hide", "gutter"):
        press_key(page, "s")
        expect(page.get_by_role("combobox", name="Specials")).to_have_value(value)


def words(page):
    box = page.get_by_role("checkbox", name="words")
    press_key(page, "w")
    expect(box).not_to_be_checked()
    press_key(page, "w")
    expect(box).to_be_checked()


def method(page):
    choice = page.get_by_role("combobox", name=re.compile("^Method"))
    expect(choice.locator("option").nth(9)).to_be_attached()
    names = choice.locator("option").evaluate_all("all => all.map(one => one.value)")
    for number in (1, 3, 9):
        press_key(page, str(number))
        expect(choice).to_have_value(names[number - 1])


def difference(page):
    page.get_by_role("link", name="Compare").focus()
    page.keyboard.press("Enter")
    settle(page)
    press_key(page, "d")
    at(page, "diff=1")
    press_key(page, "d")
    expect(page).not_to_have_url(re.compile("diff=1"))


def swap(page):
    page.get_by_role("link", name="Compare").focus()
    page.keyboard.press("Enter")
    settle(page)
    before = page.get_by_role("combobox", name=re.compile("^A")).input_value()
    press_key(page, "x")
    expect(page.get_by_role("combobox", name=re.compile("^B"))).to_have_value(before)


def view(page):
    press_key(page, "r")
    expect(page.get_by_role("button", name="Rings", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )
    press_key(page, "r")
    expect(page.get_by_role("button", name="Ladder", exact=True)).to_have_attribute(
        "aria-pressed", "true"
    )


def verify(page):
    edges(page)
    press_key(page, "v")
    region = page.get_by_role("region", name="Verify the path")
    expect(region.get_by_role("button", name="Verify again")).to_be_visible(timeout=60_000)


def export(page):
    edges(page)
    press_key(page, "e")
    expect(page.locator("[data-export='flow']").get_by_role("button", name="SVG")).to_be_focused()
    with page.expect_download() as saved:
        page.keyboard.press("Enter")
    assert saved.value.suggested_filename == "whence-flow.svg"


def link(page):
    press_key(page, "l")
    expect(
        page.get_by_role("status").filter(has_text="The link is in the clipboard.")
    ).to_have_count(1)


def query(page):
    edges(page)
    press_key(page, "/")
    expect(page.get_by_role("textbox", name="Filter")).to_be_focused()
    # While somebody types, letters are letters.
    page.keyboard.type("thin")
    expect(page.get_by_role("textbox", name="Filter")).to_have_value("thin")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="In force")).to_contain_text("touches “thin”")


def helping(page):
    press_key(page, "?")
    at(page, "#/help")
    expect(page.get_by_role("heading", name="Keys")).to_be_visible()


TRIED = {
    arrows: ("token-before", "token-after"),
    layers: ("layer-up", "layer-down"),
    heads: ("head-before", "head-after"),
    pin_and_unpin: ("pin", "unpin"),
    trace: ("trace-back", "trace-forward"),
    coverage: ("coverage-more", "coverage-less"),
    specials: ("specials",),
    words: ("words",),
    method: ("method",),
    difference: ("difference",),
    swap: ("swap",),
    view: ("view",),
    verify: ("verify",),
    export: ("export",),
    link: ("link",),
    query: ("query",),
    helping: ("help",),
}


def test_key_map_lists_exactly_the_shortcuts_that_are_tested():
    listed = re.findall(r'action: "([a-z-]+)"', KEYS)
    assert len(listed) > 20
    assert sorted(listed) == sorted(action for actions in TRIED.values() for action in actions)


@pytest.mark.parametrize("shortcut", TRIED, ids=lambda one: one.__name__)
def test_shortcut_of_the_key_map_does_its_action(tour, shortcut):
    page = tour(LINK)
    expect(status(page)).to_be_visible()
    shortcut(page)


def tab_to(page, wanted, most=80):
    """Press Tab until the wanted element has the focus, which must be seen on its way."""
    for _ in range(most):
        page.keyboard.press("Tab")
        if wanted.evaluate("each => each === document.activeElement"):
            return
    raise AssertionError(f"{wanted} cannot be reached by keyboard")


def test_explaining_and_tracing_a_word_works_by_keyboard_alone(visit):
    page = visit()
    settle(page)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="To the content")).to_be_focused()
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("textbox", name="Text"))
    page.keyboard.press("Control+a")
    page.keyboard.type("not a bad film at all")
    page.keyboard.press("Enter")
    bad = strip(page, "attcat").get_by_role("button", name=re.compile("^bad: "))
    expect(bad).to_be_visible()
    settle(page)
    page.evaluate("document.activeElement.blur()")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    expect(bad).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="In force")).to_contain_text("through “bad”")
    picture = page.locator("figure[data-picture='flow'] [role=listbox]")
    settle(page)
    tab_to(page, picture)
    # A visible focus, and marks that are walked and said.
    assert picture.evaluate("each => getComputedStyle(each).outlineStyle") != "none"
    page.keyboard.press("ArrowRight")
    said = picture.get_by_role("option").inner_text()
    page.keyboard.press("ArrowRight")
    assert picture.get_by_role("option").inner_text() != said
    assert re.search(r"\d+ of \d+$", said)
