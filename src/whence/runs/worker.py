"""Worker with a loaded model: resolves the plan to settings, explains and measures batches, builds records.

The columns of a record are described in docs/reference/store.md. If a batch fails, its examples are
run one at a time, and then one method at a time: these records equal those of a batch up to rounding.
"""

import os
import platform
import re
import sys
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from whence.core.errors import OutOfMemory, WhenceError, is_failure
from whence.core.types import OutputScale
from whence.data.removal import BULK_REMOVALS, Removal, list_players, resolve_removal
from whence.data.tokens import EncodedInput
from whence.explain.examine import strip_method_name
from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation
from whence.explain.pipeline import describe_origin
from whence.explain.request import MethodRequest, resolve_methods
from whence.explain.tasks import build_pair_warning
from whence.kernels.device_memory import trim_heap
from whence.metrics._trial import Trial
from whence.models.fingerprint import compute_fingerprint
from whence.models.model import LoadedModel
from whence.runs.plan import Execution, Plan
from whence.runs.records import Record, build_tables
from whence.runs.task import (
    ExampleScope,
    Identity,
    Item,
    Task,
    TaskResult,
    compute_code_digest,
    compute_processor_digest,
    compute_setting_digest,
    compute_source_digest,
    compute_tokenizer_digest,
    to_json_data,
)
from whence.studies.evaluation.evaluate import (
    is_gold,
    list_default_methods,
    split_examples,
)
from whence.studies.evaluation.measure import (
    MetricRequest,
    MetricResult,
    UnreadableExample,
    build_mark_function,
    build_trial_steps,
    resolve_metrics,
    try_method,
)
from whence.tracing.ask import count_forwards
from whence.tracing.out_of_memory import is_device_lost, is_out_of_memory
from whence.tracing.target import TargetSpec

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_MESSAGE_LENGTH = 300  # characters kept of a foreign error's message
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+\b")


@dataclass(frozen=True)
class ResultFailure:
    """The reason for a missing result, worded the same at any time and on any machine."""

    code: str  # code of a WhenceError, or the class name of another error
    why: str
    refused: bool = False  # the input was rejected before any method was tried

    @classmethod
    def from_error(cls, error: BaseException, *, refused: bool = False) -> "ResultFailure":
        """Return the failure for an error, without memory sizes and addresses."""
        if is_out_of_memory(error):
            # Only the first sentence: the free memory in the rest differs each time.
            own = error if isinstance(error, OutOfMemory) else OutOfMemory("The memory ran out.")
            return cls(own.code, f"{str(own).partition('. ')[0].rstrip('.')}.", refused)
        if isinstance(error, WhenceError):
            stripped = strip_method_name(error)
            return cls(stripped.code, _strip_addresses(str(stripped)), refused)
        text = next(iter(str(error).strip().splitlines()), "")[:_MAX_MESSAGE_LENGTH]
        return cls(
            type(error).__name__, _strip_addresses(f"The model failed: {text or 'no reason given'}")
        )


def _strip_addresses(message: str) -> str:
    """Return a message without memory addresses, which differ each time."""
    return _ADDRESS.sub("0x...", message)


def _describe_result(identity: Identity, item: Item, setting: str) -> Record:
    """Return the columns that every record has."""
    return {
        "key": identity.compute_key(setting, item),
        "setting": setting,
        "row": item.row,
        "example": item.digest,
    }


def build_explanation_record(
    identity: Identity,
    item: Item,
    method: str,
    result: Explanation | ResultFailure,
    token_columns: Record,
) -> Record:
    """Return the record of an explanation or its failure; `token_columns`: of its input."""
    texts = item.example.texts
    record = {
        "table": "explanations",
        **_describe_result(identity, item, identity.explained[method]),
        "id": item.id,
        "label": item.example.label,
        "text": texts[0] if texts else None,
        "pair": texts[1] if len(texts) > 1 else None,
        "method": method,
        "refused": False,
    }
    if isinstance(result, ResultFailure):
        return {**record, "refused": result.refused, "error": result.code, "why": result.why}
    axioms = [{"axiom": name, "residual": value} for name, value in result.axioms.items()]
    return {
        **record,
        "target": str(result.target),
        "predicted": result.prediction.label,
        "probability": result.prediction.probability,
        **token_columns,
        "scores": result.scores.astype(float).tolist(),
        "axioms": axioms,
        "forward": result.passes.forward,
        "backward": result.passes.backward,
        "dropped": result.source.dropped,
    }


