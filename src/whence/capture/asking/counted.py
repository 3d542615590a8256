"""Counting how often a model is really run, whoever runs it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from whence.capture.fidelity import is_checking


@dataclass
class Runs:
    """Forward passes so far; a batch of eight inputs counts as eight."""

    forward: int = 0


@contextmanager
def counted(model: torch.nn.Module) -> Iterator[Runs]:
    """Count the forward passes that this thread makes for as long as the block lasts."""
    runs, owner = Runs(), get_ident()

    def count(module: torch.nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        if get_ident() != owner or is_checking():
            return
        given = (value for value in (*args, *named.values()) if isinstance(value, Tensor))
        runs.forward += next((len(value) for value in given), 1)

    hook = model.register_forward_pre_hook(count, with_kwargs=True)
    try:
        yield runs
    finally:
        hook.remove()
