"""Free memory of a device in bytes, and the return of freed memory to the system."""

import ctypes
import sys
from functools import cache
from pathlib import Path
from typing import Any

import torch

_LIMITS_FILE = Path("/proc/self/limits")
_STATUS_FILE = Path("/proc/self/status")
_MEMINFO_FILE = Path("/proc/meminfo")
_CGROUP_FOLDER = Path("/sys/fs/cgroup")


def count_free_bytes(device: torch.device) -> int | None:
    """Return the bytes that can still be allocated on a device; None if unknown."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # Memory that PyTorch reserved and does not use is free to this process.
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + unused)
    if device.type != "cpu":
        return None
    limits = [
        limit
        for limit in (_count_available_bytes(), _count_cgroup_bytes(), _count_addressable_bytes())
        if limit is not None
    ]
    return min(limits, default=None)


def trim_heap() -> None:
    """Return freed heap memory to the system; glibc keeps it, and more after batches of many shapes."""
    if (malloc_trim := _find_malloc_trim()) is not None:
        malloc_trim(0)


@cache
def _find_malloc_trim() -> Any | None:
    """Return glibc's `malloc_trim`; None on other systems, which do not need it."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _count_available_bytes() -> int | None:
    """Return the available bytes of the whole machine; None if unknown."""
    try:
        lines = _MEMINFO_FILE.read_text(encoding="ascii").splitlines()
    except OSError:  # another system than Linux
        return None
    sizes = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(sizes[0]) * 1024 if sizes else None


def _count_cgroup_bytes() -> int | None:
    """Return the bytes left within a container's limit, file caches included; None without a limit."""
    try:
        limit = (_CGROUP_FOLDER / "memory.max").read_text(encoding="ascii").strip()
        used = int((_CGROUP_FOLDER / "memory.current").read_text(encoding="ascii"))
        stats = (_CGROUP_FOLDER / "memory.stat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    if limit == "max":
        return None
    cached = sum(int(stats[stats.index(name) + 1]) for name in ("inactive_file",) if name in stats)
    return max(0, int(limit) - used + cached)


def _count_addressable_bytes() -> int | None:
    """Return the bytes left in a limited address space (ulimit -v); None without a limit."""
    try:
        limits = _LIMITS_FILE.read_text(encoding="ascii").splitlines()
        status = _STATUS_FILE.read_text(encoding="utf-8").splitlines()
        limit = next(line.split()[3] for line in limits if line.startswith("Max address space"))
        used = next(line.split()[1] for line in status if line.startswith("VmSize:"))
    except (OSError, StopIteration):
        return None
    return None if limit == "unlimited" else max(0, int(limit) - int(used) * 1024)
