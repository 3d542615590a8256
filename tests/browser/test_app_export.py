"""Picture exports of the app: SVG with every counted edge, the same picture as PNG, CSV of scores, captions."""

import io
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import expect

import whence
from tests.browser.app import APP, SCREENSHOTS, edges, export_picture, export_picture_table

pytestmark = APP

TEXT = "the plot is thin, but the actors are wonderful"
LINK = f"#/explain?text={TEXT}&p=70"
SVG = "{http://www.w3.org/2000/svg}"


def parse_svg(content):
    root = ElementTree.fromstring(content)
    assert root.tag == f"{SVG}svg"
    return root


def find_drawn_edges(root):
    """Return the numbers of the edges that an SVG draws."""
    return {int(each.get("data-edge")) for each in root.iter() if each.get("data-edge") is not None}


def pixels(content):
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"), dtype=float)


@pytest.mark.parametrize("view", ["ladder", "rings"])
def test_svg_export_has_every_edge_that_the_status_line_counts(tour, view):
    page = tour(f"{LINK}&view={view}")
    count = edges(page)
    content = export_picture(page, "flow", "SVG")
    root = parse_svg(content)
    assert find_drawn_edges(root) == set(range(count))
    words = " ".join(each.text or "" for each in root.iter(f"{SVG}text"))
    for part in ("whence", "reviews", "edge weight attention", "coverage 70"):
        assert part in words
    # The same state gives the same bytes.
    assert export_picture(page, "flow", "SVG") == content
    assert len(export_picture_table(page, "flow")) == count


@pytest.mark.parametrize("view", ["ladder", "rings", "sankey", "heatmap", "network"])
def test_svg_and_png_exports_of_a_view_are_the_same_picture(tour, browser, view):
    page = tour(f"{LINK}&view={view}")
    edges(page)
    vector, raster = export_picture(page, "flow", "SVG"), export_picture(page, "flow", "PNG")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    (SCREENSHOTS / f"export-{view}.svg").write_bytes(vector)
    (SCREENSHOTS / f"export-{view}.png").write_bytes(raster)
    root, painted = parse_svg(vector), pixels(raster)
    width, height = (float(root.get(side)) for side in ("width", "height"))
    assert painted.shape[:2] == (pytest.approx(2 * height, abs=2), pytest.approx(2 * width, abs=2))
    assert painted.std() > 5  # not blank
    # The vector file, drawn by the browser at the same scale.
    context = browser.new_context(
        device_scale_factor=2, viewport={"width": int(width) + 1, "height": int(height) + 1}
    )
    other = context.new_page()
    other.set_content(f"<!doctype html><body style='margin:0'>{vector.decode()}</body>")
    seen = pixels(other.screenshot())
    context.close()
    rows, columns = (min(a, b) for a, b in zip(seen.shape[:2], painted.shape[:2], strict=True))
    apart = np.abs(seen[:rows, :columns] - painted[:rows, :columns]).max(axis=2)
    # Two renderers smooth edges and letters differently; of a missing edge or a shifted word more pixels would differ
    # than a few in every hundred.
    assert (apart > 96).mean() < 0.02


def test_every_picture_of_the_explain_page_exports_svg_png_and_csv(tour):
    page = tour(f"{LINK}&head=2.1")
    edges(page)
    names = [each.get_attribute("data-export") for each in page.locator("[data-export]").all()]
    assert {"flow", "heads", "head-2-1"} <= set(names)
    for name in names:
        # Chromium blocks a page that downloads some ten files at once.
        page = tour(f"{LINK}&head=2.1")
        edges(page)
        parse_svg(export_picture(page, name, "SVG"))
        assert pixels(export_picture(page, name, "PNG")).std() > 1
        assert export_picture_table(page, name)


def test_tinted_text_exports_svg_and_csv_with_the_scores_of_the_library(tour):
    page = tour(f"{LINK}&m=attcat,rollout")
    edges(page)
    root = parse_svg(export_picture(page, "text", "SVG"))
    words = [each.text for each in root.iter(f"{SVG}text")]
    assert words.count("wonderful") == 2
    assert any("no sign" in each for each in words)
    rows = export_picture_table(page, "text")
    assert " ".join(row["text"] for row in rows) == TEXT.replace(",", " ,")
    why = whence.load("reviews").explain(TEXT)
    for row, word in zip(rows, why.words(), strict=True):
        assert float(row["attcat"]) == pytest.approx(word.score, rel=1e-4, abs=1e-6)


def test_export_caption_names_only_the_settings_of_its_own_picture(tour):
    page = tour(f"{LINK}&C=relevance&L=1-2&dir=forward&tok=4")
    edges(page)
    flow = export_picture(page, "flow", "CSV").decode().splitlines()[0]
    for part in (
        TEXT,
        "target positive",
        "relevance",
        "forward from “thin”",
        "layers 1–2",
        "of what passes the layer in each layer",
    ):
        assert part in flow
    heads = export_picture(page, "heads", "CSV").decode().splitlines()[0]
    assert "entropy" in heads
    assert "attcat" not in heads
    assert "target" not in heads


def test_dark_png_export_leaves_the_page_light(tour):
    page = tour(LINK)
    edges(page)
    light = pixels(export_picture(page, "flow", "PNG"))
    menu = page.locator("[data-export='flow']")
    menu.locator("summary").click()
    menu.get_by_role("checkbox", name="dark").check()
    dark = pixels(export_picture(page, "flow", "PNG"))
    assert light.shape == dark.shape
    assert light.mean() > 200
    assert dark.mean() < 100
    expect(page.locator("[data-theme]")).to_have_attribute("data-theme", re.compile("light"))
