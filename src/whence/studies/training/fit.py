"""`fit`, the seeded, resumable training loop: loss, optimiser, batches, history; best epoch's weights kept.

As in Jain & Wallace's code the first epoch is never the best, unless it is the only one. Batches hold
inputs of similar length (noise of 10 %) in shuffled order. The loss is cross entropy, weighted and summed
as the recipe says.
"""

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
from torch import Tensor
from torch.nn import functional

from whence.core.errors import BadExamples, BadParameter, NoHead, NotFinite
from whence.core.seed import build_generator
from whence.data.batches import Batch, collate
from whence.models.fingerprint import compute_fingerprint
from whence.studies.training.checkpoints import FIRST_WEIGHTS, TrainingCheckpoints
from whence.studies.training.performance import LabelledInput, Performance, measure_performance
from whence.studies.training.recipe import Recipe
from whence.tracing.forward import compute_logits
from whence.tracing.restore import get_model_lock


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


_MODEL, _OPTIMISER = "model/", "optimiser/"


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
    """The epochs so far; with a folder, they are saved there and resumed from there."""

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
        self._best: dict[str, Tensor] = {}  # weights of the best epoch, if there is no folder
        self.optimiser = optimiser
        self._model, self._recipe = model, recipe
        self._checkpoints = None if folder is None else TrainingCheckpoints(folder, about)
        state = self._checkpoints.start() if self._checkpoints else None
        if state is not None:
            self._resume(state)

    @property
    def number(self) -> int:
        """The number of the next epoch."""
        return len(self.history) + 1

    @property
    def is_over(self) -> bool:
        """Whether all epochs are done, or the recipe's patience is exhausted."""
        epochs, patience = len(self.history), self._recipe.patience
        exhausted = patience and self._best_epoch and epochs - self._best_epoch >= patience
        return epochs >= self._recipe.epochs or bool(exhausted)

    def add(self, epoch: Epoch) -> None:
        """Add a trained epoch, and save a checkpoint."""
        better = self._better(epoch)
        self.history.append(epoch)
        if better:
            self._best_epoch = epoch.number
        if self._checkpoints is None:
            if better:
                self._best = {k: v.clone() for k, v in self._weights().items()}
            return
        state = {"history": [asdict(item) for item in self.history], "best_epoch": self._best_epoch}
        weights = _add_prefix(_MODEL, self._weights())
        momenta = _add_prefix(_OPTIMISER, optimiser_to_tensors(self.optimiser, self._model))
        self._checkpoints.save(state, {**weights, **momenta}, weights if better else None)

    def end(self) -> FitResult:
        """Load the weights of the best epoch into the model, and return the result."""
        best = self._best_epoch or len(self.history)
        if best != len(self.history):
            weights = self._checkpoints and _remove_prefix(
                _MODEL, self._checkpoints.tensors("best", self._model.device)
            )
            self._model.load_state_dict(weights or self._best)
        return FitResult(tuple(self.history), best, sum(epoch.seconds for epoch in self.history))

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
        assert self._checkpoints is not None
        self.history = [Epoch.from_dict(epoch) for epoch in state["history"]]
        self._best_epoch = state["best_epoch"]
        if self.history:
            tensors = self._checkpoints.tensors("last", self._model.device)
            self._model.load_state_dict(_remove_prefix(_MODEL, tensors))
            restore_optimiser(self.optimiser, self._model, _remove_prefix(_OPTIMISER, tensors))


def _add_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {prefix + name: value for name, value in tensors.items()}


