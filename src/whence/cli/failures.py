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
