"""Pydantic schemas of all HTTP requests and responses: explanations, flow, trust, data, runs, jobs, session.

The class names are the schema names in openapi.json, from which the page's TypeScript types are generated.
"""

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from whence.core.types import PassCount, Prediction, Target, Token, Word
from whence.trust.trust_rules import NullSummary

Label = str
Grid = list[list[float | None]]  # layers x heads


class RequestModel(BaseModel):
    """Base of requests; unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class ResponseModel(BaseModel):
    """Base of responses."""

    model_config = ConfigDict(extra="forbid")


class SelectedFields(ResponseModel):
    """Base of responses with the fields of a result that the page shows; others are left out."""

    model_config = ConfigDict(extra="ignore")


class TableStart(ResponseModel):
    """The columns of a table and its first rows, to choose columns by."""

    columns: list[str]
    rows: list[list[str]]


class Fault(ResponseModel):
    """An error: its code, message, hint, and the page to read."""

    code: str
    message: str
    hint: str
    see: str
    table: TableStart | None = None  # of a table whose columns have to be chosen


class Failure(ResponseModel):
    """The response to a failed request."""

    ok: Literal[False] = False
    error: Fault


class Interval(ResponseModel):
    """A mean of n observations with its 95% interval; below 5 observations none is known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class ModelFacts(ResponseModel):
    """Which model this is."""

    model_config = ConfigDict(extra="allow")

    name: str
    revision: str | None = None
    fingerprint: str
    labels: list[Label]


class Source(ResponseModel):
    """The input as the user gave it."""

    text: str | None
    pair: str | None
    dropped: int


class Scale(ResponseModel):
    """The colour scale of scores: the score of full colour, its unit, and the floor below which a score does not matter."""

    unit: Literal["logit", "probability", "value", "share", "relative"]
    floor: float | None  # least score of full colour; null: unknown
    start: float  # the score of no colour
    full: float  # the score of full colour
    legend: str
    note: str | None  # a sentence if no score reaches the floor


class WarningNote(ResponseModel):
    """A warning about the result shown."""

    code: str  # such as "near-tie", "uniform-attention", "truncated"
    message: str


# The limit of a text in characters; the model's own limit in tokens applies in addition.
TEXT = 50_000
EDGES = 5000  # limit of edges sent or cut


# A short text: a label, a position, an id.
Short = Annotated[str, Field(max_length=300)]


class Input(RequestModel):
    """One input of one model, and which of its outputs is asked about.

    A question answerer takes the question as `text` and the context as `pair`; a picture model takes no text.
    """

    model: Short
    text: str = Field(default="", max_length=TEXT)
    pair: str | None = Field(default=None, max_length=TEXT)
    picture: Short | None = None  # the id of an uploaded picture, or "shapes:12"
    target: Short | None = None
    of: Literal["logit", "probability"] = "logit"
    truncate: bool = True
    at: Short | None = None  # a word or a token's number of a tagger; the number of a mask, from 0
    entity: int | None = Field(default=None, ge=0)  # number among a tagger's entities, without `at`
    answer: str | None = Field(default=None, max_length=TEXT)  # of a language model, as a whole
    rather: str | None = Field(default=None, max_length=TEXT)  # the other answer of a contrast
    labels: list[Short] | None = Field(default=None, max_length=50)  # of zero-shot, or of a picture
    template: Short | None = None  # how a label becomes a sentence: "This example is {}."


Provenance = dict[str, Any]


WordsBy = Literal["sum", "mean", "measured"]


class MethodExplanation(ResponseModel):
    """The scores of one method."""

    method: str
    params: dict[str, Any]
    of: Literal["logit", "probability"] | None = (
        None  # the explained output; some methods explain another than requested
    )
    signed: bool
    scores: list[float]
    word_scores: list[float]
    words_by: WordsBy = "sum"  # how a word's score comes about
    scale: Scale | None = None  # null: from an older file
    axioms: dict[str, float]
    passes: PassCount
    seconds: float
    dtype: str
    pixels: str | None = None  # base64 of a score for each pixel, where the method gives one


class Agreement(ResponseModel):
    """How far two methods agree about the words of one input."""

    a: str
    b: str
    tau: float | None  # Kendall's tau-b of the words' scores; null where one of them is constant
    top: float  # share of the k strongest words they have in common
    k: int
    chance: float  # expected overlap of two random rankings


