"""Many examples by many methods: processes that share a device, and rows on disk that outlive each of them.

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
from bench.science.rows import SEED, Facts, Row, made_by, read

import whence
from whence.data.sets.digest import given_digest
from whence.data.sets.examples import Example, shuffled
from whence.data.sets.labels import label_places
from whence.evaluation.agreement import Alike
from whence.evaluation.measures import measures
from whence.evaluation.notes import Notes
from whence.evaluation.stored import Setting, take
from whence.explainer import Explainer
from whence.explainer.work import origin
from whence.methods import is_reader, method
from whence.run.plan import Manner, Plan
from whence.run.settings import settled
from whence.run.task import Item, Task
from whence.run.worker import Worker

# What else is kept of an example's explanations, made of their rows.
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
        """What every row depends on, but its example."""
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


def readers(without: Sequence[str] = ()) -> list[str]:
    """Name the methods that read one pass."""
    return [one.name for one in method if is_reader(one) and one.name not in without]


def askers(without: Sequence[str] = ()) -> list[str]:
    """Name the methods that ask the model again."""
    return [one.name for one in method if not is_reader(one) and one.name not in without]


def presets(*names: str) -> dict[str, dict[str, str]]:
    """Return the first of these presets that a method has, for the methods that have one."""
    known = {one.name: [name for name in names if name in one.presets] for one in method}
    return {name: {"preset": found[0]} for name, found in known.items() if found}


def loaded(job: Job) -> Explainer:
    """Load the model, and call it by its folder's name: a path of one machine is no name."""
    torch.backends.cudnn.allow_tf32 = False  # the same numbers as anywhere, to rounding
    found = whence.load(job.model, device=job.device, dtype="float32").loaded
    return Explainer(replace(found, name=Path(job.model).name))


def ordered(given: Sequence[Example]) -> list[Example]:
    """Put examples into the order drawn by the seed; pictures first by what they show, wherever they lie."""
    every = sorted(given, key=given_digest) if any(one.seen for one in given) else list(given)
    return [every[number] for number in shuffled(every, SEED)]


def wrong(explainer: Explainer, given: Sequence[Example]) -> list[int]:
    """Number the examples whose predicted label is not the one that people gave."""
    labels = explainer.loaded.labels
    places = label_places([one.label for one in given if one.label is not None], labels)
    found = []
    for start in range(0, len(given), 64):
        some = given[start : start + 64]
        said = explainer.predict([one.given for one in some], truncate=True)
        for place, (one, own) in enumerate(zip(said, some, strict=True), start):
            if own.label is None or one.index != places[own.label]:
                found.append(place)
    return found


def run(
    job: Job, given: Sequence[Example], file: Path, *, workers: int = 1, seconds: float = float("inf")
) -> None:  # fmt: skip
    """Do what is missing of a job, until the time is over."""
    until, started = time.time() + seconds, time.monotonic()
    explainer = loaded(job)
    header = {**_header(job, explainer, given), "wrong": wrong(explainer, given)}
    done = _known(file, header)
    tasks = _tasks(job, given, done, header["wrong"])
    total, count = sum(len(one[1]) for one in tasks), 0
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        if not done and not file.stat().st_size:
            stream.write(json.dumps({"header": header}) + "\n")
        said = 0.0
        for lines in _results(job, given, tasks, explainer, workers, until):
            stream.writelines(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            stream.flush()
            count += len(lines)
            if time.monotonic() - said > 10:
                said = time.monotonic()
                print(f"{job.name}: {count} of {total}, {said - started:.0f} s", flush=True)
    print(f"{job.name}: {count} of {total} done", flush=True)


def _header(job: Job, explainer: Explainer, given: Sequence[Example]) -> dict[str, Any]:
    whole = hashlib.sha256("".join(given_digest(one) for one in given).encode()).hexdigest()
    plan = settled(job.plan, explainer.loaded)
    made = origin(explainer.loaded)
    return {
        "job": job.name,
        "methods": {one.name: dict(one.params) for one in plan.methods},
        "setting": {"remove": plan.remove, "unit": plan.unit, "target": job.target, "truncate": True, "rankings": 5},
        "task": explainer.loaded.task,
        "model": made["model"],
        "provenance": {**made["provenance"], **made_by()},
        "examples": whole,
    }  # fmt: skip


def _known(file: Path, header: Facts) -> set[tuple[int, str]]:
    """Return which methods are there for which examples; rows of other code are no part of this."""
    if not file.is_file() or not file.stat().st_size:
        return set()
    old, lines = read(file)
    for name in ("job", "setting", "methods", "examples"):
        assert json.loads(json.dumps(header[name])) == old[name], (
            f"{file}: made with other {name}; remove it"
        )
    assert header["provenance"]["source"] == old["provenance"]["source"], (
        f"{file}: made by other code; remove it"
    )
    return {(line["number"], name) for line in lines for name in line["methods"]}  # fmt: skip


def _tasks(
    job: Job, given: Sequence[Example], done: set[tuple[int, str]], missed: Sequence[int]
) -> list[tuple[tuple[str, ...], list[int]]]:
    """Cut what is missing into tasks: methods with the same number of examples together, in the sample's order."""
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


def _begin(job: Job, given: Sequence[Example], until: float) -> None:
    torch.set_num_threads(1)
    _OWN.update(
        job=job,
        given=given,
        until=until,
        worker=Worker(job.plan, Manner(device=job.device), loaded(job)),
    )


def _do(task: tuple[tuple[str, ...], list[int]]) -> list[Row]:
    if time.time() > _OWN["until"]:
        return []
    names, numbers = task
    job, given = _OWN["job"], _OWN["given"]
    items = tuple(Item(n, str(n), given[n], "", "") for n in numbers)
    found = _OWN["worker"].do(Task(0, 0, items, names))
    lines = []
    for number in numbers:
        own = [one for one in found.records if one["row"] == number]
        made = [one for one in own if one["table"] == "explanations"]
        tests = [one for one in own if one["table"] == "metrics"]
        lines.append(
            {
                "number": number,
                "methods": list(names),
                "explained": [{name: one[name] for name in _LIGHT} for one in made],
                "tested": [{name: one[name] for name in _TESTS} for one in tests],
                "alike": _compared(job, made),
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


def _results(
    job: Job, given: Sequence[Example], tasks: Sequence[Any], explainer: Explainer, workers: int, until: float
) -> Iterator[list[Row]]:  # fmt: skip
    if workers < 2:
        _OWN.update(
            job=job,
            given=given,
            until=until,
            worker=Worker(job.plan, Manner(device=job.device), explainer),
        )
        yield from map(_do, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(workers, _begin, (job, given, until)) as pool:
        yield from pool.imap_unordered(_do, tasks)


def _compared(job: Job, made: Sequence[Row]) -> dict[str, Any] | None:
    """Compare the explanations of one example with each other: scores are not kept."""
    if not job.agreement:
        return None
    worker = _OWN["worker"]
    params = {one.name: one.params for one in worker._settled.methods}
    names = [one["method"] for one in made]
    alike = Alike(measures(list(job.agreement)), names, 1, 5)
    how = Setting(params, worker._settled.unit, SEED, worker.explainer.loaded.task)
    take(Notes(names, [], 1, 5), alike, 0, made, [], how)
    found = {name: each[0].tolist() for name, each in alike._found.items()}
    random = {name: float(each[0]) for name, each in alike._random.items()}
    return {"names": names, "found": found, "random": random}
