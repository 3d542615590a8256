"""The pipeline of explained batches: the one way from encoded inputs to explanations.

`Explainer.explain`, trust cards, evaluations, runs, generations and the app all iterate over `explain_batches`. A batch
costs one trace, which all trace methods read; query methods call the model again through a counted `ModelQuery`.
"""

import platform
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from whence._version import __version__
from whence.core.errors import BadMethod, NoRule, NotCapturable, NotFinite, WhenceError
from whence.core.lazy import LazyTuple
from whence.core.progress import Progress, ProgressCounter
from whence.core.types import PassCount, Target
from whence.data.batches import Batch, BatchRules, collate, plan_batches
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import choose_batch_policy
from whence.explain.explanation import ExplainedImage, Explanation
from whence.explain.inputs import InputFailureCallback
from whence.explain.request import MethodRequest
from whence.explain.word_scores import NOT_CONSERVED_CODE, describe_conservation_failure
from whence.models.facts import get_facts
from whence.models.fingerprint import compute_fingerprint
from whence.models.model import LoadedModel
from whence.tracing.ask import ModelQuery, PredictionCache, Report
from whence.tracing.out_of_memory import RetryHalved
from whence.tracing.target import ResolvedTargets, TargetSpec, build_predictions, is_value_output
from whence.tracing.trace import Trace, run_traced

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer
    from whence.explain.tasks import TargetedInputs

Array = np.ndarray[Any, Any]


class BareScores(NamedTuple):
    """Scores alone, where an explanation of each input would cost more than it is worth."""

    scores: Array
    target: Target


@dataclass(frozen=True)
class ExplainedBatch:
    """Explanations of a batch of inputs, with the numbers of these and the answers of the model so far."""

    numbers: list[int]
    items: list[EncodedInput]
    results: list[dict[str, Explanation]]  # by method; without the methods that failed
    policy: BatchRules
    answers: PredictionCache | None


def explain_batches(
    explainer: "Explainer",
    groups: "Sequence[tuple[Sequence[int], TargetedInputs]]",
    requests: Sequence[MethodRequest],
    *,
    size: int | None = None,
    progress: Progress | None = None,
    failed: InputFailureCallback | None = None,
    words: bool = True,
    tests: bool = False,
    bare: bool = False,
) -> Iterator[ExplainedBatch]:
    """Explain inputs batch by batch, longest first; each group is numbered inputs with a common target.

    With `failed`, failures are reported there, and the rest goes on. Without `words`, no method measures whole words,
    which saves calls where word scores are not shown. With `tests`, batches keep the model's answers for the tests
    that follow, and it is always tried whether lengths may mix. `bare` results are `BareScores`, of tokens alone.
    """
    loaded = explainer.loaded
    queries = [request for request in requests if not request.reads]
    total = sum(
        1 + sum(_count_extra_forwards(request, item) for request in queries)
        for _, targeted in groups
        for item in targeted.items
    )
    counter = ProgressCounter(progress, total)
    origin = None if bare else describe_origin(loaded)
    for numbers, targeted in groups:
        policy = choose_batch_policy(
            loaded,
            targeted.items,
            size,
            variants=bool(queries),
            probe=tests,
            splits=any("steps" in request.needs for request in requests),
        )
        for chosen in plan_batches(targeted.items, policy):
            items = [targeted.items[i] for i in chosen]
            answers = build_prediction_cache(loaded, policy) if tests else None
            explain = partial(
                explain_batch,
                explainer,
                spec=targeted.spec,
                policy=policy,
                origin=origin,
                counter=counter,
                answers=answers,
                before=targeted.forwards,
                words=words and not bare,
            )
            rows = [numbers[i] for i in chosen]
            try:
                results = explain(items, requests)
            except WhenceError:
                if failed is None:
                    raise
                results = [{} for _ in items]
                for number, item, by_name in zip(rows, items, results, strict=True):
                    for request in requests:  # one by one, to find the culprits
                        try:
                            by_name |= explain([item], [request])[0]
                        except WhenceError as error:
                            failed(number, request.name, error)
            yield ExplainedBatch(rows, items, results, policy, answers)


