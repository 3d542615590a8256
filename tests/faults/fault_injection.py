"""Faults to inject into a run's process: kill at a file operation, full or failing disk, clock jump, bad model."""

import errno
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

# Whatever changes what a folder holds, or makes it last, goes through one of these.
OPERATIONS = ("replace", "rename", "link", "unlink", "mkdir", "rmdir", "fsync", "truncate")


def smaller(window: int, chunk: int) -> None:
    """Let a few examples be many: smaller windows and chunks."""
    from whence.runs import chunks

    chunks.iterate_windows.__defaults__ = (window,)
    chunks.CHUNK_EXAMPLES = chunk


def killed(at: int) -> None:
    """End the process as kill -9 does, at the n-th moment: before the first operation, behind it, and so on."""

    def moment(number: int) -> None:
        if number == at:
            os.kill(os.getpid(), signal.SIGKILL)

    _at_operations(moment)


def counted(file: str) -> None:
    """Write down how many such moments there are."""
    _at_operations(lambda number: Path(file).write_text(str(number)) and None)


def no_space(at: int, times: int = 1) -> None:
    """Let the disk be full when a file is to be made to last for the n-th time, and so many times on."""
    _failing("fsync", at, times, errno.ENOSPC)


def broken(at: int, times: int = 1) -> None:
    """Let the disk fail when a file is to be put in its place for the n-th time, and so many times on."""
    _failing("replace", at, times, errno.EIO)


def jumping(seed: int) -> None:
    """Let the clock jump, years forth and back, at every look."""
    draw = random.Random(seed)
    now, now_ns = time.time, time.time_ns

    def jump() -> int:
        return draw.randrange(-(10**9), 10**9)

    time.time = lambda: max(0.0, now() + jump())
    time.time_ns = lambda: max(0, now_ns() + jump() * 10**9)


def trapped(word: str, how: str) -> None:
    """Let the model fail on inputs that have a word in them; a trap is set in every model that is loaded."""
    import whence.explain.explainer as room

    loaded = room.load

    @wraps(loaded)
    def load(*given: Any, **named: Any) -> Any:
        explainer = loaded(*given, **named)
        trap(explainer, word, how)
        return explainer

    _everywhere(loaded, load)


def trap(explainer: Any, word: str, how: str) -> None:
    """Set a trap in one model: it raises, returns no number, or runs out of memory."""
    import torch

    number = explainer.tokenizer.convert_tokens_to_ids(word)
    assert number != explainer.tokenizer.unk_token_id, word

    def sprung(_: Any, given: tuple[Any, ...], output: Any) -> Any:
        rows = (given[0] == number).any(-1)
        if not rows.any():
            return None
        if how == "raises":
            raise RuntimeError("the trap was sprung")
        if how == "memory":
            raise torch.OutOfMemoryError("the trap was sprung")
        return output.masked_fill(rows[:, None, None], float("nan"))

    explainer.model.get_input_embeddings().register_forward_hook(sprung)


def _everywhere(old: Any, new: Any) -> None:
    """Put something in the place of a function wherever it was imported to."""
    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("whence"):
            for name, value in list(vars(module).items()):
                if value is old:
                    setattr(module, name, new)


def _at_operations(moment: Callable[[int], None]) -> None:
    """Call `moment` with 1, 2, ...: before the first operation, and behind each of them."""
    real = {name: getattr(os, name) for name in OPERATIONS}
    count = 0

    def passed() -> None:
        nonlocal count
        count += 1
        moment(count)

    def wrapped(operation: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(operation)
        def call(*given: Any, **named: Any) -> Any:
            if not count:
                passed()
            result = operation(*given, **named)
            passed()
            return result

        return call

    for name, operation in real.items():
        setattr(os, name, wrapped(operation))


def _failing(name: str, at: int, times: int, code: int) -> None:
    operation, count = getattr(os, name), 0

    def call(*given: Any, **named: Any) -> Any:
        nonlocal count
        count += 1
        if at <= count < at + times:
            raise OSError(code, os.strerror(code))
        return operation(*given, **named)

    setattr(os, name, call)
