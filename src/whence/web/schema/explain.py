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
