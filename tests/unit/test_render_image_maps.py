"""Image maps in terminal, text, HTML and PNG: heatmap pixels, captions, widths, trust cards, escaped text."""

import io
import re
from base64 import b64decode
from itertools import pairwise

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch.nn.functional import interpolate

from tests import trust_card_payloads
from whence.explain.report import build_document
from whence.render.colour import (
    FLAT_MAP_NOTE,
    IMAGE_NEGATIVE,
    IMAGE_POSITIVE,
    compute_heatmap,
    compute_hues,
    compute_opacity,
    scale_scores,
)
from whence.render.image_maps import (
    decode_png_base64,
    dim_image,
    encode_png_base64,
    overlay_scores,
    render_image_sheet_png,
)
from whence.trust.card import Trust

GRID = (4, 6)
PEAK, PIT = (1, 4), (3, 0)  # where a patch speaks for the class, and where against it
EVIL = '<img src=x onerror=alert(1)>"&'


def pixels():
    """A picture of 32 x 48: a ramp from left to right, so that no two columns are alike."""
    ramp = np.linspace(0, 255, 48).astype(np.uint8)
    return np.stack(
        [np.tile(ramp, (32, 1)), np.tile(ramp[::-1], (32, 1)), np.full((32, 48), 90, np.uint8)], -1
    )


def scores(signed=True):
    values = np.zeros(GRID)
    values[PEAK], values[PIT] = 2.0, -1.0 if signed else 0.5
    return values


def explanation(method="attcat", signed=True, values=None):
    own = (scores(signed) if values is None else np.asarray(values)).ravel().tolist()
    return {
        "method": method, "params": {}, "signed": signed, "scores": own, "word_scores": own, "axioms": {},
        "passes": {"forward": 1, "backward": 1}, "seconds": 0.1, "dtype": "float32",
    }  # fmt: skip


def patches():
    return [
        {"text": f"row {i // 6 + 1}, column {i % 6 + 1}", "start": None, "end": None, "segment": 0}
        for i in range(24)
    ]


def payload(*explanations, target="cat", name="photo.png"):
    labels = ["cat", "dog"]
    return {
        "version": 1,
        "model": {"name": "vit", "class": "ViTForImageClassification", "labels": labels},
        "input": {"text": None, "pair": None, "dropped": 0},
        "tokens": [{**one, "special": False, "id": i} for i, one in enumerate(patches())],
        "words": [{**one, "tokens": [i]} for i, one in enumerate(patches())],
        "prediction": {"label": "cat", "index": 0, "probability": 0.8, "probabilities": {"cat": 0.8, "dog": 0.2},
                       "logits": [1.0, 0.0]},
        "target": {"label": target, "index": labels.index(target) if target in labels else 1, "against": None,
                   "of": "logit"},
        "picture": {"width": 48, "height": 32, "grid": list(GRID), "png": encode_png_base64(pixels()), "name": name},
        "explanations": list(explanations) or [explanation()],
        "provenance": {"whence": "0"},
    }  # fmt: skip


def card():
    """The trust card of a picture, around the tests of the cards made by hand."""
    own = payload()
    method = {
        **trust_card_payloads.card()["methods"][0],
        "scores": own["explanations"][0]["scores"],
        "signed": True,
    }
    shared = {
        name: own[name]
        for name in ("tokens", "words", "prediction", "target", "picture", "model", "input")
    }
    return {
        **trust_card_payloads.card(),
        **shared,
        "methods": [method],
        "unit": "patch",
        "units": 24,
        "remove": ["mask"],
    }


@pytest.mark.parametrize("size", [(32, 48), (5, 7), (4, 6), (3, 2), (224, 224)])
@pytest.mark.parametrize("grid", [(4, 6), (1, 1), (1, 5), (7, 3)])
def test_compute_heatmap_equals_bilinear_interpolation_of_torch(grid, size):
    values = torch.arange(grid[0] * grid[1], dtype=torch.float64).cos()
    twin = interpolate(values.reshape(1, 1, *grid), size, mode="bilinear", align_corners=False)[
        0, 0
    ]
    # Sums of at most four products in float64, in another order.
    np.testing.assert_allclose(
        compute_heatmap(values.numpy(), grid, size), twin.numpy(), atol=1e-14
    )


def test_scale_scores_equals_hand_computed_values_and_is_zero_for_level_scores():
    # Signed: by the largest size, 4. Unsigned: from the smallest, 1, to the largest, 5.
    np.testing.assert_array_equal(scale_scores([2.0, -4.0, 0.0], signed=True), [0.5, -1.0, 0.0])
    np.testing.assert_array_equal(scale_scores([1.0, 5.0, 2.0], signed=False), [0.0, 1.0, 0.25])
    for level in ([0.0, 0.0], [0.3, 0.3], []):
        assert not scale_scores(level, signed=False).any()


