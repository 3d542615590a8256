"""The full table of methods and metrics, on a data set and a model that was trained on it.

    python bench/tables.py {sst2,movies} [--shared PATH] [--n N] [--methods M,...] [--metrics M,...] [--device D]
                           [--time-limit SECONDS] [--out FILE] [--work FILE]

A table is evaluated in parts, because a method that asks the model a thousand times cannot also be made anew 26 times
on as many examples; what is left out is named in the result, with the reason. Examples come in an order drawn by the
seed. When the time of a part is over, the examples reached so far are the sample. Each part is written to the work
file once it is there, and a second run with the same settings takes it from there. The result is an `Evaluation`, to
be read by `Evaluation.load`, with the data, the sample and the machine beside it.
"""

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from explain import ROOT

import whence
from whence.core.io import write_text
from whence.data.examples import examples, shuffled
from whence.evaluation import Evaluation
from whence.explainer import Explainer
from whence.methods import method
from whence.metrics import metric

SHARED = Path(os.environ.get("WHENCE_SHARED", ROOT.parent / "shared"))
SEED = 0
FAITHFULNESS = (
    *("comprehensiveness", "sufficiency", "deletion", "insertion", "aopc", "log_odds"),
    *("loo_correlation", "infidelity"),
)
PLAUSIBILITY = ("precision_at_k", "token_f1", "iou_f1", "auprc")
AGREEMENT = ("tau_b", "spearman", "pearson", "top_k_overlap")
AXIOMS = ("completeness", "conservation")
ANEW = ("sensitivity", "consistency", "class_sensitivity", "randomisation")
# 10 draws of noise, 5 of dropout, padded, in a batch, the other class, and 8 stages of random weights.
OFTEN = "made anew 26 times for each example, it would ask the model {} times"


@dataclass(frozen=True)
class Part:
    """Some metrics, for all methods but some, on so many examples."""

    name: str
    metrics: tuple[str, ...]
    n: int
    weight: float  # its share of the time
    left_out: Mapping[str, str] = field(default_factory=dict)  # method: why


