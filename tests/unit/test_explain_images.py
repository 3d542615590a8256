"""Explanations of images: pixels and patches, removal of patches, heatmaps, and CLIP."""

from io import BytesIO

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F
from transformers import (
    CLIPImageProcessorPil,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

import whence
from tests import image_models, zoo
from tests.unit import small_tokenizers
from tests.unit.test_images import drawn
from whence.core.errors import BadParameter, BadPicture, WhenceError
from whence.core.types import InputText
from whence.data.example import StoredImage
from whence.data.image_encoding import read_normalisation
from whence.data.images import IMAGE_FILLS, EncodedImage, join_patches, split_patches
from whence.data.removal import remove_sets
from whence.data.tokens import EncodedInput
from whence.explain.explanation import Explanation
from whence.explain.inputs import encode_images

MEAN, DEVIATION = [0.5, 0.4, 0.3], [0.5, 0.25, 0.2]


def processor(side=16):
    return ViTImageProcessorPil(
        size={"height": side, "width": side}, image_mean=MEAN, image_std=DEVIATION
    )


@pytest.fixture(scope="module")
def explainer():
    return whence.load(image_models.make("vit"), processor=processor())


def draw_one_colour_patches():
    """A picture of the model's size, one colour to a patch: nothing is blended."""
    return np.kron(drawn(4, 4), np.ones((4, 4, 1), np.uint8))


# ------------------------------------------------------------------------------------------ pixels


def test_explanation_picture_equals_the_pixels_before_normalisation(explainer):
    found = explainer.explain(draw_one_colour_patches(), method="random")
    np.testing.assert_array_equal(found.picture, draw_one_colour_patches())
    assert found.grid == (4, 4) and found.scores.shape == (16,)


def test_black_of_an_encoded_image_is_minus_mean_over_deviation():
    explainer = whence.load(image_models.make("vit"), processor=processor())
    (item,) = encode_images(draw_one_colour_patches(), explainer.loaded)[0]
    assert item.picture.black == pytest.approx((-1.0, -1.6, -1.5))  # -mean / deviation
    plain = processor()
    plain.do_normalize = False
    assert read_normalisation(plain, 3) == (pytest.approx(1 / 255), (0.0,) * 3, (1.0,) * 3)


def test_explanation_of_a_cropped_image_covers_only_the_crop():
    """The middle is what the model sees, and what the map lies on; what is beside it never reaches the model."""
    wide = np.zeros((16, 48, 3), np.uint8)
    wide[:, 16:32] = draw_one_colour_patches()
    cuts = CLIPImageProcessorPil(
        size={"shortest_edge": 16},
        crop_size={"height": 16, "width": 16},
        image_mean=MEAN,
        image_std=DEVIATION,
    )
    explainer = whence.load(image_models.make("vit"), processor=cuts)
    found = explainer.explain(wide, method="generic_attention")
    np.testing.assert_array_equal(found.picture, draw_one_colour_patches())
    wide[:, :16] = 255
    again = explainer.explain(wide, method="generic_attention")
    np.testing.assert_array_equal(found.scores, again.scores)
    assert found.heatmap().shape == (16, 16)


def test_explain_of_an_image_equals_explain_of_its_pixel_values(explainer):
    pixels = processor()(images=Image.fromarray(drawn()), return_tensors="pt")["pixel_values"]
    one = explainer.explain(drawn(), method="gradient")
    for given in (pixels, pixels[0], pixels.numpy(), list(pixels)):
        again = explainer.explain({"pixel_values": given}, method="gradient")
        # Pixels in memory of NumPy are aligned to 16 bytes, in memory of PyTorch to 64.
        size = np.abs(one.scores).max()
        np.testing.assert_allclose(one.scores, again.scores, rtol=0, atol=1e-5 * size)


def test_explain_without_an_image_processor_accepts_only_pixel_values():
    explainer = whence.load(image_models.make("vit"))
    with pytest.raises(BadPicture, match="no image processor"):
        explainer.explain(drawn(), method="gradient")
    pixels = image_models.pixels("vit", 1)[0]
    found = explainer.explain({"pixel_values": pixels}, method="gradient")
    # From the darkest to the brightest, for want of anything better.
    assert (found.picture.min(), found.picture.max()) == (0, 255)


def pixels_with_value(value):
    pixels = torch.zeros(3, 16, 16)
    pixels[0, 0, 0] = value
    return pixels


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"pixel_values": torch.zeros(16, 16)}, r"\(16, 16\)"),
        ({"pixel_values": torch.zeros(0, 3, 16, 16)}, "several pictures"),
        ({"pixel_values": torch.zeros(3, 16, 16, dtype=torch.uint8)}, "uint8"),
        ({"pixel_values": pixels_with_value(torch.nan)}, "NaN"),
        ({"pixel_values": pixels_with_value(torch.inf)}, "NaN or infinity"),
        ({"pixel_values": torch.zeros(1, 16, 16)}, "3 channels, and these have 1"),
        ({"pixel_values": torch.zeros(16, 16, 3)}, "3 channels, and these have 16"),
        ({"pixel_values": torch.zeros(3, 16, 20)}, "16 x 16 pixels, and these have 16 x 20"),
        ({"pixel_values": "a text"}, "pixel_values"),
        ({"pixel_values": [[1.0], [1.0, 2.0]]}, "one array of numbers"),
        ({"input_ids": [[1, 2]]}, "needs 'pixel_values'"),
        ({"pixel_values": torch.zeros(3, 16, 16), "input_ids": [[1]]}, "'input_ids'"),
        (torch.zeros(3, 16, 16), "a Tensor"),
        ("a gripping film", "path of a file"),
        (("a", "b"), "takes pictures"),
        (42, "a int"),
    ],
)
def test_explain_with_an_image_model_refuses_other_inputs_with_bad_picture(explainer, given, says):
    with pytest.raises(BadPicture, match=says):
        explainer.explain(given, method="gradient")


