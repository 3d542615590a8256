"""What a report is made of, whichever surface writes it: sections of lines, facts, tables, drawings and examples."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Tone = Literal["", "strong", "dim", "warning"]
Payload = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One sentence or several."""

    text: str
    tone: Tone = ""


@dataclass(frozen=True)
class Facts:
    """Names with what there is to say about each."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """Rows below heads; `folded` under its name where a surface can fold."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    name: str = ""
    folded: bool = False


@dataclass(frozen=True)
class Evaluated:
    """The tables of an evaluation, written as evaluations are everywhere."""

    payload: Payload


@dataclass(frozen=True)
class Audited:
    """An audit, written as audits are everywhere."""

    payload: Payload


@dataclass(frozen=True)
class Drawing:
    """A plot, see whence.report.plot."""

    plot: Payload


@dataclass(frozen=True)
class Told:
    """One explanation of one example, its words on the colours of their scores."""

    title: str
    says: Sequence[str]
    payload: Payload  # as of an explanation (docs/reference/json.md), of one method


@dataclass(frozen=True)
class Code:
    """Something to copy, letter for letter."""

    text: str
    language: str = ""


Block = Line | Facts | Table | Evaluated | Audited | Drawing | Told | Code


@dataclass(frozen=True)
class Section:
    """Blocks under a heading."""

    title: str
    blocks: Sequence[Block] = field(default=())


@dataclass(frozen=True)
class Document:
    """A title, and sections under it."""

    title: str
    sections: Sequence[Section]
