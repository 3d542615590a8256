"""Who does a task: a model that is loaded once, and explains and tests examples as `whence.evaluate` does."""

import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence

import torch

from whence.capture.asking.counted import counted
from whence.capture.memory.fitting import device_lost
from whence.core.failure import is_failure
from whence.data import Encoded
from whence.evaluation.portions import is_gold
from whence.evaluation.tested import Unreadable, tried
from whence.explainer import Explainer, Explanation, load
from whence.explainer.request import Request
from whence.explainer.sharing import INPUTS
from whence.kernels.memory import trim
from whence.run import records
from whence.run.plan import Manner, Plan
from whence.run.records import Failure, failures
from whence.run.settings import settled
from whence.run.task import Done, Identity, Item, Record, Task
from whence.run.work import Sheet, Work

__all__ = ["Worker", "device_lost", "failures"]


class Worker:
    """Does tasks of a plan."""

    def __init__(self, plan: Plan, manner: Manner, explainer: Explainer | None = None) -> None:
        """Load the model, unless an `explainer` has it, and refuse a plan that it does not fit."""
        self.explainer = explainer or load(
            plan.model,
            device=manner.device,
            dtype=plan.dtype,
            revision=plan.revision,
            mlm=plan.mlm,
            checkpoint=manner.checkpoint,
            compile=manner.compile,
        )
        self._plan = plan
        self._settled = settled(plan, self.explainer.loaded)
        self._requests = {one.name: one for one in self._settled.methods}
        self._batch_size = INPUTS if manner.batch_size is None else manner.batch_size
        # What this kind of model cannot do is found out once; by method, None where it can.
        self._cannot: dict[str, Failure | None] = {}

    @property
    def identity(self) -> Identity:
        """What the model and the code are, as far as results depend on it."""
        return self._settled.identity

    def do(self, task: Task) -> Done:
        """Explain and test all examples of a task by its methods; what fails becomes a row that says so.

        Where something fails that is no error of ours, the examples are done one at a time: rows are then equal to
        those of a batch up to rounding.
        """
        started = time.perf_counter()
        work = Work(self.explainer, self._plan, self._settled, self._batch_size)
        asked = [self._requests[name] for name in task.methods]
        self._find_out(task.items, asked)
        sheet, usable = Sheet(), []
        for one in asked:
            if (cannot := self._cannot.get(one.name)) is None:
                usable.append(one)
            else:
                sheet.explained |= {(item.row, one.name): cannot for item in task.items}
        if usable:
            with counted(self.explainer.model) as runs:
                self._attempt(work, sheet, task.items, usable)
            work.clock.forward = max(0, runs.forward - _shared(sheet))
        trim()  # a run lasts for days, and every chunk has another shape
        return Done(
            task.window,
            task.chunk,
            self._records(sheet, task),
            time.perf_counter() - started,
            {
                **{name: _took(sheet, name) for name in task.methods},
                **({"": work.clock.costs()} if self._settled.measures else {}),
            },
            f"{platform.node()} {os.getpid()}",
            _memory(self.explainer),
        )

    def _find_out(self, items: Sequence[Item], asked: Sequence[Request]) -> None:
        """Try methods that were not tried yet on one example: what this kind of model cannot do fails for all."""
        target, truncate = self._settled.target, self._plan.truncate
        if is_gold(target, self.explainer.loaded):
            target = None  # whichever class: the method can do it or not
        for request in asked:
            if request.name in self._cannot:
                continue
            for item in items:
                try:
                    error, _ = tried(self.explainer, item.example.given, request, target, truncate)
                except Unreadable:
                    continue
                except (
                    BaseException
                ) as failed:  # models are other people's code and may raise anything
                    _check_alive(failed)
                    continue
                self._cannot[request.name] = None if error is None else Failure.of(error)
                break

    def _attempt(
        self, work: Work, sheet: Sheet, items: Sequence[Item], asked: Sequence[Request]
    ) -> None:
        """Do examples together; where that fails, one at a time, and then one method at a time."""
        try:
            sheet.add(work(items, asked, self._settled.measures))
        except (
            BaseException
        ) as error:  # whatever a model raises on an example is that example's result
            work.clock.stop()
            _check_alive(error)
            if len(items) > 1:
                for item in items:
                    self._attempt(work, sheet, [item], asked)
            elif len(asked) > 1:
                for one in asked:
                    self._attempt(work, sheet, items, [one])
            else:
                self._single(work, sheet, items[0], asked[0])

    def _single(self, work: Work, sheet: Sheet, item: Item, one: Request) -> None:
        """Do one example by one method, of which something fails: the explanation, or some of the tests."""
        for measure in (None, *self._settled.measures):
            try:
                sheet.add(work([item], [one], [] if measure is None else [measure]))
            except BaseException as error:  # as above
                work.clock.stop()
                _check_alive(error)
                if measure is None:
                    sheet.explained[item.row, one.name] = Failure.of(error)
                    return
                sheet.tested[item.row, one.name, measure.name] = Failure.of(error)

    def _records(self, sheet: Sheet, task: Task) -> list[Record]:
        """Return one row for each explanation, and one for each test of it."""
        identity, anchors = self.identity, self.explainer.loaded.anchors
        found: list[Record] = []
        for item in task.items:
            seen: Encoded | None = None
            read: Record = {}
            for name in task.methods:
                # A tagger may find nothing to explain, and say nothing of it.
                own = sheet.explained.get((item.row, name), _NOTHING)
                if isinstance(own, Explanation) and own.item is not None and own.item is not seen:
                    seen, read = own.item, records.tokens(own.item, anchors)
                found.append(records.explained(identity, item, name, own, read))
                for metric in identity.tested[name]:
                    test = sheet.tested.get((item.row, name, metric))
                    if test is None:
                        test = own if isinstance(own, Failure) else _NOTHING
                    found.append(records.tested(identity, item, name, metric, test))
        return found


