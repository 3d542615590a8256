"""Page docs/science/shapes.md, from the results of bench.science.shapes."""

import json
from collections.abc import Mapping
from typing import Any

from bench.science.transformers import RESULTS, ROOT

RESULT = RESULTS / "shapes.json"
MODEL = RESULTS / "shapes-model.json"
PAGE = ROOT / "docs" / "science" / "shapes.md"
INTRO = """# Does the map of a class fall on its object?

`shapes` is a small ViT, built in, that says which of eight shapes are on a picture ([how it was
trained](../../src/whence/models/builtin/shapes/README.md)). They are drawn by `scripts/draw_shapes.py`: two
objects of different classes on textured ground, never overlapping, with the exact mask of each. So it is known where
the map of a class belongs, and anyone can check it offline:

```sh
whence explain --image shapes:7 --model shapes --target ring --out ring.png
```

<!-- not run: takes long -->
```sh
python -m bench.science.shapes      # this page
```

The model is multi-label and also learnt from pictures of one object and of none, so that one object is no evidence
about the other; how far it keeps to that is to be seen in the row of `leave_one_out`, which tries it out.

- **points at it**: the highest pixel of the map (bilinear between the middles of the patches) is on the object: the
  pointing game.
- **its patches**, **the other's**: the highest patch holds at least a pixel of the object, or of the other one. The
  middle of a ring or a crescent is empty, so this is the kinder count.
- **mIoU**: the map is cut at its mean; mean over ground and object of intersection over union, counted over all maps
  (the segmentation protocol of Chefer et al. 2021).
- **mass on it**, **on the other**: the share of the positive score that lies there. A patch's score lies evenly over
  its pixels.
- **its own**: of the positive score that lies on either object, the share on the right one. A map that does not
  depend on the class gets 1/2. Of a picture of which one map is nowhere positive there is no such share; n is then
  given.

Every figure is a mean over pictures (both of their objects were the target once, and count together) with its 95%
bootstrap interval. No map can be finer than its patches of 8 x 8 pixels: the first row is the map that gives every
patch the share of it that the object covers. The row `random` is what a map that knows nothing gets. Methods have
their default settings; patches are taken away by putting the picture's mean colour in their place. Written by
`python -m bench.science.shapes` from `bench/results/shapes.json`.
"""
COLUMNS = {
    "pointing": "points at it",
    "touches": "its patches",
    "touches_other": "the other's",
    "miou": "mIoU",
    "mass": "mass on it",
    "mass_other": "on the other",
    "specific": "its own",
}

Facts = Mapping[str, Any]


def format_figure(one: Facts | None, said: int) -> str:
    """Format a mean with its interval, and n where it is not `said`."""
    if one is None:
        return "–"
    ends = "" if one["low"] is None else f" [{one['low']:.3f}, {one['high']:.3f}]"
    n = "" if one["n"] == said else f" (n = {one['n']})"
    return f"{one['mean']:.3f}{ends}{n}"


def order_methods(rows: Facts) -> list[str]:
    """Return the methods by specificity, between the upper bound and the null."""

    def get_rank(name: str) -> tuple[int, float]:
        ends = -1 if name.startswith("(") else int(name == "random")
        return ends, -rows[name].get("specific", {"mean": 0.0})["mean"]

    return sorted(rows, key=get_rank)


def _find_best(rows: Facts, what: str) -> str:
    """Return the method with the highest mean."""
    return max((name for name in rows if what in rows[name]), key=lambda k: rows[k][what]["mean"])


def format_findings(found: Facts) -> str:
    """Return the main findings, with figures from the file."""
    n = found["scenes"]
    rows = {k: v for k, v in found["methods"].items() if not k.startswith("(") and k != "random"}
    chance = found["methods"].get("random")
    if not rows or chance is None:
        return ""
    blind = [
        k for k, v in rows.items() if "specific" in v and abs(v["specific"]["mean"] - 0.5) < 1e-6
    ]
    apart, points, outlines = (_find_best(rows, what) for what in ("specific", "pointing", "miou"))
    worse = [k for k, v in rows.items() if v["miou"]["high"] < chance["miou"]["low"]]
    wrong = [k for k in order_methods(rows) if rows[k].get("specific", {"high": 1.0})["high"] < 0.5]
    wrong = [name for name in wrong if name not in blind]
    lines = [
        f"The highest means: in keeping the classes apart `{apart}`, {format_figure(rows[apart]['specific'], n)}; in "
        f"pointing `{points}`, {format_figure(rows[points]['pointing'], n)}, random {format_figure(chance['pointing'], n)}; in "
        f"outlining `{outlines}`, mIoU {format_figure(rows[outlines]['miou'], n)}, random {format_figure(chance['miou'], n)}. "
        "Methods whose intervals overlap may be as good."
    ]
    if blind:
        names = ", ".join(f"`{name}`" for name in sorted(blind))
        lines.append(
            f"{names}: one map for every class. It cannot say which object speaks for which class."
        )
    if wrong:
        names = ", ".join(f"`{name}` {format_figure(rows[name]['specific'], n)}" for name in wrong)
        lines.append(f"Surely more on the other object than on the right one: {names}.")
    if worse:
        names = ", ".join(f"`{name}`" for name in sorted(worse))
        lines.append(f"Surely below the random map by mIoU: {names}.")
    lines.append(
        "This is one small model on drawn pictures; on photographs the order may be another."
    )
    return " ".join(lines)


def render_page(found: Facts) -> str:
    """Return the page."""
    n, rows = found["scenes"], found["methods"]
    model = json.loads(MODEL.read_text("utf-8"))["measured"]["2 objects"]["pictures"]
    lines = [
        INTRO,
        f"{n} pictures, {2 * n} maps for each method. The model is right about {found['right']} of these pictures, "
        f"both labels and no other ({model['right']:,} of {model['n']:,} held-out ones).",
        "",
        format_findings(found),
        "",
        f"| method | family | {' | '.join(COLUMNS.values())} |",
        f"|---|---|{'---|' * len(COLUMNS)}",
    ]
    for name in order_methods(rows):
        said = name if name.startswith("(") else f"`{name}`"
        cells = [format_figure(rows[name].get(what), n) for what in COLUMNS]
        lines.append(f"| {said} | {rows[name]['family']} | {' | '.join(cells)} |")
    if found["refused"]:
        lines += ["", "Not possible on this model:", ""]
        lines += [f"- `{name}`: {why}" for name, why in found["refused"].items()]
    return "\n".join(lines) + "\n"
