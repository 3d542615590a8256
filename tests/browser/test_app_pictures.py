"""Image models in the app: uploaded or drawn pictures, patch maps as in the library, targets, exports, alerts."""

import io
import re
from base64 import b64decode
from urllib.parse import unquote

import numpy as np
import pytest
from draw_shapes import draw_scene
from PIL import Image
from playwright.sync_api import expect

from tests.browser.app import (
    APP,
    App,
    Visitor,
    export_picture,
    export_picture_table,
    photograph,
    settle,
    strip,
)
from tests.browser.test_app_accessibility import axe, findings  # noqa: F401
from whence.explain.explainer import load
from whence.render.image_maps import overlay_scores

pytestmark = APP

OPEN = "#/explain?model=shapes&picture=shapes:3"


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    """Return the app with the model of pictures, and one of texts."""
    running = App(tmp_path_factory.mktemp("shapes"), "--model", "shapes", "--model", "reviews")
    yield running
    running.kill()


@pytest.fixture
def visit(browser, shapes):
    visitor = Visitor(browser, shapes)
    yield visitor
    visitor.close()


def picture_title_pattern(name):
    """Return how a picture of that name is announced."""
    return re.compile(f"^{re.escape(name)}: 8 by 8 patches")


def maps(page):
    """Find the picture with its maps."""
    return page.locator("[data-picture='patches']")


def wait_for_maps(page):
    """Wait until the maps are drawn."""
    settle(page)
    expect(maps(page)).to_be_visible()
    return page


def png(number):
    """Return a drawing as the bytes of a file."""
    out = io.BytesIO()
    Image.fromarray(draw_scene(number).pixels).save(out, "PNG")
    return out.getvalue()


def test_patch_maps_export_the_scores_of_the_library(visit):
    page = wait_for_maps(visit(f"{OPEN}&m=generic_attention,attcat"))
    rows = export_picture_table(page, "patches")
    explainer = load("shapes")
    for method in ("generic_attention", "attcat"):
        scores = explainer.explain("shapes:3", method=method).scores
        assert [float(row[method]) for row in rows] == pytest.approx(scores.tolist(), rel=1e-6)
    assert [(row["row"], row["column"]) for row in rows[:9]][-1] == ("2", "1")
    photograph(page, "pictures")


def test_draw_one_button_explains_the_next_scene_and_back_returns(visit):
    page = wait_for_maps(visit("#/explain?model=shapes"))
    assert "picture=shapes:0" in unquote(page.url)
    page.get_by_role("button", name="Draw one").click()
    wait_for_maps(page)
    assert "picture=shapes:1" in unquote(page.url)
    expect(maps(page).get_by_role("listbox")).to_have_accessible_name(
        picture_title_pattern("shapes:1")
    )
    page.go_back()
    wait_for_maps(page)
    assert "picture=shapes:0" in unquote(page.url)


def test_uploaded_picture_is_explained_with_the_scores_of_the_library(visit, tmp_path):
    path = tmp_path / "mine & yours.png"
    path.write_bytes(png(5))
    page = wait_for_maps(visit("#/explain?model=shapes"))
    page.get_by_label("Bring a picture").set_input_files(path)
    expect(maps(page).get_by_role("listbox")).to_have_accessible_name(
        picture_title_pattern("mine _ yours.png")
    )
    rows = export_picture_table(wait_for_maps(page), "patches")
    scores = load("shapes").explain(np.asarray(Image.open(path))).scores
    found = [float(row["generic_attention"]) for row in rows]
    assert found == pytest.approx(scores.tolist(), rel=1e-6)


def test_upload_of_a_text_file_shows_an_alert_and_leaves_the_maps(visit, tmp_path):
    path = tmp_path / "notes.png"
    path.write_text("these are words")
    page = wait_for_maps(visit("#/explain?model=shapes", forgive="422"))
    page.get_by_label("Bring a picture").set_input_files(path)
    expect(page.get_by_role("alert")).to_contain_text("notes.png")
    expect(maps(page)).to_be_visible()  # what was there stays


def test_upload_above_the_size_limit_shows_an_alert(visit):
    page = wait_for_maps(visit("#/explain?model=shapes"))
    most = page.evaluate("fetch('api/session').then((said) => said.json())")["limits"]["upload"]
    page.get_by_label("Bring a picture").set_input_files(
        {"name": "big.png", "mimeType": "image/png", "buffer": b"x" * (most + 1)}
    )
    expect(page.get_by_role("alert")).to_contain_text("Make it smaller")


def test_warning_about_a_target_disappears_when_the_model_is_switched(visit):
    page = wait_for_maps(visit(f"{OPEN}&target=zebra", forgive="422"))
    expect(page.get_by_text("There is no target 'zebra'.")).to_be_visible()
    page.get_by_label("Model").select_option("reviews")
    settle(page)
    expect(strip(page, "attcat")).to_be_visible()
    expect(page.get_by_text("There is no target 'zebra'.")).to_have_count(0)
    page.go_back()
    wait_for_maps(page)
    assert "model=shapes" in page.url


