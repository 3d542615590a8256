"""The report of a run: everything that was found, as one documented JSON object (docs/reference/json.md)."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from whence.core.io import written
from whence.core.typed import typed
from whence.evaluation.advice import decided
from whence.evaluation.evaluation import Evaluation
from whence.evaluation.plan import DECIDING
from whence.report.shown import VERSION, Stored
from whence.run.plan import Plan, told
from whence.run.results.evaluated import evaluated, setting_of, software
from whence.run.results.extremes import extremes
from whence.run.results.figures import plots, predictions, sessions
from whence.run.results.noted import Noted, labels_of, noted

if TYPE_CHECKING:
    from whence.run.results import Run

_BAD = 5  # rows that cannot be read, named
_AGREEMENT = ("tau_b",)


@dataclass(frozen=True, eq=False)
class Written(Stored):
    """A report that can also be written for a paper or a repository."""

    _report: ClassVar[str] = "run"

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the report in Markdown, and write it if a path is given."""
        from whence.report.run import markdown

        return written(markdown(self.to_dict()), path)

    def to_latex(self, path: str | Path | None = None) -> str:
        """Return the report in LaTeX (needs booktabs and xcolor), and write it if a path is given."""
        from whence.report.run import latex

        return written(latex(self.to_dict()), path)


@dataclass(frozen=True, eq=False)
class RunReport(Written):
    """What a run found, and what it takes to do it again."""

    _kind: ClassVar[str] = "run"

    @property
    def evaluation(self) -> Evaluation:
        """The tables."""
        return Evaluation(self.payload["evaluation"])

    def __repr__(self) -> str:
        said = self.payload
        return f"<RunReport of {said['name']}: {said['state']}, {said['examples']} examples>"


def report(run: "Run") -> RunReport:
    """Make the report of a run, finished or not, from what is in its folder."""
    manifest, found = run.manifest, noted(run, _AGREEMENT)
    table = evaluated(run, _AGREEMENT, found)
    audit = run.audits
    return RunReport(
        {
            "version": VERSION,
            "kind": "run",
            **about(run, found),
            "model": dict(manifest["model"]),
            "data": {**manifest["data"], "bad": _bad(run)},
            "setting": {**setting_of(manifest), "seed": manifest["plan"]["seed"]},
            "methods": run.methods,
            "metrics": run.metrics,
            "predictions": {
                **predictions(found),
                "labels": labels_of(manifest, found.labels),
            },
            "advice": _advice(table),
            "evaluation": table.to_dict(),
            "plots": plots(found, table.payload),
            "extremes": extremes(run, found),
            "failures": found.failures,
            "audit": None if audit is None else audit.to_dict(),
            "not_audited": _not_audited(run),
            "provenance": {
                **software(run),
                "code": manifest["code"],
                "format": manifest["version"],
            },
            "settings": manifest["settings"],
            "sessions": sessions(run),
            "reproduce": reproduce(manifest, run.name),
        }
    )


def about(run: "Run", found: Noted) -> dict[str, Any]:
    """Return what a run is called, how far it is, and what of it could not be read."""
    aside = {str(one.get("file")): str(one.get("why")) for one in run.store.damage()}
    facts = run.facts()
    return {
        "name": run.name,
        "state": facts["state"],
        "examples": len(found.rows),
        "total": facts["total"],
        "parts": run.manifest["parts"],
        "damage": [
            *(f"{file} is damaged and left out: {why}. The same command, run again, computes it anew."
              for file, why in found.damage.items()),
            *(f"{file} was damaged and set aside: {why}." for file, why in aside.items() if not run.complete),
        ],
    }  # fmt: skip


def _bad(run: "Run") -> dict[str, Any]:
    rows = run.store.bad()
    first = list(islice(rows, _BAD))
    return {"count": len(first) + sum(1 for _ in rows), "first": first}


def _not_audited(run: "Run") -> list[dict[str, str]]:
    """Return the experiments that were asked for and have found nothing, with the reason."""
    asked, there = run.manifest["plan"]["audit"], run.store.audits()
    waiting = "It was not made yet."
    return [
        {"name": name, "why": str(there[name]["why"]) if name in there else waiting}
        for name in asked
        if name not in there or there[name]["experiment"] is None
    ]


def _advice(table: Evaluation) -> str | None:
    """Say which method to use, where what decides about it was measured."""
    if not set(DECIDING) <= set(table.metrics) or not table.payload["examples"]["explained"]:
        return None
    return str(decided(table)["sentence"])


def reproduce(manifest: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the plan as a file, and as a command line."""
    known = {one.name for one in fields(Plan)}
    asked: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) and key != "target" else value
        for key, value in manifest["plan"].items()
        if key in known
    }
    plan = Plan(**asked)
    return {"plan": plan.to_toml(), "command": _command(plan, name)}


def _command(plan: Plan, name: str) -> str:
    parts = ["whence", "run"]
    for key, value in told(plan).items():
        option = f"--{key.replace('_', '-')}"
        if key in ("params", "metric_params", "audit_params"):
            parts += [
                part for one, own in sorted(value.items()) for part in ("--param", f"{one}={own}")
            ]
        elif key == "target" and isinstance(value, list | tuple):
            parts += [option, ":".join(map(str, value))]
        elif isinstance(value, bool):
            parts.append(option if value else f"--no-{key.replace('_', '-')}")
        else:
            parts += [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return f"{shlex.join(parts)} --out {typed(name)}"
