"""Targets per task: which output of the model is explained, and how it is read from its logits.

A classifier's labels are its outputs. Every other task has one file here; the requested output is the
first column of the input, its contrast the second.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor

from whence.core.errors import BadParameter, NoHead, UnknownTarget, WhenceError
from whence.core.lazy import LazyTuple
from whence.core.types import OutputScale
from whence.data.batches import Batch
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import choose_batch_policy, map_batches
from whence.explain.inputs import EncodedInputs, InputFailureCallback
from whence.models.model import LoadedModel
from whence.tracing.forward import compute_plain_logits, run_unobserved
from whence.tracing.restore import restore_on_exit
from whence.tracing.target import TargetSpec, check_finite

if TYPE_CHECKING:
    from whence.explain.explanation import Explanation


class TaskOptions(TypedDict, total=False):
    """Options beside the target, as keywords; each has a meaning for some tasks only."""

    at: Any  # which token, word or mask
    answer: Any  # a continuation for a language model: a text, or a tuple of two for a contrast
    labels: Sequence[str] | None  # candidate labels, for zero-shot and image-text models
    template: str | None  # the sentence around a candidate label
    image: Any  # the reference image of a text


@dataclass(frozen=True)
class TargetRequest:
    """The requested target, before the model has run; see `TaskOptions`."""

    target: Any = None
    of: OutputScale = "logit"
    truncate: bool = False
    at: Any = None
    answer: Any = None
    labels: Sequence[str] | None = None
    template: str | None = None
    image: Any = None

    @property
    def has_image(self) -> bool:
        """Whether the input is a text with a reference image."""
        return self.image is not None


@dataclass(frozen=True)
class TargetedInputs:
    """Inputs with the target to explain for each of them."""

    items: list[EncodedInput]
    spec: TargetSpec
    # If one input became several (a text and its entities): the original input of each. None: one to one.
    owners: tuple[int, ...] | None = None
    # Joins the explanations of one original input into one; None: they stay a list.
    join: "Callable[[list[Explanation]], Explanation] | None" = None
    forwards: int = 0  # forward passes per input to find its targets


TaskResolver = Callable[[LoadedModel, list[EncodedInput], TargetRequest], TargetedInputs]


def resolve_targets(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Return the inputs, with readouts where the task needs them, and their common target."""
    groups = group_by_target(request, len(items))
    if len(groups) > 1:
        raise BadParameter(
            f"Here all inputs have one target, and {len(groups)} different ones are listed for {len(items)} inputs. "
            "Give one target, or call it for each input."
        )
    return resolve_common_target(loaded, items, groups[0][1])


# By task: the file and function that resolve its targets, and the options that have a meaning for it. The files are
# imported when needed. A classifier's labels are its outputs, unless `labels` are given to one of entailment.
_TASKS: Mapping[str, tuple[str, str, tuple[str, ...]]] = {
    "zero_shot": ("zero_shot", "resolve_zero_shot", ("labels", "template")),
    "answer": ("question_answering", "resolve_answer", ()),
    "tags": ("tagging", "resolve_tags", ("at",)),
    "mask": ("masked_lm", "resolve_mask", ("at",)),
    "similarity": ("similarity", "resolve_similarity", ("labels", "template", "image")),
    "next": ("causal_lm", "resolve_continuation", ("answer",)),
    "sequence": ("causal_lm", "resolve_continuation", ("answer",)),
}


def resolve_common_target(
    loaded: LoadedModel, items: list[EncodedInput], request: TargetRequest
) -> TargetedInputs:
    """Return the inputs with the one target of a request; refuse options that mean nothing to the task."""
    plain = loaded.is_classifier and request.labels is None
    file, function, options = _TASKS["zero_shot" if loaded.is_classifier else loaded.task]
    for name in ("at", "answer", "labels", "template", "image"):
        value = getattr(request, name)
        if value is not None and (plain or name not in options):
            raise BadParameter(
                f"{name}={str(value)[:40]!r} means nothing to {type(loaded.model).__name__} "
                f"({loaded.task.replace('_', ' ')}). Leave it out."
            )
    if plain:
        ready = [
            replace(item, warnings=LazyTuple(partial(_list_input_warnings, item, loaded)))
            if item.picture is None
            else item
            for item in items
        ]
        return TargetedInputs(ready, TargetSpec.parse(request.target, loaded.labels, request.of))
    resolve: TaskResolver = getattr(import_module(f"whence.explain.tasks.{file}"), function)
    return resolve(loaded, items, request)