def _count_extra_forwards(request: MethodRequest, item: EncodedInput) -> int:
    """Return the expected number of model queries of a query method for one input and its words."""
    pieced = sum(len(word.tokens) > 1 for word in item.words) if request.measures_words else 0
    return request.extra_forwards(len(item), pieced)


def build_prediction_cache(loaded: LoadedModel, policy: BatchRules) -> PredictionCache:
    """Return a cache of the model's answers to changed inputs."""
    return PredictionCache(
        loaded.model,
        pad_id=loaded.pad_id,
        device=loaded.device,
        policy=policy,
        infiller=loaded.infiller,
    )


def build_query(
    loaded: LoadedModel,
    batch: Batch,
    logits: Tensor,
    targets: ResolvedTargets,
    policy: BatchRules,
    answers: PredictionCache | None,
    progress: Report,
) -> ModelQuery:
    """Return the counted calls of the model about a batch, whose logits and targets are known."""
    return ModelQuery(
        loaded.model,
        batch,
        logits,
        targets,
        fillers=loaded.fillers,
        anchors=loaded.anchors,
        pad_id=loaded.pad_id,
        policy=policy,
        answers=answers,
        infiller=loaded.infiller,
        checkpoint=loaded.checkpoint,
        progress=progress,
    )


def explain_batch(
    explainer: "Explainer",
    items: Sequence[EncodedInput],
    requests: Sequence[MethodRequest],
    *,
    spec: TargetSpec,
    policy: BatchRules,
    origin: Mapping[str, Any] | None,
    counter: ProgressCounter,
    answers: PredictionCache | None = None,
    before: int = 0,
    words: bool = True,
) -> list[dict[str, Explanation]]:
    """Explain one batch by all methods; a batch that does not fit into memory is halved.

    `before` counts the forwards that each input took already. Without an `origin`, results are `BareScores`.
    """
    loaded = explainer.loaded
    results: list[dict[str, Explanation]] = []
    work = RetryHalved(
        loaded.model,
        ", ".join(sorted(request.name for request in requests)),
        [items],
        lambda part: len(part) * max(map(len, part)),
    )
    for part in work:
        with work.retry_halved(part):
            batch = collate(part, pad_id=loaded.pad_id, device=loaded.device)
            # Reading a trace may still run the model or its backward pass: the lock keeps others from changing it.
            with get_facts(loaded.model).lock:
                started = time.perf_counter()
                trace = run_traced(
                    loaded.model,
                    batch,
                    frozenset[str]().union(*(request.needs for request in requests)),
                    spec,
                    loaded.task,
                    readers=sum(request.reads for request in requests),
                    checkpoint=loaded.checkpoint,
                )
                shared = time.perf_counter() - started
                counter.add(len(batch))
                run = partial(
                    run_method,
                    loaded,
                    trace=trace,
                    policy=policy,
                    counter=counter,
                    words=words,
                    default=explainer.defaults.preferred.get(batch.has_images),
                )
                scored = {request.name: run(request) for request in requests if request.reads}
            for request in requests:
                if not request.reads:
                    scored[request.name] = run(request, answers=answers)
            if origin is None:
                names = [item.labels or loaded.labels for item in part]
                for row, target in enumerate(trace.targets.cpu().describe_rows(names)):
                    own: Any = {
                        name: BareScores(result.scores[row], target)
                        for name, result in scored.items()
                    }
                    results.append(own)
                continue
            results += _build_explanations(
                explainer, trace, requests, scored, origin=origin, shared=shared, before=before
            )
    return results


@dataclass(frozen=True)
class MethodScores:
    """The result of one method on a batch, on the CPU: a list or row for each input."""

    scores: list[Array]  # of the input's own tokens
    axioms: dict[str, list[float]]
    extra: list[PassCount]  # the passes beside the trace
    words: list[Array] | None  # scores measured on whole words
    seconds: float


