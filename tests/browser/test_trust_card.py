"""Trust card page in a browser: no requests, no overflow, curves in their frames, contrast, unfolding, fragment."""

import pytest

from tests import trust_card_payloads
from tests.browser.pages import open_page
from whence.trust.card import Trust

EVIL = "</title></script><img src=x onerror=alert(1)>"
METHODS = ("attcat", "integrated_gradients", "transformer_attribution", "rollout")

pytestmark = [
    pytest.mark.browser,
    # Playwright's driver leaves sockets and a loop to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def long_and_hostile():
    """Return a card of several methods whose label, word and sentence are an attack without a space."""
    methods = [trust_card_payloads.method(name, sentence=EVIL + "y" * 200) for name in METHODS]
    payload = trust_card_payloads.card(*methods, every_removal=True, sentence="s" * 150)
    payload["target"]["label"] = payload["prediction"]["label"] = EVIL + "x" * 120
    payload["model"]["name"] = "m" * 120
    payload["input"]["text"] = EVIL + "z" * 200
    payload["words"][0] |= {"text": EVIL + "z" * 200, "start": 0, "end": len(EVIL) + 200}
    for word in payload["words"][1:]:
        word["start"] = word["end"] = len(payload["input"]["text"])
    return payload


CARDS = {
    "one": trust_card_payloads.card,
    "several": lambda: trust_card_payloads.card(
        *(trust_card_payloads.method(name) for name in METHODS)
    ),
    "every removal": lambda: trust_card_payloads.card(every_removal=True),
    "long and hostile": long_and_hostile,
}


@pytest.mark.parametrize("which", CARDS)
def test_trust_card_page_is_offline_and_silent_and_fits_its_width(browser, tmp_path, which):
    path = tmp_path / "trust.html"
    path.write_text(Trust(CARDS[which]()).to_html(), encoding="utf-8")
    opening, seen = open_page(browser, path)
    for summary in opening.locator("summary").all():
        summary.click()
    for width in (360, 1200):
        opening.set_viewport_size({"width": width, "height": 800})
        assert opening.evaluate("document.documentElement.scrollWidth") <= width
        # Nothing sticks out of its section, except what is scrolled and headings that a phone does not show.
        assert (
            opening.evaluate(
                """[...document.querySelectorAll('section *')].filter(e => !e.closest('.wide, svg, thead')
            && e.getBoundingClientRect().right > e.closest('section').getBoundingClientRect().right + 0.5)
            .map(e => e.outerHTML.slice(0, 80))"""
            )
            == []
        )
    opening.wait_for_timeout(100)
    assert seen == {"requests": [path.as_uri()], "dialogs": [], "errors": []}
    assert opening.locator("script, img").count() == 0
    opening.context.close()


def test_trust_card_curves_are_drawn_inside_their_frame(browser, tmp_path):
    path = tmp_path / "trust.html"
    path.write_text(Trust(trust_card_payloads.card()).to_html(), encoding="utf-8")
    opening, _ = open_page(browser, path)
    assert opening.locator("svg.plot").count() == 2
    assert (
        opening.get_by_role(
            "img", name="attcat: probability of positive over tokens removed"
        ).count()
        == 1
    )
    outside = """[...document.querySelectorAll('svg.plot')].flatMap(svg => {
        const frame = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text, polyline, polygon, circle')].filter(e => {
            const box = e.getBoundingClientRect();
            return box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
                || box.bottom > frame.bottom + 1;
        }).map(e => e.outerHTML)})"""
    assert opening.evaluate(outside) == []
    # The line of the method is not the colour of the band.
    tones = opening.evaluate(
        """[['polyline.own', 'stroke'], ['.band', 'fill'], ['polyline.mean', 'stroke']].map(([css, what]) =>
            getComputedStyle(document.querySelector('svg.plot ' + css))[what])"""
    )
    assert len(set(tones)) == 3
    opening.context.close()


def test_trust_card_verdicts_have_wcag_aa_contrast(browser, tmp_path):
    path = tmp_path / "trust.html"
    path.write_text(Trust(CARDS["several"]()).to_html(), encoding="utf-8")
    opening, _ = open_page(browser, path)
    chips = opening.evaluate(
        """[...document.querySelectorAll('.badge')].map(e => [e.innerText, getComputedStyle(e).color,
            getComputedStyle(e).backgroundColor])"""
    )
    assert {word for word, _, _ in chips} == {"holds", "weak", "fails", "not tested"}
    for _, ink, paper in set(map(tuple, chips)):
        seen = "rgb(255, 255, 255)" if paper == "rgba(0, 0, 0, 0)" else paper
        assert contrast(ink, seen) >= 4.5  # WCAG 2, level AA
    opening.context.close()


def contrast(ink, paper):
    """Return the contrast of two colours as WCAG 2 defines it."""

    def light(colour):
        shares = [int(part) / 255 for part in colour.strip("rgba()").split(",")[:3]]
        linear = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
        return sum(w * x for w, x in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    high, low = sorted((light(ink), light(paper)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_trust_card_rules_and_provenance_unfold_on_click(browser, tmp_path):
    path = tmp_path / "trust.html"
    path.write_text(Trust(trust_card_payloads.card()).to_html(), encoding="utf-8")
    opening, _ = open_page(browser, path)
    rule = opening.get_by_text("beats at least 95% of random rankings").first
    assert not rule.is_visible()
    opening.get_by_text("When a test holds, is weak or fails").click()
    assert rule.is_visible()
    opening.get_by_text("Where this comes from").click()
    assert opening.get_by_text("c0ffee").is_visible()
    opening.context.close()


def test_trust_card_fragment_shows_curves_and_verdict_without_errors(browser, tmp_path):
    path = tmp_path / "cell.html"
    path.write_text(
        f"<!doctype html><meta charset=utf-8>{Trust(trust_card_payloads.card())._repr_html_()}",
        encoding="utf-8",
    )
    opening, seen = open_page(browser, path)
    assert opening.locator("svg.plot").count() == 2
    assert opening.locator("h2 .badge").first.inner_text() == "weak"
    assert seen["errors"] == []
    opening.context.close()
