"""Page docs/science/pets.md, from the results of bench.science.pets."""

from collections.abc import Iterator, Sequence

from bench.science.figure_format import format_names, format_provenance, format_table
from bench.science.rows import ROOT, Facts

PAGE = ROOT / "docs" / "science" / "pets.md"

INTRO = """# Cats and dogs

The two tables of Chefer, Gur & Wolf ([CVPR 2021](https://arxiv.org/abs/2012.09838)), perturbation and
segmentation, on photographs with masks (Oxford-IIIT Pet) and a small ViT that tells cats from dogs; then collages
of one cat and one dog, where the map of each class must fall on its own animal. Figures are percentages with their
95% bootstrap interval over the photographs; `random` is what random rankings of the patches get on the same
photographs. Written by `python -m bench.science.pets`
(`make science-pets`) from `bench/results/pets.json`; it wants a GPU.
"""

# Table 1 and Table 2 of the paper, in percent: ViT-B/16 on ImageNet.
PAPER = {
    "rollout": (53.1, None, 20.05, None, 73.54, 84.76, 55.42),
    "raw_attention": (45.55, None, 23.99, None, 67.84, 80.24, 46.37),
    "attention_gradcam": (41.52, 42.02, 34.06, 33.56, 64.44, 71.60, 40.82),
    "full_lrp": (43.49, 43.49, 41.94, 41.93, 51.09, 55.68, 32.89),
    "partial_lrp": (50.49, 50.49, 19.64, 19.64, 76.31, 84.67, 57.94),
    "transformer_attribution": (54.16, 55.04, 17.03, 16.04, 79.70, 86.03, 61.95),
}
HEADS = ("neg. predicted ↑", "neg. target ↑", "pos. predicted ↓", "pos. target ↓")
SEGMENTED = (
    ("segmentation_accuracy", "pixel accuracy ↑"),
    ("segmentation_ap", "mAP ↑"),
    ("segmentation_iou", "mIoU ↑"),
)
POINTED = (
    ("pointing_game", "pointing game ↑"),
    ("insertion", "insertion ↑"),
    ("deletion", "deletion ↓"),
)
DIFFERENT = """
## Why the figures differ from the paper's

- **Two classes, not a thousand.** Whoever guesses is right half of the time here and a thousandth of it there, so
  that accuracy has less far to fall: areas are larger, and methods lie closer together.
- **A small model of 128 x 128 pixels**, 8 layers of width 192 and patches of 8 x 8, trained for this task alone;
  theirs is ViT-B/16 with 224 x 224.
- **Animals fill a part of the photograph**, with a border in the masks of which nobody says on which side it is:
  it is left out of all counts.
- The perturbation protocol is theirs: pixels of the map over the picture, black, a tenth at a time up to 0.9,
  accuracy against the label that people gave, whichever class was explained, and the trapezoid rule from 0 on; the
  area is at most 90. Maps, thresholds and figures of segmentation are theirs too; the class explained is the
  predicted one.
- A map that is the same all over (attention grad-CAM, where the rectifier leaves nothing) is not tested here, and
  lowers n; scaled as the authors scale it, it is 0 / 0 all over.
- `full_lrp` and `partial_lrp` divide by sums that nearly cancel, and are computed in float32 here;
  [conventions](../concepts/conventions.md) says how far that carries.
- `max_flow` is left out: n maximum flows over 8 layers of 257 tokens take minutes for each photograph.
"""


COLLAGES = """A cat beside a dog, from photographs that the model is right about. Of the positive part of a map,
the share on the right animal among what falls on either, how often it is more than half, and the
share of the whole map. A method that knows no class gets 50% over both. There are two ways to make
such a picture. Squeezing was tried first; as it deforms the animals and the model then takes most
pictures for dogs, cutting was tried next, and gave higher shares to methods that tell the classes apart. It
was chosen after its results were seen, on some of the same photographs: neither table is a test of a choice
made beforehand. Both were since made again, on more pictures."""
MANNERS = {
    "squeezed": "Squeezed to half of the width.",
    "collages": "Cut: of each photograph the half with most of the animal.",
}


def format_percent(one: Facts | None, n: int | None = None) -> str:
    """Format a share in percent with its interval, and n where it differs."""
    if not one or one["mean"] is None:
        return "not tested"
    ends = "" if one["low"] is None else f" [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"
    own = "" if n in (None, one["n"]) else f" (n = {one['n']})"
    return f"{100 * one['mean']:.1f}{ends}{own}"


def get_cells(part: Facts, metric: str) -> dict[str, Facts]:
    """Return the cells of one metric by method, random explanations included."""
    found = {one["method"]: one for one in part["cells"] if one["metric"] == metric}
    null = next(one["null"] for one in part["metrics"] if one["metric"] == metric)
    return {**found, "random": null}


