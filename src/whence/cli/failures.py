"""Exit statuses and error lines of commands, signal handling and closed standard streams.

Every error is one line on standard error with a status of its own. Interrupts: 130 (Ctrl-C), 143 (SIGTERM);
a reader that closed the pipe (`| head`): 141. The first signal ends the work, later ones do not disturb that.
"""

import errno
import inspect
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from whence.core.errors import CannotWrite, OutOfMemory, WhenceError, is_failure


def with_exit_status(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function: its groups become options, and its errors one line and a status."""
    parameters: dict[str, inspect.Parameter] = {}
    groups: dict[str, tuple[Any, list[str]]] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        if is_dataclass(parameter.annotation):
            kind: Any = parameter.annotation
            fields = inspect.signature(kind, eval_str=True).parameters
            groups[name] = kind, list(fields)
            parameters |= fields
        else:
            parameters[name] = parameter

    @wraps(command)
    def run_command(**values: Any) -> None:
        try:
            given = {
                name: kind(**{field: values.pop(field) for field in fields})
                for name, (kind, fields) in groups.items()
            }
            command(**given, **values)
            sys.stdout.flush()
        except WhenceError as error:
            _exit_with_error(error)
        except KeyboardInterrupt as interrupt:
            message = str(interrupt) or "interrupted; nothing was left half-written."
            _exit_with_message(message, 143 if isinstance(interrupt, Terminated) else 130)
        except BrokenPipeError:
            raise
        except OSError as error:
            # Reading and writing files raises a WhenceError, so this is standard output.
            exit_cannot_write(error)
        except MemoryError as error:  # outside a method, such as while a model is loaded
            why = f"There is not enough memory: {error or 'nothing more can be taken'}."
            todo = "Close what else runs, or take a smaller model, or --dtype bfloat16."
            _exit_with_error(OutOfMemory(f"{why} {todo}"))
        except BaseException as error:  # any other error is one line for the user
            expected = isinstance(error, SystemExit) or not is_failure(error)
            if expected or os.environ.get("WHENCE_DEBUG"):
                raise
            line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            todo = "WHENCE_DEBUG=1 shows where; please report it"
            _exit_with_message(f"internal error, {line} ({todo})", 1)

    shown = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters.values()]
    run_command.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    run_command.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    return run_command


def exit_cannot_write(error: OSError) -> NoReturn:
    """Exit with CannotWrite: standard output is full or closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    is_closed = error.errno == errno.EBADF and error.strerror == _CLOSED_MESSAGE
    todo = "Send it to a file, or to /dev/null." if is_closed else "Make room for it."
    _exit_with_error(CannotWrite(f"Cannot write the answer: {error.strerror or error}. {todo}"))


def _exit_with_error(error: WhenceError) -> NoReturn:
    _exit_with_message(f"{error} [{error.code}, see {error.page}]", error.exit_status)


def _exit_with_message(message: str, status: int) -> NoReturn:
    print(f"whence: {message}", file=sys.stderr)
    sys.exit(status)


class Terminated(KeyboardInterrupt):
    """The interrupt by SIGTERM, as opposed to Ctrl-C."""


class InterruptHandler:
    """A signal handler that raises KeyboardInterrupt, until `leaving` is set."""

    def __init__(self) -> None:
        self.leaving = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Raise Terminated or KeyboardInterrupt, unless the process is already leaving."""
        if not self.leaving:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def handle_interrupts() -> Iterator[InterruptHandler]:
    """Context manager: handle SIGINT and SIGTERM; after an interrupt both stay ignored until the exit."""
    signals = (signal.SIGINT, signal.SIGTERM)
    handler = InterruptHandler()
    before = {number: signal.signal(number, handler.handle) for number in signals}
    try:
        yield handler
    except KeyboardInterrupt:
        handler.leaving = True
        raise
    finally:
        if not handler.leaving:
            for number in signals:
                signal.signal(number, before[number])


_CLOSED_MESSAGE = "standard output is closed"


class _ClosedStream(io.TextIOBase):
    """A stand-in for a closed standard output; writing to it raises OSError."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, _CLOSED_MESSAGE)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def open_closed_streams() -> None:
    """Open /dev/null for closed standard streams (`>&-`), so that no file gets descriptor 0, 1 or 2."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # gets the lowest free descriptor
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)
    if sys.stdout is None:
        sys.stdout = _ClosedStream()
    if sys.stderr is None:  # else errors would be printed on standard output
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)


def exit_broken_pipe() -> NoReturn:
    """Exit silently with the status of SIGPIPE, 141: the reader of the pipe has gone (`| head`)."""
    # Otherwise Python reports the broken pipe again while closing standard output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(141)
