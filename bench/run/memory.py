"""Memory and rate of a run over time: whether both stay flat.

    PYTHONPATH=src:. python -m bench.run.memory [--limit N] [--threads N] [--out DIR] [--json FILE]

SST-2's 67,349 training sentences, minilm-sst2, two methods. `whence run` is a process of its own; how much memory is
resident in it and in all it started is read every second, beside how many sentences the store holds and how long the
processor was busy with it, as others may use the machine. The highest that was seen between two windows of the store
is a point. The slope through the points is Theil and Sen's, with its interval of 95 %; the first tenth, in which
models are loaded and pools filled, is left out.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from bench.run.throughput import SHARED
from bench.speed.measuring import Log
from scipy.stats import theilslopes

MODEL = SHARED / "models" / "minilm-sst2"
DATA = SHARED / "data" / "sst2_glue" / "train.tsv"
METHODS = "attcat,generic_attention"


@dataclass(frozen=True)
class Sample:
    """One sample of a running command."""

    seconds: float
    busy: float  # seconds of the processor
    resident: int  # bytes
    sentences: int  # in the store


def measure_processes(root: int) -> tuple[float, int]:
    """Return the CPU seconds and resident bytes of a process and all its children."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                told = (entry / "stat").read_text()
            except OSError:
                continue  # it ended meanwhile
            parents[int(entry.name)] = int(told.rpartition(")")[2].split()[1])
    family, grown = {root}, True
    while grown:
        more = {child for child, parent in parents.items() if parent in family} - family
        family, grown = family | more, bool(more)
    ticks, pages = 0, 0
    for one in family:
        try:
            told = (Path("/proc") / str(one) / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks, pages = ticks + int(told[11]) + int(told[12]), pages + int(told[21])
    return ticks / os.sysconf("SC_CLK_TCK"), pages * os.sysconf("SC_PAGE_SIZE")


def count_windows(out: Path) -> int:
    """Return the number of windows of which the store has files."""
    return len({path.stem.partition("-")[0] for path in out.glob("explanations/*.parquet")})


def watch_command(command: list[str], out: Path, threads: int, window: int) -> Iterator[Sample]:
    """Run a command, and yield a sample every second."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        started = time.monotonic()
        while process.poll() is None:
            busy, held = measure_processes(process.pid)
            yield Sample(time.monotonic() - started, busy, held, count_windows(out) * window)
            time.sleep(1.0)
    if process.returncode:
        sys.exit(f"whence run ended with {process.returncode}")


def find_peaks(seen: list[Sample]) -> list[Sample]:
    """Return the highest sample between each two windows of the store."""
    return [
        max(some, key=lambda one: one.resident)
        for _, some in groupby(seen, key=lambda one: one.sentences)
    ]


def summarise(seen: list[Sample], total: int) -> dict[str, Any]:
    """Return the slope of memory, and the peaks of the last and the second tenth of the run."""
    points = [one for one in find_peaks(seen) if one.sentences >= total / 10]
    slope, _, low, high = theilslopes(
        [one.resident for one in points], [one.sentences / 1000 for one in points], 0.95
    )

    def find_peak(start: float, end: float = 1.0) -> int:
        held = [one.resident for one in seen if start * total <= one.sentences <= end * total]
        return max(held, default=0)

    return {
        "sentences": total,
        "seconds": seen[-1].seconds,
        "busy": seen[-1].busy,
        "samples": len(seen),
        "rate_busy": total / seen[-1].busy,
        "rate_busy_first_half": _compute_rate(seen, 0.1 * total, 0.5 * total),
        "rate_busy_second_half": _compute_rate(seen, 0.5 * total, total),
        "peak": find_peak(0.0),
        "peak_second_tenth": find_peak(0.1, 0.2),
        "peak_after_first_tenth": find_peak(0.1),
        "peak_last_tenth": find_peak(0.9),
        "slope": slope,  # bytes for a thousand sentences
        "slope_low": low,
        "slope_high": high,
        "points": len(points),
    }


def _compute_rate(seen: list[Sample], start: float, end: float) -> float | None:
    """Return the sentences per CPU second between two positions in the data."""
    some = [one for one in seen if start <= one.sentences <= end]
    if not some or some[-1].busy == some[0].busy:
        return None
    return (some[-1].sentences - some[0].sentences) / (some[-1].busy - some[0].busy)


def main() -> None:
    """Run and watch a command, and store the peaks and their summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="so many sentences, to rehearse")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the store; a folder that is removed unless given")
    parser.add_argument("--json", type=Path, help="append the rows to this file")
    options = parser.parse_args()
    from whence.runs.chunks import WINDOW_EXAMPLES

    count = sum(1 for _ in DATA.open()) - 1
    total = min(count, options.limit or count)
    log = Log(options.json)
    with tempfile.TemporaryDirectory() as here, log.open_section("memory"):
        out = options.out or Path(here) / "run"
        command = [
            sys.executable,
            "-m",
            "whence",
            "run",
            "--model",
            str(MODEL),
            "--data",
            str(DATA),
        ]
        command += ["--methods", METHODS, "--limit", str(total), "--out", str(out)]
        seen = list(watch_command(command, out, options.threads, WINDOW_EXAMPLES))
        about = {
            "model": MODEL.name,
            "data": "sst2 train",
            "methods": METHODS,
            "threads": options.threads,
        }
        for one in find_peaks(seen):
            log.add(
                "peak",
                **about,
                seconds=one.seconds,
                busy=one.busy,
                resident=one.resident,
                stored=one.sentences,
            )
        log.add("summary", **about, **summarise(seen, total))


if __name__ == "__main__":
    main()
