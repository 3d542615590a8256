"""Training a classifier: seeded, resumable, and ending with the best weights."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from whence.capture.found import turn
from whence.core.errors import BadExamples, NoHead, NotFinite
from whence.data import collate
from whence.models import fingerprint
from whence.training.chance import drawing
from whence.training.course import Course, Epoch, Fitted
from whence.training.kept import FIRST_WEIGHTS
from whence.training.objective import Loss, cross_entropy
from whence.training.optimiser import optimiser_of
from whence.training.order import ordered
from whence.training.performance import Performance, Row, judged
from whence.training.recipe import Recipe

# select(model, loss): how good the model is after an epoch with this mean loss; higher is better.
Select = Callable[[Any, float], float]


def fit(
    model: Any,
    rows: Sequence[Row],
    recipe: Recipe,
    *,
    pad_id: int | None,
    device: torch.device | None = None,
    loss: Loss | None = None,
    select: Select | None = None,
    dev: Sequence[Row] | None = None,
    keep: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[Epoch], None] | None = None,
    resumed: Callable[[int], None] | None = None,
) -> Fitted:
    """Train a transformers classifier in place; it ends with the weights of its best epoch.

    The best epoch is that of the highest `select(model, loss)`; without it, of the highest ROC-AUC (two labels) or
    accuracy on `dev`; without either the last one. As in Jain & Wallace's code the first epoch is never chosen,
    unless it is the only one.

    `loss(model, batch, labels, numbers)` takes the place of the cross entropy: the sum over the batch or its mean, as
    the recipe says; `numbers` are places in `rows`.
    `keep` is a folder for this training alone: after every epoch all that matters is written there, and the same call
    goes on where an earlier one ended. On a CPU it then ends with the very bytes of a run without interruption.
    A call with other examples, another recipe or other first weights is refused; `about` says, as plain data, what
    else must be the same (what the loss depends on).
    `progress` is called with (examples done, examples in all), `each` with every epoch that was trained, `resumed`
    with the number of the epoch that this run starts with, where an earlier one did some.
    """
    labels = _labels(model, [*rows, *(dev or [])])
    if not rows:
        raise BadExamples("There are no examples to train on. Give at least one.")
    objective = loss or cross_entropy(rows, labels, recipe)
    model.to(next(model.parameters()).device if device is None else device)
    about = {**(about or {}), **settings(rows, recipe, dev), FIRST_WEIGHTS: fingerprint(model)}
    with _training(model):
        course = Course(model, optimiser_of(model, recipe), recipe, keep, about)
        if resumed is not None and course.history and not course.over:
            resumed(course.number)
        tick = _tick(progress, course, len(rows), recipe.epochs)
        while not course.over:
            started = time.perf_counter()
            try:
                mean = _epoch(model, rows, recipe, course, objective, pad_id, tick)
                found = judged(model, dev, pad_id=pad_id) if dev else None
            except NotFinite as error:
                raise NotFinite(
                    f"The training ran away in epoch {course.number}: {str(error).partition('.')[0]}. Lower the "
                    f"learning rate; it is {recipe.learning_rate:g}."
                ) from None
            score = _score(found) if select is None else _finite(select(model, mean))
            seconds = time.perf_counter() - started
            course.add(Epoch(course.number, mean, score, found, seconds))
            if each is not None:
                each(course.history[-1])
        return course.end()


def settings(rows: Sequence[Row], recipe: Recipe, dev: Sequence[Row] | None) -> dict[str, Any]:
    """Say, as plain data, what the course of a training depends on beside its first weights."""
    return {
        **recipe.to_dict(),
        "training examples": _digest(rows),
        "development examples": _digest(dev or []),
    }


def _epoch(
    model: Any,
    rows: Sequence[Row],
    recipe: Recipe,
    course: Course,
    objective: Loss,
    pad_id: int | None,
    tick: Callable[[int], None],
) -> float:
    """Go through all examples once; return their mean loss."""
    device, number = model.device, course.number
    losses = []
    with drawing(device, "dropout", recipe.seed, number):
        lengths = [len(row.item) for row in rows]
        for numbers in ordered(lengths, recipe.batch_size, recipe.seed, number):
            batch = collate([rows[i].item for i in numbers], pad_id=pad_id, device=device)
            truth = torch.tensor([rows[i].label for i in numbers], device=device)
            value = objective(model, batch, truth, numbers)
            course.optimiser.zero_grad()
            torch.autograd.backward(value)
            course.optimiser.step()
            losses.append(value.detach() * (1 if recipe.summed else len(numbers)))
            tick(len(numbers))
    # Summed at the end: asking for each of them would make a GPU wait.
    mean = float(torch.stack(losses).to("cpu", torch.float64).sum()) / len(rows)
    if not isfinite(mean):
        raise NotFinite(f"The loss is {mean}.")
    return mean


def _score(found: Performance | None) -> float | None:
    if found is None:
        return None
    return found.accuracy if found.roc_auc is None else found.roc_auc


def _finite(score: float) -> float:
    if not isfinite(score):
        raise NotFinite(
            f"An epoch was judged {score}, which is no number to choose by. Check `select`."
        )
    return score


@contextmanager
def _training(model: Any) -> Iterator[None]:
    """Take the model's turn in training mode; its modules' modes are put back, and no gradient stays."""
    with turn(model), ExitStack() as stack:
        # The caller may sit in no_grad or inference_mode.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        stack.callback(model.zero_grad)
        model.train()
        yield


def _labels(model: Any, rows: Sequence[Row]) -> int:
    """Count the labels, and find out before the work that the examples do not fit them."""
    labels, kind = int(model.config.num_labels), getattr(model.config, "problem_type", None)
    if labels < 2 or kind in ("regression", "multi_label_classification"):
        raise NoHead(
            f"{type(model).__name__} is no classifier with one label of several, and only such models are trained "
            f"here: it has {labels} outputs and the problem type {kind!r}."
        )
    if wrong := [row.label for row in rows if not 0 <= row.label < labels]:
        raise BadExamples(
            f"An example has the label {wrong[0]}, and the model has {labels}: 0 to {labels - 1}."
        )
    return labels


def _digest(rows: Sequence[Row]) -> str:
    """Tell one list of examples from another."""
    digest = blake2b(digest_size=8)
    for row in rows:
        digest.update(repr((sorted(row.item.features.items()), row.label)).encode())
    return f"{len(rows)} ({digest.hexdigest()})"


def _tick(
    progress: Callable[[int, int], None] | None, course: Course, rows: int, epochs: int
) -> Callable[[int], None]:
    """Count examples, from where an earlier run ended."""
    done = len(course.history) * rows

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, epochs * rows)

    tick(0)
    return tick