def build_token_columns(item: EncodedInput, anchors: Collection[int]) -> Record:
    """Return the token columns, which all explanations of an input share."""
    tokens, free = item.tokens, set(list_players(item, anchors))
    # A token's word; -1 outside words, None for a token that is never removed.
    words: list[int | None] = [-1 if place in free else None for place in range(len(item))]
    for number, word in enumerate(item.words):
        for place in free.intersection(word.tokens):
            words[place] = number
    return {
        "tokens": [token.text for token in tokens],
        "special": [token.special for token in tokens],
        "starts": [None if token.special else token.start for token in tokens],
        "ends": [None if token.special else token.end for token in tokens],
        "segments": [token.segment for token in tokens],
        # The key of random draws, as signed 64-bit numbers: of an image it is a hash.
        "ids": [number - (1 << 64) if number >= 1 << 63 else number for number in item.key],
        "words": words,
    }


def build_metric_record(
    identity: Identity, item: Item, method: str, metric: str, result: MetricResult | ResultFailure
) -> Record:
    """Return the record of a metric value or its failure."""
    setting = identity.tested[method][metric]
    record = {"table": "metrics", **_describe_result(identity, item, setting)}
    record |= {"method": method, "metric": metric}
    if isinstance(result, ResultFailure):
        return {**record, "error": result.code, "why": result.why}
    why = None if result.why is None else _strip_addresses(result.why)
    if why is not None and result.error == OutOfMemory.code:
        why = ResultFailure.from_error(OutOfMemory(why)).why
    parts, draws = result.parts, result.null_parts
    return {
        **record,
        "value": result.value,
        "null": result.null,
        "part_names": list(result.part_names) or None,
        "parts": None if parts is None else list(parts),
        "null_parts": None if draws is None else [value for draw in draws for value in draw],
        "error": result.error,
        "why": why,
    }


EXPLAINED_OUTPUT: OutputScale = "logit"


@dataclass(frozen=True)
class ResolvedPlan:
    """A plan resolved for a model: methods, metrics and all settings that results depend on."""

    methods: tuple[MethodRequest, ...]
    measures: tuple[MetricRequest, ...]  # without agreement metrics, which the report computes
    target: Any
    remove: Removal
    unit: str
    identity: Identity


def resolve_plan_for_model(plan: Plan, loaded: LoadedModel) -> ResolvedPlan:
    """Return the plan resolved for a model; raise if they do not fit."""
    methods = resolve_methods(
        list(plan.methods) or list_default_methods(), plan.params, loaded.fillers
    )
    metrics = resolve_metrics(list(plan.metrics), plan.metric_params) if plan.metrics else []
    tests = [metric for metric in metrics if metric.kind != "agreement"]
    target = tuple(plan.target) if isinstance(plan.target, list) else plan.target
    how = resolve_removal(plan.remove, loaded.fillers, BULK_REMOVALS)
    unit = "patch" if loaded.modality == "picture" else plan.unit
    # Draws depend on the language model that infills.
    infiller = loaded.infiller
    draws: dict[str, Any] = (
        {} if infiller is None else {"mlm": compute_fingerprint(infiller.loaded.model)}
    )
    asks: dict[str, Any] = {
        "remove": how,
        "unit": unit,
        "rankings": plan.rankings,
        "seed": plan.seed,
    }
    asks |= draws if how == "draw" else {}
    shared = _build_shared_setting(loaded, target, plan.truncate)
    settings: dict[str, dict[str, Any]] = {}
    explained: dict[str, str] = {}
    tested: dict[str, dict[str, str]] = {}

    def add_setting(request: MethodRequest | MetricRequest, facts: Mapping[str, Any]) -> str:
        """Return the digest of a setting: what a request depends on, and other facts."""
        own = {
            "params": to_json_data(request.params),
            "source": compute_source_digest(request.entry),
        }
        digest = compute_setting_digest({**facts, **own})
        settings[digest] = {**facts, **own}
        return digest

    for method in methods:
        more = draws if "draw" in method.params.values() else {}
        explained[method.name] = add_setting(method, {**shared, "method": method.name, **more})
        test: dict[str, Any] = {"kind": "test", "example": "all", **asks}
        test["explanation"] = explained[method.name]
        tested[method.name] = {
            metric.name: add_setting(metric, {**test, "metric": metric.name}) for metric in tests
        }
    origin = describe_origin(loaded)
    # Of single texts, and of pairs.
    kinds = (False, True) if loaded.is_classifier else ()
    pairings = [build_pair_warning(loaded, pair=pair) for pair in kinds]
    identity = Identity(
        model={
            **origin["model"],
            **{name: shared[name] for name in ("dtype", "tokenizer", "processor")},
            "task": loaded.task,
            "modality": loaded.modality,
        },
        code=compute_code_digest(),
        settings=settings,
        explained=explained,
        tested=tested,
        software=origin["provenance"],
        warnings=dict(one for one in pairings if one is not None),
    )
    return ResolvedPlan(tuple(methods), tuple(tests), target, how, unit, identity)


