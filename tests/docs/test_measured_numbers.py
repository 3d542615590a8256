"""Measured numbers in README and docs: each comes from bench/results or has a reason; the checker finds others.

tests/contract/test_docs.py checks generated pages and tables between markers. Here are the sentences that people
write: each number in them is marked with its place in a results file (scripts/measured_numbers.py), or stated.toml gives the
reason why the number is no measurement.
"""

import json

import build_docs
import measured_numbers
import pytest

WHOLE = {(build_docs.DOCS / name).resolve() for name in build_docs.FILES}
WRITTEN = {
    str(page.relative_to(measured_numbers.ROOT)): page
    for page in measured_numbers.list_pages()
    if page.resolve() not in WHOLE
}
STATED = measured_numbers.load_stated()


@pytest.mark.parametrize("name", WRITTEN)
def test_every_number_that_looks_measured_has_a_source(name):
    text = WRITTEN[name].read_text(encoding="utf-8")
    without = measured_numbers.find_unsourced(text, STATED.get(name, ()))
    assert not without, (
        f"{[f'{name}:{one.line}: {one.number}' for one in without]}: where were these measured? Mark each with its "
        "place under bench/results (scripts/measured_numbers.py), or say in tests/docs/stated.toml why it is no measurement"
    )


@pytest.mark.parametrize("name", STATED)
def test_stated_toml_entries_occur_in_their_page_and_give_a_reason(name):
    assert name in WRITTEN, f"tests/docs/stated.toml: there is no page {name} that people write"
    text = WRITTEN[name].read_text(encoding="utf-8")
    assert measured_numbers.find_unused(text, STATED[name]) == [], (
        "tests/docs/stated.toml names what is not there"
    )
    assert all(len(why.split()) > 1 for why in STATED[name].values())


def test_marked_numbers_in_pages_equal_the_results_files():
    pages = measured_numbers.list_marked_pages()
    assert pages
    for page in pages:
        text = (measured_numbers.ROOT / page).read_text(encoding="utf-8")
        assert measured_numbers.fill_numbers(text) == text, f"{page}: run `make docs`"


# --- the finder, and the marks ----------------------------------------------------------------


@pytest.mark.parametrize(
    "measured",
    ["it takes 1.4 times as long", "37% of them", "0.77 on average", "in 12 ms", "3x faster", "98 of 100",
     "12,345 texts", "agrees to 1e-6", "3 GiB of memory", "it fell by -0.21", "30 MB a second", "three times as fast",
     "half of the time"],
)  # fmt: skip
def test_unsourced_finds_a_number_that_looks_measured(measured):
    assert len(measured_numbers.find_unsourced(f"On this machine {measured}.\n")) == 1


@pytest.mark.parametrize(
    "harmless",
    ["a 95% interval", "layer 3 of the model", "`0.5` in code", "Abnar & Zuidema 2020, arXiv:2005.00928",
     "Python 3.11", "```text\n0.77\n```", "[a link](page.md#0.5)", "<!-- begin: a -->\n| 0.5 |\n<!-- end: a -->",
     "eight models", "## 1.2 A heading", "<!--= a.json x .2f -->0.12<!--/-->"],
)  # fmt: skip
def test_unsourced_ignores_numbers_that_are_no_measurement(harmless):
    assert measured_numbers.find_unsourced(f"\n{harmless}\n") == []


def test_stated_phrase_covers_only_its_own_words_and_unused_phrases_are_listed():
    text = "A row has at most\n16 MiB. It took 16 MiB.\n"
    (left,) = measured_numbers.find_unsourced(text, ["at most 16 MiB"])
    assert left.line == 2 and text[left.place :].startswith("16 MiB.\n")
    assert measured_numbers.find_unused(text, ["at most 16 MiB", "at most 17 MiB", "It took"]) == [
        "at most 17 MiB",
        "It took",
    ]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Results of nobody."""
    rows = [{"what": "one two", "of": {"x": 1}, "y": 2.0}, {"what": "b", "of": {"x": 3}, "y": 0.5}]
    (tmp_path / "a.json").write_text(json.dumps({"cells": rows, "n": 1234567, "deep": [[7]]}))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr(measured_numbers, "RESULTS", tmp_path)
    measured_numbers._load_results.cache_clear()
    yield tmp_path
    measured_numbers._load_results.cache_clear()


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
def test_filled_puts_the_value_of_the_results_file_into_a_mark_or_raises(results, mark, text):
    page = f"It is <!--= {mark} -->something<!--/-->, as measured."
    if text is None:
        with pytest.raises((LookupError, ValueError)):
            measured_numbers.fill_numbers(page)
    else:
        assert (
            measured_numbers.fill_numbers(page)
            == f"It is <!--= {mark} -->{text}<!--/-->, as measured."
        )


def test_changed_or_unmarked_number_in_a_page_is_detected():
    """In a real page: another digit in a marked number, and a new one that nobody measured."""
    name = measured_numbers.list_marked_pages()[0]
    text = (measured_numbers.ROOT / name).read_text(encoding="utf-8")
    mark = measured_numbers.MARK.search(text)
    assert mark
    changed = f"{text[: mark.start(5)]}0.123{text[mark.end(5) :]}"
    assert measured_numbers.fill_numbers(changed) == text != changed
    bare = f"{text[: mark.start()]}{mark[5]}{text[mark.end() :]}"
    assert len(measured_numbers.find_unsourced(bare, STATED.get(name, ()))) == 1
