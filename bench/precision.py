"""Benchmark of precision: relevance in float32 against float64, trace methods in half against float32.

    python bench/precision.py [--part single|half ...] [--json FILE]

`single`: relevance in float32 against float64, because Chefer's rules divide by sums that may nearly cancel. For each
method and rule set the largest difference of a score between the two, relative to the largest score; median and
worst over the sentences.

`half`: every reader in bfloat16 and float16 against float32, for the label that float32 predicts. Of each input: the
rank correlation of the scores (Spearman), how many of the five highest are the same, and how many scores have the
same sign, of those that are at least a hundredth of the largest; means with their intervals, and the worst rank
correlation. The last line holds float32 against random scores.
"""

import argparse
import csv
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

# Some virtual machines announce matrix instructions (AMX) and then refuse them: any bfloat16 model dies there.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE")

import numpy as np
import torch
from explain import ROOT, collect_provenance

import whence
from whence.data.dataset import read_dataset
from whence.methods import is_trace_method, method
from whence.stats.intervals import bootstrap
from whence.stats.rank import spearman, top_k_overlap

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
MODELS = ("minilm-sst2", "minilm-movies", "stories260K", "vit-pets")
DTYPES = ("bfloat16", "float16")
# n maximum flows over the graph of all layers take minutes for a picture, and the graph is the map's.
LEFT_OUT = ("max_flow",)
PHOTOGRAPHS = 12
Row = dict[str, Any]


def main() -> None:
    """Measure, print tables, and append the rows to a file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    results = ROOT / "bench" / "results" / "precision.jsonl"
    parser.add_argument("--part", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--every", type=int, default=1, help="take every so many of the inputs")
    parser.add_argument("--json", type=Path, default=results, help="append the rows to this file")
    options = parser.parse_args()
    with options.json.open("a") as stream:
        for part in options.part:
            for row in PARTS[part](options.models, options.every):
                stream.write(
                    json.dumps({**row, **collect_provenance(torch.get_num_threads())}) + "\n"
                )
                stream.flush()


def load_sentences() -> list[str]:
    """Return sentences of SST-2 of every length."""
    with (SHARED / "data" / "sst2_glue" / "dev.tsv").open() as stream:
        rows = list(csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row["sentence"] for row in rows[::29]]


def measure_single(_: Sequence[str], every: int) -> Iterator[Row]:
    """Compare float32 with float64."""
    texts, folder = load_sentences()[::every], SHARED / "models" / "minilm-sst2"
    narrow, double = (whence.load(folder, dtype=dtype) for dtype in ("float32", "float64"))
    print(f"{'method':<25}{'parameters':<24}{'median':>10}{'worst':>10}   n {len(texts)}")
    for name, params in CASES:
        pairs = zip(
            narrow.explain(texts, method=name, params=params),
            double.explain(texts, method=name, params=params),
            strict=True,
        )
        off = [
            float(np.abs(one.scores - other.scores).max() / np.abs(other.scores).max())
            for one, other in pairs
        ]
        print(f"{name:<25}{params or ''!s:<24}{median(off):>10.1e}{max(off):>10.1e}", flush=True)
        yield {
            "method": name,
            "params": params,
            "n": len(off),
            "median": median(off),
            "worst": max(off),
        }


def measure_half(models: Sequence[str], every: int) -> Iterator[Row]:
    """Compare half precision with float32."""
    for model in models:
        given, folder = load_inputs(model)[::every], SHARED / "models" / model
        single = whence.load(folder, dtype="float32")
        targets = [one.index for one in single.predict(given)]
        narrow = {dtype: whence.load(folder, dtype=dtype) for dtype in DTYPES}
        print(f"\n{model}, n {len(given)}\n{'method':<25}{'dtype':<10}", end="")
        print(f"{'ranks':>7}{'':16}{'worst':>7}{'top 5':>8}{'signs':>8}{'differ':>9}")
        for entry in method:
            if not is_trace_method(entry) or entry.name in LEFT_OUT:
                continue
            wanted = explain_inputs(single, given, targets, entry.name)
            for dtype, explainer in narrow.items():
                got = explain_inputs(explainer, given, targets, entry.name)
                yield compare_scores(
                    {"model": model, "dtype": dtype, "method": entry.name}, wanted, got
                )
        wanted = explain_inputs(single, given, targets, "grad_x_input")
        got = explain_inputs(single, given, targets, "random")
        yield compare_scores({"model": model, "dtype": "float32", "method": "random"}, wanted, got)


def load_inputs(model: str) -> list[Any]:
    """Return a model's inputs: sentences, or photographs of cats and dogs."""
    if model != "vit-pets":
        return load_sentences()
    data = read_dataset(str(SHARED / "data" / "oxford_pets" / "pets_heldout_a.parquet"))
    return [one.given for one in data.draw(PHOTOGRAPHS).examples]


def explain_inputs(
    explainer: Any, given: Sequence[Any], targets: Sequence[int], name: str
) -> list[np.ndarray[Any, Any]] | str:
    """Return the scores of each input, or the reason for a refusal."""
    try:
        return [
            explainer.explain(one, method=name, target=target).scores.astype(np.float64)
            for one, target in zip(given, targets, strict=True)
        ]
    except whence.WhenceError as error:
        return str(error)


def compare_scores(row: Row, wanted: Any, got: Any) -> Row:
    """Compare two sets of scores, print a line, and return the row with the figures."""
    if isinstance(wanted, str) or isinstance(got, str):
        refusal = got if isinstance(got, str) else wanted
        print(f"{row['method']:<25}{row['dtype']:<10}{refusal[:90]}", flush=True)
        return {**row, "refused": refusal}
    pairs = list(zip(wanted, got, strict=True))
    shares = {
        "spearman": [float(spearman(a, b)[0]) for a, b in pairs],
        "top_5": [float(top_k_overlap(a, b, min(5, len(a)))[0]) for a, b in pairs],
        "signs": [_compute_sign_share(a, b) for a, b in pairs],
        "difference": [float(np.abs(a - b).max() / np.abs(a).max()) for a, b in pairs if a.any()],
    }
    shares = {name: [one for one in values if np.isfinite(one)] for name, values in shares.items()}
    means = {
        name: bootstrap(values, ("precision", *row.values())) for name, values in shares.items()
    }
    ranks = means["spearman"]
    print(
        f"{row['method']:<25}{row['dtype']:<10}{ranks.mean:>7.4f} [{ranks.low:.4f}, {ranks.high:.4f}]"
        f"{min(shares['spearman']):>7.3f}{means['top_5'].mean:>8.3f}{means['signs'].mean:>8.3f}"
        f"{median(shares['difference']):>9.1e}",
        flush=True,
    )
    found = {k: [one.mean, one.low, one.high] for k, one in means.items() if k != "difference"}
    extremes = {
        "worst_spearman": min(shares["spearman"]),
        "median_difference": median(shares["difference"]),
        "worst_difference": max(shares["difference"]),
    }
    return {**row, "against": "float32", "n": len(pairs), **found, **extremes}


def _compute_sign_share(wanted: np.ndarray[Any, Any], got: np.ndarray[Any, Any]) -> float:
    """Return the share of scores with the same sign, of those that are at least a hundredth of the largest."""
    large = np.abs(wanted) >= np.abs(wanted).max() / 100
    return float((np.sign(wanted) == np.sign(got))[large].mean())


PARTS = {"single": measure_single, "half": measure_half}


if __name__ == "__main__":
    main()
