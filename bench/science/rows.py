"""What was made of examples, row by row, read back: and the evaluation that is made of it."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from whence.data.sets.digest import example_digest
from whence.data.sets.examples import Example
from whence.evaluation.agreement import Alike
from whence.evaluation.measures import measures
from whence.evaluation.notes import Notes
from whence.evaluation.payload import payload
from whence.evaluation.stored import Setting, take

if TYPE_CHECKING:
    from bench.science.many import Job

ROOT = Path(__file__).resolve().parents[2]
SEED = 0

Facts = Mapping[str, Any]
Row = dict[str, Any]


def sha256(paths: Sequence[Path]) -> str:
    """Return the digest of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def made_by() -> dict[str, Any]:
    """Say what computes: the machine, the source, the commit it came from, the day."""
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = os.environ.get("WHENCE_COMMIT")  # where there is no repository
    if not commit:
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        commit = said.stdout.strip() or "unknown"
    return {
        "machine": f"{on}, {os.cpu_count()} cores",
        "source": sha256(sorted((ROOT / "src").rglob("*.py")))[:16],
        "commit": commit,
        "day": datetime.now(UTC).date().isoformat(),
    }


def read(file: Path) -> tuple[dict[str, Any], list[Row]]:
    """Read the rows of a job: a last line that was cut short is none, and what is there twice counts once."""
    header: dict[str, Any] = {}
    rows, known = [], set()
    for line in file.read_text("utf-8").splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if "header" in found:
            header = header or found["header"]
            continue
        fresh = [name for name in found["methods"] if (found["number"], name) not in known]
        known |= {(found["number"], name) for name in fresh}
        for part in ("explained", "tested"):
            found[part] = [one for one in found[part] if one["method"] in fresh]
        if fresh:
            rows.append({**found, "methods": fresh})
    return header, rows


def evaluated(
    job: "Job", given: Sequence[Example], header: Facts, lines: Sequence[Row]
) -> dict[str, Any]:
    """Make an evaluation of the rows, over the examples that were reached."""
    numbers = sorted({line["number"] for line in lines})
    places = {number: place for place, number in enumerate(numbers)}
    methods = [name for name in job.methods if name in header["methods"]]
    tests = measures(list(job.metrics), job.metric_params) if job.metrics else []
    notes = Notes(methods, tests, len(numbers), header["setting"]["rankings"])
    alike = Alike(measures(list(job.agreement)) if job.agreement else [], methods, len(numbers), 5)
    how = Setting(header["methods"], header["setting"]["unit"], SEED, header["task"])
    for line in lines:
        place = places[line["number"]]
        take(notes, None, place, line["explained"], line["tested"], how)
        if line["alike"]:
            _put(alike, place, line["alike"])
    model = {**header["model"], "name": Path(job.model).name}
    return payload(
        notes, alike, methods={name: header["methods"][name] for name in methods},
        origin={"model": model, "provenance": dict(header["provenance"])},
        setting=dict(header["setting"]), digests=[example_digest(given[number]) for number in numbers],
        data=_drawn(job, given, numbers), seed=SEED, calls=None, seconds=sum(line["seconds"] for line in lines),
    )  # fmt: skip


def _drawn(job: "Job", given: Sequence[Example], numbers: Sequence[int]) -> Facts:
    """Return what the data set of a job is called, and how many of its rows were taken."""
    drawn = len(numbers) if len(numbers) < len(given) else None
    return {
        "name": job.name, "rows": len(given), "drawn": drawn, "seed": None if drawn is None else SEED,
        "text": None, "pair": None, "label": None, "guessed": [],
    }  # fmt: skip


def _put(alike: Alike, place: int, found: Facts) -> None:
    couples = [(a, b) for i, a in enumerate(found["names"]) for b in found["names"][i + 1 :]]
    for name, values in found["found"].items():
        alike._random[name][place] = found["random"][name]
        for couple, value in zip(couples, values, strict=True):
            own = couple if couple in alike._couples else couple[::-1]
            if own in alike._couples:
                alike._found[name][place, alike._couples.index(own)] = value


def rounded(given: Any) -> Any:
    """Round every number to six digits: more are of this run's rounding."""
    if isinstance(given, float):
        return float(f"{given:.6g}")
    if isinstance(given, Mapping):
        return {key: rounded(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [rounded(value) for value in given]
    return given
