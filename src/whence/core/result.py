"""The `Result` that every study gives: a JSON object that shows itself as text, in a terminal, in a notebook and as files."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from whence.core.errors import BadParameter, CannotRead
from whence.core.files import read_json, write_if_path, write_text

if TYPE_CHECKING:
    from rich.console import RenderableType

    from whence.render.document import Document

RESULT_VERSION = 1


class Result:
    """A JSON object of a kind and a version; a subclass says by `document()` how it is shown."""

    kind: ClassVar[str]  # the "kind" of the JSON object, and the noun of messages
    version: ClassVar[int] = RESULT_VERSION

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data

    @property
    def data(self) -> Mapping[str, Any]:
        """The documented JSON object."""
        return self._data

    @property
    def payload(self) -> Mapping[str, Any]:
        """The documented JSON object, by its old name."""
        return self.data

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.data)

    def to_json(self) -> str:
        """Return the documented JSON object as text; numbers come back bit for bit."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given."""
        return write_if_path(self.document().to_html(), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the result in Markdown, and write it if a path is given."""
        return write_if_path(self.document().to_markdown(), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """Return the result in LaTeX (needs booktabs and xcolor), and write it if a path is given."""
        return write_if_path(self.document().to_latex(), path)

    def save(self, path: str | Path) -> Path:
        """Write the result; the ending says how: .json, which `load` reads, .html, .md or .tex."""
        writers = {
            ".json": self.to_json,
            ".html": self.to_html,
            ".htm": self.to_html,
            ".md": self.to_markdown,
            ".tex": self.to_latex,
        }
        write = writers.get(Path(path).suffix.lower())
        if write is None:
            raise BadParameter(
                f"The {self.kind} is saved as .json, .html, .md or .tex. Got {str(path)!r}; give a name with one "
                "of these endings."
            )
        return write_text(path, write())

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Build a result from the object that `to_dict` returned."""
        give = "Give a .json file that save() wrote."
        if not isinstance(data, dict) or not cls._is_kind(data):
            raise CannotRead(f"This is not a saved {cls.kind}. {give}")
        if data.get("version") != cls.version:
            raise CannotRead(
                f"This is version {data.get('version')!r} of the format; this whence reads {cls.version}."
            )
        try:
            result = cls(data)
            str(result)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            why = f"{type(error).__name__} {error}"
            raise CannotRead(f"This is not a saved {cls.kind}: {why}. {give}") from None
        return result

    @classmethod
    def _is_kind(cls, data: Mapping[str, Any]) -> bool:
        """Return whether a JSON object is of this kind; a subclass without a "kind" looks at its keys."""
        return data.get("kind") == cls.kind

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a result that `save` wrote as JSON."""
        return cls.from_dict(read_json(path, cls.kind))

    def __str__(self) -> str:
        return self.document().to_text()

    def __rich__(self) -> "RenderableType":
        return self.document().to_terminal()

    def _repr_html_(self) -> str:
        return self.document().to_html(fragment=True)
