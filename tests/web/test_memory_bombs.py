"""Memory bombs: small .gz and .parquet uploads of more rows or values than fit; refused, and the app continues.

A separate process uploads them under a limit of memory, and prints how much memory the upload took.
"""

import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from whence.core.errors import BadExamples
from whence.data import dataset
from whence.data.readers import RowSource, measure_row

LIMIT_GIB = 3  # of addresses, of which torch and others take one before anything is brought in
ALLOWED_MIB = 900  # a million rows, each with its place, its cells and their names; a line of 16 MiB; 256 MB unpacked

PROGRAM = """
import json, resource, sys
limit = int(sys.argv[1]) << 30
from whence.app.server import create_app
from whence.app.settings import Settings
from tests.peak import peak_kilobytes
from tests.web.serving import ask
app = create_app(Settings(models=("decoy",)))
assert ask(app, "GET", "/api/health").status_code == 200
import pyarrow.compute, pyarrow.parquet
def peak():
    return peak_kilobytes() / 1024
before = peak()
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
answer = ask(app, "PUT", "/api/data", params={"name": sys.argv[2]}, content=sys.stdin.buffer.read())
good = ask(app, "PUT", "/api/data", params={"name": "good.txt"}, content=b"a film")
print(json.dumps([answer.status_code, answer.json(), good.status_code, peak() - before]))
"""


def gzip_pieces(pieces):
    found = io.BytesIO()
    with gzip.GzipFile(fileobj=found, mode="wb", compresslevel=9) as file:
        for piece in pieces:
            file.write(piece)
    return found.getvalue()


def parquet(columns):
    found = io.BytesIO()
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(
        table, found, compression="zstd", write_statistics=False, row_group_size=10**8
    )
    return found.getvalue()


def nulls_in_a_list():
    many = 100_000_000
    ends = pyarrow.array([0, many], pyarrow.int32())
    return {"text": ["a"], "more": pyarrow.ListArray.from_arrays(ends, pyarrow.nulls(many))}


def one_text_in_all_rows():
    zeros = pyarrow.array(np.zeros(20_000_000, np.int32))
    return {"text": pyarrow.DictionaryArray.from_arrays(zeros, pyarrow.array([""]))}


MADE = {
    "rows.txt.gz": lambda: gzip_pieces([b"a\n" * 10**6] * 63),
    "lists.jsonl.gz": lambda: gzip_pieces(
        [b'{"text":"a","x":[' + b"[]," * 200_000 + b"[]]}\n"] * 300
    ),
    "nulls.parquet": lambda: parquet({"text": pyarrow.nulls(50_000_000)}),
    "list.parquet": lambda: parquet(nulls_in_a_list()),
    "one.parquet": lambda: parquet(one_text_in_all_rows()),
}


@pytest.mark.parametrize("name", MADE)
def test_small_upload_with_millions_of_rows_or_cells_is_refused_in_bounded_memory(name):
    raw = MADE[name]()
    assert len(raw) < 400_000
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(LIMIT_GIB), name], input=raw, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()[-1000:]
    status, said, good, mib = json.loads(done.stdout)
    assert (status, said["error"]["code"]) == (413, "too-large"), said
    assert name in said["error"]["message"]
    assert good == 200
    assert mib < ALLOWED_MIB


def test_read_dataset_that_runs_out_of_memory_raises_bad_examples(monkeypatch):
    """Without a limit, as in Python and on the command line: whatever ends the memory."""
    opened = []

    def stream():
        opened.append(1)
        yield "line 1", {"text": "a"}
        if len(opened) > 1:  # after the first rows, from which the columns are chosen
            raise MemoryError

    source = RowSource("a.txt", "txt", stream, lambda: None)
    monkeypatch.setattr(dataset, "open_row_file", lambda address: source)

    with pytest.raises(
        BadExamples, match=r"a\.txt does not fit into memory: there is room for 1 of"
    ):
        dataset.read_dataset("a.txt")


def test_measure_row_counts_cells_and_bytes_of_nested_values():
    assert measure_row({}) == (0, 0)
    assert measure_row({"a": 1, "b": "text"}) == (2, 12)
    assert measure_row({"a": [1, [2, {}], {"x": (3, 4)}]}) == (9, 32)
