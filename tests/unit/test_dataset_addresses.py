"""Data sets at fsspec addresses and in zips, image and ERASER folders there, and refusal of outside files."""

import gzip
import json
import pickle
import sys
import zipfile

import fsspec
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from whence.core.errors import BadExamples, BadPicture
from whence.data.dataset import SkippedRow, open_dataset, read_dataset
from whence.data.example import Example, read_mask
from whence.data.images import open_image

LINES = b'{"text": "a", "label": 1}\n{"text": \n{"text": "b", "label": 0}\n'


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def texts(stream):
    return [None if isinstance(one, SkippedRow) else one.example.given for one in stream]


def test_open_dataset_reads_files_at_memory_and_file_addresses(memory, tmp_path):
    memory.pipe("/sets/a.jsonl", LINES)
    memory.pipe("/sets/a.jsonl.gz", gzip.compress(LINES))
    (tmp_path / "a.jsonl").write_bytes(LINES)
    for address in ("memory://sets/a.jsonl", "memory://sets/a.jsonl.gz", f"file://{tmp_path}/a.jsonl"):  # fmt: skip
        stream = open_dataset(address)
        assert texts(stream) == ["a", None, "b"] == texts(stream)
        assert stream.count() == 3
        assert (stream.name, stream.facts()["kind"]) == (address.rpartition("/")[2], "jsonl")
    table = pyarrow.table({"text": ["a", "b"], "label": ["x", "y"]})
    pyarrow.parquet.write_table(table, "sets/a.parquet", filesystem=memory)
    assert texts(open_dataset("memory://sets/a.parquet")) == ["a", "b"]
    assert read_dataset("memory://sets/a.parquet").examples == [
        Example("a", "x"),
        Example("b", "y"),
    ]


def test_open_dataset_reads_zip_members_and_refuses_parent_paths(tmp_path):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("in/a.csv", "text,label\na,1\n")
        packed.writestr("../out.csv", "text\nb\n")
    stream = open_dataset(f"zip://in/a.csv::{path}")
    assert (texts(stream), stream.name, stream.count()) == (["a"], "a.csv", 1)
    with pytest.raises(BadExamples, match=r"The address of 'out.csv' has a part '\.\.'"):
        open_dataset(f"zip://../out.csv::{path}")
    with pytest.raises(BadExamples, match=r"Cannot read 'none.csv': "):
        open_dataset(f"zip://none.csv::{path}")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://none.jsonl", "Cannot read 'none.jsonl': there is nothing at this address"),
        ("nosuch://b/a.csv", "Cannot read 'a.csv': Protocol not known: nosuch"),
        ("memory://sets/a.xml", r"a\.xml: \.xml is no kind of file"),
        (
            "memory://sets",
            "'sets' is remote, and holds no annotations in ERASER's format. Give a file",
        ),
    ],
)
def test_open_dataset_at_an_unusable_address_raises_bad_examples(memory, address, said):
    memory.pipe("/sets/a.xml", b"<a/>")
    with pytest.raises(BadExamples, match=said):
        open_dataset(address)


@pytest.mark.parametrize(
    ("package", "address"),
    [
        ("s3fs", "s3://key:secret@bucket/a.csv"),
        ("aiohttp", "https://user:secret@host.invalid/a.csv?token=secret"),
    ],
)
def test_open_dataset_without_a_needed_package_names_the_package_and_no_secret(
    monkeypatch, package, address
):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadExamples, match=r"'a.csv' is at an address that needs another") as error:
        open_dataset(address)
    assert package in str(error.value) and "secret" not in str(error.value)


def test_parse_file_name_of_an_address_contains_no_credentials():
    from whence.data.readers import parse_file_name

    for address, name in (
        ("https://u:secret@host/d/a.csv?token=secret#x", "a.csv"),
        ("simplecache::s3://bucket/a.tsv.gz", "a.tsv.gz"),
        ("zip://in/a.csv::https://host/b.zip?k=secret", "a.csv"),
        ("memory://sets", "sets"),
        ("d/a.csv", "a.csv"),
    ):
        assert parse_file_name(address) == name


def picture(level=7):
    return Image.new("RGB", (6, 4), (level, level, level))


