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
