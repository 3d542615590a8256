"""`fit`, the seeded, resumable training loop: loss, optimiser, batches, history; best epoch's weights kept.

As in Jain & Wallace's code the first epoch is never the best, unless it is the only one. Batches hold
inputs of similar length (noise of 10 %) in shuffled order. The loss is cross entropy, weighted and summed
as the recipe says. A checkpoint is written after every epoch, safe against a killed process: files get a
temporary name, are synced and renamed, and state.json names only complete ones.
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
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
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
from whence.core.files import write_text
from whence.core.seed import build_generator
from whence.data.batches import Batch, collate
from whence.models.facts import get_facts
from whence.models.fingerprint import compute_fingerprint
from whence.studies.training.performance import LabelledInput, Performance, measure_performance
from whence.studies.training.recipe import Recipe
from whence.tracing.forward import compute_logits

Tensors = dict[str, Tensor]

STATE = "state.json"
FIRST_WEIGHTS = "first weights"
_VERSION = 1
_HASH = re.compile(r" \([0-9a-f]{16}\)$|^blake2b.*$")
_MODEL, _OPTIMISER = "model/", "optimiser/"  # prefixes of the tensors in a checkpoint


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

    @property
    def merit(self) -> tuple[float, float]:
        """The sort key of epochs: the score, and accuracy to break ties on small sets."""
        return self.score or 0.0, self.dev.accuracy if self.dev else 0.0

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> "Epoch":
        """Build an epoch from a JSON object."""
        dev = data["dev"] and Performance.from_dict(data["dev"])
        return cls(**{**data, "dev": dev})


@dataclass(frozen=True, slots=True)
class FitResult:
    """The result of a training; the model has the weights of `best_epoch`."""

    history: tuple[Epoch, ...]
    best_epoch: int
    seconds: float

    @property
    def best(self) -> Epoch:
        """The epoch whose weights the model has."""
        return self.history[self.best_epoch - 1]


class TrainingHistory:
    """The epochs so far; with a folder, they are saved there and resumed from there.

    `about` identifies the training in a folder: recipe, data and first weights.
    """

    def __init__(
        self,
        model: Any,
        optimiser: torch.optim.Optimizer,
        recipe: Recipe,
        folder: Path | None,
        about: Mapping[str, Any],
    ) -> None:
        self.epochs: list[Epoch] = []
        self.optimiser = optimiser
        self._best_epoch: int | None = None
        self._best: Tensors = {}  # weights of the best epoch, if there is no folder
        self._model, self._recipe = model, recipe
        self._folder, self._about = folder, json.loads(json.dumps(about))
        self._files: dict[str, str] = {}  # by "last" and "best": the name of a file in the folder
        if folder is not None:
            self._resume(folder)

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
        # Jain & Wallace never keep the first epoch, whatever it scores.
        passes = epoch.number > 1 or self._recipe.epochs == 1
        best = None if self._best_epoch is None else self.epochs[self._best_epoch - 1]
        better = passes and (best is None or epoch.score is None or epoch.merit > best.merit)
        self.epochs.append(epoch)
        if better:
            self._best_epoch = epoch.number
        weights = {k: v.detach() for k, v in self._model.state_dict().items()}
        if self._folder is None:
            if better:
                self._best = {k: v.clone() for k, v in weights.items()}
            return
        own = {f"{_MODEL}{name}": value for name, value in weights.items()}
        momenta = {
            f"{_OPTIMISER}{name}/{kind}": value
            for name, weight in self._model.named_parameters()
            for kind, value in self.optimiser.state.get(weight, {}).items()
        }
        try:
            self._write_tensors("last", {**own, **momenta})
            if better:
                self._write_tensors("best", own)
            self._write_state()
            # Delete files of earlier epochs, and those that a killed run left behind.
            for path in self._folder.glob("*.safetensors*"):
                if path.name not in self._files.values():
                    path.unlink()
        except (OSError, SafetensorError) as error:
            raise CannotWrite(
                f"Cannot keep the training in {str(self._folder)!r}: {getattr(error, 'strerror', None) or error}. "
                "Make room, and run the same again: it goes on after the last epoch that was kept."
            ) from None

    def end(self) -> FitResult:
        """Load the weights of the best epoch into the model, and return the result."""
        best = self._best_epoch or len(self.epochs)
        if best != len(self.epochs):
            self._model.load_state_dict(self._best or self._read_tensors("best", _MODEL))
        return FitResult(tuple(self.epochs), best, sum(epoch.seconds for epoch in self.epochs))

    def _resume(self, folder: Path) -> None:
        """Create the folder, or take up the training that an earlier run saved in it."""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            text = (folder / STATE).read_text(encoding="utf-8")
        except FileNotFoundError:
            self._write_state()
            return
        except OSError as error:
            raise CannotWrite(
                f"Cannot keep the training in {str(folder)!r}: {error.strerror or error}. "
                "Choose a folder that you may write to."
            ) from None
        try:
            record = json.loads(text)
            if record["version"] != _VERSION:
                raise ValueError(f"version {record['version']}")
            about, self._files = record["about"], dict(record["files"])
            self.epochs = [Epoch.from_dict(epoch) for epoch in record["state"]["history"]]
            self._best_epoch = record["state"]["best_epoch"]
        except (ValueError, KeyError, TypeError) as error:
            raise CannotRead(
                f"{str(folder / STATE)!r} is not the state of a training ({error}). Delete the folder "
                f"{str(folder)!r} to start anew."
            ) from None
        if about != self._about:
            raise BadParameter(
                f"The folder {str(folder)!r} keeps another training: {describe_difference(about, self._about)}. Give "
                "the settings it was begun with to go on, or delete the folder to start anew."
            )
        if self.epochs:
            self._model.load_state_dict(self._read_tensors("last", _MODEL))
            weights = dict(self._model.named_parameters())
            for key, value in self._read_tensors("last", _OPTIMISER).items():
                name, _, kind = key.rpartition("/")
                self.optimiser.state[weights[name]][kind] = value

    def _read_tensors(self, which: str, prefix: str) -> Tensors:
        """Read those of the "last" or the "best" tensors that have a prefix, without it."""
        assert self._folder is not None
        path = self._folder / self._files[which]
        try:
            tensors: Tensors = load_file(path, device=str(self._model.device))
        except (OSError, SafetensorError) as error:
            raise CannotRead(
                f"Cannot read {str(path)!r} ({error}). Delete the folder {str(self._folder)!r} to start anew."
            ) from None
        return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}

    def _write_state(self) -> None:
        assert self._folder is not None
        epochs = [asdict(epoch) for epoch in self.epochs]
        state = {"history": epochs, "best_epoch": self._best_epoch}
        record = {"version": _VERSION, "about": self._about, "state": state, "files": self._files}
        write_text(self._folder / STATE, json.dumps(record, indent=1) + "\n")

    def _write_tensors(self, which: str, tensors: Tensors) -> None:
        """Write the "last" or the "best" tensors under a temporary name, sync the file, and rename it."""
        assert self._folder is not None
        name = f"{which}-{len(self.epochs)}.safetensors"
        temporary = self._folder / f"{name}.part"
        # Copies, because weights may share memory, which safetensors cannot store.
        layout = torch.contiguous_format
        save_file(
            {k: v.detach().cpu().clone(memory_format=layout) for k, v in tensors.items()}, temporary
        )
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        temporary.replace(self._folder / name)
        self._files[which] = name


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
    device: torch.device | None = None,
    loss: Loss | None = None,
    select: Select | None = None,
    dev: Sequence[LabelledInput] | None = None,
    keep: Path | None = None,
    about: Mapping[str, Any] | None = None,
    progress: Callable[[int, int], None] | None = None,
    each: Callable[[Epoch], None] | None = None,
    resumed: Callable[[int], None] | None = None,
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
    `progress` is called with (examples done, examples in all), `each` with every epoch that was trained, `resumed`
    with the number of this run's first epoch, if an earlier run trained some.
    """
    labels = _count_labels(model, [*rows, *(dev or [])])
    if not rows:
        raise BadExamples("There are no examples to train on. Give at least one.")
    objective = loss or build_cross_entropy(rows, labels, recipe)
    model.to(next(model.parameters()).device if device is None else device)
    about = {
        **(about or {}),
        **describe_settings(rows, recipe, dev),
        FIRST_WEIGHTS: compute_fingerprint(model),
    }
    with _training_mode(model):
        training = TrainingHistory(model, build_optimiser(model, recipe), recipe, keep, about)
        if resumed is not None and training.epochs and not training.is_over:
            resumed(training.number)

        def report(done: int) -> None:
            if progress is not None:  # earlier runs' epochs count as done
                progress(len(training.epochs) * len(rows) + done, recipe.epochs * len(rows))

        report(0)
        while not training.is_over:
            started = time.perf_counter()
            try:
                mean = _train_epoch(model, rows, recipe, training, objective, pad_id, report)
                performance = measure_performance(model, dev, pad_id=pad_id) if dev else None
            except NotFinite as error:
                raise NotFinite(
                    f"The training ran away in epoch {training.number}: {str(error).partition('.')[0]}. Lower the "
                    f"learning rate; it is {recipe.learning_rate:g}."
                ) from None
            score = None
            if select is not None:
                score = select(model, mean)
                if not isfinite(score):
                    raise NotFinite(
                        f"An epoch was judged {score}, which is no number to choose by. Check `select`."
                    )
            elif performance is not None:
                auc = performance.roc_auc
                score = performance.accuracy if auc is None else auc
            seconds = time.perf_counter() - started
            training.add(Epoch(training.number, mean, score, performance, seconds))
            if each is not None:
                each(training.epochs[-1])
        return training.end()


