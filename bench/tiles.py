"""Benchmark of tile sizes of attention maps and of batch sizes, from which whence's defaults are chosen.

python bench/tiles.py [--threads N] [--json FILE]
"""

import argparse
import csv
import json
from pathlib import Path

import torch
from explain import ROOT, collect_provenance, measure_medians

import whence
from whence.explain import batch_policy
from whence.kernels.contract import contract
from whence.kernels.tiled import use_tile_size

SHARED = ROOT.parent / "shared"
REVIEW = "this is a wonderful film , and so is that one . " * 40


def measure_tiles() -> dict[str, float]:
    """Time the contraction of all layers of a long text with tiles of several sizes."""
    trace = whence.load(SHARED / "models" / "minilm-movies").trace(REVIEW)
    everyone = trace.real.float() / trace.real.sum()

    def run(size: int) -> None:
        with use_tile_size(size):
            for layer in trace.layers:
                contract(layer, everyone, "positive_gradient_x_attention")

    sizes = [1 << bits for bits in range(18, 28, 2)]
    return measure_medians(
        {
            f"tile of {size >> 10} KiB, {trace.real.shape[1]} tokens": lambda s=size: run(s)
            for size in sizes
        },
        5,
    )


def measure_batches() -> dict[str, float]:
    """Explain 256 sentences of SST-2 in batches of several sizes."""
    explainer = whence.load(SHARED / "models" / "minilm-sst2")
    with (SHARED / "data" / "sst2_glue" / "dev.tsv").open() as stream:
        rows = csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)
        texts = [row["sentence"] for row in rows][:256]

    def run(cells: int) -> None:
        batch_policy._CELLS["cpu"] = cells
        explainer.explain(texts, batch_size=len(texts))

    sizes = [1 << bits for bits in range(8, 16)]
    return measure_medians(
        {f"256 sentences, {cells} cells a batch": lambda c=cells: run(c) for cells in sizes}, 3
    )


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="also append the rows to this file")
    options = parser.parse_args()
    if not SHARED.is_dir():
        parser.exit(0, "skipped: no folder ../shared with models and data\n")
    torch.set_num_threads(options.threads)
    for group in (measure_tiles(), measure_batches()):
        best = min(group.values())
        for what, seconds in group.items():
            print(f"{what:44} {seconds * 1e3:9.1f} ms {seconds / best:6.2f} x best")
            if options.json:
                row = {
                    **collect_provenance(options.threads),
                    "what": what,
                    "seconds": seconds,
                    "ratio": seconds / best,
                }
                with options.json.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
