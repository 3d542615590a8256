"""Stored runs: the list, their rows, and one row word by word."""

from typing import Literal

from whence.web.schema.base import Given, Scale, Source


class RunFacts(Given):
    """What a run says of itself."""

    model: str
    data: str
    methods: list[str]
    metrics: list[str]
    audit: list[str]  # experiments
    done: int  # examples
    total: int | None  # null: nobody knows how many there will be
    failed: int  # explanations that could not be made
    bad: int  # rows of the data that could not be read
    state: Literal["running", "complete", "damaged"]  # running: unfinished, at work or not
    problem: str | None  # what is wrong with a damaged one


class StoredRun(RunFacts):
    """A run in the folder that was given at the start, finished or not."""

    id: str
    name: str  # its folder, as seen from the one that was given
    changed: str | None  # when something of it was last written
    quiet: float | None  # seconds since then
    version: str  # differs when something was written since
    asks: str | None  # the app's own model that it was made with, by its id


class Runs(Given):
    """What the folder holds."""

    folder: str | None  # null: the server was started without one
    runs: list[StoredRun]
    left_out: int  # of more runs than a list can have


class RunRow(Given):
    """An explanation of one row of the data by one method."""

    row: int  # in the data, from 0
    id: str
    method: str
    text: str | None
    pair: str | None
    label: str | None
    target: str | None
    predicted: str | None
    probability: float | None
    value: float | None  # of the metric that was asked about
    error: str | None
    why: str | None  # it could not be made


class RunRows(Given):
    """Some rows of a run."""

    rows: list[RunRow]
    found: int  # that answer to what was asked
    first: int  # the number of the first one here, from 0
    problems: list[str]  # files that could not be read


class RunWord(Given):
    """A word, what stands before it, and what a method says of it."""

    text: str
    before: str
    segment: int
    score: float


class RunTest(Given):
    """What a metric says of an explanation."""

    metric: str
    value: float | None
    null: float | None  # what random explanations of the same row get
    why: str | None  # there is no value


class RunExample(Given):
    """One row by one method, word by word."""

    row: int
    method: str
    methods: list[str]  # that the row was explained by
    input: Source
    label: str | None
    target: str | None
    predicted: str | None
    probability: float | None
    signed: bool
    scale: Scale | None
    words: list[RunWord]
    tests: list[RunTest]
    why: str | None  # it could not be explained
