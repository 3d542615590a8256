"""WorkerPool with workers that answer at once: it maps again after a caller that stopped early."""

from concurrent.futures import Future

from tests import stores
from whence.runs.backends import WorkerPool
from whence.runs.task import Task, TaskResult

WHO = stores.identity(metrics=())


class InstantWorker:
    """A worker that answers at once."""

    def __init__(self):
        self.loaded = Future()
        self.loaded.set_result(WHO)

    def submit(self, task):
        answer = Future()
        answer.set_result(TaskResult(task.window, task.chunk, {}, 0.0))
        return answer

    def describe_death(self, error):
        raise AssertionError(error)

    def kill(self):
        pass


class InstantPool(WorkerPool):
    """Two of them."""

    def __init__(self):
        super().__init__()
        self.size = 2

    def start_worker(self):
        return InstantWorker()


def test_worker_pool_maps_again_after_an_iteration_was_closed_early():
    tasks = [Task(0, number, (stores.item(number),), ("attcat",)) for number in range(6)]
    with InstantPool() as pool:
        first = pool.map(tasks)
        # The first worker is done with a task in the same round in which the second says who it is.
        assert next(first).chunk == 0
        first.close()
        assert [done.chunk for done in pool.map(tasks[:1])] == [0]
