"""How far relevance in float32 is from float64: Chefer's rules divide by sums that may nearly cancel.

    python bench/precision.py [--json FILE]

A trained 6-layer model and 31 sentences of SST-2 of every length. For each method and rule set: the largest
difference of a score between the two, relative to the largest score; median and worst over the sentences.
"""

import argparse
import csv
import json
from pathlib import Path
from statistics import median

import numpy as np
import torch
from explain import ROOT, provenance

import whence

SHARED = ROOT.parent / "shared"
CASES = [
    ("full_lrp", {"rules": "ours"}),
    ("full_lrp", {"rules": "original"}),
    ("partial_lrp", {"rules": "ours"}),
    ("partial_lrp", {"rules": "original"}),
    ("transformer_attribution", {}),
    ("attn_lrp", {}),
    ("decompx", {}),
    ("attcat", {}),
]


def main() -> None:
    """Measure, print a table, and append the rows to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    results = ROOT / "bench" / "results" / "precision.jsonl"
    parser.add_argument("--json", type=Path, default=results, help="append the rows to this file")
    options = parser.parse_args()
    with (SHARED / "data" / "sst2_glue" / "dev.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    texts = [row["sentence"] for row in rows[::29]]
    folder = SHARED / "models" / "minilm-sst2"
    single, double = (whence.load(folder, dtype=dtype) for dtype in ("float32", "float64"))
    print(f"{'method':<25}{'parameters':<24}{'median':>10}{'worst':>10}   n {len(texts)}")
    with options.json.open("a") as stream:
        for name, params in CASES:
            pairs = zip(
                single.explain(texts, method=name, params=params),
                double.explain(texts, method=name, params=params),
                strict=True,
            )
            off = [
                float(np.abs(one.scores - other.scores).max() / np.abs(other.scores).max())
                for one, other in pairs
            ]
            print(f"{name:<25}{params or ''!s:<24}{median(off):>10.1e}{max(off):>10.1e}")
            row = {
                "method": name,
                "params": params,
                "n": len(off),
                "median": median(off),
                "worst": max(off),
            }
            stream.write(json.dumps({**row, **provenance(torch.get_num_threads())}) + "\n")


if __name__ == "__main__":
    main()
