"""What a worker is given, and what it returns: plain data that can be sent anywhere."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from whence.data.sets.examples import Example
from whence.run.keys import given_digest, key_for

# A row of one of the store's tables, by the names of its columns (whence.run.store.schema), and the name of the table
# under "table".
Record = dict[str, Any]


@dataclass(frozen=True)
class Item:
    """One example of a data set, and where it stands."""

    row: int  # its place in the data, counted from 0, rows that cannot be read included
    id: str  # its own, if the data has a column of them, or what its place is called
    example: Example
    digest: str  # of the example: text, label, rationale, picture, mask (whence.run.keys)
    given: str = ""  # the digest of what is given to the model: the text or the picture alone

    def __post_init__(self) -> None:
        if not self.given:
            object.__setattr__(self, "given", given_digest(self.example))


@dataclass(frozen=True)
class Task:
    """Some examples of about one length, and what is missing of them. The unit of work: done whole or not at all."""

    window: int
    chunk: int
    items: tuple[Item, ...]
    methods: tuple[str, ...]  # to explain by, and to test by every metric of the plan


@dataclass(frozen=True)
class Tally:
    """What is told of records without reading them again."""

    examples: int = 0
    failed: Mapping[str, int] = field(default_factory=dict)  # explanations, by method
    untested: int = 0  # tests that failed

    @classmethod
    def of(cls, records: Iterable[Record]) -> "Tally":
        """Count records."""
        rows, failed, untested = set(), Counter[str](), 0
        for record in records:
            rows.add(record["row"])
            if record.get("error") is not None:
                if record["table"] == "explanations":
                    failed[record["method"]] += 1
                else:
                    untested += 1
        return cls(len(rows), dict(failed), untested)

    def __add__(self, other: "Tally") -> "Tally":
        """Count records of other examples with these."""
        failed = dict(Counter(self.failed) + Counter(other.failed))
        return Tally(self.examples + other.examples, failed, self.untested + other.untested)


@dataclass(frozen=True)
class Done:
    """What a task gave, and what that took.

    A worker in another process sends its records packed (whence.run.store.pending), because the one process that
    takes the results of all would have most of the work with them. Their tally comes with them.
    """

    window: int
    chunk: int
    records: list[Record]
    seconds: float
    # By method: {"seconds": of all examples, "forward": ..., "backward": ...}; under "" what the metrics took.
    costs: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    worker: str = ""  # who did it, for the journal
    # Bytes that the worker had at most so far: "host" of its process, "device" of the accelerator.
    memory: Mapping[str, int] = field(default_factory=dict)
    packed: tuple[bytes, ...] = ()  # more records, of other examples than those above
    tally: Tally = field(default_factory=Tally)  # of these

    @property
    def counted(self) -> Tally:
        """What there is among all of its records."""
        return Tally.of(self.records) + self.tally


@dataclass(frozen=True)
class Identity:
    """What a worker's model and code are, as far as results depend on it: every worker of a run has the same."""

    model: Mapping[str, Any]  # name, revision, class, fingerprint, labels; dtype, tokenizer
    code: str  # the digest of all code that computes
    settings: Mapping[
        str, Mapping[str, Any]
    ]  # by digest: everything about a result but its example
    explained: Mapping[str, str]  # by method: the digest of its setting
    tested: Mapping[str, Mapping[str, str]]  # by method, by metric: the digest of the setting
    software: Mapping[str, str] = field(default_factory=dict)  # not compared: versions, device
    # What must be known where single texts are given, and where pairs are.
    warnings: Mapping[str, str] = field(default_factory=dict)

    def key(self, setting: str, item: Item) -> str:
        """Return the key of an example's result."""
        return key_for(setting, self.settings[setting], item)
