"""Runs over data sets: plan, store, worker, backends. The only room with concurrency.

A `Plan` says what is to be found out; windows of examples are cut into chunks, workers do them, and one writer puts
what they give into a store that survives anything. Importing this room imports none of it: workers need only a part.
"""

import sys
from inspect import Signature, signature
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """This room is called like the function that users call, and Python puts the room into `whence` under that name.

    So the room can be called: `whence.run(...)` works whether or not somebody has imported something in here.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from whence.run.call import run

        return run(*args, **kwargs)

    @property
    def __signature__(self) -> Signature:
        from whence.run.call import run

        return signature(run)


sys.modules[__name__].__class__ = _Room
