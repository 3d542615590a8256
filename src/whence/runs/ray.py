"""The actors of a Ray cluster, each with a model of its own, on as many machines as there are.

An actor loads the model from where the plan says, on its own node: no weights go through Ray. Tasks go there as they
are, results come back as they are, and pictures that are files here are sent as bytes, because another node may not
have them. Ray restarts nothing and repeats nothing: that is the pool's business, which knows what a death may mean.

An actor on a CPU has one core, and computes in one thread (Ray sets `OMP_NUM_THREADS` to an actor's cores), unless
the nodes' own `OMP_NUM_THREADS` says otherwise.
"""

import logging
import os
import re
import socket
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from whence.core.errors import BadPlan, WhenceError, WorkersFailed
from whence.run.backends.answer import Answer, Factory, Working, attempt, loaded, the_packing_worker
from whence.run.backends.hands import Gone, Said
from whence.run.backends.portable import portable
from whence.run.plan import Manner, Plan
from whence.run.task import Identity, Task

# For a cluster that is started here, and ends with the run: it tells nobody that it was there.
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_NAMES = re.compile(r"\(pid=[^)]*\)")
_SECONDS = 5.0  # that somebody who listens may take to answer


class Servant:
    """What an actor is: it lives in a process of its own, on some node."""

    def __init__(self, factory: Factory, plan: Plan, manner: Manner, folder: str) -> None:
        if Path(folder).is_dir():
            os.chdir(
                folder
            )  # where the run was started, so that a relative path of the plan is the same one here
        self._asked = factory, plan, manner
        self._worker: Working | None = None

    def begin(self) -> Identity | WhenceError:
        """Load the model, and say what it is."""
        found = loaded(*self._asked)
        if isinstance(found, WhenceError):
            return found
        self._worker = found
        return found.identity

    def do(self, task: Task) -> Answer:
        """Do a task."""
        assert self._worker is not None  # `begin` came first
        return attempt(self._worker, task)


@dataclass(eq=False)
class Actor:
    """An actor, and what it was asked for, in that order."""

    handle: Any
    asked: deque[Any]


class Actors:
    """Workers on a Ray cluster."""

    def __init__(self, plan: Plan, manner: Manner, factory: Factory = the_packing_worker) -> None:
        self._manner = manner
        self._words = (factory, plan, manner, str(Path.cwd()))
        self._own = False  # whether Ray was started, or joined, here
        self._size = 0
        self._actor: Any = None

    def open(self) -> None:
        """Join the cluster, or start one on this machine."""
        if not ray.is_initialized():
            self._own = True
            _join(self._manner) if self._manner.address else _start_here(self._manner)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        share = _share(self._manner, nodes)
        self._size = self._manner.actors or max(1, _room(nodes, share))
        if not _room(nodes, share):
            _warn_or_refuse(self._manner, share)
        self._actor = ray.remote(Servant).options(
            num_cpus=share["CPU"],
            num_gpus=share["GPU"],
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )

    def close(self) -> None:
        """Leave the cluster; one that was started here ends. One that the caller had joined before stays joined."""
        if self._own:
            ray.shutdown()
            self._own = False

    @property
    def size(self) -> int:
        """As many as asked for; else as many as the cluster has room for now."""
        return self._size

    def start(self) -> Actor:
        """Ask for an actor; it comes to be when a node has room for it."""
        handle = self._actor.remote(*self._words)
        return Actor(handle, deque([handle.begin.remote()]))

    def give(self, hand: Actor, task: Task) -> None:
        """Send a task."""
        hand.asked.append(hand.handle.do.remote(portable(task)))

    def hear(self, hands: Sequence[Actor]) -> list[tuple[Actor, Said]]:
        """Wait until an actor answered, or is known to be gone."""
        first = {hand.asked[0]: hand for hand in hands if hand.asked}
        ray.wait(list(first), num_returns=1)
        ready, _ = ray.wait(list(first), num_returns=len(first), timeout=0)
        return [(first[one], _said(first[one])) for one in ready]

    def drop(self, hand: Actor) -> None:
        """End an actor at once."""
        hand.asked.clear()
        with suppress(RayError, ValueError):  # it is gone already, or its cluster is
            ray.kill(hand.handle, no_restart=True)