def test_explain_with_a_text_model_refuses_images_with_bad_picture(tmp_path):
    texts = whence.load(zoo.make("bert"), tokenizer=small_tokenizers.wordpiece())
    file = tmp_path / "drawn.png"
    Image.fromarray(drawn()).save(file)
    pictures = [drawn(), Image.fromarray(drawn()), file, {"pixel_values": torch.zeros(1, 3, 8, 8)}]
    for given in [*pictures, *([one] for one in pictures)]:
        with pytest.raises(BadPicture, match="takes texts"):
            texts.explain(given, method="gradient")


# ------------------------------------------------------------------------------------------ patches


def picture(grid=(2, 3), size=(3, 8, 12)):
    pixels = torch.arange(np.prod(size), dtype=torch.float64).reshape(size)
    shown = np.zeros((*size[1:], 3), np.uint8)
    return EncodedImage(pixels, grid, 1, 7, (-1.0, -2.0, -3.0), shown)


def test_join_patches_restores_pixels_that_split_patches_cut_row_by_row():
    pixels = picture().pixels
    cut = split_patches(pixels, (2, 3))
    assert cut.shape == (6, 3 * 4 * 4)
    torch.testing.assert_close(cut[4], pixels[:, 4:8, 4:8].flatten())  # second row, second column
    torch.testing.assert_close(join_patches(cut, (2, 3), (3, 8, 12)), pixels)


def test_removed_patch_is_filled_and_other_pixels_stay_unchanged():
    one = picture()
    item = EncodedInput({}, (), (), InputText(None), one)

    def hide(patches, fill):
        variant = remove_sets([item], [0], [patches], fill, {})
        batch = variant.collate([0], pad_id=None, device=torch.device("cpu"))
        return batch.inputs["pixel_values"][0]

    black = hide([4], "black")
    assert black[:, 4:8, 4:8].flatten(1).unique(dim=1).squeeze(1).tolist() == [-1, -2, -3]
    mean = hide([4], "mean")
    torch.testing.assert_close(mean[:, 5, 5], one.pixels.mean((1, 2)))
    for fill in IMAGE_FILLS:
        kept = hide([4], fill)
        kept[:, 4:8, 4:8] = one.pixels[:, 4:8, 4:8]
        torch.testing.assert_close(kept, one.pixels)  # nothing else changed
    assert torch.equal(hide([], "black"), one.pixels)