def luminance(colour):
    return float(np.array(colour) @ [0.299, 0.587, 0.114])


def test_map_colours_brighten_evenly_and_signs_differ_in_blue():
    bright = [luminance(compute_hues(np.array(step / 20), signed=False)) for step in range(21)]
    assert all(b - a > 3 for a, b in pairwise(bright))
    # What is left to people without red or green cones, blue against the rest, tells the two sides apart.
    assert (
        IMAGE_POSITIVE[2] - max(IMAGE_POSITIVE[:2]) > 80
        and min(IMAGE_NEGATIVE[:2]) - IMAGE_NEGATIVE[2] > 80
    )


def test_overlay_scores_colours_scored_patches_and_leaves_others_grey():
    drawn = overlay_scores(pixels(), scores(), GRID, signed=True)
    assert drawn.shape == (32, 48, 3) and drawn.dtype == np.uint8
    high, low = drawn[12, 36], drawn[28, 4]  # the middles of the two patches, 8 pixels a side
    # Of an even number of pixels none is the very middle: what is nearest has 15/16 of the score both ways.
    alpha = compute_opacity(np.array((15 / 16) ** 2))
    expected = dim_image(pixels())[12, 36] * (1 - alpha) + np.array(IMAGE_POSITIVE) * alpha
    np.testing.assert_allclose(high, expected, atol=0.51)
    assert low[0] > low[2] and high[2] > high[0]
    blank = drawn[4, 4]
    assert blank[0] == blank[1] == blank[2] == round(float(dim_image(pixels())[4, 4, 0]))


def test_decode_png_base64_restores_encoded_pixels_and_refuses_bad_base64():
    np.testing.assert_array_equal(decode_png_base64(encode_png_base64(pixels())), pixels())
    with pytest.raises(ValueError):
        decode_png_base64("not base64!")


def open_png(data):
    picture = Image.open(io.BytesIO(data))
    assert picture.format == "PNG"
    return picture, np.asarray(picture.convert("RGB")).astype(int)


def test_image_sheet_has_a_row_per_target_and_colours_the_scored_patch():
    maps = [explanation("attcat"), explanation("rollout", signed=False)]
    picture, seen = open_png(render_image_sheet_png([payload(*maps), payload(*maps, target="dog")]))
    told = picture.text["Description"]
    for part in (
        "vit, photo.png: cat (80.0%)",
        "attcat for cat (80.0%)",
        "rollout for dog (20.0%), scores from 0 to 2",
        "Full colour",
    ):
        assert part in told
    # The picture grows five times to 160 x 240; margins 28, 64 above, a gap of 16 between maps.
    assert seen.shape[1] == 2 * 28 + 3 * 240 + 2 * 16
    np.testing.assert_array_equal(seen[92 + 2, 28 + 2], pixels()[0, 0])
    x, y = 28 + 240 + 16 + 36 * 5, 92 + 12 * 5
    assert seen[y, x, 2] - seen[y, x, 0] > 100  # blue
    assert seen[y, x + 256].argmin() == 2  # yellow, in the map without sign
    below = 160 + 70 + 16
    assert seen[y + below, x, 2] - seen[y + below, x, 0] > 100
    assert (seen[y + below, 28 + 100] == 255).all()  # the picture stands in the first row alone


def crop_caption(data, column=1):
    _, seen = open_png(data)
    left = 28 + column * 256
    return seen[92 + 160 : 92 + 160 + 50, left : left + 240]


def test_image_sheet_captions_differ_by_method_and_stay_in_their_columns():
    one, other = (
        crop_caption(render_image_sheet_png([payload(explanation(name))]))
        for name in ("attcat", "rollout")
    )
    assert (one < 100).any() and (one != other).any()
    long = render_image_sheet_png([payload(explanation("attcat" * 30), explanation("b"))])
    _, seen = open_png(long)
    gap = seen[92 + 160 : 92 + 210, 28 + 256 + 240 :][
        :, :12
    ]  # a letter of the next may lean out a little
    assert (gap == 255).all()


def test_image_sheet_replaces_characters_without_glyph_and_describes_the_full_label():
    data = render_image_sheet_png([payload(target="Käfer 甲虫")])
    assert "Käfer 甲虫" in open_png(data)[0].text["Description"]
    assert (
        crop_caption(data) == crop_caption(render_image_sheet_png([payload(target="Kafer ??")]))
    ).all()


