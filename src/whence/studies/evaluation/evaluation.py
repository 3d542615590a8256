"""What an evaluation returns: a documented JSON object that can be shown, exported, saved and read back."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from whence.core.errors import (
    BadParameter,
    CannotRead,
    UnknownMethod,
    UnknownMetric,
    did_you_mean,
)
from whence.core.io import read_json, write_text, written
from whence.report.shown import VERSION, Shown
from whence.stats import Interval

__all__ = ["VERSION", "Cell", "Evaluation"]


@dataclass(frozen=True)
class Cell:
    """How one method does by one metric."""

    method: str
    metric: str
    value: Interval | None  # None: no example could be tested
    null: Interval | None  # what random explanations of the same examples get
    gain: Interval | None  # by how much the method is better than those, example by example
    effect: float | None  # the mean gain in units of its spread between examples
    p: float | None  # of the gain, corrected for all comparisons of this metric
    beats_random: bool | None  # None where what random explanations get is the aim
    best: bool  # or not to be told from the best
    why_not: Mapping[str, int]  # reasons why examples could not be tested, counted
    enough: (
        bool  # whether with so few examples it could have been told from random explanations at all
    )


def _interval(facts: Mapping[str, Any] | None) -> Interval | None:
    if not facts or not facts["n"]:
        return None
    return Interval(facts["mean"], facts["low"], facts["high"], facts["n"])


def _cell(facts: Mapping[str, Any]) -> Cell:
    return Cell(
        facts["method"],
        facts["metric"],
        _interval(facts),
        _interval(facts["null"]),
        _interval(facts["gain"]),
        facts["effect"],
        facts["p"],
        facts["beats_random"],
        facts["best"],
        {row["why"]: row["count"] for row in facts["why_not"]},
        facts.get("enough", True),
    )


@dataclass(frozen=True, eq=False)
class Evaluation(Shown):
    """How methods do by metrics over a data set, and which differences are more than chance."""

    _report: ClassVar[str] = "table"

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return [one["method"] for one in self.payload["methods"]]

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order they were asked for."""
        return [one["metric"] for one in self.payload["metrics"]]

    @property
    def failure(self) -> str | None:
        """The sentence on why nothing was tested, with the errors and their counts; None where something was."""
        from whence.report.table.failure import failure

        return failure(self.payload)

    @property
    def cells(self) -> list[Cell]:
        """One cell for each method and metric."""
        return [_cell(facts) for facts in self.payload["cells"]]

    def cell(self, method: str, metric: str) -> Cell:
        """Return how a method does by a metric."""
        self._check(method, metric)
        return next(c for c in self.cells if (c.method, c.metric) == (method, metric))

    def pairs(self, metric: str) -> list[dict[str, Any]]:
        """Return the comparisons of each two methods by a metric: by how much `a` is better than `b`, and p."""
        self._check(None, metric)
        return [dict(pair) for pair in self.payload["pairs"] if pair["metric"] == metric]

    def agreement(self, measure: str) -> dict[tuple[str, str], Interval | None]:
        """Return how much each two methods agree, by a measure of agreement; either order finds it."""
        rows = [row for row in self.payload["agreement"] if row["measure"] == measure]
        if not rows:
            known = sorted({row["measure"] for row in self.payload["agreement"]})
            raise UnknownMetric(
                f"No agreement was measured by {measure!r}; there is {', '.join(known) or 'none'}."
            )
        found = {(row["a"], row["b"]): _interval(row) for row in rows}
        return found | {(b, a): interval for (a, b), interval in found.items()}

    @property
    def cost(self) -> dict[str, dict[str, Interval | None]]:
        """What each method takes per example: seconds (their n counts batches), forward and backward passes."""
        return {
            one["method"]: {
                what: _interval(one[what]) for what in ("seconds", "forward", "backward")
            }
            for one in self.payload["methods"]
        }

    def _check(self, method: str | None, metric: str) -> None:
        if metric not in self.metrics:
            raise UnknownMetric(
                f"{metric!r} was not evaluated.{did_you_mean(metric, self.metrics)} There are "
                f"{', '.join(self.metrics)}."
            )
        if method is not None and method not in self.methods:
            raise UnknownMethod(
                f"{method!r} was not evaluated.{did_you_mean(method, self.methods)} There are "
                f"{', '.join(self.methods)}."
            )

    @classmethod
    def from_dict(cls, payload: Any) -> "Evaluation":
        """Build an evaluation from what `to_dict` returned."""
        if not isinstance(payload, dict) or payload.get("kind") != "evaluation":
            raise CannotRead("This is not a saved evaluation. Give a file that save() wrote.")
        if payload.get("version") != VERSION:
            raise CannotRead(
                f"This is version {payload.get('version')!r} of the format; this whence reads {VERSION}."
            )
        found = cls(payload)
        try:
            _ = found.cells, found.cost, found.metrics, [found.pairs(m) for m in found.metrics]
        except (KeyError, TypeError) as error:
            raise CannotRead(
                f"This is not a saved evaluation: {type(error).__name__} {error}. Give a file that save() wrote."
            ) from None
        return found

    def save(self, path: str | Path) -> Path:
        """Write the evaluation as JSON; numbers come back bit for bit."""
        return write_text(path, self.to_json())

    @classmethod
    def load(cls, path: str | Path) -> "Evaluation":
        """Read what `save` wrote."""
        return cls.from_dict(read_json(path, "evaluation"))

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the tables in Markdown, and write them if a path is given."""
        from whence.report.table import markdown

        return written(markdown(self.to_dict()), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """Return the tables in LaTeX (needs the package booktabs), and write them if a path is given."""
        from whence.report.table import latex

        return written(latex(self.to_dict()), path)

    def to_csv(
        self, path: str | Path | None = None, *, what: Literal["cells", "pairs"] = "cells"
    ) -> str:
        """Return comma separated values, and write them if a path is given.

        One row for each method and metric, or, with what="pairs", for each two methods and metric. A text that a
        spreadsheet would take for a formula gets a single quote before it.
        """
        from whence.report.table import compared, tidy

        if what not in ("cells", "pairs"):
            raise BadParameter(f"what must be 'cells' or 'pairs'. Got {what!r}.")
        return written((tidy if what == "cells" else compared)(self.to_dict()), path)

    def plot(self, path: str | Path | None = None) -> str:
        """Return a drawing in SVG, a panel for each metric, and write it if a path is given."""
        from whence.report.table.plot import plot

        return written(plot(self.to_dict()), path)

    def __repr__(self) -> str:
        n = self.payload["examples"]["explained"]
        said = "" if self.failure is None else f": {self.failure}"
        return f"<Evaluation of {len(self.methods)} methods by {len(self.metrics)} metrics on {n} examples{said}>"
