"""Memory limits of data sets: files made to fill the memory are refused, or read in bounded memory.

A separate process reads all files and reports its peak of memory beyond that of its imports.
"""

import gzip
import json
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from whence.core.errors import BadExamples, TooLarge
from whence.data import readers
from whence.data.dataset import open_dataset, read_dataset
from whence.data.readers import _count_column_bytes

pytestmark = pytest.mark.xdist_group("hostile")  # so that one process reads the files once

MIB = 2**20

# A row has up to 16 MiB, and there are a few copies of it: the line, its text, the field, a larger buffer that a line
# grew into. Arrow keeps what it freed for a while. Every file below would take more than this, unpacked whole.
ALLOWED_MIB = 200

PROGRAM = """
import json, sys
import pyarrow.compute, pyarrow.parquet
from tests.peak import peak_kilobytes
from whence.core.errors import BadExamples, TooLarge
from whence.data.dataset import SkippedRow, open_dataset
def peak():
    return peak_kilobytes() / 1024
before, found = peak(), {}
for path in sys.argv[1:]:
    rows, bad, error = 0, [], None
    try:
        for one in open_dataset(path):
            rows += 1
            if isinstance(one, SkippedRow):
                bad.append([one.row, one.why])
    except BadExamples as wrong:
        error = str(wrong)
    found[path.rpartition("/")[2]] = [rows, bad, error, peak() - before]
print(json.dumps(found))
"""


