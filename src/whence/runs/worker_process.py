"""The process of a worker: `python -m whence.run.backends.servant FILE_DESCRIPTOR`, started by `processes`.

What comes over the line is unpickled. It comes from the process that started this one, and from nobody else: the line
is a pair of sockets without a name.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from whence.core.errors import WhenceError
from whence.run.backends.answer import attempt, loaded
from whence.run.task import Task


def serve(line: Connection) -> None:
    """Load the model, say what it is, and do tasks until the line is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    factory, plan, manner = line.recv()
    inbox: SimpleQueue[Task] = SimpleQueue()
    Thread(target=_listen, args=(line, inbox), daemon=True).start()
    worker = loaded(factory, plan, manner)
    if isinstance(worker, WhenceError):
        line.send(worker)
        return
    line.send(worker.identity)
    while True:
        line.send(attempt(worker, inbox.get()))


def _listen(line: Connection, inbox: "SimpleQueue[Task]") -> None:
    """Take tasks as they come. When the line is closed there is nobody to work for: end, whatever is under way."""
    try:
        while True:
            inbox.put(line.recv())
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
