"""Whether the memory of a run stays flat as it goes on, and whether its rate does.

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
class Seen:
    """One look at the run."""

    seconds: float
    busy: float  # seconds of the processor
    resident: int  # bytes
    sentences: int  # in the store


def looked(root: int) -> tuple[float, int]:
    """Return how long a process and all that it started were busy, and the bytes that they hold in memory."""
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


def stored(out: Path) -> int:
    """Return how many windows the store has committed."""
    index = out / "index"
    return sum(1 for one in index.glob("*.json")) if index.is_dir() else 0


def watched(command: list[str], out: Path, threads: int, window: int) -> Iterator[Seen]:
    """Run a command, and look at it every second."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as process:
        started = time.monotonic()
        while process.poll() is None:
            busy, held = looked(process.pid)
            yield Seen(time.monotonic() - started, busy, held, stored(out) * window)
            time.sleep(1.0)
    if process.returncode:
        sys.exit(f"whence run ended with {process.returncode}")


def peaks(seen: list[Seen]) -> list[Seen]:
    """Return the highest look between each two windows of the store."""
    return [
        max(some, key=lambda one: one.resident)
        for _, some in groupby(seen, key=lambda one: one.sentences)
    ]


def summed_up(seen: list[Seen], total: int) -> dict[str, Any]:
    """Say how flat it is: the slope, and the peak of the last tenth beside that of the second."""
    points = [one for one in peaks(seen) if one.sentences >= total / 10]
    slope, _, low, high = theilslopes(
        [one.resident for one in points], [one.sentences / 1000 for one in points], 0.95
    )

    def peak(start: float, end: float = 1.0) -> int:
        held = [one.resident for one in seen if start * total <= one.sentences <= end * total]
        return max(held, default=0)

    return {
        "sentences": total,
        "seconds": seen[-1].seconds,
        "busy": seen[-1].busy,
        "samples": len(seen),
        "rate_busy": total / seen[-1].busy,
        "rate_busy_first_half": _rate(seen, 0.1 * total, 0.5 * total),
        "rate_busy_second_half": _rate(seen, 0.5 * total, total),
        "peak": peak(0.0),
        "peak_second_tenth": peak(0.1, 0.2),
        "peak_after_first_tenth": peak(0.1),
        "peak_last_tenth": peak(0.9),
        "slope": slope,  # bytes for a thousand sentences
        "slope_low": low,
        "slope_high": high,
        "points": len(points),
    }


def _rate(seen: list[Seen], start: float, end: float) -> float | None:
    """Return the sentences for a second of the processor, between two places of the data."""
    some = [one for one in seen if start <= one.sentences <= end]
    if not some or some[-1].busy == some[0].busy:
        return None
    return (some[-1].sentences - some[0].sentences) / (some[-1].busy - some[0].busy)


def main() -> None:
    """Run, look, and keep the peaks and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--limit", type=int, help="so many sentences, to rehearse")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, help="the store; a folder that is removed unless given")
    parser.add_argument("--json", type=Path, help="append the rows to this file")
    options = parser.parse_args()
    from whence.run.chunks import WINDOW

    count = sum(1 for _ in DATA.open()) - 1
    total = min(count, options.limit or count)
    log = Log(options.json)
    with tempfile.TemporaryDirectory() as here, log.named("memory"):
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
        seen = list(watched(command, out, options.threads, WINDOW))
        about = {
            "model": MODEL.name,
            "data": "sst2 train",
            "methods": METHODS,
            "threads": options.threads,
        }
        for one in peaks(seen):
            log.add(
                "peak",
                **about,
                seconds=one.seconds,
                busy=one.busy,
                resident=one.resident,
                stored=one.sentences,
            )
        log.add("summary", **about, **summed_up(seen, total))


if __name__ == "__main__":
    main()