def run_method(
    loaded: LoadedModel,
    request: MethodRequest,
    *,
    trace: Trace,
    policy: BatchRules,
    counter: ProgressCounter,
    answers: PredictionCache | None = None,
    words: bool = False,
    default: str | None = None,
) -> MethodScores:
    """Run one method on a trace; with `words`, a query method that can measure whole words does.

    `default` is the name of the default method: an error of it says so.
    """
    batch, started = trace.batch, time.perf_counter()
    precision = torch.promote_types(loaded.dtype, torch.float32)
    if loaded.dtype.itemsize < 4 and request.entry.facts.get("unsure_in_half"):
        warnings.warn(
            f"{request.name} in {str(loaded.dtype).removeprefix('torch.')} is mostly rounding: it divides by sums "
            "that nearly cancel. Load the model with dtype='float32' or, better, 'float64'.",
            RuntimeWarning,
            stacklevel=2,
        )
    ask = None
    if request.reads:
        # The caller may be in inference mode, and some trace methods differentiate.
        with torch.inference_mode(False), trace.reading():
            try:
                returned = request.entry.fn(trace, **request.params)
            except (NotCapturable, NoRule) as error:
                # With several methods, or the default, the user must be told which method failed.
                which = f"{request.name}{', the default method,' * (request.name == default)}"
                raise type(error)(f"{which} does not work on this model. {error}") from error
    else:
        ask = build_query(loaded, batch, trace.logits, trace.targets, policy, answers, counter.add)
        returned = request.entry.fn(ask, batch, **request.params)
    scores, axioms = _check_scores(request.name, returned, batch)
    extra, measured = [PassCount(0, 0)] * len(batch), None
    if ask is not None:
        if words and request.measures_words:
            falls = request.entry.facts["measure_words"](ask, batch, scores, request.params)
            measured = [fall.detach().to("cpu", precision).numpy() for fall in falls]
        extra = [PassCount(*counts) for counts in zip(ask.forwards, ask.backwards, strict=True)]
        expected = sum(_count_extra_forwards(request, item) for item in batch.items)
        counter.correct(expected, sum(ask.forwards))
    own = batch.unpad_values(scores.to("cpu", precision))
    arrays = [part.numpy() for part in own]
    if not np.isfinite(np.concatenate(arrays)).all():
        too_large = torch.isfinite(scores).all()
        raise NotFinite(
            f"The scores of {request.name!r}, up to {float(scores.abs().max()):.1e}, are too large for "
            f"{arrays[0].dtype}, in which they are kept. Load the model with dtype='float64'."
            if too_large
            else f"The scores of {request.name!r} are not finite. Try another method, or dtype='float64'."
        )
    return MethodScores(arrays, axioms, extra, measured, time.perf_counter() - started)


def _check_scores(name: str, returned: Any, batch: Batch) -> tuple[Tensor, dict[str, list[float]]]:
    """Return a method's scores and residuals, one per token and one per input; refuse other shapes."""
    pair = returned if isinstance(returned, tuple) else (returned, {})
    if len(pair) != 2 or not isinstance(pair[1], Mapping):
        raise BadMethod(
            f"The method {name!r} must return scores, or scores and a mapping of axiom residuals."
        )
    scores, axioms = pair
    if not isinstance(scores, Tensor) or scores.shape != batch.real.shape:
        got = tuple(scores.shape) if isinstance(scores, Tensor) else type(scores).__name__
        raise BadMethod(
            f"The method {name!r} must return scores of {tuple(batch.real.shape)}; it gave {got}."
        )
    residuals: dict[str, list[float]] = {}
    for axiom, residual in axioms.items():
        if not isinstance(residual, Tensor) or residual.shape != (len(batch),):
            raise BadMethod(
                f"The axiom {axiom!r} of {name!r} must have one residual per input, ({len(batch)},)."
            )
        residuals[axiom] = residual.tolist()
        if not np.isfinite(residuals[axiom]).all():
            raise NotFinite(
                f"The axiom {axiom!r} of {name!r} is not finite. Try another method, or dtype='float64'."
            )
    return scores.detach(), residuals


