"""`evaluate`, several methods tested on a data set: chunks by target, labels, masks, usable methods, metrics."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from whence.core.errors import BadExamples, BadParameter, BadPicture, WhenceError, shorten_quote
from whence.core.progress import Progress
from whence.data.dataset import compute_example_id, find_label_indices, read_dataset
from whence.data.example import Example, fit_mask
from whence.data.removal import Removal
from whence.explain.explainer import Explainer, load
from whence.explain.explanation import Explanation
from whence.explain.pipeline import describe_origin
from whence.explain.request import MethodRequest, resolve_methods
from whence.explain.tasks import list_per_input
from whence.explain.trials import HumanAnnotation, Unit
from whence.methods import is_trace_method, method
from whence.models.model import LoadedModel
from whence.studies.evaluation.evaluation import Evaluation, build_evaluation_data
from whence.studies.evaluation.measure import (
    UnreadableExample,
    build_mark_function,
    build_trial_steps,
    describe_annotations,
    resolve_metrics,
    try_method,
)
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import AgreementScores
from whence.tracing.ask import count_forwards

GOLD = "gold"  # target: each example's own label
PICTURES = 32  # images decoded at once


@dataclass(frozen=True)
class ExampleChunk:
    """Examples by index, the target of each or of all, and the human annotation of each."""

    numbers: list[int]
    target: Any
    known: list[HumanAnnotation]


def is_gold(target: Any, loaded: LoadedModel) -> bool:
    """Return whether the target is "gold", each example's own label, and no label of the model."""
    return bool(isinstance(target, str) and target == GOLD and GOLD not in loaded.labels)


def split_examples(
    examples: Sequence[Example],
    loaded: LoadedModel,
    target: Any,
    refuse: Callable[[int, WhenceError], None],
    *,
    alone: bool = False,
) -> Iterator[ExampleChunk]:
    """Split a data set into chunks with targets and annotations: all texts, and at most 32 images at a time.

    Images are limited because their pixels are large. The labels of a data set must all be written in the same way; with
    `alone`, each label is resolved by itself, so that an example's result does not depend on the others. `refuse` is told
    of an example by its index, and why.
    """
    gold = is_gold(target, loaded)
    groups = [[example] for example in examples] if alone else [examples]
    truths = [
        truth for some in groups for truth in _resolve_labels(some, loaded, must=gold and not alone)
    ]
    targets = truths if gold else list_per_input("target", target, len(examples))
    images = [number for number, example in enumerate(examples) if example.is_image]
    texts = [number for number, example in enumerate(examples) if not example.is_image]
    for chunk in [texts, *(images[at : at + PICTURES] for at in range(0, len(images), PICTURES))]:
        known: dict[int, HumanAnnotation] = {}
        for number in chunk:
            example, truth = examples[number], truths[number]
            if gold and truth is None:
                name = example.label and shorten_quote(example.label)
                has = (
                    "no label"
                    if name is None
                    else f"the label {name!r}, which is none of the model's"
                )
                why = f"The example has {has}, and its own was to be explained. Give it one, or another target."
                refuse(number, BadExamples(why))
                continue
            mask = None
            try:
                if example.mask is not None and loaded.processor is not None:
                    mask = fit_mask(example.mask, loaded.processor)
            except (BadExamples, BadPicture) as error:
                refuse(number, error)
                continue
            known[number] = HumanAnnotation(truth, mask)
        if known:
            own = target if targets is None else [targets[number] for number in known]
            yield ExampleChunk(list(known), own, list(known.values()))


def _resolve_labels(
    examples: Sequence[Example], loaded: LoadedModel, *, must: bool
) -> list[int | None]:
    """Return the model's label index of each example; all None if the data has other labels."""
    try:
        places = find_label_indices(
            [example.label for example in examples if example.label is not None], loaded.labels
        )
    except BadExamples:
        if must:
            raise
        return [None] * len(examples)
    return [None if example.label is None else places[example.label] for example in examples]


RANKINGS = 5


