"""Collages of a cat and a dog: share of each class's map that falls on its animal."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image

from whence.core.errors import WhenceError
from whence.core.seed import build_generator
from whence.data.example import Example, read_mask
from whence.data.images import open_image
from whence.explain.explainer import Explainer
from whence.explain.pipeline import describe_origin
from whence.render.colour import compute_heatmap
from whence.stats.intervals import bootstrap
from whence.stats.segmentation import share_inside
from whence.studies.evaluation.statistics import interval_to_dict

SIDE = 128
HALF = SIDE // 2
TARGETS = ("cat", "dog")
RANDOM = 5  # maps for each collage
BATCH = 20

Numbers = np.ndarray[Any, np.dtype[np.float64]]


def draw_pairs(explainer: Explainer, data: Sequence[Example], pairs: int) -> list[tuple[int, int]]:
    """Draw pairs of photographs, a cat and a dog each, that the model classifies rightly on their own."""
    found: dict[str, list[int]] = {name: [] for name in TARGETS}
    order = build_generator("pets", "collages", 0).permutation(len(data)).tolist()
    for start in range(0, len(order), BATCH):
        some = order[start : start + BATCH]
        said = explainer.predict([data[number].given for number in some])
        for number, one in zip(some, said, strict=True):
            truth = data[number].label
            if truth in (one.label, str(one.index)):
                found[one.label].append(number)
        if min(map(len, found.values())) >= pairs:
            break
    return list(zip(found["cat"], found["dog"], strict=False))[:pairs]


def build_collage(
    cat: Example, dog: Example, flip: bool, squeezed: bool
) -> tuple[Image.Image, dict[str, Any]]:
    """Return two photographs side by side, and the masks of both animals.

    Of each it is the half with most of the animal, or all of it, squeezed to half of the width.
    """
    whole = Image.new("RGB", (SIDE, SIDE))
    masks = {}
    for place, (name, one) in enumerate([("cat", cat), ("dog", dog)]):
        left = HALF * (place != flip)
        assert one.mask is not None
        outline = Image.fromarray((read_mask(one.mask) == 1).astype(np.uint8))
        width = HALF if squeezed else SIDE
        animal = np.asarray(outline.resize((width, SIDE), Image.Resampling.NEAREST), dtype=bool)
        columns = np.concatenate([[0], animal.sum(0).cumsum()])
        start = int(np.argmax(columns[HALF:] - columns[:-HALF]))
        photograph = open_image(one.given).resize((width, SIDE), Image.Resampling.BILINEAR)
        whole.paste(photograph.crop((start, 0, start + HALF, SIDE)), (left, 0))
        inside = np.zeros((SIDE, SIDE), dtype=bool)
        inside[:, left : left + HALF] = animal[:, start : start + HALF]
        masks[name] = inside
    return whole, masks


def compute_shares(maps: Numbers, masks: Mapping[str, Any], target: str) -> tuple[Numbers, Numbers]:
    """Return each positive map's share on the right animal: of the whole map, and of its part on both animals."""
    right, either = masks[target], masks["cat"] | masks["dog"]
    of_all = share_inside(maps, right)
    return of_all, share_inside(maps * either, right)


def measure_collages(
    explainer: Explainer,
    data: Sequence[Example],
    methods: Sequence[str],
    params: Mapping[str, Mapping[str, Any]],
    pairs: int,
    squeezed: bool,
) -> dict[str, Any]:
    """Measure the shares for every method and both targets, over so many collages."""
    started = time.monotonic()
    chosen = draw_pairs(explainer, data, pairs)
    made = [
        build_collage(data[cat], data[dog], number % 2 == 1, squeezed)
        for number, (cat, dog) in enumerate(chosen)
    ]
    pictures = [picture for picture, _ in made]
    said = [one.label for one in explainer.predict(pictures)]
    rows, failed = {}, {}
    for name in methods:
        try:
            rows[name] = _measure_method(explainer, made, name, params.get(name, {}))
        except WhenceError as error:
            failed[name] = str(error)
        print(f"collages {time.monotonic() - started:5.0f} s  {name}", flush=True)
    rows["random"] = _measure_chance(explainer, made)
    return {
        **describe_origin(explainer.loaded),
        "pairs": len(made),
        "said_cat": said.count("cat"),
        "methods": {name: _summarise(own, rows["random"]) for name, own in rows.items()},
        "failed": failed,
        "area": {name: float(np.mean([masks[name].mean() for _, masks in made])) for name in TARGETS},
        "seconds": time.monotonic() - started,
    }  # fmt: skip


def _measure_method(
    explainer: Explainer, made: Sequence[tuple[Any, Any]], name: str, params: Mapping[str, Any]
) -> Numbers:
    """Return the shares, (collages, targets, kinds of share)."""
    found = np.full((len(made), len(TARGETS), 2), np.nan)
    for column, target in enumerate(TARGETS):
        pictures = [picture for picture, _ in made]
        explained = explainer.explain(
            pictures, method=name, params=params, target=target, batch_size=BATCH
        )
        for row, (one, (_, masks)) in enumerate(zip(explained, made, strict=True)):
            both = compute_shares(one.heatmap()[None].astype(np.float64), masks, target)
            found[row, column] = [float(share[0]) for share in both]
    return found


def _measure_chance(explainer: Explainer, made: Sequence[tuple[Any, Any]]) -> Numbers:
    found = np.full((len(made), len(TARGETS), 2), np.nan)
    side = explainer.model.config.image_size // explainer.model.config.patch_size
    for row, (_, masks) in enumerate(made):
        draw = build_generator("pets", "random maps", row)
        maps = np.stack(
            [
                compute_heatmap(draw.permutation(side * side), (side, side), (SIDE, SIDE))
                for _ in range(RANDOM)
            ]
        )
        for column, target in enumerate(TARGETS):
            found[row, column] = [share.mean() for share in compute_shares(maps, masks, target)]
    return found


def _summarise(own: Numbers, chance: Numbers) -> dict[str, Any]:
    """Return means with intervals, for each target and both: of the whole map, and of its part on animals."""
    told: dict[str, Any] = {}
    for kind, name in enumerate(("of the map", "of what is on either animal")):
        columns = {"cat": own[:, 0, kind], "dog": own[:, 1, kind], "both": own[:, :, kind].mean(1)}
        for target, values in columns.items():
            known = values[~np.isnan(values)]
            key = ("pets", name, target)
            told[f"{target}, {name}"] = (
                interval_to_dict(bootstrap(known, key)) if len(known) else None
            )
    wins = (own[:, :, 1] > 0.5).astype(np.float64)
    wins[np.isnan(own[:, :, 1])] = np.nan
    for column, target in enumerate(TARGETS):
        known = wins[:, column][~np.isnan(wins[:, column])]
        told[f"{target}, most on the right one"] = (
            interval_to_dict(bootstrap(known, ("pets", "wins", target))) if len(known) else None
        )
    gain = own[:, :, 1].mean(1) - chance[:, :, 1].mean(1)
    known = gain[~np.isnan(gain)]
    told["gain over random"] = (
        interval_to_dict(bootstrap(known, ("pets", "gain"))) if len(known) else None
    )
    return told
