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


"""PyTorch's own random numbers (first weights, dropout), from a key of ours and put back afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from whence.core.seed import generator


@contextmanager
def drawing(device: torch.device, *key: str | int) -> Iterator[None]:
    """Let what is drawn by PyTorch depend on `key` alone; the process's generators are left as they were.

    Layers and dropout take no generator of their own, so the state of the global ones is set, not their seed: a
    seed would outlive us.
    """
    seed = int(generator(*key).integers(2**63))
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for one in cuda:
            torch.cuda.set_rng_state(torch.Generator(one).manual_seed(seed).get_state(), one)
        yield


"""The course of a training: its epochs, the best of them, and both on disk if they are to be kept."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from whence.training.kept import Kept
from whence.training.optimiser import restore, tensors_of
from whence.training.performance import Performance
from whence.training.recipe import Recipe

_MODEL, _OPTIMISER = "model/", "optimiser/"


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch: the mean loss of an example, and how good the model was afterwards."""

    number: int  # from 1
    loss: float
    score: float | None  # what the best epoch is chosen by, if by anything; higher is better
    dev: Performance | None
    seconds: float

    @property
    def merit(self) -> tuple[float, float]:
        """What epochs are compared by: the score, and where a small set cannot tell two apart, accuracy."""
        return self.score or 0.0, self.dev.accuracy if self.dev else 0.0

    @classmethod
    def from_dict(cls, given: dict[str, Any]) -> "Epoch":
        """Take an epoch from plain data."""
        dev = given["dev"] and Performance.from_dict(given["dev"])
        return cls(**{**given, "dev": dev})


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a training came to. The model has the weights of `best_epoch`."""

    history: tuple[Epoch, ...]
    best_epoch: int
    seconds: float

    @property
    def best(self) -> Epoch:
        """The epoch whose weights the model has."""
        return self.history[self.best_epoch - 1]


class Course:
    """The epochs so far. With a folder, they are found there again and added there."""

    def __init__(
        self,
        model: Any,
        optimiser: torch.optim.Optimizer,
        recipe: Recipe,
        folder: Path | None,
        about: dict[str, Any],
    ) -> None:
        self.history: list[Epoch] = []
        self._best_epoch: int | None = None
        self._best: dict[str, Tensor] = {}  # weights, if there is no folder for them
        self.optimiser = optimiser
        self._model, self._recipe = model, recipe
        self._kept = None if folder is None else Kept(folder, about)
        state = self._kept.start() if self._kept else None
        if state is not None:
            self._resume(state)

    @property
    def number(self) -> int:
        """The number of the next epoch."""
        return len(self.history) + 1

    @property
    def over(self) -> bool:
        """Whether all epochs are done, or so many were no better that the recipe says to stop."""
        done, patience = len(self.history), self._recipe.patience
        tired = patience and self._best_epoch and done - self._best_epoch >= patience
        return done >= self._recipe.epochs or bool(tired)

    def add(self, epoch: Epoch) -> None:
        """Take in an epoch that was trained."""
        better = self._better(epoch)
        self.history.append(epoch)
        if better:
            self._best_epoch = epoch.number
        if self._kept is None:
            if better:
                self._best = {k: v.clone() for k, v in self._weights().items()}
            return
        state = {"history": [asdict(one) for one in self.history], "best_epoch": self._best_epoch}
        weights = _named(_MODEL, self._weights())
        momenta = _named(_OPTIMISER, tensors_of(self.optimiser, self._model))
        self._kept.save(state, {**weights, **momenta}, weights if better else None)

    def end(self) -> Fitted:
        """Give the model its best weights."""
        best = self._best_epoch or len(self.history)
        if best != len(self.history):
            kept = self._kept and _unnamed(_MODEL, self._kept.tensors("best", self._model.device))
            self._model.load_state_dict(kept or self._best)
        return Fitted(tuple(self.history), best, sum(epoch.seconds for epoch in self.history))

    def _better(self, epoch: Epoch) -> bool:
        # Jain & Wallace never keep the first epoch, whatever it scores.
        if epoch.number == 1 and self._recipe.epochs > 1:
            return False
        if self._best_epoch is None or epoch.score is None:
            return True
        return epoch.merit > self.history[self._best_epoch - 1].merit

    def _weights(self) -> dict[str, Tensor]:
        state: dict[str, Tensor] = self._model.state_dict()
        return {name: value.detach() for name, value in state.items()}

    def _resume(self, state: dict[str, Any]) -> None:
        assert self._kept is not None
        self.history = [Epoch.from_dict(one) for one in state["history"]]
        self._best_epoch = state["best_epoch"]
        if self.history:
            tensors = self._kept.tensors("last", self._model.device)
            self._model.load_state_dict(_unnamed(_MODEL, tensors))
            restore(self.optimiser, self._model, _unnamed(_OPTIMISER, tensors))


