"""Two models of one tokenizer, held against each other."""

from typing import Any, Literal

from pydantic import Field

from whence.web.schema.base import (
    TEXT,
    Asked,
    Given,
    Grid,
    Interval,
    ModelFacts,
    Prediction,
    Source,
    Token,
    Warned,
    Word,
)
from whence.web.schema.explain import OneExplanation
from whence.web.schema.flow import Direction, Flow, Query, WeightName


class CompareAsked(Asked):
    """Compare two models on one input."""

    a: str = Field(max_length=300)
    b: str = Field(max_length=300)
    text: str = Field(max_length=TEXT)
    pair: str | None = Field(default=None, max_length=TEXT)
    target: str | None = Field(default=None, max_length=300)
    weight: WeightName = "attention"
    direction: Direction = "back"
    token: int | None = Field(default=None, ge=0)
    query: Query = Query()
    method: str | None = Field(default=None, max_length=100)
    truncate: bool = True


class Difference(Given):
    """Edges of both models by column, those that differ most first."""

    layer: list[int]
    head: list[int]
    source: list[int]
    to: list[int]
    a: list[float]  # flow in A
    b: list[float]


class ChangedHead(Given):
    """How far one head is from its twin."""

    layer: int
    head: int
    divergence: float
    decision: float  # of the row that the decision reads alone


class Compared(Given):
    """Two models on one input."""

    kind: Literal["compared"] = "compared"
    a: ModelFacts
    b: ModelFacts
    input: Source
    tokens: list[Token]
    words: list[Word]
    predictions: tuple[Prediction | None, Prediction | None]
    flows: tuple[Flow, Flow]
    difference: Difference
    possible: list[int]  # per layer: edges of the query that carry anything in either model
    divergence: Grid  # mean Jensen-Shannon divergence of the rows, in bits
    decision: Grid  # of the row that the decision reads
    layers: list[float]  # mean over heads
    changed: list[ChangedHead]  # the most changed first
    explanations: tuple[OneExplanation | None, OneExplanation | None]
    warnings: list[Warned]


class CompareDataAsked(Asked):
    """Compare two models over a data set; a job."""

    a: str = Field(max_length=300)
    b: str = Field(max_length=300)
    data: str = Field(max_length=100)
    limit: int = Field(default=100, ge=1, le=2000)
    coverage: float = Field(default=0.5, gt=0, le=1)
    specials: bool = False  # whether edges that end on special tokens count
    method: str | None = Field(default=None, max_length=100)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Pair(Given):
    """A figure of both models, and its change."""

    a: Interval
    b: Interval
    change: Interval


class HeadCompared(Given):
    """One head over a data set."""

    layer: int
    head: int
    divergence: Interval
    decision: Interval
    special: Pair
    entropy: Pair


class LayerCompared(Given):
    """One layer over a data set."""

    layer: int
    divergence: Interval
    decision: Interval
    special: Pair
    strangers: (
        Interval  # divergence of a head from another head of its layer: how far apart heads can be
    )
    overlap: Interval  # Jaccard index of the flow's edges in this layer
    chance: Interval  # the same of random edges, as many in each layer


class Named(Given):
    """A pair of figures with a name."""

    name: str
    figures: Pair


class OtherOverlap(Given):
    """The same with, or without, edges that end on special tokens."""

    specials: bool
    jaccard: Interval
    chance: Interval


class Overlap(Given):
    """How much of the flow two models share, beside what random edges would."""

    coverage: float
    specials: bool  # whether edges that end on special tokens count
    jaccard: Interval
    chance: Interval
    only_a: Interval  # edges, as shares of the union
    only_b: Interval
    other: OtherOverlap


class AttributionAgreement(Given):
    """How far two models agree about the words, beside what chance would give."""

    method: str
    tau: Interval
    top: Interval
    k: int
    chance: Interval


class Comparison(Given):
    """What `Comparison.to_dict()` returns."""

    version: int
    kind: Literal["comparison"] = "comparison"
    a: ModelFacts
    b: ModelFacts
    data: dict[str, Any]
    setting: dict[str, Any]
    heads: list[HeadCompared]
    layers: list[LayerCompared]
    segments: list[Named]
    specials: list[Named]
    overlap: Overlap
    attribution: AttributionAgreement | None
    without_attribution: str | None  # why there is none
    predictions: dict[str, Any] | None
    changed: dict[str, Any]
    sentence: str
    calls: dict[str, int]
    seconds: float
    provenance: dict[str, Any]
