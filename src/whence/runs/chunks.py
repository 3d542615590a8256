"""Rows that a plan selects (sample, limit, shard), in windows of consecutive examples and chunks (one task each).

A chunk has examples of a window of similar length in characters, so that no tokenizer is needed. Chunks depend on the
data and the plan alone, so an interrupted or sharded run computes every example among the same ones and gets the same
bits.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

from whence.core.errors import BadExamples
from whence.core.seed import build_generator
from whence.data.dataset import (
    Dataset,
    DatasetRow,
    SkippedRow,
    compute_example_id,
    compute_input_id,
)
from whence.data.example import StoredImage
from whence.runs.plan import Plan
from whence.runs.task import Item


def iterate_selected_rows(data: Dataset, plan: Plan) -> Iterator[DatasetRow | SkippedRow]:
    """Yield the rows of the plan: a sample drawn by its seed, or all, up to its limit."""
    entries: Iterator[DatasetRow | SkippedRow] = iter(data)
    if plan.sample is not None and (count := _count_rows(data, plan)) is not None:
        # The same draw as whence.data.dataset.Dataset.draw.
        order = build_generator("sample of examples", plan.seed).permutation(count)
        drawn = set(order[: plan.sample].tolist())
        entries = (entry for entry in entries if entry.row in drawn)
    return islice(entries, None if plan.limit is None else min(plan.limit, sys.maxsize))


def count_selected_rows(data: Dataset, plan: Plan) -> int | None:
    """Return the number of selected rows, unreadable ones included; None if unknown before reading."""
    bounds = [most for most in (plan.sample, plan.limit) if most is not None]
    count = _count_rows(data, plan)
    return None if count is None else min([count, *bounds])


def _count_rows(data: Dataset, plan: Plan) -> int | None:
    """Return the number of rows; None if unknown, which is an error if some are to be drawn."""
    count = data.count()
    if count is None and plan.sample is not None:
        raise BadExamples(
            f"Nobody knows how many rows {data.name} has, so that none can be drawn. Take the first ones: --limit; "
            "or download it first."
        )
    return count


def is_in_other_shard(plan: Plan, window: int, chunk: int) -> bool:
    """Return whether a chunk belongs to another shard of the run."""
    if plan.shard is None:
        return False
    part, parts = plan.shard
    return (window + chunk) % parts != part - 1


WINDOW_EXAMPLES = 1024  # examples in a window at most, or fewer by bytes:
WINDOW_BYTES = 64 << 20
CHUNK_EXAMPLES = 128  # examples in a chunk at most, or fewer by characters:
CHUNK_CHARACTERS = 64 * 512
# With metrics, an example takes hundreds of passes, which fill batches by themselves. Small chunks are better then:
# a kill loses the chunks at hand, and progress is shown per chunk.
TESTED_CHUNK_EXAMPLES = 16
TESTED_CHUNK_CHARACTERS = 8 * 512
IMAGE_CHARACTERS = 2048  # characters that count for a picture


@dataclass(frozen=True)
class Window:
    """Consecutive examples in chunks, and the unreadable rows between them."""

    number: int
    chunks: tuple[tuple[Item, ...], ...]
    bad: tuple[SkippedRow, ...] = field(default=())

    @property
    def items(self) -> list[Item]:
        """All examples of the window, in the order of the data."""
        return sorted((item for chunk in self.chunks for item in chunk), key=lambda item: item.row)


def iterate_windows(
    rows: Iterable[DatasetRow | SkippedRow], size: int = WINDOW_EXAMPLES, *, tested: bool = False
) -> Iterator[Window]:
    """Yield windows of `size` examples; unreadable rows do not count as examples.

    A window has at most `size` unreadable rows, too. `tested`: metrics are computed, so chunks are smaller.
    """
    number, items, bad, weight = 0, list[Item](), list[SkippedRow](), 0
    for entry in chain(rows, [None]):  # None: the end
        if isinstance(entry, SkippedRow):
            bad.append(entry)
        elif entry is not None:
            input_id = compute_input_id(entry.example)
            example_id = compute_example_id(entry.example, input_id)
            items.append(Item(entry.row, entry.id, entry.example, example_id, input_id))
            weight += _estimate_bytes(entry)
        # A file of unreadable rows must not fill the memory, either.
        is_full = size in (len(items), len(bad)) or weight > WINDOW_BYTES
        if is_full or (entry is None and (items or bad)):
            yield Window(number, split_into_chunks(items, tested=tested), tuple(bad))
            number, items, bad, weight = number + 1, [], [], 0


def split_into_chunks(
    items: Sequence[Item], *, tested: bool = False
) -> tuple[tuple[Item, ...], ...]:
    """Return chunks of similar length, within limits of examples and characters (one always fits)."""
    most = min(CHUNK_EXAMPLES, TESTED_CHUNK_EXAMPLES) if tested else CHUNK_EXAMPLES
    characters = TESTED_CHUNK_CHARACTERS if tested else CHUNK_CHARACTERS
    chunks: list[tuple[Item, ...]] = []
    chunk: list[Item] = []
    for item in sorted(items, key=lambda one: (count_characters(one), one.row)):
        # Items are sorted by length, and a batch is padded to its longest: the last counts for all.
        if chunk and (len(chunk) == most or (len(chunk) + 1) * count_characters(item) > characters):
            chunks.append(tuple(chunk))
            chunk = []
        chunk.append(item)
    return (*chunks, *([tuple(chunk)] if chunk else []))


def count_characters(item: Item) -> int:
    """Return the length of an example in characters."""
    example = item.example
    return IMAGE_CHARACTERS if example.is_image else sum(map(len, example.texts))


def _estimate_bytes(entry: DatasetRow) -> int:
    """Return an estimate of an example's bytes; a picture embedded in the data is held whole."""
    content = entry.example.given
    if isinstance(content, StoredImage):
        return len(content.source) if isinstance(content.source, bytes) else 0
    return sum(map(len, entry.example.texts))
