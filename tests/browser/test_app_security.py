"""Security of the app: hostile texts and links inject nothing, and foreign requests are refused."""

import http.client
import json
import xml.etree.ElementTree as ElementTree
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.browser.app import (
    APP,
    EVIL,
    edges,
    export_picture,
    export_picture_table,
    photograph,
    settle,
)

pytestmark = APP

EVILS = {
    "markup": f"a good film {EVIL}",
    "attribute": "\"'><svg/onload=alert(1)> good",
    "template": "{{constructor.constructor('alert(1)')()}} ${alert(1)} good",
    "formula": "=cmd|' /C calc'!A0 good",
    "direction": "good \u202egnp.exe\u202c film \u0000\u0007",
}
INJECTED = "img, iframe, object, embed, main script, [onload], [onerror], [onclick]"


@pytest.mark.parametrize("which", EVILS)
def test_hostile_text_on_the_explain_page_injects_no_markup_or_formula(tour, which):
    page = tour(f"#/explain?text={quote(EVILS[which])}&pin=1,2")
    edges(page)
    assert page.locator(INJECTED).count() == 0
    root = ElementTree.fromstring(export_picture(page, "flow", "SVG"))
    assert not [each for each in root.iter() if each.tag.endswith(("script", "foreignObject"))]
    assert not [name for each in root.iter() for name in each.attrib if name.startswith("on")]
    for row in export_picture_table(page, "flow"):
        assert not any(value.startswith(("=", "+", "@")) for value in row.values())
    for view in ("rings", "sankey", "heatmap", "network"):
        page.get_by_role("button", name=view.title(), exact=True).click()
        settle(page)
    page.get_by_role("link", name="Compare").click()
    settle(page)
    assert page.locator(INJECTED).count() == 0
    photograph(page, f"hostile-{which}")


def test_hostile_link_injects_no_markup_and_shows_an_alert(visit):
    attack = quote("<img src=x onerror=alert(1)>")
    page = visit(f"#/{attack}?model={attack}&m={attack}&{attack}={attack}&card={attack}",
                 forgive="Failed to load resource")  # fmt: skip
    expect(page.get_by_role("status").filter(has_text="There is no page")).to_be_visible()
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.locator(INJECTED).count() == 0


def test_content_security_policy_blocks_inline_scripts(visit):
    page = visit(forgive="Content Security Policy")
    settle(page)
    ran = page.evaluate(
        """() => { const script = document.createElement("script"); script.textContent = "window.broken = 1";
            document.body.append(script); return window.broken ?? 0; }"""
    )
    assert ran == 0
    headers = page.request.get(page.url.split("#")[0]).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"


def send_request(app, headers, path="/api/session", method="GET", body=None):
    line = http.client.HTTPConnection("127.0.0.1", app.port, timeout=20)
    line.request(method, path, body, {**app.bearer, **headers})
    answer = line.getresponse()
    said = json.loads(answer.read())
    line.close()
    return answer.status, said


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_request_from_a_foreign_host_or_origin_gets_403(app, headers):
    code, said = send_request(app, {"Host": f"127.0.0.1:{app.port}", **headers})
    assert code == 403
    assert said["ok"] is False
    assert set(said["error"]) == {"code", "message", "hint", "see"}


def test_page_without_the_token_answers_401_and_names_the_printed_address(browser, app):
    """Another account of this machine, say; and the same browser once it has opened the printed address."""
    page = browser.new_context().new_page()
    try:
        assert page.goto(f"{app.url}#/explain").status == 401
        expect(page.get_by_role("heading", name="this page asks for its token")).to_be_visible()
        expect(page.get_by_text(f"whence is at {app.url}?token=")).to_be_visible()
        photograph(page, "stranger")
        page.goto(f"{app.entrance}#/help")
        expect(page.get_by_role("heading", name="Keys")).to_be_attached()
        assert page.url == f"{app.url}#/help"
        assert page.evaluate("document.cookie") == ""
    finally:
        page.context.close()


def test_printed_address_opens_the_app_from_a_link_of_another_page(browser, app):
    """In a terminal that is itself a page, of another name for this machine, the address is clicked."""
    page = browser.new_context().new_page()
    try:
        page.route(
            "http://terminal.example/",
            lambda route: route.fulfill(
                content_type="text/html", body=f'<a href="{app.entrance}">x'
            ),
        )
        page.goto("http://terminal.example/")
        page.get_by_role("link").click()
        settle(page)
        assert page.url.startswith(f"{app.url}#/")
    finally:
        page.context.close()


def test_post_of_a_model_that_is_not_listed_gets_403(app):
    own = {"Host": f"127.0.0.1:{app.port}", "Content-Type": "application/json"}
    code, said = send_request(app, own, "/api/models", "POST", json.dumps({"name": "spotlight"}))
    assert code == 403
    assert "--allow-load" in said["error"]["message"] + said["error"]["hint"]