def write_sparse_file(path, size, head, tail=b"\0"):
    """Write zeros between two pieces; they take no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(size, 1)
        file.write(tail)


def repeat_value(value, times):
    """Return an array that says one value many times, and holds it once."""
    places = pyarrow.array([0] * times, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([value]))


def parquet(path, columns, **how):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd", **how)
    assert path.stat().st_size < 20_000


@pytest.fixture(scope="module")
def hostile_results(tmp_path_factory):
    home = tmp_path_factory.mktemp("hostile")
    write_sparse_file(home / "row.csv", 1024 * MIB, b"text,label\n")
    write_sparse_file(home / "header.csv", 1024 * MIB, b"")
    write_sparse_file(home / "quotation.csv", 1024 * MIB, b'text\nfine\n"')
    write_sparse_file(
        home / "line.jsonl", 300 * MIB, b'{"text": "a"}\n{"text": "', b'"}\n{"text": "b"}\n'
    )
    with gzip.open(home / "line.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"text": "a"}\n{"text": "')
        for _ in range(300):
            file.write(b"x" * MIB)
        file.write(b'"}\n{"text": "b"}\n')
    # 1,000 rows of a million characters each, which are stored once.
    parquet(home / "rows.parquet", {"text": repeat_value("x" * 10**6, 1000)})
    # The second row has two million tokens of a hundred thousand characters each.
    ends = pyarrow.array([0, 1, 2_000_000], pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(ends, repeat_value("x" * 10**5, 2_000_000))
    parquet(home / "lists.parquet", {"tokens": lists})
    one = {"text": ["x" * (300 * MIB)]}
    parquet(home / "page.parquet", one, use_dictionary=False, write_statistics=False)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, sorted(home.iterdir()))],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_open_dataset_of_hostile_files_stays_below_the_allowed_memory(hostile_results):
    assert len(hostile_results) == 8
    assert max(mib for _, _, _, mib in hostile_results.values()) < ALLOWED_MIB, hostile_results


@pytest.mark.parametrize(("name", "line"), [("row.csv", 2), ("header.csv", 1), ("quotation.csv", 3)])  # fmt: skip
def test_csv_row_of_a_gibibyte_is_refused_with_its_line(hostile_results, name, line):
    rows, bad, error, _ = hostile_results[name]
    assert (rows, bad) == (0, [])
    assert error.startswith(f"{name}, line {line}: a row of more than 16 MiB. Cut the text")


@pytest.mark.parametrize("name", ["line.jsonl", "line.jsonl.gz"])
def test_jsonl_line_beyond_the_limit_is_skipped_and_other_lines_are_read(hostile_results, name):
    assert hostile_results[name][:3] == [3, [[1, "more than 16 MiB. Cut the text."]], None]


def test_parquet_with_one_large_value_in_many_rows_is_read_whole(hostile_results):
    assert hostile_results["rows.parquet"][:3] == [1000, [], None]


def test_parquet_row_that_repeats_a_large_value_beyond_the_limit_is_skipped(hostile_results):
    assert hostile_results["lists.parquet"][:3] == [
        2,
        [[1, "more than 16 MiB. Cut what it holds."]],
        None,
    ]


def test_parquet_page_beyond_the_limit_is_refused_with_its_unpacked_size(hostile_results):
    rows, _, error, _ = hostile_results["page.parquet"]
    assert rows == 0
    assert "300 MiB once unpacked" in error and "smaller row groups" in error


def test_count_column_bytes_measures_nested_parquet_columns():
    """Structures, lists and maps: each counts what it says, wherever that is stored."""
    one = repeat_value("x" * 1000, 6)
    ends = pyarrow.array([0, 2, 6], pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(ends, one)
    maps = pyarrow.MapArray.from_arrays(ends, pyarrow.array(list("abcdef")), one)
    for array in (one, lists, maps, pyarrow.StructArray.from_arrays([one], ["s"])):
        assert 6000 <= _count_column_bytes(array) < 6400
    # The second row of each has four of the six values.
    for array in (lists, maps):
        assert 4000 <= _count_column_bytes(array.slice(1, 1)) < 4200


def test_open_dataset_of_a_line_without_end_raises_bad_examples(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_ROW_BYTES", MIB)
    monkeypatch.setattr(readers, "_MAX_LINE_BYTES", 2 * MIB)
    (tmp_path / "a.txt").write_bytes(b"first\n" + b"x" * (4 * MIB))
    with pytest.raises(BadExamples, match="line 2: more than 2 MiB without the end of a line"):
        open_dataset(str(tmp_path / "a.txt"))


def test_open_dataset_reads_a_line_of_exactly_the_largest_size(tmp_path, monkeypatch):
    monkeypatch.setattr(readers, "MAX_ROW_BYTES", 9)
    (tmp_path / "a.txt").write_bytes(b"12345678\n123456789\n123456789")
    # The line feed counts: it is part of what is read of a line.
    found = list(open_dataset(str(tmp_path / "a.txt")))
    assert [getattr(one, "id", None) for one in found] == ["line 1", None, "line 3"]


def test_open_dataset_of_compressed_parquet_beyond_the_limit_raises_bad_examples(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(readers, "_MAX_UNPACKED_BYTES", MIB)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1" * (MIB // 2)))
    with pytest.raises(BadExamples, match=r"a.parquet.gz holds more than 1 MiB. Unpack it first"):
        open_dataset(str(tmp_path / "a.parquet.gz"))


def test_read_dataset_beyond_a_limit_of_rows_cells_or_bytes_raises_too_large(tmp_path):
    """One text in a thousand rows is stored once, and a Python object in each."""
    path = tmp_path / "a.parquet"
    parquet(path, {"text": repeat_value("x" * 1000, 1000), "label": repeat_value("y", 1000)})
    assert len(read_dataset(path, most=1000, most_bytes=1_001_000).examples) == 1000
    with pytest.raises(TooLarge, match=r"a\.parquet has more than 999 rows"):
        read_dataset(path, most=999)
    with pytest.raises(TooLarge, match=r"a\.parquet holds more than 1,000,999 bytes"):
        read_dataset(path, most=1000, most_bytes=1_000_999)
    (tmp_path / "b.jsonl").write_text('{"text": "a", "more": [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n')
    with pytest.raises(TooLarge, match=r"b\.jsonl has more than 10 cells in its first 1 rows"):
        read_dataset(tmp_path / "b.jsonl", most=1)
