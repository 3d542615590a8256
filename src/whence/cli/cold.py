"""A quicker cold start."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def importing() -> Iterator[None]:
    """Import heavy packages without the garbage collector.

    torch and transformers make half a million objects that stay for good; looking for garbage among them again and
    again is about a quarter of the time until the first answer. Afterwards they are set aside for good.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
