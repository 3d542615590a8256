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
