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
