"""Data that is made to fill the memory: refused, or handled in a bounded part of it.

A process of its own reads all files, and says how much memory it had at most beyond what its imports took.
"""

import gzip
import json
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from whence.core.errors import BadExamples
from whence.data.sets import stream
from whence.data.sets.parquet import _bytes
from whence.data.sets.source import source

pytestmark = pytest.mark.xdist_group("hostile")  # so that one process reads the files once

MIB = 2**20

# A row has up to 16 MiB, and there are a few copies of it: the line, its text, the field, a larger buffer that a line
# grew into. Arrow keeps what it freed for a while. Every file below would take more than this, unpacked whole.
ALLOWED_MIB = 200

PROGRAM = """
import json, sys
import pyarrow.compute, pyarrow.parquet
from tests.peak import peak_kilobytes
from whence.core.errors import BadExamples
from whence.data.sets.source import Bad, source
def peak():
    return peak_kilobytes() / 1024
before, found = peak(), {}
for path in sys.argv[1:]:
    rows, bad, error = 0, [], None
    try:
        for one in source(path):
            rows += 1
            if isinstance(one, Bad):
                bad.append([one.row, one.why])
    except BadExamples as wrong:
        error = str(wrong)
    found[path.rpartition("/")[2]] = [rows, bad, error, peak() - before]
print(json.dumps(found))
"""


def sparse(path, size, head, tail=b"\0"):
    """Write zeros between two pieces; they take no room on the disk."""
    with path.open("wb") as file:
        file.write(head)
        file.seek(size, 1)
        file.write(tail)


def repeated(value, times):
    """Return an array that says one value many times, and holds it once."""
    places = pyarrow.array([0] * times, pyarrow.int32())
    return pyarrow.DictionaryArray.from_arrays(places, pyarrow.array([value]))


def parquet(path, columns, **how):
    pyarrow.parquet.write_table(pyarrow.table(columns), path, compression="zstd", **how)
    assert path.stat().st_size < 20_000


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    home = tmp_path_factory.mktemp("hostile")
    sparse(home / "row.csv", 1024 * MIB, b"text,label\n")
    sparse(home / "header.csv", 1024 * MIB, b"")
    sparse(home / "quotation.csv", 1024 * MIB, b'text\nfine\n"')
    sparse(home / "line.jsonl", 300 * MIB, b'{"text": "a"}\n{"text": "', b'"}\n{"text": "b"}\n')
    with gzip.open(home / "line.jsonl.gz", "wb", compresslevel=1) as file:
        file.write(b'{"text": "a"}\n{"text": "')
        for _ in range(300):
            file.write(b"x" * MIB)
        file.write(b'"}\n{"text": "b"}\n')
    # 1,000 rows of a million characters each, which are stored once.
    parquet(home / "rows.parquet", {"text": repeated("x" * 10**6, 1000)})
    # The second row has two million tokens of a hundred thousand characters each.
    ends = pyarrow.array([0, 1, 2_000_000], pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(ends, repeated("x" * 10**5, 2_000_000))
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


def test_memory_stays_bounded(found):
    assert len(found) == 8
    assert max(mib for _, _, _, mib in found.values()) < ALLOWED_MIB, found


@pytest.mark.parametrize(("name", "line"), [("row.csv", 2), ("header.csv", 1), ("quotation.csv", 3)])  # fmt: skip
def test_a_gibibyte_of_one_row_of_comma_separated_values(found, name, line):
    rows, bad, error, _ = found[name]
    assert (rows, bad) == (0, [])
    assert error.startswith(f"{name}, line {line}: a row of more than 16 MiB. Cut the text")


@pytest.mark.parametrize("name", ["line.jsonl", "line.jsonl.gz"])
def test_a_line_that_is_too_long_hides_no_other(found, name):
    assert found[name][:3] == [3, [[1, "more than 16 MiB. Cut the text."]], None]


def test_parquet_with_one_large_value_in_many_rows(found):
    assert found["rows.parquet"][:3] == [1000, [], None]


def test_parquet_with_a_large_value_many_times_in_one_row(found):
    assert found["lists.parquet"][:3] == [2, [[1, "more than 16 MiB. Cut what it holds."]], None]


def test_parquet_with_a_page_that_is_too_large(found):
    rows, _, error, _ = found["page.parquet"]
    assert rows == 0
    assert "300 MiB once unpacked" in error and "smaller row groups" in error


def test_parquet_rows_of_nested_kinds_are_measured():
    """Structures, lists and maps: each counts what it says, wherever that is stored."""
    one = repeated("x" * 1000, 6)
    ends = pyarrow.array([0, 2, 6], pyarrow.int32())
    lists = pyarrow.ListArray.from_arrays(ends, one)
    maps = pyarrow.MapArray.from_arrays(ends, pyarrow.array(list("abcdef")), one)
    for array in (one, lists, maps, pyarrow.StructArray.from_arrays([one], ["s"])):
        assert 6000 <= _bytes(array) < 6400
    # The second row of each has four of the six values.
    for array in (lists, maps):
        assert 4000 <= _bytes(array.slice(1, 1)) < 4200


def test_a_line_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROW", MIB)
    monkeypatch.setattr(stream, "_PASSED", 2 * MIB)
    (tmp_path / "a.txt").write_bytes(b"first\n" + b"x" * (4 * MIB))
    with pytest.raises(BadExamples, match="line 2: more than 2 MiB without the end of a line"):
        source(str(tmp_path / "a.txt"))


def test_a_line_of_the_largest_size_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "ROW", 9)
    (tmp_path / "a.txt").write_bytes(b"12345678\n123456789\n123456789")
    # The line feed counts: it is part of what is read of a line.
    found = list(source(str(tmp_path / "a.txt")))
    assert [getattr(one, "id", None) for one in found] == ["line 1", None, "line 3"]


def test_a_compressed_parquet_file_that_is_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "_UNPACKED", MIB)
    (tmp_path / "a.parquet.gz").write_bytes(gzip.compress(b"PAR1" * (MIB // 2)))
    with pytest.raises(BadExamples, match=r"a.parquet.gz holds more than 1 MiB. Unpack it first"):
        source(str(tmp_path / "a.parquet.gz"))