def test_two_targets_give_two_map_columns_that_their_link_restores(visit):
    page = wait_for_maps(visit(OPEN))
    first = page.locator("fieldset.targets input[type=radio]:checked + .name").inner_text()
    page.get_by_label("Another target beside this one").select_option(index=1)
    wait_for_maps(page)
    columns = list(export_picture_table(page, "patches")[0])
    assert columns[2] == f"generic_attention for {first}"
    assert len(columns) == 4
    again = wait_for_maps(visit("#" + page.url.partition("#")[2]))
    assert list(export_picture_table(again, "patches")[0]) == columns
    photograph(page, "pictures-targets")


def test_arrow_keys_walk_over_the_patches_and_enter_chooses_one(visit):
    page = wait_for_maps(visit(OPEN))
    box = maps(page).get_by_role("listbox")
    box.focus()
    box.press("ArrowRight")
    expect(maps(page).get_by_role("option")).to_contain_text("row 1, column")
    box.press("Enter")
    expect(page.get_by_role("status").filter(has_text="Row 1")).to_contain_text(
        "generic_attention for"
    )
    maps(page).get_by_text("As table").click()
    expect(maps(page).get_by_role("table")).to_contain_text("generic_attention")


def test_colour_strength_and_smoothing_are_written_into_the_link(visit):
    page = wait_for_maps(visit(OPEN))
    page.get_by_label("Colours").fill("0.3")
    page.get_by_role("checkbox", name="smooth").click()
    wait_for_maps(page)
    expect(page.get_by_role("checkbox", name="smooth")).not_to_be_checked()
    expect(page).to_have_url(re.compile("strength=0.3.*smooth=0"))


def test_head_choice_adds_the_attention_map_of_the_class_token(visit):
    page = wait_for_maps(visit(f"{OPEN}&m=attcat"))
    page.get_by_label("Where a head looks").select_option("0.0")
    wait_for_maps(page)
    expect(maps(page).get_by_role("listbox")).to_have_accessible_name(
        re.compile(r"head 0\.0 attention of the class token")
    )
    rows = export_picture_table(page, "patches")
    column = next(name for name in rows[0] if name.startswith("head 0.0"))
    # The class token's own map, without what it keeps for itself.
    attention = load("shapes").inside("shapes:3").attention()[0, 0, 0, 1:]
    assert [float(row[column]) for row in rows] == pytest.approx(attention.tolist(), abs=1e-6)


def test_svg_export_of_the_patches_draws_the_overlay_of_the_library(visit):
    page = wait_for_maps(visit(OPEN))
    svg = export_picture(page, "patches", "SVG").decode()
    assert svg.count("<image ") == 2 and "shapes:3" in svg
    # The page draws what the library draws; it rounds for itself.
    why = load("shapes").explain("shapes:3")
    mine = overlay_scores(why.picture, why.scores, why.grid, signed=why.signed)
    *_, packed = re.findall('data:image/png;base64,([^"]+)', svg)
    drawn = np.asarray(Image.open(io.BytesIO(b64decode(packed))).convert("RGB"))
    assert np.abs(drawn.astype(int) - mine).max() <= 1
    image = Image.open(io.BytesIO(export_picture(page, "patches", "PNG")))
    assert image.width > 600


def test_explain_page_of_a_picture_offers_a_trust_card_but_no_flow(visit):
    page = wait_for_maps(visit(f"{OPEN}&m=attcat"))
    expect(page.get_by_text("too many edges to be drawn")).to_have_count(1)
    expect(page.get_by_role("button", name="Verify path")).to_have_count(0)
    page.get_by_role("button", name="Test it").click()
    expect(page.get_by_text("Nobody has asked yet")).to_have_count(0)
    expect(page.locator(".side progress")).to_have_count(0, timeout=90_000)
    expect(page.locator(".side")).to_contain_text(re.compile("64 patches, .* random rankings"))
    expect(page.get_by_role("alert")).to_have_count(0)
    photograph(page, "pictures-trust")


def test_html_file_of_a_picture_draws_its_maps_offline(browser, tmp_path):
    path = tmp_path / "why.html"
    load("shapes").explain("shapes:3").to_html(path)
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda said: said.type == "error" and complaints.append(said.text))
    page.goto(path.as_uri())
    expect(maps(page)).to_be_visible()
    expect(maps(page).get_by_role("listbox")).to_have_accessible_name(
        picture_title_pattern("shapes:3")
    )
    photograph(page, "pictures-file")
    context.close()
    assert complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_explain_page_of_a_picture_has_no_serious_axe_finding(visit, axe, scheme):  # noqa: F811
    page = wait_for_maps(visit(f"{OPEN}&m=generic_attention,attcat", color_scheme=scheme))
    photograph(page, f"pictures-{scheme}")
    assert findings(page, axe) == []