def group_by_target(request: TargetRequest, count: int) -> list[tuple[list[int], TargetRequest]]:
    """Return groups of input numbers with the same target and answer, and the request of each.

    A list of targets, or of answers, is one for each input.
    """
    if request.target is None and request.answer is None:
        return [(list(range(count)), request)]
    targets = list_per_input("target", request.target, count)
    answers = list_per_input("answer", request.answer, count)
    if targets is None and answers is None:
        return [(list(range(count)), request)]
    parts: dict[str, tuple[list[int], TargetRequest]] = {}
    for number in range(count):
        target = request.target if targets is None else targets[number]
        answer = request.answer if answers is None else answers[number]
        own = replace(request, target=target, answer=answer)
        parts.setdefault(repr((target, answer)), ([], own))[0].append(number)
    # Without inputs there is one empty group.
    return list(parts.values()) or [([], replace(request, target=None, answer=None))]


def list_per_input(name: str, values: Any, count: int) -> list[Any] | None:
    """Return the targets, or answers, if one is listed per input; None if one is for all."""
    if not isinstance(values, list):
        if isinstance(values, str | tuple) or not getattr(values, "ndim", 0):
            return None
        values = values.tolist()  # a column of a table, an array
    lists = [value for value in values if isinstance(value, list)]
    if len(values) != count or lists:
        number = "is 1 input" if count == 1 else f"are {count} inputs"
        what = f"{name} is a list of {len(values)}, one for each input, and there {number}"
        what = f"{name} has the list {lists[0]!r} in it" if lists else what
        raise BadParameter(
            f"{what}. Give a list of as many as there are inputs, or one {name} for all of them; a contrast of two "
            f"is a tuple: {name}=('a', 'b')."
        )
    return list(values)


def list_targets(target: Any, kind: str) -> list[Any]:
    """Return the requested output, or the two of a contrast; `kind` names outputs in the error."""
    if not isinstance(target, tuple):
        return ["predicted" if target is None else target]
    if len(target) != 2:
        raise UnknownTarget(f"A contrast has two {kind}. Got {len(target)}: {target!r}.")
    return list(target)


def resolve_each_target(
    loaded: LoadedModel,
    inputs: EncodedInputs,
    request: TargetRequest,
    failed: InputFailureCallback | None,
) -> Iterator[tuple[list[int], TargetedInputs]]:
    """Yield input numbers and targeted inputs, one target at a time.

    Of several targets of an input, such as a tagger's entities, the first is taken. With `failed`, inputs that
    cannot be resolved are reported there.
    """
    items = inputs.by_number()
    for rows, own in group_by_target(request, inputs.total):
        numbers = [row for row in rows if row in items]
        groups = [numbers] if numbers else []
        parts: list[tuple[list[int], TargetedInputs]] = []
        while groups:
            group = groups.pop(0)
            try:
                given = [items[number] for number in group]
                parts.append((group, resolve_common_target(loaded, given, own)))
            except WhenceError as error:
                if failed is None:
                    raise
                if len(group) == 1:
                    failed(group[0], None, error)
                else:  # one by one, to find the culprits
                    groups = [[number] for number in group]
        ready: dict[int, EncodedInput] = {}
        for group, targeted in parts:
            owners = range(len(group)) if targeted.owners is None else targeted.owners
            for owner, item in zip(owners, targeted.items, strict=True):
                ready.setdefault(group[owner], item)
        if ready:
            # The request is the same for all inputs, and so is the target; only the inputs differ.
            yield list(ready), replace(parts[0][1], items=list(ready.values()), owners=None)


_INPUTS = 64  # of one batch


def compute_token_outputs(
    loaded: LoadedModel, items: Sequence[EncodedInput], *names: str
) -> list[tuple[Tensor, ...]]:
    """Run the model once on each input; return its outputs of these names, each (tokens, ...).

    The outputs are float64, on the CPU.
    """

    def run(batch: Batch) -> Iterator[Tensor]:
        with restore_on_exit(loaded.model), torch.inference_mode():
            output = run_unobserved(loaded.model, batch)
        for name in names:
            part, what = getattr(output, name, None), name.replace("_", " ")
            if not isinstance(part, Tensor) or part.dim() < 2:
                raise NoHead(
                    f"{type(loaded.model).__name__} gives no {what}, as a model of its name should. "
                    "Load a model of transformers' own, or one that gives the same."
                )
            yield check_finite(part, what).double().cpu()

    def read(_: Sequence[int], batch: Batch) -> Iterator[tuple[Tensor, ...]]:
        parts = [*run(batch)]
        for row, item in enumerate(batch.items):
            yield tuple(part[row, : len(item)] for part in parts)

    # Probed is the first output, as far as the shortest input of a batch goes.
    policy = choose_batch_policy(
        loaded, items, _INPUTS, read_output=lambda batch: next(run(batch))[:, : len(batch.items[0])]
    )
    return map_batches(loaded, "outputs", items, policy, read)


