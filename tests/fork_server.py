"""Fork server of the command-line tests: `whence` processes forked from one that has imported torch.

    python -m tests.fork_server SOCKET     # requests arrive there, with the standard streams of the new process

What such a process does, prints and dies of is its own, as if a shell had started it; only importing torch and
transformers, seconds each time, is done once. Nothing was computed before a fork, so that no thread is lost in it.
"""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

from tests.conftest import ROOT

_MOST = 1 << 20  # bytes of an order
CLOSED = -1  # a standard stream that is not there


class ForkServer:
    """The process that has imported everything, and starts others."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "tests.fork_server", str(theirs.fileno())]
        self._process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        self._socket = ours
        self._answer()

    def start(
        self,
        *arguments: Any,
        stdin: int | None = None,
        stdout: int | None = None,
        **environment: str,
    ) -> "Process":
        """Start `whence`; without stdin there is nothing to read, without stdout it is kept, like stderr."""
        given = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
        kept, out = os.pipe() if stdout is None else (None, stdout)
        said, err = os.pipe()
        order = {
            "argv": list(map(str, arguments)),
            "env": {**os.environ, **environment},
            "cwd": str(Path.cwd()),
        }
        sent = [fd for fd in (given, out, err) if fd != CLOSED]
        order["closed"] = stdin == CLOSED
        socket.send_fds(self._socket, [json.dumps(order).encode()], sent)
        pid = self._answer()["pid"]
        for fd in sent:
            os.close(fd)
        return Process(self, pid, kept, said)

    def status(self, pid: int) -> int | None:
        """Return how a process ended, with minus the number of the signal that ended it; None while it lives."""
        self._socket.send(json.dumps({"pid": pid}).encode())
        found: int | None = self._answer()["status"]
        return found

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._process.wait(30)

    def _answer(self) -> dict[str, Any]:
        said = self._socket.recv(_MOST)
        if not said:
            raise RuntimeError(f"it could not be started, or ended: {self._process.wait(30)}")
        found: dict[str, Any] = json.loads(said)
        return found


class Process:
    """A process that was started there; it has what is used here of `subprocess.Popen`."""

    def __init__(self, warm: ForkServer, pid: int, stdout: int | None, stderr: int) -> None:
        self.pid = pid
        self.stdout = None if stdout is None else os.fdopen(stdout, encoding="utf-8")
        self.stderr = os.fdopen(stderr, encoding="utf-8")
        self.returncode: int | None = None
        self._warm = warm

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.wait(60)
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()

    def poll(self) -> int | None:
        """Return how it ended, or None."""
        if self.returncode is None:
            self.returncode = self._warm.status(self.pid)
        return self.returncode

    def wait(self, seconds: float) -> int:
        """Wait until it has ended."""
        until = time.monotonic() + seconds
        while (found := self.poll()) is None:
            if time.monotonic() > until:
                raise subprocess.TimeoutExpired("whence", seconds)
            time.sleep(0.01)
        return found

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        """Read both streams to their ends, and wait for its own."""
        said = {"out": "", "err": ""}

        def read(name: str, stream: Any) -> None:
            said[name] = stream.read()

        streams = {"out": self.stdout, "err": self.stderr}
        readers = [Thread(target=read, args=one) for one in streams.items() if one[1] is not None]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return said["out"], said["err"]

    def send_signal(self, number: int) -> None:
        """Send a signal."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.send_signal(signal.SIGKILL)


def main() -> None:
    """Start what is ordered until there are no more orders."""
    orders = socket.socket(fileno=int(sys.argv[1]))
    _import_libraries()
    orders.send(b"{}")
    while True:
        message, streams, *_ = socket.recv_fds(orders, _MOST, 3)
        if not message:
            return
        order = json.loads(message)
        if "argv" in order:
            answer: dict[str, Any] = {"pid": _fork_process(order, streams, orders)}
            for fd in streams:
                os.close(fd)
        else:
            ended, how = os.waitpid(order["pid"], os.WNOHANG)
            answer = {"status": os.waitstatus_to_exitcode(how) if ended else None}
        orders.send(json.dumps(answer).encode())


def _import_libraries() -> None:
    """Import all that the commands need, and load a model: most of what that imports comes with it."""
    import pydantic.type_adapter  # noqa: F401 - typer takes it for its options
    import rich.progress  # noqa: F401
    import uvicorn.protocols.http.h11_impl  # noqa: F401

    import whence.app.server
    import whence.cli.main
    import whence.methods
    import whence.metrics

    whence.methods.method.names()
    whence.metrics.metric.names()
    whence.load("reviews")


def _fork_process(order: dict[str, Any], streams: list[int], orders: socket.socket) -> int:
    child = os.fork()
    if child:
        return child
    orders.close()
    os.setsid()
    places = (1, 2) if order["closed"] else (0, 1, 2)
    if order["closed"]:
        os.close(0)
    for place, fd in zip(places, streams, strict=True):
        os.dup2(fd, place)
        os.close(fd)
    os.environ.clear()
    os.environ.update(order["env"])
    os.chdir(order["cwd"])
    _open_streams(order["closed"])
    sys.argv = ["whence", *order["argv"]]
    status = 1
    try:
        from whence.cli.main import run

        run()
        status = 0
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # what Python does with what it cannot write at its end
                status = 120
        os._exit(status)


def _open_streams(closed: bool) -> None:
    """Open the standard streams as Python does at its start."""
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    encoding = encoding or "utf-8"
    if not closed:
        sys.stdin = os.fdopen(0, encoding=encoding, errors=errors or "strict", closefd=False)
    else:
        sys.stdin = None
    sys.stdout = os.fdopen(1, "w", encoding=encoding, errors=errors or "strict", closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, encoding=encoding, errors="backslashreplace", closefd=False)


if __name__ == "__main__":
    main()