def _remove_prefix(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


# loss(model, batch, labels, numbers): the scalar to minimise; `numbers` are the indices of the examples in `rows`.
Loss = Callable[[Any, Batch, Tensor, Sequence[int]], Tensor]


def build_cross_entropy(rows: Sequence[LabelledInput], labels: int, recipe: Recipe) -> Loss:
    """Return Jain & Wallace's loss.

    Theirs is the binary cross entropy of one sigmoid, which is the cross entropy of two logits (-z/2, z/2). With
    `pos_weight`, an example of the second label counts N / N_second - 1 times.
    """
    weight = _compute_label_weights(rows, labels) if recipe.pos_weight else None

    def loss(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        logits = compute_logits(model, batch)
        losses = functional.cross_entropy(logits, truth, reduction="none")
        if weight is not None:
            losses = losses * weight.to(losses)[truth]
        return losses.sum() if recipe.summed else losses.mean()

    return loss


def _compute_label_weights(rows: Sequence[LabelledInput], labels: int) -> Tensor:
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
        if resumed is not None and training.history and not training.is_over:
            resumed(training.number)
        tick = _build_progress(progress, training, len(rows), recipe.epochs)
        while not training.is_over:
            started = time.perf_counter()
            try:
                mean = _train_epoch(model, rows, recipe, training, objective, pad_id, tick)
                performance = measure_performance(model, dev, pad_id=pad_id) if dev else None
            except NotFinite as error:
                raise NotFinite(
                    f"The training ran away in epoch {training.number}: {str(error).partition('.')[0]}. Lower the "
                    f"learning rate; it is {recipe.learning_rate:g}."
                ) from None
            score = (
                _select_score(performance) if select is None else _check_finite(select(model, mean))
            )
            seconds = time.perf_counter() - started
            training.add(Epoch(training.number, mean, score, performance, seconds))
            if each is not None:
                each(training.history[-1])
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
    tick: Callable[[int], None],
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
            tick(len(numbers))
    # Summed at the end: reading each loss would synchronise the GPU.
    mean = float(torch.stack(losses).to("cpu", torch.float64).sum()) / len(rows)
    if not isfinite(mean):
        raise NotFinite(f"The loss is {mean}.")
    return mean


def _select_score(performance: Performance | None) -> float | None:
    if performance is None:
        return None
    return performance.accuracy if performance.roc_auc is None else performance.roc_auc


def _check_finite(score: float) -> float:
    if not isfinite(score):
        raise NotFinite(
            f"An epoch was judged {score}, which is no number to choose by. Check `select`."
        )
    return score


@contextmanager
def _training_mode(model: Any) -> Iterator[None]:
    """Lock the model in training mode; on exit, restore all modes and clear the gradients."""
    with get_model_lock(model), ExitStack() as stack:
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


def _build_progress(
    progress: Callable[[int, int], None] | None, training: TrainingHistory, rows: int, epochs: int
) -> Callable[[int], None]:
    """Return a progress callback that starts with the epochs of an earlier run."""
    count = len(training.history) * rows

    def tick(more: int) -> None:
        nonlocal count
        count += more
        if progress is not None:
            progress(count, epochs * rows)

    tick(0)
    return tick


def build_optimiser(model: Any, recipe: Recipe) -> torch.optim.Optimizer:
    """Return Adam or AdamW over all trainable weights; attention may have its own weight decay."""
    attention = (
        _find_attention_weights(model) if recipe.attention_weight_decay is not None else set()
    )
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


def _find_attention_weights(model: Any) -> set[int]:
    """Return the ids of the weights of a model's single attention; empty for Transformers."""
    module = getattr(model, "attention", None)
    return {id(w) for w in module.parameters()} if isinstance(module, torch.nn.Module) else set()


def optimiser_to_tensors(optimiser: torch.optim.Optimizer, model: Any) -> dict[str, Tensor]:
    """Return the optimiser's state as tensors, named by the weights they belong to."""
    return {
        f"{name}/{kind}": value
        for name, weight in model.named_parameters()
        for kind, value in optimiser.state.get(weight, {}).items()
    }


def restore_optimiser(
    optimiser: torch.optim.Optimizer, model: Any, tensors: dict[str, Tensor]
) -> None:
    """Restore an optimiser's state from the tensors of `optimiser_to_tensors`."""
    weights = dict(model.named_parameters())
    for key, value in tensors.items():
        name, _, kind = key.rpartition("/")
        optimiser.state[weights[name]][kind] = value


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
