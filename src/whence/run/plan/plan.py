"""What a run is to do: the question that it answers, and, apart from it, the manner in which it is worked on.

A `Plan` says what determines the results. A `Manner` says who works on them, where and how many at a time, and no
result depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from whence.run.plan.toml import toml

BadRows = Literal["skip", "fail"]
BackendName = Literal["in-process", "processes", "ray"]


@dataclass(frozen=True)
class Plan:
    """A model, a data set, and what to find out about them."""

    model: str  # a built-in name, a folder or a Hub id
    data: str  # an address, see whence.data.sets.source
    methods: tuple[str, ...] = ()  # none: those that read one forward and backward pass
    metrics: tuple[str, ...] = ()  # none: explanations are made and not tested
    audit: tuple[str, ...] = ()  # experiments; none: attention is not audited
    params: Mapping[str, Any] = field(default_factory=dict)  # of methods, NAME or METHOD.NAME
    metric_params: Mapping[str, Any] = field(default_factory=dict)
    audit_params: Mapping[str, Any] = field(default_factory=dict)
    # The data: names of columns, and which rows.
    text: str | None = None
    pair: str | None = None
    label: str | None = None
    limit: int | None = None  # the first so many
    sample: int | None = None  # so many, drawn by the seed
    shard: tuple[int, int] | None = None  # (i, n): part i of n, counted from 1
    bad_rows: BadRows = "skip"
    # What is explained, and how it is tested.
    target: Any = None
    remove: str | None = None
    unit: str = "token"
    truncate: bool = True
    rankings: int = 5
    seed: int = 0
    # How the model is loaded.
    dtype: str | None = None
    revision: str | None = None
    mlm: str | None = None

    def to_toml(self) -> str:
        """Return the plan as the text of a file that `whence run` takes: what differs from the defaults."""
        return toml(told(self))


@dataclass(frozen=True)
class Manner:
    """Who works, where, and on how much at a time."""

    backend: BackendName = "in-process"
    workers: int | None = None  # processes; None: one for each core
    device: str | None = None
    batch_size: int | None = None  # inputs in one batch at most; None: as many as suit the model
    checkpoint: bool = False
    compile: bool = False
    # Of Ray alone.
    address: str | None = None  # None: a cluster on this machine, for as long as the run takes
    actors: int | None = None
    gpus_per_actor: float | None = None


def told(one: Plan | Manner) -> dict[str, Any]:
    """Return a plan or a manner as a file has it: plain data, without what is as it is by default."""
    empty: tuple[Any, ...] = ((), {}, None)
    found = {}
    for each in fields(one):
        value = getattr(one, each.name)
        if value not in empty and value != each.default:
            found[each.name] = "/".join(map(str, value)) if each.name == "shard" else value
    return found
