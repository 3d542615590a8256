"""Workbench widget in a notebook cell in a browser: state shared with Python, new texts, path check, layout."""

import pytest

import whence
from tests.browser.notebook_cell import AROUND, show_widget
from tests.browser.pages import word

TEXT = "the plot is thin, but the actors are wonderful"

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:ipywidgets.*"),
]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture
def bench(explainer):
    return whence.workbench(explainer, TEXT, method=["attcat", "rollout"])


def wait_until(page, bench, holds):
    """Wait until what Python knows is as wished."""
    for _ in range(100):
        if holds(bench):
            return
        page.wait_for_timeout(50)
    raise AssertionError((dict(bench.state), dict(bench.selection)))


def test_workbench_selection_in_python_holds_the_strongest_edges(browser, bench, explainer):
    page, errors = show_widget(browser, bench)
    page.get_by_text("shown").first.wait_for()
    wait_until(page, bench, lambda b: b.selection["edges"])
    flow = explainer.inside(TEXT).flow(query=whence.flow.EdgeQuery(specials=False))
    edges = flow["edges"]
    strongest = [[edges[column][i] for column in ("layer", "head", "source", "to")]
                 for i in range(len(bench.selection["edges"]))]  # fmt: skip
    assert bench.selection["edges"] == strongest
    carried = sum(edges["flow"][: len(strongest)])
    assert carried >= 0.5 * flow["total"] > carried - edges["flow"][len(strongest) - 1]
    word(page, "wonderful").click()
    wait_until(page, bench, lambda b: b.selection["tokens"] or b.state["token"] is not None)
    assert errors == []
    page.context.close()


def test_workbench_state_is_synchronised_between_python_and_page(browser, bench):
    page, errors = show_widget(browser, bench)
    page.get_by_role("heading", name="Flow").wait_for()
    bench.state = {"coverage": 0.8}
    page.evaluate("update => window.heard(update)", {"state": bench.state})
    page.get_by_text("80%").first.wait_for()
    page.get_by_role("button", name="Sankey").click()
    wait_until(page, bench, lambda b: b.state["view"] == "sankey")
    assert bench.state["coverage"] == 0.8
    assert errors == []
    page.context.close()


def test_workbench_explains_a_new_text_and_warns_when_a_long_one_is_cut(browser, bench):
    page, errors = show_widget(browser, bench)
    field = page.get_by_placeholder("A text to explain")
    field.fill("a dull film")
    field.press("Enter")
    wait_until(page, bench, lambda b: b.state["text"] == "a dull film")
    word(page, "dull").wait_for()
    field = page.get_by_placeholder("A text to explain")
    field.fill("dull " * 600)
    field.press("Enter")
    wait_until(page, bench, lambda b: b.state["text"].startswith("dull dull"))
    page.get_by_text("cut off").first.wait_for()
    assert errors == []
    page.context.close()


def test_workbench_verify_path_displays_the_sentence_of_the_library(browser, bench, explainer):
    page, errors = show_widget(browser, bench)
    wait_until(page, bench, lambda b: b.selection["edges"])
    page.get_by_role("button", name="Verify path").click()
    edges = [tuple(edge) for edge in bench.selection["edges"]]
    page.get_by_text(explainer.inside(TEXT).verify(edges)["sentence"]).wait_for()
    assert errors == []
    page.context.close()


def test_workbench_of_a_model_against_itself_shows_identical(browser, explainer):
    bench = whence.workbench(explainer, TEXT, against=explainer)
    page, errors = show_widget(browser, bench)
    page.get_by_text("identical").first.wait_for()
    wait_until(page, bench, lambda b: b.selection["edges"])
    assert errors == []
    page.context.close()


def test_workbench_cell_leaves_styles_and_keys_of_the_notebook_alone(browser, bench):
    context = browser.new_context()
    bare = context.new_page()
    bare.set_content(AROUND.format(css="", width=1000))
    page, _ = show_widget(browser, bench)
    page.get_by_role("heading", name="Flow").wait_for()
    look = """[...document.querySelectorAll('html, body, #before, #table, #table td, #command')].map((element) => {
        const {margin, padding, font, color, backgroundColor, border, height} = getComputedStyle(element);
        return {margin, padding, font, color, backgroundColor, border,
            height: element.closest('#before, #table, #command') ? height : ''};
    })"""
    assert page.evaluate(look) == bare.evaluate(look)
    # Keys pressed elsewhere in the notebook are the notebook's.
    page.locator("#command").focus()
    page.keyboard.press("r")
    page.wait_for_timeout(100)
    assert bench.state["view"] == "ladder"
    word(page, "plot").focus()
    page.keyboard.press("r")
    wait_until(page, bench, lambda b: b.state["view"] == "rings")
    page.evaluate("window.gone()")
    assert page.evaluate("document.getElementById('cell').childElementCount") == 0
    context.close()
    page.context.close()


@pytest.mark.parametrize("width", [480, 760, 1000])
def test_workbench_fits_into_its_cell_at_every_width(browser, bench, width):
    page, errors = show_widget(browser, bench, width)
    page.get_by_role("heading", name="Flow").wait_for()
    page.wait_for_timeout(200)
    assert page.evaluate("document.getElementById('cell').scrollWidth") <= width
    assert errors == []
    page.context.close()
