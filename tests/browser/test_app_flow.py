"""Flow panel of the app: edges and shares as in the library, traced word, filters, views, path check, heads."""

import json
import re

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.app import (
    APP,
    edges,
    export_picture,
    export_picture_table,
    photograph,
    settle,
    status,
    strip,
)
from whence.flow.graph import EdgeQuery

pytestmark = APP

TEXT = "the plot is thin, but the actors are wonderful"
LINK = f"#/explain?text={TEXT}"
VIEWS = ("Ladder", "Rings", "Sankey", "Heatmap", "Network")


@pytest.fixture(scope="module")
def inside():
    return whence.load("reviews").inside(TEXT)


def count_covering_edges(flow, share=0.5):
    """Count the strongest edges that carry the share, one by one."""
    carried, wanted = 0.0, share * flow["total"]
    for number, one in enumerate(flow["edges"]["flow"]):
        if carried >= wanted - 1e-9 * flow["total"]:
            return number
        carried += one
    return len(flow["edges"]["flow"])


def word(page, text):
    return strip(page, "attcat").get_by_role("button", name=re.compile(f"^{re.escape(text)}: "))


def test_flow_status_line_counts_the_edges_that_the_library_counts(tour, inside):
    page = tour(LINK)
    # Special tokens are in the gutter: edges that end on them are counted there, not drawn.
    assert edges(page) == count_covering_edges(inside.flow(query=EdgeQuery(specials=False)))
    expect(status(page)).to_contain_text("special tokens")
    expect(status(page)).to_contain_text("past the layer 50%")


def carried_by_layer(page):
    """Return what the drawn edges of each layer carry, as the file of the picture has them."""
    sums = {}
    for row in export_picture_table(page, "flow"):
        sums[int(row["layer"])] = sums.get(int(row["layer"]), 0.0) + float(row["flow"])
    return sums


def spread(shares):
    """Write shares of layers as the page does, from the least to the most."""
    low, high = (percent(share) for share in (min(shares), max(shares)))
    return low if low == high else f"{low[:-1]}–{high}"


def percent(share):
    value = 100 * share
    if 0 < value < 0.1:
        return "<0.1%"
    return f"{value:.1f}".removesuffix(".0") + "%" if 0 < value < 9.95 else f"{value:.0f}%"


def test_flow_of_an_edge_is_the_same_in_table_sentence_and_csv(tour):
    page = tour(LINK)
    settle(page)
    row = page.get_by_role("region", name="Details").get_by_role("row").nth(1)
    flow = float(row.get_by_role("cell").nth(4).inner_text())
    row.get_by_role("button").first.click()
    chosen = page.locator("p.chosen")
    expect(chosen).to_contain_text(f"{100 * flow:.1f}% of the unit that set out takes this edge")
    assert float(export_picture_table(page, "flow")[0]["flow"]) == pytest.approx(flow, rel=1e-3)


@pytest.mark.parametrize("weight", ["attention", "gradient_x_attention", "relevance"])
def test_flow_status_line_gives_drawn_and_passing_flow_as_shares_of_the_whole(tour, weight):
    page = tour(f"{LINK}&C={weight}")
    count, sums = edges(page), carried_by_layer(page)
    loaded = whence.load("reviews")
    flow = loaded.inside(TEXT).flow(weight, query=EdgeQuery(specials=False))
    shown = spread([sums.get(layer, 0.0) for layer in range(flow["layers"])])
    past = spread([sum(layer) for layer in flow["residual"]])
    said = (
        f"shown {count} edge{'s' * (count != 1)} = {shown} of the unit that set out, in each layer"
    )
    expect(status(page)).to_contain_text(f"{said} · past the layer {past} · ")
    caption = export_picture(page, "flow", "CSV").decode().splitlines()[0]
    assert f"shown {shown} of the unit that set out in each layer, {past} goes past it" in caption


def test_slider_and_caption_of_capped_edges_state_the_coverage_reached(visit):
    page = visit(f"#/explain?text={' '.join([TEXT] * 5)}&p=99")
    assert edges(page) == 5000
    sums = sum(carried_by_layer(page).values())
    flow = whence.load("reviews").inside(" ".join([TEXT] * 5)).flow(query=EdgeQuery(specials=False))
    covered = percent(sums / flow["total"])
    assert covered != "99%"
    expect(status(page)).to_contain_text(re.compile(f"coverage {covered} of .*, not 99%: capped"))
    expect(page.locator("label.coverage output")).to_have_text(f"{covered} of 99%")
    caption = export_picture(page, "flow", "CSV").decode().splitlines()[0]
    assert f"coverage {covered} · " in caption


def test_every_flow_view_exports_the_same_edges(tour):
    page = tour(LINK)
    count, shown = edges(page), None
    for view in VIEWS:
        button = page.get_by_role("button", name=view, exact=True)
        button.click()
        expect(button).to_have_attribute("aria-pressed", "true")
        # The file of a picture lists what the picture draws.
        rows = sorted(map(json.dumps, export_picture_table(page, "flow")))
        assert len(rows) == count, view
        shown = shown or rows
        assert rows == shown, view
        photograph(page, f"flow-{view.lower()}")