def test_blur_fill_leaves_level_pixels_and_the_mean_of_a_slope_unchanged():
    level = EncodedImage(
        torch.full((3, 8, 12), 5.0), (2, 3), 1, 7, (0.0,) * 3, np.zeros((8, 12, 3), np.uint8)
    )
    torch.testing.assert_close(level.build_fill("blur"), level.pixels)
    # Of a slope, reflected at its ends, the middle stays and the ends move towards it.
    blurred = picture().build_fill("blur")[0]
    assert blurred[0, 0] > 0 and blurred[-1, -1] < 95
    torch.testing.assert_close(blurred.mean(), picture().pixels[0].mean(), rtol=0.02, atol=0)


def test_without_pixels_fills_exactly_the_masked_pixels():
    mask = np.zeros((8, 12), bool)
    mask[3:5, 2:7] = True
    found = picture().without_pixels(mask, "black").render_pixels()
    changed = (found != picture().pixels).any(0)
    np.testing.assert_array_equal(changed.numpy(), mask)


# ------------------------------------------------------------------------------------------ explanations


def test_heatmap_of_an_explanation_equals_bilinear_interpolation(explainer):
    found = explainer.explain(drawn(), method="random")
    grid = torch.from_numpy(found.scores).reshape(1, 1, 4, 4).double()
    for size in ((16, 16), (30, 7), (3, 50)):
        wanted = F.interpolate(grid, size=size, mode="bilinear", align_corners=False)[0, 0]
        np.testing.assert_allclose(found.heatmap(size), wanted.numpy(), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.heatmap(), found.heatmap((16, 16)))


@pytest.mark.parametrize(
    "size", [5, "ab", (), (3,), (0, 5), (-1, 5), (1.5, 3), (10**6, 10**6), (4, 4, 4)], ids=str
)
def test_heatmap_with_an_invalid_size_raises_bad_parameter(explainer, size):
    with pytest.raises(BadParameter, match="height, width"):
        explainer.explain(drawn(), method="random").heatmap(size)


def test_tokens_of_a_wide_image_are_named_by_row_and_column():
    """Of a picture that is wider than high."""
    settings = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
    }
    model = ViTForImageClassification(ViTConfig(**settings, image_size=(8, 24), patch_size=4))
    found = whence.load(model.eval()).explain(
        {"pixel_values": torch.rand(3, 8, 24)}, method="gradient"
    )
    assert found.grid == (2, 6) and found.picture.shape == (8, 24, 3)
    assert [found.tokens[place].text for place in (0, 5, 6)] == [
        "row 1, column 1", "row 1, column 6", "row 2, column 1"
    ]  # fmt: skip
    assert found.heatmap().shape == (8, 24)


@pytest.mark.parametrize("method", ["generic_attention", "full_lrp"])
def test_explanation_of_an_image_is_restored_from_its_file(explainer, method, tmp_path):
    found = explainer.explain(drawn(), method=method)
    found.save(tmp_path / "one.json")
    again = Explanation.load(tmp_path / "one.json")
    assert again.grid == found.grid
    np.testing.assert_array_equal(again.picture, found.picture)
    np.testing.assert_array_equal(again.scores, found.scores)
    np.testing.assert_array_equal(again.heatmap(), found.heatmap())


def test_explanation_from_dict_with_a_mismatched_picture_raises_whence_error(explainer):
    payload = explainer.explain(drawn(), method="random").to_dict()
    for wrong in ({"png": "AAAA"}, {"grid": [3, 4]}, {"grid": [0, 16]}, {"width": 17}):
        with pytest.raises(WhenceError):
            Explanation.from_dict({**payload, "picture": {**payload["picture"], **wrong}})


def test_heatmap_of_a_text_explanation_raises_whence_error():
    texts = whence.load(zoo.make("bert"), tokenizer=small_tokenizers.wordpiece())
    found = texts.explain({"input_ids": torch.tensor([[2, 7, 3]])}, method="random")
    assert found.grid is None and found.picture is None
    with pytest.raises(WhenceError):
        found.heatmap()


