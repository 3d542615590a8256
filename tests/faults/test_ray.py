"""A real Ray cluster of two nodes on this machine, whose actors and nodes die during a run."""

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
from whence.data.sets.examples import Example
from whence.run.backends import backend
from whence.run.backends.pool import Pool
from whence.run.backends.ray import Actors, _share
from whence.run.chunks import Item, chunks
from whence.run.keys import example_digest
from whence.run.plan import Manner, Plan
from whence.run.store import pending
from whence.run.task import Done, Task

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
        patch.setenv("PYTHONPATH", str(ROOT))  # so that actors find tests.toy_workers
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


def work(count: int, size: int) -> list[Task]:
    texts = [" and ".join(WORDS[(row + n) % 5] for n in range(1 + row % 4)) for row in range(count)]
    items = [
        Item(row, str(row), Example(text), example_digest(Example(text)))
        for row, text in enumerate(texts)
    ]
    parts = [part[i : i + size] for part in chunks(items) for i in range(0, len(part), size)]
    return [Task(0, number, part, PLAN.methods) for number, part in enumerate(parts)]


def rows(done: list[Done]) -> list[dict[str, Any]]:
    """Return all rows, in one order; those that were sent packed are read again."""
    sent = [pending.packed(one.records) for one in done if one.records]
    tables = map(pending.tables_of, [*sent, *(part for one in done for part in one.packed)])
    found = [
        {"table": name, **record}
        for one in tables
        for name, table in one.items()
        for record in table.to_pylist()
    ]
    return sorted(found, key=lambda one: (one["row"], one["table"], one["method"]))


def test_serial_processes_and_ray_give_the_same_rows(cluster, one_thread):
    tasks = work(40, 4)
    with backend(PLAN, Manner(device="cpu")) as here:
        identity = here.identity
        expected = rows(list(here.map(tasks)))
    assert len(expected) == 40 * 2 * 2
    assert not [one["error"] for one in expected if one["error"]]

    with backend(PLAN, Manner("processes", workers=1, device="cpu")) as processes:
        assert processes.identity == identity
        assert rows(list(processes.map(tasks))) == expected

    found: list[Done] = []
    manner = Manner("ray", address=cluster.address, actors=1, device="cpu")
    with backend(PLAN, manner) as actors:
        assert actors.identity == identity
        for done in actors.map(tasks):
            if not found:
                os.kill(int(done.worker.split()[-1]), signal.SIGKILL)
            found.append(done)
    assert sorted(one.chunk for one in found) == list(range(10))
    assert rows(found) == expected
    assert not ray.is_initialized()  # left as it was found


def test_actors_and_nodes_may_die_and_come_back(cluster):
    """Work goes on until all of it has happened, and whatever happened, every task is done once."""
    manner = Manner("ray", address=cluster.address, actors=2, device="cpu")
    found: list[Done] = []
    given = 0
    workers: set[str] = set()
    story = iter(("an actor is killed", "a node is lost", "a node is added", "the end"))
    chapter = "the start"

    def tasks() -> Iterator[Task]:
        nonlocal given
        while chapter != "the end" and given < MOST:
            yield replace(toy.tasks("slow")[0], chunk=given)
            given += 1

    with Pool(Actors(Plan("toy", "data"), manner, toy.Toy)) as actors:
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
                ray.kill(actors._seats[0].hand.handle)
            if chapter == "a node is lost":
                cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
            if chapter == "a node is added":
                cluster.add_node(**NODE)
    assert chapter == "the end"
    assert sorted(one.chunk for one in found) == list(range(given))
    assert {record["threads"] for one in found for record in one.records} == {"1"}


def test_a_model_that_cannot_be_loaded_on_a_node_is_the_workers_own_error(cluster):
    manner = Manner("ray", address=cluster.address, actors=1, device="cpu")
    crew = Actors(Plan("toy", "data"), manner, toy.unloadable)
    with Pool(crew) as actors, pytest.raises(UnknownModel, match="There is no model 'toy'"):
        _ = actors.identity
    assert not ray.is_initialized()


def test_a_cluster_that_is_not_there_is_said_at_once():
    manner = Manner("ray", address="127.0.0.1:1")
    with pytest.raises(WorkersFailed, match=r"no Ray cluster to join at '127\.0\.0\.1:1'"):
        backend(PLAN, manner).__enter__()


def test_an_actor_takes_a_gpu_where_there_are_some():
    nodes = [{"CPU": 4.0}, {"CPU": 8.0, "GPU": 2.0}]
    assert _share(Manner("ray"), nodes) == {"CPU": 1, "GPU": 1.0}
    assert _share(Manner("ray", device="cpu"), nodes) == {"CPU": 1, "GPU": 0.0}
    assert _share(Manner("ray", gpus_per_actor=0.5), nodes) == {"CPU": 1, "GPU": 0.5}
    assert _share(Manner("ray"), nodes[:1]) == {"CPU": 1, "GPU": 0.0}