class MethodFailure(ResponseModel):
    """A method that could not explain this input."""

    method: str
    message: str


class ExplainedPicture(ResponseModel):
    """A picture as the model sees it; its patches are scored row by row."""

    width: int
    height: int
    grid: tuple[int, int]  # patches down and across
    png: str  # base64
    name: str | None


class Entity(ResponseModel):
    """An entity in a text, as a tagger labelled it."""

    text: str
    label: Label
    probability: float | None


class Explanations(ResponseModel):
    """Explanations of one input by several methods: `Explanation.to_dict()` merged, with data for the page."""

    version: int
    model: ModelFacts
    input: Source
    tokens: list[Token]
    words: list[Word]
    prediction: Prediction
    target: Target
    # The tokens of the readout: an entity's, a mask, the ends of an answer; empty: the whole input.
    read: list[int] = Field(default=[])
    # The readout that maps outputs to labels, so that a saved explanation can be explained again.
    reading: dict[str, Any] | None = None
    explanations: list[MethodExplanation]
    provenance: Provenance
    agreement: list[Agreement]
    failed: list[MethodFailure]
    warnings: list[WarningNote]
    runner_up: str | None
    picture: ExplainedPicture | None = None
    rest: Label | None = None  # the output that stands for all unnamed ones
    entities: list[Entity] = Field(default=[])  # entities of a tagger, without a position


class ExplainRequest(RequestModel):
    """Explain one input by one method or several."""

    input: Input
    methods: list[str] = Field(min_length=1, max_length=8)


class TrustRequest(RequestModel):
    """Test the explanations of some methods on this very input."""

    input: Input
    methods: list[str] = Field(min_length=1, max_length=4)
    budget: int | None = Field(default=None, ge=1, le=20_000)


class Curve(ResponseModel):
    """The target's probability while tokens are removed, beside that of random rankings."""

    at: list[float]
    values: list[float]
    null_low: list[float]
    null_mean: list[float]
    null_high: list[float]


class TrustTest(ResponseModel):
    """One test of one explanation."""

    name: str
    remove: str | None
    direction: Literal["higher", "lower"] | None
    value: float | None
    null: NullSummary | None
    percentile: float | None
    interval: tuple[float, float] | None
    beaten: int | None
    tied: int | None
    of: int | None
    chance: float | None
    verdict: str
    why: str
    curve: Curve | None


class TrustMethod(ResponseModel):
    """One method's card."""

    method: str
    params: dict[str, Any]
    signed: bool
    scores: list[float]
    word_scores: list[float]
    scale: Scale | None = None
    passes: PassCount
    verdict: str
    sentence: str
    tests: list[TrustTest]


class TrustRule(ResponseModel):
    """A test's question and its thresholds, in words."""

    name: str
    metric: str
    question: str
    holds: str
    weak: str
    fails: str


class TrustCard(SelectedFields):
    """A trust card: the fields of `Trust.to_dict()` that the page shows."""

    kind: Literal["trust"] = "trust"
    sentence: str
    unit: Literal["token", "word", "patch"]  # the removal unit
    units: int
    rankings: int
    rules: list[TrustRule]
    methods: list[TrustMethod]
    cost: dict[str, float]


WeightName = Literal["attention", "norm", "value_zeroing", "gradient_x_attention", "relevance"]
Direction = Literal["back", "forward", "through"]
SegmentPair = Literal["A>A", "A>B", "B>A", "B>B"]


class Query(RequestModel):
    """Which edges are wanted; all that is given must hold. Layers and heads count from 0."""

    layers: tuple[int, int] | None = None  # first and last
    # (layer, head), any of them
    heads: tuple[tuple[int, int], ...] = Field(default=(), max_length=4096)
    tokens: tuple[int, ...] = Field(default=(), max_length=4096)  # an edge touches any of them
    # such as from a token of text A to one of text B
    segments: tuple[SegmentPair, ...] = Field(default=(), max_length=4)
    least: float = Field(default=0, ge=0, allow_inf_nan=False)  # the smallest weight of an edge
    specials: bool = True  # whether edges that end on special tokens are among them


