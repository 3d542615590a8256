"""The line between code that failed and a program that is to end: a panic of Rust is no Exception, and a failure."""

from asyncio import CancelledError


def is_failure(error: BaseException) -> bool:
    """Whether something was raised because it failed, whatever its class: neither Ctrl-C nor the end of a task.

    Each library built with pyo3 (tokenizers, safetensors, pydantic) has a class of its own for panics, which is no
    Exception and cannot be imported. Foreign code that calls sys.exit has failed as well.
    """
    return not isinstance(error, KeyboardInterrupt | GeneratorExit | CancelledError)


def as_exception(error: BaseException) -> Exception:
    """Return a failure as an Exception: a SystemExit that is handed on would end whoever waits for an answer."""
    if isinstance(error, Exception):
        return error
    found = RuntimeError(f"{type(error).__name__}: {error}")
    found.__cause__ = error
    return found
