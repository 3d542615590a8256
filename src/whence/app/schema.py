"""Flows, heads, and the test of a path."""

from typing import Literal

from pydantic import Field

from whence.web.schema.base import Asked, Given, Grid, Input, Target, Token, Warned

WeightName = Literal["attention", "norm", "value_zeroing", "gradient_x_attention", "relevance"]
Direction = Literal["back", "forward", "through"]
SegmentPair = Literal["A>A", "A>B", "B>A", "B>B"]


class Query(Asked):
    """Which edges are wanted; all that is given must hold. Layers and heads count from 0."""

    layers: tuple[int, int] | None = None  # first and last
    heads: list[tuple[int, int]] = Field(default=[], max_length=4096)  # (layer, head), any of them
    tokens: list[int] = Field(default=[], max_length=4096)  # an edge touches any of them
    segments: list[SegmentPair] = Field(
        default=[], max_length=4
    )  # from a token of A to one of B, say
    least: float = Field(default=0, ge=0, allow_inf_nan=False)  # the smallest weight of an edge
    specials: bool = True  # whether edges that end on special tokens are among them


class Classic(Asked):
    """The definition of DeRose, Wang & Berger: a threshold of attention, and counts that decay."""

    threshold: float = Field(default=0.1, gt=0, le=1)
    decay: float = Field(default=0.5, ge=0, le=1)
    carry: bool = True  # what was reached stays reached, by the skip connection


class FlowAsked(Asked):
    """Trace back from the decision (no token), or from or to a token."""

    input: Input
    weight: WeightName = "attention"
    direction: Direction = "back"
    token: int | None = Field(default=None, ge=0)
    residual: float | None = Field(default=None, ge=0, le=1)  # None: the weight's own
    query: Query = Query()
    classic: Classic | None = None
    most: int = Field(default=5000, ge=1, le=5000)  # edges sent, the strongest first


class Edges(Given):
    """Edges by column, the strongest first. An edge of layer l leads from `source` above to `to` below it."""

    layer: list[int]
    head: list[int]  # -1: all heads together
    source: list[int]  # the token that attends, above the layer
    to: list[int]  # the token that is attended to, below it
    flow: list[float]
    weight: list[float]  # of the edge itself, as the model has it, before anything flows


class Influence(Given):
    """How often each token was reached, per level, with decay: the classic definition's figures."""

    threshold: float
    decay: float
    carry: bool
    values: list[list[float]]  # levels x tokens, level 0 is the input
    reached: list[int]  # tokens per level


class Flow(Given):
    """What flowed from the decision back to the words, edge by edge. Levels count from 0 at the input."""

    version: int
    kind: Literal["flow"] = "flow"
    model: str
    target: Target | None
    tokens: list[Token]
    weight: WeightName
    class_free: bool  # whether the flow is the same whichever class is asked about
    direction: Direction
    token: int | None  # null: the decision
    layers: int
    heads: int
    per_head: bool
    edges: Edges
    count: int  # edges that carry anything, within the query
    total: float  # what they carry together
    sent: float  # what those in `edges` carry
    whole: float  # what all edges carry, whatever the query
    nodes: list[list[float]]  # levels x tokens: what arrived there
    residual: list[list[float]]  # layers x tokens: what went past the layer by the skip connection
    residual_share: list[float | None]  # per layer
    special_share: list[float | None]  # per layer: of the edges' flow, what ends on special tokens
    shares: list[
        float
    ]  # per token: what ends there, at the input; forward: what arrives above the last layer
    influence: Influence | None
    note: str  # what the weight and its skip connection are, in a sentence


class HeadsAsked(Asked):
    """One number per head; "ablation" runs the model once for each of them, and is a job."""

    input: Input
    statistic: Literal["entropy", "special", "gradient", "ablation"] = "entropy"


class Heads(Given):
    """A number per layer and head."""

    kind: Literal["heads"] = "heads"
    statistic: str
    title: str
    meaning: str
    values: Grid
    low: float
    high: float
    signed: bool


class TensorsAsked(Asked):
    """Numbers in bulk: "attention.LAYER.HEAD" is one map, "thumbnails" are all of them, small."""

    input: Input
    keys: list[str] = Field(min_length=1, max_length=32)


class VerifyAsked(Asked):
    """Knock some edges out, and as many random ones."""

    input: Input
    edges: list[tuple[int, int, int, int]] = Field(
        min_length=1, max_length=5000
    )  # layer, head, source, to
    draws: int = Field(default=30, ge=5, le=200)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Knocked(Given):
    """The target without the edges."""

    renormalised: bool  # whether the other weights of the row grow to make up for it
    probability: float
    change: float
    random: list[float]  # changes by random edge sets of the same size
    random_mean: float
    random_low: float
    random_high: float
    logit_change: float
    random_logit_change: float  # the mean
    beaten: int  # random sets that changed the target less
    of: int
    mass: float  # attention that the edges hold together
    random_mass: float  # that random sets hold in the mean
    sentence: str


class Verified(Given):
    """What became of the prediction when the path that is shown was cut."""

    kind: Literal["verified"] = "verified"
    edges: int
    layers: list[int]
    target: Target
    before: float
    tests: list[Knocked]
    sentence: str
    warnings: list[Warned]