# ------------------------------------------------------------------------------------------ CLIP


@pytest.fixture(scope="module")
def clip():
    return whence.load(
        image_models.make("clip"), **image_models.load_options("clip"), processor=processor()
    )


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        (drawn(), {}),
        (drawn(), {"labels": []}),
        (drawn(), {"labels": "a cat"}),
        (drawn(), {"labels": ["a", "a"]}),
        (drawn(), {"labels": ["a", " "]}),
        (drawn(), {"labels": ["a"], "template": "no place"}),
        (drawn(), {"labels": ["a"], "image": drawn()}),
        (drawn(), {"labels": ["a gripping film " * 20]}),
        ("a gripping film", {"image": drawn(), "labels": ["a cat"]}),
        ("a gripping film", {"image": "nowhere.png"}),
        ("a gripping film", {"labels": ["a cat"]}),
        ("a gripping film", {}),
    ],
)
def test_explain_with_clip_refuses_bad_combinations_of_text_image_and_labels(clip, given, asked):
    with pytest.raises(WhenceError):
        clip.explain(given, method="gradient", **asked)


def test_explain_with_clip_takes_a_file_path_as_plain_text(clip, tmp_path):
    file = tmp_path / "secret.png"
    Image.fromarray(drawn()).save(file)
    pixels = {"pixel_values": image_models.pixels("clip", 1)}
    found = clip.explain(str(file), image=pixels, method="random", truncate=True)
    assert found.grid is None and found.source.text == str(file)


def test_clip_logits_of_image_and_text_explanations_equal_the_model(clip):
    model, labels = image_models.make("clip"), image_models.LABELS
    found = clip.explain(drawn(), labels=labels, method="gradient")
    pixels = processor()(images=Image.fromarray(drawn()), return_tensors="pt")["pixel_values"]
    texts = image_models.load_options("clip")["tokenizer"](
        labels, padding=True, return_tensors="pt"
    )
    kept = {name: texts[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        wanted = model(pixel_values=pixels.double(), **kept).logits_per_image[0]
    np.testing.assert_allclose(found.prediction.logits, wanted.numpy(), rtol=1e-9)
    other = clip.explain(labels[0], image=drawn(), method="gradient")
    np.testing.assert_allclose(other.prediction.logits[0], wanted[0].item(), rtol=1e-6)


def test_clip_target_label_is_the_name_of_the_stored_image(clip):
    text, picture = image_models.LABELS[0], Image.fromarray(drawn())
    named = clip.explain(text, image=StoredImage(picture, "cat.png"), method="random")
    assert named.target.label == "cat.png"
    assert (
        named.prediction.logits
        == clip.explain(text, image=picture, method="random").prediction.logits
    )


# ------------------------------------------------------------------------------------------ for real


def test_heatmaps_of_a_trained_model_lie_on_the_animal_in_photographs(shared):
    """The maps of a trained model fall on the animal, of which the outline is known."""
    import pyarrow.parquet as pq

    every = pq.read_table(shared / "data/oxford_pets/pets_heldout_a.parquet").to_pylist()
    rows = every[::35]
    explainer = whence.load(shared / "models/vit-pets")
    found = explainer.explain(
        [row["jpeg"] for row in rows], method=["generic_attention", "gradient"]
    )
    right, gains = 0, []
    for row, one in zip(rows, found, strict=True):
        mask = Image.open(BytesIO(row["trimap_png"])).resize((128, 128), Image.Resampling.NEAREST)
        on = np.asarray(mask) != 2
        heat = one["generic_attention"].heatmap()
        assert heat.shape == (128, 128) and one["gradient"].grid == (16, 16)
        gains.append(heat[on].mean() / heat[~on].mean())
        right += one["gradient"].prediction.index == row["species"]
    # Of held-out photographs it gets 90 of 100 right: fewer than 11 of these 15 would come once in 100 times.
    assert right >= 11 and len(rows) == 15
    # All over the picture alike would be 1.
    assert np.mean(gains) > 1.2
