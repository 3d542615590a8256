"""Group of Ray actors for the pool of backends.py: cluster, resources, messages, image files sent as bytes.

An actor loads the model on its own node: no weights go through Ray. Images that are files here are sent as
bytes, because another node may not have them. Ray restarts and repeats nothing; the pool does. An actor on
a CPU has one core and computes in one thread (Ray sets `OMP_NUM_THREADS`), unless the node's own
`OMP_NUM_THREADS` differs.
"""

import logging
import os
import re
import socket
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from whence.core.errors import BadPlan, WhenceError, WorkersFailed
from whence.data.example import Example, ImageMask, StoredImage
from whence.runs.backends import (
    LoadedWorker,
    TaskAnswer,
    WorkerDeath,
    WorkerFactory,
    WorkerMessage,
    load_packing_worker,
    try_load_worker,
    try_task,
)
from whence.runs.plan import Execution, Plan
from whence.runs.task import Identity, Task


def inline_files(task: Task) -> Task:
    """Return the task with image and mask files replaced by their bytes."""
    return replace(
        task,
        items=tuple(replace(item, example=_inline_example(item.example)) for item in task.items),
    )


def _inline_example(example: Example) -> Example:
    content, mask = example.given, example.mask
    if isinstance(content, StoredImage):
        content = _inline_image(content)
    if mask is not None:
        mask = ImageMask(_inline_image(mask.picture), mask.trimap)
    return replace(example, given=content, mask=mask)


def _inline_image(picture: StoredImage) -> StoredImage:
    if not isinstance(picture.source, Path) or not picture.source.is_file():
        return picture
    try:
        return StoredImage(picture.source.read_bytes(), picture.name)
    except OSError:  # the worker fails alike, and records the error
        return picture


# Environment of a cluster started for this run: no usage statistics are sent.
LOCAL_CLUSTER_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
_ANSI_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PROCESS_NAME = re.compile(r"\(pid=[^)]*\)")
_CONNECT_SECONDS = 5.0  # timeout of a connection to the cluster


class WorkerActor:
    """The Ray actor class: a worker in its own process on some node."""

    def __init__(
        self, factory: WorkerFactory, plan: Plan, execution: Execution, folder: str
    ) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)  # the caller's folder, so that relative paths of the plan work here
        self._load_args = factory, plan, execution
        self._worker: LoadedWorker | None = None

    def begin(self) -> Identity | WhenceError:
        """Load the model; return its identity, or the error."""
        worker = try_load_worker(*self._load_args)
        if isinstance(worker, WhenceError):
            return worker
        self._worker = worker
        return worker.identity

    def do(self, task: Task) -> TaskAnswer:
        """Return the result of a task, or its error."""
        assert self._worker is not None  # loaded by `begin`
        return try_task(self._worker, task)


@dataclass(eq=False)
class ActorHandle:
    """A Ray actor with the references of its pending calls, in order."""

    handle: Any
    calls: deque[Any]


class ActorGroup:
    """The group of worker actors on a Ray cluster."""

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_packing_worker
    ) -> None:
        self._execution = execution
        self._actor_args = (factory, plan, execution, str(Path.cwd()))
        self._own = False  # whether this object initialised Ray
        self._size = 0
        self._actor: Any = None

    def open(self) -> None:
        """Join the cluster or start a local one, and size the actors."""
        if not ray.is_initialized():
            self._own = True
            _join_cluster(self._execution) if self._execution.address else _start_local_cluster(
                self._execution
            )
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        share = _resolve_resources(self._execution, nodes)
        self._size = self._execution.actors or max(1, _count_possible_actors(nodes, share))
        if not _count_possible_actors(nodes, share):
            _report_no_room(self._execution, share)
        self._actor = ray.remote(WorkerActor).options(
            num_cpus=share["CPU"],
            num_gpus=share["GPU"],
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )

    def close(self) -> None:
        """Leave the cluster, which ends a local one; a connection of the caller's own stays."""
        if self._own:
            ray.shutdown()
            self._own = False

    @property
    def size(self) -> int:
        """The number of actors: as requested, else as many as the cluster has room for now."""
        return self._size

    def start(self) -> ActorHandle:
        """Request an actor, which Ray starts when a node has room."""
        handle = self._actor.remote(*self._actor_args)
        return ActorHandle(handle, deque([handle.begin.remote()]))

    def send(self, worker: ActorHandle, task: Task) -> None:
        """Send a task to an actor, with its files inlined."""
        worker.calls.append(worker.handle.do.remote(inline_files(task)))

    def receive(self, workers: Sequence[ActorHandle]) -> list[tuple[ActorHandle, WorkerMessage]]:
        """Wait for messages of the actors or their deaths."""
        first = {worker.calls[0]: worker for worker in workers if worker.calls}
        ray.wait(list(first), num_returns=1)
        ready, _ = ray.wait(list(first), num_returns=len(first), timeout=0)
        return [(first[call], _receive_message(first[call])) for call in ready]

    def kill(self, worker: ActorHandle) -> None:
        """Kill an actor at once."""
        worker.calls.clear()
        with suppress(RayError, ValueError):  # the actor or its cluster is already gone
            ray.kill(worker.handle, no_restart=True)


