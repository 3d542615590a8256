"""What an audit returns: a documented JSON object that can be shown, saved and read back."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadParameter, CannotRead, UnknownExperiment, did_you_mean
from whence.core.io import read_json, write_text, written

if TYPE_CHECKING:
    from rich.console import RenderableType

VERSION = 1


@dataclass(frozen=True, eq=False)
class Audit:
    """Whether attention may be read as an explanation of a model on a data set, and what that rests on."""

    payload: Mapping[str, Any]

    @property
    def experiments(self) -> list[dict[str, Any]]:
        """The experiments, in the order they were made: hypothesis, threshold, verdict, effect, interval, n, ..."""
        return [dict(one) for one in self.payload["experiments"]]

    def experiment(self, name: str) -> dict[str, Any]:
        """Return what one experiment found."""
        for one in self.payload["experiments"]:
            if one["name"] == name:
                return dict(one)
        known = list(self.verdicts)
        why = {one["name"]: one["why"] for one in self.payload["not_run"]}
        if name in why:
            raise UnknownExperiment(f"The experiment {name!r} was not run: {why[name]}")
        raise UnknownExperiment(
            f"There is no experiment {name!r} in this audit.{did_you_mean(name, known)} There are "
            f"{', '.join(known) or 'none'}."
        )

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each experiment: holds, fails or undecided."""
        return {one["name"]: one["verdict"] for one in self.payload["experiments"]}

    @property
    def answer(self) -> str:
        """May attention be read as an explanation here: yes, no or undecided."""
        return str(self.payload["answer"])

    @property
    def conclusion(self) -> str:
        """The answer as a paragraph, with the figures it rests on."""
        return str(self.payload["conclusion"])

    def to_dict(self) -> dict[str, Any]:
        """Return the documented JSON object."""
        return dict(self.payload)

    def to_json(self) -> str:
        """Return the same as text; numbers come back bit for bit."""
        return json.dumps(self.payload, ensure_ascii=False, indent=1) + "\n"

    def to_html(self, path: str | Path | None = None) -> str:
        """Return one page that opens from disk with no network, and write it if a path is given."""
        from whence.report.audit import page

        return written(page(self.to_dict()), path)

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the audit in Markdown, and write it if a path is given."""
        from whence.report.audit import markdown

        return written(markdown(self.to_dict()), path)

    def save(self, path: str | Path) -> Path:
        """Write the audit: as a page if the name ends in .html, as JSON if it ends in .json."""
        ending = Path(path).suffix.lower()
        if ending in (".html", ".htm"):
            self.to_html(path)
            return Path(path)
        if ending != ".json":
            raise BadParameter(
                f"An audit is saved as .json or .html. Got {str(path)!r}; give a name with one of these endings."
            )
        return write_text(path, self.to_json())

    @classmethod
    def from_dict(cls, payload: Any) -> "Audit":
        """Build an audit from what `to_dict` returned."""
        if not isinstance(payload, dict) or payload.get("kind") != "audit":
            raise CannotRead("This is not a saved audit. Give a .json file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        found = cls(payload)
        try:
            str(found)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CannotRead(
                f"This is not a saved audit: {type(error).__name__} {error}. Give a .json file that save() wrote."
            ) from None
        return found

    @classmethod
    def read(cls, path: str | Path) -> "Audit":
        """Read what `save` wrote as JSON."""
        return cls.from_dict(read_json(path, "audit"))

    def __str__(self) -> str:
        from whence.report.audit import plain

        return plain(self.to_dict())

    def __repr__(self) -> str:
        told = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<Audit {self.answer}; {told or 'no experiments'}>"

    def __rich__(self) -> "RenderableType":
        from whence.report.audit.terminal import render

        return render(self.to_dict())

    def _repr_html_(self) -> str:
        from whence.report.audit import fragment

        return fragment(self.to_dict())