def _said(hand: Actor) -> Said:
    try:
        said: Said = ray.get(hand.asked.popleft())
    except (
        RayTaskError
    ) as error:  # no task raises: it could not be read there, or its result not here
        return WorkersFailed(
            f"An actor could not take its task: {_short(error.cause or error)}. Is there one version of whence, "
            "Python and Ray on every node, and here?"
        )
    except RayError as error:  # the actor, its node or what it had answered is lost
        return Gone(f"Ray says: {_short(error)}")
    return said


def _short(error: BaseException) -> str:
    """Return the first and the last line of what Ray says: what happened, and why. Between them it is long."""
    said = _COLOURS.sub("", str(error)).strip().splitlines() or [""]
    lines = [_NAMES.sub("", line).strip(" .,:") for line in dict.fromkeys((said[0], said[-1]))]
    return f"{type(error).__name__}, {': '.join(line[:200] for line in lines)}"


def _join(manner: Manner) -> None:
    """Join a cluster, and leave all that is its own or the caller's as it is."""
    try:
        _knock(str(manner.address))
        ray.init(address=manner.address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ImportError, RayError) as error:
        raise WorkersFailed(
            f"There is no Ray cluster to join at {manner.address!r}: {_short(error)}. Give the address of one, "
            "'auto' on one of its nodes, or none, for a cluster on this machine that ends with the run."
        ) from error


def _knock(address: str) -> None:
    """Find out whether anybody listens there: Ray itself tries for minutes before it says that nobody does."""
    host, colon, port = address.removeprefix("ray://").partition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()


def _start_here(manner: Manner) -> None:
    """Start a cluster on this machine."""
    try:
        with _environment(QUIET):
            ray.init(
                address="local",  # also where RAY_ADDRESS names another
                num_cpus=manner.actors,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise WorkersFailed(
            f"Ray cannot be started on this machine: {_short(error)}. The backend 'processes' does without it."
        ) from error


@contextmanager
def _environment(changed: Mapping[str, str]) -> Iterator[None]:
    """Let processes that are started meanwhile have these; what is set already stays."""
    added = {name: value for name, value in changed.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _share(manner: Manner, nodes: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return what an actor takes of a node: a core, and a GPU where there are some and no CPU is asked for."""
    given = manner.gpus_per_actor
    if given is not None and not (given == 0 or 0 < given < 1 or given == int(given) > 0):
        raise BadPlan(
            f"An actor has no GPU, a part of one or whole ones: 0, 0.5, 1, 2. Got {given:g} GPUs per actor."
        )
    wanted = manner.device is None or manner.device.startswith("cuda")
    there = any(node.get("GPU") for node in nodes)
    return {"CPU": 1, "GPU": float(wanted and there) if given is None else given}


def _room(nodes: Sequence[Mapping[str, float]], share: Mapping[str, float]) -> int:
    """Return how many actors fit on the nodes that there are."""
    return sum(
        min(int(node.get(name, 0) / part + 1e-9) for name, part in share.items() if part)
        for node in nodes
    )


def _warn_or_refuse(manner: Manner, share: Mapping[str, float]) -> None:
    wanted = " and ".join(f"{part:g} {name}" for name, part in share.items() if part)
    if manner.address is None:
        raise WorkersFailed(f"This machine has no room for an actor, which takes {wanted}.")
    warnings.warn(
        f"No node of the cluster has room for an actor, which takes {wanted}. The run waits until one has.",
        stacklevel=2,
    )


"""A task that means the same on another machine."""

from dataclasses import replace
from pathlib import Path

from whence.data.sets.examples import Example
from whence.data.sets.pictures import Outlined, Stored
from whence.run.task import Task


def portable(task: Task) -> Task:
    """Put the bytes of a file in the place of its path, wherever a picture or a mask is one."""
    return replace(
        task, items=tuple(replace(item, example=_carried(item.example)) for item in task.items)
    )


def _carried(example: Example) -> Example:
    given, mask = example.given, example.mask
    if isinstance(given, Stored):
        given = _read(given)
    if mask is not None:
        mask = Outlined(_read(mask.picture), mask.trimap)
    return replace(example, given=given, mask=mask)


def _read(picture: Stored) -> Stored:
    if not isinstance(picture.source, Path) or not picture.source.is_file():
        return picture
    try:
        return Stored(picture.source.read_bytes(), picture.name)
    except OSError:  # the worker finds the same, and makes a row of it that says so
        return picture
