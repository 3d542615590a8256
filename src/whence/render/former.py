"""The blocks of the report of a run as it was; they go with it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["", "strong", "dim", "warning"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of one or more sentences."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class FactList:
    """A list of names and values."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class TableBlock:
    """A table with a header row; if `folded`, it is folded away under its `name`."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    folded: bool = False


@dataclass(frozen=True)
class EvaluationBlock:
    """The tables of an evaluation, written by the evaluation's own report."""

    payload: JsonObject


@dataclass(frozen=True)
class AuditBlock:
    """An audit, written by the audit's own report."""

    payload: JsonObject


@dataclass(frozen=True)
class PlotBlock:
    """A plot, see whence.render.charts."""

    plot: JsonObject


@dataclass(frozen=True)
class ExplanationBlock:
    """The explanation of one example, its words tinted by their scores."""

    title: str
    says: Sequence[str]
    payload: JsonObject  # the payload of an explanation by one method (docs/reference/json.md)


@dataclass(frozen=True)
class CodeBlock:
    """A code block to copy verbatim."""

    text: str
    language: str = ""


Block = (
    Paragraph
    | FactList
    | TableBlock
    | EvaluationBlock
    | AuditBlock
    | PlotBlock
    | ExplanationBlock
    | CodeBlock
)


@dataclass(frozen=True)
class Section:
    """A heading and its blocks."""

    title: str
    blocks: Sequence[Block] = field(default=())


@dataclass(frozen=True)
class Document:
    """A title and its sections."""

    title: str
    sections: Sequence[Section]
