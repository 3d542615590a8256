"""A task on its way: how many workers died of it, and the parts that it was cut into."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from whence.run.task import Done, Tally, Task

DEATHS = 2  # of workers, before a task is cut into single examples, and before a single example counts as failed


@dataclass(eq=False)
class Job:
    """A task, and what happened to it so far."""

    task: Task
    whole: "Whole | None" = None  # that it is a part of
    deaths: int = 0

    @property
    def doubtful(self) -> bool:
        """Whether so many workers died of it that it is not given out as it is any more."""
        return self.deaths >= DEATHS

    def cut(self) -> "list[Job]":
        """Return a job for each example; what they give is put together again."""
        whole = Whole(self.task)
        return [Job(replace(self.task, items=(item,)), whole) for item in self.task.items]

    def finished(self, done: Done) -> Iterator[Done]:
        """Yield what was done, and of a part nothing before the last one is there."""
        if self.whole is None:
            yield done
            return
        self.whole.parts[self.task.items[0].row] = done
        if len(self.whole.parts) == len(self.whole.task.items):
            yield self.whole.joined()


@dataclass(eq=False)
class Whole:
    """A task that was cut into single examples."""

    task: Task
    parts: dict[int, Done] = field(default_factory=dict)  # by row

    def joined(self) -> Done:
        """Put the parts together, in the order that the examples had."""
        parts = [self.parts[item.row] for item in self.task.items]
        costs: dict[str, Counter[str]] = {}
        memory: dict[str, int] = {}
        for part in parts:
            for name, own in part.costs.items():
                costs.setdefault(name, Counter()).update(own)
            memory |= {name: max(taken, memory.get(name, 0)) for name, taken in part.memory.items()}
        return Done(
            self.task.window,
            self.task.chunk,
            [record for part in parts for record in part.records],
            sum(part.seconds for part in parts),
            {name: dict(own) for name, own in costs.items()},
            ", ".join(sorted({part.worker for part in parts if part.worker})),
            memory,
            tuple(one for part in parts for one in part.packed),
            sum((part.tally for part in parts), Tally()),
        )
