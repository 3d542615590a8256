"""Data sets elsewhere, by the addresses of fsspec, and folders of pictures, here and there."""

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
from whence.data.sets.examples import Example, read
from whence.data.sets.source import Bad, source
from whence.data.vision.image import opened
from whence.data.vision.masks import mask_of

LINES = b'{"text": "a", "label": 1}\n{"text": \n{"text": "b", "label": 0}\n'


@pytest.fixture
def memory():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def texts(stream):
    return [None if isinstance(one, Bad) else one.example.given for one in stream]


def test_files_in_memory_and_by_file_address(memory, tmp_path):
    memory.pipe("/sets/a.jsonl", LINES)
    memory.pipe("/sets/a.jsonl.gz", gzip.compress(LINES))
    (tmp_path / "a.jsonl").write_bytes(LINES)
    for address in ("memory://sets/a.jsonl", "memory://sets/a.jsonl.gz", f"file://{tmp_path}/a.jsonl"):  # fmt: skip
        stream = source(address)
        assert texts(stream) == ["a", None, "b"] == texts(stream)
        assert stream.count() == 3
        assert (stream.name, stream.facts()["kind"]) == (address.rpartition("/")[2], "jsonl")
    table = pyarrow.table({"text": ["a", "b"], "label": ["x", "y"]})
    pyarrow.parquet.write_table(table, "sets/a.parquet", filesystem=memory)
    assert texts(source("memory://sets/a.parquet")) == ["a", "b"]
    assert read("memory://sets/a.parquet").examples == [Example("a", "x"), Example("b", "y")]


def test_members_of_a_zip_file(tmp_path):
    path = tmp_path / "all.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("in/a.csv", "text,label\na,1\n")
        packed.writestr("../out.csv", "text\nb\n")
    stream = source(f"zip://in/a.csv::{path}")
    assert (texts(stream), stream.name, stream.count()) == (["a"], "a.csv", 1)
    with pytest.raises(BadExamples, match=r"The address of 'out.csv' has a part '\.\.'"):
        source(f"zip://../out.csv::{path}")
    with pytest.raises(BadExamples, match=r"Cannot read 'none.csv': "):
        source(f"zip://none.csv::{path}")


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("memory://none.jsonl", "Cannot read 'none.jsonl': there is nothing at this address"),
        ("nosuch://b/a.csv", "Cannot read 'a.csv': Protocol not known: nosuch"),
        ("memory://sets/a.xml", r"a\.xml: \.xml is no kind of file"),
        ("memory://sets", "holds neither pictures nor annotations. Give a file"),
    ],
)
def test_addresses_that_lead_nowhere(memory, address, said):
    memory.pipe("/sets/a.xml", b"<a/>")
    with pytest.raises(BadExamples, match=said):
        source(address)


@pytest.mark.parametrize(
    ("package", "address"),
    [
        ("s3fs", "s3://key:secret@bucket/a.csv"),
        ("aiohttp", "https://user:secret@host.invalid/a.csv?token=secret"),
    ],
)
def test_a_package_that_is_missing_is_named_and_a_key_is_not(monkeypatch, package, address):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadExamples, match=r"'a.csv' is at an address that needs another") as error:
        source(address)
    assert package in str(error.value) and "secret" not in str(error.value)


def test_the_name_of_an_address_says_nothing_of_who_may_read_it():
    from whence.data.sets.address import file_name

    for address, name in (
        ("https://u:secret@host/d/a.csv?token=secret#x", "a.csv"),
        ("simplecache::s3://bucket/a.tsv.gz", "a.tsv.gz"),
        ("zip://in/a.csv::https://host/b.zip?k=secret", "a.csv"),
        ("memory://sets", "sets"),
        ("d/a.csv", "a.csv"),
    ):
        assert file_name(address) == name


def picture(level=7):
    return Image.new("RGB", (6, 4), (level, level, level))


def album(folder):
    for label in ("dog", "cat"):
        (folder / label).mkdir(parents=True)
        picture().save(folder / label / "one.png")
    Image.fromarray(np.array([[0, 255]], dtype=np.uint8)).save(folder / "cat" / "one_mask.png")
    picture(9).save(folder / "bare.jpg")
    (folder / "notes.txt").write_text("no picture")
    return folder


