"""Drawn shapes: outlines, scenes and masks, and the built-in model that classifies them."""

import json
from functools import cache
from math import cos, hypot, pi, sin, sqrt
from pathlib import Path

import numpy as np
import pytest
from bench.science.shapes import compute_patch_shares, measure_map
from draw_shapes import (
    IMAGE_SIDE,
    MIN_GAP,
    OUTLINES,
    SHAPE_CLASSES,
    SHIPPED,
    SHIPPED_FOLDER,
    SUBPIXELS,
    TEXTURES,
    PlacedShape,
    Scene,
    draw_scene,
    place_shapes,
)
from PIL import Image
from shapes_card import render_card
from train_shapes import MIX

import whence
from whence.core.errors import BadParameter
from whence.data.images import SAMPLE_IMAGES, open_image
from whence.models.model_files import find_builtin_folder

ROOT = Path(__file__).resolve().parents[2]
FRESH = 50_000  # far from the numbers that the card's figures are of


@cache
def explainer():
    return whence.load("shapes")


# --- outlines, against twins ---------------------------------------------------------------------

HEART = 1 / sqrt(
    4 + pi
)  # half the side of its square: 4 h² of the square and two halves of π h² are 1


def is_in_round_shape(label, x, y):
    """A point in a shape with round parts, from its definition, one point at a time."""
    radius = OUTLINES[label].reach
    if label == "circle":
        return hypot(x, y) <= radius
    if label == "ring":
        return 0.6 * radius <= hypot(x, y) <= radius
    if label == "crescent":
        return hypot(x, y) <= radius and hypot(x - 0.5 * radius, y) >= 0.75 * radius
    u, v = x + HEART / 4, y + HEART / 4
    square = -HEART <= u <= HEART and -HEART <= v <= HEART
    return square or hypot(u - HEART, v) <= HEART or hypot(u, v - HEART) <= HEART


CORNERS = {
    "square": [(cos(k * pi / 2), sin(k * pi / 2)) for k in range(4)],
    "triangle": [(cos(k * 2 * pi / 3), sin(k * 2 * pi / 3)) for k in range(3)],
    "star": [(r * cos(k * pi / 5), r * sin(k * pi / 5)) for k, r in enumerate([1, 0.45] * 5)],
    "cross": [
        *((3, -1), (3, 1), (1, 1), (1, 3), (-1, 3), (-1, 1)),
        *((-3, 1), (-3, -1), (-1, -1), (-1, -3), (1, -3), (1, -1)),
    ],
}


def area(corners):
    """The area of a polygon, by triangles from the origin."""
    ends = zip(corners, [*corners[1:], *corners[:1]], strict=True)
    return abs(sum(a * d - b * c for (a, b), (c, d) in ends)) / 2


def clip_polygon(corners, axis, bound, sign):
    """The part of a polygon on one side of a line: sign * coordinate >= sign * bound."""
    kept = []
    for one, two in zip(corners, [*corners[1:], *corners[:1]], strict=True):
        before, after = sign * (one[axis] - bound), sign * (two[axis] - bound)
        if before >= 0:
            kept.append(one)
        if before * after < 0:
            part = before / (before - after)
            kept.append(tuple(a + part * (b - a) for a, b in zip(one, two, strict=True)))
    return kept


def exact_coverage(placed):
    """The exact part of each pixel that a polygon covers."""
    own = CORNERS[placed.label]
    scale = placed.size / sqrt(area(own))
    turned = [
        (
            placed.across + scale * (x * cos(placed.angle) - y * sin(placed.angle)),
            placed.down + scale * (x * sin(placed.angle) + y * cos(placed.angle)),
        )
        for x, y in own
    ]
    found = np.zeros((IMAGE_SIDE, IMAGE_SIDE))
    for row in range(IMAGE_SIDE):
        strip = clip_polygon(clip_polygon(turned, 1, row, 1), 1, row + 1, -1)
        for column in range(IMAGE_SIDE):
            found[row, column] = area(
                clip_polygon(clip_polygon(strip, 0, column, 1), 0, column + 1, -1)
            )
    return found


