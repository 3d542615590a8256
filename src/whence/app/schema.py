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


"""What goes over the wire, in both directions. The page's types are generated from these."""


"""What every answer is made of: a strict request, the one shape of an error, and figures with an interval."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Label = str
Grid = list[list[float | None]]  # layers x heads


class Asked(BaseModel):
    """A request: what it does not know it refuses."""

    model_config = ConfigDict(extra="forbid")


class Given(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="forbid")


class TableStart(Given):
    """The columns of a table and its first rows, to choose columns by."""

    columns: list[str]
    rows: list[list[str]]


class Fault(Given):
    """What went wrong, what to do about it, and where to read more."""

    code: str
    message: str
    hint: str
    see: str
    table: TableStart | None = None  # of a table whose columns have to be chosen


class Failure(Given):
    """The one shape of an error."""

    ok: Literal[False] = False
    error: Fault


class Interval(Given):
    """A mean of n observations with its 95% interval; below 5 observations none is known."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


class ModelFacts(Given):
    """Which model this is."""

    model_config = ConfigDict(extra="allow")

    name: str
    revision: str | None = None
    fingerprint: str
    labels: list[Label]


class Source(Given):
    """What was given to explain."""

    text: str | None
    pair: str | None
    dropped: int


class Token(Given):
    """One token; offsets count characters of its own segment."""

    text: str
    start: int | None
    end: int | None
    segment: int
    special: bool
    id: int


class Word(Given):
    """One word, and the numbers of its tokens."""

    text: str
    start: int | None
    end: int | None
    segment: int
    tokens: list[int]


class Prediction(Given):
    """What the model said."""

    label: Label
    index: int
    probability: float | None
    probabilities: dict[str, float]
    logits: list[float]


class Target(Given):
    """Which output is explained."""

    label: Label
    index: int
    against: "Target | None"
    of: Literal["logit", "probability"]


class Scale(Given):
    """What the colours of scores mean: where they are full, in which unit, and below which score nothing matters."""

    unit: Literal["logit", "probability", "value", "share", "relative"]
    floor: float | None  # full colour is at no score below it; null: none is known
    start: float  # the score of no colour
    full: float  # the score of full colour
    legend: str
    note: str | None  # said where no score reaches the floor


class Warned(Given):
    """Something a reader must know before believing what is shown."""

    code: str  # such as "near-tie", "uniform-attention", "truncated"
    message: str


# The longest text that is taken, in characters; the model's own limit in tokens comes on top.
TEXT = 50_000


# A word or a few: a label, a place in a text.
Short = Annotated[str, Field(max_length=300)]


class Input(Asked):
    """One input of one model, and which of its outputs is asked about.

    A question answerer takes the question as `text` and the context as `pair`; a picture model takes no text.
    """

    model: Short
    text: str = Field(default="", max_length=TEXT)
    pair: str | None = Field(default=None, max_length=TEXT)
    picture: Short | None = None  # the id of one that was brought in, or "shapes:12"
    target: Short | None = None
    of: Literal["logit", "probability"] = "logit"
    truncate: bool = True
    at: Short | None = None  # a word or a token's number of a tagger; the number of a mask, from 0
    entity: int | None = Field(default=None, ge=0)  # of those that a tagger found, without `at`
    answer: str | None = Field(default=None, max_length=TEXT)  # of a language model, as a whole
    rather: str | None = Field(default=None, max_length=TEXT)  # another answer, to hold it against
    labels: list[Short] | None = Field(default=None, max_length=50)  # of zero-shot, or of a picture
    template: Short | None = None  # how a label becomes a sentence: "This example is {}."


Provenance = dict[str, Any]


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


"""Data sets: predictions, the words of a class, what heads attend to."""

from typing import Literal

from pydantic import Field

from whence.web.schema.base import Asked, Fault, Given, Interval


class DataSet(Given):
    """A data set that was given at the start or brought in."""

    id: str
    name: str
    rows: int
    text: str
    pair: str | None
    label: str | None
    guessed: list[str]
    columns: list[str]  # that the file has; none where it has no header
    problem: Fault | None = (
        None  # its columns are to be chosen before it can be used; problem.table has them
    )


class ColumnsAsked(Asked):
    """Read a data set anew, by these columns.

    For null the usual names are looked for, and with a text given there is no second one; "" is none.
    """

    text: str | None = Field(default=None, max_length=200)
    pair: str | None = Field(default=None, max_length=200)
    label: str | None = Field(default=None, max_length=200)


