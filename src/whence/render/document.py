"""Results as users hold them: documented JSON objects that show themselves, and can be saved and read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from whence.core.errors import BadParameter, CannotRead
from whence.core.io import read_json, write_text, written

if TYPE_CHECKING:
    from rich.console import RenderableType

VERSION = 1


@dataclass(frozen=True, eq=False)
class Shown:
    """A JSON object that shows itself as text, in a terminal, in a notebook and as a page."""

    payload: Mapping[str, Any]

    _report: ClassVar[
        str
    ]  # the part of whence.report that shows it; imported when it is first needed

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.payload)

    def to_json(self) -> str:
        """Return the same as text; numbers come back bit for bit."""
        return json.dumps(self.payload, ensure_ascii=False, indent=1) + "\n"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given."""
        return written(self._shown("page"), path)

    def __str__(self) -> str:
        return str(self._shown("plain"))

    def __rich__(self) -> "RenderableType":
        shown: RenderableType = self._shown("render", ".terminal")
        return shown

    def _repr_html_(self) -> str:
        return str(self._shown("fragment"))

    def _shown(self, how: str, where: str = "") -> Any:
        report = import_module(f"whence.report.{self._report}{where}")
        return getattr(report, how)(self.to_dict())


@dataclass(frozen=True, eq=False)
class Stored(Shown):
    """The same, with a kind and a version, to be saved as JSON or as a page."""

    _kind: ClassVar[str]
    _article: ClassVar[str] = "a"

    def save(self, path: str | Path) -> Path:
        """Write it: as a page if the name ends in .html, as JSON if it ends in .json."""
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
        """Build it from what `to_dict` returned."""
        what = f"a saved {cls._kind}"
        if not isinstance(payload, dict) or payload.get("kind") != cls._kind:
            raise CannotRead(f"This is not {what}. Give a .json file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        found = cls(payload)
        try:
            str(found)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CannotRead(
                f"This is not {what}: {type(error).__name__} {error}. Give a .json file that save() wrote."
            ) from None
        return found

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read what `save` wrote as JSON."""
        return cls.from_dict(read_json(path, cls._kind))


"""How a figure is written, on every surface the same: a mean with its interval, as many places as it is sure of."""

from collections.abc import Mapping, Sequence
from math import floor, log10
from typing import Any

TOO_FEW = "too few for an interval"


def digits_of(intervals: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many decimals show the width of most intervals in two figures; None where that would be too many."""
    widths = sorted(one["high"] - one["low"] for one in intervals if one["low"] is not None)
    widths = [width for width in widths if width > 0]
    if not widths:
        return 3
    wanted = 1 - floor(log10(widths[len(widths) // 2]))
    return None if wanted > 5 else max(0, min(wanted, 4))


def number(value: float, digits: int | None) -> str:
    """Write one figure."""
    text = f"{value:.3g}" if digits is None else f"{value:.{digits}f}"
    return text.removeprefix("-") if not float(text) else text


def interval(one: Mapping[str, Any], digits: int | None, said: int = 0) -> str:
    """Write a mean with its interval, and n unless it is said elsewhere; of a constant no interval is needed."""
    mean = number(one["mean"], digits)
    if one["low"] is None:
        return mean if one["n"] == said else f"{mean} (n={one['n']}: {TOO_FEW})"
    n = "" if one["n"] == said else f" n={one['n']}"
    if one["low"] == one["high"]:
        return f"{mean} (always){n}"
    return f"{mean} [{number(one['low'], digits)}, {number(one['high'], digits)}]{n}"


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
