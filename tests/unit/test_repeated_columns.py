"""Files in which two columns or keys have the same name."""

import pytest

from whence.core.errors import BadExamples
from whence.data.sets.rows import rows, table


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "text,label,text\na,1,b\n"), ("a.tsv", "text\tlabel\t text \na\t1\tb\n")],
)
def test_two_columns_of_one_name_are_refused_with_the_name(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(BadExamples, match=rf"{name}, line 1: 2 columns are called 'text'"):
        rows(path)


def test_columns_without_a_name_do_not_count_as_one_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,,\na,b,c\n")
    assert rows(path)[0][1]["text"] == "a"


def test_a_key_that_occurs_twice_makes_its_row_unreadable_and_no_other(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a"}\n{"text": "b", "label": 1, "text": "c"}\n{"text": "d"}\n')
    with pytest.raises(BadExamples, match=r"a.jsonl, line 2: 2 keys are called 'text'"):
        rows(path)
    good, bad, other = table(path).rows()
    assert (good[1], other[1]) == ({"text": "a"}, {"text": "d"})
    assert bad.where == "a.jsonl, line 2"


def test_a_parquet_file_with_two_columns_of_one_name_is_refused_with_the_name(tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    import pyarrow.parquet as parquet

    made = arrow.Table.from_arrays([arrow.array(["a"]), arrow.array(["b"])], names=["text", "text"])
    parquet.write_table(made, tmp_path / "a.parquet")
    with pytest.raises(BadExamples, match=r"a.parquet: 2 columns are called 'text'"):
        rows(tmp_path / "a.parquet")
