"""Ray backend on a two-node cluster: rows as of serial runs, every task once while actors die, errors, GPUs."""

import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray.cluster_utils import Cluster

from tests import toy_workers as toy
from whence.core.errors import UnknownModel, WorkersFailed
from whence.data.dataset import compute_example_id, compute_input_id
from whence.data.example import Example
from whence.runs.backends import create_backend
from whence.runs.chunks import split_into_chunks
from whence.runs.plan import Execution, Plan
from whence.runs.ray import ActorPool, _resolve_resources
from whence.runs.task import Item, Task, TaskResult

pytestmark = [
    pytest.mark.xdist_group("ray"),
    # Ray leaves sockets and processes of a node that died to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

ROOT = Path(__file__).resolve().parents[2]
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
MOST = 2000  # tasks of a tenth of a second, before a test gives up
PLAN = Plan(
    "reviews",
    "data",
    methods=("attcat", "leave_one_out"),
    metrics=("comprehensiveness",),
    rankings=2,
)
WORDS = (
    "a dull film",
    "gripping and well acted",
    "not bad at all",
    "I fell asleep twice",
    "the best",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        )  # so that actors find tests.toy_workers
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("OMP_NUM_THREADS", "1")
        found = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        found.add_node(**NODE)
        yield found
        found.shutdown()


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process, and those that it starts, compute in one thread each."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_tasks(count: int, size: int) -> list[Task]:
    texts = [" and ".join(WORDS[(row + n) % 5] for n in range(1 + row % 4)) for row in range(count)]
    items = [
        Item(
            row,
            str(row),
            Example(text),
            compute_example_id(Example(text)),
            compute_input_id(Example(text)),
        )
        for row, text in enumerate(texts)
    ]
    parts = [
        part[i : i + size] for part in split_into_chunks(items) for i in range(0, len(part), size)
    ]
    return [Task(0, number, part, PLAN.methods) for number, part in enumerate(parts)]


def rows(done: list[TaskResult]) -> list[dict[str, Any]]:
    """Return all rows, in one order."""
    found = [
        {"table": name, **record}
        for one in done
        for name, table in one.tables.items()
        for record in table.to_pylist()
    ]
    return sorted(found, key=lambda one: (one["row"], one["table"], one["method"]))


def test_serial_processes_and_ray_give_the_same_rows(cluster, one_thread):
    tasks = make_tasks(40, 4)
    with create_backend(PLAN, Execution(device="cpu")) as here:
        identity = here.identity
        expected = rows(list(here.map(tasks)))
    assert len(expected) == 40 * 2 * 2
    assert not [one["error"] for one in expected if one["error"]]

    with create_backend(PLAN, Execution("processes", workers=1, device="cpu")) as processes:
        assert processes.identity == identity
        assert rows(list(processes.map(tasks))) == expected

    found: list[TaskResult] = []
    manner = Execution("ray", address=cluster.address, actors=1, device="cpu")
    with create_backend(PLAN, manner) as actors:
        assert actors.identity == identity
        for done in actors.map(tasks):
            if not found:
                os.kill(int(done.worker.split()[-1]), signal.SIGKILL)
            found.append(done)
    assert sorted(one.chunk for one in found) == list(range(10))
    assert rows(found) == expected
    assert not ray.is_initialized()  # left as it was found


def test_actor_pool_does_every_task_once_while_actors_and_nodes_die_and_return(cluster):
    """Work goes on until all of it has happened, and whatever happened, every task is done once."""
    manner = Execution("ray", address=cluster.address, actors=2, device="cpu")
    found: list[TaskResult] = []
    given = 0
    workers: set[str] = set()
    story = iter(("an actor is killed", "a node is lost", "a node is added", "the end"))
    chapter = "the start"

    def tasks() -> Iterator[Task]:
        nonlocal given
        while chapter != "the end" and given < MOST:
            yield replace(toy.tasks("slow")[0], chunk=given)
            given += 1

    with ActorPool(Plan("toy", "data"), manner, toy.ToyWorker) as actors:
        for done in actors.map(tasks()):
            found.append(done)
            workers.add(done.worker)
            # Both actors work; then one more does, for the killed one; then one again, on the node that is added.
            enough = {
                "the start": 2,
                "an actor is killed": 3,
                "a node is lost": 3,
                "a node is added": 4,
            }
            if len(workers) < enough.get(chapter, MOST):
                continue
            chapter = next(story)
            if chapter == "an actor is killed":
                ray.kill(actors._workers[0].handle.actor)
            if chapter == "a node is lost":
                cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            if chapter == "a node is added":
                cluster.add_node(**NODE)
    assert chapter == "the end"
    assert sorted(one.chunk for one in found) == list(range(given))
    assert {record["threads"] for one in found for record in toy.read_records(one)} == {"1"}


def test_actor_pool_with_an_unloadable_model_raises_the_workers_unknown_model(cluster):
    manner = Execution("ray", address=cluster.address, actors=1, device="cpu")
    pool = ActorPool(Plan("toy", "data"), manner, toy.unloadable)
    with pool as actors, pytest.raises(UnknownModel, match="There is no model 'toy'"):
        _ = actors.identity
    assert not ray.is_initialized()


def test_ray_backend_without_a_cluster_raises_workers_failed():
    manner = Execution("ray", address="127.0.0.1:1")
    with pytest.raises(WorkersFailed, match=r"no Ray cluster to join at '127\.0\.0\.1:1'"):
        create_backend(PLAN, manner).__enter__()


def test_resolve_resources_gives_an_actor_a_gpu_unless_on_cpu_or_none_exists():
    nodes = [{"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}]
    assert _resolve_resources(Execution("ray"), nodes) == {"CPU": 1, "GPU": 1.0}
    assert _resolve_resources(Execution("ray", device="cpu"), nodes) == {"CPU": 1, "GPU": 0.0}
    assert _resolve_resources(Execution("ray", gpus_per_actor=0.5), nodes) == {"CPU": 1, "GPU": 0.5}
    assert _resolve_resources(Execution("ray"), nodes[:1]) == {"CPU": 1, "GPU": 0.0}
