"""The data of Jain and Wallace's table are theirs, as far as they can be, and so are the figures beside ours."""

import json
from collections import Counter

import pytest
from bench.science.jain_wallace.corpora import CORPORA
from bench.science.jain_wallace.corpora.corpus import Row, collect_words, filter_by_length
from bench.science.jain_wallace.figures import AUTHORS, compute_figures
from bench.science.jain_wallace.prepare import SPECIAL, describe_corpus

SPACY = "spaCy is not installed: pip install --group science"


def prepared(shared, name):
    if name not in ("imdb", "babi_1", "babi_2"):
        pytest.importorskip("spacy", reason=SPACY)
    return CORPORA[name](shared / "data")


def test_sst_is_theirs_to_the_word(shared):
    sst = prepared(shared, "sst")
    classes = {split: Counter(row.label for row in rows) for split, rows in sst.splits.items()}
    assert classes["train"] == {"0": 3034, "1": 3321}
    assert classes["test"] == {"0": 863, "1": 862}
    assert len(sst.splits["dev"]) == 821
    assert len(sst.words) + len(SPECIAL) == 13826
    assert describe_corpus(sst)["sizes"]["train"]["mean_length"] == pytest.approx(18.7, abs=0.05)
    # The first line of the file that their code makes of the trees.
    assert sst.splits["train"][0].text == (
        "the rock is destined to be the 21st century s new conan and that he s going to make a splash even greater "
        "than arnold schwarzenegger jean claud van damme or steven segal"
    )


def test_the_posts_on_baseball_and_hockey_are_split_as_theirs(shared):
    news = prepared(shared, "20news")
    assert describe_corpus(news)["sizes"]["test"]["classes"] == {"0": 179, "1": 178}
    # 6515 with spaCy 2: its rules for a few words have changed since.
    assert len(news.words) + len(SPECIAL) == pytest.approx(6515, abs=2)


def test_the_test_split_of_ag_news_is_theirs(shared):
    assert describe_corpus(prepared(shared, "agnews"))["sizes"]["test"]["classes"] == {
        "0": 1900,
        "1": 1898,
    }


@pytest.mark.parametrize(("task", "vocabulary"), [(1, 24), (2, 38)])
def test_babi_has_their_words(shared, task, vocabulary):
    babi = prepared(shared, f"babi_{task}")
    assert len(babi.words) + len(SPECIAL) == vocabulary
    assert [len(babi.splits[split]) for split in ("train", "dev", "test")] == [8500, 1500, 1000]
    story = babi.splits["test"][0]
    assert story.text.split(" . ")[0].split(" ")[0] in {"Mary", "John", "Sandra", "Daniel"}
    assert "?" not in story.pair and story.label in babi.labels


def test_lengths_are_cut_strictly_on_both_sides():
    rows = [Row(" ".join("a" * n), "0") for n in (1, 2, 2, 3, 5)]
    assert [row.length for row in filter_by_length(rows)] == [
        2,
        2,
        3,
    ]  # without the shortest and the longest
    assert [row.length for row in filter_by_length(rows, shortest=2)] == [3]
    assert [row.length for row in filter_by_length(rows, 1, 3)] == [2, 2]


def test_words_are_counted_by_texts_and_sorted_by_occurrences():
    # "b" occurs three times but in one text; "a" and "c" are in two, "c" more often.
    rows = [Row("b b b a c c", "0"), Row("a c", "0", "d")]
    assert collect_words(rows, least=2) == ["c", "a"]
    assert collect_words(rows, least=1) == ["b", "c", "a", "d"]


def test_a_figure_is_within_where_theirs_is_between_our_seeds():
    data = {"labels": {"0": "negative", "1": "positive"}, "by_class": True}
    theirs = AUTHORS["cells"]["sst-bilstm-tanh"]["performance"]["accuracy"]
    cells = [{"performance": {"accuracy": theirs + shift, "n": 10}} for shift in (-0.01, 0.03)]
    (both,) = compute_figures(data, cells, "sst-bilstm-tanh")
    assert both.within and both.difference == pytest.approx(0.01)
    (one,) = compute_figures(data, cells[1:], "sst-bilstm-tanh")
    assert one.within is None and one.difference == pytest.approx(0.03)  # one seed has no spread
    (far,) = compute_figures(data, [cells[1]] * 2, "sst-bilstm-tanh")
    assert far.within is False
    (alone,) = compute_figures(data, cells, "sst-bilstm-none")
    assert alone.within is None and alone.difference is None


def test_the_authors_figures_are_those_of_their_files(shared):
    tables = json.loads((shared / "golden" / "jw_author_tables.json").read_text())
    decoded = json.loads((shared / "golden" / "jw_author_figures.json").read_text())
    sets = {"20news": "20News_sports"}
    encoders = {"bilstm": "lstm", "cnn": "cnn(1,3,5,7)", "average": "average"}
    for name, ours in AUTHORS["cells"].items():
        data, encoder, attention = name.split("-")
        key = f"{sets.get(data, data)}+{encoders[encoder]}+{attention}"
        table, figure = tables[key], decoded[key]
        # Four digits were kept.
        assert ours["performance"]["accuracy"] == pytest.approx(table["evaluate"]["accuracy"], abs=1e-4)  # fmt: skip
        # In their summary "al" is attention and gradient, "ag" attention and leave-one-out, and "gl" the two others.
        for pair, theirs in (
            ("gradient", "al"),
            ("leave_one_out", "ag"),
            ("leave_one_out_gradient", "gl"),
        ):
            mean = table["CorrStats_kendalltau"][theirs]["mean"]
            said = ours["tau"][pair]["all"]["mean"]
            assert said == (pytest.approx(float(mean), abs=1e-4) if mean else None), (name, pair)
        means = [one["mean"] for one in figure["eMaxJSD_hist"].values()]
        assert [one["mean"] for one in ours["adversarial"].values()] == means
        drawn = _permutations(figure)
        assert list(ours["permutation"].values()) == [drawn[place] for place in sorted(drawn)], name


def _permutations(figure):
    """Read medians by class and bin: violins of a bin stand side by side, in the order of the classes."""
    bins = {
        "[0.00,0.25)": "0 to 0.25",
        "[0.25,0.50)": "0.25 to 0.5",
        "[0.50,0.75)": "0.5 to 0.75",
        "[0.75,1.00)": "0.75 to 1",
    }
    drawn = figure["perm_quartiles_by_maxattn_bin"]
    places = sorted({float(place) for one in drawn.values() for place in one})
    found = {}
    for title, violins in drawn.items():
        for place, (_, median, _) in violins.items():
            found.setdefault(places.index(float(place)), {})[bins[title]] = median
    return found
