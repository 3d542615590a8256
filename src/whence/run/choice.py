"""Which rows of a data set a plan asks for."""

import sys
from collections.abc import Iterator
from itertools import islice

from whence.core.errors import BadExamples
from whence.core.seed import generator
from whence.data.sets.source import Bad, Entry, Source
from whence.run.plan import Plan


def chosen(data: Source, plan: Plan) -> Iterator[Entry | Bad]:
    """Take the rows that the plan asks for: a sample, drawn by its seed, or all; of these the first so many."""
    entries: Iterator[Entry | Bad] = iter(data)
    if plan.sample is not None:
        # As whence.data.sets.examples.sample draws them.
        order = generator("sample of examples", plan.seed).permutation(_counted(data))
        drawn = set(order[: plan.sample].tolist())
        entries = (one for one in entries if one.row in drawn)
    return islice(entries, None if plan.limit is None else min(plan.limit, sys.maxsize))


def rows_chosen(data: Source, plan: Plan) -> int | None:
    """Return how many rows these are, good and bad; None where only going through the data would tell."""
    count = _counted(data) if plan.sample is not None else data.count()
    bounds = [most for most in (plan.sample, plan.limit) if most is not None]
    return None if count is None else min([count, *bounds])


def elsewhere(plan: Plan, window: int, chunk: int) -> bool:
    """Say whether another part of the run does this chunk."""
    if plan.shard is None:
        return False
    part, parts = plan.shard
    return (window + chunk) % parts != part - 1


def _counted(data: Source) -> int:
    count = data.count()
    if count is None:
        raise BadExamples(
            f"Nobody knows how many rows {data.name} has, so that none can be drawn. Take the first ones: --limit; "
            "or download it first."
        )
    return count
