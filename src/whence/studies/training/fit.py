"""`fit`, the seeded, resumable training loop: loss, optimiser, batches, history; best epoch's weights kept.

A checkpoint is written after every epoch, safe against a killed process: one file with the weights, the best
weights, the optimiser and the history, which gets its name when it is complete.
"""

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from torch.nn import functional

from whence.core.errors import (
    BadExamples,
    BadParameter,
    CannotRead,
    CannotWrite,
    NoHead,
    NotFinite,
)
from whence.core.progress import Progress, ProgressCounter, announce
from whence.core.seed import build_generator
from whence.data.batches import Batch, collate
from whence.models.facts import get_facts
from whence.models.fingerprint import compute_fingerprint
from whence.studies.training.performance import LabelledInput, Performance, measure_performance
from whence.studies.training.recipe import Recipe
from whence.tracing.forward import compute_logits

Tensors = dict[str, Tensor]

CHECKPOINT = "checkpoint.safetensors"
FIRST_WEIGHTS = "first weights"
_VERSION = 2
_HASH = re.compile(r" \([0-9a-f]{16}\)$|^blake2b.*$")


@contextmanager
def seed_torch(device: torch.device, *key: str | int) -> Iterator[None]:
    """Seed PyTorch's random numbers from `key`; the global generators are restored on exit.

    Layers and dropout take no generator of their own, so the state of the global ones is set. `manual_seed` would also
    change their seed, which is not restored.
    """
    seed = int(build_generator(*key).integers(2**63))
    cuda = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=cuda):
        torch.set_rng_state(torch.Generator().manual_seed(seed).get_state())
        for gpu in cuda:
            torch.cuda.set_rng_state(torch.Generator(gpu).manual_seed(seed).get_state(), gpu)
        yield