class Classic(RequestModel):
    """The definition of DeRose, Wang & Berger: a threshold of attention, and counts that decay."""

    threshold: float = Field(default=0.1, gt=0, le=1)
    decay: float = Field(default=0.5, ge=0, le=1)
    carry: bool = True  # a reached token stays reached, through the skip connection


class FlowRequest(RequestModel):
    """Trace back from the decision (no token), or from or to a token."""

    input: Input
    weight: WeightName = "attention"
    direction: Direction = "back"
    token: int | None = Field(default=None, ge=0)
    residual: float | None = Field(default=None, ge=0, le=1)  # None: the weight's own
    query: Query = Query()
    classic: Classic | None = None
    most: int = Field(default=EDGES, ge=1, le=EDGES)  # edges sent, the strongest first


class Edges(ResponseModel):
    """Edges by column, the strongest first. An edge of layer l leads from `source` above to `to` below it."""

    layer: list[int]
    head: list[int]  # -1: all heads together
    source: list[int]  # the token that attends, above the layer
    to: list[int]  # the token that is attended to, below it
    flow: list[float]
    weight: list[float]  # the edge's own weight in the model


class Influence(ResponseModel):
    """How often each token was reached, per level, with decay: the classic definition's figures."""

    threshold: float
    decay: float
    carry: bool
    values: list[list[float]]  # levels x tokens, level 0 is the input
    reached: list[int]  # tokens per level


class Flow(ResponseModel):
    """The flow from the decision back to the words, edge by edge. Levels count from 0 at the input."""

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
    total: float  # flow of these edges
    sent: float  # flow of the sent `edges`
    whole: float  # flow of all edges, without the query
    nodes: list[list[float]]  # levels x tokens: flow that arrives at a token
    residual: list[list[float]]  # layers x tokens: flow through the skip connection
    residual_share: list[float | None]  # per layer
    special_share: list[float | None]  # per layer: of the edges' flow, ending on special tokens
    # per token: flow that ends at the input; forward: flow above the last layer
    shares: list[float]
    influence: Influence | None
    note: str  # a sentence on the weight and its skip connection


class HeadsRequest(RequestModel):
    """One number per head; "ablation" runs the model once for each of them, and is a job."""

    input: Input
    statistic: Literal["entropy", "special", "gradient", "ablation"] = "entropy"


class Heads(ResponseModel):
    """A number per layer and head."""

    kind: Literal["heads"] = "heads"
    statistic: str
    title: str
    meaning: str
    values: Grid
    low: float
    high: float
    signed: bool


class TensorsRequest(RequestModel):
    """Numbers in bulk: "attention.LAYER.HEAD" is one map, "thumbnails" are all of them, small."""

    input: Input
    keys: list[str] = Field(min_length=1, max_length=32)


class VerifyRequest(RequestModel):
    """Knock some edges out, and as many random ones."""

    input: Input
    # layer, head, source, to
    edges: list[tuple[int, int, int, int]] = Field(min_length=1, max_length=EDGES)
    draws: int = Field(default=30, ge=5, le=200)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class CutEffect(ResponseModel):
    """The change of the target's probability without the cut edges."""

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
    random_mass: float  # mean of random sets
    sentence: str


class Verification(ResponseModel):
    """The prediction before and after the shown path was cut."""

    kind: Literal["verified"] = "verified"
    edges: int
    layers: list[int]
    target: Target
    before: float
    tests: list[CutEffect]
    sentence: str
    warnings: list[WarningNote]


class CompareRequest(RequestModel):
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


class Difference(ResponseModel):
    """Edges of both models by column, those that differ most first."""

    layer: list[int]
    head: list[int]
    source: list[int]
    to: list[int]
    a: list[float]  # flow in A
    b: list[float]


class ChangedHead(ResponseModel):
    """How far one head is from its twin."""

    layer: int
    head: int
    divergence: float
    decision: float  # divergence of the row that the decision reads


class InputComparison(ResponseModel):
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
    explanations: tuple[MethodExplanation | None, MethodExplanation | None]
    warnings: list[WarningNote]


