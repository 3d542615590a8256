"""Runner of the cells of the paper's table: many processes side by side, one for each cell.

    python -m bench.science.jain_wallace.run [--work DIR] [--out DIR] [--only PATTERN,...] [--seeds N]
        [--vectors random,minilm] [--jobs N] [--device D] [--limit N] [--time-limit SECONDS] [--list]

DIR is what bench.science.jain_wallace.prepare wrote. A pattern is of names such as sst-bilstm-tanh-random-0:
`sst-*,agnews-bilstm-*`. What is there is not made again, so that a run that was stopped goes on. Cells that take long
start first. Needs no more than what whence itself needs, and runs from the source: PYTHONPATH=src:.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

from bench.science.jain_wallace.cell import ROOT, WORK, Cell

ENCODERS = ("bilstm", "cnn", "average")
ATTENTIONS = ("tanh", "dot")
VECTORS = ("random", "minilm")


class Job(NamedTuple):
    """A process with its cell, start time and log file."""

    cell: Cell
    process: "subprocess.Popen[bytes]"
    started: float
    log: Path


def list_cells(
    work: Path, manifest: Mapping[str, Any], seeds: int, vectors: Sequence[str]
) -> list[Cell]:
    """Return all cells: seed by seed, in each the most expensive first."""
    every = [
        Cell(data, encoder, attention, start, seed)
        for seed in range(seeds)
        for data in sorted(manifest, key=lambda data: -_estimate_cost(manifest[data]))
        for start in vectors
        if start == "random" or (work / data / "vectors.npy").is_file()
        for encoder in ENCODERS
        for attention in ATTENTIONS
    ]
    return every


def _estimate_cost(facts: Mapping[str, Any]) -> float:
    """Estimate a data set's cost: training words, and test words times text length for leave-one-out."""
    train, test = facts["sizes"]["train"], facts["sizes"]["test"]
    epochs = facts["settings"].get("epochs", 8)
    return float(
        3 * epochs * train["n"] * train["mean_length"]
        + test["n"] * test["mean_length"] * (test["mean_length"] + 100)
    )


def start_job(cell: Cell, options: argparse.Namespace, out: Path) -> Job:
    """Start the process of a cell."""
    limit = [] if options.limit is None else ["--limit", str(options.limit)]
    device = [] if options.device is None else ["--device", options.device]
    log = out / f"{cell}.log"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.science.jain_wallace.cell", str(cell),
             "--work", options.work, "--out", out, *device, *limit],
            stdout=stream, stderr=subprocess.STDOUT, cwd=ROOT, env=environment,
        )  # fmt: skip
    return Job(cell, process, time.monotonic(), log)


def report_end(job: Job) -> bool:
    """Print how a process ended; return whether its cell is stored."""
    seconds, said = time.monotonic() - job.started, job.log.read_text(errors="replace").strip()
    if job.process.returncode == 0:
        print(f"{seconds:6.0f} s  {said.splitlines()[-1]}", flush=True)
        job.log.unlink()
        return True
    last = said.splitlines()[-1] if said else "no word"
    print(f"{seconds:6.0f} s  {job.cell} FAILED ({job.process.returncode}): {last}", flush=True)
    return False


def main() -> None:
    """Run the missing cells."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="*", help="patterns of names")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--vectors", default="random", help=", ".join(VECTORS))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--device")
    parser.add_argument("--limit", type=int, help="so many rows of each split, for a trial")
    parser.add_argument("--time-limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--list", action="store_true", help="name the cells that are not there")
    options = parser.parse_args()
    options.work = options.work.resolve()
    out = (options.out or options.work / "cells").resolve()
    manifest_file = options.work / "manifest.json"
    if not manifest_file.is_file():
        sys.exit(f"{manifest_file} is not there: run bench.science.jain_wallace.prepare first")
    out.mkdir(parents=True, exist_ok=True)
    every = list_cells(
        options.work,
        json.loads(manifest_file.read_text()),
        options.seeds,
        options.vectors.split(","),
    )
    patterns = options.only.split(",")
    wanted = [cell for cell in every if any(fnmatch(str(cell), one) for one in patterns)]
    missing = [cell for cell in wanted if not (out / f"{cell}.json").is_file()]
    print(f"{len(wanted)} cells, {len(missing)} of them not there", flush=True)
    if options.list:
        print("\n".join(map(str, missing)))
        return
    until = time.monotonic() + options.time_limit
    running: list[Job] = []
    failed = stopped = 0
    try:
        while running or missing:
            while missing and len(running) < options.jobs and time.monotonic() < until:
                running.append(start_job(missing.pop(0), options, out))
            if time.monotonic() >= until:
                stopped, missing = len(missing) + len(running), []
                break
            time.sleep(0.2)
            for job in [job for job in running if job.process.poll() is not None]:
                running.remove(job)
                failed += not report_end(job)
    finally:
        for job in running:
            job.process.terminate()
    if stopped:
        print(f"time is over: {stopped} cells are not there")
    sys.exit(1 if failed or stopped else 0)


if __name__ == "__main__":
    main()
