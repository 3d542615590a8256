"""Pool of Ray actors: cluster, resources, messages, image files sent as bytes.

An actor loads the model on its own node: no weights go through Ray. Images that are files here are sent as bytes, because
another node may not have them. Ray restarts and repeats nothing; the pool does. An actor on a CPU has one core and
computes in one thread (Ray sets `OMP_NUM_THREADS`), unless the node's own `OMP_NUM_THREADS` differs.
"""

import logging
import os
import re
import socket
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from whence.core.errors import BadPlan, WorkersFailed
from whence.data.example import ImageMask, StoredImage
from whence.runs.backends import (
    WorkerFactory,
    WorkerPool,
    WorkerProgram,
    load_worker,
    set_environment,
)
from whence.runs.plan import Execution, Plan
from whence.runs.task import Task


def inline_files(task: Task) -> Task:
    """Return the task with image and mask files replaced by their bytes."""
    items = []
    for item in task.items:
        example, mask = item.example, item.example.mask
        if isinstance(example.given, StoredImage):
            example = replace(example, given=_inline_image(example.given))
        if mask is not None:
            example = replace(example, mask=ImageMask(_inline_image(mask.picture), mask.trimap))
        items.append(replace(item, example=example))
    return replace(task, items=tuple(items))


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


class ActorPool(WorkerPool):
    """The pool of worker actors on a Ray cluster."""

    def __init__(
        self, plan: Plan, execution: Execution, factory: WorkerFactory = load_worker
    ) -> None:
        super().__init__()
        self._execution = execution
        self._actor_args = (str(Path.cwd()), factory, plan, execution)
        self._own = False  # whether this object initialised Ray
        self._actor: Any = None

    def __enter__(self) -> "ActorPool":
        """Join the cluster or start a local one, and size the actors: as requested, else as many as fit."""
        execution = self._execution
        if not ray.is_initialized():
            self._own = True
            _connect(execution)
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        share = _resolve_resources(execution, nodes)
        room = sum(
            min(int(node.get(name, 0) / part + 1e-9) for name, part in share.items() if part)
            for node in nodes
        )
        self.size = execution.actors or max(1, room)
        if not room:
            needed = " and ".join(f"{part:g} {name}" for name, part in share.items() if part)
            room_for = f"room for an actor, which takes {needed}."
            if execution.address is None:
                raise WorkersFailed(f"This machine has no {room_for}")
            warnings.warn(
                f"No node of the cluster has {room_for} The run waits until one has.", stacklevel=2
            )
        self._actor = ray.remote(WorkerActor).options(
            num_cpus=share["CPU"],
            num_gpus=share["GPU"],
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy="SPREAD",
        )
        return self

    def __exit__(self, *error: object) -> None:
        """Leave the cluster, which ends a local one; a connection of the caller's own stays."""
        try:
            super().__exit__(*error)
        finally:
            if self._own:
                ray.shutdown()
                self._own = False

    def start_worker(self) -> "ActorWorker":
        """Request an actor, which Ray starts when a node has room."""
        return ActorWorker(self._actor.remote(*self._actor_args))


class WorkerActor(WorkerProgram):
    """The Ray actor class: a worker in its own process on some node."""

    def __init__(self, folder: str, *load_args: Any) -> None:
        if Path(folder).is_dir():
            os.chdir(folder)  # the caller's folder, so that relative paths of the plan work here
        super().__init__(*load_args)


class ActorWorker:
    """A Ray actor as the pool sees it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.loaded = actor.begin.remote().future()

    def submit(self, task: Task) -> Any:
        """Queue a task, with its files inlined."""
        return self.actor.do.remote(inline_files(task)).future()

    def describe_death(self, error: BaseException) -> str | None:
        """Return what Ray says of the end of the actor, its node or its answer; None if it lives."""
        if isinstance(error, RayTaskError):  # tasks do not raise: unpickling failed, there or here
            raise WorkersFailed(
                f"An actor could not take its task: {_format_ray_error(error.cause or error)}. Is there one version of whence, "
                "Python and Ray on every node, and here?"
            )
        return f"Ray says: {_format_ray_error(error)}" if isinstance(error, RayError) else None

    def kill(self) -> None:
        """Kill the actor at once."""
        with suppress(RayError, ValueError):  # the actor or its cluster is already gone
            ray.kill(self.actor, no_restart=True)


def _format_ray_error(error: BaseException) -> str:
    """Return the first and last line of a Ray error, event and reason, without the long rest."""
    raw = _ANSI_COLOUR.sub("", str(error)).strip().splitlines() or [""]
    lines = [_PROCESS_NAME.sub("", line).strip(" .,:") for line in dict.fromkeys((raw[0], raw[-1]))]
    return f"{type(error).__name__}, {': '.join(line[:200] for line in lines)}"


def _connect(execution: Execution) -> None:
    """Join a cluster without changing its settings, or start one on this machine; the caller's logging stays."""
    address = execution.address
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    missing = {k: v for k, v in LOCAL_CLUSTER_ENVIRONMENT.items() if k not in os.environ}
    try:
        if address:
            host, colon, port = address.removeprefix("ray://").partition(":")
            if colon and port.isdecimal():  # if nothing listens there, Ray would retry for minutes
                socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()
            ray.init(address=address, **quiet)
        else:
            with set_environment(missing):  # "local" ignores RAY_ADDRESS
                ray.init("local", num_cpus=execution.actors, include_dashboard=False, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError, RayError) as error:
        said = _format_ray_error(error)
        raise WorkersFailed(
            f"There is no Ray cluster to join at {address!r}: {said}. Give the address of one, "
            "'auto' on one of its nodes, or none, for a cluster on this machine that ends with the run."
            if address
            else f"Ray cannot be started on this machine: {said}. The backend 'processes' does without it."
        ) from error


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
