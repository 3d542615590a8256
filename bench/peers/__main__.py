"""The command `python -m bench.peers`: installs each peer library, runs its missing stages, stores the rows.

    python -m bench.peers                        # everything that is not there yet
    python -m bench.peers --only captum,shap     # some libraries
    python -m bench.peers --only-times           # measure time and memory again, and nothing else
    python -m bench.peers --no-times             # leave those out, on a busy machine
    python -m bench.peers --again                # everything anew, the environments kept
    python -m bench.peers --fresh                # the environments, too

Each library is installed by pip into an environment of its own under build/peers, and asked there by its
adapter. Rows go to bench/results/peers.jsonl as they come, so that a run that was stopped goes on. `make docs`
makes the page of them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.peers import fixtures
from bench.peers.environment import PEERS, ROOT, Peer, get_peer, get_python, install, strip_paths

RESULTS = ROOT / "bench" / "results" / "peers.jsonl"
STAGES = ("methods", "right", "found", "costs")
COSTS = ("costs",)
LIMIT = 1200  # seconds for one stage of one library

Row = dict[str, Any]


def load_results(file: Path = RESULTS) -> list[Row]:
    """Return the stored rows."""
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def store_rows(rows: list[Row], one: Peer, stage: str, file: Path = RESULTS) -> None:
    """Replace the stored rows of a library's stage, libraries in their order."""
    order = {known.name: number for number, known in enumerate(PEERS)}
    stages = ("environment", *STAGES)
    others = [r for r in load_results(file) if (r["peer"], r["stage"]) != (one.name, stage)]
    every = [*others, *({"peer": one.name, "stage": stage} | row for row in rows)]
    every.sort(key=lambda r: (order.get(r["peer"], len(order)), stages.index(r["stage"])))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in every), encoding="utf-8")


def collect_origin() -> Row:
    """Return date, Python version and machine."""
    chip = ""
    if Path("/proc/cpuinfo").is_file():
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                chip = line.partition(":")[2].strip()
                break
    return {
        "day": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores{', ' if chip else ''}{chip}",
    }


def build_environ() -> dict[str, str]:
    """Return the environment variables of a library's process: one thread, no network, no PYTHONPATH."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return own | {
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONWARNINGS": "ignore",
    }


def measure_import(one: Peer) -> Row:
    """Import the library in a new process, on top of torch and transformers; return its CPU seconds."""
    code = (
        "import time, torch; from transformers import AutoModelForSequenceClassification, AutoTokenizer; "
        f"t = time.process_time(); {one.uses or f'import {one.module}'}; print(time.process_time() - t)"
    )
    done = subprocess.run(
        [str(get_python(one)), "-c", code],
        capture_output=True,
        text=True,
        env=build_environ(),
        check=False,
    )
    if done.returncode:
        return {"check": "imports", "ok": False, "error": get_last_line(done.stderr)}
    return {"check": "imports", "ok": True, "seconds": float(done.stdout.split()[-1])}


def get_last_line(said: str) -> str:
    """Return the line of a traceback that names the error."""
    lines = [line for line in said.splitlines() if line.strip()]
    named = [line for line in lines if line[0].isalpha() and "Error" in line.split(":")[0]]
    return strip_paths((named or lines or ["no words"])[-1])[:300]


def run_stages(one: Peer, stages: Sequence[str]) -> dict[str, list[Row]]:
    """Run stages of a library's adapter in its environment."""
    command = [str(get_python(one)), "-m", "bench.peers.stages", one.script.stem, ",".join(stages)]
    command.append(json.dumps(fixtures.locate_models()))
    limit = LIMIT * len(stages)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=limit,
            cwd=ROOT,
            env=build_environ(),
            check=False,
        )
        said, failed = done.stdout, get_last_line(done.stderr) if done.returncode else ""
    except subprocess.TimeoutExpired as late:
        said = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
        failed = f"not done after {limit} seconds"
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    for row in rows:
        if "error" in row:
            row["error"] = strip_paths(row["error"])
    found = {stage: [row for row in rows if row["stage"] == stage] for stage in stages}
    if failed:
        broken = next((stage for stage in reversed(stages) if found[stage]), stages[0])
        found[broken].append({"check": "stage", "ok": False, "error": failed})
    return found


def measure(one: Peer, stages: tuple[str, ...], options: argparse.Namespace) -> None:
    """Run the missing stages of one library."""
    there = {row["stage"] for row in load_results() if row["peer"] == one.name}
    if not options.only_times and (options.again or "environment" not in there):
        began = time.monotonic()
        made = install(one, options.fresh and not one.home)
        rows = [{**made, "check": "installs"}]
        if made["ok"]:
            loads = measure_import(one)
            loads.pop(
                "seconds", None
            )  # the first import compiles; it is timed with the other costs
            rows.append(loads)
        store_rows([row | collect_origin() for row in rows], one, "environment")
        report_progress(one, "environment", began)
    usable = [
        r for r in load_results() if (r["peer"], r["check"]) == (one.name, "imports") and r["ok"]
    ]
    anew = options.again or options.only_times
    missing = [stage for stage in stages if usable and (anew or stage not in there)]
    if not missing:
        return
    began = time.monotonic()
    version = install(one)["versions"].get(one.package)
    if "costs" in missing:  # by now everything has been imported once, and so compiled
        row = min((measure_import(one) for _ in range(2)), key=lambda row: row["seconds"])
        others = [r for r in load_results() if r["peer"] == one.name and r["check"] == "installs"]
        store_rows([*others, row | collect_origin()], one, "environment")
    found = run_stages(one, missing)
    for stage in missing:
        store_rows(
            [row | {"version": version} | collect_origin() for row in found[stage]], one, stage
        )
    report_progress(one, ", ".join(missing), began)


def report_progress(one: Peer, what: str, began: float) -> None:
    """Print a finished step and its seconds."""
    print(f"{one.name:24} {what:24} {time.monotonic() - began:6.0f} s", file=sys.stderr, flush=True)


def main() -> None:
    """Parse options, and measure the chosen libraries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="NAMES", help=", ".join(one.name for one in PEERS))
    parser.add_argument("--only-times", action="store_true", help="time and memory alone, anew")
    parser.add_argument("--no-times", action="store_true", help="everything but time and memory")
    parser.add_argument("--again", action="store_true", help="ask anew what is there already")
    parser.add_argument("--fresh", action="store_true", help="install anew, too")
    options = parser.parse_args()
    options.again |= options.fresh
    chosen = [get_peer(name) for name in options.only.split(",")] if options.only else PEERS
    stages = tuple(one for one in STAGES if one not in COSTS) if options.no_times else STAGES
    for one in chosen:
        measure(one, COSTS if options.only_times else stages, options)


if __name__ == "__main__":
    main()