@dataclass(frozen=True, slots=True)
class Epoch:
    """One epoch: its mean loss per example, and the model's score afterwards."""

    number: int  # from 1
    loss: float
    score: float | None  # selects the best epoch, if known; higher is better
    dev: Performance | None
    seconds: float

    def __str__(self) -> str:
        dev = "" if self.dev is None else f", dev {self.dev}"
        return f"epoch {self.number}: loss {self.loss:.4f}{dev} ({self.seconds:.0f} s)"

    @property
    def merit(self) -> tuple[float, float]:
        """The sort key of epochs: the score, and accuracy to break ties on small sets."""
        return self.score or 0.0, self.dev.accuracy if self.dev else 0.0


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a training; the model has the weights of `best_epoch`."""

    history: tuple[Epoch, ...]
    best_epoch: int

    @property
    def best(self) -> Epoch:
        """The epoch whose weights the model has."""
        return self.history[self.best_epoch - 1]


class TrainingHistory:
    """The epochs so far, and the weights of the best; kept in a folder, if any, by what the training is `about`."""

    def __init__(
        self, model: Any, recipe: Recipe, folder: Path | None, about: Mapping[str, Any]
    ) -> None:
        self.epochs: list[Epoch] = []
        self.optimiser = build_optimiser(model, recipe)
        self._model, self._recipe = model, recipe
        self._best_epoch: int | None = None
        self._best: Tensors = {}
        self._about = json.loads(json.dumps(about))
        self._file = None if folder is None else folder / CHECKPOINT
        if self._file is not None:
            self._resume(self._file)

    @property
    def number(self) -> int:
        """The number of the next epoch."""
        return len(self.epochs) + 1

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the recipe's patience is exhausted."""
        done, patience = len(self.epochs), self._recipe.patience
        exhausted = patience and self._best_epoch and done - self._best_epoch >= patience
        return done >= self._recipe.epochs or bool(exhausted)

    def add(self, epoch: Epoch) -> None:
        """Add a trained epoch, and save a checkpoint."""
        passes = epoch.number > 1 or self._recipe.epochs == 1
        best = None if self._best_epoch is None else self.epochs[self._best_epoch - 1]
        self.epochs.append(epoch)
        if passes and (best is None or epoch.score is None or epoch.merit > best.merit):
            self._best_epoch = epoch.number
            self._best = {k: v.detach().clone() for k, v in self._model.state_dict().items()}
        if self._file is not None:
            try:
                self._save(self._file)
            except (OSError, SafetensorError) as error:
                raise CannotWrite(
                    f"Cannot keep the training in {str(self._file.parent)!r}: "
                    f"{getattr(error, 'strerror', None) or error}. Make room, and run the same again: it goes on "
                    "after the last epoch that was kept."
                ) from None

    def end(self) -> FitResult:
        """Load the weights of the best epoch into the model, and return the result."""
        best = self._best_epoch or len(self.epochs)
        if best != len(self.epochs):
            self._model.load_state_dict(self._best)
        return FitResult(tuple(self.epochs), best)

    def _save(self, file: Path) -> None:
        """Write the checkpoint under a temporary name, sync it, and rename it."""
        parts = {"model": self._model.state_dict(), "best": self._best}
        weights = self._model.named_parameters()
        parts |= {f"optimiser/{name}": self.optimiser.state.get(w, {}) for name, w in weights}
        state = {
            "version": _VERSION,
            "about": self._about,
            "history": [asdict(epoch) for epoch in self.epochs],
            "best_epoch": self._best_epoch,
        }
        temporary = file.with_suffix(".part")
        # Copies, because weights may share memory, which safetensors cannot store.
        tensors = {
            f"{part}/{name}": value.detach().cpu().clone(memory_format=torch.contiguous_format)
            for part, values in parts.items()
            for name, value in values.items()
        }
        save_file(tensors, temporary, metadata={"state": json.dumps(state)})
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(file)

    def _resume(self, file: Path) -> None:
        """Create the folder, or take up the training that an earlier run saved in it."""
        folder = str(file.parent)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CannotWrite(
                f"Cannot keep the training in {folder!r}: {error.strerror or error}. "
                "Choose a folder that you may write to."
            ) from None
        if not file.exists():
            return
        try:
            with safe_open(file, "pt", device=str(self._model.device)) as stored:
                state = json.loads(stored.metadata()["state"])
                tensors = {key: stored.get_tensor(key) for key in stored.keys()}  # noqa: SIM118 - it is no mapping
            if state["version"] != _VERSION:
                raise ValueError(f"version {state['version']}")
            for epoch in state["history"]:
                dev = epoch["dev"] and Performance.from_dict(epoch["dev"])
                self.epochs.append(Epoch(**{**epoch, "dev": dev}))
            self._best_epoch, about = state["best_epoch"], state["about"]
        except (OSError, SafetensorError, ValueError, KeyError, TypeError) as error:
            raise CannotRead(
                f"{str(file)!r} is not the state of a training ({error}). Delete the folder {folder!r} to start anew."
            ) from None
        if about != self._about:
            raise BadParameter(
                f"The folder {folder!r} keeps another training: {describe_difference(about, self._about)}. Give "
                "the settings it was begun with to go on, or delete the folder to start anew."
            )
        weights = dict(self._model.named_parameters())
        own: Tensors = {}
        for key, value in tensors.items():
            part, _, name = key.partition("/")
            if part == "optimiser":
                name, _, kind = name.rpartition("/")
                self.optimiser.state[weights[name]][kind] = value
            else:
                (own if part == "model" else self._best)[name] = value
        self._model.load_state_dict(own)