class PredictAsked(Asked):
    """Predict a data set; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=1000, ge=1, le=10_000)


class Row(Given):
    """One example, and how surprised the model is by its label."""

    number: int  # in the file, from 0
    text: str
    pair: str | None
    label: str | None  # the true one
    predicted: str
    probability: float | None
    surprise: (
        float | None
    )  # -log2 of the true label's probability; without labels, the entropy of all
    right: bool | None


class Predicted(Given):
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
    surprise: str  # what surprise means here


class WordsAsked(Asked):
    """Find the words that each class leans on; a job."""

    model: str = Field(max_length=300)
    method: str | None = Field(default=None, max_length=100)  # null: the model's default
    limit: int = Field(default=100, ge=1, le=2000)
    least: int = Field(default=3, ge=1, le=1000)  # a word counts from so many examples on


class LeaningWord(Given):
    """A word with its mean score where this class was predicted."""

    word: str
    score: Interval  # share of the sum of |scores| of its text, signed
    examples: list[int]  # numbers of some texts it stands in


class ClassWords(Given):
    """The words of one class, the strongest first."""

    label: str
    predicted: int
    words: list[LeaningWord]


class Leaning(Given):
    """Which words each class leans on."""

    kind: Literal["leaning"] = "leaning"
    model: str
    data: str
    method: str
    signed: bool
    used: int
    left_out: list[str]  # sentences: how many, and why
    classes: list[ClassWords]
    note: str


class HabitsAsked(Asked):
    """Find what heads attend to; a job."""

    model: str = Field(max_length=300)
    limit: int = Field(default=100, ge=1, le=2000)


class Habit(Given):
    """What one head attends to: shares of its attention, by kind of place, and the tokens it prefers."""

    layer: int
    head: int
    shares: dict[
        str, Interval
    ]  # "special", "itself", "previous", "next", "same word", "punctuation", "other"
    entropy: Interval
    tokens: list[tuple[str, float]]
    words: str  # a sentence


class Habits(Given):
    """What all heads attend to."""

    kind: Literal["habits"] = "habits"
    model: str
    data: str
    used: int
    left_out: list[str]
    heads: list[Habit]
    kinds: dict[str, str]  # what each kind of place means


"""Explanations, their agreement, and the trust card."""

from typing import Any, Literal

from pydantic import Field

from whence.web.schema.base import (
    Asked,
    Given,
    Input,
    Label,
    ModelFacts,
    Prediction,
    Provenance,
    Scale,
    Source,
    Target,
    Token,
    Warned,
    Word,
)


class Passes(Given):
    """How often the model ran."""

    forward: int
    backward: int


WordsBy = Literal["sum", "mean", "measured"]


class OneExplanation(Given):
    """The scores of one method."""

    method: str
    params: dict[str, Any]
    of: Literal["logit", "probability"] | None = (
        None  # what is explained: not every method explains what was asked for
    )
    signed: bool
    scores: list[float]
    word_scores: list[float]
    words_by: WordsBy = "sum"  # how a word's score comes about
    scale: Scale | None = None  # null: from an older file
    axioms: dict[str, float]
    passes: Passes
    seconds: float
    dtype: str
    pixels: str | None = None  # base64 of a score for each pixel, where the method gives one


class Agreement(Given):
    """How far two methods agree about the words of one input."""

    a: str
    b: str
    tau: float | None  # Kendall's tau-b of the words' scores; null where one of them is constant
    top: float  # share of the k strongest words they have in common
    k: int
    chance: float  # what two random rankings have in common, in the mean


class NotExplained(Given):
    """A method that could not explain this input."""

    method: str
    message: str


class Shown(Given):
    """A picture as the model sees it; its patches are scored row by row."""

    width: int
    height: int
    grid: tuple[int, int]  # patches down and across
    png: str  # base64
    name: str | None


class Found(Given):
    """One of the things in a text that a tagger named."""

    text: str
    label: Label
    probability: float | None


class Explanations(Given):
    """What `Explanation.to_dict()` returns, for several methods, and what a page needs beside it."""

    version: int
    model: ModelFacts
    input: Source
    tokens: list[Token]
    words: list[Word]
    prediction: Prediction
    target: Target
    # The tokens at which the model was read: an entity's, a mask, the ends of an answer; none: as a whole.
    read: list[int] = Field(default=[])
    # How its outputs were made columns of a small classification, so that a file of this can be asked about again.
    reading: dict[str, Any] | None = None
    explanations: list[OneExplanation]
    provenance: Provenance
    agreement: list[Agreement]
    failed: list[NotExplained]
    warnings: list[Warned]
    runner_up: str | None
    picture: Shown | None = None
    rest: Label | None = None  # the output that stands for all that have no name here
    entities: list[Found] = Field(default=[])  # of a tagger that was asked about no one place


class ExplainAsked(Asked):
    """Explain one input by one method or several."""

    input: Input
    methods: list[str] = Field(min_length=1, max_length=8)


class TrustAsked(Asked):
    """Test the explanations of some methods on this very input."""

    input: Input
    methods: list[str] = Field(min_length=1, max_length=4)
    budget: int | None = Field(default=None, ge=1, le=20_000)


class Curve(Given):
    """The target's probability while tokens are removed, beside that of random rankings."""

    at: list[float]
    values: list[float]
    null_low: list[float]
    null_mean: list[float]
    null_high: list[float]


