"""Which scalar is explained: one output, or the difference of two, as logit or as probability."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import NoHead, NotFinite, UnknownTarget, did_you_mean
from whence.core.types import Of, Prediction, Target

Rank = Literal["predicted", "runner-up"]
Task = Literal["single_label", "multi_label", "regression", "none"]


def probabilities(logits: Tensor, task: Task) -> Tensor:
    """Turn logits into probabilities; a regression's value stays what it is."""
    if task == "multi_label":
        return logits.sigmoid()
    return logits if task == "regression" else logits.softmax(-1)


@dataclass(frozen=True)
class TargetSpec:
    """What the user asked for, before any logits are known."""

    main: int | Rank
    against: int | None
    of: Of

    @classmethod
    def parse(cls, asked: Any, labels: tuple[str, ...], of: Of = "logit") -> "TargetSpec":
        """Read a label, an index, "predicted", "runner-up" or a contrast of two labels or indices."""
        if of not in ("logit", "probability"):
            raise UnknownTarget(f"of must be 'logit' or 'probability'. Got {of!r}.")
        if isinstance(asked, tuple | list):
            if len(asked) != 2:
                raise UnknownTarget(
                    f"A contrast has two labels, like {labels[:2]}. Got {len(asked)}: {asked!r}."
                )
            main, against = (_index(one, labels) for one in asked)
            if main == against:
                raise UnknownTarget(f"A contrast needs two different labels. Got {asked!r}.")
            return cls(main, against, of)
        if asked is None or asked == "predicted":
            return cls("predicted", None, of)
        if asked == "runner-up":
            if len(labels) < 2:
                raise UnknownTarget("There is no runner-up: the model has one output.")
            return cls("runner-up", None, of)
        if isinstance(asked, str) and asked not in labels and ":" in asked:
            main_label, _, against_label = asked.partition(":")
            return cls.parse((main_label, against_label), labels, of)
        return cls(_index(asked, labels), None, of)

    def resolve(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the index of the output and of the one it is held against, each (batch,)."""
        batch = logits.shape[0]
        if isinstance(self.main, int):
            main = torch.full((batch,), self.main, device=logits.device)
        else:
            # A stable sort, so that a tie goes to the first label on every machine.
            order = logits.argsort(dim=-1, descending=True, stable=True)
            main = order[:, 0 if self.main == "predicted" else 1]
        if self.against is None:
            return main, None
        return main, torch.full((batch,), self.against, device=logits.device)


def _index(asked: Any, labels: tuple[str, ...]) -> int:
    if isinstance(asked, str):
        if asked in labels:
            return labels.index(asked)
        if asked.lstrip("-").isdigit():
            asked = int(asked)
    if isinstance(asked, int) and not isinstance(asked, bool) and 0 <= asked < len(labels):
        return asked
    known = ", ".join(f"{i} {label!r}" for i, label in enumerate(labels[:20]))
    more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    raise UnknownTarget(
        f"There is no target {asked!r}.{did_you_mean(str(asked), list(labels))} The labels are {known}{more}; "
        "also 'predicted' and 'runner-up'."
    )


@dataclass(frozen=True)
class Targets:
    """The targets of one batch, resolved against its logits."""

    main: Tensor  # (batch,)
    against: Tensor | None
    spec: TargetSpec
    task: Task

    def value(self, logits: Tensor, of: Of | None = None) -> Tensor:
        """Return the explained scalar of each row, (batch,)."""
        outputs = logits
        if (of or self.spec.of) == "probability":
            outputs = probabilities(logits, self.task)
        value = outputs.gather(1, self.main[:, None]).squeeze(1)
        if self.against is not None:
            value = value - outputs.gather(1, self.against[:, None]).squeeze(1)
        return value

    def at(self, rows: Tensor) -> "Targets":
        """Return the targets of some rows, in their order and number."""
        against = None if self.against is None else self.against[rows]
        return Targets(self.main[rows], against, self.spec, self.task)

    def describe(self, row: int, labels: tuple[str, ...]) -> Target:
        """Return the target of one row in words."""
        against = None
        if self.against is not None:
            other = int(self.against[row])
            against = Target(labels[other], other, None, self.spec.of)
        main = int(self.main[row])
        return Target(labels[main], main, against, self.spec.of)


def finite(logits: Tensor, what: str) -> Tensor:
    """Return `logits`, or say that the model gave NaN or infinity."""
    if not torch.isfinite(logits).all():
        bad = logits[~torch.isfinite(logits).all(-1)][0].tolist()
        raise NotFinite(
            f"The {what} are not finite: {bad}. Check the weights, or try dtype='float32' or 'float64'."
        )
    return logits


def predictions(logits: Tensor, task: Task, labels: tuple[str, ...]) -> list[Prediction]:
    """Describe what the model said about each row."""
    if logits.shape[1] != len(labels):
        raise NoHead(
            f"The model gives {logits.shape[1]} outputs, its configuration names {len(labels)} labels. "
            "Set num_labels and id2label to fit."
        )
    shares = probabilities(logits.double(), task).tolist()
    result = []
    for values, row in zip(logits.double().tolist(), shares, strict=True):
        best = max(range(len(row)), key=row.__getitem__)
        known = {} if task == "regression" else dict(zip(labels, row, strict=True))
        result.append(Prediction(labels[best], best, known.get(labels[best]), known, tuple(values)))
    return result
