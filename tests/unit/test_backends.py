"""Backends of a run: workers in this process and in others, which may die at any moment."""

import builtins
import itertools
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests import toy_workers as toy
from whence.core.errors import UnknownModel, WorkersFailed
from whence.data.example import Example, ImageMask, StoredImage
from whence.runs.backends import (
    QUEUE_DEPTH,
    InProcessBackend,
    ProcessPool,
    WorkerProgram,
    create_backend,
    describe_differences,
)
from whence.runs.plan import Execution, Plan
from whence.runs.ray import inline_files
from whence.runs.task import Item, Task, TaskResult

pytestmark = pytest.mark.xdist_group("ray")  # what starts processes runs in one place

PLAN = Plan("toy", "data")


@pytest.fixture(autouse=True)
def _forks(monkeypatch):
    """Let workers be forks of this process, which are there at once; a new interpreter takes seconds."""
    monkeypatch.setattr("whence.runs.backends.START_METHOD", "fork")


@pytest.fixture
def _new_interpreters(_forks, monkeypatch):
    """Let them be what they are for a user."""
    monkeypatch.setattr("whence.runs.backends.START_METHOD", "spawn")


def pool_of(factory, plan: Plan = PLAN) -> ProcessPool:
    return ProcessPool(plan, Execution("processes", workers=2, device="cpu"), factory)


def rows(done: list[TaskResult]) -> list[int]:
    return sorted(record["row"] for one in done for record in toy.read_records(one))