class Null(Given):
    """What explanations that know nothing get."""

    mean: float
    low: float
    high: float


class TrustTest(Given):
    """One test of one explanation."""

    name: str
    remove: str | None
    direction: Literal["higher", "lower"] | None
    value: float | None
    null: Null | None
    percentile: float | None
    interval: tuple[float, float] | None
    beaten: int | None
    tied: int | None
    of: int | None
    chance: float | None
    verdict: str
    why: str
    curve: Curve | None


class TrustMethod(Given):
    """One method's card."""

    method: str
    params: dict[str, Any]
    signed: bool
    scores: list[float]
    word_scores: list[float]
    scale: Scale | None = None
    passes: Passes
    verdict: str
    sentence: str
    tests: list[TrustTest]


class TrustRule(Given):
    """A test's question and its thresholds, in words."""

    name: str
    metric: str
    question: str
    holds: str
    weak: str
    fails: str


class TrustCard(Given):
    """What `Trust.to_dict()` returns, as far as the page shows it."""

    kind: Literal["trust"] = "trust"
    sentence: str
    unit: Literal["token", "word", "patch"]  # what is removed at a time
    units: int
    rankings: int
    rules: list[TrustRule]
    methods: list[TrustMethod]
    cost: dict[str, float]


"""What a language model wrote, and which parts of the prompt each of its tokens came from."""

from typing import Literal

from pydantic import ConfigDict, Field

from whence.web.schema.base import Asked, Given, Input, ModelFacts, Scale, Source, Warned

TOKENS = 200  # that may be generated at a time

Granularity = Literal["token", "word", "sentence", "paragraph", "passage"]


class GenerateAsked(Asked):
    """Let a language model go on, and explain each token; a job."""

    input: Input
    method: str = Field(max_length=100)
    tokens: int = Field(default=20, ge=1, le=TOKENS)
    granularity: Granularity = "token"


class Piece(Given):
    """A part of the prompt: a token, a word, a sentence, a paragraph, or a marked passage."""

    model_config = ConfigDict(extra="ignore")

    text: str
    special: bool
    marked: bool
    total: float
    share: float | None  # of what fell on the prompt's text; null for special tokens
    chance: float | None  # its part of the tokens: what a random explanation gives it


class Output(Given):
    """A token that was generated, or a word of them."""

    model_config = ConfigDict(extra="ignore")

    text: str
    probability: float | None


class Generated(Given):
    """What `Generation.to_dict()` returns, as far as the page shows it."""

    kind: Literal["generation"] = "generation"
    model: ModelFacts
    input: Source
    text: str  # what was generated
    warnings: list[Warned] = Field(default=[])  # what to know of the prompt first
    full: bool = False  # whether it ends because the model takes no more
    method: str
    signed: bool
    granularity: Granularity
    pieces: list[Piece]
    outputs: list[Output]
    matrix: list[list[float]]  # outputs x pieces
    earlier: list[list[float]]  # outputs x outputs: what fell on those that came before
    total: list[float]  # by piece
    scale: Scale | None = None  # of the matrix; special tokens do not set it
    total_scale: Scale | None = None
    passes: dict[str, int]
    seconds: float


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