def _build_shared_setting(loaded: LoadedModel, target: Any, truncate: bool) -> dict[str, Any]:
    """Return the setting fields that all explanations of a run share; raise if the model has no such target."""
    part: ExampleScope = "given and label" if is_gold(target, loaded) else "given"
    if loaded.is_classifier and part == "given":
        spec = TargetSpec.parse(target, loaded.labels, EXPLAINED_OUTPUT)
        target = spec.main if spec.against is None else [spec.main, spec.against]
    return {
        "kind": "explanation",
        "example": part,
        "code": compute_code_digest(),
        "model": compute_fingerprint(loaded.model),
        "tokenizer": compute_tokenizer_digest(loaded),
        "processor": compute_processor_digest(loaded),
        "dtype": str(loaded.dtype).removeprefix("torch."),
        "target": to_json_data(target),
        "of": EXPLAINED_OUTPUT,
        "truncate": truncate,
    }


@dataclass
class BatchResults:
    """The results of a batch by (row, method), and by (row, method, metric)."""

    explained: dict[tuple[int, str], Explanation | ResultFailure] = field(default_factory=dict)
    tested: dict[tuple[int, str, str], MetricResult | ResultFailure] = field(default_factory=dict)

    def add(self, other: "BatchResults") -> None:
        """Add the results of another batch."""
        self.explained |= other.explained
        self.tested |= other.tested

    def add_explanations(self, item: Item, explanations: Mapping[str, Explanation]) -> None:
        """Add the explanations of an example."""
        self.explained |= {(item.row, name): one for name, one in explanations.items()}

    def add_failure(
        self,
        items: Sequence[Item],
        methods: Iterable[MethodRequest],
        place: int,
        name: str | None,
        error: WhenceError,
    ) -> None:
        """Add the failure of one of the examples by a method; without a name it is refused by all."""
        failure = ResultFailure.from_error(error, refused=name is None)
        for own in [method.name for method in methods] if name is None else [name]:
            self.explained[items[place].row, own] = failure


# A tagger without entities returns neither an explanation nor an error.
_NOTHING_TO_EXPLAIN = ResultFailure(
    "error", "There was nothing to explain of this input.", refused=True
)


def build_records(
    identity: Identity,
    task: Task,
    results: BatchResults,
    missing: ResultFailure = _NOTHING_TO_EXPLAIN,
    anchors: Collection[int] = (),
) -> list[Record]:
    """Return one record per explanation of a task, and one per metric of it; `missing`: for what has no result.

    `anchors` are the token ids that are never removed (see whence.models.model.LoadedModel).
    """
    records: list[Record] = []
    for item in task.items:
        last: EncodedInput | None = None
        columns: Record = {}
        for name in task.methods:
            own = results.explained.get((item.row, name), missing)
            if isinstance(own, Explanation) and own.item is not None and own.item is not last:
                last, columns = own.item, build_token_columns(own.item, anchors)
            records.append(build_explanation_record(identity, item, name, own, columns))
            untested = own if isinstance(own, ResultFailure) else missing
            for metric in identity.tested[name]:
                test = results.tested.get((item.row, name, metric), untested)
                records.append(build_metric_record(identity, item, name, metric, test))
    return records


