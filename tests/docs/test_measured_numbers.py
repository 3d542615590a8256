"""Every measured number in the README and the docs comes from a file under bench/results.

Pages that are written whole are held to these files by tests/contract/test_docs.py, and so are tables between
markers. Here are the sentences that people write: a number in them is marked with its place in a file
(scripts/figures.py), or it is no measurement, and stated.toml says why.
"""

import json

import build_docs
import figures
import pytest

WHOLE = {(build_docs.DOCS / name).resolve() for name in build_docs.FILES}
WRITTEN = {
    str(page.relative_to(figures.ROOT)): page
    for page in figures.pages()
    if page.resolve() not in WHOLE
}
STATED = figures.stated()


@pytest.mark.parametrize("name", WRITTEN)
def test_every_number_that_looks_measured_has_a_source(name):
    text = WRITTEN[name].read_text(encoding="utf-8")
    without = figures.unsourced(text, STATED.get(name, ()))
    assert not without, (
        f"{[f'{name}:{one.line}: {one.number}' for one in without]}: where were these measured? Mark each with its "
        "place under bench/results (scripts/figures.py), or say in tests/docs/stated.toml why it is no measurement"
    )


@pytest.mark.parametrize("name", STATED)
def test_what_is_stated_is_there_and_has_a_reason(name):
    assert name in WRITTEN, f"tests/docs/stated.toml: there is no page {name} that people write"
    text = WRITTEN[name].read_text(encoding="utf-8")
    assert figures.unused(text, STATED[name]) == [], (
        "tests/docs/stated.toml names what is not there"
    )
    assert all(len(why.split()) > 1 for why in STATED[name].values())


def test_there_are_marked_numbers_and_all_are_as_measured():
    pages = figures.marked()
    assert pages
    for page in pages:
        text = (figures.ROOT / page).read_text(encoding="utf-8")
        assert figures.filled(text) == text, f"{page}: run `make docs`"


# --- the finder, and the marks ----------------------------------------------------------------


@pytest.mark.parametrize(
    "measured",
    ["it takes 1.4 times as long", "37% of them", "0.77 on average", "in 12 ms", "3x faster", "98 of 100",
     "12,345 texts", "agrees to 1e-6", "3 GiB of memory", "it fell by -0.21", "30 MB a second", "three times as fast",
     "half of the time"],
)  # fmt: skip
def test_what_looks_measured_is_found(measured):
    assert len(figures.unsourced(f"On this machine {measured}.\n")) == 1


@pytest.mark.parametrize(
    "harmless",
    ["a 95% interval", "layer 3 of the model", "`0.5` in code", "Abnar & Zuidema 2020, arXiv:2005.00928",
     "Python 3.11", "```text\n0.77\n```", "[a link](page.md#0.5)", "<!-- begin: a -->\n| 0.5 |\n<!-- end: a -->",
     "eight models", "## 1.2 A heading", "<!--= a.json x .2f -->0.12<!--/-->"],
)  # fmt: skip
def test_what_is_no_measurement_is_left_alone(harmless):
    assert figures.unsourced(f"\n{harmless}\n") == []


def test_what_is_stated_covers_its_own_words_and_no_others():
    text = "A row has at most\n16 MiB. It took 16 MiB.\n"
    (left,) = figures.unsourced(text, ["at most 16 MiB"])
    assert left.line == 2 and text[left.place :].startswith("16 MiB.\n")
    assert figures.unused(text, ["at most 16 MiB", "at most 17 MiB", "It took"]) == [
        "at most 17 MiB",
        "It took",
    ]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of nobody."""
    rows = [{"what": "one two", "of": {"x": 1}, "y": 2.0}, {"what": "b", "of": {"x": 3}, "y": 0.5}]
    (tmp_path / "a.json").write_text(json.dumps({"cells": rows, "n": 1234567, "deep": [[7]]}))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    figures._loaded.cache_clear()
    yield tmp_path
    figures._loaded.cache_clear()


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("a.json n ,d", "1,234,567"),
        ("a.json n /1e6:.1f", "1.2"),
        ("a.json deep.0.0 d", "7"),
        ("a.json cells[what=b].y .0%", "50%"),
        ("a.jsonl [what=one_two].y .2f", "2.00"),
        ("a.jsonl [of.x=3].y *10:.0f", "5"),
        ("a.jsonl max:[].y .1f", None),
        ("a.jsonl min:[of.x=1].y .1f", "2.0"),
        ("a.json cells[what=none].y .1f", None),
        ("a.json m .1f", None),
    ],
)
def test_a_mark_is_filled_with_what_the_file_has(results, mark, text):
    page = f"It is <!--= {mark} -->something<!--/-->, as measured."
    if text is None:
        with pytest.raises((LookupError, ValueError)):
            figures.filled(page)
    else:
        assert figures.filled(page) == f"It is <!--= {mark} -->{text}<!--/-->, as measured."


def test_a_number_that_was_changed_is_noticed():
    """In a real page: another digit in a marked number, and a new one that nobody measured."""
    name = figures.marked()[0]
    text = (figures.ROOT / name).read_text(encoding="utf-8")
    mark = figures.MARK.search(text)
    assert mark
    changed = f"{text[: mark.start(5)]}0.123{text[mark.end(5) :]}"
    assert figures.filled(changed) == text != changed
    bare = f"{text[: mark.start()]}{mark[5]}{text[mark.end() :]}"
    assert len(figures.unsourced(bare, STATED.get(name, ()))) == 1
