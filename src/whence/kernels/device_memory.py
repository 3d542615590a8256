"""How much memory is free, and giving back what is not needed."""

import ctypes
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

import torch

_SECONDS = 2.0  # how long an answer holds for who asks often
_LIMITS = Path("/proc/self/limits")
_STATUS = Path("/proc/self/status")
_MEMINFO = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


_known: dict[torch.device, tuple[float, int | None]] = {}


def lately_free(device: torch.device) -> int | None:
    """Return what was free a moment ago: the answer is needed far more often than it changes."""
    now = time.monotonic()
    asked, answer = _known.get(device, (-_SECONDS, None))
    if now - asked >= _SECONDS:
        answer = free_bytes(device)
        _known[device] = now, answer
    return answer


def free_bytes(device: torch.device) -> int | None:
    """Return the bytes that can still be taken on a device; None where nobody tells."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What PyTorch holds and does not use is not free to others, but to us.
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(free + held)
    if device.type != "cpu":
        return None
    known = [one for one in (_available(), _allowed(), _addressable()) if one is not None]
    return min(known, default=None)


def trim() -> None:
    """Give back to the system what was freed. glibc keeps it, and after batches of many shapes more and more."""
    if (free := _trimmer()) is not None:
        free(0)


@cache
def _trimmer() -> Any | None:
    """Return glibc's function for it; other systems have none, and need none."""
    if not sys.platform.startswith("linux"):
        return None
    return getattr(ctypes.CDLL(None), "malloc_trim", None)


def _available() -> int | None:
    """What the whole machine has left."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
    except OSError:  # another system than Linux
        return None
    found = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(found[0]) * 1024 if found else None


def _allowed() -> int | None:
    """What is left of a container's share; what it keeps in caches is given up when it is needed."""
    try:
        most = (_GROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((_GROUP / "memory.current").read_text(encoding="ascii"))
        held = (_GROUP / "memory.stat").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return None
    if most == "max":
        return None
    cached = sum(int(held[held.index(name) + 1]) for name in ("inactive_file",) if name in held)
    return max(0, int(most) - used + cached)


def _addressable() -> int | None:
    """What is left to this process where its address space is limited (ulimit -v)."""
    try:
        limits = _LIMITS.read_text(encoding="ascii").splitlines()
        status = _STATUS.read_text(encoding="utf-8").splitlines()
        most = next(line.split()[3] for line in limits if line.startswith("Max address space"))
        taken = next(line.split()[1] for line in status if line.startswith("VmSize:"))
    except (OSError, StopIteration):
        return None
    return None if most == "unlimited" else max(0, int(most) - int(taken) * 1024)
