"""`whence.run`: a plan, a file of one, or its parts by name."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan
from whence.data.sets.frames import is_frame
from whence.run.plan import Manner, Plan
from whence.run.plan.fields import MANNER, over, planned
from whence.run.plan.file import OUT, read_plan
from whence.run.results import Run
from whence.run.run import run as do
from whence.run.watch import Watch


def run(
    plan: Plan | str | Path | None = None,
    out: str | Path | None = None,
    *,
    manner: Manner | None = None,
    retry_failed: bool = False,
    watch: Watch | None = None,
    **given: Any,
) -> Run:
    """Explain, test and audit a data set, and keep the results in a folder; what is there already is not done again.

    `plan`: a `Plan`, the path of a TOML file, or nothing: then `model=`, `data=`, `methods=` and whatever else a plan
    has are given by name, and so are `backend=`, `workers=`, `device=` and the rest of a `Manner`. What is given by
    name wins over what the plan says. `out`: the folder, unless a file names it. `retry_failed`: try again what
    failed before. `watch` is told how it goes. Interrupted or killed at any moment, the same call goes on.
    """
    where, said = "The plan", dict[str, Any]()
    if isinstance(plan, str | Path):
        where, said = str(plan), read_plan(plan)
    elif isinstance(plan, Plan):
        said = {one.name: getattr(plan, one.name) for one in fields(plan)}
    elif plan is not None:
        raise BadPlan(
            f"A plan is a whence.Plan or the path of a .toml file. Got {type(plan).__name__}."
        )
    for own in (said if isinstance(plan, Plan) else {}, given):
        if isinstance(own.get("target"), list):
            raise BadPlan(
                f"target={own['target']!r} is a list, one target each, and a run explains one for all examples. Give "
                "one target, 'gold' for each example's own label, or a contrast, which is a tuple: ('a', 'b')."
            )
    if is_frame(given.get("data")):
        raise BadPlan(
            f"data is a table in memory ({type(given['data']).__name__}), and a run that goes on has to read its "
            "data again. Save it as a .parquet or .csv file, and give the path of that: data=..., with text=... and "
            "label=... as here. whence.evaluate takes a table as it is."
        )
    if manner is not None:
        said = {**said, **{name: getattr(manner, name) for name in MANNER}}
    folder = said.pop(OUT, None) if out is None else out
    said.pop(OUT, None)
    if folder is None:
        raise BadPlan(
            "There is no folder for the results. Name it: out=..., or out = ... in the plan."
        )
    settled, way = planned(over(said, given), where)
    return do(settled, folder, way, retry_failed=retry_failed, watch=watch)