_NOTHING = Failure("error", "There was nothing to explain of this input.", refused=True)


def _took(sheet: Sheet, method: str) -> Mapping[str, float]:
    """Return what a method took for all examples."""
    made = [
        one
        for (_, name), one in sheet.explained.items()
        if name == method and isinstance(one, Explanation)
    ]
    return {
        "examples": len(made),
        "seconds": sum(one.seconds for one in made),
        "forward": sum(one.passes.forward for one in made),
        "backward": sum(one.passes.backward for one in made),
    }


def _shared(sheet: Sheet) -> int:
    """Count the forward passes of all explanations: one that all methods share, and what some ask beside it."""
    made: dict[int, list[int]] = {}
    for (row, _), one in sheet.explained.items():
        if isinstance(one, Explanation):
            made.setdefault(row, []).append(one.passes.forward)
    # Every method counts the passes that it shares, and no method has fewer than these.
    return sum(min(own) + sum(count - min(own) for count in own) for own in made.values())


def _check_alive(error: BaseException) -> None:
    """Raise what is no result of an example: the run is to end, or whoever has the worker must take another."""
    if device_lost(error) or not is_failure(error):
        raise error


def _memory(explainer: Explainer) -> dict[str, int]:
    """Return the bytes that this process, and its accelerator, had at most so far."""
    found = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        found["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if explainer.loaded.device.type == "cuda":
        found["device"] = torch.cuda.max_memory_allocated(explainer.loaded.device)
    return found


"""The rows of a store, made of what a worker found. What each column means is said in docs/reference/store.md."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from whence.capture.memory.fitting import lacks_memory
from whence.core.errors import OutOfMemory, WhenceError
from whence.data import Encoded
from whence.data.removal import players
from whence.evaluation.tested import Tested
from whence.explainer import Explanation
from whence.explainer.work import unnamed
from whence.run.task import Identity, Item, Record, Task

_LONGEST = 300  # characters of somebody else's error
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")
_NOTHING: Record = dict.fromkeys(
    (
        *("target", "predicted", "probability", "tokens", "special", "starts", "ends", "segments"),
        *("ids", "words", "scores", "axioms", "forward", "backward", "dropped"),
    )
)


@dataclass(frozen=True)
class Failure:
    """Why there is no result: in the same words whenever and wherever it happens."""

    code: str  # of an error of ours, or the class of somebody else's
    why: str
    refused: bool = False  # the input could not be taken, so that no method was tried

    @classmethod
    def of(cls, error: BaseException, *, refused: bool = False) -> "Failure":
        """Say what went wrong."""
        if lacks_memory(error):
            # How much was free is true of one moment only.
            own = error if isinstance(error, OutOfMemory) else OutOfMemory("The memory ran out.")
            return cls(own.code, f"{str(own).partition('. ')[0].rstrip('.')}.", refused)
        if isinstance(error, WhenceError):
            own_words = unnamed(error)
            return cls(own_words.code, _steady(str(own_words)), refused)
        said = next(iter(str(error).strip().splitlines()), "")[:_LONGEST]
        return cls(type(error).__name__, _steady(f"The model failed: {said or 'no reason given'}"))


def _steady(said: str) -> str:
    """Return what was said without addresses in memory, which are others each time."""
    return _ADDRESS.sub("0x...", said)


def explained(
    identity: Identity,
    item: Item,
    method: str,
    found: Explanation | Failure,
    read: Record,
) -> Record:
    """Return the row of an explanation, or of why there is none; `read` is what `tokens` says of it."""
    setting, texts = identity.explained[method], item.example.texts
    failed = found if isinstance(found, Failure) else None
    return {
        "table": "explanations",
        "key": identity.key(setting, item),
        "setting": setting,
        "row": item.row,
        "example": item.digest,
        "id": item.id,
        "label": item.example.label,
        "text": texts[0] if texts else None,
        "pair": texts[1] if len(texts) > 1 else None,
        "method": method,
        **(_NOTHING if isinstance(found, Failure) else _explanation(found, read)),
        "refused": failed is not None and failed.refused,
        "error": failed and failed.code,
        "why": failed and failed.why,
    }


def _explanation(found: Explanation, read: Record) -> Record:
    return {
        "target": str(found.target),
        "predicted": found.prediction.label,
        "probability": found.prediction.probability,
        **read,
        "scores": found.scores.astype(float).tolist(),
        "axioms": [{"axiom": name, "residual": value} for name, value in found.axioms.items()],
        "forward": found.passes.forward,
        "backward": found.passes.backward,
        "dropped": found.source.dropped,
    }


def tokens(item: Encoded, anchors: Collection[int]) -> Record:
    """Return what the row of every explanation of an input says alike: what its tokens are.

    `anchors` are the ids that the model cannot do without (see whence.models.Loaded).
    """
    every = item.tokens
    return {
        "tokens": [token.text for token in every],
        "special": [token.special for token in every],
        "starts": [None if token.special else token.start for token in every],
        "ends": [None if token.special else token.end for token in every],
        "segments": [token.segment for token in every],
        "ids": kept_key(item),
        "words": _words(item, anchors),
    }


def kept_key(item: Encoded) -> list[int]:
    """Return what random draws are keyed by, in numbers of 64 bits with a sign."""
    return [number - (1 << 64) if number >= 1 << 63 else number for number in item.key]


def _words(item: Encoded, anchors: Collection[int]) -> list[int | None]:
    """Return the number of each token's word, -1 in none; None for a token that is never removed."""
    free = set(players(item, anchors))
    found: list[int | None] = [-1 if place in free else None for place in range(len(item))]
    for number, word in enumerate(item.words):
        for place in word.tokens:
            if place in free:
                found[place] = number
    return found


def tested(
    identity: Identity, item: Item, method: str, metric: str, found: Tested | Failure
) -> Record:
    """Return the row of a test, or of why there is none."""
    setting = identity.tested[method][metric]
    record: Record = {
        "table": "metrics",
        "key": identity.key(setting, item),
        "setting": setting,
        "row": item.row,
        "example": item.digest,
        "method": method,
        "metric": metric,
    }
    if isinstance(found, Failure):
        nothing = dict.fromkeys(("value", "null", "part_names", "parts", "null_parts"))
        return {**record, **nothing, "error": found.code, "why": found.why}
    parts, draws = found.parts, found.null_parts
    return {
        **record,
        "value": found.value,
        "null": found.null,
        "part_names": list(found.part_names) or None,
        "parts": None if parts is None else list(parts),
        "null_parts": None if draws is None else [one for draw in draws for one in draw],
        "error": found.error,
        "why": _why(found),
    }


def _why(found: Tested) -> str | None:
    if found.why is None:
        return None
    if found.error == OutOfMemory.code:
        return Failure.of(OutOfMemory(found.why)).why
    return _steady(found.why)


def failures(identity: Identity, task: Task, code: str, why: str) -> list[Record]:
    """Return the rows of a task of which nothing could be done, and why."""
    found: list[Record] = []
    failure = Failure(code, why)
    for item in task.items:
        for name in task.methods:
            found.append(explained(identity, item, name, failure, {}))
            found += [tested(identity, item, name, one, failure) for one in identity.tested[name]]
    return found


"""The settings of a plan on a loaded model: everything about a result but its example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.capture import TargetSpec
from whence.core.errors import BadParameter
from whence.core.types import Of
from whence.data.removal import MANY, Removal, resolve
from whence.evaluation.measures import Measure, measures
from whence.evaluation.portions import is_gold
from whence.evaluation.run import default_methods
from whence.explainer.aims.pairing import pairing_warning
from whence.explainer.request import Request, requests
from whence.explainer.work import origin
from whence.models import Loaded, fingerprint
from whence.run.code import code_of_rows, source_of
from whence.run.keys import Part, setting_digest
from whence.run.plan import Plan
from whence.run.task import Identity
from whence.run.tokens import processor_digest, tokenizer_digest

OF: Of = "logit"


@dataclass(frozen=True)
class Settled:
    """A plan on a model: methods and metrics with all of their parameters, and what else results depend on."""

    methods: tuple[Request, ...]
    measures: tuple[Measure, ...]  # without those of agreement, which need no row of their own
    target: Any
    remove: Removal
    unit: str
    identity: Identity


def settled(plan: Plan, loaded: Loaded) -> Settled:
    """Check a plan against a model, and say what every result of it depends on."""
    asked = requests(list(plan.methods) or default_methods(), plan.params, loaded.fillers)
    wanted = measures(list(plan.metrics), plan.metric_params) if plan.metrics else []
    tests = [one for one in wanted if one.kind != "agreement"]
    target = tuple(plan.target) if isinstance(plan.target, list) else plan.target
    how = resolve(_removal(plan.remove), loaded.fillers, MANY)
    unit = "patch" if loaded.modality == "picture" else plan.unit
    if unit not in ("token", "word", "patch"):
        raise BadParameter(f"unit must be 'token' or 'word'. Got {unit!r}.")
    if isinstance(plan.rankings, bool) or plan.rankings < 1:
        raise BadParameter(f"rankings must be a whole number, at least 1. Got {plan.rankings!r}.")
    shared = _of_all(loaded, target, plan.truncate)
    explained = {one.name: _explanation(one, shared, loaded) for one in asked}
    asks = {"remove": how, "unit": unit, "rankings": plan.rankings, "seed": plan.seed}
    if how == "draw":
        asks |= _drawing(loaded)
    settings = {setting_digest(facts): facts for facts in explained.values()}
    tested: dict[str, dict[str, str]] = {}
    for name, facts in explained.items():
        own = [_test(measure, setting_digest(facts), asks) for measure in tests]
        settings |= {setting_digest(one): one for one in own}
        tested[name] = {one["metric"]: setting_digest(one) for one in own}
    return Settled(
        tuple(asked),
        tuple(tests),
        target,
        how,
        unit,
        Identity(
            model=_model(loaded, shared),
            code=code_of_rows(),
            settings=settings,
            explained={name: setting_digest(facts) for name, facts in explained.items()},
            tested=tested,
            software=origin(loaded)["provenance"],
            warnings=_warnings(loaded),
        ),
    )


def _of_all(loaded: Loaded, target: Any, truncate: bool) -> dict[str, Any]:
    """Say what all explanations depend on."""
    part: Part = "given and label" if is_gold(target, loaded) else "given"
    return {
        "kind": "explanation",
        "example": part,
        "code": code_of_rows(),
        "model": fingerprint(loaded.model),
        "tokenizer": tokenizer_digest(loaded),
        "processor": processor_digest(loaded),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "target": _aim(loaded, target),
        "of": OF,
        "truncate": truncate,
    }


def _aim(loaded: Loaded, target: Any) -> Any:
    """Return what is explained, in the same words however it was asked for; refuse what the model does not have."""
    if not loaded.classifies or is_gold(target, loaded):
        return list(target) if isinstance(target, tuple) else target
    spec = TargetSpec.parse(target, loaded.labels, OF)
    return spec.main if spec.against is None else [spec.main, spec.against]


def _explanation(one: Request, shared: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
    draws = _drawing(loaded) if "draw" in one.params.values() else {}
    return {
        **shared,
        "method": one.name,
        "params": _plain(one.params),
        "source": source_of(one.entry),
        **draws,
    }


def _test(measure: Measure, explanation: str, asks: Mapping[str, Any]) -> dict[str, Any]:
    part: Part = "all"
    return {
        "kind": "test",
        "example": part,
        "explanation": explanation,
        "metric": measure.name,
        "params": _plain(measure.params),
        "source": source_of(measure.entry),
        **asks,
    }


def _drawing(loaded: Loaded) -> dict[str, Any]:
    """Say which language model fills holes."""
    filling = loaded.infiller
    return {} if filling is None else {"mlm": fingerprint(filling.loaded.model)}


def _plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters as a file keeps them: what is a tuple is a list there."""
    return {name: _listed(value) for name, value in params.items()}


def _listed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _listed(one) for name, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_listed(one) for one in value]
    return value


