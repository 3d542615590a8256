"""Parquet files as data: rows, names of numbered classes, damaged files, images, and a missing pyarrow."""

import gzip
import json
import subprocess
import sys

import pyarrow
import pyarrow.parquet
import pytest

from whence.core.errors import BadExamples
from whence.data.dataset import open_dataset, read_dataset
from whence.data.example import Example


def write_parquet(path, columns, metadata=None):
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)
    return path


def test_read_dataset_of_a_parquet_file_plain_or_gzipped_reads_its_rows(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", {"sentence": ["a", "b"], "label": [1, None]})
    assert read_dataset(path).examples == [Example("a", "1"), Example("b")]
    assert [one.id for one in open_dataset(path)] == ["row 1", "row 2"]
    packed = tmp_path / "b.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_dataset(packed).examples == read_dataset(path).examples


def test_parquet_with_token_lists_and_numbers_gives_joined_texts_and_labels(tmp_path):
    path = write_parquet(
        tmp_path / "a.parquet",
        {"tokens": [["a", "fine", "film"], ["b"], ["c"]], "class": [1.0, float("nan"), None]},
    )
    found = read_dataset(path)
    assert found.examples == [Example("a fine film", "1.0"), Example("b"), Example("c")]
    assert (found.text, found.label, found.guessed) == ("tokens", "class", ("text", "label"))


def make_metadata(features):
    return {b"huggingface": json.dumps({"info": {"features": features}}).encode()}


def test_parquet_class_numbers_get_the_names_in_its_huggingface_metadata(tmp_path):
    columns = {"text": ["a", "b", "c", "d"], "label": [0, 1, -1, 2]}
    names = make_metadata({"label": {"names": ["bad", "good"], "_type": "ClassLabel"}})
    path = write_parquet(tmp_path / "a.parquet", columns, names)
    # -1 says that there is no label; 2 has no name and stays what it is.
    assert [one.label for one in read_dataset(path).examples] == ["bad", "good", None, "2"]


@pytest.mark.parametrize(
    "metadata",
    [
        {b"huggingface": b"\xff{"},
        {b"huggingface": b"[" * 100_000},
        {b"huggingface": b"[]"},
        {b"huggingface": b'{"info": null}'},
        make_metadata({"label": {"_type": "ClassLabel"}}),
        make_metadata({"label": {"names": 3, "_type": "ClassLabel"}}),
        make_metadata({"label": "ClassLabel"}),
        make_metadata(["label"]),
    ],
)
def test_parquet_with_malformed_metadata_leaves_class_numbers_unnamed(tmp_path, metadata):
    path = write_parquet(tmp_path / "a.parquet", {"text": ["a", "b"], "label": [0, 1]}, metadata)
    assert [one.label for one in read_dataset(path).examples] == ["0", "1"]


@pytest.mark.parametrize("raw", [b"", b"text\nnot parquet\n", b"PAR1", b"PAR1" * 100])
def test_read_dataset_of_a_file_that_is_no_parquet_raises_bad_examples(tmp_path, raw):
    path = tmp_path / "a.parquet"
    path.write_bytes(raw)
    with pytest.raises(BadExamples, match=r"a.parquet is not a whole Parquet file \(.+\)"):
        read_dataset(path)


def test_read_dataset_of_a_truncated_or_damaged_parquet_raises_bad_examples(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", {"text": [f"text {i}" for i in range(2000)]})
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with pytest.raises(BadExamples, match="is not a whole Parquet file"):
        read_dataset(path)
    # The footer stands and the pages before it are noise.
    path.write_bytes(whole[:4] + b"\xff" * 2000 + whole[2004:])
    with pytest.raises(BadExamples, match="is not a whole Parquet file"):
        read_dataset(path)


def test_parquet_without_rows_or_with_bytes_or_gaps_as_text_raises_bad_examples(tmp_path):
    empty = write_parquet(tmp_path / "empty.parquet", {"text": pyarrow.array([], pyarrow.string())})
    with pytest.raises(BadExamples, match=r"empty.parquet has no rows"):
        read_dataset(empty)
    raw = write_parquet(tmp_path / "raw.parquet", {"text": [b"bytes"]})
    with pytest.raises(BadExamples, match=r"raw.parquet, row 1: 'text' is .*\(bytes\)"):
        read_dataset(raw)
    gap = write_parquet(tmp_path / "gap.parquet", {"text": ["a", None]})
    with pytest.raises(BadExamples, match=r"gap.parquet, row 2: 'text' is 'None' \(NoneType\)"):
        read_dataset(gap)


def test_parquet_of_images_reads_images_with_trimaps_and_refuses_bytes_as_text(shared):
    path = shared / "data" / "oxford_pets" / "pets_heldout_a.parquet"
    found = read_dataset(path).examples
    assert len(found) == 525 and all(one.is_image and one.mask.trimap for one in found)
    assert {one.label for one in found} == {"0", "1"}
    with pytest.raises(BadExamples, match=r"row 1: 'jpeg' is .*\(bytes\)"):
        read_dataset(path, text="jpeg")


def test_parquet_without_pyarrow_raises_with_the_command_to_install(tmp_path):
    path = write_parquet(tmp_path / "a.parquet", {"text": ["a"]})
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from whence.data.dataset import read_dataset\n"
        f"try: read_dataset({str(path)!r}).examples\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("BadExamples a.parquet is a Parquet file")
    assert "pip install pyarrow" in done.stdout


def test_reading_a_list_of_texts_does_not_import_pyarrow():
    program = "import sys, whence.data.dataset as e; e.read_dataset(['a']); print('pyarrow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"
