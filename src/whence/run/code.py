"""The digest of the code that computes: results of other code have other keys."""

import inspect
from collections.abc import Callable, Iterable
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from whence.core.registry import Entry

# Where the numbers of a row come from: rooms, and the files of other rooms that make rows of them.
_ROWS = (
    *("core", "stats", "kernels", "models", "data", "capture", "lrp", "flow", "trial"),
    *("methods", "metrics", "explainer"),
    *("evaluation/measures.py", "evaluation/portions.py", "evaluation/tested.py"),
    *("run/work.py", "run/worker.py", "run/records.py"),
)
_AUDITS = (*_ROWS, "training", "audit")
_PACKAGE = Path(__file__).resolve().parents[1]


@cache
def code_of_rows() -> str:
    """Return the digest of all code that explains and tests."""
    return _digest(_PACKAGE, _ROWS)


@cache
def code_of_audits() -> str:
    """Return the digest of all code that audits."""
    return _digest(_PACKAGE, _AUDITS)


def _digest(package: Path, places: Iterable[str]) -> str:
    found = sha256()
    for place in places:
        at = package / place
        for path in [at] if at.is_file() else sorted(at.rglob("*.py")):
            raw = path.read_bytes()
            found.update(f"{path.relative_to(package).as_posix()} {len(raw)}\n".encode())
            found.update(raw)
    return found.hexdigest()


def source_of(entry: Entry) -> str | None:
    """Return the digest of the module that a method or metric of somebody else stands in; None if it is our own."""
    module = inspect.getmodule(entry.fn)
    name = entry.fn.__module__
    if name.partition(".")[0] == __name__.partition(".")[0]:
        return None
    try:
        text = inspect.getsource(entry.fn if module is None else module)
    except (OSError, TypeError):  # typed in by hand, or made on the spot
        text = _compiled(inspect.unwrap(entry.fn))
    return sha256(text.encode()).hexdigest()


def _compiled(fn: Callable[..., Any]) -> str:
    """Return what a function was compiled to, where there is no file to read."""
    code = fn.__code__
    plain = [repr(one) for one in code.co_consts if not inspect.iscode(one)]
    return f"{code.co_code.hex()} {code.co_names} {plain}"