def build_failure_tables(
    identity: Identity, task: Task, code: str, why: str
) -> dict[str, "pa.Table"]:
    """Return tables of failures for every result of a task that could not be done."""
    return build_tables(build_records(identity, task, BatchResults(), ResultFailure(code, why)))


class Worker:
    """A model loaded for a plan, which does tasks."""

    def __init__(
        self, plan: Plan, execution: Execution, explainer: Explainer | None = None
    ) -> None:
        """Load the model, unless an `explainer` is given; raise if the plan does not fit it."""
        self.explainer = explainer or load(
            plan.model,
            device=execution.device,
            dtype=plan.dtype,
            revision=plan.revision,
            mlm=plan.mlm,
            checkpoint=execution.checkpoint,
        )
        self._plan, self._batch_size = plan, execution.batch_size
        self._resolved = resolve_plan_for_model(plan, self.explainer.loaded)
        # Seconds and passes of the metrics, in the task at hand.
        self._tests: dict[str, float] = {}
        # By method: the failure if this kind of model does not support it, else None. Probed once.
        self._cannot: dict[str, ResultFailure | None] = {}

    @property
    def identity(self) -> Identity:
        """The identity of model and code: all that results depend on."""
        return self._resolved.identity

    def do(self, task: Task) -> TaskResult:
        """Explain and measure all examples of a task; failures become records with an error.

        If a batch raises a foreign error, its examples are done one at a time: the records then equal those of a
        batch up to rounding.
        """
        started = time.perf_counter()
        self._tests = {"seconds": 0.0, "forward": 0, "backward": 0}
        requests = {method.name: method for method in self._resolved.methods}
        results, usable = BatchResults(), []
        for name in task.methods:
            if (cannot := self._find_lack_of_support(task.items, requests[name])) is None:
                usable.append(requests[name])
            else:
                results.explained |= {(item.row, name): cannot for item in task.items}
        if usable:
            with count_forwards(self.explainer.model) as runs:
                self._run_with_fallback(results, task.items, usable)
            self._tests["forward"] = max(0, runs.forward - _count_explanation_passes(results))
        trim_heap()  # a run lasts for days, and chunks of other shapes fragment the heap
        costs = {name: _sum_costs(results, name) for name in task.methods}
        if self._resolved.measures:
            costs[""] = self._tests
        anchors = self.explainer.loaded.anchors
        records = build_records(self.identity, task, results, anchors=anchors)
        return TaskResult(
            task.window,
            task.chunk,
            build_tables(records),
            time.perf_counter() - started,
            costs,
            f"{platform.node()} {os.getpid()}",
            _measure_peak_memory(self.explainer),
        )

    def _find_lack_of_support(
        self, items: Sequence[Item], request: MethodRequest
    ) -> ResultFailure | None:
        """Try a new method on one example: a method the model does not support fails for all."""
        target, truncate = self._resolved.target, self._plan.truncate
        if is_gold(target, self.explainer.loaded):
            target = None  # support does not depend on the class
        for item in items if request.name not in self._cannot else ():
            try:
                error, _ = try_method(self.explainer, item.example.given, request, target, truncate)
            except UnreadableExample:
                continue
            except BaseException as failed:  # foreign model code may raise anything
                _raise_if_fatal(failed)
                continue
            self._cannot[request.name] = None if error is None else ResultFailure.from_error(error)
            break
        return self._cannot.get(request.name)

    def _run_with_fallback(
        self, results: BatchResults, items: Sequence[Item], methods: Sequence[MethodRequest]
    ) -> None:
        """Do examples as a batch; after an error one at a time, then one method at a time."""
        try:
            results.add(self._run_batch(items, methods, self._resolved.measures))
        except BaseException as error:  # any error of the model is the example's result
            _raise_if_fatal(error)
            if len(items) > 1:
                for item in items:
                    self._run_with_fallback(results, [item], methods)
            elif len(methods) > 1:
                for method in methods:
                    self._run_with_fallback(results, items, [method])
            else:
                self._run_single(results, items[0], methods[0])

    def _run_single(self, results: BatchResults, item: Item, method: MethodRequest) -> None:
        """Do a failing example and method metric by metric, so that only failing parts are lost."""
        for measure in (None, *self._resolved.measures):
            try:
                results.add(self._run_batch([item], [method], [] if measure is None else [measure]))
            except BaseException as error:  # as above
                _raise_if_fatal(error)
                failure = ResultFailure.from_error(error)
                if measure is None:
                    results.explained[item.row, method.name] = failure
                    return
                results.tested[item.row, method.name, measure.name] = failure

    def _run_batch(
        self,
        items: Sequence[Item],
        methods: Sequence[MethodRequest],
        measures: Sequence[MetricRequest],
    ) -> BatchResults:
        """Explain and measure some examples; failures of single inputs are results, errors of the model propagate."""
        results, plan, starts = BatchResults(), self._plan, list[float]()

        def note_start(trial: Trial) -> None:
            starts.append(time.perf_counter())

        chunks = split_examples(
            [item.example for item in items],
            self.explainer.loaded,
            self._resolved.target,
            lambda place, error: results.add_failure(items, methods, place, None, error),
            alone=True,
        )
        for chunk in chunks:
            some = [items[number] for number in chunk.numbers]
            texts = [item.example.given for item in some]
            options: dict[str, Any] = {
                "method": [method.name for method in methods],
                "params": {method.name: method.params for method in methods},
                "target": chunk.target,
                "truncate": plan.truncate,
                "failed": partial(results.add_failure, some, methods),
                "batch_size": self._batch_size,
            }
            if not measures:
                for place, explanations in self.explainer.explain_each(texts, **options):
                    results.add_explanations(some[place], explanations)
                continue
            trials = self.explainer.trials(
                texts,
                remove=self._resolved.remove,
                unit=plan.unit,
                marks=build_mark_function([item.example for item in some]),
                known=chunk.known,
                seed=plan.seed,
                parts=[note_start, *build_trial_steps(measures, plan.rankings)],
                **options,
            )
            for place, trial, explanations in trials:
                if starts:  # the tests of a whole batch are done before its first trial comes
                    self._tests["seconds"] += time.perf_counter() - starts[0]
                    starts.clear()
                self._tests["backward"] += trial.again.passes.backward
                results.add_explanations(some[place], explanations)
                for measure, outcomes in zip(measures, trial.results[1:], strict=True):
                    for name, outcome in zip(trial.names, outcomes, strict=True):
                        results.tested[some[place].row, name, measure.name] = outcome
        return results