def _removal(how: str | None) -> Any:
    """Take what a plan says for a way of removal; `resolve` refuses what is none."""
    return how


def _warnings(loaded: Loaded) -> dict[str, str]:
    """Return by code what must be known of single texts, or of pairs, that are given to this model."""
    if not loaded.classifies:
        return {}
    return dict(one for pair in (False, True) if (one := pairing_warning(loaded, pair=pair)))


def _model(loaded: Loaded, shared: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **origin(loaded)["model"],
        **{name: shared[name] for name in ("dtype", "tokenizer", "processor")},
        "task": loaded.task,
        "modality": loaded.modality,
    }


"""What testing took, beside explaining: the two take turns within a batch."""

import time

from whence.trial import Trial


class Testing:
    """What testing takes: a clock that runs from the first test of a batch to its last, and passes of the model."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.forward = self.backward = 0
        self._since: float | None = None
        self._waiting = 0

    def begin(self, trial: Trial) -> None:
        """Note that a trial is about to be tested: the first part of each, which asks nothing (whence.trial)."""
        self._waiting += 1
        if self._since is None:
            self._since = time.perf_counter()

    def end(self, trial: Trial) -> None:
        """Note that a trial was tested; after the last one of a batch the clock stops."""
        self.backward += trial.again.passes.backward
        self._waiting -= 1
        if self._waiting <= 0:
            self.stop()

    def stop(self) -> None:
        """Stop the clock, whatever is still waiting."""
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since
        self._since, self._waiting = None, 0

    def costs(self) -> dict[str, float]:
        """Return what it took, as a worker tells it."""
        return {"seconds": self.seconds, "forward": self.forward, "backward": self.backward}


"""The work on some examples, all together: explain them by some methods, and test that by some metrics."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from whence.core.errors import WhenceError
from whence.evaluation.measures import Measure
from whence.evaluation.portions import Portion, portions
from whence.evaluation.tested import Tested, marks_of, steps, tested
from whence.explainer import Explainer, Explanation
from whence.explainer.aims.each import Failed
from whence.explainer.request import Request
from whence.run.plan import Plan
from whence.run.records import Failure
from whence.run.settings import Settled
from whence.run.task import Item
from whence.run.timing import Testing


