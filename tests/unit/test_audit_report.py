"""Audit reports as text, terminal, Markdown and HTML: contents, widths, escaping, and drawings of the plots."""

import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

from tests import audit_payloads
from whence.render.charts import AxisScale, compute_ticks, render_plot
from whence.render.document import Document, Plot, Section
from whence.studies.audit.audit import Audit

EVIL = "<script>alert('x')</script>\x1b[31m\x07\u202e\u2066\x85[bold]|`"
AUDITS = {
    "all": audit_payloads.audit,
    "bare": audit_payloads.bare,
    "no site": lambda: audit_payloads.many_sites(0),
    "forty sites": lambda: audit_payloads.many_sites(40),
    "one class": audit_payloads.one_class,
    "nothing run": lambda: {**audit_payloads.audit(), "experiments": []},
    "hostile": lambda: audit_payloads.hostile(EVIL),
}


def print_to_terminal(payload, width=100, encoding="utf-8"):
    """Return what a terminal of this width, without colour, shows."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width, color_system=None).print(Audit(payload))
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


def write_text(payload):
    return str(Audit(payload))


def write_page(payload):
    return Audit(payload).to_html()


def write_fragment(payload):
    return Audit(payload)._repr_html_()


def write_markdown(payload):
    return Audit(payload).to_markdown()


SURFACES = {
    "plain": write_text,
    "terminal": print_to_terminal,
    "page": write_page,
    "fragment": write_fragment,
    "markdown": write_markdown,
}


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("which", AUDITS)
def test_audit_report_in_every_format_has_the_question_and_no_none_or_nan(which, surface):
    text = SURFACES[surface](AUDITS[which]())
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    # What is folded away lists the provenance as it is, with None for no revision.
    body = re.sub(r"<details>.*?</details>", "", body, flags=re.DOTALL)
    assert not re.search(r"\b(None|nan|NaN|null|inf)\b", body)
    assert "May attention be read as an explanation here?" in body


@pytest.mark.parametrize("surface", SURFACES)
def test_audit_report_states_the_threshold_before_effect_and_verdict(surface):
    one = audit_payloads.experiment("permutation", plots=[], by_class=[])
    # The paragraph, which has all of it, comes first on a page and last elsewhere.
    text = SURFACES[surface](audit_payloads.audit(one, conclusion="So it is."))
    text = " ".join(text.replace("\\", "").split())
    places = [text.index(part) for part in ("above 0.1", "[0.0297, 0.0372]", "✗ fails")]
    assert places == sorted(places)
    if surface in ("page", "fragment"):
        own = text[text.index("<h2>permutation") :]
        rule = "Holds if the whole 95% interval is above 0.1"
        places = [own.index(p) for p in (one["hypothesis"], rule, "[0.0297, 0.0372]", "✗ fails")]
        assert places == sorted(places)
    assert one["hypothesis"] in text
    assert one["measure"] in text


def test_audit_report_row_has_threshold_effect_chance_count_and_verdict():
    row = next(
        line
        for line in print_to_terminal(audit_payloads.audit()).splitlines()
        if line.startswith("correlation  ")
    )
    cells = ["correlation", "above -0.1", "-0.212 [-0.228, -0.196]", "-0.52", "410", "✗ fails"]
    assert re.split(r"\s{2,}", row.strip()) == cells
    row = next(
        line
        for line in write_text(audit_payloads.audit()).splitlines()
        if line.startswith("  guides  ")
    )
    assert re.split(r"\s{2,}", row.strip()) == ["guides", "above 0", "-", "-", "0", "? undecided"]
    assert "| guides | above 0 | - | - | 0 | ? undecided |" in write_markdown(
        audit_payloads.audit()
    )


def test_audit_report_head_names_model_data_accuracy_and_site():
    text = " ".join(print_to_terminal(audit_payloads.audit()).split())
    assert "reviews (BertForSequenceClassification)" in text
    assert (
        "sst.tsv, 410 of 1,821 examples, 411 drawn with seed 0; text from 'sentence', label from 'label' (text, "
        "label guessed)" in text
    )
    assert "81.5% (always the most frequent class: 51.0%), F1 0.811, n=410" in text
    assert "layer 5; the weights of special tokens are left as they are" in text
    assert "not known: the data have no labels" in print_to_terminal(audit_payloads.bare())
    assert "layer 5, and beside it 40 others" in " ".join(
        print_to_terminal(audit_payloads.many_sites(40)).split()
    )


def test_audit_terminal_report_puts_the_wrapped_conclusion_after_the_experiments():
    payload = audit_payloads.audit()
    lines = print_to_terminal(payload, 60).splitlines()
    assert max(map(len, lines)) <= 60
    text = " ".join(" ".join(lines).split())
    assert text.index(payload["conclusion"]) > text.index(payload["experiments"][-1]["hypothesis"])


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_audit_terminal_report_fits_any_width_and_encoding(width, encoding):
    payload = audit_payloads.audit()
    payload["experiments"][7]["plots"] = []  # its points are named by a Greek letter
    text = print_to_terminal(payload, width, encoding)
    assert max(map(len, text.splitlines())) <= width
    assert ("█" in text) == (encoding == "utf-8")
    sign = "✗" if encoding == "utf-8" else "x"
    assert f"{sign} fails" in text


def test_audit_terminal_report_wraps_long_names_within_the_width():
    payload = audit_payloads.audit(
        audit_payloads.experiment(name="permutation", plots=[audit_payloads.violin(("y" * 90,))])
    )
    payload["model"]["name"] = "m" * 300
    payload["experiments"][0]["name"] = "n" * 90
    assert max(map(len, print_to_terminal(payload, 70).splitlines())) <= 70


def test_audit_terminal_report_under_no_color_has_no_colour_codes(monkeypatch):
    def coloured():
        stream = io.StringIO()
        Console(file=stream, width=90, force_terminal=True, color_system="truecolor").print(
            Audit(audit_payloads.audit())
        )
        return stream.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m✗ fails" in coloured()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[(3|4|9)\d", coloured())


def write_plot(plot):
    return Document("", [Section("", [Plot(plot)])]).to_text()


def test_histogram_in_text_scales_blocks_to_the_largest_count_and_states_the_threshold():
    # The most is a full block; half of it is 3.5 of 7 steps, rounded up to the fourth; nothing is a dot.
    plot = {"kind": "histogram", "title": "t", "x": "x", "edges": [0, 1, 2, 3, 4], "threshold": 2.5,
            "series": [{"name": "a", "counts": [0, 4, 8, 1], "n": 13}]}  # fmt: skip
    title, line, *_, limit = write_plot(plot).strip().splitlines()
    assert title == "t, 0 to 4" and limit == "threshold 2.5"
    assert line.split() == ["a", "·▅█▂", "n=13"]


def test_violin_in_text_states_quartiles_and_median():
    values = [0.0, 0.25, 0.5, 0.75, 1.0]
    plot = {"kind": "violin", "title": "t", "x": "x", "y": "y",
            "series": [{"name": "c", "groups": [{"name": "g", "n": 5, "quantiles": values}]}]}  # fmt: skip
    assert "g: median 0.5, half of them from 0.25 to 0.75, n=5" in write_plot(plot)


def test_audit_report_escapes_hostile_text_in_every_format():
    payload = audit_payloads.hostile(EVIL)
    for text in (write_text(payload), print_to_terminal(payload)):
        assert "\x1b" not in text
        assert "\x07" not in text
        assert "[bold]" in text
    for text in (write_page(payload), write_fragment(payload)):
        assert not any(sign in text for sign in "\x1b\x07\u202e\u2066\x85")
        assert "<script" not in text
        assert not any(name.startswith("on") for _, attrs in Elements(text).found for name in attrs)
        assert {tag for tag, _ in Elements(text).found} <= {
            "html", "head", "meta", "title", "style", "body", "main", "nav", "h1", "h2", "h3", "div", "section", "p",
            "strong", "span", "figure", "figcaption", "mark", "svg", "desc", "line", "rect", "text", "polygon",
            "polyline", "circle", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "code", "dl",
            "dt", "dd", "ul", "li", "a",
        }  # fmt: skip
    for line in write_markdown(payload).splitlines():
        # Neither markup nor a sign that would end a cell is left as it came.
        assert not re.search(r"(?<!\\)<script|(?<!\\)`", line)
        if line.startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", line)) in (3, 4, 6, 7)


def test_audit_page_loads_nothing_and_labels_every_drawing():
    text = write_page(audit_payloads.audit())
    assert "default-src 'none'" in text
    assert not re.search(r"src=|url\(|@import", text)
    elements = Elements(text)
    links = [a["href"] for a in elements.named("a")]
    places = {a["id"] for _, a in elements.found if "id" in a}
    assert len(links) == len(audit_payloads.NAMES)
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
    assert Elements(write_fragment(audit_payloads.audit())).named("a") == []


def test_audit_page_has_every_plot_table_and_note():
    payload = audit_payloads.audit()
    payload["experiments"][1]["notes"] = ["A note & more."]
    text = write_page(payload)
    elements = Elements(text)
    for one in payload["experiments"]:
        for plot in one["plots"]:
            assert plot["title"] in elements.text
        assert one["misleads_when"] in elements.text
    assert "A note &amp; more." in text
    assert len(elements.named("mark")) == 2 * 2 * len(audit_payloads.TOKENS)
    assert "pairs, by class" in text
    assert "0.350 [0.330, 0.370]" in text
    badges = Elements(text).named("span", "badge")
    assert len(badges) == 2 * len(payload["experiments"])


def test_audit_page_folds_forty_one_sites_and_lists_every_one():
    text = write_page(audit_payloads.many_sites(41))
    assert "At the other sites (41)" in text
    assert text.count("layer 9, head 2") == 2
    assert "At the other sites" not in write_page(audit_payloads.many_sites(0))


def test_audit_page_draws_a_failing_effect_outside_the_holding_side():
    for name, holds in (("permutation", "right"), ("adversarial", "left")):
        text = write_page(
            audit_payloads.audit(audit_payloads.experiment(name, plots=[], by_class=[]))
        )
        (svg,) = re.findall(r'<svg class="plot".*?</svg>', text)
        threshold = float(re.search(r'class="threshold" x1="([\d.]+)"', svg)[1])
        effect = float(re.search(r'class="own" cx="([\d.]+)"', svg)[1])
        field = re.search(r'class="holds" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', svg)
        start, width = float(field[1]), float(field[2])
        assert (start == threshold) if holds == "right" else abs(start + width - threshold) < 0.2
        assert not start <= effect <= start + width  # both fail


def test_render_plot_draws_histogram_bars_in_proportion_to_counts():
    plot = audit_payloads.histogram(
        ("a",), edges=[0, 1, 2], series=[{"name": "a", "counts": [1, 3], "n": 4}]
    )
    heights = [
        float(h) for h in re.findall(r'class="column"[^>]*height="([\d.]+)"', render_plot(plot))
    ]
    assert heights[1] == pytest.approx(3 * heights[0], abs=0.2)  # written to a tenth
    assert "0 to 1: 1 of 4" in render_plot(plot)


def test_render_plot_of_a_violin_draws_no_shape_for_two_values():
    groups = [
        {"name": "same", "n": 50, "quantiles": [0.2] * 50},
        {"name": "few", "n": 2, "quantiles": [0.1, 0.3]},
    ]
    plot = audit_payloads.violin(("a",), series=[{"name": "a", "groups": groups}])
    drawn = render_plot(plot)
    assert drawn.count("<polygon") == 1  # a shape of two values would be invented
    assert "few: median 0.2, half of them from 0.15 to 0.25, n=2" in drawn
    assert "nan" not in drawn


@pytest.mark.parametrize(
    "plot",
    [
        audit_payloads.histogram(edges=[]),
        audit_payloads.histogram(()),
        audit_payloads.violin(()),
        audit_payloads.matrix(rows=1) | {"rows": []},
        audit_payloads.curve(points=[]),
        audit_payloads.attention(count=0),
        audit_payloads.bars(bars=[]),
        {"kind": "unheard of", "title": "x"},
    ],
    ids=lambda plot: plot["kind"],
)
def test_empty_plots_are_neither_drawn_nor_written(plot):
    assert render_plot(plot) == ""
    assert write_plot(plot).strip() == ""


def test_render_plot_folds_many_classes():
    drawn = render_plot(audit_payloads.histogram(tuple(f"class {i}" for i in range(20))))
    assert drawn.count("<svg") == 20
    assert "<summary>14 more</summary>" in drawn


def test_axis_scale_clips_values_and_compute_ticks_gives_round_numbers():
    scale = AxisScale(0.0, 2.0, 10.0, 110.0)
    assert [scale.at(value) for value in (0.0, 0.5, 2.0, -1.0, 9.0)] == [
        10.0,
        35.0,
        110.0,
        10.0,
        110.0,
    ]
    assert compute_ticks(0.0, 1.0) == [(0.0, "0.0"), (0.2, "0.2"), (0.4, "0.4"), (pytest.approx(0.6), "0.6"), (0.8, "0.8"),
                               (1.0, "1.0")]  # fmt: skip
    assert [shown for _, shown in compute_ticks(-30.0, 50.0, 4)] == ["-20", "0", "20", "40"]


def test_audit_text_and_terminal_report_give_mean_tau_with_each_measure():
    for text in (
        print_to_terminal(audit_payloads.audit(), 200),
        write_text(audit_payloads.audit()),
    ):
        assert (
            "attention's mean tau with gradient 0.350 (significant in 49%), leave one out 0.290 (significant in "
            "49%), integrated gradients 0.310 (significant in 49%)"
        ) in text


def test_audit_report_explains_missing_labels_and_lists_experiments_not_run():
    payload = {
        **audit_payloads.audit(audit_payloads.experiment("permutation")),
        "performance": None,
    }
    payload["data"]["without_labels"] = "The label 'x' is not one of the model's."
    text = " ".join(print_to_terminal(payload, 200).split())
    assert "not known: The label 'x' is not one of the model's." in text
    assert "trained_adversary, guides (not asked for)." in text


def test_audit_report_of_non_finite_numbers_prints_no_nan_or_inf():
    payload = audit_payloads.audit(
        audit_payloads.experiment("permutation", effect=float("nan"), interval=None, n=0)
    )
    payload["experiments"][0]["detail"] = {"x": float("inf"), "y": np.nan}
    for surface in SURFACES.values():
        assert not re.search(r"\b(nan|inf)\b", surface(payload))