def describe_difference(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> str:
    """Describe the differing settings of two trainings."""
    names = [name for name in {**theirs, **ours} if theirs.get(name) != ours.get(name)]
    # Other settings imply other first weights, which need not be named as well.
    names = [name for name in names if name != FIRST_WEIGHTS] or names
    changes = []
    for name in names:
        both = (theirs.get(name), ours.get(name))
        # Digests are not shown.
        was, now = (_HASH.sub("", value) if isinstance(value, str) else value for value in both)
        changes.append(f"other {name}" if was == now else f"{name} was {was!r}, now {now!r}")
    return "; ".join(changes)


# loss(model, batch, labels, numbers): the scalar to minimise; `numbers` are the indices of the examples in `rows`.
Loss = Callable[[Any, Batch, Tensor, Sequence[int]], Tensor]


def build_cross_entropy(rows: Sequence[LabelledInput], labels: int, recipe: Recipe) -> Loss:
    """Return Jain & Wallace's loss.

    Theirs is the binary cross entropy of one sigmoid, which is the cross entropy of two logits (-z/2, z/2). With
    `pos_weight`, an example of the second label counts N / N_second - 1 times.
    """
    weight: Tensor | None = None
    if recipe.pos_weight:
        if labels != 2:
            raise BadParameter(
                f"pos_weight is for two labels, and the model has {labels}. Give a recipe with pos_weight=False."
            )
        second = sum(row.label for row in rows)
        if second in (0, len(rows)):
            raise BadExamples(
                f"All {len(rows)} examples have the same label: there is nothing to learn. Give examples of both."
            )
        weight = torch.tensor([1.0, len(rows) / second - 1], dtype=torch.float64)

    def loss(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        logits = compute_logits(model, batch)
        losses = functional.cross_entropy(logits, truth, reduction="none")
        if weight is not None:
            losses = losses * weight.to(losses)[truth]
        return losses.sum() if recipe.summed else losses.mean()

    return loss


# select(model, loss): how good the model is after an epoch with this mean loss; higher is better.
Select = Callable[[Any, float], float]


def fit(
    model: Any,
    rows: Sequence[LabelledInput],
    recipe: Recipe,
    *,
    pad_id: int | None,
    loss: Loss | None = None,
    select: Select | None = None,
    dev: Sequence[LabelledInput] | None = None,
    keep: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> FitResult:
    """Train a transformers classifier in place; it ends with the weights of its best epoch.

    The best epoch is that of the highest `select(model, loss)`; without it, of the highest ROC-AUC (two labels) or
    accuracy on `dev`; without either the last one. As in Jain & Wallace's code the first epoch is never chosen,
    unless it is the only one.

    `loss(model, batch, labels, numbers)` replaces the cross entropy: the sum over the batch or its mean, as the recipe
    says; `numbers` are indices of `rows`.
    `keep` is a folder for this training alone: a checkpoint is written there after every epoch, and the same call
    resumes an earlier one. On a CPU, a resumed training ends with the same bytes as an uninterrupted one.
    A call with other examples, another recipe or other first weights is refused; `about` holds further settings that
    must be the same, such as those of the loss.
    `progress` is called with (examples done, examples in all). Its method `announce`, if it has one, gets every `Epoch`
    that was trained, and a sentence if an earlier run trained some.
    """
    labels = _count_labels(model, [*rows, *(dev or [])])
    if not rows:
        raise BadExamples("There are no examples to train on. Give at least one.")
    objective = loss or build_cross_entropy(rows, labels, recipe)
    about = {
        **(about or {}),
        **describe_settings(rows, recipe, dev),
        FIRST_WEIGHTS: compute_fingerprint(model),
    }
    with _training_mode(model):
        training = TrainingHistory(model, recipe, keep, about)
        if training.epochs and not training.is_over:
            announce(progress, f"Going on from epoch {training.number}: the earlier ones are kept.")

        counter = ProgressCounter(progress, recipe.epochs * len(rows))
        counter.add(len(training.epochs) * len(rows))  # earlier runs' epochs count as done
        while not training.is_over:
            started = time.perf_counter()
            try:
                mean = _train_epoch(model, rows, recipe, training, objective, pad_id, counter)
                performance = measure_performance(model, dev, pad_id=pad_id) if dev else None
            except NotFinite as error:
                raise NotFinite(
                    f"The training ran away in epoch {training.number}: {str(error).partition('.')[0]}. Lower the "
                    f"learning rate; it is {recipe.learning_rate:g}."
                ) from None
            score = None if select is None else select(model, mean)
            if score is not None and not isfinite(score):
                raise NotFinite(
                    f"An epoch was judged {score}, which is no number to choose by. Check `select`."
                )
            if score is None and performance is not None:
                auc = performance.roc_auc
                score = performance.accuracy if auc is None else auc
            seconds = time.perf_counter() - started
            training.add(Epoch(training.number, mean, score, performance, seconds))
            announce(progress, training.epochs[-1])
        return training.end()


def describe_settings(
    rows: Sequence[LabelledInput], recipe: Recipe, dev: Sequence[LabelledInput] | None
) -> dict[str, Any]:
    """Return the settings that a training depends on beside its first weights, as a JSON object."""
    settings = recipe.to_dict()
    for name, some in (("training examples", rows), ("development examples", dev or [])):
        digest = blake2b(digest_size=8)
        for row in some:
            digest.update(repr((sorted(row.item.features.items()), row.label)).encode())
        settings[name] = f"{len(some)} ({digest.hexdigest()})"
    return settings


def _train_epoch(
    model: Any,
    rows: Sequence[LabelledInput],
    recipe: Recipe,
    training: TrainingHistory,
    objective: Loss,
    pad_id: int | None,
    counter: ProgressCounter,
) -> float:
    """Train on all examples once; return the mean loss per example."""
    device, number = model.device, training.number
    losses = []
    with seed_torch(device, "dropout", recipe.seed, number):
        lengths = [len(row.item) for row in rows]
        for numbers in build_epoch_batches(lengths, recipe.batch_size, recipe.seed, number):
            batch = collate([rows[i].item for i in numbers], pad_id=pad_id, device=device)
            truth = torch.tensor([rows[i].label for i in numbers], device=device)
            value = objective(model, batch, truth, numbers)
            training.optimiser.zero_grad()
            torch.autograd.backward(value)
            training.optimiser.step()
            losses.append(value.detach() * (1 if recipe.summed else len(numbers)))
            counter.add(len(numbers))
    # Summed at the end: reading each loss would synchronise the GPU.
    mean = float(torch.stack(losses).to("cpu", torch.float64).sum()) / len(rows)
    if not isfinite(mean):
        raise NotFinite(f"The loss is {mean}.")
    return mean


@contextmanager
def _training_mode(model: Any) -> Iterator[None]:
    """Lock the model in training mode; on exit, restore all modes and clear the gradients."""
    with get_facts(model).lock, ExitStack() as stack:
        # The caller may be in no_grad or inference_mode.
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        for module in model.modules():
            stack.callback(setattr, module, "training", module.training)
        stack.callback(model.zero_grad)
        model.train()
        yield


def _count_labels(model: Any, rows: Sequence[LabelledInput]) -> int:
    """Return the number of labels; refuse examples that do not fit them before the training starts."""
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


def build_optimiser(model: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam or AdamW over all trainable weights; attention may have its own weight decay."""
    own = getattr(model, "attention", None)  # a model's single attention; Transformers have none
    decay, apart = recipe.attention_weight_decay, set[int]()
    if decay is not None and isinstance(own, torch.nn.Module):
        apart = {id(weight) for weight in own.parameters()}
    weights = [w for w in model.parameters() if w.requires_grad]
    groups: list[dict[str, Any]] = [{"params": [w for w in weights if id(w) not in apart]}]
    if attention := [w for w in weights if id(w) in apart]:
        groups.append({"params": attention, "weight_decay": decay})
    kind = torch.optim.AdamW if recipe.decoupled else torch.optim.Adam
    return kind(
        groups,
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        amsgrad=recipe.amsgrad,
        fused=True,  # one pass over memory instead of a dozen; most weights are the embedding table
    )


_NOISE = 0.1  # share of the length, plus or minus


def build_epoch_batches(
    lengths: Sequence[int], size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the batches of an epoch: similar lengths (noise of 10%) together, in shuffled order."""
    rng = build_generator("batches", seed, epoch)
    noisy = np.asarray(lengths) * (1 + rng.uniform(-_NOISE, _NOISE, len(lengths)))
    by_length = [int(i) for i in np.argsort(noisy, kind="stable")]
    batches = [by_length[start : start + size] for start in range(0, len(by_length), size)]
    return [batches[int(i)] for i in rng.permutation(len(batches))]