def describe_settings(
    rows: Sequence[LabelledInput], recipe: Recipe, dev: Sequence[LabelledInput] | None
) -> dict[str, Any]:
    """Return the settings that a training depends on beside its first weights, as a JSON object."""
    return {
        **recipe.to_dict(),
        "training examples": _compute_digest(rows),
        "development examples": _compute_digest(dev or []),
    }


def _train_epoch(
    model: Any,
    rows: Sequence[LabelledInput],
    recipe: Recipe,
    training: TrainingHistory,
    objective: Loss,
    pad_id: int | None,
    report: Callable[[int], None],
) -> float:
    """Train on all examples once; return the mean loss per example."""
    device, number = model.device, training.number
    losses, done = [], 0
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
            done += len(numbers)
            report(done)
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


def _compute_digest(rows: Sequence[LabelledInput]) -> str:
    """Return the number and the hash of a list of examples."""
    digest = blake2b(digest_size=8)
    for row in rows:
        digest.update(repr((sorted(row.item.features.items()), row.label)).encode())
    return f"{len(rows)} ({digest.hexdigest()})"


def build_optimiser(model: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam or AdamW over all trainable weights; attention may have its own weight decay."""
    attention: set[int] = set()
    own = getattr(model, "attention", None)  # a model's single attention; Transformers have none
    if recipe.attention_weight_decay is not None and isinstance(own, torch.nn.Module):
        attention = {id(weight) for weight in own.parameters()}
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
