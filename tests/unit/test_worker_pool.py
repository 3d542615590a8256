"""The pool, with workers made by hand: nothing that one of them says is lost, whoever stops listening."""

from collections import deque

from tests import stores
from whence.run.backends.pool import Pool
from whence.run.task import Done, Task

WHO = stores.identity(metrics=())


class Crew:
    """Workers that answer at once, in rounds: everybody who has something to say says one thing."""

    size = 2

    def open(self):
        pass

    def close(self):
        pass

    def start(self):
        return deque([WHO])

    def give(self, hand, task):
        hand.append(Done(task.window, task.chunk, [], 0.0))

    def hear(self, hands):
        said = [(hand, hand.popleft()) for hand in hands if hand]
        assert said, "it would wait without end"
        return said

    def drop(self, hand):
        hand.clear()


def test_who_leaves_early_loses_no_worker():
    tasks = [Task(0, number, (stores.item(number),), ("attcat",)) for number in range(6)]
    with Pool(Crew()) as pool:
        first = pool.map(tasks)
        # The first worker is done with a task in the same round in which the second says who it is.
        assert next(first).chunk == 0
        first.close()
        assert [done.chunk for done in pool.map(tasks[:1])] == [0]