@dataclass
class Sheet:
    """What was found: by row of the data and method, and by metric, too."""

    explained: dict[tuple[int, str], Explanation | Failure] = field(default_factory=dict)
    tested: dict[tuple[int, str, str], Tested | Failure] = field(default_factory=dict)

    def add(self, other: "Sheet") -> None:
        """Take over what is on another sheet."""
        self.explained |= other.explained
        self.tested |= other.tested


@dataclass(frozen=True)
class Work:
    """Explains and tests on one model as a plan says. What the model raises goes through."""

    explainer: Explainer
    plan: Plan
    settled: Settled
    batch_size: int  # inputs in one batch at most
    clock: Testing = field(default_factory=Testing)

    def __call__(
        self, items: Sequence[Item], asked: Sequence[Request], measures: Sequence[Measure]
    ) -> Sheet:
        """Return what was found about some examples."""
        sheet = Sheet()
        given = [item.example for item in items]
        refuse = partial(_refused, sheet, items, asked)
        loaded, target = self.explainer.loaded, self.settled.target
        for portion in portions(given, loaded, target, refuse, alone=True):
            some = [items[number] for number in portion.numbers]
            ask = self._trials if measures else self._explanations
            ask(sheet, some, portion, asked, measures)
        return sheet

    def _explanations(
        self,
        sheet: Sheet,
        some: Sequence[Item],
        portion: Portion,
        asked: Sequence[Request],
        measures: Sequence[Measure],
    ) -> None:
        how = self._how(sheet, some, portion, asked)
        texts = [item.example.given for item in some]
        for place, found in self.explainer.explain_each(texts, **how):
            _keep(sheet, some[place], found)

    def _trials(
        self,
        sheet: Sheet,
        some: Sequence[Item],
        portion: Portion,
        asked: Sequence[Request],
        measures: Sequence[Measure],
    ) -> None:
        plan = self.plan
        unit: Any = plan.unit
        trials = self.explainer.trials(
            [item.example.given for item in some],
            remove=self.settled.remove,
            unit=unit,
            marks=marks_of([item.example for item in some]),
            known=portion.known,
            seed=plan.seed,
            parts=[self.clock.begin, *steps(measures, plan.rankings)],
            **self._how(sheet, some, portion, asked),
        )
        for place, trial, found in trials:
            row = some[place].row
            _keep(sheet, some[place], found)
            for measure in measures:
                outcomes = tested(measure, trial, plan.rankings)
                for name, one in zip(trial.names, outcomes, strict=True):
                    sheet.tested[row, name, measure.name] = one
            self.clock.end(trial)

    def _how(
        self, sheet: Sheet, some: Sequence[Item], portion: Portion, asked: Sequence[Request]
    ) -> dict[str, Any]:
        return {
            "method": [one.name for one in asked],
            "params": {one.name: one.params for one in asked},
            "target": portion.target,
            "truncate": self.plan.truncate,
            "failed": _failing(sheet, some, asked),
            "batch_size": self.batch_size,
        }


def _keep(sheet: Sheet, item: Item, found: dict[str, Explanation]) -> None:
    sheet.explained |= {(item.row, name): one for name, one in found.items()}


def _refused(
    sheet: Sheet, items: Sequence[Item], asked: Sequence[Request], place: int, error: WhenceError
) -> None:
    failure = Failure.of(error, refused=True)
    sheet.explained |= {(items[place].row, one.name): failure for one in asked}


def _failing(sheet: Sheet, items: Sequence[Item], asked: Sequence[Request]) -> Failed:
    """Return who is told of an example that failed: by one method, or, without a name, before any was tried."""

    def failed(place: int, name: str | None, error: WhenceError) -> None:
        if name is None:
            _refused(sheet, items, asked, place, error)
        else:
            sheet.explained[items[place].row, name] = Failure.of(error)

    return failed
