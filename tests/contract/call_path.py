"""A profiler that counts the functions, files and frames of whence that a call passes through.

The ceilings in test_call_path.py are of these counts. Only calls into whence's own code count; comprehensions, lambdas
and generator expressions belong to the function that holds them.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import whence

_ROOT = str(Path(whence.__file__).parent) + "/"
_OPTIMIZED = 1  # the flag of functions' code, which modules and class bodies lack


@dataclass
class CallPath:
    """What a call passed through."""

    functions: set[tuple[str, str]] = field(default_factory=set)
    depth: int = 0

    @property
    def files(self) -> set[str]:
        return {file for file, _ in self.functions}

    def record(self, frame: FrameType, event: str, _: Any) -> None:
        """Count one call, as a profile function."""
        if event != "call" or (name := _find_name(frame.f_code)) is None:
            return
        self.functions.add(name)
        depth, caller = 1, frame.f_back
        while caller is not None:
            depth += _find_name(caller.f_code) is not None
            caller = caller.f_back
        self.depth = max(self.depth, depth)


def _find_name(code: CodeType) -> tuple[str, str] | None:
    if not code.co_filename.startswith(_ROOT) or not code.co_flags & _OPTIMIZED:
        return None
    if "<" in code.co_qualname.split(".")[-1]:
        return None
    return code.co_filename.removeprefix(_ROOT), code.co_qualname


def measure_call_path(call: Callable[[], Any]) -> CallPath:
    """Return what a call passes through, in this thread and in threads that it starts."""
    path = CallPath()
    threading.setprofile(path.record)
    sys.setprofile(path.record)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return path
