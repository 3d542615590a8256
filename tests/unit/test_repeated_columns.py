"""Data files with repeated column names or JSON keys: errors that name the column."""

import pytest

from whence.core.errors import BadExamples
from whence.data.dataset import open_dataset, read_dataset
from whence.data.example import Example


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "text,label,text\na,1,b\n"), ("a.tsv", "text\tlabel\t text \na\t1\tb\n")],
)
def test_read_dataset_with_repeated_columns_raises_bad_examples_with_the_name(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadExamples, match=rf"{name}, line 1: 2 columns are called 'text'"):
        read_dataset(path)


def test_read_dataset_accepts_several_columns_without_a_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,,\na,b,c\n")
    assert read_dataset(path).examples == [Example("a")]


def test_jsonl_row_with_a_repeated_key_is_unreadable_and_other_rows_are_read(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b", "label": 1, "text": "c"}\n{"text": "d"}\n')
    with pytest.raises(BadExamples, match=r"a.jsonl, line 2: 2 keys are called 'text'"):
        read_dataset(path)
    good, bad, other = open_dataset(path)
    assert (good.example, other.example) == (Example("a"), Example("d"))
    assert bad.where == "a.jsonl, line 2"


def test_read_dataset_of_parquet_with_repeated_columns_raises_with_the_name(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as parquet

    made = arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], names=["text", "text"])
    parquet.write_table(made, tmp_path / "a.parquet")
    with pytest.raises(BadExamples, match=r"a.parquet: 2 columns are called 'text'"):
        read_dataset(tmp_path / "a.parquet")
