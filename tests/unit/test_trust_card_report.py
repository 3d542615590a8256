"""Trust card reports as text, terminal output and HTML, from cards built by hand."""

import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests import trust_card_payloads
from whence.trust.card import Trust

EVIL = "<script>alert('x')</script>\x1b[31m\x07[bold]"
NAMES = ("deletion", "sufficiency", "leave one out", "stability", "randomisation", "class sensitivity",
         "completeness", "conservation")  # fmt: skip


def format_trust_text(payload):
    return str(Trust(payload))


def render_trust_html(payload):
    return Trust(payload).to_html()


def render_trust_fragment(payload):
    return Trust(payload)._repr_html_()


def print_to_terminal(payload, width=80, encoding="utf-8"):
    """Return what a terminal of this width, without colour, shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, color_system=None).print(Trust(payload))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def hostile():
    """Return a card in which every text that comes from outside is an attack."""
    evil = trust_card_payloads.card(trust_card_payloads.method(params={EVIL: EVIL}, sentence=EVIL))
    evil["sentence"] = evil["model"]["name"] = evil["target"]["label"] = EVIL
    evil["prediction"]["label"] = evil["input"]["text"] = EVIL
    evil["removal_matters"] = EVIL
    evil["words"][0] |= {"text": EVIL, "start": 0, "end": len(EVIL)}
    for test in evil["methods"][0]["tests"]:
        test["why"] = EVIL
    return evil


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def named(self, tag, css=None):
        return [a for t, a in self.found if t == tag and css in (None, *a.get("class", "").split())]


@pytest.mark.parametrize(
    "surface", [format_trust_text, print_to_terminal, render_trust_html, render_trust_fragment]
)
def test_trust_card_starts_with_the_sentence_and_names_every_test(surface):
    payload = trust_card_payloads.card()
    text = " ".join(surface(payload).split())
    body = text[text.rfind("</style>") :] if "<" in text else text
    places = [
        body.index(payload["sentence"]),
        *(body.index(name, body.index("by chance")) for name in NAMES),
    ]
    assert places == sorted(places)
    for verdict in ("holds", "weak", "fails", "not tested"):
        assert verdict in body


def test_trust_card_row_has_verdict_value_null_and_percentage():
    row, _ = [
        line
        for line in format_trust_text(trust_card_payloads.card()).splitlines()
        if line.startswith("  deletion ")
    ]
    cells = ["deletion", "holds", "0.31", "0.58 (0.36 to 0.79)", "97% (91.5 to 99.4)"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    row, _ = [
        line
        for line in print_to_terminal(trust_card_payloads.card()).splitlines()
        if line.startswith("deletion  ")
    ]
    assert re.split(r"\s{2,}", row.strip()) == cells


def test_trust_card_shows_missing_values_as_dash_and_never_as_none_or_nan():
    payload = trust_card_payloads.card()
    # What is folded away on a page lists parameters and provenance as they are.
    unfolded = re.sub(r"<details>.*?</details>", "", render_trust_html(payload), flags=re.DOTALL)
    for text in (format_trust_text(payload), print_to_terminal(payload), unfolded):
        assert not re.search(r"\b(None|nan|null|inf)\b", text)
    row = next(line for line in format_trust_text(payload).splitlines() if "completeness  " in line)
    assert row.split()[-3:] == ["-", "-", "-"]


def test_trust_card_rounds_values_to_few_digits():
    values = [0.0, 0.312, -0.5, 0.0031, 1.2e-5, 12.345, 54321.0]
    tests = [trust_card_payloads.test_of("stability", "holds", value) for value in values]
    text = format_trust_text(trust_card_payloads.card(trust_card_payloads.method(tests=tests)))
    rows = [line.split() for line in text.splitlines() if re.match("  stability +holds", line)]
    shown = ["0.00", "0.31", "-0.50", "0.0031", "1.2e-05", "12.35", "5.4e+04"]
    assert [row[2] for row in rows] == shown


def test_trust_card_gives_the_reason_of_every_test_once():
    text = " ".join(print_to_terminal(trust_card_payloads.card(), 160).split())
    for test in trust_card_payloads.card()["methods"][0]["tests"]:
        assert text.count(test["why"]) == 1


def test_trust_card_of_one_method_prints_its_sentence_once():
    alone = trust_card_payloads.card(
        trust_card_payloads.method(sentence="The same."), sentence="The same."
    )
    for surface in (format_trust_text, print_to_terminal, render_trust_html):
        assert surface(alone).count("The same.") == 1


def test_trust_card_of_several_methods_has_a_table_of_verdicts():
    names = ["attcat", "integrated_gradients", "transformer_attribution", "rollout", "decompx"]
    payload = trust_card_payloads.card(*(trust_card_payloads.method(name) for name in names))
    text = print_to_terminal(payload)
    heads = [line for line in text.splitlines() if line.startswith("method  ")]
    assert " ".join(" ".join(heads).replace("method", "").split()) == " ".join(["overall", *NAMES])
    assert all(len(line) <= 80 for line in text.splitlines())
    matrix = render_trust_html(payload).partition("</table>")[0]
    assert re.findall(r'<th scope="row"[^>]*>(\w+)</th>', matrix) == names
    assert len(Elements(matrix).named("span", "badge")) == len(names) * (1 + len(NAMES))
    alone = render_trust_html(trust_card_payloads.card()).partition("</table>")[0]
    assert "overall" not in alone


def test_trust_card_with_every_removal_has_a_row_and_curves_for_each():
    payload = trust_card_payloads.card(every_removal=True)
    text = print_to_terminal(payload)
    for kind, beats in (("mask", "97%"), ("delete", "88%"), ("pad", "65.5%")):
        assert re.search(rf"^deletion, {kind} .*{beats}", text, re.MULTILINE)
    assert " ".join(payload["removal_matters"].split()) in " ".join(text.split())
    assert text.count("below the band") == 1
    elements = Elements(render_trust_html(payload))
    assert len(elements.named("svg", "plot")) == 10
    assert re.search(r"^  deletion, delete +weak ", format_trust_text(payload), re.MULTILINE)
    # The verdicts in the table of methods are those of the first kind.
    twice = trust_card_payloads.card(
        trust_card_payloads.method(), trust_card_payloads.method("rollout"), every_removal=True
    )
    assert re.search(r"^  attcat +weak +holds +weak", format_trust_text(twice), re.MULTILINE)


def test_trust_card_escapes_hostile_text_in_every_format():
    payload = hostile()
    for text in (format_trust_text(payload), print_to_terminal(payload)):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[bold]" in text
    for text in (render_trust_html(payload), render_trust_fragment(payload)):
        assert "<script" not in text
        assert {tag for tag, _ in Elements(text).found} <= {
            "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "div", "section", "p", "strong",
            "span", "figure", "figcaption", "mark", "svg", "desc", "line", "rect", "text", "polygon", "polyline",
            "circle", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "code",
        }  # fmt: skip
        assert not any(name.startswith("on") for _, attrs in Elements(text).found for name in attrs)


def test_trust_page_loads_nothing_and_labels_its_drawings():
    text = render_trust_html(trust_card_payloads.card())
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=|url\(|@import", text)
    elements = Elements(text)
    assert all(
        attrs.get("role") == "img" or attrs.get("aria-hidden") == "true"
        for attrs in elements.named("svg")
    )
    assert text.count("over tokens removed</title>") == 1
    assert "at 20% 0.61, 95 of 100 random rankings 0.656 to 1" in text


def test_trust_card_curve_beyond_probabilities_names_the_label_alone():
    test = trust_card_payloads.card()["methods"][0]["tests"][0]
    flat = {name: [2.0] * 11 for name in ("values", "null_low", "null_mean", "null_high")}
    test["curve"] |= flat
    payload = trust_card_payloads.card(trust_card_payloads.method(tests=[test]))
    assert "up: positive" in print_to_terminal(payload)
    assert len(Elements(render_trust_html(payload)).named("svg", "plot")) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_trust_terminal_card_fits_any_width_and_encoding(width, encoding):
    text = print_to_terminal(trust_card_payloads.card(every_removal=True), width, encoding)
    assert max(map(len, text.splitlines())) <= width
    assert ("░" in text) == (encoding == "utf-8")
    assert "deletion: below the band is good" in text


def test_trust_terminal_chart_is_readable_without_colour():
    lines = print_to_terminal(trust_card_payloads.card()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("deletion: below"))
    top, *_, low = (line[:38] for line in lines[start + 1 : start + 10])
    assert top.startswith("100% │━━")
    assert "░" in top
    assert low.startswith("  0% │")


def test_trust_card_with_nothing_tested_has_the_reason_and_no_chart():
    why = "Only one token can be removed: there is nothing to rank."
    tests = [
        trust_card_payloads.test_of(name.replace(" ", "_"), "not tested", why=why) for name in NAMES
    ]
    payload = trust_card_payloads.card(
        trust_card_payloads.method(verdict="not tested", tests=tests), rankings=0, units=1
    )
    for text in (
        format_trust_text(payload),
        print_to_terminal(payload, 120),
        render_trust_html(payload),
    ):
        assert "1 token, replaced by the mask token; no random rankings to compare with" in text
        assert "svg" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        assert " ".join(text.split()).count(why) == (len(NAMES) if "<html" in text else 1)


def test_trust_card_shows_truncation_and_pairs_and_wraps_long_words():
    payload = trust_card_payloads.card()
    payload["input"] |= {"dropped": 7, "pair": "x" * 300}
    place = {"text": "x" * 300, "start": 0, "end": 300, "segment": 1}
    payload["words"].append({**place, "tokens": [12]})
    payload["tokens"].append({**place, "special": False, "id": 9})
    payload["methods"][0]["scores"] = [*payload["methods"][0]["scores"], 0.2]
    payload["methods"][0]["word_scores"] = [*payload["methods"][0]["word_scores"], 0.2]
    for text in (
        format_trust_text(payload),
        print_to_terminal(payload),
        render_trust_html(payload),
    ):
        assert "The last 7 tokens did not fit and were cut off." in text
    assert max(map(len, print_to_terminal(payload).splitlines())) <= 80
    assert len(Elements(render_trust_html(payload)).named("div", "pair")) == 1


def test_trust_card_shows_ties_and_a_constant_null():
    test = trust_card_payloads.ranked("deletion", "holds", 0.3, 97.5, tied=3)
    test["null"] = {"mean": 0.0, "low": 0.0, "high": 0.0}
    payload = trust_card_payloads.card(trust_card_payloads.method(tests=[test]))
    assert "97.5 of 100, 3 ties" in render_trust_html(payload)
    assert re.search(r"0\.30\s+0\.00\s+97\.5% \(92 to 99\.9\)", format_trust_text(payload))


def test_trust_card_rendered_after_a_json_round_trip_is_equal():
    payload = trust_card_payloads.card(every_removal=True)
    again = json.loads(json.dumps(payload))
    assert render_trust_html(again) == render_trust_html(payload)
    assert format_trust_text(again) == format_trust_text(payload)
