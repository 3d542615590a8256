"""What a comparison returns: a documented JSON object that can be shown, saved and read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter, CannotRead
from whence.core.io import read_json, write_text, written

if TYPE_CHECKING:
    from rich.console import RenderableType

VERSION = 1


@dataclass(frozen=True, eq=False)
class Comparison:
    """How far two models are apart over a data set: their heads, their flows, what they lean on and predict."""

    payload: Mapping[str, Any]

    @property
    def sentence(self) -> str:
        """The result in a few sentences."""
        return str(self.payload["sentence"])

    @property
    def heads(self) -> list[dict[str, Any]]:
        """Every head: divergence from its twin, attention to special tokens and entropy, with intervals."""
        return [dict(one) for one in self.payload["heads"]]

    @property
    def layers(self) -> list[dict[str, Any]]:
        """Every layer, with the overlap of its flow."""
        return [dict(one) for one in self.payload["layers"]]

    @property
    def changed(self) -> list[tuple[int, int]]:
        """The heads that changed most, as (layer, head), the most changed first."""
        return [(one["layer"], one["head"]) for one in self.payload["changed"]["heads"]]

    def head(self, layer: int, head: int) -> dict[str, Any]:
        """Return what was found of one head."""
        for one in self.payload["heads"]:
            if (one["layer"], one["head"]) == (layer, head):
                return dict(one)
        setting = self.payload["setting"]
        raise BadParameter(
            f"There is no head {layer}.{head}: the models have {setting['layers']} layers of {setting['heads']} "
            "heads, counted from 0."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.payload)

    def to_json(self) -> str:
        """Return the same as text; numbers come back bit for bit."""
        return json.dumps(self.payload, ensure_ascii=False, indent=1) + "\n"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given."""
        from whence.report.comparison import page

        return written(page(self.to_dict()), path)

    def save(self, path: str | Path) -> Path:
        """Write the comparison: as a page if the name ends in .html, as JSON if it ends in .json."""
        ending = Path(path).suffix.lower()
        if ending in (".html", ".htm"):
            self.to_html(path)
            return Path(path)
        if ending != ".json":
            raise BadParameter(
                f"A comparison is saved as .json or .html. Got {str(path)!r}; give a name with one of these endings."
            )
        return write_text(path, self.to_json())

    @classmethod
    def from_dict(cls, payload: Any) -> "Comparison":
        """Build a comparison from what `to_dict` returned."""
        if not isinstance(payload, dict) or payload.get("kind") != "comparison":
            raise CannotRead("This is not a saved comparison. Give a .json file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        found = cls(payload)
        try:
            str(found)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise CannotRead(
                f"This is not a saved comparison: {type(error).__name__} {error}. Give a .json file that save() "
                "wrote."
            ) from None
        return found

    @classmethod
    def read(cls, path: str | Path) -> "Comparison":
        """Read what `save` wrote as JSON."""
        return cls.from_dict(read_json(path, "comparison"))

    def __str__(self) -> str:
        from whence.report.comparison import plain

        return plain(self.to_dict())

    def __repr__(self) -> str:
        one, other = self.payload["a"]["name"], self.payload["b"]["name"]
        return f"<Comparison {one} and {other} on {self.payload['data']['used']} inputs>"

    def __rich__(self) -> "RenderableType":
        from whence.report.comparison.terminal import render

        return render(self.to_dict())

    def _repr_html_(self) -> str:
        from whence.report.comparison import fragment

        return fragment(self.to_dict())