class CompareDataRequest(RequestModel):
    """Compare two models over a data set; a job."""

    a: str = Field(max_length=300)
    b: str = Field(max_length=300)
    data: str = Field(max_length=100)
    limit: int = Field(default=100, ge=1, le=2000)
    coverage: float = Field(default=0.5, gt=0, le=1)
    specials: bool = False  # whether edges that end on special tokens count
    method: str | None = Field(default=None, max_length=100)
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class Pair(ResponseModel):
    """A figure of both models, and its change."""

    a: Interval
    b: Interval
    change: Interval


class HeadDifference(ResponseModel):
    """Differences of one head over a data set."""

    layer: int
    head: int
    divergence: Interval
    decision: Interval
    special: Pair
    entropy: Pair


class LayerDifference(ResponseModel):
    """Differences of one layer over a data set."""

    layer: int
    divergence: Interval
    decision: Interval
    special: Pair
    strangers: Interval  # of a head from another of its layer: how far apart heads can be
    overlap: Interval  # Jaccard index of the flow's edges in this layer
    chance: Interval  # the same of random edges, as many in each layer


class NamedPair(ResponseModel):
    """A pair of values with a name."""

    name: str
    figures: Pair


class OtherOverlap(ResponseModel):
    """The overlap with, or without, edges that end on special tokens."""

    specials: bool
    jaccard: Interval
    chance: Interval


class Overlap(OtherOverlap):
    """The share of flow that two models have in common, beside that of random edges."""

    coverage: float
    only_a: Interval  # edges, as shares of the union
    only_b: Interval
    other: OtherOverlap


class AttributionAgreement(ResponseModel):
    """Agreement of two models about the words, beside chance."""

    method: str
    tau: Interval
    top: Interval
    k: int
    chance: Interval


class Comparison(ResponseModel):
    """A comparison of two models over a data set: `Comparison.to_dict()`."""

    version: int
    kind: Literal["comparison"] = "comparison"
    a: ModelFacts
    b: ModelFacts
    data: dict[str, Any]
    setting: dict[str, Any]
    heads: list[HeadDifference]
    layers: list[LayerDifference]
    segments: list[NamedPair]
    specials: list[NamedPair]
    overlap: Overlap
    attribution: AttributionAgreement | None
    without_attribution: str | None  # the reason for a missing attribution
    predictions: dict[str, Any] | None
    changed: dict[str, Any]
    sentence: str
    calls: dict[str, int]
    seconds: float
    provenance: dict[str, Any]


class DataSet(ResponseModel):
    """A data set that was given at the start or brought in."""

    id: str
    name: str
    rows: int
    text: str
    pair: str | None
    label: str | None
    guessed: list[str]
    columns: list[str]  # of the file; empty without a header
    problem: Fault | None = None  # set until its columns are chosen; problem.table lists them


class ColumnsRequest(RequestModel):
    """Read a data set again, by these columns.

    For null the usual names are looked for, and with a text given there is no second one; "" is none.
    """

    text: str | None = Field(default=None, max_length=200)
    pair: str | None = Field(default=None, max_length=200)
    label: str | None = Field(default=None, max_length=200)


class PredictRequest(RequestModel):
    """Predict a data set; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=1000, ge=1, le=10_000)


class Row(ResponseModel):
    """One example, and how surprised the model is by its label."""

    number: int  # in the file, from 0
    text: str
    pair: str | None
    label: str | None  # the true one
    predicted: str
    probability: float | None
    surprise: float | None  # -log2 of the true label's probability; else the entropy of all
    right: bool | None


class PredictionTable(ResponseModel):
    """A data set with its predictions."""

    kind: Literal["predicted"] = "predicted"
    model: str
    data: str
    rows: list[Row]
    given: int
    left_out: list[str]  # sentences: how many, and why
    accuracy: Interval | None
    confusion: list[list[int]] | None  # true x predicted
    labels: list[str]
    surprise: str  # the definition of surprise used here


class HabitsRequest(RequestModel):
    """Count the kinds of positions that heads attend to; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=100, ge=1, le=2000)


class WordsRequest(HabitsRequest):
    """Find the words that each class leans on; a job."""

    method: str | None = Field(default=None, max_length=100)  # null: the model's default
    least: int = Field(default=3, ge=1, le=1000)  # minimal number of examples of a word


