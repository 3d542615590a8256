"""Evaluating methods over a data set, one trial at a time."""

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from whence.capture.asking.counted import counted
from whence.core.errors import BadParameter, WhenceError
from whence.data.removal import Removal
from whence.data.sets.digest import example_digest
from whence.data.sets.examples import collect
from whence.evaluation.agreement import Alike
from whence.evaluation.evaluation import Evaluation
from whence.evaluation.measures import measures, of_examples
from whence.evaluation.notes import Notes
from whence.evaluation.payload import payload
from whence.evaluation.portions import Portion, is_gold, portions
from whence.evaluation.tested import Unreadable, marks_of, tried
from whence.explainer import Explainer, Explanation, load
from whence.explainer.aims import one_each
from whence.explainer.request import Request, requests
from whence.explainer.verify.testing import Unit
from whence.explainer.work import Progress, origin
from whence.methods import is_reader, method

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
    """Explain examples by several methods, test every explanation, and say what can be told apart.

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
    data = collect(examples, text=text, pair=pair, label=label)
    given = data.examples
    explainer = explainer if isinstance(explainer, Explainer) else load(explainer)
    data.refuse_labels(explainer.labels)
    asked = requests(default_methods() if methods is None else methods, params, explainer.fillers)
    wanted = measures(metrics, metric_params, **of_examples(given))
    started = time.perf_counter()
    notes = Notes(
        [request.name for request in asked],
        [measure for measure in wanted if measure.kind != "agreement"],
        len(given),
        rankings,
    )
    alike = Alike(
        [measure for measure in wanted if measure.kind == "agreement"],
        notes.methods,
        len(given),
        rankings,
    )
    setting = {"remove": remove, "unit": unit, "target": _told(target), "truncate": truncate}
    texts = [example.given for example in given]
    drawing = explainer.loaded.infiller
    models = [explainer.model, *([] if drawing is None else [drawing.loaded.model])]
    with ExitStack() as stack:
        runs = [stack.enter_context(counted(model)) for model in models]
        usable, backward = _usable(explainer, texts, asked, notes, target, truncate)
        hopeless = not usable and any(map(len, notes.failures.values()))
        refuse = partial(_refused, notes)
        for portion in () if hopeless else portions(given, explainer.loaded, target, refuse):
            some = [given[number] for number in portion.numbers]
            trials = explainer.trials(
                [example.given for example in some],
                method=[request.name for request in usable or asked],
                params={request.name: request.params for request in usable or asked},
                target=portion.target,
                truncate=truncate,
                remove=remove,
                unit=unit,
                marks=marks_of(some),
                known=portion.known,
                seed=seed,
                failed=partial(_failed, notes, portion),
                parts=notes.steps,
            )
            for place, trial, explanations in trials:
                number = portion.numbers[place]
                notes.add(number, trial, explanations)
                alike.add(number, trial)
                setting["remove"] = trial.removed.how
                setting["unit"] = unit if trial.item.picture is None else "patch"
                backward += _backwards(usable, explanations) + trial.again.passes.backward
                if progress is not None:
                    progress(len(notes) + len(notes.refused), len(given))
    return Evaluation(
        payload(
            notes,
            alike,
            methods={request.name: request.params for request in asked},
            origin=origin(explainer.loaded),
            setting={**setting, "rankings": rankings},
            digests=[example_digest(one) for one in given],
            data=data.facts(),
            seed=seed,
            calls={"forward": sum(one.forward for one in runs), "backward": backward},
            seconds=time.perf_counter() - started,
        )
    )


def _refused(notes: Notes, number: int, error: WhenceError) -> None:
    notes.failed(number, None, error)


def _failed(
    notes: Notes, portion: Portion, place: int, method: str | None, error: WhenceError
) -> None:
    notes.failed(portion.numbers[place], method, error)


def default_methods() -> list[str]:
    """Name the methods that read one forward and backward pass; random explanations are there anyway."""
    return [entry.name for entry in method if is_reader(entry) and entry.name != "random"]


def _usable(
    explainer: Explainer,
    texts: Sequence[Any],
    asked: Sequence[Request],
    notes: Notes,
    target: Any,
    truncate: bool,
) -> tuple[list[Request], int]:
    """Try each method on one example: what this kind of model cannot do fails for all of them, and is left out.

    Tried together with the others it would make every batch fail. Returns the backward passes that took, too.
    """
    found, backward, at = [], 0, 0
    # Whichever class: the method can do it or not.
    each = one_each("target", target, len(texts)) is not None
    aim = None if each or is_gold(target, explainer.loaded) else target
    for request in asked:
        while at < len(texts):
            try:
                why_not, made = tried(explainer, texts[at], request, aim, truncate)
            except Unreadable:
                at += 1
                continue
            backward += made
            if why_not is None:
                found.append(request)
            else:
                for number in range(len(texts)):
                    notes.failed(number, request.name, why_not)
            break
    return found, backward


def _backwards(asked: Sequence[Request], explanations: Mapping[str, Explanation]) -> int:
    """Count the backward passes of one input: one that all readers share, and what the askers ask."""
    reads = {request.name for request in asked if request.reads}
    made = {name: one.passes.backward for name, one in explanations.items()}
    shared = max((count for name, count in made.items() if name in reads), default=0)
    return shared + sum(count for name, count in made.items() if name not in reads)


def _told(target: Any) -> Any:
    """Return the target as JSON has it: a contrast is a list of two, and one target each is said to be that."""
    if isinstance(target, tuple):
        return [_told(one) for one in target]
    if getattr(target, "ndim", 0) or isinstance(target, list):
        return {"each": [_told(one) for one in target]}
    if target is None or isinstance(target, str | int):
        return target
    return int(target) if hasattr(target, "__index__") else str(target)


"""A data set in portions: what of it is explained for the same target, and fits into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whence.core.errors import BadExamples, BadPicture, WhenceError, short
from whence.data.sets.examples import Example
from whence.data.sets.labels import label_places
from whence.data.vision.masks import fitted
from whence.explainer.aims import one_each
from whence.explainer.verify.testing import Known
from whence.models import Loaded

