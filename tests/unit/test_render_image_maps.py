"""Maps over pictures on every surface: pixels are decoded and looked at, and no user's text can leave its place."""

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

from tests import cards
from whence.report import fragment, page, plain
from whence.report.card import page as card_page
from whence.report.card import plain as card_plain
from whence.report.card.terminal import render as card_render
from whence.report.picture.colour import AGAINST, FOR, LEVEL, colour_of, scaled, strengths
from whence.report.picture.drawing import sheet
from whence.report.picture.figures import figures
from whence.report.picture.maps import alike
from whence.report.picture.overlay import dimmed, overlay
from whence.report.picture.png import decoded, encoded
from whence.report.terminal import render, render_all
from whence.view.heat import heatmap, strongest

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
        "picture": {"width": 48, "height": 32, "grid": list(GRID), "png": encoded(pixels()), "name": name},
        "explanations": list(explanations) or [explanation()],
        "provenance": {"whence": "0"},
    }  # fmt: skip


def card():
    """The trust card of a picture, around the tests of the cards made by hand."""
    own = payload()
    method = {
        **cards.card()["methods"][0],
        "scores": own["explanations"][0]["scores"],
        "signed": True,
    }
    shared = {
        name: own[name]
        for name in ("tokens", "words", "prediction", "target", "picture", "model", "input")
    }
    return {
        **cards.card(),
        **shared,
        "methods": [method],
        "unit": "patch",
        "units": 24,
        "remove": ["mask"],
    }


@pytest.mark.parametrize("size", [(32, 48), (5, 7), (4, 6), (3, 2), (224, 224)])
@pytest.mark.parametrize("grid", [(4, 6), (1, 1), (1, 5), (7, 3)])
def test_a_heatmap_is_torchs_interpolation(grid, size):
    values = torch.arange(grid[0] * grid[1], dtype=torch.float64).cos()
    twin = interpolate(values.reshape(1, 1, *grid), size, mode="bilinear", align_corners=False)[
        0, 0
    ]
    # Sums of at most four products in float64, in another order.
    np.testing.assert_allclose(heatmap(values.numpy(), grid, size), twin.numpy(), atol=1e-14)


def test_the_strongest_patches_by_hand():
    first, second = strongest([0.0, -3.0, 1.0, 2.0, 0.0, 0.0], (2, 3), 2)
    # Place 1 is in the first row and second column, place 3 begins the second row.
    assert (first.row, first.column, first.score) == (1, 2, -3.0)
    assert str(second) == "row 2, column 1"


def test_scales_by_hand():
    # Signed: by the largest size, 4. Unsigned: from the smallest, 1, to the largest, 5.
    np.testing.assert_array_equal(scaled([2.0, -4.0, 0.0], signed=True), [0.5, -1.0, 0.0])
    np.testing.assert_array_equal(scaled([1.0, 5.0, 2.0], signed=False), [0.0, 1.0, 0.25])
    for level in ([0.0, 0.0], [0.3, 0.3], []):
        assert not scaled(level, signed=False).any()


def luminance(colour):
    return float(np.array(colour) @ [0.299, 0.587, 0.114])


def test_the_ramp_brightens_evenly_and_the_two_sides_differ_without_red_and_green():
    bright = [luminance(colour_of(step / 20, signed=False)) for step in range(21)]
    assert all(b - a > 3 for a, b in pairwise(bright))
    # What is left to people without red or green cones, blue against the rest, tells the two sides apart.
    assert FOR[2] - max(FOR[:2]) > 80 and min(AGAINST[:2]) - AGAINST[2] > 80


def test_an_overlay_is_strongest_where_the_score_is_and_grey_where_there_is_none():
    drawn = overlay(pixels(), scores(), GRID, signed=True)
    assert drawn.shape == (32, 48, 3) and drawn.dtype == np.uint8
    high, low = drawn[12, 36], drawn[28, 4]  # the middles of the two patches, 8 pixels a side
    # Of an even number of pixels none is the very middle: what is nearest has 15/16 of the score both ways.
    alpha = strengths(np.array((15 / 16) ** 2))
    expected = dimmed(pixels())[12, 36] * (1 - alpha) + np.array(FOR) * alpha
    np.testing.assert_allclose(high, expected, atol=0.51)
    assert low[0] > low[2] and high[2] > high[0]
    blank = drawn[4, 4]
    assert blank[0] == blank[1] == blank[2] == round(float(dimmed(pixels())[4, 4, 0]))


def test_pixels_come_back_from_letters():
    np.testing.assert_array_equal(decoded(encoded(pixels())), pixels())
    with pytest.raises(ValueError):
        decoded("not base64!")


def opened(data):
    picture = Image.open(io.BytesIO(data))
    assert picture.format == "PNG"
    return picture, np.asarray(picture.convert("RGB")).astype(int)


def test_a_sheet_has_a_row_for_each_class_and_the_map_where_the_score_is():
    maps = [explanation("attcat"), explanation("rollout", signed=False)]
    picture, seen = opened(sheet([payload(*maps), payload(*maps, target="dog")]))
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


def caption(data, column=1):
    _, seen = opened(data)
    left = 28 + column * 256
    return seen[92 + 160 : 92 + 160 + 50, left : left + 240]


def test_captions_are_written_and_differ_and_stay_in_their_columns():
    one, other = (caption(sheet([payload(explanation(name))])) for name in ("attcat", "rollout"))
    assert (one < 100).any() and (one != other).any()
    long = sheet([payload(explanation("attcat" * 30), explanation("b"))])
    _, seen = opened(long)
    gap = seen[92 + 160 : 92 + 210, 28 + 256 + 240 :][
        :, :12
    ]  # a letter of the next may lean out a little
    assert (gap == 255).all()


