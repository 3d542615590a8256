"""Accessibility of the app: no serious axe-core finding, a table for every picture, no sideways scrolling."""

import pytest
from playwright.sync_api import expect

from tests.browser.app import APP, photograph
from tests.conftest import ROOT

pytestmark = APP

TEXT = "the plot is thin, but the actors are wonderful"
PAGES = {
    "explain": f"#/explain?text={TEXT}&m=attcat,rollout&head=2.1&pin=3",
    "rings": f"#/explain?text={TEXT}&view=rings&classic=0.2,0.5,1",
    "compare": f"#/compare?text={TEXT}&head=2.1",
    "compare-data": "#/compare?tab=data",
    "data": "#/data?model=reviews",
    "data-words": "#/data?model=reviews&tab=words",
    "results": "#/results",
    "runs": "#/runs",
    "runs-rows": "#/runs?run=second&tab=rows&found=metric%3Dsufficiency%26at%3D3",
    "help": "#/help",
    "help-card": "#/help?card=attcat",
}


@pytest.fixture(scope="module")
def axe():
    path = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
    if not path.is_file():
        pytest.fail("axe-core is not installed: npm ci in web/, or make web")
    return path.read_text(encoding="utf-8")


def findings(page, axe):
    """Return what axe-core calls serious or critical, with the elements it is about."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:120]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("which", PAGES)
def test_app_page_has_no_serious_axe_finding_in_light_or_dark_scheme(tour, axe, which):
    page = tour(PAGES[which])
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("[data-theme]").first).to_have_attribute("data-theme", scheme)
        photograph(page, f"{which}-{scheme}")
        assert findings(page, axe) == []


@pytest.mark.parametrize("which", ["explain", "compare"])
def test_every_picture_of_explain_and_compare_has_a_name_and_a_table(tour, which):
    page = tour(PAGES[which])
    pictures = page.locator("figure.picture")
    expect(pictures).to_have_count(3)  # heads, one of them, the flow
    for picture in pictures.all():
        assert len(picture.locator("[role=listbox], [role=img]").get_attribute("aria-label")) > 10
        picture.get_by_text("As table").click()
        expect(picture.get_by_role("table")).to_be_visible()
        assert picture.locator("tbody tr").count() > 0


@pytest.mark.parametrize("width", [380, 1000])
def test_app_pages_do_not_scroll_sideways_at_narrow_widths(tour, width):
    for which in ("explain", "compare", "data", "runs", "runs-rows", "help"):
        page = tour(PAGES[which])
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width, which
        photograph(page, f"{which}-{width}")