@dataclass(frozen=True)
class Table:
    """A model, its data set and the parts of the table."""

    title: str
    model: str
    data: str
    at_a_time: int  # examples that are explained together, at most
    parts: tuple[Part, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # metric: why


SAMPLERS = {"kernel_shap": OFTEN.format("53,000"), "lime": OFTEN.format("26,000")}
LEAVERS = {name: OFTEN.format("13,000") for name in ("leave_one_out", "occlusion")}
WALKERS = {
    "integrated_gradients": OFTEN.format("1,350") + ", forward and backward",
    "gradient_shap": OFTEN.format("1,350") + ", forward and backward",
    "smoothgrad": OFTEN.format("675") + ", forward and backward",
}
ZEROED = {
    "value_zeroing": "made anew 26 times for each example, it would run layers 80,000 times on a text of 512 tokens"
}
FLOWS = {"max_flow": "it took 87 s of one CPU for a text of 512 tokens, and a GPU does not help it"}
TABLES = {
    "sst2": Table(
        "SST-2, development set",
        "models/minilm-sst2",
        "data/sst2_glue/dev.tsv",
        32,
        (
            Part("as they are", (*FAITHFULNESS, "flip", *AXIOMS, *AGREEMENT), 300, 0.5),
            Part("made anew", ANEW, 100, 0.5, SAMPLERS),
        ),
    ),
    "movies": Table(
        "ERASER movie reviews, test set, cut at 512 tokens",
        "models/minilm-movies",
        "data/eraser_movies/test.jsonl.gz",
        4,
        (
            Part(
                "as they are",
                (*FAITHFULNESS, *PLAUSIBILITY, *AXIOMS, *AGREEMENT),
                100,
                0.6,
                FLOWS,
            ),
            Part(
                "made anew",
                ANEW,
                50,
                0.4,
                {**SAMPLERS, **LEAVERS, **WALKERS, **FLOWS, **ZEROED},
            ),
        ),
        {
            "flip": "it removes token after token until the prediction flips, which takes up to 510 forward passes "
            "for each ranking, and 17,000 for each example"
        },
    ),
}


class Timed(Explainer):
    """An explainer that puts examples on trial in the order given, some at a time, until its time is over."""

    most = 1  # examples at a time
    until = float("inf")
    reached = 0

    def trials(self, texts: Any, **how: Any) -> Iterator[Any]:
        """Yield trials of as many examples as there is time for, going by the ones before; at least of the first."""
        marks, failed = how.pop("marks", None), how.pop("failed", None)
        started, start, count = time.monotonic(), 0, 1
        while start < len(texts) and count > 0:
            own = texts[start : start + count]
            self.reached = start + len(own)
            for number, trial, found in super().trials(
                own,
                marks=marks and (lambda i, *rest, start=start: marks(start + i, *rest)),
                failed=failed and (lambda i, *rest, start=start: failed(start + i, *rest)),
                **how,
            ):
                yield start + number, trial, found
            start = self.reached
            now = time.monotonic()
            count = int(min(self.most, 2 * count, (self.until - now) * start / (now - started)))


def evaluated(
    explainer: Timed, part: Part, given: Sequence[Any], methods: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Evaluate one part; the examples that were not reached are no part of it."""
    explainer.until = time.monotonic() + seconds
    started = time.monotonic()

    def progress(done: int, total: int) -> None:
        each = (time.monotonic() - started) / done
        print(f"{part.name}: {done} of {total} examples, {each:.2f} s each", flush=True)

    found = whence.evaluate(
        explainer, list(given), list(methods), list(part.metrics), seed=SEED, progress=progress
    ).to_dict()
    print(
        f"{part.name}: {found['seconds']:.0f} s, {found['calls']['forward']:,} forwards", flush=True
    )
    found["examples"]["given"] = explainer.reached
    # A method that this model cannot be explained by is counted for all that were given.
    for row in (row for one in (*found["methods"], *found["cells"]) for row in one["why_not"]):
        row["count"] = min(row["count"], explainer.reached)
    return found


def blank(name: str, of: str, why: str, n: int) -> dict[str, Any]:
    """Return the cell of what was left out."""
    return {
        **{"method": name, "metric": of, "mean": None, "low": None, "high": None, "n": 0},
        **dict.fromkeys(("null", "gain", "effect", "p")),
        **{"beats_random": False, "best": False},
        "why_not": [{"why": f"left out: {why}", "count": n, "examples": []}],
    }


def merged(found: Sequence[tuple[Part, dict[str, Any]]]) -> dict[str, Any]:
    """Make one evaluation of the parts: each metric is in one of them."""
    (_, first), *_ = found
    methods = [one["method"] for one in first["methods"]]
    cells = []
    for part, payload in found:
        known = {(cell["method"], cell["metric"]): cell for cell in payload["cells"]}
        for one in payload["metrics"]:
            for name in methods:
                why = part.left_out.get(name, "it was not asked for")
                instead = blank(name, one["metric"], why, payload["examples"]["given"])
                cells.append(known.get((name, one["metric"]), instead))
    payloads = [payload for _, payload in found]
    return {
        **first,
        "metrics": [one for payload in payloads for one in payload["metrics"]],
        "cells": cells,
        "pairs": [pair for payload in payloads for pair in payload["pairs"]],
        "calls": {
            what: sum(payload["calls"][what] for payload in payloads)
            for what in ("forward", "backward")
        },
        "seconds": sum(payload["seconds"] for payload in payloads),
        "parts": [
            {
                "part": part.name,
                "metrics": [one["metric"] for one in payload["metrics"]],
                "examples": payload["examples"]["given"],
                "left_out": dict(part.left_out),
                "calls": payload["calls"],
                "seconds": payload["seconds"],
            }
            for part, payload in found
        ],
    }


def digest(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def machine() -> dict[str, Any]:
    """Say what computed it."""
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    return {
        "machine": f"{on}, {os.cpu_count()} cores",
        "source": digest(sorted((ROOT / "src").rglob("*.py")))[:16],
    }


def main() -> None:
    """Evaluate, and keep the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder of models and data")
    parser.add_argument("--n", type=int, help="examples of each part, at most")
    parser.add_argument("--methods", help="all by default")
    parser.add_argument("--metrics", help="all by default")
    parser.add_argument("--device")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--work", type=Path, help="the parts that are there; outside of git")
    options = parser.parse_args()
    started = time.monotonic()
    table = TABLES[options.table]
    out = options.out or ROOT / "bench" / "results" / f"table-{options.table}.json"
    work = options.work or out.with_suffix(".parts.jsonl")
    file = options.shared / table.data
    if not file.is_file():
        sys.exit(f"{table.data} is not in {options.shared}; name the folder by --shared")
    # The checkpoints are in half precision, in which relevance overflows.
    explainer = whence.load(options.shared / table.model, device=options.device, dtype="float32")
    explainer = Timed(explainer._loaded)
    explainer.most = table.at_a_time
    every = examples(file)
    given = [every[i] for i in shuffled(every, SEED)]
    methods = options.methods.split(",") if options.methods else method.names()
    wanted = options.metrics.split(",") if options.metrics else metric.names()
    facts = {"sha256": digest([file]), **machine()}
    done = [json.loads(line) for line in work.read_text().splitlines()] if work.is_file() else []
    parts = [
        Part(p.name, tuple(m for m in p.metrics if m in wanted), min(p.n, options.n or p.n), p.weight, p.left_out)
        for p in table.parts
    ]  # fmt: skip
    parts = [part for part in parts if part.metrics]
    found: list[tuple[Part, dict[str, Any]]] = []
    for place, part in enumerate(parts):
        own = [name for name in methods if name not in part.left_out]
        key = {"table": options.table, "part": part.name, "n": part.n, "methods": own,
               "metrics": list(part.metrics), **facts}  # fmt: skip
        payload = next((row["payload"] for row in done if row["key"] == key), None)
        if payload is None:
            left = options.time_limit - (time.monotonic() - started)
            share = part.weight / sum(p.weight for p in parts[place:])
            payload = evaluated(explainer, part, given[: part.n], own, left * share)
            work.parent.mkdir(parents=True, exist_ok=True)
            with work.open("a") as stream:
                stream.write(json.dumps({"key": key, "payload": payload}) + "\n")
        found.append((part, payload))
    payload = {**merged(found), "left_out": dict(table.left_out)}
    # A folder of one machine is no name of a model.
    payload["model"] = {**payload["model"], "name": Path(table.model).name}
    payload["provenance"] = {**payload["provenance"], **machine()}
    payload["data"] = {
        "title": table.title,
        "file": table.data,
        "sha256": facts["sha256"],
        "examples": len(every),
        "sample": f"the first of an order drawn by seed {SEED}",
    }
    found = Evaluation.from_dict(payload).to_dict()
    write_text(
        out, json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n"
    )  # all pairs: it is long
    print(f"{out.name}: {len(payload['cells'])} cells in {payload['seconds']:.0f} s")


if __name__ == "__main__":
    main()
