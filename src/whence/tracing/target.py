"""Explained target: logits read from model outputs, a label or contrast chosen among them, and predictions."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import index
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import BadParameter, NoHead, NotFinite, UnknownTarget, suggest_name
from whence.core.types import OutputScale, Prediction, Target, Task
from whence.data.batches import Batch
from whence.data.readout import (
    ClassReadout,
    ContinuationReadout,
    EntityReadout,
    Readout,
    SimilarityReadout,
    SpanReadout,
    TokenReadout,
)
from whence.data.tokens import EncodedInput


def select_model_outputs(output: Any, batch: Batch) -> dict[str, Tensor]:
    """Return the output tensors that the readout uses, by name."""
    reading = batch.items[0].reading
    names = ("start_logits", "end_logits") if isinstance(reading, SpanReadout) else ("logits",)
    names = (reading.output,) if isinstance(reading, SimilarityReadout) else names
    return {name: getattr(output, name) for name in names}


def count_last_positions(batch: Batch) -> int | None:
    """Return the number of last positions, padding included, that are read; None if others may be.

    A language model's vocabulary is large, and logits at every position of a prompt would cost more
    than the rest of the pass.
    """
    if any(
        item.answer
        or item.reading is None
        or any(place >= 0 for place in item.reading.places or (0,))
        for item in batch.items
    ):
        return None
    width = batch.inputs["input_ids"].shape[1]
    firsts = [
        len(item) + min(item.reading.places) for item in batch.items if item.reading is not None
    ]
    return int(width - min(firsts))


def read_logits(output: Any, batch: Batch, model: str) -> Tensor:
    """Return the logits to explain, (batch, labels); `model` is the name for error messages."""
    reading = batch.items[0].reading
    if isinstance(reading, SimilarityReadout):
        similarities: Tensor = getattr(output, reading.output)
        return similarities
    if isinstance(reading, SpanReadout):
        pairs = (output.start_logits, output.end_logits)
        return _read_in_groups(torch.stack(pairs, dim=2), batch, 0)
    logits = getattr(output, "logits", None)
    flat = reading is None or isinstance(reading, ClassReadout)
    expected = 2 if flat else 3
    if not isinstance(logits, Tensor) or logits.dim() != expected:
        raise NoHead(
            f"{model} has no classification head: it gives no logits of (inputs, labels). "
            "Load a model ...ForSequenceClassification."
            if flat
            else f"{model} gives no logits of (inputs, tokens, outputs), as a model of its name should. Load a model "
            "of transformers' own, or one that gives the same."
        )
    if reading is None:
        return logits
    # If only the last positions were requested, the logits of earlier ones are missing.
    kept = logits.shape[1] if not flat and count_last_positions(batch) else None
    missing = 0 if kept is None else batch.inputs["input_ids"].shape[1] - kept
    return _read_in_groups(logits, batch, missing)


# Pairs of positions whose logits are added at a time, for answer spans.
_MAX_PAIRS = 1 << 24


def _read_in_groups(logits: Tensor, batch: Batch, missing: int) -> Tensor:
    """Return the logits that each row's readout selects, (batch, labels); rows with one readout are read at once."""
    parts = []
    lengths = [(len(item.answer) or len(item)) - missing for item in batch.items]
    readings = [item.reading for item in batch.items]
    for (_, length), group in groupby(
        range(len(batch)), lambda row: (id(readings[row]), lengths[row])
    ):
        rows = list(group)
        own, reading = logits[rows[0] : rows[-1] + 1], readings[rows[0]]
        if isinstance(reading, ClassReadout):
            parts.append(_select_logits_and_rest(own, [reading.index]))
        elif isinstance(reading, SpanReadout):
            few = torch.split(own[:, :length], max(1, _MAX_PAIRS // length**2))
            parts += [_read_spans(some, reading) for some in few]
        else:
            parts.append(_read_tokens(own[:, :length], reading))
    return torch.cat(parts)


def _read_tokens(logits: Tensor, reading: Readout | None) -> Tensor:
    """Read logits of inputs with one readout, (inputs, tokens, outputs)."""
    if isinstance(reading, EntityReadout):
        columns = torch.tensor(reading.columns, device=logits.device)
        own = logits[:, list(reading.places)]
        return own.gather(2, columns.expand(len(own), -1, -1)).mean(1)
    if isinstance(reading, ContinuationReadout):
        return _read_continuation(logits, reading)
    assert isinstance(reading, TokenReadout)
    own = logits[:, reading.place]
    return _select_logits_and_rest(own, list(reading.ids)) if reading.ids else own


def _select_logits_and_rest(logits: Tensor, ids: list[int]) -> Tensor:
    """Return some logits, and the logsumexp of all others as one more logit: (inputs, outputs) both."""
    others = torch.ones(logits.shape[1], dtype=torch.bool)
    others[ids] = False
    places = others.nonzero().squeeze(1).to(logits.device)
    rest = logits[:, places].logsumexp(1, keepdim=True)
    return torch.cat([logits[:, ids], rest], dim=1)


def _read_spans(logits: Tensor, reading: SpanReadout) -> Tensor:
    """Return the logits of answer spans (start, end or both), and one for all other positions."""
    start, end = logits.unbind(2)
    spans = [(reading.start, reading.end), *reading.others]
    if reading.part != "span":
        at_start = reading.part == "start"
        return _select_logits_and_rest(
            start if at_start else end, [span[0 if at_start else 1] for span in spans]
        )
    # Start and end are predicted independently: an answer is any pair of positions.
    pairs = (start[:, :, None] + end[:, None]).flatten(1)
    length = logits.shape[1]
    return _select_logits_and_rest(pairs, [first * length + last for first, last in spans])


def _read_continuation(logits: Tensor, reading: ContinuationReadout) -> Tensor:
    """Return the log-probability of a continuation, and that of any other one."""
    steps = torch.stack(
        [
            _select_logits_and_rest(logits[:, place], [i])
            for place, i in zip(reading.places, reading.ids, strict=True)
        ],
        dim=1,
    ).log_softmax(-1)
    before = steps[..., 0].cumsum(1) - steps[..., 0]  # log-probability of the earlier tokens
    return torch.stack([steps[..., 0].sum(1), (before + steps[..., 1]).logsumexp(1)], dim=1)


TargetRank = Literal["predicted", "runner-up"]
# One of the model's outputs, the same for all inputs of a batch, or one for each of them.
OutputSelector = int | TargetRank | tuple[int, ...]


def compute_probabilities(logits: Tensor, task: Task) -> Tensor:
    """Turn logits into probabilities; a regression's value and a single similarity stay as they are."""
    if task == "multi_label":
        return logits.sigmoid()
    return logits if is_value_output(logits, task) else logits.softmax(-1)


def is_value_output(logits: Tensor, task: Task) -> bool:
    """Return whether the output is one value (regression, a single similarity), without classes."""
    return task == "regression" or (task == "similarity" and logits.shape[-1] == 1)


@dataclass(frozen=True)
class TargetSpec:
    """The requested target, before any logits are known."""

    main: "OutputSelector"
    against: "OutputSelector | None"
    of: OutputScale

    def __post_init__(self) -> None:
        if self.of not in ("logit", "probability"):
            raise BadParameter(f"of must be 'logit' or 'probability'. Got {self.of!r}.")

    @classmethod
    def parse(cls, target: Any, labels: tuple[str, ...], of: OutputScale = "logit") -> "TargetSpec":
        """Parse a label, an index, "predicted", "runner-up", or a contrast of two of these."""
        if isinstance(target, str) and target not in labels and ":" in target:
            target = _parse_contrast(target, labels)
        if not isinstance(target, tuple):
            return cls("predicted" if target is None else _parse_output(target, labels), None, of)
        if len(target) != 2:
            raise UnknownTarget(
                f"A contrast has two labels, like {labels[:2]}. Got {len(target)}: {target!r}."
            )
        main, against = (_parse_output(output, labels) for output in target)
        if main == against:
            raise UnknownTarget(f"A contrast needs two different labels. Got {target!r}.")
        return cls(main, against, of)

    @classmethod
    def from_targets(cls, targets: Sequence[Target]) -> "TargetSpec":
        """Return one target for a batch, with an output of its own for each input."""
        others = tuple(target.against.index for target in targets if target.against is not None)
        return cls(tuple(target.index for target in targets), others or None, targets[0].of)

    def resolve(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the indices of the output and of the contrasted output, each (batch,)."""
        found: list[Tensor] = []
        for output in (self.main,) if self.against is None else (self.main, self.against):
            if isinstance(output, tuple):
                found.append(torch.tensor(output, device=logits.device))
            elif isinstance(output, int):
                found.append(torch.full(logits.shape[:1], output, device=logits.device))
            else:
                found.append(rank_labels(logits)[:, 0 if output == "predicted" else 1])
        return found[0], None if self.against is None else found[1]


def rank_labels(logits: Tensor, rest: bool = False) -> Tensor:
    """Return the labels from the likeliest down; a tie goes to the first label on every machine.

    A last column that is the `rest`, all unnamed outputs together, is no label.
    """
    named = logits[..., :-1] if rest else logits
    return named.argsort(dim=-1, descending=True, stable=True)


def _parse_contrast(contrast: str, labels: tuple[str, ...]) -> tuple[str, str]:
    """Split "a:b" into two labels; labels may contain colons, so every colon is tried."""
    cuts = [i for i, character in enumerate(contrast) if character == ":"]
    pairs = [(contrast[:i], contrast[i + 1 :]) for i in cuts]
    return next((pair for pair in pairs if all(label in labels for label in pair)), pairs[0])


def _parse_output(output: Any, labels: tuple[str, ...]) -> int | TargetRank:
    if isinstance(output, str):
        if output in labels:
            return labels.index(output)
        if output == "predicted":
            return "predicted"
        if output == "runner-up" and len(labels) > 1:
            return "runner-up"
        if re.fullmatch(r"-?[0-9]+", output):
            output = int(output)
    try:  # numpy's and torch's integers, too
        number = -1 if isinstance(output, bool) else index(output)
    except TypeError:
        number = -1
    if 0 <= number < len(labels):
        return number
    if isinstance(output, str) and output == "runner-up":
        raise UnknownTarget("There is no runner-up: the model has one output.")
    known = ", ".join(f"{i} {label!r}" for i, label in enumerate(labels[:20]))
    more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    raise UnknownTarget(
        f"There is no target {output!r}.{suggest_name(str(output), list(labels))} The labels are {known}{more}; "
        "also 'predicted' and 'runner-up'."
    )


@dataclass(frozen=True)
class ResolvedTargets:
    """The targets of one batch, resolved against its logits."""

    main: Tensor  # (batch,)
    against: Tensor | None
    spec: TargetSpec
    task: Task

    def value(self, logits: Tensor, of: OutputScale | None = None) -> Tensor:
        """Return the explained scalar of each row, (batch,), in float32 at least: float16 is coarse near 1."""
        outputs = logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if (of or self.spec.of) == "probability":
            outputs = compute_probabilities(logits, self.task)
        value = outputs.gather(1, self.main[:, None]).squeeze(1)
        if self.against is not None:
            value = value - outputs.gather(1, self.against[:, None]).squeeze(1)
        return value

    def slope(self, logits: Tensor, of: OutputScale | None = None) -> Tensor:
        """Return the gradient of the scalar by the logits, (batch, labels), in float32 at least."""
        with torch.enable_grad():
            wide = logits.detach().to(torch.promote_types(logits.dtype, torch.float32))
            wide.requires_grad_()
            (slope,) = torch.autograd.grad(self.value(wide, of).sum(), wide)
        return slope

    def compute_gradient_scale(
        self, logits: Tensor, of: OutputScale | None = None
    ) -> Tensor | None:
        """Return powers of two, (batch,), that scale the gradient of a probability to about 1.

        The probability of a confident model has a gradient of a thousandth and less, and the values
        behind it underflow in float16. So the target is multiplied before the backward pass, and its
        gradients are divided in float32 afterwards, both exactly. None where no scale is needed.
        """
        if logits.dtype != torch.float16 or (of or self.spec.of) == "logit":
            return None
        steepest = self.slope(logits, of).abs().amax(1)
        exponent = torch.frexp(steepest).exponent.clamp(-100, 0)
        return torch.ldexp(torch.ones_like(steepest), -exponent)

    def at(self, rows: Tensor) -> "ResolvedTargets":
        """Return the targets of the given rows, in that order."""
        against = None if self.against is None else self.against[rows]
        return ResolvedTargets(self.main[rows], against, self.spec, self.task)

    def cpu(self) -> "ResolvedTargets":
        """Return a copy on the CPU, so that rows are described without waiting for the device."""
        against = None if self.against is None else self.against.cpu()
        return ResolvedTargets(self.main.cpu(), against, self.spec, self.task)

    def describe_rows(
        self, labels: Sequence[Sequence[str]], of: OutputScale | None = None
    ) -> list[Target]:
        """Return the named target of each row, by the labels of each."""
        of = of or self.spec.of
        others = [None] * len(labels) if self.against is None else self.against.tolist()
        return [
            Target(
                names[main],
                main,
                None if other is None else Target(names[other], other, None, of),
                of,
            )
            for names, main, other in zip(labels, self.main.tolist(), others, strict=True)
        ]


def check_finite(logits: Tensor, what: str) -> Tensor:
    """Return `logits`, or raise NotFinite if the model gave NaN or infinity."""
    if not torch.isfinite(logits).all():
        bad = logits[~torch.isfinite(logits).all(-1)][0].tolist()
        raise NotFinite(
            f"The {what} are not finite: {bad}. Check the weights, or try dtype='float32' or 'float64'."
        )
    return logits


def build_predictions(
    logits: Tensor, task: Task, labels: tuple[str, ...], items: Sequence[EncodedInput] = ()
) -> list[Prediction]:
    """Return the prediction of each row; inputs with labels of their own are named by these."""
    rest = bool(items) and items[0].rest
    own = [item.labels or labels for item in items] or [labels] * len(logits)
    if any(logits.shape[1] != len(names) for names in own):
        raise NoHead(
            f"The model gives {logits.shape[1]} outputs, its configuration names {len(labels)} labels. "
            "Set num_labels and id2label to fit."
        )
    shares = compute_probabilities(logits.double(), task).tolist()
    result = []
    order = rank_labels(logits, rest)[:, 0].tolist()
    rows = zip(order, logits.double().tolist(), shares, own, strict=True)
    for number, (best, values, row, names) in enumerate(rows):
        reading = items[number].reading if items else None
        if isinstance(reading, ClassReadout) and reading.beside:
            result.append(_predict_best_option(reading, values, names))
            continue
        probs = {} if is_value_output(logits, task) else dict(zip(names, row, strict=True))
        result.append(Prediction(names[best], best, probs.get(names[best]), probs, tuple(values)))
    return result


def _predict_best_option(
    reading: ClassReadout, values: list[float], names: Sequence[str]
) -> Prediction:
    """Return the best of several options of which an input is one; the logits stay its own."""
    others, other_logits = zip(*reading.beside, strict=True)
    labels = (names[0], *others)
    logits = torch.tensor([[values[0], *other_logits]], dtype=torch.float64)
    shares = logits.softmax(-1)[0].tolist()
    best = int(rank_labels(logits)[0, 0])
    probs = dict(zip(labels, shares, strict=True))
    return Prediction(labels[best], best, shares[best], probs, tuple(values))
