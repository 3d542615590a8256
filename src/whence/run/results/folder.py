"""What a run found, for people: the facts, the tables, the evaluation, the audit, and a report of all of it."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whence.core.errors import BadStore, UnknownMethod, did_you_mean
from whence.run.store import Store
from whence.run.store.layout import Layout
from whence.run.store.schema import TABLES

if TYPE_CHECKING:
    from whence.audit import Audit
    from whence.evaluation import Evaluation
    from whence.run.results.compare import RunComparison
    from whence.run.results.summary import RunReport


def is_run(folder: str | Path) -> bool:
    """Say whether a folder holds a run, whole or damaged."""
    return Layout(folder).used


class Run:
    """The folder of a run, finished or not. It is only read, also while a run is writing to it."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        if not is_run(self.folder):
            what = "is no folder" if not self.folder.is_dir() else "holds no run"
            raise BadStore(
                f"{str(folder)!r} {what}. Give the folder that `whence run --out` wrote to; `whence runs DIR` lists "
                "those in a folder."
            )

    @cached_property
    def store(self) -> Store:
        """The store; BadStore where its manifest is lost or damaged."""
        return Store.read(self.folder)

    @property
    def manifest(self) -> dict[str, Any]:
        """What the results are results of: plan, data, model, settings by digest, and how far the run is."""
        return self.store.manifest

    @property
    def complete(self) -> bool:
        """Whether all is there that was asked for."""
        return bool(self.manifest["state"] == "complete")

    @property
    def name(self) -> str:
        """What it is called: its folder's name."""
        return self.folder.resolve().name or str(self.folder)

    @property
    def methods(self) -> list[str]:
        """The methods, in the order they were asked for."""
        return list(self.manifest["plan"]["methods"])

    @property
    def metrics(self) -> list[str]:
        """The metrics, in the order they were asked for."""
        return list(self.manifest["plan"]["metrics"])

    @property
    def written(self) -> str | None:
        """When something was last written, as the journal has it: ISO 8601, or None where it is lost."""
        last = None
        for event in self.store.events():
            last = event.get("at", last)
        return None if last is None else str(last)

    def table(self, name: str) -> Any:
        """Return a table, "explanations" or "metrics", as a `pyarrow.dataset.Dataset`: nothing is read until asked.

        `.to_table()` reads it, `.to_table().to_pandas()` makes a data frame. What windows hold that are not complete
        is in it, too. docs/reference/store.md describes the columns.
        """
        if name not in TABLES:
            raise BadStore(f"A run has the tables {' and '.join(TABLES)}. Got {name!r}.")
        return self.store.table(name, pending=True)

    def facts(self) -> dict[str, Any]:
        """Return what a list of runs shows, as plain data, without reading any results."""
        try:
            manifest, counts = self.manifest, self.store.counts()
        except BadStore as error:
            return {**_NOTHING, "folder": str(self.folder), "name": self.name, "why": str(error)}
        plan, indices = manifest["plan"], list(self.store.indices())
        failed = sum(one["tables"].get("explanations", {}).get("failed", 0) for one in indices)
        totals = manifest["totals"] or {}
        limits = [one for one in (plan["limit"], plan["sample"]) if one is not None]
        for event in self.store.events(
            "start"
        ):  # what the last one counted, while nobody knows better
            limits = limits if event.get("examples") is None else [event["examples"]]
        return {
            "folder": str(self.folder),
            "name": self.name,
            "model": manifest["model"]["name"],
            "data": manifest["data"]["name"],
            "methods": self.methods,
            "metrics": self.metrics,
            "audit": list(plan["audit"]),
            "state": manifest["state"],
            "done": min((counts.get(one, 0) for one in manifest["explained"].values()), default=0),
            "total": totals.get("examples", min(limits, default=None)),
            "failed": failed,
            "bad": sum(len(one["bad"]) for one in indices),
            "why": None,
        }

    def evaluation(self, agreement: str | Sequence[str] = "tau_b") -> "Evaluation":
        """Return how the methods do by the metrics: what `whence.evaluate` returns of the same model and examples.

        Agreement between methods is no result of its own in a run; it is computed here from the scores.
        """
        from whence.run.results.evaluated import evaluated

        return evaluated(self, [agreement] if isinstance(agreement, str) else list(agreement))

    @property
    def audits(self) -> "Audit | None":
        """The audit of attention, of the experiments that are done; None where none was asked for."""
        if not self.manifest["plan"]["audit"]:
            return None
        from whence.run.audits import audit_of

        return audit_of(self.store)

    def explanation(self, row: int, method: str) -> dict[str, Any]:
        """Return one explanation as the documented JSON object (docs/reference/json.md), as far as a run keeps it.

        `row` is the example's place in the data, counted from 0.
        """
        from whence.run.results.explained import COLUMNS, explained
        from whence.run.results.gathered import Reader

        if method not in self.methods:
            raise UnknownMethod(
                f"The run has no explanations by {method!r}.{did_you_mean(method, self.methods)} There are "
                f"{', '.join(self.methods)}."
            )
        record = Reader(self.store).find(row, method, COLUMNS)
        if record is None:
            raise BadStore(
                f"The run has no explanation of row {row} by {method!r}. Rows count from 0 in the data; those that "
                "could not be read have none."
            )
        if record["error"] is not None:
            raise BadStore(f"{method} failed for row {row}: {record['why']}")
        return explained(
            record, self.manifest["model"], self.manifest["settings"][record["setting"]]
        )

    def report(self, other: "Run | None" = None) -> "RunReport | RunComparison":
        """Return the report of this run, or of this run and another that comes after it, compared."""
        if other is not None:
            from whence.run.results.compare import compare

            return compare(self, other)
        from whence.run.results.summary import report

        return report(self)

    def __repr__(self) -> str:
        told = self.facts()
        return f"<Run {told['name']}: {told['state']}, {told['done']} examples>"


_NOTHING: dict[str, Any] = {
    "model": None,
    "data": None,
    "methods": [],
    "metrics": [],
    "audit": [],
    "state": "damaged",
    "done": 0,
    "total": None,
    "failed": 0,
    "bad": 0,
}