def test_click_on_a_word_traces_the_flow_through_that_word(tour, inside):
    page = tour(LINK)
    before = edges(page)
    word(page, "wonderful").click()
    chips = page.get_by_role("list", name="In force")
    expect(chips).to_contain_text("through “wonderful”")
    expect(word(page, "wonderful")).to_have_attribute("aria-pressed", "true")
    token = next(i for i, one in enumerate(inside.tokens) if one.text == "wonderful")
    flow = inside.flow(direction="through", token=token, query=EdgeQuery(specials=False))
    assert edges(page) == count_covering_edges(flow)
    # All that is drawn in the lowest layer ends at the word.
    rows = export_picture_table(page, "flow")
    assert {row["to token"] for row in rows if row["layer"] == "0"} == {"wonderful"}
    photograph(page, "flow-word")
    page.get_by_role("combobox", name="Trace").select_option("forward")
    expect(chips).to_contain_text("forward from “wonderful”")
    rows = export_picture_table(page, "flow")
    assert {row["to token"] for row in rows if row["layer"] == "0"} == {"wonderful"}
    page.get_by_role("button", name="Remove forward from “wonderful”").click()
    assert edges(page) == before


def test_filter_box_leaves_only_edges_that_match_every_filter(tour):
    page = tour(LINK)
    box = page.get_by_role("textbox", name="Filter")
    box.fill("layer:1-2 thin edge>0.05")
    box.press("Enter")
    chips = page.get_by_role("list", name="In force")
    expect(chips.get_by_role("listitem")).to_have_count(3)
    expect(status(page)).to_contain_text("what the filters let through")
    rows = export_picture_table(page, "flow")
    assert len(rows) == edges(page) > 0
    for row in rows:
        assert row["layer"] in ("1", "2")
        assert "thin" in (row["from token"], row["to token"])
        assert float(row["weight"]) >= 0.05
    box.fill("head:99.99")
    box.press("Enter")
    expect(page.get_by_role("paragraph").filter(has_text="head: takes LAYER.HEAD")).to_be_visible()
    for chip in ("layers 1–2", "touches “thin”", "weight ≥ 0.05"):
        page.get_by_role("button", name=f"Remove {chip}").click()
    expect(chips).to_have_count(0)


def test_coverage_and_edge_weight_select_the_edges_of_the_library(tour, inside):
    page = tour(LINK)
    page.get_by_role("slider", name="Coverage").fill("80")
    assert edges(page) == count_covering_edges(inside.flow(query=EdgeQuery(specials=False)), 0.8)
    page.get_by_role("combobox", name="Weight").select_option("value_zeroing")
    assert edges(page) == count_covering_edges(
        inside.flow("value_zeroing", query=EdgeQuery(specials=False)), 0.8
    )
    assert {row["head"] for row in export_picture_table(page, "flow")} == {"all"}


def test_classic_mode_lists_attention_weights_at_or_above_the_threshold(tour, inside):
    page = tour(f"{LINK}&specials=show&p=100")
    page.get_by_role("checkbox", name="classic").check()
    page.get_by_role("spinbutton", name="threshold").fill("0.3")
    expect(page).to_have_url(re.compile("classic=0.3"))
    rows = export_picture_table(page, "flow")
    assert rows
    assert all(float(row["weight"]) >= 0.3 for row in rows)
    attention = inside.attention()
    for row in rows:
        place = (int(row["layer"]), int(row["head"]), int(row["from"]), int(row["to"]))
        # The map is float32, and the page has it by way of JSON.
        assert attention[place] == pytest.approx(float(row["weight"]), abs=1e-6)


def test_verify_path_compares_the_cut_edges_with_random_sets(tour):
    page = tour(f"{LINK}&p=30")
    expect(page.get_by_text(f"Cuts the {edges(page)} edges that are shown")).to_be_visible()
    page.get_by_role("button", name="Verify path").click()
    region = page.get_by_role("region", name="Verify the path")
    expect(region.get_by_role("button", name="Verify again")).to_be_visible(timeout=60_000)
    expect(region).to_contain_text("of 30 random sets")
    # Twice: with the other weights of the row grown to make up for it, and without.
    expect(region.locator("figure[data-picture^='verify']")).to_have_count(2)
    photograph(page, "verify")


def test_heads_panel_draws_every_statistic_and_opens_a_clicked_head(tour):
    page = tour(LINK)
    heads = page.get_by_role("region", name="Heads", exact=True)
    choice = heads.get_by_role("combobox", name="One number per head")
    for statistic in ("special", "gradient", "thumbnails"):
        choice.select_option(statistic)
        settle(page)
        expect(heads.locator("figure[data-picture='heads']")).to_be_visible()
    photograph(page, "thumbnails")
    for scheme, stronger in (("light", "Darker"), ("dark", "Brighter")):
        page.emulate_media(color_scheme=scheme)
        expect(page.get_by_text(f"{stronger} is more;")).to_be_visible()
    page.emulate_media(color_scheme="light")
    choice.select_option("ablation")
    heads.get_by_role("button", name="Switch each head off").click()
    expect(heads.locator("figure[data-picture='heads']")).to_be_visible(timeout=60_000)
    heads.get_by_role("listbox").click(position={"x": 60, "y": 60})
    expect(page.get_by_role("heading", name=re.compile(r"^Head \d\.\d"))).to_be_visible()
    expect(page).to_have_url(re.compile(r"head=\d\.\d"))
    settle(page)
    photograph(page, "matrix")
