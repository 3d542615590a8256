"""Is attention an explanation here? Experiments with verdicts, for any classifier that attends.

A `Subject` is a model with examples; an experiment (`experiments`) replaces attention through the capture seam, asks
the model again, or trains another one; `verdict` compares what it found with a threshold that was stated before.
"""

import sys
from inspect import signature
from types import ModuleType
from typing import Any

from whence.audit.result import Audit
from whence.audit.run import audit

__all__ = ["Audit", "audit"]


class _Room(ModuleType):
    """This room is called like the function that users call, and Python puts the room into `whence` under that name.

    So the room can be called: `whence.audit(...)` works whether or not somebody has imported something in here.
    """

    __signature__ = signature(audit)

    def __call__(self, *args: Any, **kwargs: Any) -> Audit:
        return audit(*args, **kwargs)


sys.modules[__name__].__class__ = _Room
