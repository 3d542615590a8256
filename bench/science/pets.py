"""Protocol of Chefer et al. (CVPR 2021), perturbation and segmentation, on photographs of cats and dogs.

    python -m bench.science.pets [PART ...] [--shared DIR] [--device D] [--workers N] [--limit N] [--page]

The parts are `predicted` (every method, for the predicted class), `gold` (for the class that people named, where
it is another one: elsewhere the map is the same), and `squeezed` and `collages`, two ways to put a cat beside a dog.
All are kept in bench/results/pets.json and shown in docs/science/pets.md. What is made is not made again
(build/science). `--photographs DIR` takes them from a folder that `--unpack DIR` wrote, where Parquet cannot be read.
Runs from the source: PYTHONPATH=src:.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from bench.science.job_runner import (
    Job,
    list_query_methods,
    list_readers,
    load_explainer,
    order_examples,
    run_job,
    select_presets,
)
from bench.science.options import RESULTS, build_parser
from bench.science.pets_collages import measure_collages
from bench.science.pets_page import PAGE, render_page
from bench.science.rows import (
    build_evaluation,
    collect_provenance,
    compute_sha256,
    read_rows,
    round_numbers,
)

from whence.core.files import write_text
from whence.data.dataset import read_dataset
from whence.data.example import Example

MODEL, DATA = "models/vit-pets", "data/oxford_pets/pets_heldout_a.parquet"
RESULT = "pets.json"
COLLAGES = ("squeezed", "collages")
PARTS = ("predicted", "gold", *COLLAGES)
# n maximum flows over a graph of 8 layers of 257 x 257 edges take minutes for each photograph.
LEFT_OUT = ("max_flow", "random")
# Up to 2,048 forward passes for each map, and every collage has two.
DEAR = ("kernel_shap", "lime")
FEW = 250  # photographs for methods that ask the model hundreds of times about each
PAIRS = 100
PERTURBATION = ("positive_perturbation", "negative_perturbation")
EVERY = (*PERTURBATION, "segmentation", "pointing_game", "insertion", "deletion")
SETTINGS = select_presets("chefer_vit", "chefer")  # the authors', for the methods that have some


def load_photographs(options: argparse.Namespace) -> list[Example]:
    """Read all photographs, in the order drawn by the seed."""
    found = read_dataset(options.photographs or options.shared / DATA, label=None).examples
    return order_examples(found)[: options.limit]


def build_jobs(options: argparse.Namespace) -> dict[str, Job]:
    """Return the protocols that test maps photograph by photograph."""
    methods: dict[str, int | None] = dict.fromkeys(list_readers(LEFT_OUT))
    shared: dict[str, Any] = {"params": SETTINGS, "at_a_time": 5, "device": options.device}
    model = str(options.shared / MODEL)
    asked = {**methods, **dict.fromkeys(list_query_methods(LEFT_OUT), options.few)}
    return {
        "predicted": Job("pets", model, asked, EVERY, **shared),
        "gold": Job("pets-gold", model, methods, PERTURBATION, target="gold", only_wrong=True, **shared),
    }  # fmt: skip


def gather_results(given: Sequence[Example], options: argparse.Namespace) -> dict[str, Any]:
    """Return the parts that the stored rows give."""
    found: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for part, own in build_jobs(options).items():
        file = options.rows / f"{own.name}.jsonl"
        if not file.is_file():
            continue
        header, lines = read_rows(file)
        if (
            part == "gold"
        ):  # where the predicted class is the one that people named, both maps are one
            _, first = known["predicted"]
            lines += [one for one in first if one["number"] not in set(header["wrong"])]
        known[part] = header, lines
        table = build_evaluation(own, given, header, lines)
        for one in ("version", "kind", "pairs", "agreement", "calls"):
            del table[one]
        table["wrong"] = len(header["wrong"])
        found[part] = {
            **table,
            "data": describe_data(options, len(given), table["examples"]["explained"]),
        }
    return dict(round_numbers(found))


def describe_data(options: argparse.Namespace, photographs: int, used: int) -> dict[str, Any]:
    """Return name, digest and size of the data."""
    file = options.shared / DATA
    digest = (
        compute_sha256([file]) if file.is_file() else None
    )  # elsewhere the photographs are unpacked
    return {"name": DATA, "photographs": photographs, "used": used, "sha256": digest}


def measure_pairs(
    part: str, given: Sequence[Example], options: argparse.Namespace
) -> dict[str, Any]:
    """Measure collages of one kind."""
    own = build_jobs(options)["predicted"]
    explainer = load_explainer(own)
    names = [one for one in own.methods if one not in (*DEAR, *options.without)]
    pairs = min(options.limit or PAIRS, PAIRS)
    found = measure_collages(explainer, given, names, SETTINGS, pairs, part == "squeezed")
    found["provenance"] = {**found["provenance"], **collect_provenance()}
    found["left_out"] = sorted({*DEAR, *options.without})
    found["data"] = describe_data(options, len(given), 2 * found["pairs"])
    return dict(round_numbers(found))


def unpack_photographs(options: argparse.Namespace) -> None:
    """Write the photographs and their masks into a folder, for a machine that cannot read Parquet."""
    for one in read_dataset(options.shared / DATA, label=None).examples:
        folder = options.unpack / ("cat", "dog")[int(one.label or 0)]
        folder.mkdir(parents=True, exist_ok=True)
        assert one.is_image
        assert one.mask is not None
        (folder / f"{one.given.name}.jpg").write_bytes(one.given.read())
        (folder / f"{one.given.name}_trimap.png").write_bytes(one.mask.picture.read())


def main(arguments: Sequence[str] | None = None) -> None:
    """Compute the named parts, or all, and write the page."""
    known = build_parser(__doc__, PARTS)
    known.add_argument(
        "--few", type=int, default=FEW, help="photographs for methods that ask again"
    )
    known.add_argument("--without", nargs="+", default=[], metavar="METHOD", help="in collages")
    known.add_argument("--photographs", type=Path, metavar="DIR", help="unpacked ones")
    known.add_argument(
        "--unpack", type=Path, metavar="DIR", help="unpack them, and do nothing else"
    )
    options = known.parse_args(arguments)
    if unknown := [name for name in options.names if name not in PARTS]:
        known.error(f"no {unknown[0]!r}; there are {', '.join(PARTS)}")
    if options.unpack:
        unpack_photographs(options)
        return
    torch.backends.cudnn.allow_tf32 = False  # the same numbers as anywhere, to rounding
    if not options.page:
        given = load_photographs(options)
        for part in () if options.gather else options.names or PARTS:
            if part in COLLAGES:
                text = json.dumps(measure_pairs(part, given, options))
                options.rows.mkdir(parents=True, exist_ok=True)
                write_text(options.rows / f"pets-{part}.json", text + "\n")
            else:
                own = build_jobs(options)[part]
                file = options.rows / f"{own.name}.jsonl"
                run_job(own, given, file, workers=options.workers, seconds=options.seconds)
        if not options.rows_only:
            store_results(given, options)
    if options.out == RESULTS and not options.rows_only:
        write_text(PAGE, render_page(load_results()))


def store_results(given: Sequence[Example], options: argparse.Namespace) -> None:
    """Write the computed parts into the results, and keep the others."""
    parts = {**load_results(options.out), **gather_results(given, options)}
    for part in COLLAGES:
        file = options.rows / f"pets-{part}.json"
        if file.is_file():
            parts[part] = json.loads(file.read_text("utf-8"))
            parts[part]["data"] = describe_data(options, len(given), parts[part]["data"]["used"])
    one = {part: parts[part] for part in PARTS if part in parts}
    options.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(one, ensure_ascii=False, separators=(",", ":")) + "\n"
    write_text(options.out / RESULT, text)


def load_results(folder: Path = RESULTS) -> dict[str, Any]:
    """Return the stored parts."""
    file = folder / RESULT
    return dict(json.loads(file.read_text("utf-8"))) if file.is_file() else {}


if __name__ == "__main__":
    main()
