"""Runner of jobs: many examples by many methods, in processes that share a device, with rows on disk.

A `Job` is a protocol: a model, a data set, methods, metrics and how tokens are removed. Its examples come in an order
drawn by the seed, and some methods may take fewer of them than others. Every example is a line of a file as soon as
it is done; the same command goes on where the last one stopped, with the same code only. `bench.science.rows` makes
of the lines what `whence.evaluate` makes of trials, by the same functions.
"""

import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from bench.science.rows import SEED, Facts, Row, collect_provenance, read_rows

import whence
from whence.data.dataset import compute_input_id, find_label_indices, shuffle_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.explain.pipeline import describe_origin
from whence.methods import is_trace_method, method
from whence.runs.plan import Execution, Plan
from whence.runs.task import Item, Task
from whence.runs.worker import Worker, resolve_plan_for_model
from whence.studies.evaluation.measure import resolve_metrics
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import AgreementScores
from whence.studies.evaluation.stored_rows import StoredSetting, record_stored_rows

# Function from an example and its rows to further values that are stored.
Hook = Callable[[Example, Sequence[Row]], Any]


@dataclass(frozen=True)
class Job:
    """One protocol on one data set."""

    name: str
    model: str  # a folder
    methods: Mapping[str, int | None]  # on how many examples each; None: on all
    metrics: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    metric_params: Mapping[str, Any] = field(default_factory=dict)
    remove: str | None = None
    target: Any = None
    unit: str = "token"
    agreement: tuple[str, ...] = ()
    at_a_time: int = 8
    only_wrong: bool = False  # only examples whose predicted label is not their own
    hook: Hook | None = None  # a function of a module, so that it can be sent to a process
    device: str | None = None

    @property
    def plan(self) -> Plan:
        """The plan of the job, on which every row depends beside its example."""
        own = {name: given for name, given in self.params.items() if name in self.methods}
        return Plan(
            self.model,
            "",
            tuple(self.methods),
            self.metrics,
            params=own,
            metric_params=self.metric_params,
            target=self.target,
            remove=self.remove,
            unit=self.unit,
            seed=SEED,
            dtype="float32",  # the checkpoints are in half precision, in which relevance overflows
        )


def list_readers(without: Sequence[str] = ()) -> list[str]:
    """Return the names of the trace methods."""
    return [one.name for one in method if is_trace_method(one) and one.name not in without]


def list_query_methods(without: Sequence[str] = ()) -> list[str]:
    """Return the names of the query methods."""
    return [one.name for one in method if not is_trace_method(one) and one.name not in without]


def select_presets(*names: str) -> dict[str, dict[str, str]]:
    """Return, for each method that has one of these presets, the first it has."""
    known = {one.name: [name for name in names if name in one.presets] for one in method}
    return {name: {"preset": found[0]} for name, found in known.items() if found}


def load_explainer(job: Job) -> Explainer:
    """Load the model under its folder's name: a path of one machine is no name."""
    torch.backends.cudnn.allow_tf32 = False  # the same numbers as anywhere, to rounding
    found = whence.load(job.model, device=job.device, dtype="float32").loaded
    return Explainer(replace(found, name=Path(job.model).name))


def order_examples(given: Sequence[Example]) -> list[Example]:
    """Return examples in the order drawn by the seed; pictures are first sorted by input id, not by path."""
    every = (
        sorted(given, key=compute_input_id) if any(one.is_image for one in given) else list(given)
    )
    return [every[number] for number in shuffle_indices(every, SEED)]


def list_wrong_predictions(explainer: Explainer, given: Sequence[Example]) -> list[int]:
    """Return the numbers of the examples whose predicted label is not the gold one."""
    labels = explainer.loaded.labels
    places = find_label_indices([one.label for one in given if one.label is not None], labels)
    found = []
    for start in range(0, len(given), 64):
        some = given[start : start + 64]
        said = explainer.predict([one.given for one in some], truncate=True)
        for place, (one, own) in enumerate(zip(said, some, strict=True), start):
            if own.label is None or one.index != places[own.label]:
                found.append(place)
    return found


def run_job(
    job: Job, given: Sequence[Example], file: Path, *, workers: int = 1, seconds: float = float("inf")
) -> None:  # fmt: skip
    """Run the missing tasks of a job, until the time is over."""
    until, started = time.time() + seconds, time.monotonic()
    explainer = load_explainer(job)
    header = {
        **_build_header(job, explainer, given),
        "wrong": list_wrong_predictions(explainer, given),
    }
    done = _load_known(file, header)
    tasks = _build_tasks(job, given, done, header["wrong"])
    total, count = sum(len(one[1]) for one in tasks), 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        if not done and not file.stat().st_size:
            stream.write(json.dumps({"header": header}) + "\n")
        said = 0.0
        for lines in _iterate_results(job, given, tasks, explainer, workers, until):
            stream.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            stream.flush()
            count += len(lines)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{job.name}: {count} of {total}, {said - started:.0f} s", flush=True)
    print(f"{job.name}: {count} of {total} done", flush=True)