GOLD = "gold"  # the target that is each example's own label
PICTURES = 32  # unpacked at once

Refuse = Callable[[int, WhenceError], None]  # an example's number, and why it cannot be explained


@dataclass(frozen=True)
class Portion:
    """Some examples by their numbers, what to explain of them, and what people said of each."""

    numbers: list[int]
    target: Any
    known: list[Known]


def is_gold(target: Any, loaded: Loaded) -> bool:
    """Say whether this target is each example's own label, and none that the model calls so."""
    return bool(isinstance(target, str) and target == GOLD and GOLD not in loaded.labels)


def portions(
    given: Sequence[Example],
    loaded: Loaded,
    target: Any,
    refuse: Refuse,
    *,
    alone: bool = False,
) -> Iterator[Portion]:
    """Cut a data set: texts by target, pictures by target and a few at a time, as their pixels are large.

    The labels of a data set are all written in the same way. With `alone`, each is read by itself: what becomes of an
    example then depends on no other.
    """
    gold = is_gold(target, loaded)
    truths = _each(given, loaded) if alone else _truths(given, loaded, must=gold)
    for aim, numbers in _aims(given, truths, target, gold, refuse):
        seen = [number for number in numbers if given[number].seen]
        read = [number for number in numbers if not given[number].seen]
        if read:
            yield Portion(read, aim, [Known(truths[number]) for number in read])
        for start in range(0, len(seen), PICTURES):
            yield from _outlined(given, loaded, truths, seen[start : start + PICTURES], aim, refuse)


def _aims(
    given: Sequence[Example],
    truths: Sequence[int | None],
    target: Any,
    gold: bool,
    refuse: Refuse,
) -> Iterator[tuple[Any, list[int]]]:
    listed = one_each("target", target, len(given))
    if listed is not None:
        numbers: dict[str, list[int]] = {}
        for number, one in enumerate(listed):
            numbers.setdefault(repr(one), []).append(number)
        yield from ((listed[own[0]], own) for own in numbers.values())
        return
    if not gold:
        yield target, list(range(len(truths)))
        return
    for label in sorted({truth for truth in truths if truth is not None}):
        yield label, [number for number, truth in enumerate(truths) if truth == label]
    for number, truth in enumerate(truths):
        if truth is None:
            said = given[number].label
            has = (
                "no label"
                if said is None
                else f"the label {short(said)!r}, which is none of the model's"
            )
            why = f"The example has {has}, and its own was to be explained. Give it one, or another target."
            refuse(number, BadExamples(why))


def _truths(given: Sequence[Example], loaded: Loaded, *, must: bool) -> list[int | None]:
    """Return the number of each example's label among the model's; none, if they are not the model's labels."""
    try:
        places = label_places([one.label for one in given if one.label is not None], loaded.labels)
    except BadExamples:
        if must:
            raise
        return [None] * len(given)
    return [None if one.label is None else places[one.label] for one in given]


def _each(given: Sequence[Example], loaded: Loaded) -> list[int | None]:
    """Return the number of each example's label among the model's; none where it is not one of them."""
    return [truth for one in given for truth in _truths([one], loaded, must=False)]


def _outlined(
    given: Sequence[Example],
    loaded: Loaded,
    truths: Sequence[int | None],
    numbers: Sequence[int],
    aim: Any,
    refuse: Refuse,
) -> Iterator[Portion]:
    """Read the masks of some pictures; a picture whose mask cannot be read is none that can be tested."""
    kept, known = [], []
    for number in numbers:
        mask = given[number].mask
        try:
            outline = (
                None if mask is None or loaded.processor is None else fitted(mask, loaded.processor)
            )
        except BadPicture as error:
            refuse(number, error)
            continue
        kept.append(number)
        known.append(Known(truths[number], outline))
    if kept:
        yield Portion(kept, aim, known)