def test_a_folder_of_pictures(tmp_path):
    folder = album(tmp_path / "pets")
    stream = source(str(folder))
    found = list(stream)
    # By their parts, as paths are sorted.
    assert [(one.id, one.example.label) for one in found] == [
        ("bare.jpg", None),
        ("cat/one.png", "cat"),
        ("dog/one.png", "dog"),
    ]
    assert repr([one.example for one in found]) == repr(read(folder).examples)
    assert mask_of(found[1].example.mask).tolist() == [[0, 1]]
    assert stream.count() == 3
    facts = stream.facts()
    assert (facts["name"], facts["kind"], facts["pictures"]) == ("pets", "pictures", True)
    assert str(tmp_path) not in json.dumps(facts)
    again = pickle.loads(pickle.dumps(found[0]))  # noqa: S301 - our own
    assert opened(again.example.given).size == (6, 4)


def test_a_folder_of_pictures_elsewhere(memory, tmp_path):
    album(tmp_path / "pets")
    for path in sorted((tmp_path / "pets").rglob("*.*")):
        memory.pipe(f"/pets/{path.relative_to(tmp_path / 'pets').as_posix()}", path.read_bytes())
    here, there = list(source(str(tmp_path / "pets"))), list(source("memory://pets"))
    assert repr(here) == repr(there)
    for one, other in zip(here, there, strict=True):
        pixels = [np.asarray(opened(own.example.given)) for own in (one, other)]
        np.testing.assert_array_equal(*pixels)
    assert mask_of(there[1].example.mask).tolist() == [[0, 1]]
    assert isinstance(there[0].example.given.read(), bytes)
    again = pickle.loads(pickle.dumps(there[0].example))  # noqa: S301 - our own
    assert again.given.read() == there[0].example.given.read()
    assert repr(read("memory://pets").examples) == repr([one.example for one in there])


def test_a_folder_of_annotations_elsewhere(memory):
    span = {"docid": "d", "start_token": 1, "end_token": 2}
    line = {"annotation_id": "1", "classification": "x", "evidences": [[span]], "query": ""}
    away = {**line, "evidences": [[{**span, "docid": "../val.jsonl"}]]}
    memory.pipe("/e/val.jsonl", "".join(json.dumps(one) + "\n" for one in (line, away)).encode())
    memory.pipe("/e/docs/d", b"one two\n")
    for address in ("memory://e", "memory://e:val"):
        good, bad = source(address)
        assert good.example.given == "one two" and len(good.example.rationale) == 1
        assert "lies outside of the folder 'docs'" in bad.why


def test_pictures_that_leave_the_folder_or_are_not_there(tmp_path):
    folder = album(tmp_path / "pets")
    picture().save(tmp_path / "secret.png")
    (folder / "cat" / "away.png").symlink_to("../../secret.png")
    (folder / "cat" / "gone.png").symlink_to("nowhere.png")
    (folder / "cat" / "near.png").symlink_to("one.png")
    (folder / "dog" / "one_mask.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "more").mkdir()
    (folder / "linked").symlink_to(tmp_path / "more")
    stream = source(str(folder))
    found = list(stream)
    assert [one.id for one in found if not isinstance(one, Bad)] == [
        "bare.jpg",
        "cat/near.png",
        "cat/one.png",
    ]
    bad = {one.where: one.why for one in found if isinstance(one, Bad)}
    assert list(bad) == ["cat/away.png", "cat/gone.png", "dog/one.png", "linked"]
    out = "is a link that leads out of the folder 'pets'"
    assert out in bad["cat/away.png"] and out in bad["linked"] and out in bad["dog/one.png"]
    assert "is not there" in bad["cat/gone.png"]
    assert stream.count() == len(found)
    with pytest.raises(BadExamples, match=r"'cat/away.png' is a link that leads out of"):
        read(folder)


def test_members_of_a_zip_file_that_leave_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for name in ("p/in.png", "p/../../out.png"):
            packed.writestr(name, b"raw")
    bad, good = source(f"zip://p::{tmp_path / 'a.zip'}")
    assert (good.id, good.example.given.read()) == ("in.png", b"raw")
    assert bad.where == "../../out.png" and "lies outside" in bad.why


def test_metadata_that_names_files_outside(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "set" / "train"
    folder.mkdir(parents=True)
    picture().save(tmp_path / "secret.png")
    picture().save(folder / "a.png")
    rows = [{"file_name": "a.png", "text": "in"}, {"file_name": "../../secret.png", "text": "out"}]
    (folder / "metadata.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadExamples, match=r"cannot be (read on|loaded): .*secret\.png"):
        list(source(str(tmp_path / "set")))


def test_a_picture_that_would_fill_the_memory_is_refused_when_its_turn_comes(tmp_path):
    Image.new("1", (9_000, 9_000)).save(tmp_path / "bomb.png")
    (entry,) = source(str(tmp_path))
    with pytest.raises(BadPicture, match="9000 x 9000 pixels"):
        opened(entry.example.given)