def _named(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in tensors.items()}


def _unnamed(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


"""What training makes small: cross entropy, weighted and summed as the recipe says."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from whence.capture.forward import run
from whence.core.errors import BadExamples, BadParameter
from whence.data import Batch
from whence.training.performance import Row
from whence.training.recipe import Recipe

# loss(model, batch, labels, numbers): the scalar to make small; `numbers` are the places of the examples in `rows`.
Loss = Callable[[Any, Batch, Tensor, Sequence[int]], Tensor]


def cross_entropy(rows: Sequence[Row], labels: int, recipe: Recipe) -> Loss:
    """Return Jain & Wallace's loss.

    Theirs is the binary cross entropy of one sigmoid, which is the cross entropy of two logits (-z/2, z/2). With
    `pos_weight`, an example of the second label counts N / N_second - 1 times.
    """
    weight = _weight(rows, labels) if recipe.pos_weight else None

    def loss(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        logits = run(model, batch)
        each = functional.cross_entropy(logits, truth, reduction="none")
        if weight is not None:
            each = each * weight.to(each)[truth]
        return each.sum() if recipe.summed else each.mean()

    return loss


def _weight(rows: Sequence[Row], labels: int) -> Tensor:
    if labels != 2:
        raise BadParameter(
            f"pos_weight is for two labels, and the model has {labels}. Give a recipe with pos_weight=False."
        )
    second = sum(row.label for row in rows)
    if second in (0, len(rows)):
        raise BadExamples(
            f"All {len(rows)} examples have the same label: there is nothing to learn. Give examples of both."
        )
    return torch.tensor([1.0, len(rows) / second - 1], dtype=torch.float64)


"""Adam as the recipe says, and its state as named tensors."""

from typing import Any

import torch
from torch import Tensor

from whence.training.recipe import Recipe


def optimiser_of(model: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam, or AdamW, over all weights that are trained; attention may decay by itself."""
    attention = _attention(model) if recipe.attention_weight_decay is not None else set()
    weights = [w for w in model.parameters() if w.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [w for w in weights if id(w) not in attention]},
        {
            "params": [w for w in weights if id(w) in attention],
            "weight_decay": recipe.attention_weight_decay,
        },
    ]
    kind = torch.optim.AdamW if recipe.decoupled else torch.optim.Adam
    return kind(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        amsgrad=recipe.amsgrad,
        fused=True,  # one pass over the memory instead of a dozen: most of a model of words is its table
    )


def _attention(model: Any) -> set[int]:
    """The weights of a model's one attention. Transformers, with one in every layer, have none of this name."""
    module = getattr(model, "attention", None)
    return {id(w) for w in module.parameters()} if isinstance(module, torch.nn.Module) else set()


def tensors_of(optimiser: torch.optim.Optimizer, model: Any) -> dict[str, Tensor]:
    """Name the optimiser's state by the weights it belongs to."""
    return {
        f"{name}/{kind}": value
        for name, weight in model.named_parameters()
        for kind, value in optimiser.state.get(weight, {}).items()
    }


def restore(optimiser: torch.optim.Optimizer, model: Any, tensors: dict[str, Tensor]) -> None:
    """Put a state back that `tensors_of` named."""
    weights = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        optimiser.state[weights[name]][kind] = value


"""Which examples share a batch, and which batch comes when."""

from collections.abc import Sequence

import numpy as np

from whence.core.seed import generator

_NOISE = 0.1  # of the length, either way


def ordered(lengths: Sequence[int], size: int, seed: int, epoch: int) -> list[list[int]]:
    """Return the batches of an epoch: like lengths together, give or take a tenth, and the batches shuffled."""
    rng = generator("batches", seed, epoch)
    noisy = np.asarray(lengths) * (1 + rng.uniform(-_NOISE, _NOISE, len(lengths)))
    by_length = [int(i) for i in np.argsort(noisy, kind="stable")]
    batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
    return [batches[int(i)] for i in rng.permutation(len(batches))]
