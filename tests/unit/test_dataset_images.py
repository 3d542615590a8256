"""Images of a data set: found in folders, tables and lists with labels and masks, and opened only when needed."""

import io

import numpy as np
import pytest
from PIL import Image

from whence.core.errors import BadExamples, BadPicture
from whence.data.dataset import read_dataset
from whence.data.example import ImageMask, StoredImage, fit_mask, read_mask
from whence.data.images import open_image


def picture(level=7, size=(6, 4)):
    return Image.new("RGB", size, (level, level, level))


def encode_image(one, kind="PNG"):
    buffer = io.BytesIO()
    one.save(buffer, kind)
    return buffer.getvalue()


def grey(rows):
    return Image.fromarray(np.array(rows, dtype=np.uint8))


def test_read_dataset_of_a_folder_per_class_reads_labels_and_masks(tmp_path):
    for label in ("dog", "cat"):
        (tmp_path / label).mkdir()
        picture().save(tmp_path / label / "one.png")
    grey([[0, 255]]).save(tmp_path / "cat" / "one_mask.png")
    grey([[1, 3]]).save(tmp_path / "dog" / "one_trimap.png")
    (tmp_path / "dog" / "notes.txt").write_text("no picture")
    found = read_dataset(tmp_path).examples
    assert [(one.label, one.given.name) for one in found] == [
        ("cat", "cat/one.png"),
        ("dog", "dog/one.png"),
    ]
    assert [one.mask.trimap for one in found] == [False, True]
    assert read_mask(found[0].mask).tolist() == [[0, 1]]
    assert read_mask(found[1].mask).tolist() == [[1, -1]]
    assert read_dataset(tmp_path).examples[0].label == "cat"


def test_read_dataset_of_parallel_image_and_mask_folders_pairs_the_masks(tmp_path):
    for folder in ("images/cat", "masks/cat"):
        (tmp_path / folder).mkdir(parents=True)
    picture().save(tmp_path / "images" / "cat" / "a.jpg")
    picture().save(tmp_path / "images" / "b.png")
    grey([[9, 0]]).save(tmp_path / "masks" / "cat" / "a.png")
    bare, found = read_dataset(tmp_path).examples
    assert (bare.label, bare.mask, found.label) == (None, None, "cat")
    assert read_mask(found.mask).tolist() == [[1, 0]]  # light by its own measure


def test_read_dataset_of_a_folder_without_pictures_raises_bad_examples(tmp_path):
    with pytest.raises(BadExamples, match="has no pictures"):
        read_dataset(tmp_path)


def test_read_dataset_does_not_open_a_broken_picture_before_use(tmp_path):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (one,) = read_dataset(tmp_path).examples
    with pytest.raises(BadPicture):
        open_image(one.given)


def test_read_dataset_of_a_parquet_table_reads_packed_pictures_and_masks(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    raw = encode_image(picture(200), "JPEG")
    columns = {
        "image": [{"bytes": raw, "path": "x.jpg"}] * 2,
        "label": [1, 0],
        "mask": [encode_image(grey([[0, 1]])), None],
    }
    path = tmp_path / "seen.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    first, second = read_dataset(path).examples
    assert (first.label, second.label, second.mask) == ("1", "0", None)
    assert open_image(first.given).size == (6, 4)
    assert read_mask(first.mask).tolist() == [[0, 1]]
    assert read_dataset(path, label="label").examples[0].label == "1"
    with pytest.raises(BadExamples, match="no column 'kind'"):
        read_dataset(path, label="kind")


def test_read_dataset_of_a_list_takes_pictures_paths_labels_and_masks(tmp_path):
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
    found = read_dataset(given).examples
    assert all(one.is_image for one in found)
    assert [one.label for one in found] == [None, None, "cat", "1", "dog"]
    assert read_mask(found[3].mask).tolist() == [[1, 0]]
    with pytest.raises(BadExamples, match="the label is a list"):
        read_dataset([(picture(), ["cat"])])
    with pytest.raises(BadExamples, match="the mask is a float"):
        read_dataset([(picture(), "cat", 0.5)])
    # Two texts are a pair, and stay one.
    assert read_dataset([("a.png", "cat")]).examples[0].given == ("a.png", "cat")


def test_read_dataset_of_mappings_with_pictures_reads_labels_and_masks():
    rows = [{"image": picture(), "species": one, "mask": np.array([[True, False]])} for one in "ab"]
    data = read_dataset(rows)
    assert (data.text, data.label, data.pictures) == ("image", "species", True)
    assert [one.label for one in data.examples] == ["a", "b"]
    assert read_mask(data.examples[0].mask).tolist() == [[1, 0]]
    # An array under another name is no picture.
    assert read_dataset([{"text": "a", "embedding": np.zeros((2, 2))}]).examples[0].given == "a"


def test_stored_images_of_equal_pixels_have_an_equal_repr():
    one, other = (repr(StoredImage(picture(), "a")) for _ in range(2))
    assert one == other and one != repr(StoredImage(picture(8), "a"))


def test_read_mask_of_a_trimap_with_other_values_raises_bad_picture():
    with pytest.raises(BadPicture, match=r"is not a trimap: it has the values \[0, 9\]"):
        read_mask(ImageMask(StoredImage(grey([[0, 9]]), "t.png"), trimap=True))


@pytest.mark.parametrize("crop", [False, True])
def test_fit_mask_resizes_and_crops_a_mask_like_its_picture(crop):
    """The processor turns the same picture and mask into the same pixels: white object, black ground."""
    from transformers import CLIPImageProcessorPil, ViTImageProcessorPil

    size = {"height": 8, "width": 8}
    processor = ViTImageProcessorPil(size=size)
    if crop:
        processor = CLIPImageProcessorPil(size={"shortest_edge": 8}, crop_size=size)
    rows = np.zeros((32, 64), dtype=np.uint8)
    rows[8:24, 16:40] = 255
    mask = fit_mask(ImageMask(StoredImage(grey(rows), "m")), processor)
    seen = processor(
        images=grey(rows).convert("RGB"), do_normalize=False, resample=0, return_tensors="np"
    )
    np.testing.assert_array_equal(mask, np.round(seen["pixel_values"][0, 0]).astype(int))
    assert mask.shape == (8, 8) and 0 < mask.mean() < 1
