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
