"""A stream of examples in windows, and a window in chunks: the same ones for everybody who runs the plan.

A window is so many examples that follow each other in what was chosen of the data; it becomes one file of each table.
A chunk is a task: examples of a window that are about equally long, by their characters, so that no tokenizer is
needed to deal them out. Which examples share a chunk depends on the data and the plan alone. So a run that was
interrupted, or that others do a part of, computes every example among the same ones, and gets the same bits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from whence.data.sets.pictures import Stored
from whence.data.sets.source import Bad, Entry
from whence.run.keys import example_digest, given_digest
from whence.run.task import Item

WINDOW = 1024  # examples, and of huge ones fewer:
BYTES = 64 << 20
CHUNK = 128  # examples at most, and of long ones fewer:
CHARACTERS = 64 * 512
# Where explanations are tested, an example takes hundreds of passes: these fill batches by themselves, and what is
# lost at a kill, and not yet seen, is a chunk.
TESTED = 16  # examples
TESTED_CHARACTERS = 8 * 512
PICTURE = 2048  # characters that a picture counts as


@dataclass(frozen=True)
class Window:
    """Some consecutive examples, in chunks, and the rows between them that cannot be read."""

    number: int
    chunks: tuple[tuple[Item, ...], ...]
    bad: tuple[Bad, ...] = field(default=())

    @property
    def items(self) -> list[Item]:
        """All of its examples, in the order of the data."""
        return sorted((item for chunk in self.chunks for item in chunk), key=lambda item: item.row)


def windows(
    chosen: Iterable[Entry | Bad], size: int = WINDOW, *, tested: bool = False
) -> Iterator[Window]:
    """Cut what was chosen of the data into windows of `size` examples; rows that cannot be read come in addition.

    A window has no more than `size` of these, either. `tested`: its explanations will be.
    """
    number, items, bad, weight = 0, list[Item](), list[Bad](), 0
    for one in chosen:
        if isinstance(one, Bad):
            bad.append(one)
            if len(bad) == size:  # a file of nothing else must not fill the memory
                yield Window(number, chunks(items, tested=tested), tuple(bad))
                number, items, bad, weight = number + 1, [], [], 0
            continue
        given = given_digest(one.example)
        whole = example_digest(one.example, given)
        items.append(Item(one.row, one.id, one.example, whole, given))
        weight += _bytes(one)
        if len(items) == size or weight > BYTES:
            yield Window(number, chunks(items, tested=tested), tuple(bad))
            number, items, bad, weight = number + 1, [], [], 0
    if items or bad:
        yield Window(number, chunks(items, tested=tested), tuple(bad))


def chunks(items: Sequence[Item], *, tested: bool = False) -> tuple[tuple[Item, ...], ...]:
    """Put items of about one length together, no more than so many, and of so many characters but for one alone."""
    most = min(CHUNK, TESTED) if tested else CHUNK
    characters = TESTED_CHARACTERS if tested else CHARACTERS
    found: list[tuple[Item, ...]] = []
    own: list[Item] = []
    for item in sorted(items, key=lambda one: (length(one), one.row)):
        # The longest comes last, and a batch is as long as its longest: it counts for all of them.
        if own and (len(own) == most or (len(own) + 1) * length(item) > characters):
            found.append(tuple(own))
            own = []
        own.append(item)
    return (*found, *([tuple(own)] if own else []))


def length(item: Item) -> int:
    """Return how long an example is, in characters."""
    example = item.example
    return PICTURE if example.seen else sum(map(len, example.texts))


def _bytes(entry: Entry) -> int:
    """Return about how much memory an example takes: a picture that was packed into the data is held whole."""
    given = entry.example.given
    if isinstance(given, Stored):
        return len(given.source) if isinstance(given.source, bytes) else 0
    return sum(map(len, entry.example.texts))


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
