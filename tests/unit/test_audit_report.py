"""An audit as text, in a terminal, in Markdown and on a page, from audits made by hand; and what it comes to."""

import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from tests import audits
from whence.report.audit import fragment, markdown, page, plain
from whence.report.audit.sketch import ASCII, LINES, sketch, strip
from whence.report.audit.terminal import render
from whence.report.plot import draw
from whence.report.scale import Scale, ticks

EVIL = "<script>alert('x')</script>\x1b[31m\x07\u202e\u2066\x85[bold]|`"
AUDITS = {
    "all": audits.audit,
    "bare": audits.bare,
    "no site": lambda: audits.many_sites(0),
    "forty sites": lambda: audits.many_sites(40),
    "one class": audits.one_class,
    "nothing run": lambda: {**audits.audit(), "experiments": []},
    "hostile": lambda: audits.hostile(EVIL),
}


def shown(payload, width=100, encoding="utf-8"):
    """Return what a terminal of this width, without colour, shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, color_system=None).print(render(payload))
    stream.flush()
    return stream.buffer.getvalue().decode(encoding)


class Elements(HTMLParser):
    """Collects the elements of a page and its text."""

    def __init__(self, html):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def named(self, tag, css=None):
        return [a for t, a in self.found if t == tag and css in (None, *a.get("class", "").split())]


SURFACES = {
    "plain": plain,
    "terminal": shown,
    "page": page,
    "fragment": fragment,
    "markdown": markdown,
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("which", AUDITS)
def test_every_surface_shows_every_audit_without_words_of_the_machine(which, surface):
    text = SURFACES[surface](AUDITS[which]())
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    # What is folded away lists the provenance as it is, with None for no revision.
    body = re.sub(r"<details>.*?</details>", "", body, flags=re.DOTALL)
    assert not re.search(r"\b(None|nan|NaN|null|inf)\b", body)
    assert "May attention be read as an explanation here?" in body


@pytest.mark.parametrize("surface", SURFACES)
def test_what_was_claimed_comes_before_what_was_found(surface):
    one = audits.experiment("permutation", plots=[], by_class=[])
    # The paragraph, which has all of it, comes first on a page and last elsewhere.
    text = SURFACES[surface](audits.audit(one, conclusion="So it is."))
    text = " ".join(text.replace("\\", "").split())
    places = [text.index(part) for part in ("above 0.1", "[0.0297, 0.0372]", "✗ fails")]
    assert places == sorted(places)
    if surface in ("page", "fragment"):
        own = text[text.index("<h2>permutation") :]
        rule = "Holds if the whole 95% interval is above 0.1"
        places = [own.index(p) for p in (one["hypothesis"], rule, "✗ fails", "[0.0297, 0.0372]")]
        assert places == sorted(places)
    assert one["hypothesis"] in text
    assert one["measure"] in text


def test_a_row_has_all_figures():
    row = next(
        line for line in shown(audits.audit()).splitlines() if line.startswith("correlation  ")
    )
    cells = ["correlation", "above -0.1", "-0.212 [-0.228, -0.196]", "-0.52", "410", "✗ fails"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    row = next(line for line in plain(audits.audit()).splitlines() if line.startswith("guides  "))
    assert re.split(r"\s{2,}", row.strip()) == ["guides", "above 0", "-", "-", "0", "? undecided"]
    assert "| guides | above 0 | - | - | 0 | ? undecided |" in markdown(audits.audit())


def test_the_head_says_what_was_audited():
    text = " ".join(shown(audits.audit()).split())
    assert "reviews (BertForSequenceClassification)" in text
    assert (
        "sst.tsv, 410 of 1,821 examples, 411 drawn with seed 0; text from 'sentence', label from 'label' (text, "
        "label guessed)" in text
    )
    assert "81.5% (always the most frequent class: 51.0%), F1 0.811, n=410" in text
    assert "layer 5; the weights of special tokens are left as they are" in text
    assert "not known: the data have no labels" in shown(audits.bare())
    assert "layer 5, and beside it 40 others" in " ".join(shown(audits.many_sites(40)).split())


def test_the_paragraph_comes_last_in_a_terminal_and_is_folded():
    payload = audits.audit()
    lines = shown(payload, 60).splitlines()
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    assert text.index(payload["conclusion"]) > text.index(payload["experiments"][-1]["hypothesis"])


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_terminal_can_show_it(width, encoding):
    payload = audits.audit()
    payload["experiments"][7]["plots"] = []  # its points are named by a Greek letter
    text = shown(payload, width, encoding)
    assert max(map(len, text.splitlines())) <= width
    assert ("█" in text) == (encoding == "utf-8")
    sign = "✗" if encoding == "utf-8" else "x"
    assert f"{sign} fails" in text


def test_long_names_fold():
    payload = audits.audit(
        audits.experiment(name="permutation", plots=[audits.violin(("y" * 90,))])
    )
    payload["model"]["name"] = "m" * 300
    payload["experiments"][0]["name"] = "n" * 90
    assert max(map(len, shown(payload, 70).splitlines())) <= 70


def test_no_colour_is_asked_for_and_none_is_given(monkeypatch):
    def coloured():
        stream = io.StringIO()
        Console(file=stream, width=90, force_terminal=True, color_system="truecolor").print(
            render(audits.audit())
        )
        return stream.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m✗ fails" in coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(3|4|9)\d", coloured())


def test_a_strip_shows_counts():
    # The most is a full block; half of it is 3.5 of 7 steps, rounded up to the fourth; nothing is a blank.
    assert strip([0, 4, 8, 1], 4, LINES) == " ▅█▂"
    assert strip([0, 4, 8, 1], 2, LINES) == "▄█"  # 4 and 9: 4/9 of 7 steps is 3.1
    assert strip([0, 0], 2, ASCII) == "  "


def test_a_histogram_in_characters_marks_its_threshold():
    plot = {"kind": "histogram", "title": "t", "x": "x", "edges": [0, 1, 2, 3], "threshold": 2.5,
            "series": [{"name": "a", "counts": [0, 1, 2], "n": 3}]}  # fmt: skip
    title, line, mark = sketch(plot, 60, LINES)
    assert title == "t"
    assert line.split("  ", 3)[-1] == "0  ▅█ 3, n=3"
    assert mark.index("▲") == line.index("█")


def test_a_violin_in_characters():
    values = [0.0, 0.25, 0.5, 0.75, 1.0]
    plot = {"kind": "violin", "title": "t", "x": "x", "y": "y",
            "series": [{"name": "c", "groups": [{"name": "g", "n": 5, "quantiles": values}]}]}  # fmt: skip
    _, _, line = sketch(plot, 60, ASCII)
    drawn = re.search(r"-+=+o=+-+", line)
    assert drawn is not None
    # The median is in the middle of the quartiles, and these as long as both whiskers together, to the column.
    before, after = drawn[0].split("o")
    assert abs(before.count("=") - after.count("=")) <= 1
    assert abs(before.count("-") - before.count("=")) <= 1
    assert line.endswith("0.5, n=5")


def test_hostile_text_stays_text():
    payload = audits.hostile(EVIL)
    for text in (plain(payload), shown(payload)):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[bold]" in text
    for text in (page(payload), fragment(payload)):
        assert not any(sign in text for sign in "\x1b\x07\u202e\u2066\x85")
        assert "<script" not in text
        assert not any(name.startswith("on") for _, attrs in Elements(text).found for name in attrs)
        assert {tag for tag, _ in Elements(text).found} <= {
            "html", "head", "meta", "title", "style", "body", "main", "nav", "h1", "h2", "h3", "div", "section", "p",
            "strong", "span", "figure", "figcaption", "mark", "svg", "desc", "line", "rect", "text", "polygon",
            "polyline", "circle", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "code", "dl",
            "dt", "dd", "ul", "li", "a",
        }  # fmt: skip
    for line in markdown(payload).splitlines():
        # Neither markup nor a sign that would end a cell is left as it came.
        assert not re.search(r"(?<!\\)<script|(?<!\\)`", line)
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (4, 7)


def test_a_page_is_offline_and_every_drawing_has_words():
    text = page(audits.audit())
    assert "default-src 'none'" in text
    assert not re.search(r"src=|url\(|@import", text)
    elements = Elements(text)
    links = [a["href"] for a in elements.named("a")]
    places = {a["id"] for _, a in elements.found if "id" in a}
    assert len(links) == len(audits.NAMES)
    assert {link.removeprefix("#") for link in links} <= places
    drawings = elements.named("svg")
    assert len(drawings) > 20
    for attrs in drawings:
        assert attrs.get("aria-hidden") == "true" or (
            attrs["role"] == "img" and attrs["aria-label"]
        )
    assert text.count("<title>") == len(elements.named("title"))
    assert "half of them from" in text
    # A cell of a notebook has no places to go to: there may be several audits below each other.
    assert Elements(fragment(audits.audit())).named("a") == []


def test_a_page_has_every_plot_table_and_note():
    payload = audits.audit()
    payload["experiments"][1]["notes"] = ["A note & more."]
    text = page(payload)
    elements = Elements(text)
    for one in payload["experiments"]:
        for plot in one["plots"]:
            assert plot["title"] in elements.text
        assert one["misleads_when"] in elements.text
    assert "A note &amp; more." in text
    assert len(elements.named("mark")) == 2 * 2 * len(audits.TOKENS)
    assert "pairs, by class" in text
    assert "0.350 [0.330, 0.370]" in text
    badges = Elements(text).named("span", "badge")
    assert len(badges) == 2 * len(payload["experiments"])


def test_forty_sites_are_folded_and_all_there():
    text = page(audits.many_sites(40))
    assert "At the other sites (40)" in text
    assert text.count("layer 9, head 2") == 2
    assert "At the other sites" not in page(audits.many_sites(0))


def test_the_effect_is_drawn_on_its_side_of_the_threshold():
    for name, holds in (("permutation", "right"), ("adversarial", "left")):
        text = page(audits.audit(audits.experiment(name, plots=[], by_class=[])))
        (svg,) = re.findall(r'<svg class="plot".*?</svg>', text)
        threshold = float(re.search(r'class="threshold" x1="([\d.]+)"', svg)[1])
        effect = float(re.search(r'class="own" cx="([\d.]+)"', svg)[1])
        field = re.search(r'class="holds" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)
        start, width = float(field[1]), float(field[2])
        assert (start == threshold) if holds == "right" else abs(start + width - threshold) < 0.2
        assert not start <= effect <= start + width  # both fail


def test_bars_of_a_histogram_are_as_high_as_their_share():
    plot = audits.histogram(
        ("a",), edges=[0, 1, 2], series=[{"name": "a", "counts": [1, 3], "n": 4}]
    )
    heights = [float(h) for h in re.findall(r'class="column"[^>]*height="([\d.]+)"', draw(plot))]
    assert heights[1] == pytest.approx(3 * heights[0], abs=0.2)  # written to a tenth
    assert "0 to 1: 1 of 4" in draw(plot)


def test_a_violin_of_one_value_and_of_few():
    groups = [
        {"name": "same", "n": 50, "quantiles": [0.2] * 50},
        {"name": "few", "n": 2, "quantiles": [0.1, 0.3]},
    ]
    plot = audits.violin(("a",), series=[{"name": "a", "groups": groups}])
    drawn = draw(plot)
    assert drawn.count("<polygon") == 1  # a shape of two values would be invented
    assert "few: median 0.2, half of them from 0.15 to 0.25, n=2" in drawn
    assert "nan" not in drawn


@pytest.mark.parametrize("plot", [
    audits.histogram(edges=[]), audits.histogram(()), audits.violin(()), audits.matrix(rows=1) | {"rows": []},
    audits.curve(points=[]), audits.attention(count=0), audits.bars(bars=[]), {"kind": "unheard of", "title": "x"},
], ids=lambda plot: plot["kind"])  # fmt: skip
def test_where_there_is_nothing_to_draw_nothing_is_drawn(plot):
    assert draw(plot) == ""
    assert sketch(plot, 60, LINES) == []


def test_many_classes_are_folded():
    drawn = draw(audits.histogram(tuple(f"class {i}" for i in range(20))))
    assert drawn.count("<svg") == 20
    assert "<summary>14 more</summary>" in drawn
    assert "  16 more on the page" in sketch(
        audits.histogram(tuple(f"class {i}" for i in range(20))), 60, LINES
    )


def test_a_scale_and_its_ticks():
    scale = Scale(0.0, 2.0, 10.0, 110.0)
    assert [scale.at(value) for value in (0.0, 0.5, 2.0, -1.0, 9.0)] == [
        10.0,
        35.0,
        110.0,
        10.0,
        110.0,
    ]
    assert ticks(0.0, 1.0) == [(0.0, "0.0"), (0.2, "0.2"), (0.4, "0.4"), (pytest.approx(0.6), "0.6"), (0.8, "0.8"),
                               (1.0, "1.0")]  # fmt: skip
    assert [shown for _, shown in ticks(-30.0, 50.0, 4)] == ["-20", "0", "20", "40"]


def test_a_terminal_has_the_figures_of_the_paper():
    for text in (shown(audits.audit(), 200), plain(audits.audit())):
        assert (
            "attention's mean tau with gradient 0.350 (significant in 49%), leave one out 0.290 (significant in "
            "49%), integrated gradients 0.310 (significant in 49%)"
        ) in text


def test_why_there_are_no_labels_and_what_was_not_run():
    payload = {**audits.audit(audits.experiment("permutation")), "performance": None}
    payload["data"]["without_labels"] = "The label 'x' is not one of the model's."
    text = " ".join(shown(payload, 200).split())
    assert "not known: The label 'x' is not one of the model's." in text
    assert "trained_adversary, guides (not asked for)." in text


def test_a_number_that_is_none_is_never_shown_as_one():
    payload = audits.audit(
        audits.experiment("permutation", effect=float("nan"), interval=None, n=0)
    )
    payload["experiments"][0]["detail"] = {"x": float("inf"), "y": np.nan}
    for surface in SURFACES.values():
        assert not re.search(r"\b(nan|inf)\b", surface(payload))
