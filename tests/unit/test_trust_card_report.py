"""The trust card as text, in a terminal and on a page, from cards made by hand."""

import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from tests import cards
from whence.report.card import fragment, page, plain
from whence.report.card.chart import ASCII, LINES, chart
from whence.report.card.terminal import render
from whence.report.card.wording import bounds, number

EVIL = "<script>alert('x')</script>\x1b[31m\x07[bold]"
NAMES = ("deletion", "sufficiency", "leave one out", "stability", "randomisation", "class sensitivity",
         "completeness", "conservation")  # fmt: skip


def shown(payload, width=80, encoding="utf-8"):
    """Return what a terminal of this width, without colour, shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, color_system=None).print(render(payload))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


def hostile():
    """Return a card in which every text that comes from outside is an attack."""
    evil = cards.card(cards.method(params={EVIL: EVIL}, sentence=EVIL))
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


@pytest.mark.parametrize("surface", [plain, shown, page, fragment])
def test_the_sentence_comes_first_and_every_test_is_named(surface):
    payload = cards.card()
    text = " ".join(surface(payload).split())
    body = text[text.find('<div class="card">') :] if "<" in text else text
    places = [
        body.index(payload["sentence"]),
        *(body.index(name, body.index("by chance")) for name in NAMES),
    ]
    assert places == sorted(places)
    for verdict in ("holds", "weak", "fails", "not tested"):
        assert verdict in body


def test_the_figures_of_a_test():
    (row,) = [line for line in plain(cards.card()).splitlines() if line.startswith("  deletion ")]
    cells = ["deletion", "holds", "0.31", "0.58 (0.36 to 0.79)", "97% (91.5 to 99.4)"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    (row,) = [line for line in shown(cards.card()).splitlines() if line.startswith("deletion  ")]
    assert re.split(r"\s{2,}", row.strip()) == cells


def test_what_is_not_there_is_a_dash_and_never_a_word_of_the_machine():
    payload = cards.card()
    # What is folded away on a page lists parameters and provenance as they are.
    unfolded = re.sub(r"<details>.*?</details>", "", page(payload), flags=re.DOTALL)
    for text in (plain(payload), shown(payload), unfolded):
        assert not re.search(r"\b(None|nan|null|inf)\b", text)
    row = next(line for line in plain(payload).splitlines() if "completeness  " in line)
    assert row.split()[-3:] == ["-", "-", "-"]


def test_numbers_are_short():
    assert [number(x) for x in (None, 0.0, 0.312, -0.5, 0.0031, 1.2e-5, 12.345, 54321.0)] == [
        "-", "0.00", "0.31", "-0.50", "0.0031", "1.2e-05", "12.35", "5.4e+04",
    ]  # fmt: skip


def test_why_is_said_where_a_test_does_not_hold():
    text = " ".join(shown(cards.card()).split())
    for test in cards.card()["methods"][0]["tests"]:
        assert (test["why"] in text) == (test["verdict"] != "holds")


def test_a_method_alone_is_not_said_twice():
    alone = cards.card(cards.method(sentence="The same."), sentence="The same.")
    for surface in (plain, shown, page):
        assert surface(alone).count("The same.") == 1


def test_several_methods_begin_with_a_table_of_verdicts():
    names = ["attcat", "integrated_gradients", "transformer_attribution", "rollout", "decompx"]
    payload = cards.card(*(cards.method(name) for name in names))
    blocks = shown(payload).split("\n\n")
    tables = [block.splitlines() for block in blocks if "\noverall" in block]
    assert [name for table in tables for name in table[0].split()] == names
    assert all(len(line) <= 80 for line in shown(payload).splitlines())
    for table in tables:
        assert [line.split("  ")[0] for line in table[1:]] == ["overall", *NAMES]
    (matrix,) = re.findall(r'<table class="matrix">.*?</table>', page(payload), re.DOTALL)
    assert re.findall(r'<th scope="row">(\w+)</th>', matrix) == names
    assert len(Elements(matrix).named("span", "chip")) == len(names) * (1 + len(NAMES))
    assert "matrix" not in Elements(page(cards.card())).named("table")[0]["class"]


def test_every_removal_has_its_row_and_its_curves():
    payload = cards.card(every_removal=True)
    text = shown(payload)
    for kind, beats in (("mask", "97%"), ("delete", "88%"), ("pad", "65.5%")):
        assert re.search(rf"^  {kind} .* {beats}", text, re.MULTILINE)
    assert " ".join(payload["removal_matters"].split()) in " ".join(text.split())
    assert text.count("below the band") == 1
    elements = Elements(page(payload))
    assert len(elements.named("svg", "curve")) == 10
    assert len(elements.named("tr", "group")) == 3
    assert re.search(r"^  deletion, delete +weak ", plain(payload), re.MULTILINE)
    # The verdicts in the summary are those of the first kind.
    twice = cards.card(cards.method(), cards.method("rollout"), every_removal=True)
    assert "attcat: weak (deletion holds, sufficiency weak," in plain(twice)


def test_hostile_text_stays_text():
    payload = hostile()
    for text in (plain(payload), shown(payload)):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[bold]" in text
    for text in (page(payload), fragment(payload)):
        assert "<script" not in text
        assert {tag for tag, _ in Elements(text).found} <= {
            "html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "div", "section", "p", "strong",
            "span", "figure", "figcaption", "mark", "svg", "desc", "line", "rect", "text", "polygon", "polyline",
            "circle", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "code",
        }  # fmt: skip
        assert not any(name.startswith("on") for _, attrs in Elements(text).found for name in attrs)


def test_a_page_is_offline_and_its_drawings_have_words():
    text = page(cards.card())
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=|url\(|@import", text)
    elements = Elements(text)
    assert all(
        attrs.get("role") == "img" or attrs.get("aria-hidden") == "true"
        for attrs in elements.named("svg")
    )
    assert text.count("<title>deletion, attcat: probability of positive over tokens removed") == 1
    assert "at 20% 0.61, random 0.66 to 1.00" in text


def test_a_curve_in_characters():
    # Four rows stand for 0, 1/3, 2/3, 1. The line falls in the middle from 1 to 0; the band lies between 1/3 and 2/3.
    drawn = {
        "at": [0, 0.5, 0.5, 1],
        "values": [1, 1, 0, 0],
        "null_low": [1 / 3] * 4,
        "null_mean": [0.5] * 4,
        "null_high": [2 / 3] * 4,
    }
    picture = ["".join(cell.glyph for cell in row) for row in chart(drawn, (0, 1), 6, 4, LINES)]
    assert picture == ["━━━┓  ", "░░░┃░░", "░░░┃░░", "   ┗━━"]
    picture = ["".join(cell.glyph for cell in row) for row in chart(drawn, (0, 1), 6, 4, ASCII)]
    assert picture == ["****  ", ":::*::", ":::*::", "   ***"]
    rising = {**drawn, "values": [0, 0, 1, 1]}
    picture = ["".join(cell.glyph for cell in row) for row in chart(rising, (0, 1), 6, 4, LINES)]
    assert picture == ["   ┏━━", "░░░┃░░", "░░░┃░░", "━━━┛  "]


def test_what_is_no_probability_is_drawn_over_its_own_range():
    test = cards.card()["methods"][0]["tests"][0]
    assert bounds([test]) == (0.0, 1.0)
    test["curve"] |= {"values": [3.5] * 11, "null_low": [-1.0] * 11}
    assert bounds([test]) == (-1.0, 3.5)
    flat = {name: [2.0] * 11 for name in ("values", "null_low", "null_mean", "null_high")}
    test["curve"] |= flat
    payload = cards.card(cards.method(tests=[test]))
    assert bounds([test]) == (1.0, 3.0)
    assert "up: positive" in shown(payload)
    assert len(Elements(page(payload)).named("svg", "curve")) == 1


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_terminal_can_show_it(width, encoding):
    text = shown(cards.card(every_removal=True), width, encoding)
    assert max(map(len, text.splitlines())) <= width
    assert ("░" in text) == (encoding == "utf-8")
    assert "deletion: below the band is good" in text


def test_the_chart_can_be_read_without_colour():
    lines = shown(cards.card()).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("deletion: below"))
    top, *_, low = (line[:38] for line in lines[start + 1 : start + 10])
    assert top.startswith("100% │━━")
    assert "░" in top
    assert low.startswith("  0% │")


def test_nothing_was_tested():
    why = "Only one token can be removed: there is nothing to rank."
    tests = [cards.test_of(name.replace(" ", "_"), "not tested", why=why) for name in NAMES]
    payload = cards.card(cards.method(verdict="not tested", tests=tests), rankings=0, units=1)
    for text in (plain(payload), shown(payload, 120), page(payload)):
        assert "1 token, replaced by the mask token; no random rankings to compare with" in text
        assert "svg" not in re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
        assert text.count(why) == (len(NAMES) if "<html" in text else 1)


def test_long_words_truncation_and_a_pair():
    payload = cards.card()
    payload["input"] |= {"dropped": 7, "pair": "x" * 300}
    place = {"text": "x" * 300, "start": 0, "end": 300, "segment": 1}
    payload["words"].append({**place, "tokens": [12]})
    payload["tokens"].append({**place, "special": False, "id": 9})
    payload["methods"][0]["scores"] = [*payload["methods"][0]["scores"], 0.2]
    payload["methods"][0]["word_scores"] = [*payload["methods"][0]["word_scores"], 0.2]
    for text in (plain(payload), shown(payload), page(payload)):
        assert "The last 7 tokens did not fit and were cut off." in text
    assert max(map(len, shown(payload).splitlines())) <= 80
    assert len(Elements(page(payload)).named("div", "pair")) == 1


def test_ties_and_a_fixed_null_are_said():
    test = cards.ranked("deletion", "holds", 0.3, 97.5, tied=3)
    test["null"] = {"mean": 0.0, "low": 0.0, "high": 0.0}
    payload = cards.card(cards.method(tests=[test]))
    assert "97.5 of 100, 3 ties" in page(payload)
    assert re.search(r"0\.30\s+0\.00\s+97\.5% \(92 to 99\.9\)", plain(payload))


def test_a_card_survives_json():
    payload = cards.card(every_removal=True)
    again = json.loads(json.dumps(payload))
    assert page(again) == page(payload)
    assert plain(again) == plain(payload)