def _build_header(job: Job, explainer: Explainer, given: Sequence[Example]) -> dict[str, Any]:
    whole = hashlib.sha256("".join(compute_input_id(one) for one in given).encode()).hexdigest()
    plan = resolve_plan_for_model(job.plan, explainer.loaded)
    made = describe_origin(explainer.loaded)
    return {
        "job": job.name,
        "methods": {one.name: dict(one.params) for one in plan.methods},
        "setting": {"remove": plan.remove, "unit": plan.unit, "target": job.target, "truncate": True, "rankings": 5},
        "task": explainer.loaded.task,
        "model": made["model"],
        "provenance": {**made["provenance"], **collect_provenance()},
        "examples": whole,
    }  # fmt: skip


def _load_known(file: Path, header: Facts) -> set[tuple[int, str]]:
    """Return the stored (example, method) pairs; a file made with other settings or code raises."""
    if not file.is_file() or not file.stat().st_size:
        return set()
    old, lines = read_rows(file)
    for name in ("job", "setting", "methods", "examples"):
        assert json.loads(json.dumps(header[name])) == old[name], (
            f"{file}: made with other {name}; remove it"
        )
    assert header["provenance"]["source"] == old["provenance"]["source"], (
        f"{file}: made by other code; remove it"
    )
    return {(line["number"], name) for line in lines for name in line["methods"]}  # fmt: skip


def _build_tasks(
    job: Job, given: Sequence[Example], done: set[tuple[int, str]], missed: Sequence[int]
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Split the missing work into tasks: methods with the same number of examples share one."""
    places = set(missed) if job.only_wrong else set(range(len(given)))
    groups: dict[int | None, list[str]] = {}
    for name, most in job.methods.items():
        groups.setdefault(most, []).append(name)
    tasks = []
    for most, names in groups.items():
        some = [n for n in range(len(given))[:most] if n in places]
        own = [n for n in some if any((n, name) not in done for name in names)]
        for start in range(0, len(own), job.at_a_time):
            tasks.append((tuple(names), own[start : start + job.at_a_time]))
    return tasks


_OWN: dict[str, Any] = {}


def _start_worker(job: Job, given: Sequence[Example], until: float) -> None:
    torch.set_num_threads(1)
    _OWN.update(
        job=job,
        given=given,
        until=until,
        worker=Worker(job.plan, Execution(device=job.device), load_explainer(job)),
    )


def _do_task(task: tuple[tuple[str, ...], list[int]]) -> list[Row]:
    if time.time() > _OWN["until"]:
        return []
    names, numbers = task
    job, given = _OWN["job"], _OWN["given"]
    items = tuple(Item(n, str(n), given[n], "", "") for n in numbers)
    found = _OWN["worker"].do(Task(0, 0, items, names))
    lines = []
    for number in numbers:
        made, tests = (
            [one for one in found.tables[name].to_pylist() if one["row"] == number]
            for name in ("explanations", "metrics")
        )
        lines.append(
            {
                "number": number,
                "methods": list(names),
                "explained": [{name: one[name] for name in _LIGHT} for one in made],
                "tested": [{name: one[name] for name in _TESTS} for one in tests],
                "alike": _compare_explanations(job, made),
                "more": job.hook(given[number], made) if job.hook else None,
                "seconds": found.seconds / len(numbers),
            }
        )
    return lines


_LIGHT = (
    "method",
    "predicted",
    "target",
    "forward",
    "backward",
    "dropped",
    "refused",
    "error",
    "why",
)
_TESTS = ("method", "metric", "value", "null", "part_names", "parts", "null_parts", "error", "why")


def _iterate_results(
    job: Job, given: Sequence[Example], tasks: Sequence[Any], explainer: Explainer, workers: int, until: float
) -> Iterator[list[Row]]:  # fmt: skip
    if workers < 2:
        _OWN.update(
            job=job,
            given=given,
            until=until,
            worker=Worker(job.plan, Execution(device=job.device), explainer),
        )
        yield from map(_do_task, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(
        workers, _start_worker, (job, given, until)
    ) as pool:
        yield from pool.imap_unordered(_do_task, tasks)


def _compare_explanations(job: Job, made: Sequence[Row]) -> dict[str, Any] | None:
    """Compare the explanations of one example with each other: scores are not kept."""
    if not job.agreement:
        return None
    worker = _OWN["worker"]
    params = {one.name: one.params for one in worker._resolved.methods}
    names = [one["method"] for one in made]
    alike = AgreementScores(resolve_metrics(list(job.agreement)), names, 1, 5)
    how = StoredSetting(params, worker._resolved.unit, SEED, worker.explainer.loaded.task)
    record_stored_rows(ScoreTables(names, [], 1, 5), alike, 0, made, [], how)
    found = {name: each[0].tolist() for name, each in alike.pairs.items()}
    random = {name: float(each[0]) for name, each in alike._random.items()}
    return {"names": names, "found": found, "random": random}