def _build_explanations(
    explainer: "Explainer",
    trace: Trace,
    requests: Sequence[MethodRequest],
    scored: Mapping[str, MethodScores],
    *,
    origin: Mapping[str, Any],
    shared: float,
    before: int,
) -> list[dict[str, Explanation]]:
    """Return the explanations of a batch by each method, from one copy of the trace's results on the CPU."""
    loaded, items = explainer.loaded, trace.batch.items
    logits, targets, wanted = trace.logits.cpu(), trace.targets.cpu(), trace.targets.spec.of
    predictions = build_predictions(logits, loaded.task, loaded.labels, items)
    results: list[dict[str, Explanation]] = [{} for _ in items]
    for request in requests:
        result = scored[request.name]
        # A regression has no probability: methods that measure one measure its value.
        of = None if is_value_output(logits, loaded.task) else request.of
        pixels = trace.fine.pop(request.name, None)
        precision = torch.promote_types(loaded.dtype, torch.float32)
        fine = None if pixels is None else pixels.detach().to("cpu", precision).numpy()
        outputs = targets.value(logits, of).tolist()
        named = targets.describe_rows([item.labels or loaded.labels for item in items], of)
        fallback = explainer.defaults.fallback_reasons.get(request.name)
        for row, item in enumerate(items):
            shown, image = None, item.picture
            if image is not None:
                own = None if fine is None else fine[row]
                shown = ExplainedImage(image.grid, image.shown, image.name, own)
            residuals = {name: values[row] for name, values in result.axioms.items()}
            extra = result.extra[row]
            facts = (result.scores[row], residuals, outputs[row], of or wanted, fallback)
            results[row][request.name] = Explanation(
                scores=result.scores[row],
                tokens=item.tokens,
                spans=item.words,
                source=item.source,
                prediction=predictions[row],
                target=named[row],
                wanted=wanted,
                method=request.name,
                params=request.params,
                signed=request.is_signed,
                words_by=request.words if result.words is None else "measured",
                measured=None if result.words is None else result.words[row],
                axioms=residuals,
                passes=PassCount(1 + before + extra.forward, request.backwards + extra.backward),
                seconds=(shared + result.seconds) / len(items),
                shown=shown,
                read=() if item.reading is None else item.readout_positions,
                reading=item.reading,
                columns=item.labels,
                warnings=LazyTuple(partial(_list_warnings, item, request.name, *facts)),
                item=item,
                explainer=explainer,
                **origin,
            )
    return results


def _list_warnings(
    item: EncodedInput,
    method: str,
    scores: Array,
    residuals: Mapping[str, float],
    output: float,
    of: str,
    fallback: str | None,
) -> Iterable[tuple[str, str]]:
    """Yield the warnings about an input, about scores that miss their sum, and about a method in place of the default."""
    yield from item.warnings
    if residuals:
        failure = describe_conservation_failure(method, scores.tolist(), residuals, output, of)
        if failure is not None:
            yield NOT_CONSERVED_CODE, failure
    if fallback is not None:
        yield "other-method", fallback


def describe_origin(loaded: LoadedModel) -> dict[str, Any]:
    """Return the facts on the model and its provenance: versions, device, dtype."""
    infiller = {}
    if loaded.infiller is not None:
        own = loaded.infiller.loaded
        infiller = {"mlm": own.name, "mlm_fingerprint": compute_fingerprint(own.model)}
    return {
        "model": {
            "name": loaded.name,
            "revision": loaded.revision,
            "class": type(loaded.model).__name__,
            "fingerprint": compute_fingerprint(loaded.model),
            "labels": list(loaded.labels),
        },
        "provenance": {
            **_list_versions(),
            "device": str(loaded.device),
            "dtype": str(loaded.dtype).removeprefix("torch."),
            **infiller,
        },
    }


@cache
def _list_versions() -> dict[str, str]:
    """Return the versions of the libraries; cached, because the look-up takes as long as a small model."""
    return {
        "whence": __version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
