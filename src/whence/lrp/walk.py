"""Walking a tape backwards by a table of rules."""

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from whence.capture.attention.layer import widened
from whence.capture.tape.tape import Call, Step, Tape
from whence.kernels.products import Lately
from whence.lrp.node import Carried, Node, Sparse
from whence.lrp.rules import Rule, slope
from whence.lrp.stabiliser import Stabiliser
from whence.lrp.tables import Table

Watch = Callable[[Node, Carried, Carried], None]
_Use = tuple[tuple[str, ...], Tensor]  # the module that used a value, and what it hands back


def _live(
    rows: list[tuple[Step | Call, Rule | None]], table: Table[Rule], leaves: Iterable[int]
) -> tuple[set[int | None], set[int | None]]:
    """Return the values that may take relevance, and those of them that came out of an activation."""
    live, gates = set[int | None](leaves), set[int | None]()
    for one, rule in rows:
        if rule is not table.cut and (not one.inputs or not live.isdisjoint(one.inputs)):
            live.update(one.outputs)
        if rule is slope:
            gates.update(one.outputs)
    return live, gates


@torch.no_grad()
def walk(
    tape: Tape,
    table: Table[Rule],
    stabiliser: Stabiliser,
    *,
    seeds: dict[int, Tensor],
    leaves: Iterable[int],
    wanted: Iterable[int],
    watch: Watch | None = None,
) -> dict[int, Tensor]:
    """Carry the seeds from the output to the leaves; return what arrives at the wanted values.

    `watch` is shown every node, with what its outputs carried and what was handed to its inputs.
    """
    rows = table.rows(tape)
    live, gates = _live(rows, table, leaves)
    wanted = set(wanted)
    samples = len(next(iter(seeds.values())))
    waiting: dict[int, list[_Use]] = {number: [((), seed)] for number, seed in seeds.items()}
    arrived: dict[int, Tensor] = {}
    sparse, lately = Sparse(), Lately()

    def take(number: int) -> Tensor | None:
        uses = waiting.pop(number, None)
        if uses is None:
            return None
        total = _joined(uses, 0, stabiliser, tape.value(number)) if len(uses) > 1 else uses[0][1]
        if number in wanted:
            arrived[number] = total
        return total

    for one, rule in reversed(rows):
        carried = [None if number is None else take(number) for number in one.outputs]
        if rule is table.cut or all(part is None for part in carried):
            continue
        if rule is None:
            raise table.no_rule(one)
        node = Node.at(
            tape,
            one,
            samples=samples,
            stabiliser=stabiliser,
            live=live,
            gates=gates,
            sparse=sparse,
            lately=lately,
        )
        handed = rule(node, carried)
        if watch is not None:
            watch(node, carried, handed)
        for number, value, part in zip(one.inputs, node.given, handed, strict=True):
            if part is not None and number in live:
                carries = widened(value.dtype)
                if part.dtype != carries:  # where the model casts its values
                    part = part.to(carries)
                waiting.setdefault(number, []).append((one.module, part))
    for number in list(waiting):
        take(number)
    return arrived


def _joined(uses: list[_Use], depth: int, stabiliser: Stabiliser, value: Tensor) -> Tensor:
    """Add up what several uses of one value hand back, module by module.

    A copy is made where the ways part: once inside a module for its own uses, and once more outside if there are
    others. With exact copies that is a plain sum; with the authors' epsilon the order of copies shows.
    """
    shortest = min([len(path) for path, _ in uses])
    first = uses[0][0]
    while depth < shortest and all(path[depth] == first[depth] for path, _ in uses):
        depth += 1
    groups: dict[str | int, list[_Use]] = {}
    for place, (path, part) in enumerate(uses):
        key: str | int = path[depth] if depth < len(path) else place
        groups.setdefault(key, []).append((path, part))
    parts = [
        _joined(group, depth + 1, stabiliser, value) if len(group) > 1 else group[0][1]
        for group in groups.values()
    ]
    return stabiliser.joined(parts, value)
