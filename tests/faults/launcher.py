"""Launcher of `whence` runs with injected faults, each a fork of this process (not of tests/fork_server.py).

    python -m tests.faults.launcher     # orders come as lines of JSON, answers go out the same way

The slow part, importing torch and transformers, is done once. Each order is a fork of that process, which can be
killed as any process can. Nothing has been differentiated before the fork, so that no thread is lost in the fork.
"""

import json
import os
import sys
from typing import Any

from tests.faults import fault_injection


def main() -> None:
    """Do what is ordered until there are no more orders."""
    _import()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        if "argv" in order:
            answer: dict[str, Any] = {"pid": _start(order)}
        else:
            _, status = os.waitpid(order["wait"], 0)
            answer = {"status": os.waitstatus_to_exitcode(status)}
        print(json.dumps(answer), flush=True)


def _import() -> None:
    """Import all that a run needs, and load its model once: most of what that imports comes with it."""
    import pydantic.type_adapter  # noqa: F401 - typer takes it for its options
    import rich.progress  # noqa: F401

    import whence.cli.main
    import whence.cli.report_command
    import whence.cli.run_command
    import whence.cli.run_display
    import whence.methods
    import whence.metrics
    import whence.runs.run
    import whence.runs.worker

    whence.methods.method.names()
    whence.metrics.metric.names()
    whence.load("reviews")


def _start(order: dict[str, Any]) -> int:
    child = os.fork()
    if child:
        return child
    os.setsid()  # what it starts can be found by its session
    log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 1
    try:
        fault_injection.smaller(order["window"], order["chunk"])
        for name, given in order["harm"].items():
            getattr(fault_injection, name)(**given)
        sys.argv = ["whence", *order["argv"]]
        from whence.cli.main import run

        run()
        status = 0
    except SystemExit as leave:
        status = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    main()
