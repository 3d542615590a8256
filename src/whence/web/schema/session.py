"""What the server has: models, data, stored results, jobs, and the cards of the help page."""

from typing import Any, Literal

from pydantic import Field

from whence.web.schema.base import Asked, Fault, Given
from whence.web.schema.compare import Comparison
from whence.web.schema.data import DataSet, Habits, Leaning, Predicted
from whence.web.schema.explain import TrustCard
from whence.web.schema.flow import Heads, Verified
from whence.web.schema.generate import Generated


class SampleText(Given):
    """A text to begin with."""

    text: str
    pair: str | None
    task: str | None = None  # of models that it is for; null: of all that have none of their own


class ModelEntry(Given):
    """A model that can be asked; it is loaded when it is first needed."""

    id: str
    state: Literal["waiting", "loading", "ready", "failed"]
    name: str
    kind: str | None  # its class
    labels: list[str]
    task: str | None
    modality: Literal["text", "picture", "both"] | None  # null: not loaded, so not known
    mask: str | None = None  # the token that stands for a word to be filled in
    zero_shot: bool = False  # whether any labels can be put to it
    method: str | None = None  # that explains it where none is asked for
    samples: list[SampleText] = Field(
        default=[]
    )  # texts of its own to begin with; none: those of the session
    draws: bool = False  # whether pictures can be drawn for it: "shapes:12"
    pairs: bool  # whether two texts must be given
    takes_pairs: bool | None  # whether two can be; null: not loaded, so not known
    reads_pairs: bool = False  # whether it seems to be trained on two
    layers: int | None
    heads: int | None
    longest: int | None  # tokens
    attention: str | None  # null: can be read; else why not
    error: Fault | None


class Limits(Given):
    """What the server takes."""

    characters: int
    upload: int  # bytes
    seconds: int
    edges: int
    generated: int  # tokens


class Picture(Given):
    """A picture that was brought in."""

    id: str
    name: str
    width: int
    height: int


class Session(Given):
    """What this server offers."""

    version: str
    started: str  # differs after a restart
    models: list[ModelEntry]
    compare: tuple[str, str] | None
    data: list[DataSet]
    samples: list[SampleText]
    allow_load: bool
    limits: Limits


class Health(Given):
    """The server is there; after a restart it started at another time."""

    ok: Literal[True] = True
    started: str


class LoadAsked(Asked):
    """Load a model; only where the server was started with --allow-load."""

    name: str = Field(min_length=1, max_length=300)


class Card(Given):
    """A method, metric, experiment or edge weight, in words."""

    kind: Literal["method", "metric", "experiment", "weight"]
    name: str
    summary: str
    facts: dict[str, Any]  # family, formula, cost, cite, misleads_when, ...


class Help(Given):
    """Every card."""

    cards: list[Card]


class StoredResult(Given):
    """A stored audit, evaluation, comparison, trust card or explanation."""

    id: str
    kind: str
    name: str
    model: str
    summary: str
    changed: str | None  # when the file was written


class Results(Given):
    """What is stored."""

    results: list[StoredResult]
    problems: list[str]  # files that could not be read, and why


class Job(Given):
    """Long work: where it stands in the queue of its model, how far it is, and what came of it."""

    id: str
    kind: str
    model: str
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    position: int  # jobs before it; 0 when it runs
    done: int
    total: int
    remaining: float | None  # seconds, an estimate
    result: (
        TrustCard | Verified | Heads | Generated | Comparison | Predicted | Leaning | Habits | None
    ) = Field(default=None, discriminator="kind")
    error: Fault | None
