"""Which scalar is explained: one output, or the difference of two, as logit or as probability."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Literal

import torch
from torch import Tensor

from whence.core.errors import BadParameter, NoHead, NotFinite, UnknownTarget, did_you_mean
from whence.core.types import Of, Prediction, Target, Task
from whence.data import Encoded
from whence.data.reading import Column

Rank = Literal["predicted", "runner-up"]
# One of the model's outputs, the same for all inputs of a batch, or one for each of them.
Output = int | Rank | tuple[int, ...]


def probabilities(logits: Tensor, task: Task) -> Tensor:
    """Turn logits into probabilities; a regression's value stays what it is, and so does a single similarity."""
    if task == "multi_label":
        return logits.sigmoid()
    return logits if is_value(logits, task) else logits.softmax(-1)


def is_value(logits: Tensor, task: Task) -> bool:
    """Say whether the output is a value, with nothing to choose it from."""
    return task == "regression" or (task == "similarity" and logits.shape[-1] == 1)


@dataclass(frozen=True)
class TargetSpec:
    """What the user asked for, before any logits are known."""

    main: "Output"
    against: "Output | None"
    of: Of

    def __post_init__(self) -> None:
        if self.of not in ("logit", "probability"):
            raise BadParameter(f"of must be 'logit' or 'probability'. Got {self.of!r}.")

    @classmethod
    def parse(cls, asked: Any, labels: tuple[str, ...], of: Of = "logit") -> "TargetSpec":
        """Read a label, an index, "predicted", "runner-up", or a contrast of two of these."""
        if isinstance(asked, str) and asked not in labels and ":" in asked:
            asked = _contrast(asked, labels)
        if not isinstance(asked, tuple):
            return cls("predicted" if asked is None else _output(asked, labels), None, of)
        if len(asked) != 2:
            raise UnknownTarget(
                f"A contrast has two labels, like {labels[:2]}. Got {len(asked)}: {asked!r}."
            )
        main, against = (_output(one, labels) for one in asked)
        if main == against:
            raise UnknownTarget(f"A contrast needs two different labels. Got {asked!r}.")
        return cls(main, against, of)

    def resolve(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the index of the output and of the one it is held against, each (batch,)."""
        against = None if self.against is None else _resolved(self.against, logits)
        return _resolved(self.main, logits), against


def ranking(logits: Tensor, rest: bool = False) -> Tensor:
    """Return the labels from the likeliest down; a tie goes to the first label on every machine.

    Where the last column is the `rest`, all that has no name of its own, it is no label.
    """
    named = logits[..., :-1] if rest else logits
    return named.argsort(dim=-1, descending=True, stable=True)


def _resolved(output: Output, logits: Tensor) -> Tensor:
    if isinstance(output, tuple):
        return torch.tensor(output, device=logits.device)
    if isinstance(output, int):
        return torch.full(logits.shape[:1], output, device=logits.device)
    return ranking(logits)[:, 0 if output == "predicted" else 1]


def _contrast(asked: str, labels: tuple[str, ...]) -> tuple[str, str]:
    """Cut "a:b" into two; labels may hold colons themselves, so every cut is tried."""
    cuts = [i for i, character in enumerate(asked) if character == ":"]
    pairs = [(asked[:i], asked[i + 1 :]) for i in cuts]
    return next((pair for pair in pairs if all(one in labels for one in pair)), pairs[0])


def _whole(value: Any) -> int | None:
    """Take any kind of integer, numpy's and torch's too; a truth value is none."""
    try:
        return None if isinstance(value, bool) else index(value)
    except TypeError:
        return None


def _output(asked: Any, labels: tuple[str, ...]) -> int | Rank:
    if isinstance(asked, str):
        if asked in labels:
            return labels.index(asked)
        if asked == "predicted":
            return "predicted"
        if asked == "runner-up" and len(labels) > 1:
            return "runner-up"
        if re.fullmatch(r"-?[0-9]+", asked):
            asked = int(asked)
    number = _whole(asked)
    if number is not None and 0 <= number < len(labels):
        return number
    if isinstance(asked, str) and asked == "runner-up":
        raise UnknownTarget("There is no runner-up: the model has one output.")
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
        """Return the explained scalar of each row, (batch,), in float32 at least: half precision ends near 1."""
        outputs = logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if (of or self.spec.of) == "probability":
            outputs = probabilities(logits, self.task)
        value = outputs.gather(1, self.main[:, None]).squeeze(1)
        if self.against is not None:
            value = value - outputs.gather(1, self.against[:, None]).squeeze(1)
        return value

    def slope(self, logits: Tensor, of: Of | None = None) -> Tensor:
        """Return the derivative of the explained scalar by the logits, (batch, labels), in float32 at least."""
        with torch.enable_grad():
            wide = logits.detach().to(torch.promote_types(logits.dtype, torch.float32))
            wide.requires_grad_()
            (slope,) = torch.autograd.grad(self.value(wide, of).sum(), wide)
        return slope

    def lift(self, logits: Tensor, of: Of | None = None) -> Tensor | None:
        """Return powers of two, (batch,), that bring the slope of a probability to about 1; None: nothing to lift.

        A sure model has a slope of a thousandth and less, and what follows from it is lost to float16. So the target
        is lifted before the backward pass, and its gradients are brought down in float32 afterwards, both exactly.
        """
        if logits.dtype != torch.float16 or (of or self.spec.of) == "logit":
            return None
        steepest = self.slope(logits, of).abs().amax(1)
        exponent = torch.frexp(steepest).exponent.clamp(-100, 0)
        return torch.ldexp(torch.ones_like(steepest), -exponent)

    def at(self, rows: Tensor) -> "Targets":
        """Return the targets of some rows, in their order and number."""
        against = None if self.against is None else self.against[rows]
        return Targets(self.main[rows], against, self.spec, self.task)

    def cpu(self) -> "Targets":
        """Return the same, to be described row by row without a wait for the device each time."""
        against = None if self.against is None else self.against.cpu()
        return Targets(self.main.cpu(), against, self.spec, self.task)

    def describe(self, row: int, labels: Sequence[str], of: Of | None = None) -> Target:
        """Return the target of one row in words; `of` is what a method explains, if not what was asked for."""
        against, of = None, of or self.spec.of
        if self.against is not None:
            other = int(self.against[row])
            against = Target(labels[other], other, None, of)
        main = int(self.main[row])
        return Target(labels[main], main, against, of)


def finite(logits: Tensor, what: str) -> Tensor:
    """Return `logits`, or say that the model gave NaN or infinity."""
    if not torch.isfinite(logits).all():
        bad = logits[~torch.isfinite(logits).all(-1)][0].tolist()
        raise NotFinite(
            f"The {what} are not finite: {bad}. Check the weights, or try dtype='float32' or 'float64'."
        )
    return logits


def predictions(
    logits: Tensor, task: Task, labels: tuple[str, ...], items: Sequence[Encoded] = ()
) -> list[Prediction]:
    """Describe what the model said about each row; where the `items` have labels of their own, by these."""
    rest = bool(items) and items[0].rest
    own = [item.labels or labels for item in items] or [labels] * len(logits)
    if any(logits.shape[1] != len(names) for names in own):
        raise NoHead(
            f"The model gives {logits.shape[1]} outputs, its configuration names {len(labels)} labels. "
            "Set num_labels and id2label to fit."
        )
    shares = probabilities(logits.double(), task).tolist()
    result = []
    order = ranking(logits, rest)[:, 0].tolist()
    rows = zip(order, logits.double().tolist(), shares, own, strict=True)
    for number, (best, values, row, names) in enumerate(rows):
        if items and (chosen := _chosen(items[number], values, names)) is not None:
            result.append(chosen)
            continue
        known = {} if is_value(logits, task) else dict(zip(names, row, strict=True))
        result.append(Prediction(names[best], best, known.get(names[best]), known, tuple(values)))
    return result


def _chosen(item: Encoded, values: list[float], names: Sequence[str]) -> Prediction | None:
    """Return the best answer where an input is one question of several; the logits stay this question's own."""
    if not isinstance(item.reading, Column) or not item.reading.beside:
        return None
    others, weighed = zip(*item.reading.beside, strict=True)
    labels = (names[0], *others)
    logits = torch.tensor([[values[0], *weighed]], dtype=torch.float64)
    shares = logits.softmax(-1)[0].tolist()
    best = int(ranking(logits)[0, 0])
    known = dict(zip(labels, shares, strict=True))
    return Prediction(labels[best], best, shares[best], known, tuple(values))


"""From what a model gives to the logits that are explained, as each input's reading says."""

from typing import Any

import torch
from torch import Tensor

from whence.core.errors import NoHead
from whence.data import Batch
from whence.data.reading import AtPlace, Column, Continuation, Entity, Reading, Similarity, Span


def beside(batch: Batch) -> dict[str, Any]:
    """Return what a model is given beside the inputs: the texts that a picture is held against."""
    reading = batch.items[0].reading
    return dict(reading.beside) if isinstance(reading, Similarity) else {}


def outputs(output: Any, batch: Batch) -> dict[str, Tensor]:
    """Return what is read of all that a model gives."""
    reading = batch.items[0].reading
    names = ("start_logits", "end_logits") if isinstance(reading, Span) else ("logits",)
    names = (reading.output,) if isinstance(reading, Similarity) else names
    return {name: getattr(output, name) for name in names}


def tail(batch: Batch) -> int | None:
    """Return how many of the last places are read, padding among them; None where others may be.

    A language model's vocabulary is large, and its logits at every place of a prompt would cost more than all else.
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


def read(output: Any, batch: Batch, model: str) -> Tensor:
    """Return the logits to explain, (batch, labels); `model` is its name, for an error."""
    reading = batch.items[0].reading
    if isinstance(reading, Similarity):
        found: Tensor = getattr(output, reading.output)
        return found
    if isinstance(reading, Span):
        return torch.stack([_span(output, batch, row) for row in range(len(batch))])
    logits = getattr(output, "logits", None)
    flat = reading is None or isinstance(reading, Column)
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
    if isinstance(reading, Column):
        own = zip(logits, batch.items, strict=True)
        return torch.stack([_named(row, [_column(item.reading)]) for row, item in own])
    # Where only the last places were asked for, those before them are missing.
    missing = batch.inputs["input_ids"].shape[1] - logits.shape[1] if tail(batch) else 0
    lengths = [(len(item.answer) or len(item)) - missing for item in batch.items]
    rows = [
        _row(logits[row, :length], item.reading)
        for row, (item, length) in enumerate(zip(batch.items, lengths, strict=True))
    ]
    return torch.stack(rows)


def _column(reading: Reading | None) -> int:
    assert isinstance(reading, Column)
    return reading.index


def _row(logits: Tensor, reading: Reading | None) -> Tensor:
    """Read one input's logits, (tokens, outputs)."""
    if isinstance(reading, Entity):
        columns = torch.tensor(reading.columns, device=logits.device)
        return logits[list(reading.places)].gather(1, columns).mean(0)
    if isinstance(reading, Continuation):
        return _continuation(logits, reading)
    assert isinstance(reading, AtPlace)
    own = logits[reading.place]
    return _named(own, list(reading.ids)) if reading.ids else own


def _named(logits: Tensor, ids: list[int]) -> Tensor:
    """Return some of the logits, and of all others the one that stands for them together."""
    others = torch.ones_like(logits, dtype=torch.bool)
    others[ids] = False
    return torch.cat([logits[ids], logits[others].logsumexp(0, keepdim=True)])


def _span(output: Any, batch: Batch, row: int) -> Tensor:
    """Return the logits of some answers' starts, ends or both, and that of all other places together."""
    reading = batch.items[row].reading
    assert isinstance(reading, Span)
    length = len(batch.items[row].answer) or len(batch.items[row])
    start, end = output.start_logits[row, :length], output.end_logits[row, :length]
    spans = [(reading.start, reading.end), *reading.others]
    if reading.part != "span":
        at_start = reading.part == "start"
        return _named(start if at_start else end, [span[0 if at_start else 1] for span in spans])
    # Start and end are drawn apart: an answer is a pair of places, any with any.
    pairs = (start[:, None] + end).flatten()
    return _named(pairs, [first * length + last for first, last in spans])


def _continuation(logits: Tensor, reading: Continuation) -> Tensor:
    """Return the log-probability of an answer, and of any other."""
    steps = torch.stack(
        [_named(logits[place], [i]) for place, i in zip(reading.places, reading.ids, strict=True)]
    ).log_softmax(-1)
    before = steps[:, 0].cumsum(0) - steps[:, 0]  # of all that came before, as foretold
    return torch.stack([steps[:, 0].sum(), (before + steps[:, 1]).logsumexp(0)])
