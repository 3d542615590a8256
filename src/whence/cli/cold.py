"""A quicker cold start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import heavy packages without the garbage collector.

    torch and transformers make a third of a million objects that stay; looking for garbage among them again and
    again is a good part of the time until the first answer (bench/cold_start.py). Afterwards they are set aside.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