def alive(pid: int) -> bool:
    """Say whether a process is there and has not ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def slow_tasks_until(enough: Callable[[int], bool]) -> Iterator[Task]:
    """Yield tasks until there are enough of them."""
    for count in itertools.count():
        if enough(count):
            return
        yield replace(toy.tasks("slow")[0], chunk=count)


@pytest.fixture
def pool() -> Iterator[ProcessPool]:
    with pool_of(toy.ToyWorker) as found:
        yield found


@pytest.mark.usefixtures("_new_interpreters")
def test_worker_pool_after_a_kill_does_every_task_once_and_leaves_no_process():
    """One is killed in the middle of its task."""
    with pool_of(toy.ToyWorker) as found:
        [first] = found.map(toy.tasks("a"))
        pid = toy.read_records(first)[0]["pid"]
        # As many as there is work for.
        assert [worker.handle.process.pid for worker in found._workers] == [pid]
        done = []
        for one in found.map(toy.tasks(*["slow"] * 20, size=2)):
            if not done:
                os.kill(pid, signal.SIGKILL)
            done.append(one)
        workers = {record["pid"] for one in done for record in toy.read_records(one)}
    assert sorted(one.chunk for one in done) == list(range(10))
    assert rows(done) == list(range(20))
    assert workers - {pid}
    assert not any(alive(worker) for worker in workers)
    # One death may be an accident: nothing was cut, and a chunk that is whole gives the same bits.
    assert not any(record["alone"] for one in done for record in toy.read_records(one))


def test_process_pool_divides_cores_among_workers_unless_omp_num_threads_is_set(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pool = pool_of(toy.ToyWorker)
    pool._cores = 8
    assert pool.build_environment(0)["OMP_NUM_THREADS"] == "4"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert pool.build_environment(0)["OMP_NUM_THREADS"] == "3"


def test_process_pool_shows_each_worker_one_gpu():
    pool = ProcessPool(PLAN, Execution("processes", device="cpu"), toy.ToyWorker)
    pool._gpus = ["4", "7"]
    seen = [pool.build_environment(number)["CUDA_VISIBLE_DEVICES"] for number in range(3)]
    assert seen == ["4", "7", "4"]


@pytest.mark.usefixtures("_new_interpreters")
def test_worker_process_gets_its_environment_and_leaves_that_of_the_run(monkeypatch, pool):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    pool._cores = 6
    [done] = pool.map(toy.tasks("a"))
    assert toy.read_records(done)[0]["threads"] == "3"
    assert "OMP_NUM_THREADS" not in os.environ


def test_worker_processes_do_not_run_the_callers_script_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from tests import toy_workers as toy\n"
        "from whence.runs.backends import ProcessPool\n"
        "from whence.runs.plan import Execution, Plan\n"
        "print('once')\n"
        "manner = Execution('processes', workers=1, device='cpu')\n"
        "with ProcessPool(Plan('toy', 'data'), manner, toy.ToyWorker) as pool:\n"
        "    print(len(list(pool.map(toy.tasks('a', 'b')))))\n"
    )
    path = os.pathsep.join(
        [str(Path(__file__).resolve().parents[2]), os.environ.get("PYTHONPATH", "")]
    )
    said = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert said.stdout == "once\n2\n"


def test_worker_pool_takes_tasks_no_further_ahead_than_its_queue_depth(pool):
    taken, ahead = 0, []

    def stream() -> Iterator[Task]:
        nonlocal taken
        for task in toy.tasks(*["a"] * 40):
            taken += 1
            yield task

    for done, _ in enumerate(pool.map(stream()), start=1):
        ahead.append(taken - done)
    # What both workers have at hand and behind it, and no more: the result is counted when it is there.
    assert max(ahead) <= pool.size * QUEUE_DEPTH


def test_worker_pool_repeats_a_task_whole_after_one_worker_death(pool, tmp_path):
    [done] = pool.map(toy.tasks("a", f"once {tmp_path / 'died'}", "b", size=3))
    assert [record["alone"] for record in toy.read_records(done)] == [False] * 3


def test_example_that_kills_workers_becomes_an_error_row_and_the_others_are_done(pool):
    done = list(pool.map(toy.tasks("a", "die", "b", "c", "d", "e", size=3)))
    assert sorted(one.chunk for one in done) == [
        0,
        0,
        0,
        1,
    ]  # each example of the killer's chunk alone
    records = [record for one in done for record in toy.read_records(one)]
    first, killer, last, *others = sorted(records, key=lambda one: one["row"])
    assert (first["row"], last["row"]) == (0, 2)
    assert first["alone"] and last["alone"]
    assert (killer["row"], killer["error"]) == (1, "worker-died")
    assert killer["method"] == "toy" and killer["scores"] is None and killer["why"]
    assert not any(str(pid) in killer["why"] for pid in (os.getpid(), first["pid"]))
    assert [record["row"] for record in others] == [3, 4, 5]


def test_worker_pool_raises_workers_failed_after_too_many_deaths_in_a_row(pool, monkeypatch):
    monkeypatch.setattr("whence.runs.backends.MAX_CONSECUTIVE_DEATHS", 6)
    with pytest.raises(WorkersFailed, match=r"11 workers died one after the other.*SIGKILL"):
        list(pool.map(toy.tasks(*["die"] * 12)))  # more than 6 and twice 2


def test_worker_pool_replaces_a_worker_whose_gpu_is_lost(pool, tmp_path):
    [done] = pool.map(toy.tasks("a", f"lost {tmp_path / 'died'}", size=2))
    assert rows([done]) == [0, 1]


def test_error_in_a_worker_raises_workers_failed_and_leaves_the_pool_usable(pool):
    with pytest.raises(WorkersFailed, match="ValueError: as it was told") as caught:
        list(pool.map(toy.tasks("slow", "raise", "slow", "slow")))
    assert "toy_workers.py" in "".join(caught.value.__notes__)
    found = list(pool.map([replace(task, window=5) for task in toy.tasks("a", "b", "c")]))
    assert rows(found) == [0, 1, 2]
    assert {one.window for one in found} == {5}


@pytest.mark.parametrize(
    ("factory", "error", "said"),
    [
        (toy.unloadable, UnknownModel, "There is no model 'toy'"),
        (
            toy.dying_on_load,
            WorkersFailed,
            "could not be started: its process was ended by SIGSEGV",
        ),
    ],
)
def test_worker_pool_whose_workers_cannot_start_raises_the_reason(factory, error, said):
    with pool_of(factory) as found, pytest.raises(error, match=said):
        _ = found.identity
    assert not found._workers


def test_worker_program_wraps_a_foreign_error_with_its_traceback():
    found = WorkerProgram(toy.failing_on_load, PLAN, Execution()).begin()
    assert isinstance(found, WorkersFailed)
    assert "ZeroDivisionError: division by zero" in str(found)
    assert "toy_workers.py" in "".join(pickle.loads(pickle.dumps(found)).__notes__)  # noqa: S301 - our own


def test_worker_pool_refuses_a_worker_with_other_code(tmp_path):
    plan = Plan(str(tmp_path / "first"), "data")
    with (
        pool_of(toy.OtherCodeWorker, plan=plan) as found,
        pytest.raises(WorkersFailed, match="code is c0de here and 0ther there"),
    ):
        list(found.map(slow_tasks_until(lambda count: count == 1000)))


def test_describe_differences_names_the_model_field_and_ignores_software():
    one = toy.identity()
    assert describe_differences(one, replace(one, software={"torch": "other"})) == ""
    model = replace(one, model={"name": "toy", "fingerprint": "beef"})
    assert (
        describe_differences(one, model) == "of model, fingerprint is 'f00d' here and 'beef' there"
    )


def test_worker_pool_continues_with_fewer_workers_and_warns(tmp_path):
    plan = Plan(str(tmp_path / "first"), "data")
    with (
        pool_of(toy.OnlyFirstWorker, plan=plan) as found,
        pytest.warns(UserWarning, match="No more than 1 workers can be started"),
    ):
        done = list(found.map(slow_tasks_until(lambda count: found.size == 1 and count >= 3)))
        assert len(done) >= 3


@pytest.mark.usefixtures("_new_interpreters")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_worker_process_ends_after_its_run_is_killed_or_interrupted(how):
    """A fork of this process starts a worker, gives it a task without end, and is killed or interrupted."""
    reading, writing = os.pipe()
    run = os.fork()
    if run == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(BaseException), pool_of(toy.ToyWorker) as found:
            _ = found.identity
            os.write(writing, f"{found._workers[0].handle.process.pid}\n".encode())
            list(found.map(toy.tasks("forever")))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as line:
        worker = int(line.readline())
    assert alive(worker)
    os.killpg(run, how)  # as Ctrl-C in a terminal does it: to the whole group
    os.waitpid(run, 0)
    until = time.monotonic() + 10
    while alive(worker) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive(worker)


def test_in_process_backend_loads_lazily_and_passes_errors_through():
    with InProcessBackend(PLAN, Execution(), toy.unloadable) as found:
        assert found.size == 1
        with pytest.raises(UnknownModel):
            _ = found.identity
    with InProcessBackend(PLAN, Execution(), toy.ToyWorker) as found:
        done = list(found.map(toy.tasks("a", "b", size=2)))
        assert rows(done) == [0, 1]
        assert {record["pid"] for one in done for record in toy.read_records(one)} == {os.getpid()}
        with pytest.raises(ValueError, match="as it was told"):
            list(found.map(toy.tasks("raise")))


def test_create_backend_chooses_by_name_and_refuses_missing_ray(monkeypatch):
    assert isinstance(create_backend(PLAN, Execution()), InProcessBackend)
    assert isinstance(create_backend(PLAN, Execution("processes", device="cpu")), ProcessPool)
    real = builtins.__import__

    def without_ray(name, *rest):
        if name.startswith("whence.runs.ray"):
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(WorkersFailed, match=r"pip install 'whence\[ray\]'"):
        create_backend(PLAN, Execution("ray"))


def test_inline_files_replaces_picture_files_by_bytes_unless_missing(tmp_path):
    picture, mask = tmp_path / "a.png", tmp_path / "a_mask.png"
    picture.write_bytes(b"pixels")
    mask.write_bytes(b"outline")
    seen = Example(
        StoredImage(picture, "a.png"), "cat", mask=ImageMask(StoredImage(mask, "a_mask.png"), True)
    )
    gone = Example(StoredImage(tmp_path / "gone.png", "gone.png"))
    items = [Item(n, str(n), one, "d", "g") for n, one in enumerate((seen, gone, Example("text")))]
    task = Task(0, 0, tuple(items), ("toy",))
    sent, lost, text = (item.example for item in inline_files(task).items)
    assert isinstance(sent.given, StoredImage) and sent.mask is not None
    assert (sent.given.source, sent.given.name, sent.label) == (b"pixels", "a.png", "cat")
    assert (sent.mask.picture.source, sent.mask.trimap) == (b"outline", True)
    # The worker finds that it is not there, and makes a row of it.
    assert isinstance(lost.given, StoredImage) and lost.given.source == tmp_path / "gone.png"
    assert text == Example("text")
