"""WorkerPool with stub workers: it maps again after a caller that stopped early."""

from collections import deque

from tests import stores
from whence.runs.backends import WorkerPool
from whence.runs.task import Task, TaskResult

WHO = stores.identity(metrics=())


class InstantWorkers:
    """Workers that answer at once, in rounds: everybody who has something to say says one thing."""

    size = 2

    def open(self):
        pass

    def close(self):
        pass

    def start(self):
        return deque([WHO])

    def send(self, hand, task):
        hand.append(TaskResult(task.window, task.chunk, [], 0.0))

    def receive(self, hands):
        said = [(hand, hand.popleft()) for hand in hands if hand]
        assert said, "it would wait without end"
        return said

    def kill(self, hand):
        hand.clear()


def test_worker_pool_maps_again_after_an_iteration_was_closed_early():
    tasks = [Task(0, number, (stores.item(number),), ("attcat",)) for number in range(6)]
    with WorkerPool(InstantWorkers()) as pool:
        first = pool.map(tasks)
        # The first worker is done with a task in the same round in which the second says who it is.
        assert next(first).chunk == 0
        first.close()
        assert [done.chunk for done in pool.map(tasks[:1])] == [0]
