"""Documents made of blocks, the `Result` base classes that write them, and the format of numbers.

A document is sections of paragraphs, fact lists, tables, plots, explanations and code; writers know
blocks, never results. `Result` is a documented JSON object that shows itself as text, in a terminal, in a
notebook and as a page; `SavedResult` can also be saved and read back. A mean is written with its
interval, to as many decimals as show the width of most intervals in two digits.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import floor, log10
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from whence.core.errors import BadParameter, CannotRead
from whence.core.files import read_json, write_if_path, write_text

if TYPE_CHECKING:
    from rich.console import RenderableType

TOO_FEW = "too few for an interval"


def choose_decimals(intervals: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the decimals that show the median interval width in two digits; None if more than 5."""
    widths = sorted(one["high"] - one["low"] for one in intervals if one["low"] is not None)
    widths = [width for width in widths if width > 0]
    if not widths:
        return 3
    decimals = 1 - floor(log10(widths[len(widths) // 2]))
    return None if decimals > 5 else max(0, min(decimals, 4))


def format_number(value: float, digits: int | None) -> str:
    """Format one number."""
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text


def format_interval(interval: Mapping[str, Any], digits: int | None, usual_n: int = 0) -> str:
    """Format a mean with its interval, and n unless n equals `usual_n`; a constant gets "(always)"."""
    mean = format_number(interval["mean"], digits)
    if interval["low"] is None:
        return mean if interval["n"] == usual_n else f"{mean} (n={interval['n']}: {TOO_FEW})"
    n = "" if interval["n"] == usual_n else f" n={interval['n']}"
    if interval["low"] == interval["high"]:
        return f"{mean} (always){n}"
    return f"{mean} [{format_number(interval['low'], digits)}, {format_number(interval['high'], digits)}]{n}"


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


RESULT_VERSION = 1


@dataclass(frozen=True, eq=False)
class Result:
    """A JSON object that shows itself as text, in a terminal, in a notebook and as a page."""

    payload: Mapping[str, Any]

    # Writer functions by surface, as "module:function"; imported on first use.
    _writers: ClassVar[Mapping[str, str]]

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.payload)

    def to_json(self) -> str:
        """Return the documented JSON object as text; numbers come back bit for bit."""
        return json.dumps(self.payload, ensure_ascii=False, indent=1) + "\n"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given."""
        return write_if_path(self._write("page"), path)

    def __str__(self) -> str:
        return str(self._write("text"))

    def __rich__(self) -> "RenderableType":
        renderable: RenderableType = self._write("terminal")
        return renderable

    def _repr_html_(self) -> str:
        return str(self._write("fragment"))

    def _write(self, surface: str) -> Any:
        return resolve_name(self._writers[surface])(self.to_dict())


@dataclass(frozen=True, eq=False)
class SavedResult(Result):
    """A result with a kind and a version, which can be saved as JSON or as an HTML page."""

    _kind: ClassVar[str]
    _article: ClassVar[str] = "a"

    def save(self, path: str | Path) -> Path:
        """Write the result: as a page if the name ends in .html, as JSON if it ends in .json."""
        ending = Path(path).suffix.lower()
        if ending in (".html", ".htm"):
            self.to_html(path)
            return Path(path)
        if ending != ".json":
            raise BadParameter(
                f"{self._article.capitalize()} {self._kind} is saved as .json or .html. Got {str(path)!r}; give a "
                "name with one of these endings."
            )
        return write_text(path, self.to_json())

    @classmethod
    def from_dict(cls, payload: Any) -> Self:
        """Build a result from the object that `to_dict` returned."""
        what = f"a saved {cls._kind}"
        if not isinstance(payload, dict) or payload.get("kind") != cls._kind:
            raise CannotRead(f"This is not {what}. Give a .json file that save() wrote.")
        if payload.get("version") != RESULT_VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {RESULT_VERSION}."
            )
        result = cls(payload)
        try:
            str(result)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CannotRead(
                f"This is not {what}: {type(error).__name__} {error}. Give a .json file that save() wrote."
            ) from None
        return result

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a result that `save` wrote as JSON."""
        return cls.from_dict(read_json(path, cls._kind))