def iterate_perturbation_rows(part: Facts, gold: Facts | None) -> Iterator[Sequence[str]]:
    """Yield the rows of the first table: every method, the paper's figures behind ours."""
    names = ("negative_perturbation", "positive_perturbation")
    columns = [get_cells(one, name) for name in names for one in (part, gold) if one is not None]
    n = part["examples"]["explained"]
    for method in columns[0]:
        own = [format_percent(column[method], n) if method in column else "–" for column in columns]
        paper = PAPER.get(method, (None,) * 7)[: 4 if gold else 3 : 1 if gold else 2]
        theirs = ["–" if one is None else f"{one:g}" for one in paper]
        yield [
            _format_code(method),
            *(_format_beside(*both) for both in zip(own, theirs, strict=True)),
        ]


def iterate_method_rows(
    part: Facts, metrics: Sequence[tuple[str, str]], first: int
) -> Iterator[Sequence[str]]:
    """Yield rows of a table by method; the paper's figures from number `first` on, if it has some."""
    columns = [get_cells(part, name) for name, _ in metrics]
    n = part["examples"]["explained"]
    for method in columns[0]:
        paper = PAPER.get(method) if first else None
        theirs = ["–"] * len(metrics) if paper is None else [f"{one:g}" for one in paper[first:]]
        own = [format_percent(column.get(method), n) for column in columns]
        yield [
            _format_code(method),
            *(_format_beside(*both) for both in zip(own, theirs, strict=True)),
        ]


def _format_beside(own: str, theirs: str) -> str:
    return own if theirs == "–" else f"{own}; paper {theirs}"


def _format_code(method: str) -> str:
    return "random" if method == "random" else f"`{method}`"


def iterate_collage_rows(part: Facts) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of collages, the best first."""
    names = [f"{target}, of what is on either animal" for target in ("cat", "dog")]
    more = [f"{target}, most on the right one" for target in ("cat", "dog")]
    both = "both, of what is on either animal"

    def get_height(item: tuple[str, Facts]) -> float:
        one = item[1][both]
        return -1.0 if one is None else -float(one["mean"])

    for method, own in sorted(part["methods"].items(), key=get_height):
        shown = [*names, both, *more, "both, of the map"]
        yield [_format_code(method), *(format_percent(own[name], part["pairs"]) for name in shown)]


def format_about(part: Facts) -> str:
    """Return the sentence on data and size of a part."""
    counts = {one["method"]: one["explained"] for one in part["methods"]}
    most = max(counts.values())
    fewer = sorted({n for n in counts.values() if n < most}, reverse=True)
    said = f"{most} of {part['data']['photographs']} photographs"
    for n in fewer:
        names = format_names(name for name, own in counts.items() if own == n)
        said += f"; {names}, which ask the model again and again, on {n}, drawn with seed 0"
    return f"{said}. The model is wrong about {part['wrong']} of them."


def render_page(kept: Facts) -> str:
    """Return the page."""
    if "predicted" not in kept:
        return f"{INTRO}\nNo results yet.\n"
    found, gold = kept["predicted"], kept.get("gold")
    heads = HEADS if gold else HEADS[::2]
    removed = found["setting"]["remove"]
    lines = [
        INTRO,
        format_about(found),
        "",
        f"Made with {format_provenance(found)}",
        "",
        "## Perturbation: area under the accuracy",
        "",
        "Black pixels, the lowest first (neg.) or the highest first (pos.); the map explains the predicted class, or "
        "the one that people named (target), which was tested for methods that read one pass.",
        "",
        *format_table(["method", *heads], iterate_perturbation_rows(found, gold)),
        "## Segmentation",
        "",
        *format_table(
            ["method", *(name for _, name in SEGMENTED)], iterate_method_rows(found, SEGMENTED, 4)
        ),
        "## Pointing, insertion, deletion",
        "",
        f"Insertion and deletion take patches away, not pixels, and put the photograph's {removed} colour in their "
        "place; the area under the predicted class's probability.",
        "",
        *format_table(
            ["method", *(name for _, name in POINTED)], iterate_method_rows(found, POINTED, 0)
        ),
        *("## Collages", "", COLLAGES, ""),
    ]
    for name, manner in MANNERS.items():
        if name in kept:
            lines += _render_collages(kept[name], manner)
    return "\n".join(lines).rstrip() + "\n" + DIFFERENT


def _render_collages(part: Facts, manner: str) -> list[str]:
    area = part["area"]
    heads = ["cat map on the cat", "dog map on the dog", "both"]
    heads += ["cat map mostly right", "dog map mostly right", "of the whole map"]
    without = ", ".join(f"`{name}`" for name in part["left_out"])
    return [
        f"**{manner}** {part['pairs']} pictures, of which the model calls {part['said_cat']} a cat. Left out: "
        f"{without}. The masks cover {100 * area['cat']:.0f}% (cat) and {100 * area['dog']:.0f}% (dog) of a picture. "
        f"Made on {part['provenance']['machine']}, torch {part['provenance']['torch']}.",
        "",
        *format_table(["method", *heads], iterate_collage_rows(part)),
    ]
