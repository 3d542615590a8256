"""Every way out of a command has a status, and every error is one line on standard error."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

from whence.cli.interrupt import Terminated
from whence.cli.streams import is_closed
from whence.core.errors import CannotWrite, OutOfMemory, WhenceError
from whence.core.failure import is_failure

P = ParamSpec("P")


def answering(command: Callable[P, None]) -> Callable[P, None]:
    """Wrap a command so that it ends with one line and a status instead of a traceback."""

    @wraps(command)
    def answered(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
            sys.stdout.flush()
        except WhenceError as error:
            _refuse(error)
        except KeyboardInterrupt as interrupt:
            status = 143 if isinstance(interrupt, Terminated) else 130
            _leave(str(interrupt) or "interrupted; nothing was left half-written.", status)
        except BrokenPipeError:
            raise
        except OSError as error:
            # Whatever else fails to be read or written has an error of its own: this is standard output.
            cannot_write(error)
        except MemoryError as error:  # outside of a method: while a model is loaded, for instance
            _refuse(
                OutOfMemory(
                    f"There is not enough memory: {error or 'nothing more can be taken'}. Close what else runs, "
                    "or take a smaller model, or --dtype bfloat16."
                )
            )
        except BaseException as error:  # whatever it is, the user reads one line
            if isinstance(error, SystemExit) or not is_failure(error):
                raise
            if os.environ.get("WHENCE_DEBUG"):
                raise
            line = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            _leave(f"internal error, {line} (WHENCE_DEBUG=1 shows where; please report it)", 1)

    return answered


def cannot_write(error: OSError) -> NoReturn:
    """Leave because standard output takes nothing."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    todo = "Send it to a file, or to /dev/null." if is_closed(error) else "Make room for it."
    _refuse(CannotWrite(f"Cannot write the answer: {error.strerror or error}. {todo}"))


def _refuse(error: WhenceError) -> NoReturn:
    _leave(f"{error} [{error.code}, see {error.page}]", error.exit_status)


def _leave(message: str, status: int) -> NoReturn:
    print(f"whence: {message}", file=sys.stderr)
    sys.exit(status)


"""Ctrl-C and SIGTERM: the first ends the work where it can be ended; those that follow do not disturb that."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM: somebody asked the process to end."""


class Interrupts:
    """Turns signals into exceptions until it is told that everybody is leaving already."""

    def __init__(self) -> None:
        self.leaving = False

    def taken(self, number: int, frame: FrameType | None) -> None:
        """Raise, unless somebody has heard it before."""
        if not self.leaving:
            raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


@contextmanager
def interruptible() -> Iterator[Interrupts]:
    """Take over both signals; after an interrupt they stay taken over, as the process is about to end."""
    both = (signal.SIGINT, signal.SIGTERM)
    found = Interrupts()
    before = {number: signal.signal(number, found.taken) for number in both}
    try:
        yield found
    except KeyboardInterrupt:
        found.leaving = True
        raise
    finally:
        if not found.leaving:
            for number in both:
                signal.signal(number, before[number])


"""The standard streams of a command: what happens where one is closed, or where its reader has gone away."""

import errno
import io
import os
import sys
from pathlib import Path
from typing import NoReturn

_CLOSED = "standard output is closed"


class _Closed(io.TextIOBase):
    """Standard output where there is none: whatever is written there is an error, as it is for other programs."""

    def write(self, text: str, /) -> int:
        raise OSError(errno.EBADF, _CLOSED)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def fill_gaps() -> None:
    """Take the places of standard streams that are closed (`>&-`), so that no file is opened in one of them."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number == 0 else os.O_WRONLY)  # the lowest free one
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:  # else errors would be printed on standard output
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 (for good)


def is_closed(error: OSError) -> bool:
    """Whether an error is that of standard output that is closed."""
    return error.errno == errno.EBADF and error.strerror == _CLOSED


def reader_left(leave: SystemExit) -> bool:
    """Whether a command ends because whoever read it went away: libraries that print make another end of that."""
    return isinstance(leave.__context__, BrokenPipeError)


def leave_quietly() -> NoReturn:
    """Leave as a program does whose reader went away (`| head`): without a word, with the status of SIGPIPE."""
    # Python would complain once more while closing standard output.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(141)
