"""Tools of the benchmarks: `Clock` (interleaved medians, peak memory), `Log` (rows to a file), provenance."""

import gc
import hashlib
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

import whence

ROOT = Path(__file__).resolve().parents[2]
_LONG = 5.0  # seconds; a run this long is warm-up enough for its case
Case = Callable[[], Any]


@dataclass(frozen=True)
class Timing:
    """Seconds of some runs: the median, the middle half, and the number of runs."""

    seconds: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> "Timing":
        """Return the timing of runs, from their seconds."""
        ordered = sorted(values)
        quarter = (len(ordered) - 1) // 4
        return cls(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], len(values))


@dataclass
class Clock:
    """Measures on one device, until a deadline."""

    device: torch.device
    repeats: int = 15
    deadline: float = float("inf")  # by time.monotonic()

    @property
    def cuda(self) -> bool:
        """Whether the device is a CUDA device."""
        return self.device.type == "cuda"

    @property
    def left(self) -> float:
        """Seconds until the time is up."""
        return self.deadline - time.monotonic()

    def settle(self) -> None:
        """Wait until the device has finished its work."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def measure_once(self, case: Case) -> float:
        """Return the seconds of one run."""
        self.settle()
        started = time.perf_counter()
        case()
        self.settle()
        return time.perf_counter() - started

    def measure_medians(
        self, cases: Mapping[str, Case], *, share: float = 8.0, warm: int = 2
    ) -> dict[str, Timing]:
        """Run the cases in turn, over and over, and return the timing of each.

        Each runs `warm` times before, so that what is compiled, tuned or allocated once is not in it. A case that
        has had its `share` of seconds, or finds the time to be up, sits out the rest, but is measured three times.
        """
        for case in cases.values():
            for _ in range(min(warm, self.repeats)):
                if self.measure_once(case) > _LONG:
                    break
        seen: dict[str, list[float]] = {name: [] for name in cases}
        gc.collect()
        for number in range(self.repeats):
            for name, case in cases.items():
                if number >= 3 and (sum(seen[name]) > share or self.left < 0):
                    continue
                seen[name].append(self.measure_once(case))
        return {name: Timing.of(values) for name, values in seen.items()}

    def measure_peak(self, case: Case) -> int | None:
        """Return the peak of allocated bytes during one run, weights included; None on a CPU."""
        if not self.cuda:
            case()
            return None
        self.clear()
        torch.cuda.reset_peak_memory_stats(self.device)
        case()
        self.settle()
        return torch.cuda.max_memory_allocated(self.device)

    def clear(self) -> None:
        """Free memory that is no longer referenced."""
        gc.collect()
        if self.cuda:
            self.settle()
            torch.cuda.empty_cache()


@dataclass
class Log:
    """Rows of results, in a file as soon as they are known."""

    file: Path | None
    rows: list[dict[str, Any]] = field(default_factory=list)
    section: str = ""

    def add(self, what: str, **values: Any) -> dict[str, Any]:
        """Append one row, and print it."""
        row = {"section": self.section, "what": what, **values}
        self.rows.append(row)
        shown = ", ".join(
            f"{key} {_format_value(value)}" for key, value in row.items() if key != "section"
        )
        print(f"[{self.section}] {shown}", flush=True)
        if self.file is not None:
            with self.file.open("a") as stream:
                stream.write(json.dumps({**collect_provenance(), **row}) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        return row

    @contextmanager
    def open_section(self, section: str) -> Iterator[None]:
        """Assign the rows of the block to a section."""
        self.section = section
        yield
        self.section = ""


def collect_provenance() -> dict[str, Any]:
    """Return versions, source digest, machine and day of a measurement."""
    return dict(_provenance)


def _collect_versions() -> dict[str, Any]:
    cuda = torch.cuda.is_available()
    on = torch.cuda.get_device_name() if cuda else platform.machine()
    source = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        source.update(path.read_bytes())
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = "none"
    return {
        "whence": whence.__version__,
        "source": source.hexdigest()[:16],
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "triton": triton,
        "python": platform.python_version(),
        "machine": f"{on}, {os.cpu_count()} cores",
        "day": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_provenance = _collect_versions()
