"""Specificity of each method's maps on drawn pictures of two objects with known masks; results, page written.

    python -m bench.science.shapes [--scenes N] [--method M ...] [--device D] [--out FILE] [--page]

The figures are kept as bench/results/shapes.json; --page explains nothing and only writes docs/science/shapes.md from
what is there. Everything is built in: no data, no network. Runs from the source: PYTHONPATH=src:.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.science.shapes_page import PAGE, RESULT, render_page
from bench.science.transformers import round_numbers
from numpy.typing import NDArray
from scripts.draw_shapes import IMAGE_SIDE, SHAPE_CLASSES, Scene, draw_scene

import whence
from whence.core.errors import WhenceError
from whence.core.files import write_text
from whence.explain.explainer import Explainer
from whence.methods import method
from whence.render.colour import compute_heatmap
from whence.stats.intervals import bootstrap
from whence.stats.segmentation import compute_pointing_hits, count_overlap, mean_iou

SCENES = 200
GRID = 8
PATCH = IMAGE_SIDE // GRID
TRUTH = "(the truth, by patch)"
Array = NDArray[np.float64]


def compute_patch_shares(mask: NDArray[np.bool_]) -> Array:
    """Return the share of each patch that a mask covers, (8, 8)."""
    return np.asarray(mask.reshape(GRID, PATCH, GRID, PATCH).mean((1, 3)))


def measure_map(scores: Array, scene: Scene, label: str) -> dict[str, Array | float]:
    """Compare one map with the masks of its own and the other object; NaN where a measure is undefined."""
    own = scene.masks[label]
    (other,) = (mask for name, mask in scene.masks.items() if name != label)
    smooth = compute_heatmap(scores, (GRID, GRID), (IMAGE_SIDE, IMAGE_SIDE))
    counted = count_overlap(smooth[None], own.astype(np.int8))
    highest = scores == scores.max()
    positive = np.maximum(scores, 0).reshape(GRID, GRID)
    total = positive.sum()
    # What a patch gets lies evenly over its pixels.
    on_own, on_other = ((positive * compute_patch_shares(mask)).sum() for mask in (own, other))
    return {
        "pointing": float(compute_pointing_hits(smooth[None], own.astype(np.int8))[0]),
        "touches": compute_pointing(highest, own),
        "touches_other": compute_pointing(highest, other),
        "overlap": np.concatenate([counted.shared[0], counted.joined[0]]),
        "mass": on_own / total if total else np.nan,
        "mass_other": on_other / total if total else np.nan,
        "specific": on_own / (on_own + on_other) if on_own + on_other else np.nan,
    }


def compute_pointing(highest: NDArray[np.bool_], mask: NDArray[np.bool_]) -> float:
    """Return whether the highest patch holds a pixel of the mask; of several, the share of those that do."""
    return float((compute_patch_shares(mask).ravel() > 0)[highest].mean())


def summarise_rows(rows: Sequence[Sequence[dict[str, Any]]], name: str) -> dict[str, Any]:
    """Return means over pictures, with intervals; the two maps of a picture are one observation."""
    found: dict[str, Any] = {}
    for what in ("pointing", "touches", "touches_other", "mass", "mass_other", "specific"):
        pairs = np.array([[one[what] for one in row] for row in rows])
        known = ~np.isnan(pairs).any(1)
        if known.any():
            found[what] = asdict(bootstrap(pairs[known].mean(1), ("shapes", what, name)))
    counts = np.array([sum(one["overlap"] for one in row) for row in rows])
    found["miou"] = asdict(
        bootstrap(
            counts,
            ("shapes", "miou", name),
            statistic=lambda some: float(mean_iou(*some.sum(0).reshape(2, 2))),
        )
    )
    return found


def iterate_maps(
    explainer: Explainer, scenes: Sequence[Scene], name: str
) -> Iterator[tuple[int, str, Array]]:
    """Explain both objects of every picture; yield its number, the target and the scores."""
    for label in SHAPE_CLASSES:
        chosen = [number for number, scene in enumerate(scenes) if label in scene.labels]
        if chosen:
            explained = explainer.explain(
                [scenes[number].pixels for number in chosen], method=name, target=label
            )
            for number, one in zip(chosen, explained, strict=True):
                yield number, label, np.asarray(one.scores, dtype=np.float64)


def judge_method(
    scenes: Sequence[Scene], found: Iterator[tuple[int, str, Array]], name: str
) -> Any:
    """Measure all maps of one method."""
    rows: list[dict[str, dict[str, Any]]] = [{} for _ in scenes]
    for number, label, scores in found:
        rows[number][label] = measure_map(scores, scenes[number], label)
    return summarise_rows([[*row.values()] for row in rows], name)


def judge_all_methods(options: argparse.Namespace) -> dict[str, Any]:
    """Judge every method, and the upper bound that patches of this size allow."""
    explainer = whence.load("shapes", device=options.device)
    scenes = [draw_scene(number) for number in range(options.scenes)]
    said = explainer.predict([scene.pixels for scene in scenes])
    right = sum(
        {label for label, p in one.probabilities.items() if p > 0.5} == set(scene.labels)
        for one, scene in zip(said, scenes, strict=True)
    )
    truth = (
        (number, label, compute_patch_shares(mask).ravel())
        for number, scene in enumerate(scenes)
        for label, mask in scene.masks.items()
    )
    rows = {TRUTH: {"family": "", "seconds": None, **judge_method(scenes, truth, TRUTH)}}
    refused = {}
    for name in options.method or method.names():
        started = time.monotonic()
        try:
            figures = judge_method(scenes, iterate_maps(explainer, scenes, name), name)
        except WhenceError as error:
            refused[name] = str(error)
            continue
        seconds = time.monotonic() - started
        family = method.get(name).facts["family"]
        rows[name] = {"family": family, "seconds": seconds / (2 * len(scenes)), **figures}
        print(f"{name}: {seconds:.0f} s, mIoU {figures['miou']['mean']:.3f}", flush=True)
    cuda = explainer.loaded.device.type == "cuda"
    on = torch.cuda.get_device_name() if cuda else platform.machine()
    return {
        "scenes": len(scenes),
        "right": right,
        "methods": rows,
        "refused": refused,
        "provenance": {
            "whence": whence.__version__,
            "torch": str(torch.__version__),
            "machine": f"{on}, {os.cpu_count()} cores",
        },
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all methods, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=SCENES)
    parser.add_argument("--method", action="append", help="only this one; may be repeated")
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--page", action="store_true", help="write the page, and explain nothing")
    options = parser.parse_args(arguments)
    if not options.page:
        found = round_numbers(judge_all_methods(options))
        write_text(options.out, json.dumps(found, ensure_ascii=False, indent=1) + "\n")
    if options.out == RESULT:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        write_text(PAGE, render_page(json.loads(RESULT.read_text("utf-8"))))


if __name__ == "__main__":
    main()
