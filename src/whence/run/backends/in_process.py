"""The work is done here, in the process that asks for it, one task after the other."""

from collections.abc import Iterable, Iterator

from whence.run.backends.answer import Factory, Working, signed, the_worker
from whence.run.plan import Manner, Plan
from whence.run.task import Done, Identity, Task


class InProcess:
    """One worker, whose model is loaded when it is first needed."""

    def __init__(self, plan: Plan, manner: Manner, factory: Factory = the_worker) -> None:
        self._plan, self._manner, self._factory = plan, manner, factory
        self._worker: Working | None = None

    def __enter__(self) -> "InProcess":
        return self

    def __exit__(self, *error: object) -> None:
        self._worker = None  # and the model with it

    @property
    def identity(self) -> Identity:
        """What the model and the code are."""
        return self._loaded().identity

    @property
    def size(self) -> int:
        """There is one."""
        return 1

    def map(self, tasks: Iterable[Task]) -> Iterator[Done]:
        """Do one task after the other."""
        worker = self._loaded()
        for task in tasks:
            yield signed(worker.do(task))

    def _loaded(self) -> Working:
        if self._worker is None:
            self._worker = self._factory(self._plan, self._manner)
        return self._worker