def read_logits(loaded: LoadedModel, items: Sequence[EncodedInput]) -> list[Tensor]:
    """Run the model once on each input; return the logits of its readout, (labels,), float64 on the CPU."""

    def read(_: Sequence[int], batch: Batch) -> Tensor:
        return compute_plain_logits(loaded.model, batch).double().cpu()

    policy = choose_batch_policy(loaded, items, _INPUTS)
    return map_batches(loaded, "outputs", items, policy, read)


# Labels of a relation between two texts. One entailment label is enough; the others are words that a
# single text may be sorted by as well (an issue is a "duplicate"), unless all labels are of the kind.
_ENTAILMENT_LABEL = re.compile(r"(not|non)?[ _-]*(entail|contradict)", re.IGNORECASE)
_PARAPHRASE_LABEL = re.compile(
    r"(is|not|non|no)?[ _-]*(equivalent|duplicate|paraphrase)", re.IGNORECASE
)
# Labels of sentiment: polarity, stars.
_SENTIMENT_LABEL = re.compile(
    r"(very|strongly|slightly|mostly)?[ _-]*(positive|negative|neutral|mixed|pos|neg)|[1-5][ _-]*stars?",
    re.IGNORECASE,
)
_PAIR_TASKS = frozenset(
    {"mnli", "snli", "xnli", "anli", "rte", "qnli", "wnli", "cb", "mrpc", "qqp", "stsb", "paws"}
)
_SINGLE_TASKS = frozenset({"sst2", "sst", "cola", "imdb"})


def _list_input_warnings(item: EncodedInput, loaded: LoadedModel) -> Iterator[tuple[str, str]]:
    """Yield the warnings of an input, and one if it is one text for a pair model, or the reverse."""
    yield from item.warnings
    if item.source.text is None:
        return
    pair, apart = item.source.pair is not None, True
    if pair:
        second = next((i for i, t in enumerate(item.tokens) if t.segment and not t.special), 0)
        apart = second == 0 or item.tokens[second - 1].special
    warning = build_pair_warning(loaded, pair=pair, apart=apart)
    if warning is not None:
        yield warning


def build_pair_warning(
    loaded: LoadedModel, *, pair: bool, apart: bool = True
) -> tuple[str, str] | None:
    """Return the code and text of a warning if the model seems to expect pairs, or single texts.

    `apart`: whether the tokenizer puts a special token between the two texts.
    """
    name, why = type(loaded.model).__name__, find_training_evidence(loaded, pairs=not pair)
    if not apart:
        why = "its tokenizer puts nothing between two texts"
    if why is None:
        return None
    if not pair:
        return "one-text", (
            f"{name} seems to be trained on pairs of texts ({why}), and this is a single one: what it says of it "
            "means little. Give the pair: (premise, hypothesis) or the like; --pair."
        )
    return "two-texts", (
        f"{name} seems to be trained on single texts ({why}), and this is a pair: what it says of it may mean "
        "little. Give one text, unless it was trained on pairs."
    )


def find_training_evidence(loaded: LoadedModel, *, pairs: bool) -> str | None:
    """Return the evidence that a classifier was trained on pairs of texts, or on single ones; None without any."""
    labels, named, tasks = loaded.labels, False, _PAIR_TASKS if pairs else _SINGLE_TASKS
    if pairs:
        if loaded.task not in ("single_label", "regression"):
            return None
        named = any(map(_ENTAILMENT_LABEL.match, labels)) or (
            len(labels) > 1 and all(map(_PARAPHRASE_LABEL.match, labels))
        )
    elif loaded.task == "single_label":
        named = all(map(_SENTIMENT_LABEL.fullmatch, labels))
    if named:
        return f"its labels are {', '.join(labels[: 4 if pairs else 5])}"
    task = getattr(loaded.model.config, "finetuning_task", None)
    known = isinstance(task, str) and re.sub("[^a-z0-9]", "", task.lower()) in tasks
    return f"its configuration names the task {task!r}" if known else None