class ClassWord(ResponseModel):
    """A word with its mean score where this class was predicted."""

    word: str
    score: Interval  # share of the sum of |scores| of its text, signed
    examples: list[int]  # numbers of some texts with the word


class ClassWords(ResponseModel):
    """The words of one class, the strongest first."""

    label: str
    predicted: int
    words: list[ClassWord]


class WordsByClass(ResponseModel):
    """The highest-scored words of each class."""

    kind: Literal["leaning"] = "leaning"
    model: str
    data: str
    method: str
    signed: bool
    used: int
    left_out: list[str]  # sentences: how many, and why
    classes: list[ClassWords]
    note: str


class Habit(ResponseModel):
    """The attention of one head: shares by kind of position, and the tokens it prefers."""

    layer: int
    head: int
    # "special", "itself", "previous", "next", "same word", "punctuation", "other"
    shares: dict[str, Interval]
    entropy: Interval
    tokens: list[tuple[str, float]]
    words: str  # a sentence


class Habits(ResponseModel):
    """The attention habits of all heads."""

    kind: Literal["habits"] = "habits"
    model: str
    data: str
    used: int
    left_out: list[str]
    heads: list[Habit]
    kinds: dict[str, str]  # description of each kind of place


TOKENS = 200  # limit of generated tokens

Granularity = Literal["token", "word", "sentence", "paragraph", "passage"]


class GenerateRequest(RequestModel):
    """Let a language model go on, and explain each token; a job."""

    input: Input
    method: str = Field(max_length=100)
    tokens: int = Field(default=20, ge=1, le=TOKENS)
    granularity: Granularity = "token"


class Piece(SelectedFields):
    """A part of the prompt: a token, a word, a sentence, a paragraph, or a marked passage."""

    text: str
    special: bool
    marked: bool
    total: float
    share: float | None  # share of the scores on the prompt's text; null for special tokens
    chance: float | None  # its share of the tokens, the expectation of a random explanation


class Output(SelectedFields):
    """A token that was generated, or a word of them."""

    text: str
    probability: float | None


class Generation(SelectedFields):
    """A generated text with explanations: the fields of `Generation.to_dict()` that the page shows."""

    kind: Literal["generation"] = "generation"
    model: ModelFacts
    input: Source
    text: str  # the generated text
    warnings: list[WarningNote] = Field(default=[])  # warnings on the prompt
    full: bool = False  # whether it ends because the model takes no more
    method: str
    signed: bool
    granularity: Granularity
    pieces: list[Piece]
    outputs: list[Output]
    matrix: list[list[float]]  # outputs x pieces
    earlier: list[list[float]]  # outputs x outputs: scores of earlier outputs
    total: list[float]  # by piece
    scale: Scale | None = None  # of the matrix; special tokens do not set it
    total_scale: Scale | None = None
    passes: dict[str, int]
    seconds: float