def _receive_message(worker: ActorHandle) -> WorkerMessage:
    try:
        message: WorkerMessage = ray.get(worker.calls.popleft())
    except RayTaskError as error:  # tasks do not raise: unpickling failed, there or here
        return WorkersFailed(
            f"An actor could not take its task: {_format_ray_error(error.cause or error)}. Is there one version of whence, "
            "Python and Ray on every node, and here?"
        )
    except RayError as error:  # the actor, its node or its answer is lost
        return WorkerDeath(f"Ray says: {_format_ray_error(error)}")
    return message


def _format_ray_error(error: BaseException) -> str:
    """Return the first and last line of a Ray error, event and reason, without the long rest."""
    raw = _ANSI_COLOUR.sub("", str(error)).strip().splitlines() or [""]
    lines = [_PROCESS_NAME.sub("", line).strip(" .,:") for line in dict.fromkeys((raw[0], raw[-1]))]
    return f"{type(error).__name__}, {': '.join(line[:200] for line in lines)}"


def _join_cluster(execution: Execution) -> None:
    """Join a cluster without changing its settings or the caller's logging."""
    try:
        _check_reachable(str(execution.address))
        ray.init(address=execution.address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, ImportError, RayError) as error:
        raise WorkersFailed(
            f"There is no Ray cluster to join at {execution.address!r}: {_format_ray_error(error)}. Give the address of one, "
            "'auto' on one of its nodes, or none, for a cluster on this machine that ends with the run."
        ) from error


def _check_reachable(address: str) -> None:
    """Raise OSError if nothing listens at the address; Ray itself would retry for minutes."""
    host, colon, port = address.removeprefix("ray://").partition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


def _start_local_cluster(execution: Execution) -> None:
    """Start a Ray cluster on this machine, for this run."""
    try:
        with _set_environment(LOCAL_CLUSTER_ENVIRONMENT):
            ray.init(
                address="local",  # ignores RAY_ADDRESS
                num_cpus=execution.actors,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
    except (OSError, RuntimeError, ValueError, RayError) as error:
        raise WorkersFailed(
            f"Ray cannot be started on this machine: {_format_ray_error(error)}. The backend 'processes' does without it."
        ) from error


@contextmanager
def _set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Context manager: set environment variables that are not set yet."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _resolve_resources(
    execution: Execution, nodes: Sequence[Mapping[str, float]]
) -> dict[str, float]:
    """Return an actor's resources: one core, and a GPU if nodes have some and the device allows."""
    gpus = execution.gpus_per_actor
    if gpus is not None and not (gpus == 0 or 0 < gpus < 1 or gpus == int(gpus) > 0):
        raise BadPlan(
            f"An actor has no GPU, a part of one or whole ones: 0, 0.5, 1, 2. Got {gpus:g} GPUs per actor."
        )
    allowed = execution.device is None or execution.device.startswith("cuda")
    available = any(node.get("GPU") for node in nodes)
    return {"CPU": 1, "GPU": float(allowed and available) if gpus is None else gpus}


def _count_possible_actors(nodes: Sequence[Mapping[str, float]], share: Mapping[str, float]) -> int:
    """Return the number of actors that fit on the nodes."""
    return sum(
        min(int(node.get(name, 0) / part + 1e-9) for name, part in share.items() if part)
        for node in nodes
    )


def _report_no_room(execution: Execution, share: Mapping[str, float]) -> None:
    needed = " and ".join(f"{part:g} {name}" for name, part in share.items() if part)
    if execution.address is None:
        raise WorkersFailed(f"This machine has no room for an actor, which takes {needed}.")
    warnings.warn(
        f"No node of the cluster has room for an actor, which takes {needed}. The run waits until one has.",
        stacklevel=2,
    )