@pytest.mark.parametrize("label", ["circle", "ring", "crescent", "heart"])
def test_coverage_of_round_shapes_equals_their_definition_point_by_point(label):
    placed = PlacedShape(label, 30.3, 33.8, 17.3, 1.1)
    twin = np.zeros((IMAGE_SIDE, IMAGE_SIDE))
    for row in range(12, 56):
        for column in range(10, 52):
            for k in range(SUBPIXELS**2):
                down = row + (k // SUBPIXELS + 0.5) / SUBPIXELS - placed.down
                across = column + (k % SUBPIXELS + 0.5) / SUBPIXELS - placed.across
                x = (across * cos(1.1) + down * sin(1.1)) / placed.size
                y = (down * cos(1.1) - across * sin(1.1)) / placed.size
                twin[row, column] += is_in_round_shape(label, x, y) / SUBPIXELS**2
    assert np.array_equal(placed.coverage(), twin)


@pytest.mark.parametrize("label", list(CORNERS))
def test_coverage_of_polygons_is_within_subpixel_error_of_the_exact_area(label):
    placed = PlacedShape(label, 30.3, 33.8, 17.3, 1.1)
    exact, counted = exact_coverage(placed), placed.coverage()
    assert exact.sum() == pytest.approx(
        17.3**2
    )  # the twin has the whole of it: a shape of area 1, scaled
    # An edge crosses at most 15 of the 8 x 8 cells of a pixel; where it does, the middle of the cell lies on the side
    # that has at least half of it, so a cell is off by at most half of 1/64. Two edges meet in a pixel: twice that.
    off = np.abs(counted - exact)
    assert off.max() <= 2 * 15 / 128
    assert off[exact > 0].mean() < 0.01
    sure = np.abs(exact - 0.5) > 15 / 128
    assert np.array_equal((counted > 0.5)[sure], (exact > 0.5)[sure])


def test_outlines_have_unit_area_and_stay_within_their_reach():
    side = (np.arange(1000) + 0.5) / 500 - 1
    across, down = np.meshgrid(side, side)
    for label, outline in OUTLINES.items():
        inside = outline.inside(across, down)
        # A border of length below 8 crosses at most 2 x 8 x 500 of the 250,000 points of a unit; their errors average
        # out as those of so many coins: 0.5 * sqrt(8000) / 250,000 = 2e-4. A border along the lines of points does
        # not average: the cross stands straight, and is off by half a row on each side, 4e-3.
        assert inside.sum() / 250_000 == pytest.approx(1, abs=5e-3), label
        assert np.hypot(across, down)[inside].max() <= outline.reach


# --- scenes ----------------------------------------------------------------------------------------


def test_draw_scene_gives_labels_and_masks_of_the_placed_shapes():
    for number in range(100):
        scene, objects = draw_scene(number), place_shapes(number)
        assert scene.pixels.shape == (IMAGE_SIDE, IMAGE_SIDE, 3) and scene.pixels.dtype == np.uint8
        assert scene.labels == tuple(one.label for one in objects)
        assert len(set(scene.labels)) == 2 and set(scene.labels) <= set(SHAPE_CLASSES)
        assert list(scene.masks) == list(scene.labels)
        first, second = scene.masks.values()
        assert not (first & second).any()
        for one in objects:
            assert np.array_equal(scene.masks[one.label], one.coverage() > 0.5)
            # Pixels of the border count whole or not at all; there are some 4 of them to each pixel of size, each off
            # by at most half and as often up as down.
            assert scene.masks[one.label].sum() == pytest.approx(one.size**2, abs=2 * one.size)


def test_place_shapes_leaves_a_gap_and_stays_inside_the_image():
    for number in range(1000):
        one, two = place_shapes(number)
        reach = [OUTLINES[o.label].reach * o.size for o in (one, two)]
        assert hypot(one.across - two.across, one.down - two.down) >= sum(reach) + MIN_GAP
        for o, r in zip((one, two), reach, strict=True):
            assert r <= min(o.across, o.down, IMAGE_SIDE - o.across, IMAGE_SIDE - o.down)


def test_place_shapes_draws_every_class_equally_often():
    counts = dict.fromkeys(SHAPE_CLASSES, 0)
    for number in range(2000):
        for one in place_shapes(number):
            counts[one.label] += 1
    # Each is in a picture with probability 1/4: 500 of 2000, give or take 19; five times that is one in a million.
    assert all(abs(count - 500) < 97 for count in counts.values()), counts


def test_scene_colours_are_independent_of_the_class():
    colours = {label: [] for label in SHAPE_CLASSES}
    for number in range(400):
        scene = draw_scene(number)
        for label, mask in scene.masks.items():
            colours[label].append(scene.pixels[mask].mean(0))
    every = np.concatenate(list(colours.values()))
    for label, own in colours.items():
        # 24 means (8 classes, 3 channels), each within 4.5 standard errors: one in 6,000 by chance.
        error = every.std(0) / sqrt(len(own))
        assert (np.abs(np.mean(own, 0) - every.mean(0)) < 4.5 * error).all(), label


def test_draw_scene_of_a_number_is_reproducible_and_unique():
    again = draw_scene(7)
    assert np.array_equal(draw_scene(7).pixels, again.pixels)
    assert again.labels == ("square", "ring")  # the documents name it
    assert not np.array_equal(draw_scene(7, seed=1).pixels, again.pixels)
    assert len({draw_scene(number).pixels.tobytes() for number in range(50)}) == 50


def test_draw_scene_accepts_zero_to_two_objects_only():
    assert draw_scene(3, objects=0).labels == () and not draw_scene(3, objects=0).masks
    assert len(draw_scene(3, objects=1).labels) == 1
    with pytest.raises(BadParameter, match="0, 1 or 2"):
        draw_scene(3, objects=3)


@pytest.mark.parametrize("kind", TEXTURES)
def test_textures_have_values_between_zero_and_one(kind):
    field = TEXTURES[kind](np.random.default_rng(5), IMAGE_SIDE)
    assert field.shape == (IMAGE_SIDE, IMAGE_SIDE)
    assert 0 <= field.min() < field.max() <= 1


# --- the pictures that are shipped ---------------------------------------------------------------


def test_shipped_pictures_are_the_drawings_that_the_script_names():
    assert len(SHIPPED) == SAMPLE_IMAGES
    for place, number in enumerate(SHIPPED):
        scene = draw_scene(number)
        assert np.array_equal(np.asarray(open_image(f"shapes:{place}")), scene.pixels)
        objects = np.asarray(Image.open(SHIPPED_FOLDER / f"{place}_objects.png"))
        for value, mask in enumerate(scene.masks.values(), 1):
            assert np.array_equal(objects == value, mask)
    assert (SHIPPED[3], SHIPPED[7]) == (3, 7)  # the pages name these
    assert sum(path.stat().st_size for path in SHIPPED_FOLDER.iterdir()) <= 60_000


@pytest.mark.parametrize("number", ["", "-1", "12", "seven", "1.0", "07", "٣", "1" * 5000])
def test_open_image_of_a_sample_that_is_not_shipped_raises_bad_parameter(number):
    with pytest.raises(BadParameter, match=r"names no picture\. whence has shapes:0 to shapes:11"):
        open_image(f"shapes:{number}")


# --- the model -------------------------------------------------------------------------------------


def test_shapes_model_folder_is_small_and_its_card_has_the_stored_figures():
    folder = find_builtin_folder("shapes")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 4_000_000
    facts = json.loads((ROOT / "bench" / "results" / "shapes-model.json").read_text("utf-8"))
    assert (folder / "README.md").read_text("utf-8") == render_card(facts, MIX)
    assert facts["measured"]["2 objects"]["labels"]["share"] >= 0.95
    assert explainer().loaded.labels == SHAPE_CLASSES and explainer().loaded.task == "multi_label"
    assert facts["parameters"] == sum(p.numel() for p in explainer().model.parameters())


def test_shapes_model_predicts_fresh_scenes_as_well_as_its_card_states():
    scenes = [draw_scene(FRESH + number) for number in range(200)]
    said = explainer().predict([scene.pixels for scene in scenes])
    right = sum(
        {label for label, p in one.probabilities.items() if p > 0.5} == set(scene.labels)
        for one, scene in zip(said, scenes, strict=True)
    )
    # The card's interval says that at least 0.999 of the pictures are right. Of 200, four or more would then be wrong
    # with a probability of 5e-5.
    assert right >= 197


def test_leave_one_out_on_the_shapes_model_points_at_the_object():
    for number in range(FRESH, FRESH + 4):
        scene = draw_scene(number)
        for label in scene.labels:
            found = explainer().explain(scene.pixels, method="leave_one_out", target=label)
            assert compute_patch_shares(scene.masks[label]).ravel()[np.argmax(found.scores)] > 0


# --- what is measured --------------------------------------------------------------------------------


def test_measured_gives_hand_computed_pointing_and_mass_of_a_map():
    """Two objects of one patch each, a map with 3 on the one, 1 on the other, -2 elsewhere in one place."""
    masks = {
        "a": np.zeros((IMAGE_SIDE, IMAGE_SIDE), bool),
        "b": np.zeros((IMAGE_SIDE, IMAGE_SIDE), bool),
    }
    masks["a"][:8, :8] = True  # patch 0, all of it
    masks["b"][8:16, 8:12] = True  # patch 9, its left half
    scene = Scene(np.zeros((IMAGE_SIDE, IMAGE_SIDE, 3), np.uint8), ("a", "b"), masks)
    scores = np.zeros(64)
    scores[[0, 9, 20]] = 3, 1, -2
    own, other = measure_map(scores, scene, "a"), measure_map(scores, scene, "b")
    assert (own["pointing"], own["touches"], own["touches_other"]) == (1, 1, 0)
    assert (other["pointing"], other["touches"], other["touches_other"]) == (0, 0, 1)
    # Of 3 + 1 positive, 3 lie on a, and half of the 1 on b.
    assert own["mass"] == other["mass_other"] == pytest.approx(3 / 4)
    assert own["mass_other"] == other["mass"] == pytest.approx(1 / 8)
    assert own["specific"] == pytest.approx(6 / 7) and other["specific"] == pytest.approx(1 / 7)
    nothing = measure_map(-np.ones(64), scene, "a")
    assert np.isnan(nothing["mass"]) and np.isnan(nothing["specific"])
    assert nothing["touches"] == 1 / 64  # all patches are highest
