"""Who does the work of a run: workers in this process and in others, which may die at any moment."""

import builtins
import itertools
import os
import pickle
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests import toy_workers as toy
from whence.core.errors import BadPlan, UnknownModel, WorkersFailed
from whence.data.sets.examples import Example
from whence.data.sets.pictures import Outlined, Stored
from whence.run.backends import backend
from whence.run.backends.answer import loaded
from whence.run.backends.in_process import InProcess
from whence.run.backends.jobs import Job
from whence.run.backends.pool import DEPTH, Pool, different
from whence.run.backends.portable import portable
from whence.run.backends.processes import Process, Processes
from whence.run.backends.servant import serve
from whence.run.plan import Manner, Plan
from whence.run.task import Done, Item, Task

pytestmark = pytest.mark.xdist_group("ray")  # what starts processes runs in one place

PLAN = Plan("toy", "data")


class Child:
    """A process that was forked: the part of `subprocess.Popen` that counts."""

    def __init__(self, pid: int) -> None:
        self.pid, self.status = pid, None

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self.status


class Forked(Processes):
    """The same, but a worker is a fork of this process, which is there at once; a new interpreter takes seconds."""

    def start(self) -> Process:
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            with suppress(
                BaseException
            ):  # whatever it is, the child must not go on as a copy of the tests
                serve(Connection(theirs.detach()))
            os._exit(0)
        theirs.close()
        line = Connection(ours.detach())
        line.send(self._first_words)
        return Process(Child(pid), line)


def pool_of(factory, plan: Plan = PLAN, crew: type[Processes] = Forked) -> Pool[Process]:
    return Pool(crew(plan, Manner("processes", workers=2, device="cpu"), factory))


def rows(done: list[Done]) -> list[int]:
    return sorted(record["row"] for one in done for record in one.records)


