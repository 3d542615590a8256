"""Pictures of a data set: found in folders, tables and lists, and unpacked only when they are wanted."""

import io

import numpy as np
import pytest
from PIL import Image

from whence.core.errors import BadExamples, BadPicture
from whence.data.sets.examples import examples, read
from whence.data.sets.pictures import Outlined, Stored
from whence.data.vision.image import opened
from whence.data.vision.masks import fitted, mask_of


def picture(level=7, size=(6, 4)):
    return Image.new("RGB", size, (level, level, level))


def packed(one, kind="PNG"):
    buffer = io.BytesIO()
    one.save(buffer, kind)
    return buffer.getvalue()


def grey(rows):
    return Image.fromarray(np.array(rows, dtype=np.uint8))


def test_a_folder_for_each_class(tmp_path):
    for label in ("dog", "cat"):
        (tmp_path / label).mkdir()
        picture().save(tmp_path / label / "one.png")
    grey([[0, 255]]).save(tmp_path / "cat" / "one_mask.png")
    grey([[1, 3]]).save(tmp_path / "dog" / "one_trimap.png")
    (tmp_path / "dog" / "notes.txt").write_text("no picture")
    found = examples(tmp_path)
    assert [(one.label, one.given.name) for one in found] == [
        ("cat", "cat/one.png"),
        ("dog", "dog/one.png"),
    ]
    assert [one.mask.trimap for one in found] == [False, True]
    assert mask_of(found[0].mask).tolist() == [[0, 1]]
    assert mask_of(found[1].mask).tolist() == [[1, -1]]
    assert read(tmp_path).examples[0].label == "cat"


def test_a_parallel_folder_of_masks(tmp_path):
    for folder in ("images/cat", "masks/cat"):
        (tmp_path / folder).mkdir(parents=True)
    picture().save(tmp_path / "images" / "cat" / "a.jpg")
    picture().save(tmp_path / "images" / "b.png")
    grey([[9, 0]]).save(tmp_path / "masks" / "cat" / "a.png")
    bare, found = examples(tmp_path)
    assert (bare.label, bare.mask, found.label) == (None, None, "cat")
    assert mask_of(found.mask).tolist() == [[1, 0]]  # light by its own measure


def test_a_folder_without_pictures_says_so(tmp_path):
    with pytest.raises(BadExamples, match="has no pictures"):
        examples(tmp_path)


def test_nothing_is_unpacked_before_its_turn(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (one,) = examples(tmp_path)
    with pytest.raises(BadPicture):
        opened(one.given)


def test_a_table_of_packed_pictures(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    raw = packed(picture(200), "JPEG")
    columns = {
        "image": [{"bytes": raw, "path": "x.jpg"}] * 2,
        "label": [1, 0],
        "mask": [packed(grey([[0, 1]])), None],
    }
    path = tmp_path / "seen.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    first, second = examples(path)
    assert (first.label, second.label, second.mask) == ("1", "0", None)
    assert opened(first.given).size == (6, 4)
    assert mask_of(first.mask).tolist() == [[0, 1]]
    assert examples(path, label="label")[0].label == "1"
    with pytest.raises(BadExamples, match="no column 'kind'"):
        examples(path, label="kind")


def test_lists(tmp_path):
    path = tmp_path / "a.png"
    picture().save(path)
    mask = np.array([[True, False]])
    given = [
        picture(),
        path,
        (picture(), "cat"),
        (path, 1, mask),
        {"image": picture(), "label": "dog"},
    ]
    found = examples(given)
    assert all(one.seen for one in found)
    assert [one.label for one in found] == [None, None, "cat", "1", "dog"]
    assert mask_of(found[3].mask).tolist() == [[1, 0]]
    with pytest.raises(BadExamples, match="the label is a list"):
        examples([(picture(), ["cat"])])
    with pytest.raises(BadExamples, match="the mask is a float"):
        examples([(picture(), "cat", 0.5)])
    # Two texts are a pair, and stay one.
    assert examples([("a.png", "cat")])[0].given == ("a.png", "cat")


def test_the_same_picture_reads_the_same_wherever_it_lies():
    one, other = (repr(Stored(picture(), "a")) for _ in range(2))
    assert one == other and one != repr(Stored(picture(8), "a"))


def test_a_trimap_with_other_values_is_none():
    with pytest.raises(BadPicture, match=r"is not a trimap: it has the values \[0, 9\]"):
        mask_of(Outlined(Stored(grey([[0, 9]]), "t.png"), trimap=True))


@pytest.mark.parametrize("crop", [False, True])
def test_a_mask_is_cut_as_its_picture_is(crop):
    """The processor turns the same picture and mask into the same pixels: white object, black ground."""
    from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

    size = {"height": 8, "width": 8}
    processor = ViTImageProcessorPil(size=size)
    if crop:
        processor = CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size=size)
    rows = np.zeros((32, 64), dtype=np.uint8)
    rows[8:24, 16:40] = 255
    mask = fitted(Outlined(Stored(grey(rows), "m")), processor)
    seen = processor(
        images=grey(rows).convert("RGB"), do_normalize=False, resample=0, return_tensors="np"
    )
    np.testing.assert_array_equal(mask, np.round(seen["pixel_values"][0, 0]).astype(int))
    assert mask.shape == (8, 8) and 0 < mask.mean() < 1