def test_image_sheet_of_seven_methods_wraps_to_a_second_line():
    many = [explanation(f"method_{i}") for i in range(7)]
    _, seen = open_png(render_image_sheet_png([payload(*many)]))
    assert seen.shape[1] == 2 * 28 + 6 * 240 + 5 * 16
    assert seen.shape[0] > 92 + 2 * (160 + 70 + 16)


def print_to_terminal(shown, width, **options):
    stream = io.StringIO()
    settings = {"force_terminal": True, "color_system": "truecolor", **options}
    Console(file=stream, width=width, **settings).print(shown)
    return stream.getvalue()


PIPED = {"force_terminal": False, "color_system": "auto"}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
@pytest.mark.parametrize("options", [{}, PIPED])
def test_terminal_shows_strongest_patches_as_bars_no_wider_than_the_terminal(width, options):
    both = build_document([payload(), payload(target="dog")]).to_terminal()
    text = ESCAPE.sub("", print_to_terminal(both, width, **options))
    assert max(map(len, text.splitlines())) <= width
    words = " ".join(text.split())
    assert "--out FILE.png" in words and "attcat for dog" in words
    assert "row 2, column 5" in words and "█" * 16 in text


def test_flat_map_is_rendered_grey_with_a_note():
    own = payload(explanation("rollout", signed=False, values=np.full(GRID, 0.25)))
    printed = print_to_terminal(build_document([own]).to_terminal(), 80)
    assert FLAT_MAP_NOTE in " ".join(ESCAPE.sub("", printed).split())
    assert FLAT_MAP_NOTE in build_document([own]).to_html()
    drawn = np.asarray(
        Image.open(io.BytesIO(decode_page_images(build_document([own]).to_html())[1]))
    )
    assert (drawn[..., 0] == drawn[..., 2]).all()


def decode_page_images(html):
    found = re.findall(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"', html)
    return [b64decode(one) for one in found]


def test_html_page_holds_the_image_its_maps_and_a_table_of_patches():
    two = [explanation(), explanation("rollout", signed=False)]
    html = build_document([payload(*two), payload(*two, target="dog")]).to_html()
    assert html.count("<section") == 1  # one picture, one section, however many classes
    sizes = [Image.open(io.BytesIO(one)).size for one in decode_page_images(html)]
    assert sizes == [(240, 160)] * 5
    assert "photo.png" in html and "for dog (20.0%)" in html
    assert (
        html.count('<th scope="row" class="brief">row 2, column 5</th><td class="n brief">+2</td>')
        == 4
    )
    assert 'alt="attcat for cat (80.0%)"' in html
    assert not re.findall(r"<script|https?://", html)


def test_document_joins_targets_of_one_image_and_separates_texts():
    other = payload(name="other.png")
    text = {**payload(), "picture": None}
    document = build_document([payload(), payload(target="dog"), other, text, text])
    assert len(document.sections) == 4
    assert build_document([payload(), other]).to_html().count("<section") == 2


def test_hostile_names_and_labels_are_escaped_in_html_terminal_and_png():
    evil = payload(explanation(EVIL), target=EVIL, name=EVIL)
    for html in (build_document([evil]).to_html(), build_document([evil]).to_html(fragment=True)):
        assert "<img src=x" not in html and "onerror=alert(1)>" not in html
        assert "&lt;img src=x" in html
    steering = payload(explanation("a\x1b[2Jb"), target="c\x1b[31md", name="e\x1b]0;f")
    out = print_to_terminal(build_document([steering]).to_terminal(), 80)
    assert "\x1b[2J" not in out and "\x1b[31m" not in out
    assert "\x1b" not in build_document([steering]).to_text()
    assert "\x1b" not in open_png(render_image_sheet_png([steering]))[0].text["Description"]


def test_explanation_text_names_patches_by_row_and_column():
    lines = build_document([payload()], top=2).to_text().splitlines()
    assert lines[0] == "vit: cat (80.0%)" and "attcat for cat" in lines
    assert lines[-2:] == ["  row 2, column 5  +2", "  row 4, column 1  -1"]


def test_trust_card_of_an_image_shows_the_image_and_counts_patches():
    html = Trust(card()).to_html()
    assert len(decode_page_images(html)) == 2
    assert "patches removed" in html and "All patches" in html
    assert "random rankings of the same picture" in html
    for out in (print_to_terminal(Trust(card()), 80), str(Trust(card()))):
        assert "24 patches" in out and "tokens" not in out and "of the same text" not in out
