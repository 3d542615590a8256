"""How much memory is free, asked rarely: the answer is needed far more often than it changes."""

import time
from pathlib import Path

import torch

_SECONDS = 2.0  # how long an answer holds
_MEMINFO = Path("/proc/meminfo")

_known: dict[torch.device, tuple[float, int | None]] = {}


def free_bytes(device: torch.device) -> int | None:
    """Return the bytes that are free on a device, about; None where nobody can say."""
    now = time.monotonic()
    asked, answer = _known.get(device, (-_SECONDS, None))
    if now - asked >= _SECONDS:
        answer = _ask(device)
        _known[device] = now, answer
    return answer


def _ask(device: torch.device) -> int | None:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        # What PyTorch holds and does not use is free for a tensor of its own.
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    if device.type == "cpu" and _MEMINFO.is_file():
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    return None
