"""What an audit returns: a documented JSON object that can be shown, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from whence.core.errors import UnknownExperiment, did_you_mean
from whence.core.io import written
from whence.report.shown import VERSION, Stored

__all__ = ["VERSION", "Audit"]


@dataclass(frozen=True, eq=False)
class Audit(Stored):
    """Whether attention may be read as an explanation of a model on a data set, and what that rests on."""

    _report: ClassVar[str] = "audit"
    _kind: ClassVar[str] = "audit"
    _article: ClassVar[str] = "an"

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

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the audit in Markdown, and write it if a path is given."""
        from whence.report.audit import markdown

        return written(markdown(self.to_dict()), path)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<Audit {self.answer}; {told or 'no experiments'}>"
