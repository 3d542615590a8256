"""Data frames (pandas, polars, Arrow, datasets) as data: columns read or refused; (text, label) lists refused."""

import numpy as np
import pytest

import whence
from whence.core.errors import BadExamples, BadPlan
from whence.data.dataset import read_dataset
from whence.data.example import Example

pandas = pytest.importorskip("pandas", reason="pandas is not installed")

ROWS = [
    ("a gripping, beautifully acted film", 1),
    ("dull, slow and far too long", 0),
    ("not a bad film at all", 1),
    ("it is a mess from start to end", 0),
]
KINDS = ("pandas", "polars", "lazy", "arrow", "datasets")
TESTED = {"methods": ["attcat"], "metrics": ["comprehensiveness"]}


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def frame(kind, names=("description", "stars"), rows=ROWS):
    columns = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    if kind == "pandas":
        return pandas.DataFrame(columns)
    if kind in ("polars", "lazy"):
        polars = pytest.importorskip("polars", reason="polars is not installed")
        made = polars.DataFrame(columns)
        return made.lazy() if kind == "lazy" else made
    if kind == "arrow":
        return pytest.importorskip("pyarrow", reason="pyarrow is not installed").table(columns)
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    return datasets.Dataset.from_dict(columns)


def figures(table):
    return [
        (cell["method"], cell["metric"], cell["mean"], cell["n"]) for cell in table.payload["cells"]
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_takes_the_rows_of_a_frame_and_not_its_column_names(kind, explainer):
    named = [{"text": text, "label": label} for text, label in ROWS]
    expected = whence.evaluate(explainer, named, **TESTED)
    found = whence.evaluate(explainer, frame(kind), text="description", label="stars", **TESTED)
    assert figures(found) == figures(expected)
    assert found.payload["examples"]["explained"] == len(ROWS)
    assert found.payload["data"] == {
        "name": "the table",
        "rows": 4,
        "drawn": None,
        "seed": None,
        "text": "description",
        "pair": None,
        "label": "stars",
        "guessed": [],
    }


def test_read_dataset_takes_both_texts_of_a_frame_by_column_names():
    rows = [("a man sleeps", "a man is awake"), ("it rains", "it is wet")]
    found = read_dataset(frame("polars", ("one", "two"), rows), text="one", pair="two")
    assert [one.given for one in found.examples] == rows


def test_recommend_of_a_frame_reports_rows_drawn_and_seed(explainer):
    many = frame("pandas", rows=[(f"{text} {n}", label) for n in range(30) for text, label in ROWS])
    found = whence.recommend(
        explainer, many, text="description", label="stars", methods=["attcat", "rollout"]
    )
    data = found.evaluation.payload["data"]
    assert (data["text"], data["rows"]) == ("description", 120)
    assert data["drawn"] == found.evaluation.payload["examples"]["given"] == 100
    assert data["seed"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_of_a_frame_without_a_text_column_raises_bad_examples_naming_columns(
    kind, explainer
):
    for asked in (whence.evaluate, whence.recommend):
        with pytest.raises(BadExamples) as error:
            asked(explainer, frame(kind))
        said = str(error.value)
        assert "description, stars" in said and "text=..." in said and "\n" not in said


def test_evaluate_of_a_frame_with_an_unknown_column_suggests_the_nearest_name(explainer):
    with pytest.raises(
        BadExamples, match=r"has no column 'descripton'.*Did you mean 'description'"
    ):
        whence.evaluate(explainer, frame("pandas"), text="descripton")


def test_read_dataset_of_a_frame_with_a_repeated_column_raises_bad_examples():
    twice = pandas.DataFrame([["a", "b"]], columns=["text", "text"])
    with pytest.raises(BadExamples, match="2 columns are called 'text'"):
        read_dataset(twice)


def test_read_dataset_of_a_frame_reads_gaps_numbers_and_tokens_like_a_file():
    found = read_dataset(
        pandas.DataFrame(
            {
                "text": ["a", "b", np.array(["c", "d"], dtype=object)],
                "label": pandas.array([1, None, 0], dtype="Int64"),
            }
        )
    )
    assert found.examples == [Example("a", "1"), Example("b"), Example("c d", "0")]
    with pytest.raises(BadExamples, match=r"Row 1 of the table, counted from 0: 'text' is 'nan'"):
        read_dataset(pandas.DataFrame({"text": ["a", float("nan")]}))
    with pytest.raises(BadExamples, match="no rows; its columns are text"):
        read_dataset(pandas.DataFrame({"text": []}))


def test_audit_and_compare_take_a_frame(explainer):
    assert read_dataset(frame("pandas"), text="description").label is None
    found = whence.audit(
        explainer, frame("polars"), text="description", label="stars", experiments="correlation"
    )
    assert found.payload["data"]["label"] == "stars" and found.payload["data"]["given"] == 4
    both = whence.compare("reviews-base", explainer, frame("pandas"), text="description")
    assert both.payload["data"]["name"] == "the table"


def test_run_of_a_frame_raises_bad_plan_and_suggests_parquet(tmp_path):
    with pytest.raises(BadPlan, match=r"table in memory \(DataFrame\).*\.parquet"):
        whence.run(model="reviews", data=frame("pandas"), out=tmp_path / "out")


@pytest.mark.parametrize(
    "second",
    [
        lambda label: label,
        lambda label: str(label),
        lambda label: f"LABEL_{label}",
        lambda label: ("neg", "pos")[label],
        lambda label: ("thumbs-down", "thumbs-up")[label],
    ],
)
def test_evaluate_of_a_list_of_texts_with_labels_raises_bad_examples(second, explainer):
    given = [(text, second(label)) for text, label in ROWS]
    for asked in (whence.evaluate, whence.recommend, whence.audit):
        with pytest.raises(BadExamples, match=r'\{"text": \.\.\., "label": \.\.\.\}'):
            asked(explainer, given)


def test_evaluate_of_a_pair_with_a_model_label_as_second_text_raises_bad_examples():
    ask = whence.load("reviews")
    label = ask.labels[1]
    with pytest.raises(BadExamples, match="look like labels"):
        whence.evaluate(ask, [("a fine film", label)], **TESTED)
    named = whence.evaluate(ask, [{"text": "a fine film", "pair": label}], **TESTED)
    assert named.payload["examples"]["given"] == 1


def test_read_dataset_of_a_list_of_text_pairs_returns_pairs():
    pairs = [
        ("a man sleeps", "nobody is awake"),
        ("a dog runs", "it moves"),
        ("it rains", "wet"),
        ("the sun shines", "dry"),
        ("she sings", "a song"),
    ]
    assert [one.given for one in read_dataset(pairs).examples] == pairs
    words = [("dog", "cat"), ("dog", "cat"), ("sun", "cat"), ("rain", "cat")]
    assert [one.given for one in read_dataset(words).examples] == words
