"""Program of a worker process, started by the pool: loads the model and does tasks until its socket closes.

Messages are unpickled. They come only from the parent process: the connection is a nameless socket pair.
"""

import os
import signal
import sys
from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread

from whence.core.errors import WhenceError
from whence.runs.backends import try_load_worker, try_task
from whence.runs.task import Task


def serve_tasks(line: Connection) -> None:
    """Load the model, send its identity, and do tasks until the connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process kills this one
    factory, plan, execution = line.recv()
    inbox: SimpleQueue[Task] = SimpleQueue()
    Thread(target=_queue_incoming_tasks, args=(line, inbox), daemon=True).start()
    worker = try_load_worker(factory, plan, execution)
    if isinstance(worker, WhenceError):
        line.send(worker)
        return
    line.send(worker.identity)
    while True:
        line.send(try_task(worker, inbox.get()))


def _queue_incoming_tasks(line: Connection, inbox: "SimpleQueue[Task]") -> None:
    """Queue incoming tasks; exit at once when the parent closes the connection."""
    try:
        while True:
            inbox.put(line.recv())
    except (EOFError, OSError):
        os._exit(0)


if __name__ == "__main__":
    serve_tasks(Connection(int(sys.argv[1])))