def evaluate(
    explainer: Any,
    examples: Any,
    methods: str | Sequence[str] | None = None,
    metrics: str | Sequence[str] | None = None,
    *,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    params: Mapping[str, Any] | None = None,
    metric_params: Mapping[str, Any] | None = None,
    remove: Removal | None = None,
    unit: Unit = "token",
    target: Any = None,
    truncate: bool = True,
    rankings: int = RANKINGS,
    seed: int = 0,
    progress: Progress | None = None,
) -> Evaluation:
    """Explain examples by several methods, test every explanation, and compare the methods.

    `explainer`: an `Explainer`, or what `whence.load` takes.
    `examples`: a file, a folder of pictures, a table (a frame of pandas or polars), or a list of texts, pairs,
    pictures, mappings or `Example`s; `text`, `pair` and `label` name columns that do not have one of the usual names.
    `methods`: by default all that read one forward and backward pass. `metrics`: by default those of faithfulness
    and agreement, and of plausibility where the examples have rationales or masks. `target`: as `explain` takes it, a
    list being one for each example, or "gold", each example's own label. `rankings`: how many random explanations
    each example is compared with.
    An example that cannot be explained or tested is counted and named; the rest goes on.
    `progress` is called with (examples done, examples in all).
    """
    if isinstance(rankings, bool) or not isinstance(rankings, int) or rankings < 1:
        raise BadParameter(f"rankings must be a whole number, at least 1. Got {rankings!r}.")
    data = read_dataset(examples, text=text, pair=pair, label=label, question_first=True)
    example_list = data.examples
    explainer = explainer if isinstance(explainer, Explainer) else load(explainer)
    data.check_pairs(explainer.labels)
    requests = resolve_methods(
        list_default_methods() if methods is None else methods, params, explainer.fillers
    )
    metric_requests = resolve_metrics(metrics, metric_params, **describe_annotations(example_list))
    started = time.perf_counter()
    names, count = [request.name for request in requests], len(example_list)
    paired = [measure for measure in metric_requests if measure.kind == "agreement"]
    alone = [measure for measure in metric_requests if measure.kind != "agreement"]
    notes = ScoreTables(names, alone, count, rankings)
    agreement = AgreementScores(paired, names, count, rankings)
    setting = {"remove": remove, "unit": unit, "target": _target_to_json(target)}
    drawing = explainer.loaded.infiller
    models = [explainer.model, *([] if drawing is None else [drawing.loaded.model])]
    with ExitStack() as stack:
        runs = [stack.enter_context(count_forwards(model)) for model in models]
        usable, backward = _find_usable_methods(
            explainer, example_list, requests, notes, target, truncate
        )
        # Without any usable method the examples are still read: perhaps none of them can be.
        hopeless = not usable and any(map(len, notes.failures.values()))
        params = {request.name: request.params for request in usable or requests}

        def refuse(number: int, error: WhenceError) -> None:
            notes.record_failure(number, None, error)

        chunks = split_examples(example_list, explainer.loaded, target, refuse)
        for chunk in () if hopeless else chunks:
            chunk_examples = [example_list[number] for number in chunk.numbers]
            trials = explainer.trials(
                [example.given for example in chunk_examples],
                method=list(params),
                params=params,
                target=chunk.target,
                truncate=truncate,
                remove=remove,
                unit=unit,
                marks=build_mark_function(chunk_examples),
                known=chunk.known,
                seed=seed,
                failed=partial(_record_failure, notes, chunk),
                parts=build_trial_steps(alone, rankings),
            )
            for place, trial, explanations in trials:
                number = chunk.numbers[place]
                notes.add(number, trial, explanations)
                agreement.add(number, trial)
                setting["remove"] = trial.removed.how
                setting["unit"] = unit if trial.item.picture is None else "patch"
                backward += _count_backwards(usable, explanations) + trial.again.passes.backward
                if progress is not None:
                    progress(len(notes) + len(notes.refused), count)
    return Evaluation(
        build_evaluation_data(
            notes,
            agreement,
            methods={request.name: request.params for request in requests},
            origin=describe_origin(explainer.loaded),
            setting={**setting, "truncate": truncate, "rankings": rankings},
            digests=[compute_example_id(example) for example in example_list],
            data=data.describe_sample(),
            seed=seed,
            calls={"forward": sum(run.forward for run in runs), "backward": backward},
            seconds=time.perf_counter() - started,
        )
    )


def _record_failure(
    notes: ScoreTables, chunk: ExampleChunk, place: int, method: str | None, error: WhenceError
) -> None:
    notes.record_failure(chunk.numbers[place], method, error)


def list_default_methods() -> list[str]:
    """Return the trace methods, without `random`, which serves as the baseline anyway."""
    return [entry.name for entry in method if is_trace_method(entry) and entry.name != "random"]


def _find_usable_methods(
    explainer: Explainer,
    examples: Sequence[Example],
    requests: Sequence[MethodRequest],
    notes: ScoreTables,
    target: Any,
    truncate: bool,
) -> tuple[list[MethodRequest], int]:
    """Return the methods that work on this model, tried on one example, and the backward passes.

    A method that cannot explain this kind of model would make every shared batch fail.
    """
    usable, backward, at = [], 0, 0
    # Any class will do: whether a method works does not depend on it.
    per_input = list_per_input("target", target, len(examples)) is not None
    target = None if per_input or is_gold(target, explainer.loaded) else target
    waiting = list(requests)
    while waiting and at < len(examples):
        try:
            why_not, passes = try_method(
                explainer, examples[at].given, waiting[0], target, truncate
            )
        except UnreadableExample:
            at += 1
            continue
        request, backward = waiting.pop(0), backward + passes
        if why_not is None:
            usable.append(request)
        else:
            for number in range(len(examples)):
                notes.record_failure(number, request.name, why_not)
    return usable, backward


def _count_backwards(
    requests: Sequence[MethodRequest], explanations: Mapping[str, Explanation]
) -> int:
    """Return the backward passes of one input: a shared one of trace methods, and the query methods'."""
    reads = {request.name for request in requests if request.reads}
    backwards = {name: explanation.passes.backward for name, explanation in explanations.items()}
    shared = max((count for name, count in backwards.items() if name in reads), default=0)
    return shared + sum(count for name, count in backwards.items() if name not in reads)


def _target_to_json(target: Any) -> Any:
    """Return the target as JSON: a contrast as a list of two, targets by example as {"each": ...}."""
    if isinstance(target, tuple):
        return [_target_to_json(part) for part in target]
    if getattr(target, "ndim", 0) or isinstance(target, list):
        return {"each": [_target_to_json(item) for item in target]}
    if target is None or isinstance(target, str | int):
        return target
    return int(target) if hasattr(target, "__index__") else str(target)
