"""Parquet files: read like any other, with names for numbered classes, and a clear answer to what is none."""

import gzip
import json
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from whence.core.errors import BadExamples
from whence.data.sets.examples import Example, examples, read
from whence.data.sets.rows import rows


def write(path, columns, metadata=None):
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    return path


def test_a_parquet_file(tmp_path):
    path = write(tmp_path / "a.parquet", {"sentence": ["a", "b"], "label": [1, None]})
    assert examples(path) == [Example("a", "1"), Example("b")]
    assert rows(path)[1][0] == "a.parquet, row 2"
    packed = tmp_path / "b.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert examples(packed) == examples(path)


def test_lists_numbers_and_gaps(tmp_path):
    path = write(
        tmp_path / "a.parquet",
        {"tokens": [["a", "fine", "film"], ["b"], ["c"]], "class": [1.0, float("nan"), None]},
    )
    found = read(path)
    assert found.examples == [Example("a fine film", "1.0"), Example("b"), Example("c")]
    assert (found.text, found.label, found.guessed) == ("tokens", "class", ("text", "label"))


def noted(features):
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


def test_numbered_classes_get_the_names_that_the_file_notes(tmp_path):
    columns = {"text": ["a", "b", "c", "d"], "label": [0, 1, -1, 2]}
    names = noted({"label": {"names": ["bad", "good"], "_type": "ClassLabel"}})
    path = write(tmp_path / "a.parquet", columns, names)
    # -1 says that there is no label; 2 has no name and stays what it is.
    assert [one.label for one in examples(path)] == ["bad", "good", None, "2"]


@pytest.mark.parametrize(
    "metadata",
    [
        {b"huggingface": b"\xff{"},
        {b"huggingface": b"[" * 100_000},
        {b"huggingface": b"[]"},
        {b"huggingface": b'{"info": null}'},
        noted({"label": {"_type": "ClassLabel"}}),
        noted({"label": {"names": 3, "_type": "ClassLabel"}}),
        noted({"label": "ClassLabel"}),
        noted(["label"]),
    ],
)
def test_notes_that_say_nothing_leave_the_numbers(tmp_path, metadata):
    path = write(tmp_path / "a.parquet", {"text": ["a", "b"], "label": [0, 1]}, metadata)
    assert [one.label for one in examples(path)] == ["0", "1"]


@pytest.mark.parametrize("raw", [b"", b"text\nnot parquet\n", b"PAR1", b"PAR1" * 100])
def test_what_is_no_parquet_file(tmp_path, raw):
    path = tmp_path / "a.parquet"
    path.write_bytes(raw)
    with pytest.raises(BadExamples, match=r"a.parquet is not a whole Parquet file \(.+\)"):
        examples(path)


def test_torn_and_damaged_files(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": [f"text {i}" for i in range(2000)]})
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(BadExamples, match="is not a whole Parquet file"):
        examples(path)
    # The footer stands and the pages before it are noise.
    path.write_bytes(whole[:4] + b"\xff" * 2000 + whole[2004:])
    with pytest.raises(BadExamples, match="is not a whole Parquet file"):
        examples(path)


def test_values_that_are_no_texts(tmp_path):
    empty = write(tmp_path / "empty.parquet", {"text": pyarrow.array([], pyarrow.string())})
    with pytest.raises(BadExamples, match=r"empty.parquet has no rows"):
        examples(empty)
    raw = write(tmp_path / "raw.parquet", {"text": [b"bytes"]})
    with pytest.raises(BadExamples, match=r"raw.parquet, row 1: 'text' is .*\(bytes\)"):
        examples(raw)
    gap = write(tmp_path / "gap.parquet", {"text": ["a", None]})
    with pytest.raises(BadExamples, match=r"gap.parquet, row 2: 'text' is 'None' \(NoneType\)"):
        examples(gap)


def test_images_are_no_texts(shared):
    path = shared / "data" / "oxford_pets" / "pets_heldout_a.parquet"
    found = examples(path)
    assert len(found) == 525 and all(one.seen and one.mask.trimap for one in found)
    assert {one.label for one in found} == {"0", "1"}
    with pytest.raises(BadExamples, match=r"row 1: 'jpeg' is .*\(bytes\)"):
        examples(path, text="jpeg")


def test_without_the_package_the_error_says_how_to_get_it(tmp_path):
    path = write(tmp_path / "a.parquet", {"text": ["a"]})
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from whence.data.sets.examples import examples\n"
        f"try: examples({str(path)!r})\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BadExamples a.parquet is a Parquet file")
    assert "pip install pyarrow" in done.stdout


def test_a_text_file_does_not_need_the_package():
    program = (
        "import sys, whence.data.sets.examples as e; e.read(['a']); print('pyarrow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
