"""Several processes on this machine, each with a model of its own.

They are new interpreters, neither forked (a fork of a process in which torch has threads may hang) nor by way of
`concurrent.futures` (one dead worker breaks the whole of it) or `multiprocessing` (which runs the caller's script
again). A worker and this process hold the two ends of a socket. If the worker dies, whatever of, its end is closed by
the system, and `hear` knows at once; if this process dies, the workers know and end themselves.

Cores are divided among the workers: with one for each core, the default, a worker computes in one thread. Numbers may
depend on how many threads there are, in the last bits. `OMP_NUM_THREADS`, where it is set, is what each of them gets.
With GPUs there is one worker for each, which sees no other.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path

from whence.run.backends.answer import Factory, the_packing_worker
from whence.run.backends.hands import Gone, Said
from whence.run.plan import Manner, Plan
from whence.run.task import Task

CHILD = "whence.run.backends.servant"


@dataclass(eq=False)
class Process:
    """A worker, and this end of its line."""

    process: subprocess.Popen[bytes]
    line: Connection


class Processes:
    """Workers on this machine."""

    def __init__(self, plan: Plan, manner: Manner, factory: Factory = the_packing_worker) -> None:
        self._first_words = (factory, plan, manner)
        self._cores = cores()
        self._gpus = gpus(manner)
        self._size = manner.workers or len(self._gpus) or self._cores
        self._numbers = count()

    def open(self) -> None:
        """There is nothing to get hold of."""

    def close(self) -> None:
        """There is nothing to leave."""

    @property
    def size(self) -> int:
        """As many as asked for; else one for each GPU, or where there is none, for each core."""
        return self._size

    def start(self) -> Process:
        """Start a new interpreter, in a group of its own: Ctrl-C is for this process, and it ends the workers."""
        ours, theirs = socket.socketpair()
        with ours, theirs:
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", CHILD, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env=self._environment(next(self._numbers)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,  # results go over the line; standard error stays where it is
                process_group=0,
            )
            line = Connection(ours.detach())
        hand = Process(process, line)
        _send(hand, self._first_words)
        return hand

    def give(self, hand: Process, task: Task) -> None:
        """Send a task."""
        _send(hand, task)

    def hear(self, hands: Sequence[Process]) -> list[tuple[Process, Said]]:
        """Wait until a worker sent something, or is gone."""
        ready = wait([hand.line for hand in hands])
        return [(hand, _said(hand)) for hand in hands if hand.line in ready]

    def drop(self, hand: Process) -> None:
        """End a process, if it has not ended, and leave nothing of it."""
        hand.line.close()
        hand.process.kill()
        hand.process.wait()

    def _environment(self, number: int) -> dict[str, str]:
        threads = str(max(1, self._cores // self._size))
        own = {"OMP_NUM_THREADS": threads, **os.environ}
        # What can be imported here can be imported there, also where somebody changed the path.
        own["PYTHONPATH"] = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        if self._gpus:
            own["CUDA_VISIBLE_DEVICES"] = self._gpus[number % len(self._gpus)]
        return own


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def gpus(manner: Manner) -> list[str]:
    """Return the GPUs that workers may have, by the names that CUDA_VISIBLE_DEVICES knows; none on another device."""
    if manner.device not in (None, "cuda"):
        return []
    import torch

    found = torch.cuda.device_count()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return named.split(",")[:found] if named else [str(number) for number in range(found)]


def _send(hand: Process, what: object) -> None:
    with suppress(OSError):  # it is gone, and `hear` will say so
        hand.line.send(what)


def _said(hand: Process) -> Said:
    try:
        said: Said = hand.line.recv()
    except (EOFError, OSError):
        hand.process.kill()  # it closed its end: it is dead, or as good as
        return Gone(_ended(hand.process.wait()))
    return said


def _ended(status: int) -> str:
    if status >= 0:
        return f"its process ended with status {status}"
    name = signal.Signals(-status).name
    often = (
        " (often it is the system that does so when memory runs out)" if name == "SIGKILL" else ""
    )
    return f"its process was ended by {name}{often}"