def _sum_costs(results: BatchResults, method: str) -> dict[str, float]:
    """Return the examples, seconds and passes of a method in a task."""
    own = [
        explanation
        for (_, name), explanation in results.explained.items()
        if name == method and isinstance(explanation, Explanation)
    ]
    return {
        "examples": len(own),
        "seconds": sum(explanation.seconds for explanation in own),
        "forward": sum(explanation.passes.forward for explanation in own),
        "backward": sum(explanation.passes.backward for explanation in own),
    }


def _count_explanation_passes(results: BatchResults) -> int:
    """Return the forward passes of all explanations; the pass shared by methods counts once."""
    passes: dict[int, list[int]] = {}
    for (row, _), explanation in results.explained.items():
        if isinstance(explanation, Explanation):
            passes.setdefault(row, []).append(explanation.passes.forward)
    # Every method's count includes the shared passes, so the minimum is their number.
    return sum(min(own) + sum(count - min(own) for count in own) for own in passes.values())


def _raise_if_fatal(error: BaseException) -> None:
    """Re-raise fatal errors (lost device, interrupt): the worker must be replaced, or the run ends."""
    if is_device_lost(error) or not is_failure(error):
        raise error


def _measure_peak_memory(explainer: Explainer) -> dict[str, int]:
    """Return the peak memory in bytes of this process ("host") and its GPU ("device")."""
    peaks = {}
    if sys.platform != "win32":
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        peaks["host"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    if explainer.loaded.device.type == "cuda":
        peaks["device"] = torch.cuda.max_memory_allocated(explainer.loaded.device)
    return peaks