def write_image_folder(folder):
    for label in ("dog", "cat"):
        (folder / label).mkdir(parents=True)
        picture().save(folder / label / "one.png")
    Image.fromarray(np.array([[0, 255]], dtype=np.uint8)).save(folder / "cat" / "one_mask.png")
    picture(9).save(folder / "bare.jpg")
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_open_dataset_of_an_image_folder_gives_labels_and_masks(tmp_path):
    folder = write_image_folder(tmp_path / "pets")
    stream = open_dataset(str(folder))
    found = list(stream)
    # By their parts, as paths are sorted.
    assert [(one.id, one.example.label) for one in found] == [
        ("bare.jpg", None),
        ("cat/one.png", "cat"),
        ("dog/one.png", "dog"),
    ]
    assert repr([one.example for one in found]) == repr(read_dataset(folder).examples)
    assert read_mask(found[1].example.mask).tolist() == [[0, 1]]
    assert stream.count() == 3
    facts = stream.facts()
    assert (facts["name"], facts["kind"], facts["pictures"]) == ("pets", "pictures", True)
    assert str(tmp_path) not in json.dumps(facts)
    again = pickle.loads(pickle.dumps(found[0]))  # noqa: S301 - our own
    assert open_image(again.example.given).size == (6, 4)


def test_open_dataset_of_a_remote_image_folder_says_to_copy_it(memory):
    memory.pipe("/pets/cat/one.png", b"raw")
    for read in (open_dataset, read_dataset):
        with pytest.raises(BadExamples, match="copy a folder of pictures to this machine"):
            read("memory://pets")


def test_open_dataset_reads_a_remote_eraser_folder_and_skips_outside_documents(memory):
    span = {"docid": "d", "start_token": 1, "end_token": 2}
    line = {"annotation_id": "1", "classification": "x", "evidences": [[span]], "query": ""}
    away, chained = (
        {**line, "evidences": [[{**span, "docid": name}]]}
        for name in ("../val.jsonl", "d::file:///etc/hostname")
    )
    lines = [json.dumps(one) + "\n" for one in (line, away, chained)]
    memory.pipe("/e/val.jsonl", "".join(lines).encode())
    memory.pipe("/e/docs/d", b"one two\n")
    for address in ("memory://e", "memory://e:val"):
        good, *bad = open_dataset(address)
        assert good.example.given == "one two" and len(good.example.rationale) == 1
        assert len(bad) == 2
        assert all("lies outside of the folder 'docs'" in one.why for one in bad)


def test_image_links_out_of_the_folder_or_to_missing_files_are_skipped(tmp_path):
    folder = write_image_folder(tmp_path / "pets")
    picture().save(tmp_path / "secret.png")
    (folder / "cat" / "away.png").symlink_to("../../secret.png")
    (folder / "cat" / "gone.png").symlink_to("nowhere.png")
    (folder / "cat" / "near.png").symlink_to("one.png")
    (folder / "dog" / "one_mask.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "more").mkdir()
    (folder / "linked").symlink_to(tmp_path / "more")
    stream = open_dataset(str(folder))
    found = list(stream)
    assert [one.id for one in found if not isinstance(one, SkippedRow)] == [
        "bare.jpg",
        "cat/near.png",
        "cat/one.png",
    ]
    bad = {one.where: one.why for one in found if isinstance(one, SkippedRow)}
    assert list(bad) == ["cat/away.png", "cat/gone.png", "dog/one.png", "linked"]
    out = "is a link that leads out of the folder 'pets'"
    assert out in bad["cat/away.png"] and out in bad["linked"] and out in bad["dog/one.png"]
    assert "is not there" in bad["cat/gone.png"]
    assert stream.count() == len(found)
    with pytest.raises(BadExamples, match=r"'cat/away.png' is a link that leads out of"):
        read_dataset(folder)


def test_open_dataset_with_metadata_that_names_outside_files_raises_bad_examples(
    tmp_path, monkeypatch
):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    picture().save(tmp_path / "secret.png")
    picture().save(folder / "a.png")
    rows = [{"file_name": "a.png", "text": "in"}, {"file_name": "../../secret.png", "text": "out"}]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadExamples, match=r"cannot be (read on|loaded): .*secret\.png"):
        list(open_dataset(str(tmp_path / "set")))


def test_open_image_of_a_decompression_bomb_raises_bad_picture(tmp_path):
    Image.new("1", (9_000, 9_000)).save(tmp_path / "bomb.png")
    (entry,) = open_dataset(str(tmp_path))
    with pytest.raises(BadPicture, match="9000 x 9000 pixels"):
        open_image(entry.example.given)
