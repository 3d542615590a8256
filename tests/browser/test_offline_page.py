"""Offline page of explanations in a browser: flow, views and links without network; hostile text; no scripts."""

import json
import re

import pytest

import whence
from tests.browser.pages import open_page, word
from whence.explain.page import render_page

EVIL = "</script><img src=x onerror=alert(1)>"
TEXT = "the plot is thin, but the actors are wonderful"

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


@pytest.fixture(scope="module")
def file(explainer, tmp_path_factory):
    """A file about three inputs of two models."""
    path = tmp_path_factory.mktemp("offline") / "why.html"
    groups = [
        list(explainer.explain(TEXT, method=["attcat", "rollout"]).values()),
        list(whence.load("decoy").explain("the decoy film is great", method=["attcat"]).values()),
        [explainer.explain(("a good film", "a bad film"), target=("positive", "negative"))],
    ]
    path.write_text(render_page(groups, title="three inputs"), encoding="utf-8")
    return path


def has_no_requests_or_errors(seen, path):
    """Say whether a page asked for nothing but itself, and complained about nothing."""
    asked = {re.sub(r"#.*", "", url) for url in seen["requests"]}
    return asked == {path.as_uri()} and not seen["dialogs"] and not seen["errors"]


def drawn_edges(page):
    return int(
        re.search(r"shown ([\d,]+) edges", page.locator(".whence-app").inner_text()).group(1)
    )


def test_offline_page_draws_the_flow_of_the_library_without_network(browser, explainer, file):
    page, seen = open_page(browser, file)
    page.get_by_text("shown").first.wait_for()
    flow = explainer.inside(TEXT).flow(query=whence.flow.EdgeQuery(specials=False))
    total, count = 0.0, 0
    while total < 0.5 * flow["total"]:
        total, count = total + flow["edges"]["flow"][count], count + 1
    assert drawn_edges(page) == count
    ink = page.evaluate("""() => {
        const canvas = document.querySelector('.panel.flow canvas');
        const {data} = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
        let dark = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] && data[at] < 128) dark++;
        return dark;
    }""")
    assert ink > 500
    assert has_no_requests_or_errors(seen, file)
    page.context.close()


def test_offline_page_draws_every_view_edge_weight_and_head_statistic(browser, file):
    page, seen = open_page(browser, file)
    page.get_by_text("shown").first.wait_for()
    for view in ("Rings", "Sankey", "Heatmap", "Network", "Ladder"):
        page.get_by_role("group", name="View").get_by_role("button", name=view).click()
        page.wait_for_timeout(100)
    weights = page.get_by_role("combobox", name=re.compile(r"weight", re.IGNORECASE))
    for name in ("norm", "value_zeroing", "gradient_x_attention", "relevance", "attention"):
        weights.select_option(name)
        page.wait_for_timeout(100)
        assert drawn_edges(page) > 0
    heads = page.get_by_label("One number per head")
    for name in ("special", "gradient", "thumbnails", "entropy"):
        heads.select_option(name)
        page.wait_for_timeout(100)
    assert page.locator(".fault").count() == 0
    assert has_no_requests_or_errors(seen, file)
    page.context.close()


def test_offline_page_switches_inputs_and_a_link_restores_one(browser, file):
    page, seen = open_page(browser, file)
    page.get_by_text("shown").first.wait_for()
    page.get_by_label("Input, of 3").select_option(
        label="2. the decoy film is great (decoy: positive)"
    )
    word(page, "decoy").wait_for()
    page.wait_for_timeout(300)
    link = page.url
    assert "model=decoy" in link
    page.context.close()
    context = browser.new_context(offline=True)
    again = context.new_page()
    again.goto(link)
    word(again, "decoy").wait_for()
    assert again.get_by_label("Input, of 3").input_value() == "1"
    context.close()
    assert has_no_requests_or_errors(seen, file)


def test_offline_page_disables_work_of_the_model_and_names_the_app_command(browser, file):
    page, seen = open_page(browser, file)
    page.get_by_text("shown").first.wait_for()
    assert page.get_by_role("button", name="Verify path").is_disabled()
    assert page.get_by_text("whence app --model reviews").first.is_visible()
    page.goto(
        file.as_uri()
        + "#/explain?model=reviews&text="
        + TEXT.replace(" ", "+")
        + "&m=attcat&dir=forward&tok=2"
    )
    page.reload()
    page.locator(".fault").first.wait_for()
    assert "whence app --model reviews" in page.locator(".fault").first.inner_text()
    assert has_no_requests_or_errors(seen, file)
    page.context.close()


def test_offline_page_displays_hostile_text_as_plain_text(browser, explainer, tmp_path):
    path = tmp_path / "why.html"
    explainer.explain(f"a beautifully acted film {EVIL}").to_html(path)
    page, seen = open_page(browser, path)
    page.get_by_text("shown").first.wait_for()
    page.wait_for_timeout(200)
    assert has_no_requests_or_errors(seen, path)
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2  # the data and the program, which are whence's own
    assert EVIL in page.get_by_placeholder("A text to explain").input_value()
    page.context.close()


def test_offline_page_blocks_a_script_added_to_the_file(browser, file, tmp_path):
    """Whoever adds a script to the file finds that it does nothing."""
    path = tmp_path / "why.html"
    path.write_text(
        file.read_text().replace("</body>", "<script>document.title = 'run'</script></body>")
    )
    page, seen = open_page(browser, path)
    page.get_by_text("shown").first.wait_for()
    assert page.title() == "three inputs"
    assert any("Content Security Policy" in error for error in seen["errors"])
    page.context.close()


def test_offline_page_without_scripts_shows_the_plain_strips(browser, file):
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert page.get_by_role("heading", name="three inputs").is_visible()
    strips = [strip.inner_text() for strip in page.locator(".strip").all()]
    assert len(strips) == 5  # two methods, one, and both texts of the pair
    assert "wonderful" in strips[0]
    context.close()


def test_offline_page_unfolds_the_plain_page_on_click(browser, file):
    page, _ = open_page(browser, file)
    plain = page.locator(".whence-plain .strip").first
    assert not plain.is_visible()
    page.get_by_text("The same as text and tables").click()
    assert plain.is_visible()
    page.get_by_text("Where this comes from").first.click()
    assert page.get_by_text("fingerprint").first.is_visible()
    page.context.close()


def test_offline_page_of_a_loaded_explanation_shows_its_words_and_a_notice(
    browser, explainer, tmp_path
):
    explainer.explain("a dull film").save(tmp_path / "e.json")
    path = tmp_path / "why.html"
    whence.Explanation.load(tmp_path / "e.json").to_html(path)
    page, seen = open_page(browser, path)
    word(page, "dull").wait_for()
    assert page.get_by_text("came without its model").first.is_visible()
    assert has_no_requests_or_errors(seen, path)
    page.context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_offline_page_follows_the_colour_scheme_and_fits_every_width(browser, file, scheme):
    context = browser.new_context(offline=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(file.as_uri())
    page.get_by_text("shown").first.wait_for()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    light = sum(json.loads(f"[{paper.removeprefix('rgb(').removesuffix(')')}]"))
    assert light > 700 if scheme == "light" else light < 100
    for width in (390, 900, 1400):
        page.set_viewport_size({"width": width, "height": 800})
        page.wait_for_timeout(100)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
