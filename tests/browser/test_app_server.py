"""Server of the app under stress: killed and restarted, long work cancelled, two tabs at once."""

import re

import pytest
from playwright.sync_api import expect

import whence
from tests.browser.app import APP, App, Visitor, edges, photograph, settle, status, strip, table
from tests.browser.test_app_flow import count_covering_edges
from whence.flow.graph import EdgeQuery

pytestmark = APP


def test_explain_page_recovers_after_the_server_is_killed_and_restarted(browser, tmp_path):
    server = App(tmp_path, "--model", "reviews", "--data", str(table(tmp_path / "rows.tsv")))
    visitor = Visitor(browser, server)
    try:
        page = visitor("#/explain?text=a+gripping+film", forgive="ERR_")
        before = edges(page)
        server.kill()
        # What is there stays; what is asked for waits.
        page.get_by_role("slider", name="Coverage").fill("90")
        expect(status(page)).not_to_contain_text(f"shown {before} edges")
        page.get_by_role("textbox", name="Text").fill("a dull film")
        page.get_by_role("button", name="Explain", exact=True).click()
        notice = page.get_by_role("alert").filter(has_text="does not answer")
        expect(notice).to_be_visible()
        photograph(page, "server-away")
        server.start()
        expect(notice).to_have_count(0, timeout=30_000)
        word = strip(page, "attcat").get_by_role("button", name=re.compile("^dull: "))
        expect(word).to_be_visible(timeout=30_000)
        settle(page)
        expect(page.get_by_role("radio", name=re.compile("^negative (?!rather)"))).to_be_checked()
    finally:
        server.kill()
        visitor.close()


TEXTS = [
    "a gripping, beautifully acted film",
    "dull, slow and far too long",
    "not a bad film at all",
]


@pytest.mark.parametrize("same", [True, False], ids=["one browser", "two browsers"])
def test_two_tabs_at_once_each_get_the_answer_to_their_own_text(visit, same):
    explainer = whence.load("reviews")
    first = visit()
    second = visit.tab(first.context.new_page()) if same else visit()
    settle(first)
    settle(second)
    for one, other in zip(TEXTS, [*TEXTS[1:], TEXTS[0]], strict=True):
        for page, text in ((first, one), (second, other)):
            page.get_by_role("textbox", name="Text").fill(text)
        for page in (first, second):
            page.get_by_role("button", name="Explain", exact=True).click()
        for page, text in ((first, one), (second, other)):
            word = explainer.explain(text).top(1)[0]
            expect(
                strip(page, "attcat")
                .get_by_role("button", name=re.compile(f"^{word.text}: "))
                .first
            ).to_be_visible()
            settle(page)
            shown = strip(page, "attcat").get_by_role("button").all_inner_texts()
            assert shown == [each.text for each in explainer.explain(text).words()]
            flow = explainer.inside(text).flow(query=EdgeQuery(specials=False))
            assert edges(page) == count_covering_edges(flow)


def test_cancel_of_a_long_heads_job_frees_the_model(visit, tmp_path):
    path = tmp_path / "many.txt"
    path.write_text(
        "\n".join(f"a film that is {'very ' * (i % 40)}good, number {i}" for i in range(1500))
    )
    page = visit("#/data?model=reviews")
    page.get_by_label("Bring a file").set_input_files(path)
    expect(page.get_by_role("heading", name="many.txt")).to_be_visible()
    page.get_by_role("tab", name="What heads attend to").click()
    page.get_by_role("tabpanel").get_by_role("combobox", name="Rows").select_option("1500")
    page.get_by_role("button", name="Look at the heads").click()
    panel = page.get_by_role("tabpanel")
    expect(panel.get_by_role("progressbar")).to_be_visible()
    panel.get_by_role("button", name="Cancel").click()
    expect(panel.get_by_role("progressbar")).to_have_count(0)
    expect(panel.get_by_role("button", name="Look at the heads")).to_be_enabled()
    # The model is free again.
    page.get_by_role("link", name="Explain").click()
    expect(strip(page, "attcat")).to_be_visible()
