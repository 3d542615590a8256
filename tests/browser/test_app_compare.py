"""Compare page of the app: edge overlap as in the library, difference view, swap, data sets, links, targets."""

import re
from fractions import Fraction
from itertools import product
from math import comb

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.app import APP, export_picture_table, photograph, settle, status
from tests.browser.test_app_flow import count_covering_edges
from whence.flow.graph import EdgeQuery
from whence.studies.compare.compare import compare_on_input

pytestmark = APP

TEXT = "the plot is thin, but the actors are wonderful"
LINK = f"#/compare?text={TEXT}"


def counts(page):
    """Return what the sentence over the picture says: shared, only A, only B, the Jaccard index, that of chance."""
    settle(page)
    sentence = page.get_by_role("status").filter(has_text="Jaccard index").inner_text()
    numbers = re.search(
        r"(\S+) shared, (\S+) only in A, (\S+) only in B\. Jaccard index (\S+); of random edges, "
        r"as many in each layer, (\S+)\. Edges to special tokens do not count\.",
        sentence,
    )
    return [float(number) for number in numbers.groups()]


def compute_jaccard_by_chance(base, tuned, possible):
    """Return the mean Jaccard index of random sets, as many edges in each layer, by all that they may share."""
    chances = {0: Fraction(1)}
    for layer, size in enumerate(possible):
        a, b = (sum(edge[0] == layer for edge in found) for found in (base, tuned))
        before, chances = chances, {}
        for k, more in product(before, range(min(a, b) + 1)):
            here = Fraction(comb(a, more) * comb(size - a, b - more), comb(size, b))
            chances[k + more] = chances.get(k + more, 0) + before[k] * here
    both = len(base) + len(tuned)
    return float(sum(chance * Fraction(k, both - k) for k, chance in chances.items()))


def find_covering_edges(name):
    """Return the edges that carry half of a model's flow, as the library has them."""
    flow = whence.load(name).inside(TEXT).flow(query=EdgeQuery(specials=False))
    columns = (flow["edges"][key] for key in ("layer", "head", "source", "to"))
    return set(list(zip(*columns, strict=True))[: count_covering_edges(flow)])


def test_compare_page_counts_shared_edges_and_jaccard_as_the_library_does(tour):
    page = tour(LINK)
    shared, only_a, only_b, jaccard, chance = counts(page)
    base, tuned = find_covering_edges("reviews-base"), find_covering_edges("reviews")
    assert (shared, only_a, only_b) == (len(base & tuned), len(base - tuned), len(tuned - base))
    # Two digits are shown.
    assert jaccard == pytest.approx(len(base & tuned) / len(base | tuned), abs=0.006)
    insides = (whence.load(name).inside(TEXT) for name in ("reviews-base", "reviews"))
    possible = compare_on_input(*insides, query=EdgeQuery(specials=False))["possible"]
    assert chance == pytest.approx(compute_jaccard_by_chance(base, tuned, possible), abs=0.006)
    expect(page.get_by_role("region", name="Changed heads")).to_contain_text("bit")
    expect(page.get_by_role("region", name="Heads, the most changed first")).to_be_visible()
    expect(page.get_by_text("has no head to predict with")).to_be_visible()
    photograph(page, "compare")


def test_explain_and_compare_pages_show_the_same_share_of_flow_for_a_model(tour):
    page = tour(f"#/explain?model=reviews&text={TEXT}")
    settle(page)
    said = status(page).inner_text()
    share = re.search(r"= (\S+) of the unit that set out, in each layer", said)[1]
    past = re.search(r"past the layer (\S+)", said)[1]
    page = tour(LINK)  # reviews is B
    expect(
        page.get_by_text(
            f"of B {share} of the unit that set out in each layer, {past} goes past it"
        )
    ).to_be_visible()


def test_compare_page_of_a_model_with_itself_shows_every_edge_as_shared(tour):
    page = tour(f"{LINK}&model=reviews&other=reviews")
    expect(
        page.get_by_role("status").filter(has_text="Identical: every edge is shared")
    ).to_be_visible()
    count = len(find_covering_edges("reviews"))
    picture = page.get_by_role(
        "listbox", name=f"{count} shared, 0 only in A, 0 only in B, Jaccard 1."
    )
    expect(picture).to_be_visible()
    rows = export_picture_table(page, "flow")
    assert len(rows) == count
    assert all(float(row["B − A"]) == 0 and row["in"] == "both" for row in rows)
    expect(page.get_by_role("region", name="Most changed")).to_contain_text("None")
    photograph(page, "compare-itself")


def test_difference_view_lists_the_same_edges_with_flow_b_minus_flow_a(tour):
    page = tour(LINK)
    sets = export_picture_table(page, "flow")
    page.get_by_role("button", name="Difference B − A").click()
    expect(page).to_have_url(re.compile("diff=1"))
    rows = export_picture_table(page, "flow")
    assert rows == sets
    for row in rows:
        difference = float(row["flow B"]) - float(row["flow A"])
        assert float(row["B − A"]) == pytest.approx(difference, abs=1e-12)
    photograph(page, "compare-difference")


def test_swap_button_exchanges_the_edge_counts_of_a_and_b(tour):
    page = tour(LINK)
    shared, only_a, only_b, *_ = counts(page)
    page.get_by_role("button", name="Swap the models").click()
    expect(page.get_by_role("combobox", name=re.compile("^A"))).to_have_value("reviews")
    assert counts(page)[:3] == [shared, only_b, only_a]


def test_click_on_a_changed_head_puts_the_head_into_the_link(tour):
    page = tour(LINK)
    page.get_by_role("region", name="Heads, the most changed first").get_by_role("button").nth(
        5
    ).click()
    expect(page).to_have_url(re.compile(r"head=\d\.\d"))


def test_compare_over_a_data_set_shows_overlap_and_a_figure(tour):
    page = tour(f"{LINK}&tab=data")
    page.get_by_role("button", name=re.compile("^Compare over")).click()
    panel = page.get_by_role("tabpanel")
    expect(panel).to_contain_text(re.compile("Jaccard|overlap"), timeout=60_000)
    expect(panel.locator("figure").first).to_be_visible()
    expect(panel).to_contain_text("Edges to special tokens do not count. If they did:")
    photograph(page, "compare-data")


def test_data_set_comparison_link_restores_coverage_specials_and_method(tour):
    page = tour("#/compare?tab=data")
    page.get_by_role("combobox", name="Coverage").select_option("0.25")
    page.get_by_role("combobox", name="Edges to special tokens").select_option("count")
    page.get_by_role("combobox", name="Method").select_option("rollout")
    expect(page).to_have_url(re.compile("m=rollout.*p=25.*specials=show.*tab=data.*data=rows.tsv"))
    page.reload()
    expect(page.get_by_role("combobox", name="Coverage")).to_have_value("0.25")
    expect(page.get_by_role("combobox", name="Edges to special tokens")).to_have_value("count")
    expect(page.get_by_role("combobox", name="Method")).to_have_value("rollout")


def test_target_choice_on_the_compare_page_applies_to_both_models(tour):
    page = tour(f"{LINK}&model=own-reviews&other=reviews")
    page.get_by_role("combobox", name="Explain").select_option("negative")
    expect(page).to_have_url(re.compile("target=negative"))
    settle(page)
    expect(page.get_by_text("for negative")).to_have_count(2)


def test_compare_page_of_models_with_different_tokenizers_shows_an_alert(visit):
    page = visit(f"{LINK}&model=reviews&other=decoy", forgive="Failed to load resource")
    expect(page.get_by_role("alert")).to_contain_text(re.compile("token", re.IGNORECASE))
