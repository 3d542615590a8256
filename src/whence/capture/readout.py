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
