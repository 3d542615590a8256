"""Peak memory of the current process, for programs that tests run in a process of their own.

Not `ru_maxrss`: a child inherits the value of the process which started it, and a test would then fail, or could not
fail.
"""

from pathlib import Path


def peak_kilobytes() -> int:
    """Return the largest resident size of this process since it began to run its program."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])
