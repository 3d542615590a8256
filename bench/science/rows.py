"""Stored rows of a job: read, made into an evaluation, rounded; digest and provenance of results."""

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

from whence.data.dataset import compute_example_id
from whence.data.example import Example
from whence.studies.evaluation.evaluation import build_evaluation_data
from whence.studies.evaluation.measure import resolve_metrics
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import AgreementScores
from whence.studies.evaluation.stored_rows import StoredSetting, record_stored_rows

if TYPE_CHECKING:
    from bench.science.job_runner import Job

ROOT = Path(__file__).resolve().parents[2]
SEED = 0

Facts = Mapping[str, Any]
Row = dict[str, Any]


def compute_sha256(paths: Sequence[Path]) -> str:
    """Return the digest of files."""
    found = hashlib.sha256()
    for path in paths:
        found.update(path.read_bytes())
    return found.hexdigest()


def collect_provenance() -> dict[str, Any]:
    """Return machine, source digest, commit and date."""
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    commit = os.environ.get("WHENCE_COMMIT")  # where there is no repository
    if not commit:
        said = subprocess.run(asked, capture_output=True, text=True, check=False)
        commit = said.stdout.strip() or "unknown"
    return {
        "machine": f"{on}, {os.cpu_count()} cores",
        "source": compute_sha256(sorted((ROOT / "src").rglob("*.py")))[:16],
        "commit": commit,
        "day": datetime.now(UTC).date().isoformat(),
    }


def read_rows(file: Path) -> tuple[dict[str, Any], list[Row]]:
    """Read the rows of a job; a truncated last line is dropped, and duplicates count once."""
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


def build_evaluation(
    job: "Job", given: Sequence[Example], header: Facts, lines: Sequence[Row]
) -> dict[str, Any]:
    """Return the evaluation of the rows, over the examples that were reached."""
    numbers = sorted({line["number"] for line in lines})
    places = {number: place for place, number in enumerate(numbers)}
    methods = [name for name in job.methods if name in header["methods"]]
    tests = resolve_metrics(list(job.metrics), job.metric_params) if job.metrics else []
    notes = ScoreTables(methods, tests, len(numbers), header["setting"]["rankings"])
    alike = AgreementScores(
        resolve_metrics(list(job.agreement)) if job.agreement else [], methods, len(numbers), 5
    )
    how = StoredSetting(header["methods"], header["setting"]["unit"], SEED, header["task"])
    for line in lines:
        place = places[line["number"]]
        record_stored_rows(notes, None, place, line["explained"], line["tested"], how)
        if line["alike"]:
            _put_agreement(alike, place, line["alike"])
    model = {**header["model"], "name": Path(job.model).name}
    return build_evaluation_data(
        notes, alike, methods={name: header["methods"][name] for name in methods},
        origin={"model": model, "provenance": dict(header["provenance"])},
        setting=dict(header["setting"]), digests=[compute_example_id(given[number]) for number in numbers],
        data=_describe_sample(job, given, numbers), seed=SEED, calls=None, seconds=sum(line["seconds"] for line in lines),
    )  # fmt: skip


def _describe_sample(job: "Job", given: Sequence[Example], numbers: Sequence[int]) -> Facts:
    """Return the name of a job's data set, and the number of its rows."""
    drawn = len(numbers) if len(numbers) < len(given) else None
    return {
        "name": job.name, "rows": len(given), "drawn": drawn, "seed": None if drawn is None else SEED,
        "text": None, "pair": None, "label": None, "guessed": [],
    }  # fmt: skip


def _put_agreement(alike: AgreementScores, place: int, found: Facts) -> None:
    couples = [(a, b) for i, a in enumerate(found["names"]) for b in found["names"][i + 1 :]]
    for name, values in found["found"].items():
        alike._random[name][place] = found["random"][name]
        for couple, value in zip(couples, values, strict=True):
            own = couple if couple in alike._couples else couple[::-1]
            if own in alike._couples:
                alike.pairs[name][place, alike._couples.index(own)] = value


def round_numbers(given: Any) -> Any:
    """Round every number to six digits: more are of this run's rounding."""
    if isinstance(given, float):
        return float(f"{given:.6g}")
    if isinstance(given, Mapping):
        return {key: round_numbers(value) for key, value in given.items()}
    if isinstance(given, list | tuple):
        return [round_numbers(value) for value in given]
    return given
