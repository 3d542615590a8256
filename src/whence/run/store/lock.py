"""One run at a time: a lock that the system lets go of when its holder ends, however that happens. No clocks."""

import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType

from whence.core.errors import CannotWrite, StoreInUse

_FAR = 1 << 30  # Windows keeps others from reading what is locked: a byte that is not there


_HELD: set["Lock"] = set()  # by this process


class Lock:
    """The right to write to a folder, for as long as a `with` block lasts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def __enter__(self) -> "Lock":
        try:
            handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise CannotWrite(
                f"Cannot write to the folder {str(self._path.parent)!r}: {error.strerror}. Choose a folder that "
                "you may write to."
            ) from None
        try:
            _take(handle)
        except (BlockingIOError, PermissionError):
            holder = _holder(os.read(handle, 1000))
            os.close(handle)
            raise StoreInUse(
                f"Another run is writing to {str(self._path.parent)!r}{holder}. Wait until it ends, or give another "
                "folder; results of two folders are brought together by `whence store merge`."
            ) from None
        except OSError as error:
            os.close(handle)
            raise CannotWrite(
                f"The folder {str(self._path.parent)!r} cannot be locked: {error.strerror}. Choose one on a disk "
                "that has locks."
            ) from None
        # For whoever finds it taken. It may be torn or old: only the lock itself counts.
        who = json.dumps({"pid": os.getpid(), "host": socket.gethostname()})
        os.truncate(self._path, 0)
        os.write(handle, who.encode())
        self._handle = handle
        _HELD.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.let_go()

    def let_go(self) -> None:
        """Close the file, which ends the lock where nobody else has it open."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            _HELD.discard(self)


@contextmanager
def at_rest(folder: Path) -> Iterator[None]:
    """Read a folder while nobody writes to it; where its lock may not be touched, nobody does."""
    with ExitStack() as stack:
        lock = folder / "lock"
        if os.access(lock, os.W_OK):
            stack.enter_context(Lock(lock))
        yield


def _holder(content: bytes) -> str:
    try:
        who = json.loads(content)
        return f" (process {int(who['pid'])} on {who['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        os.lseek(handle, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(handle, 0, os.SEEK_SET)
else:
    import fcntl

    def _born() -> None:
        """A child process has its parent's files open, and must not hold a lock when its parent is gone."""
        for lock in [*_HELD]:
            lock.let_go()

    os.register_at_fork(after_in_child=_born)

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
