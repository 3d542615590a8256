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
