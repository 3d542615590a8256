"""Benchmark of explaining on a GPU: runs all sections of on_gpu/, survives a lost device, prints the table.

    PYTHONPATH=src python bench/speed/gpu.py [--out DIR] [--only SECTION,..] [--quick] [--limit SECONDS]

It runs from source with torch, transformers and Triton alone; models are made on the spot, with random weights. Timed
is from encoded ids on the device to scores (one trace and the method), beside the bare forward + backward of the same
model on the same ids: SDPA, weights frozen, gradient of the predicted logit at the embeddings. Runs are interleaved,
the device is waited for before and after each, medians are compared. Compiling (Triton) is done in warm-up runs and
is not in it. Peaks of memory are of one run, weights included. Clocks are left alone.

Every row is written as it is measured, so that nothing is lost where the run is stopped. A failure is a row too, and
the rest goes on; where the device itself is gone, in a new process. The table comes last.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it can be run as a file

import torch
from bench.speed.measuring import Clock, Log
from bench.speed.on_gpu import check, growth_points, half_precision, maps, query_methods, ratios
from bench.speed.on_gpu.setting import Dead, Setting, TimeIsUp
from bench.speed.table import format_table

# Each section, and the seconds it may take at most before it starts nothing new; on an H200 they need about half.
SECTIONS: dict[str, tuple[Callable[[Setting], None], float]] = {
    "bert": (ratios.measure_bert, 60),
    "llama": (ratios.measure_llama, 90),
    "check": (check.check_numbers, 90),
    "relevance": (ratios.measure_relevance, 100),
    "together": (ratios.measure_together, 50),
    "materialised": (maps.measure_written_maps, 45),
    "batch": (maps.measure_batches, 40),
    "askers": (query_methods.measure_query_methods, 40),
    "precision": (half_precision.measure_precision, 60),
    "growth": (growth_points.measure_growth, 150),
}
QUICK = ("bert", "llama", "materialised")
FILE = "speed-gpu.jsonl"


def main() -> None:
    """Measure all sections, store the rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="the folder for the rows and the table")
    parser.add_argument("--only", help=f"sections, out of {','.join(SECTIONS)}")
    parser.add_argument("--quick", action="store_true", help=f"{','.join(QUICK)}, few repeats")
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--seconds", type=float, help="for each section, instead of its own limit")
    parser.add_argument("--limit", type=float, default=480, metavar="SECONDS", help="for all of it")
    parser.add_argument(
        "--repeats", type=int, help="15 unless said otherwise; fewer where runs are long"
    )
    parser.add_argument("--device", help="the first CUDA device, or the CPU where there is none")
    parser.add_argument("--kernels", choices=["auto", "fused", "tiled"], help="as WHENCE_KERNELS")
    options = parser.parse_args()
    names = options.only.split(",") if options.only else [*(QUICK if options.quick else SECTIONS)]
    if unknown := [name for name in names if name not in SECTIONS]:
        parser.error(f"there is no section {', '.join(unknown)}; there are {', '.join(SECTIONS)}")
    if options.kernels:
        os.environ["WHENCE_KERNELS"] = options.kernels
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    log = Log(None if options.out is None else options.out / FILE)
    repeats = options.repeats or (2 if options.tiny else 7 if options.quick else 15)
    started = time.monotonic()
    for place, name in enumerate(names):
        left = options.limit - (time.monotonic() - started)
        section, seconds = SECTIONS[name]
        limit = min(options.seconds or seconds, left)
        clock = Clock(torch.device(device), repeats, time.monotonic() + limit)
        if not _run_section(section, name, Setting(clock, log, options.tiny, options.quick)):
            _run_again(options, names[place + 1 :], left)
    shown = format_table(_collect_rows(log))
    print(f"\n{shown}", end="", flush=True)
    if options.out is not None:
        (options.out / "table.txt").write_text(shown)


def _run_section(section: Callable[[Setting], None], name: str, setting: Setting) -> bool:
    """Run one section; return whether the device still works."""
    started = time.monotonic()
    with setting.log.open_section(name):
        try:
            if setting.clock.left > 0:
                section(setting)
            else:
                setting.log.add("section", error="not measured: no time was left")
        except TimeIsUp:
            pass
        except Dead as error:
            setting.log.add("section", error=f"the device failed at {error}")
            return False
        except (
            Exception
        ) as error:  # a section that fails is a row of the log, and the next one is measured
            told = (str(error).splitlines() or [""])[0][:300]
            setting.log.add("section", error=f"{type(error).__name__}: {told}")
            if not setting.is_alive():
                return False
        setting.forget()
        setting.log.add("section", took=time.monotonic() - started)
    return True


def _run_again(options: argparse.Namespace, names: list[str], left: float) -> None:
    """Run the remaining sections in a new process, after this one has lost the device."""
    if not names or options.out is None:
        return
    given = ["--only", ",".join(names), "--out", str(options.out), "--limit", str(left)]
    for flag in ("quick", "tiny"):
        given += [f"--{flag}"] if getattr(options, flag) else []
    for value in ("seconds", "repeats", "device", "kernels"):
        chosen = getattr(options, value)
        given += [] if chosen is None else [f"--{value}", str(chosen)]
    os.execv(sys.executable, [sys.executable, __file__, *given])


def _collect_rows(log: Log) -> list[dict[str, object]]:
    """Return the rows of this process, and of those before it that wrote into the same file."""
    if log.file is None or not log.file.is_file():
        return log.rows
    return [json.loads(line) for line in log.file.read_text().splitlines()]


if __name__ == "__main__":
    main()