def alive(pid: int) -> bool:
    """Say whether a process is there and has not ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(enough: Callable[[int], bool]) -> Iterator[Task]:
    """Yield tasks until there are enough of them."""
    for count in itertools.count():
        if enough(count):
            return
        yield replace(toy.tasks("slow")[0], chunk=count)


@pytest.fixture
def pool() -> Iterator[Pool[Process]]:
    with pool_of(toy.Toy) as found:
        yield found


def test_processes_do_every_task_once_and_are_gone_afterwards():
    """New interpreters, as for a user; one is killed in the middle of its task."""
    with pool_of(toy.Toy, crew=Processes) as found:
        [first] = found.map(toy.tasks("a"))
        pid = first.records[0]["pid"]
        assert [seat.hand.process.pid for seat in found._seats] == [
            pid
        ]  # as many as there is work for
        done = []
        for one in found.map(toy.tasks(*["slow"] * 20, size=2)):
            if not done:
                os.kill(pid, signal.SIGKILL)
            done.append(one)
        workers = {record["pid"] for one in done for record in one.records}
    assert sorted(one.chunk for one in done) == list(range(10))
    assert rows(done) == list(range(20))
    assert workers - {pid}
    assert not any(alive(worker) for worker in workers)
    # One death may be an accident: nothing was cut, and a chunk that is whole gives the same bits.
    assert not any(record["alone"] for one in done for record in one.records)


def test_cores_are_divided_among_the_workers(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    crew = Processes(PLAN, Manner("processes", workers=2, device="cpu"), toy.Toy)
    crew._cores = 8
    assert crew._environment(0)["OMP_NUM_THREADS"] == "4"
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert crew._environment(0)["OMP_NUM_THREADS"] == "3"


def test_each_worker_sees_one_gpu():
    crew = Processes(PLAN, Manner("processes", device="cpu"), toy.Toy)
    crew._gpus = ["4", "7"]
    seen = [crew._environment(number)["CUDA_VISIBLE_DEVICES"] for number in range(3)]
    assert seen == ["4", "7", "4"]


def test_tasks_are_taken_as_they_are_needed(pool):
    taken, ahead = 0, []

    def stream() -> Iterator[Task]:
        nonlocal taken
        for task in toy.tasks(*["a"] * 40):
            taken += 1
            yield task

    for done, _ in enumerate(pool.map(stream()), start=1):
        ahead.append(taken - done)
    # What both workers have at hand and behind it, and no more: the result is counted when it is there.
    assert max(ahead) <= pool.size * DEPTH


def test_a_task_of_which_a_worker_died_once_is_done_whole(pool, tmp_path):
    [done] = pool.map(toy.tasks("a", f"once {tmp_path / 'died'}", "b", size=3))
    assert [record["alone"] for record in done.records] == [False] * 3


def test_an_example_that_kills_becomes_rows_with_an_error_and_the_others_are_done(pool):
    found = {one.chunk: one for one in pool.map(toy.tasks("a", "die", "b", "c", "d", "e", size=3))}
    assert sorted(found) == [0, 1]
    first, killer, last = found[0].records
    assert (first["row"], last["row"]) == (0, 2)
    assert first["alone"] and last["alone"]
    assert (killer["row"], killer["error"]) == (1, "worker-died")
    assert killer["method"] == "toy" and killer["scores"] is None and killer["why"]
    assert not any(str(pid) in killer["why"] for pid in (os.getpid(), first["pid"]))
    assert rows([found[1]]) == [3, 4, 5]


def test_workers_that_die_of_everything_end_the_run(pool, monkeypatch):
    monkeypatch.setattr("whence.run.backends.pool.MOST_DEATHS", 6)
    with pytest.raises(WorkersFailed, match=r"11 workers died one after the other.*SIGKILL"):
        list(pool.map(toy.tasks(*["die"] * 12)))  # more than 6 and twice 2


def test_a_worker_whose_gpu_is_lost_ends_and_is_replaced(pool, tmp_path):
    [done] = pool.map(toy.tasks("a", f"lost {tmp_path / 'died'}", size=2))
    assert rows([done]) == [0, 1]


def test_parts_of_a_task_are_put_together_as_one():
    [task] = toy.tasks("a", "b", size=2)
    one, two = Job(task).cut()
    costs = [{"m": {"seconds": 1.0, "forward": 2}}, {"m": {"seconds": 0.5}, "": {"seconds": 3.0}}]
    memory = [{"host": 5, "device": 0}, {"host": 3, "device": 0}]
    done = [Done(0, 0, [{"row": row}], 1.5, costs[row], f"w{row}", memory[row]) for row in range(2)]
    assert list(two.finished(done[1])) == []
    [whole] = one.finished(done[0])
    assert whole.records == [{"row": 0}, {"row": 1}]
    assert (whole.window, whole.chunk, whole.seconds, whole.worker) == (0, 0, 3.0, "w0, w1")
    assert whole.costs == {"m": {"seconds": 1.5, "forward": 2}, "": {"seconds": 3.0}}
    assert whole.memory == {"host": 5, "device": 0}


def test_what_a_worker_raises_ends_the_run_and_leaves_nothing_to_the_next(pool):
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
        (toy.stillborn, WorkersFailed, "could not be started: its process was ended by SIGSEGV"),
    ],
)
def test_workers_that_cannot_start_say_why(factory, error, said):
    with pool_of(factory) as found, pytest.raises(error, match=said):
        _ = found.identity
    assert not found._seats


def test_an_error_that_is_none_of_ours_is_told_with_the_way_it_took():
    found = loaded(toy.broken, PLAN, Manner())
    assert isinstance(found, WorkersFailed)
    assert "ZeroDivisionError: division by zero" in str(found)
    assert "toy_workers.py" in "".join(pickle.loads(pickle.dumps(found)).__notes__)  # noqa: S301 - our own


def test_a_worker_with_other_code_is_refused(tmp_path):
    plan = Plan(str(tmp_path / "first"), "data")
    with (
        pool_of(toy.Changeling, plan=plan) as found,
        pytest.raises(WorkersFailed, match="code is c0de here and 0ther there"),
    ):
        list(found.map(until(lambda count: count == 1000)))


def test_what_two_workers_differ_in_is_named():
    one = toy.identity()
    assert different(one, replace(one, software={"torch": "other"})) == ""
    model = replace(one, model={"name": "toy", "fingerprint": "beef"})
    assert different(one, model) == "of model, fingerprint is 'f00d' here and 'beef' there"


def test_the_run_goes_on_with_the_workers_that_there_are(tmp_path):
    plan = Plan(str(tmp_path / "first"), "data")
    with (
        pool_of(toy.Lonely, plan=plan) as found,
        pytest.warns(UserWarning, match="No more than 1 workers can be started"),
    ):
        done = list(found.map(until(lambda count: found.size == 1 and count >= 3)))
        assert len(done) >= 3


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_nobody_is_left_behind_whatever_ends_the_run(how):
    """A fork of this process starts a worker, gives it a task without end, and is killed or interrupted."""
    reading, writing = os.pipe()
    run = os.fork()
    if run == 0:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with suppress(BaseException), pool_of(toy.Toy, crew=Processes) as found:
            _ = found.identity
            os.write(writing, f"{found._seats[0].hand.process.pid}\n".encode())
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


def test_in_this_process_errors_go_through_and_nothing_is_loaded_before_it_is_needed():
    with InProcess(PLAN, Manner(), toy.unloadable) as found:
        assert found.size == 1
        with pytest.raises(UnknownModel):
            _ = found.identity
    with InProcess(PLAN, Manner(), toy.Toy) as found:
        done = list(found.map(toy.tasks("a", "b", size=2)))
        assert rows(done) == [0, 1]
        assert {record["pid"] for one in done for record in one.records} == {os.getpid()}
        with pytest.raises(ValueError, match="as it was told"):
            list(found.map(toy.tasks("raise")))


def test_a_backend_has_a_name(monkeypatch):
    assert isinstance(backend(PLAN, Manner()), InProcess)
    assert isinstance(backend(PLAN, Manner("processes", device="cpu")), Pool)
    with pytest.raises(BadPlan, match="there are 'in-process', 'processes' and 'ray'"):
        backend(PLAN, Manner("threads"))  # type: ignore[arg-type]
    real = builtins.__import__

    def without_ray(name, *rest):
        if name.startswith("whence.run.backends.ray"):
            raise ModuleNotFoundError("No module named 'ray'", name="ray")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_ray)
    with pytest.raises(WorkersFailed, match=r"pip install 'whence\[ray\]'"):
        backend(PLAN, Manner("ray"))


def test_a_picture_that_is_a_file_is_sent_as_bytes(tmp_path):
    picture, mask = tmp_path / "a.png", tmp_path / "a_mask.png"
    picture.write_bytes(b"pixels")
    mask.write_bytes(b"outline")
    seen = Example(Stored(picture, "a.png"), "cat", mask=Outlined(Stored(mask, "a_mask.png"), True))
    gone = Example(Stored(tmp_path / "gone.png", "gone.png"))
    items = [Item(n, str(n), one, "d") for n, one in enumerate((seen, gone, Example("text")))]
    task = Task(0, 0, tuple(items), ("toy",))
    sent, lost, text = (item.example for item in portable(task).items)
    assert isinstance(sent.given, Stored) and sent.mask is not None
    assert (sent.given.source, sent.given.name, sent.label) == (b"pixels", "a.png", "cat")
    assert (sent.mask.picture.source, sent.mask.trimap) == (b"outline", True)
    # The worker finds that it is not there, and makes a row of it.
    assert isinstance(lost.given, Stored) and lost.given.source == tmp_path / "gone.png"
    assert text == Example("text")
