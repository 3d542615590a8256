"""What came of a run: what failed and why, and which rows of the data could not be read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whence.run.store import Store


@dataclass(frozen=True)
class Failure:
    """Results that failed for the same reason, and the first of them."""

    count: int
    row: int
    method: str
    why: str


@dataclass(frozen=True)
class Outcome:
    """What did not work out; failures by the error's code, the most frequent first."""

    failures: Mapping[str, Failure]  # explanations
    tests: Mapping[str, Failure]  # tests of explanations that did not fail
    bad: list[dict[str, Any]]  # rows of the data that could not be read: row, where, why


def outcome(folder: str | Path) -> Outcome:
    """Look through a run's results for what did not work out."""
    store = Store.read(folder)
    explanations = list(_failed(store, "explanations"))
    without = {(one["row"], one["method"]) for one in explanations}
    tests = [one for one in _failed(store, "metrics") if (one["row"], one["method"]) not in without]
    return Outcome(_by_reason(explanations), _by_reason(tests), list(store.bad()))


def _failed(store: Store, table: str) -> Iterator[dict[str, Any]]:
    """Go through the rows with an error; where there is none, nothing is read."""
    if any(index["tables"].get(table, {}).get("failed") for index in store.indices()):
        columns = ["error", "row", "method", "why"]
        for batch in store.table(table).to_batches(columns=columns):
            yield from batch.filter(batch.column("error").is_valid()).to_pylist()


def _by_reason(failed: list[dict[str, Any]]) -> dict[str, Failure]:
    found: dict[str, Failure] = {}
    for one in failed:
        known = found.get(one["error"])
        own = (one["row"], one["method"], one["why"])
        first = own if known is None else min((known.row, known.method, known.why), own)
        found[one["error"]] = Failure(1 if known is None else known.count + 1, *first)
    return dict(sorted(found.items(), key=lambda named: (-named[1].count, named[0])))
