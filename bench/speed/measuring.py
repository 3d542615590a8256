"""How things are measured: interleaved medians, peaks of memory, and every row kept as soon as it is there."""

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
_LONG = 5.0  # a run of so many seconds warms up for all
Case = Callable[[], Any]


@dataclass(frozen=True)
class Timed:
    """What some runs took: the median and the middle half, in seconds, and how many runs there were."""

    seconds: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, values: list[float]) -> "Timed":
        """Sum up."""
        ordered = sorted(values)
        quarter = (len(ordered) - 1) // 4
        return cls(statistics.median(ordered), ordered[quarter], ordered[-1 - quarter], len(values))


@dataclass
class Clock:
    """Measures on one device, and knows when its time is up."""

    device: torch.device
    repeats: int = 15
    deadline: float = float("inf")  # by time.monotonic()

    @property
    def cuda(self) -> bool:
        """Whether there is a device with a memory of its own."""
        return self.device.type == "cuda"

    @property
    def left(self) -> float:
        """Seconds until the time is up."""
        return self.deadline - time.monotonic()

    def settle(self) -> None:
        """Wait until the device has done what it was given."""
        if self.cuda:
            torch.cuda.synchronize(self.device)

    def once(self, case: Case) -> float:
        """Return the seconds of one run."""
        self.settle()
        started = time.perf_counter()
        case()
        self.settle()
        return time.perf_counter() - started

    def medians(
        self, cases: Mapping[str, Case], *, share: float = 8.0, warm: int = 2
    ) -> dict[str, Timed]:
        """Run the cases in turn, over and over, and return what each took.

        Each runs `warm` times before, so that what is compiled, tuned or allocated once is not in it. A case that
        has had its `share` of seconds, or finds the time to be up, sits out the rest, but is measured three times.
        """
        for case in cases.values():
            for _ in range(min(warm, self.repeats)):
                if self.once(case) > _LONG:
                    break
        seen: dict[str, list[float]] = {name: [] for name in cases}
        gc.collect()
        for number in range(self.repeats):
            for name, case in cases.items():
                if number >= 3 and (sum(seen[name]) > share or self.left < 0):
                    continue
                seen[name].append(self.once(case))
        return {name: Timed.of(values) for name, values in seen.items()}

    def peak(self, case: Case) -> int | None:
        """Return the bytes that are allocated at the worst moment of one run, weights and all; None on a CPU."""
        if not self.cuda:
            case()
            return None
        self.clear()
        torch.cuda.reset_peak_memory_stats(self.device)
        case()
        self.settle()
        return torch.cuda.max_memory_allocated(self.device)

    def clear(self) -> None:
        """Give back what nobody holds any more."""
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
        """Keep one row, and show it."""
        row = {"section": self.section, "what": what, **values}
        self.rows.append(row)
        shown = ", ".join(
            f"{key} {_short(value)}" for key, value in row.items() if key != "section"
        )
        print(f"[{self.section}] {shown}", flush=True)
        if self.file is not None:
            with self.file.open("a") as stream:
                stream.write(json.dumps({**provenance(), **row}) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
        return row

    @contextmanager
    def named(self, section: str) -> Iterator[None]:
        """Let the rows of now belong to a section."""
        self.section = section
        yield
        self.section = ""


def provenance() -> dict[str, Any]:
    """Say what was measured, and on what."""
    return dict(_provenance)


def _versions() -> dict[str, Any]:
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


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


_provenance = _versions()
