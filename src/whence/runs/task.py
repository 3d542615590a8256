"""Tasks for workers, their results, and a worker's identity (model, code, settings), as plain data."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from whence.data.dataset import compute_input_id
from whence.data.example import Example
from whence.runs.keys import compute_example_key

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Item:
    """One example of a data set, with its row, id and digests."""

    row: int  # its place in the data, counted from 0, rows that cannot be read included
    id: str  # from the data's id column, or a name made from its place
    example: Example
    digest: str  # of the example: text, label, rationale, picture, mask (whence.runs.keys)
    given: str = ""  # digest of the model's input: the text or the picture alone

    def __post_init__(self) -> None:
        if not self.given:
            object.__setattr__(self, "given", compute_input_id(self.example))


@dataclass(frozen=True)
class Task:
    """A chunk's examples, of similar length, and the methods missing for them: the unit of work."""

    window: int
    chunk: int
    items: tuple[Item, ...]
    methods: tuple[str, ...]  # methods to explain by; each is tested by every metric of the plan


@dataclass(frozen=True)
class TaskResult:
    """The results of a task as tables (whence.runs.records), with seconds, costs and peak memory."""

    window: int
    chunk: int
    tables: Mapping[str, "pa.Table"]
    seconds: float
    # By method: {"seconds": of all examples, "forward": ..., "backward": ...}; under "" the cost of the metrics.
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    worker: str = ""  # host and process id, for the log
    # Peak bytes of the worker so far: "host" of its process, "device" of the accelerator.
    memory: Mapping[str, int] = field(default_factory=dict)

    @property
    def n_examples(self) -> int:
        """The number of examples that have results."""
        return len({row for table in self.tables.values() for row in table["row"].to_pylist()})

    @property
    def failed(self) -> Counter[str]:
        """The number of failed explanations, by method."""
        if (table := self.tables.get("explanations")) is None:
            return Counter()
        return Counter(table.filter(table["error"].is_valid())["method"].to_pylist())


@dataclass(frozen=True)
class Identity:
    """The model, code and settings of a worker that results depend on; equal for all of a run."""

    model: Mapping[str, Any]  # name, revision, class, fingerprint, labels; dtype, tokenizer
    code: str  # digest of all code that computes results
    settings: Mapping[
        str, Mapping[str, Any]
    ]  # by digest: all that determines a result but the example
    explained: Mapping[str, str]  # by method: the digest of its setting
    tested: Mapping[str, Mapping[str, str]]  # by method, by metric: the digest of the setting
    software: Mapping[str, str] = field(default_factory=dict)  # not compared: versions, device
    # By code: warnings on single texts, and on pairs, for this model.
    warnings: Mapping[str, str] = field(default_factory=dict)

    def compute_key(self, setting: str, item: Item) -> str:
        """Return the key of an example's result in a setting."""
        return compute_example_key(setting, self.settings[setting], item)