def _drop_infinity(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


# A number; null instead of NaN and infinity, which JSON does not have.
Finite = Annotated[float | None, BeforeValidator(_drop_infinity)]


class RunFacts(ResponseModel):
    """Metadata of a run."""

    model: str
    data: str
    methods: list[str]
    metrics: list[str]
    audit: list[str]  # experiments
    done: int  # examples
    total: int | None  # null: unknown
    failed: int  # failed explanations
    bad: int  # rows of the data that could not be read
    state: Literal["running", "complete", "damaged"]  # running: unfinished, at work or not
    problem: str | None  # the error of a damaged run


class StoredRun(RunFacts):
    """A run in the folder that was given at the start, finished or not."""

    id: str
    name: str  # path of its folder below the given one
    changed: str | None  # time of the last write
    quiet: float | None  # seconds since then
    version: str  # changes with every write
    asks: str | None  # id of the served model that the run was made with


class Runs(ResponseModel):
    """The runs in the folder."""

    folder: str | None  # null: the server was started without one
    runs: list[StoredRun]
    left_out: int  # runs beyond the limit of the list


class RunRow(ResponseModel):
    """An explanation of one row of the data by one method."""

    row: int  # in the data, from 0
    id: str
    method: str
    text: str | None
    pair: str | None
    label: str | None
    target: str | None
    predicted: str | None
    probability: Finite
    value: Finite  # of the requested metric
    error: str | None
    why: str | None  # the error of a failed explanation


class RunRows(ResponseModel):
    """Some rows of a run."""

    rows: list[RunRow]
    found: int  # all rows that match the filter
    first: int  # the number of the first one here, from 0
    problems: list[str]  # files that could not be read


class RunWord(ResponseModel):
    """A word, the text before it, and its score."""

    text: str
    before: str
    segment: int
    score: float


class RunTest(ResponseModel):
    """A metric's value for an explanation."""

    metric: str
    value: Finite
    null: Finite  # value of random explanations of the same row
    why: str | None  # the reason for a missing value


class RunExample(ResponseModel):
    """One row by one method, word by word."""

    row: int
    method: str
    methods: list[str]  # methods that explained the row
    input: Source
    label: str | None
    target: str | None
    predicted: str | None
    probability: Finite
    signed: bool
    scale: Scale | None
    words: list[RunWord]
    tests: list[RunTest]
    why: str | None  # the error of a failed explanation


class SampleText(ResponseModel):
    """A text to begin with."""

    text: str
    pair: str | None
    task: str | None = None  # of the models it suits; null: models without samples of their own


class ModelEntry(ResponseModel):
    """A model that can be asked; it is loaded when it is first needed."""

    id: str
    state: Literal["waiting", "loading", "ready", "failed"]
    name: str
    kind: str | None  # its class
    labels: list[str]
    task: str | None
    modality: Literal["text", "picture", "both"] | None  # null: not loaded, so not known
    mask: str | None = None  # the mask token
    zero_shot: bool = False  # whether any labels can be put to it
    method: str | None = None  # the default method
    samples: list[SampleText] = Field(default=[])  # its own to begin with; else the session's
    draws: bool = False  # whether pictures can be drawn for it: "shapes:12"
    pairs: bool  # whether two texts must be given
    takes_pairs: bool | None  # whether two can be; null: not loaded, so not known
    reads_pairs: bool = False  # whether it seems to be trained on two
    layers: int | None
    heads: int | None
    longest: int | None  # tokens
    attention: str | None  # null: can be read; else why not
    error: Fault | None


class Limits(ResponseModel):
    """Limits on the size of requests."""

    characters: int
    upload: int  # bytes
    seconds: int
    edges: int
    generated: int  # tokens


class Picture(ResponseModel):
    """A picture that was brought in."""

    id: str
    name: str
    width: int
    height: int


class Session(ResponseModel):
    """The models, limits and options of this server."""

    version: str
    started: str  # differs after a restart
    models: list[ModelEntry]
    compare: tuple[str, str] | None
    data: list[DataSet]
    samples: list[SampleText]
    allow_load: bool
    limits: Limits


class Health(ResponseModel):
    """The server is there; after a restart it started at another time."""

    ok: Literal[True] = True
    started: str


class LoadRequest(RequestModel):
    """Load a model; only where the server was started with --allow-load."""

    name: str = Field(min_length=1, max_length=300)


class Card(ResponseModel):
    """A method, metric, experiment or edge weight, in words."""

    kind: Literal["method", "metric", "experiment", "weight"]
    name: str
    summary: str
    facts: dict[str, Any]  # family, formula, cost, cite, misleads_when, ...


class Help(ResponseModel):
    """Every card."""

    cards: list[Card]


class StoredResult(ResponseModel):
    """A stored audit, evaluation, comparison, trust card or explanation."""

    id: str
    kind: str
    name: str
    model: str
    summary: str
    changed: str | None  # when the file was written


class Results(ResponseModel):
    """The stored results."""

    results: list[StoredResult]
    problems: list[str]  # files that could not be read, and why


JobState = Literal["queued", "running", "done", "failed", "cancelled"]


class Job(ResponseModel):
    """A long request: its place in the queue of its model, its progress, and its result."""

    id: str
    kind: str
    model: str
    state: JobState
    position: int  # jobs before it; 0 when it runs
    done: int
    total: int
    remaining: float | None  # seconds, an estimate
    result: (
        TrustCard
        | Verification
        | Heads
        | Generation
        | Comparison
        | PredictionTable
        | WordsByClass
        | Habits
        | None
    ) = Field(default=None, discriminator="kind")
    error: Fault | None