def test_a_label_that_the_font_lacks_is_drawn_as_far_as_can_be_and_told_in_full():
    data = sheet([payload(target="Käfer 甲虫")])
    assert "Käfer 甲虫" in opened(data)[0].text["Description"]
    assert (caption(data) == caption(sheet([payload(target="Kafer ??")]))).all()


def test_many_methods_go_to_the_next_line():
    many = [explanation(f"method_{i}") for i in range(7)]
    _, seen = opened(sheet([payload(*many)]))
    assert seen.shape[1] == 2 * 28 + 6 * 240 + 5 * 16
    assert seen.shape[0] > 92 + 2 * (160 + 70 + 16)


def printed(shown, width, **options):
    stream = io.StringIO()
    settings = {"force_terminal": True, "color_system": "truecolor", **options}
    Console(file=stream, width=width, **settings).print(shown)
    return stream.getvalue()


PIPED = {"force_terminal": False, "color_system": "auto"}
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_a_terminal_shows_picture_and_maps_no_wider_than_it_is(width):
    both = render_all([payload(), payload(target="dog")])
    out = printed(both, width)
    lines = ESCAPE.sub("", out).splitlines()
    assert max(map(len, lines)) <= width
    first = next(line for line in lines if "▀" in line)
    blocks = [len(run) for run in re.findall("▀+", first)]
    assert len(blocks) == {20: 1, 40: 2, 80: 3, 200: 3}[width]
    assert blocks[0] == {20: 20, 40: 19, 80: 25, 200: 44}[width]
    # Blue, with all its strength, is somewhere in the map.
    assert re.search(r"38;2;[0-9]{1,2};1[0-9]{2};2[0-9]{2}", out)
    assert "dog (20.0%)" in ESCAPE.sub("", out)


@pytest.mark.parametrize("options", [PIPED, {"no_color": True}, {"color_system": "256"}])
def test_without_colours_figures_stand_for_patches_and_it_says_so(options):
    out = printed(render(payload()), 60, **options)
    text = ESCAPE.sub("", out)
    assert "▀" not in text
    assert "No picture here" in text and "--out FILE.png" in " ".join(text.split())
    assert (
        " . . . . 9 ." in text and "-4 . . . . ." in text
    )  # -1 of 2 is 4.5 of 9, which rounds to even
    assert "48;2" not in out
    if options is PIPED:
        assert "\x1b" not in out


def test_figures_are_pooled_where_a_row_is_too_wide():
    # 6 columns of 2 characters in a width of 6: squares of 2 x 2, whose means are 2/4 and -1/4.
    lines = figures(payload(), explanation(), 6)
    assert lines[:2] == [" . . 9", "-4 . ."]
    assert "the mean of 2 x 2 patches" in lines[2]


def test_a_level_map_says_that_nothing_stands_out():
    own = payload(explanation("rollout", signed=False, values=np.full(GRID, 0.25)))
    assert LEVEL in printed(render(own), 80) and LEVEL in page([own])
    drawn = np.asarray(Image.open(io.BytesIO(images(page([own]))[1])))
    assert (drawn[..., 0] == drawn[..., 2]).all()


def images(html):
    found = re.findall(r'src="data:image/png;base64,([A-Za-z0-9+/=]+)"', html)
    return [b64decode(one) for one in found]


def test_a_page_carries_the_picture_the_maps_and_a_table_of_patches():
    two = [explanation(), explanation("rollout", signed=False)]
    html = page([payload(*two), payload(*two, target="dog")])
    assert html.count("<section>") == 1  # one picture, one section, however many classes
    sizes = [Image.open(io.BytesIO(one)).size for one in images(html)]
    assert sizes == [(240, 160)] * 5
    assert "photo.png" in html and "for dog (20.0%)" in html
    row = '<tr><td class="n">2</td><td class="n">5</td><td class="n">+2</td>'
    assert html.count(row) == 4
    assert 'alt="attcat for cat (80.0%)"' in html
    assert not re.findall(r"<script|https?://", html)


def test_two_pictures_are_two_sections_and_a_text_stays_alone():
    other = payload(name="other.png")
    text = {"picture": None}
    groups = alike([payload(), payload(target="dog"), other, text, text])
    assert [len(group) for group in groups] == [2, 1, 1, 1]
    assert page([payload(), other]).count("<section>") == 2


def test_names_and_labels_cannot_leave_their_place():
    evil = payload(explanation(EVIL), target=EVIL, name=EVIL)
    for html in (page([evil]), fragment(evil)):
        assert "<img src=x" not in html and "onerror=alert(1)>" not in html
        assert "&lt;img src=x" in html
    steering = payload(explanation("a\x1b[2Jb"), target="c\x1b[31md", name="e\x1b]0;f")
    out = printed(render(steering), 80)
    assert "\x1b[2J" not in out and "\x1b[31m" not in out
    assert "\x1b" not in plain(steering)
    assert "\x1b" not in opened(sheet([steering]))[0].text["Description"]


def test_plain_text_names_patches():
    lines = plain(payload(), top=2).splitlines()
    assert lines == [
        "vit: cat (80.0%)",
        "attcat for cat:",
        "  row 2, column 5  +2",
        "  row 4, column 1  -1",
    ]


def test_a_trust_card_shows_the_picture_and_speaks_of_patches():
    html = card_page(card())
    assert len(images(html)) == 2
    assert "patches removed" in html and "All patches" in html
    assert "random rankings of the same picture" in html
    for out in (printed(card_render(card()), 80), card_plain(card())):
        assert "24 patches" in out and "tokens" not in out and "of the same text" not in out
    assert "▀" in printed(card_render(card()), 80)
    assert " . . . . 9 ." in printed(card_render(card()), 80, **PIPED)
