"""The two tables of Chefer et al. (CVPR 2021), perturbation and segmentation, on photographs of cats and dogs.

    python -m bench.science.pets [PART ...] [--model DIR] [--data FILE] [--device D] [--limit N] [--out DIR]
    python -m bench.science.pets --page [--join FILE ...]

The parts are `readers` and `askers` (methods that read one pass, and methods that ask the model again), `gold` (the
readers, for the class that people named), and `squeezed` and `collages`, two ways to put a cat beside a dog.
All are kept in bench/results/pets.json; with --out each is kept as DIR/pets-PART.json, so that several
machines or processes can share the work, and --join takes such files in.
--page makes nothing and writes docs/science/pets.md from what is there. Runs from the source: PYTHONPATH=src:.
"""

import argparse
import hashlib
import json
import os
import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from bench.science.pets_collages import collages
from bench.science.pets_page import markdown
from bench.science.transformers import RESULTS, ROOT, SHARED, rounded

import whence
from whence.core.io import write_text
from whence.data.examples import Example, examples, sample
from whence.explainer import Explainer
from whence.methods import is_reader, method

MODEL, DATA = "models/vit-pets", "data/oxford_pets/pets_heldout_a.parquet"
RESULT = RESULTS / "pets.json"
PAGE = ROOT / "docs" / "science" / "pets.md"
PARTS = ("readers", "askers", "gold", "squeezed", "collages")
# n maximum flows over a graph of 8 layers of 257 x 257 edges take minutes for each photograph.
LEFT_OUT = ("max_flow", "random")
# Up to 2,048 forward passes for each map, and every collage has two.
DEAR = ("kernel_shap", "lime")
COLLAGES = ("squeezed", "collages")
FEW = 150  # photographs for methods that ask the model hundreds of times about each
PAIRS = 100
PERTURBATION = ["positive_perturbation", "negative_perturbation"]
EVERY = [*PERTURBATION, "segmentation", "pointing_game", "insertion", "deletion"]


def settings() -> dict[str, dict[str, str]]:
    """Return the authors' settings for pictures, for the methods that have them."""
    found = {}
    for entry in method:
        preset = next((name for name in ("chefer_vit", "chefer") if name in entry.presets), None)
        if preset is not None:
            found[entry.name] = {"preset": preset}
    return found


def chosen(part: str, only: Sequence[str] = ()) -> list[str]:
    """Name the methods of a part, or those of them that are made anew."""
    every = [entry for entry in method if entry.name not in LEFT_OUT]
    if part in COLLAGES:
        return [entry.name for entry in every if entry.name not in DEAR]
    named = [entry for entry in every if not only or entry.name in only]
    return [entry.name for entry in named if is_reader(entry) == (part != "askers")]


def evaluated(
    explainer: Explainer, data: Sequence[Example], part: str, only: Sequence[str]
) -> dict[str, Any]:
    """Evaluate, and keep what the page needs: not the comparisons of each two methods."""
    names, started, said = chosen(part, only), time.monotonic(), 0.0

    def progress(done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic() - started
        if now - said > 15:
            said = now
            print(f"{part} {now:5.0f} s  {done} of {total}", flush=True)

    found = whence.evaluate(
        explainer,
        data,
        names,
        PERTURBATION if part == "gold" else EVERY,
        params={name: own for name, own in settings().items() if name in names},
        target="gold" if part == "gold" else None,
        progress=progress,
    ).to_dict()
    for name in ("version", "kind", "pairs", "agreement"):
        del found[name]
    return found


def made(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """Make one part."""
    loaded = whence.load(options.model, device=options.device, dtype="float32").loaded
    explainer = Explainer(replace(loaded, name=Path(MODEL).name))
    every = examples(options.data, label=None)
    limit = options.limit or (FEW if part == "askers" else len(every))
    data = sample(every, limit, seed=0)
    if part in COLLAGES:
        pairs = min(options.limit or PAIRS, PAIRS)
        names = [name for name in chosen(part) if name not in options.without]
        found = collages(explainer, every, names, settings(), pairs, part == "squeezed")
        found["left_out"] = sorted({*DEAR, *options.without})
    else:
        found = evaluated(explainer, data, part, options.only)
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    found["provenance"] = {**found["provenance"], "machine": f"{on}, {os.cpu_count()} cores"}
    counts = {"photographs": len(every), "used": len(data)}
    found["data"] = {"name": DATA, **counts, "sha256": options.sha256}
    return found


def digest(path: Path) -> str:
    """Return the digest of the data set's file, or of a folder's files in the order of their names."""
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()


def keep(parts: Mapping[str, Any]) -> None:
    """Put parts beside those that are there, and write the page."""
    known = json.loads(RESULT.read_text("utf-8")) if RESULT.is_file() else {}
    parts = {part: _renewed(known.get(part), one) for part, one in parts.items()}
    kept = {part: one for part in PARTS if (one := parts.get(part, known.get(part))) is not None}
    write_text(RESULT, json.dumps(kept, ensure_ascii=False, separators=(",", ":")) + "\n")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    write_text(PAGE, markdown(kept))


def _renewed(known: Any, part: Any) -> Any:
    """Put methods that were made anew, on the same photographs, into what is kept; it says which, and by what."""
    if known is None or "cells" not in part or len(part["methods"]) == len(known["methods"]):
        return part
    assert part["data"] == known["data"], "not the same photographs"
    anew = {one["method"] for one in part["methods"]}
    for name in ("methods", "cells"):
        kept = [one for one in known[name] if one["method"] not in anew]
        known[name] = sorted(kept + part[name], key=lambda one: one["method"])
    made = dict.fromkeys(sorted(anew), part["provenance"])
    return {**known, "anew": {**known.get("anew", {}), **made}}


def joined(files: Sequence[Path]) -> dict[str, Any]:
    """Read parts that were kept apart; the name of a file says which it is."""
    return {
        part: json.loads(file.read_text("utf-8"))
        for file in files
        for part in PARTS
        if file.name.startswith(f"pets-{part}")
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Make what is named, or all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--model", type=Path, default=SHARED / MODEL)
    parser.add_argument("--data", type=Path, default=SHARED / DATA)
    parser.add_argument("--device")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="METHOD", help="make these anew")
    parser.add_argument("--without", nargs="+", default=[], metavar="METHOD", help="in collages")
    parser.add_argument("--join", type=Path, nargs="+", default=[], metavar="FILE")
    parser.add_argument("--page", action="store_true", help="write the page, and make nothing")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.parts if name not in PARTS]:
        parser.error(f"no {unknown[0]!r}; there are {', '.join(PARTS)}")
    torch.backends.cudnn.allow_tf32 = False  # the same numbers as anywhere, to rounding
    found = joined(options.join)
    if not options.page:
        options.sha256 = digest(options.data)
    for part in () if options.page else options.parts or PARTS:
        started = time.monotonic()
        found[part] = rounded(made(part, options))
        print(f"{part}: {time.monotonic() - started:.0f} s", flush=True)
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            write_text(options.out / f"pets-{part}.json", json.dumps(found[part]) + "\n")
    if options.out is None:
        keep(found)


if __name__ == "__main__":
    main()
