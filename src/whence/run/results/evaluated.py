"""The evaluation of a run: made of its rows by what `whence.evaluate` is made by, so that both say the same."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whence.evaluation import Evaluation
from whence.evaluation.cost import timed
from whence.evaluation.judge import plain
from whence.evaluation.payload import payload
from whence.run.results.noted import Noted, noted, params_of
from whence.run.store.manifest import settings_of

if TYPE_CHECKING:
    from whence.run.results import Run

_MODEL = ("name", "revision", "class", "fingerprint", "labels")


def evaluated(run: "Run", agreement: Sequence[str], found: Noted | None = None) -> Evaluation:
    """Return how the methods of a run do by its metrics; `found` is what was gone through already."""
    found = noted(run, agreement) if found is None else found
    manifest = run.manifest
    seed = manifest["plan"]["seed"]
    told = payload(
        found.notes,
        found.alike,
        methods=params_of(manifest),
        origin={
            "model": {name: manifest["model"].get(name) for name in _MODEL},
            "provenance": software(run),
        },
        setting=setting_of(manifest),
        digests=found.digests,
        data=data_of(run),
        seed=seed,
        calls=None,  # a run counts passes by explanation; those of tests are not kept
        seconds=None,
    )
    times = _times(run)
    for one in told["methods"]:
        one["seconds"] = _seconds(times.get(one["method"], []), seed)
    return Evaluation(told)


def data_of(run: "Run") -> dict[str, Any]:
    """Return what the data set of a run is called, and what was drawn from how many rows, as evaluations say it."""
    plan, data = run.manifest["plan"], run.manifest["data"]
    columns, counted = data.get("columns") or {}, None
    for event in run.store.events("start"):
        counted = event.get("of", counted)
    some = [one for one in (plan["sample"], plan["limit"]) if one is not None]
    drawn = min(some, default=None)
    if counted is not None and drawn is not None and drawn >= counted:
        drawn = None
    return {
        "name": data["name"],
        "rows": counted,
        "drawn": drawn,
        "seed": None if plan["sample"] is None or drawn is None else plan["seed"],
        "text": columns.get("text"),
        "pair": columns.get("pair"),
        "label": columns.get("label"),
        "guessed": list(data.get("guessed") or ()),
    }


def setting_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return how explanations were made and tested, as an evaluation says it."""
    plan = manifest["plan"]
    asked = (manifest["settings"].get(one, {}) for one in settings_of(manifest))
    tests = [one for one in asked if one.get("kind") == "test"]
    test = tests[0] if tests else {}
    return {
        "remove": test.get("remove", plan["remove"]),
        "unit": test.get("unit", plan["unit"]),
        "target": plan["target"],
        "truncate": plan["truncate"],
        "rankings": plan["rankings"],
    }


def software(run: "Run") -> dict[str, Any]:
    """Return the versions and the device that the journal names last; nothing where it is lost."""
    found: dict[str, Any] = {}
    for event in run.store.events("begin"):
        found = event.get("software") or found
    return dict(found)


def _times(run: "Run") -> dict[str, list[tuple[float, int]]]:
    """Return the seconds and the examples of every task, by method, as far as the journal has them."""
    found: dict[str, list[tuple[float, int]]] = {}
    for event in run.store.events("task"):
        for name, cost in (event.get("costs") or {}).items():
            examples = cost.get("examples", event.get("examples"))
            if name and examples and cost.get("seconds") is not None:
                found.setdefault(name, []).append((float(cost["seconds"]), int(examples)))
    return found


def _seconds(tasks: Sequence[tuple[float, int]], seed: int) -> dict[str, Any] | None:
    """Return the seconds per example of a method: tasks are the observations."""
    if not tasks:
        return None
    seconds, counts = np.array(tasks, dtype=np.float64).T
    each = seconds / counts
    found = plain(timed(seconds, counts, ("evaluate", "cost", seed)))
    return found and {**found, "least": float(each.min()), "most": float(each.max())}
