"""What is on trial: a model, examples, and where in the model attention is looked at."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from whence.audit.replayed import Replayed
from whence.audit.site import Site, sites
from whence.capture import TargetSpec, Trace, probabilities, trace
from whence.capture.changed.replay import Replay, Rows
from whence.capture.memory.fitting import fitting_batches
from whence.core.errors import NoHead, NotCapturable
from whence.data import Batch, Encoded, Policy, collate
from whence.data.sets.examples import Example
from whence.explainer import Explainer
from whence.explainer.sharing import Sharing
from whence.models import Loaded

if TYPE_CHECKING:
    from whence.audit.workshop import Workshop

Numbers = NDArray[np.float64]
# What of the weights may be moved: those of the text, or all that the model gives.
Special = Literal["keep", "free"]

# Cells (rows x copies x tokens) that are replayed at a time: all their values are kept.
_CELLS = {"cpu": 8192}
_CELLS_ELSEWHERE = 1 << 16


@dataclass(frozen=True, eq=False)
class _Seen:
    """One pass over all examples: what the model says and where it looks."""

    probabilities: Numbers  # (examples, labels)
    attention: list[Numbers]  # each (layers, heads, tokens): the rows that are read
    pooled: bool  # one attention over the tokens, no stack of layers
    reads: int  # the most rows that a prediction reads


@dataclass(eq=False)
class Subject:
    """A model and the examples it is examined on."""

    explainer: Explainer
    examples: Sequence[Example]
    items: Sequence[Encoded]
    truth: NDArray[np.int64] | None  # the true label of each example
    site: str = "last"
    special: Special = "keep"
    seed: int = 0
    workshop: "Workshop | None" = None
    tick: Callable[[float], None] = lambda _: None  # called with forward passes done
    replay: float = 1.0  # what a pass from the attention on takes, in forward passes
    memo: dict[Any, Any] = field(default_factory=dict)  # what experiments share

    @property
    def loaded(self) -> Loaded:
        """The model with what its configuration and tokenizer say about it."""
        return self.explainer.loaded

    def kin(self, loaded: Loaded) -> "Subject":
        """Return another model, with the same tokenizer, on the same examples."""
        return replace(self, explainer=Explainer(loaded), workshop=None, memo={})

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def sites(self) -> tuple[Site, ...]:
        """Where attention is looked at; verdicts are about the first."""
        layers, heads, _ = self._seen.attention[0].shape
        return sites(self.site, layers, heads, pooled=self._seen.pooled)

    @property
    def probabilities(self) -> Numbers:
        """What the model says, (examples, labels)."""
        return self._seen.probabilities

    @property
    def predicted(self) -> NDArray[np.int64]:
        """The likeliest label of each example."""
        best: NDArray[np.int64] = self.probabilities.argmax(1)
        return best

    @cached_property
    def content(self) -> list[NDArray[np.int64]]:
        """The places of the tokens that attention is compared on: those of the text, or of the passage if one is
        asked about.
        """
        asked = bool(getattr(self.loaded.model.config, "query", False))
        return [
            np.array(
                [
                    place
                    for place, token in enumerate(item.tokens)
                    if not token.special and not (asked and token.segment)
                ],
                dtype=np.int64,
            )
            for item in self.items
        ]

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """Where the model has these tokens: of a picture, after what it puts before the patches."""
        picture = self.items[0].picture
        return self.content if picture is None else [one + picture.lead for one in self.content]

    def names(self, number: int, places: Sequence[int]) -> list[str]:
        """Name tokens of an example by the places where the model has them."""
        item = self.items[number]
        lead = 0 if item.picture is None else item.picture.lead
        own = [*["(added by the model)"] * lead, *(token.text for token in item.tokens)]
        return [own[place] for place in places]

    def attention(self, site: Site | None = None) -> list[Numbers]:
        """Return the weights over the content of each example: the mean of the heads, adding up to 1."""
        site = site or self.sites[0]
        found = []
        for weights, places in zip(self._seen.attention, self.places, strict=True):
            chosen = weights[list(site.layers)]
            chosen = chosen if site.head is None else chosen[:, site.head, None]
            mean = chosen.mean((0, 1))[places]
            total = mean.sum()
            # Where the text gets nothing at all, nothing in it gets more than the rest.
            found.append(mean / total if total > 0 else np.full(len(mean), 1 / len(mean)))
        return found

    def attention_by_head(self) -> list[Numbers]:
        """Return the weights over the content of each example, (layers, heads, content)."""
        return [
            weights[:, :, places]
            for weights, places in zip(self._seen.attention, self.places, strict=True)
        ]

    def in_batches(self, kind: str, do: Callable[[Sequence[int], Batch], None]) -> None:
        """Do something with the examples in batches of like length that fit into the memory, and their numbers.

        `kind` names it: what does not fit in one kind may in another.
        """
        work = fitting_batches(self.loaded.model, kind, self.items, self.policy)
        for chosen in work:
            with work.trying(chosen):
                do(chosen, self.collated([self.items[i] for i in chosen]))

    def collated(self, items: Sequence[Encoded]) -> Batch:
        """Make a batch of some inputs."""
        return collate(items, pad_id=self.loaded.pad_id, device=self.loaded.device)

    @cached_property
    def policy(self) -> Policy:
        """What may share a batch."""
        return Sharing(self.loaded).policy(self.items, tests=True)

    def replays(self, at: Sequence[Site] | None = None, copies: int = 1) -> Iterator[Replayed]:
        """Yield all examples at some sites, by default the first: batches whose attention can be replaced.

        Each row can be answered about in several copies at once. Layers may share a batch, and so may heads.
        """
        chosen = self.sites[:1] if at is None else at
        cells = _CELLS.get(self.loaded.device.type, _CELLS_ELSEWHERE) // copies
        # A batch is run again from its lowest layer on: layers share one only where one alone would not keep the
        # machine busy; on a CPU a few rows do.
        fills = self.loaded.device.type in _CELLS or sum(map(len, self.items)) > cells
        by = _layers if fills else _shape
        for _, alike in groupby(sorted(chosen, key=by), by):
            rows = [(number, site) for site in alike for number in range(len(self))]
            yield from self._replays(rows, cells, copies)

    def _replays(
        self, rows: Sequence[tuple[int, Site]], cells: int, copies: int
    ) -> Iterator[Replayed]:
        policy = replace(
            self.policy,
            size=1 if self.policy.size == 1 else max(1, cells),
            cells=max(1, cells // max(1, self._seen.reads // 8)),
        )
        items = [self.items[number] for number, _ in rows]
        work = fitting_batches(self.loaded.model, f"replays of {copies}", items, policy)
        for some in work:
            made = None
            with work.trying(some):
                made = self._replayed([rows[i] for i in some], copies)
            if made is not None:
                yield made

    def _replayed(self, rows: Sequence[tuple[int, Site]], copies: int) -> Replayed:
        numbers = [number for number, _ in rows]
        every = [self.items[number] for number in numbers for _ in range(copies)]
        batch = self.collated(every)
        layers = sorted({layer for _, site in rows for layer in site.layers})
        replay = Replay(self.loaded.model, batch, layers, self.loaded.task)
        movable = torch.zeros(len(rows), batch.real.shape[1], dtype=torch.bool)
        for row, number in enumerate(numbers):
            if self.special == "free" and not self._seen.pooled:
                movable[row, : batch.real.shape[1]] = batch.real[row * copies].cpu()
            else:
                movable[row, self.places[number]] = True
        return Replayed(
            replay,
            batch,
            numbers=numbers,
            sites=[site for _, site in rows],
            copies=copies,
            movable=movable.to(batch.real.device),
            task=self.loaded.task,
        )

    @cached_property
    def _seen(self) -> _Seen:
        loaded = self.loaded
        said: list[Any] = [None] * len(self)
        looked: list[Any] = [None] * len(self)
        pooled, reads = False, 1

        def look(chosen: Sequence[int], batch: Batch) -> None:
            nonlocal pooled, reads
            seen = trace(
                loaded.model,
                batch,
                {"attention"},
                TargetSpec("predicted", None, "logit"),
                loaded.task,
            )
            if seen.logits.shape[1] != len(loaded.labels):
                raise NoHead(
                    f"The model gives {seen.logits.shape[1]} outputs, its configuration names {len(loaded.labels)} "
                    "labels. Set num_labels and id2label to fit."
                )
            shares = probabilities(seen.logits.double(), loaded.task).cpu().numpy()
            weights, pooled = _read(seen).cpu().numpy(), seen.pooled
            reads = max(reads, Rows.of(seen.rows).places.shape[1])
            real = batch.real.cpu().numpy()
            for row, number in enumerate(chosen):
                said[number] = shares[row]
                looked[number] = weights[row][:, :, real[row]]
            self.tick(len(chosen))

        self.in_batches("attention", look)
        return _Seen(np.stack(said), looked, pooled, reads)


def _shape(site: Site) -> tuple[int, bool]:
    return len(site.layers), site.head is not None


def _layers(site: Site) -> tuple[int, bool, tuple[int, ...]]:
    return *_shape(site), site.layers


def _read(seen: Trace) -> torch.Tensor:
    """Return the weights that the prediction reads, of all layers and heads, (batch, layers, heads, tokens)."""
    if seen.refusal is not None and not seen.pooled:
        reason = str(seen.refusal).partition(" Use ")[0]
        raise NotCapturable(
            f"{reason} An audit needs the row of attention that the prediction reads: give an encoder or a decoder "
            "with a classification head, or a model made by whence train-attention."
        )
    layers, rows = seen.read_layers, Rows.of(seen.rows)
    read = torch.stack([rows.weights(layer) for layer in layers], dim=1).double()
    return torch.einsum("blhrk,br->blhk", read, rows.shares.to(read))


"""Examples whose attention can be replaced, several at a time, each at a site of its own and in several copies."""

from collections.abc import Sequence

import torch
from torch import Tensor

from whence.audit.site import Site
from whence.capture import probabilities
from whence.capture.changed.replay import Replay, Swap
from whence.core.errors import NotCapturable
from whence.core.types import Task
from whence.data import Batch


class Replayed:
    """A batch of (example, site), and the model's answers when their attention is another."""

    def __init__(
        self,
        replay: Replay,
        batch: Batch,
        *,
        numbers: Sequence[int],
        sites: Sequence[Site],
        copies: int,
        movable: Tensor,
        task: Task,
    ) -> None:
        """`replay` holds each row `copies` times, one after the other; `movable` is (rows, tokens)."""
        self.numbers = list(numbers)
        self.sites = list(sites)
        self.batch = batch
        self.copies = copies
        self._task = task
        self._replay = replay
        self._layers = sorted({layer for site in sites for layer in site.layers})
        first = torch.arange(0, len(numbers) * copies, copies, device=movable.device)
        self.base = self._answers(replay.logits[first])  # (rows, labels)
        self.shares = replay.rows.shares[first]  # (rows, reads)
        own = torch.stack([self._own(site, int(at)) for site, at in zip(sites, first, strict=True)])
        # In half precision two ways to the same distribution would not meet.
        self.own = own.to(_wide(own))  # (rows, channels, reads, tokens)
        reach = [self._reach(site, int(at)) for site, at in zip(sites, first, strict=True)]
        self.movable = _several(movable & torch.stack(reach))  # (rows, tokens)

    def __len__(self) -> int:
        return len(self.numbers)

    def __call__(self, weights: Tensor) -> Tensor:
        """Return the probabilities, (rows, copies, labels), with other attention.

        `weights` is (rows, copies, channels, reads, tokens): each copy of a row has its own.
        """
        flat = weights.flatten(0, 1)  # (rows x copies, channels, reads, tokens)
        swaps = {layer: self._swap(layer, flat) for layer in self._layers}
        found = self._answers(self._replay(swaps))
        return found.reshape(len(self), self.copies, found.shape[1])

    def _answers(self, logits: Tensor) -> Tensor:
        return probabilities(logits.to(_wide(logits)), self._task)

    def _reach(self, site: Site, at: int) -> Tensor:
        """Say which places all rows that are read may attend to, in all layers of a site, (tokens,)."""
        read = self._replay.rows.are_read[at]
        return torch.stack([self._replay.reach[one][at][read].all(0) for one in site.layers]).all(0)

    def _own(self, site: Site, at: int) -> Tensor:
        every = torch.cat([self._replay.own[layer][at] for layer in site.layers])
        return every if site.head is None else every[site.head, None]

    def _swap(self, layer: int, weights: Tensor) -> Swap:
        """Put the weights of one layer together, for the rows that have it among their layers."""
        own = self._replay.own[layer]
        heads = own.shape[1]
        rows = [row for row, site in enumerate(self.sites) if layer in site.layers]
        inputs = torch.tensor(
            [row * self.copies + copy for row in rows for copy in range(self.copies)],
            device=weights.device,
        )
        given = weights if len(inputs) == len(weights) else weights[inputs]
        if self.sites[0].head is None:
            start = self.sites[rows[0]].layers.index(layer) * heads
            return Swap(inputs, given[:, start : start + heads].to(own.dtype))
        chosen = torch.tensor([self.sites[row].head for row in rows], device=weights.device)
        is_it = torch.nn.functional.one_hot(chosen, heads).bool().repeat_interleave(self.copies, 0)
        full = torch.where(is_it[:, :, None, None], given.to(own.dtype), own[inputs])
        return Swap(inputs, full)


def _wide(values: Tensor) -> torch.dtype:
    return torch.promote_types(values.dtype, torch.float32)


def _several(movable: Tensor) -> Tensor:
    """Return the places again if every row has several: one weight cannot be exchanged with itself."""
    if (movable.sum(1) > 1).all():
        return movable
    raise NotCapturable(
        "The rows that the prediction reads attend through windows that have no two tokens of a text in common, so "
        "their weights cannot be exchanged alike. Choose one layer that sees everything: site=..., --site LAYER."
    )


"""Where in a model attention is looked at and replaced: a layer, a head of it, or all layers at once."""

import re
from dataclasses import dataclass

from whence.core.errors import BadParameter

WORDS = ("last", "all", "layers", "heads")
_ALLOWED = (
    "last (the last layer, all its heads), all (all layers at once), layers (each layer by itself), heads (each head "
    "by itself), a layer such as 3, or a head of it such as 3.0"
)


@dataclass(frozen=True)
class Site:
    """Some layers and all their heads, or one head of one layer."""

    layers: tuple[int, ...]
    head: int | None = None
    name: str = ""

    def rest(self, layers: int, heads: int) -> str:
        """Name what other attention a model of so many layers and heads has, if it has some."""
        many, kind = layers * heads - 1, "head"
        if self.head is None:
            many, kind = layers - len(self.layers), "layer"
        return f"the other {f'{many} {kind}s' if many > 1 else kind}" if many else ""


def check_site(asked: str) -> None:
    """Refuse what can be no site of any model, before one is loaded."""
    if asked not in WORDS and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", asked):
        raise BadParameter(f"There is no site {asked!r}. Allowed: {_ALLOWED}.")


def sites(asked: str, layers: int, heads: int, *, pooled: bool) -> tuple[Site, ...]:
    """Return the sites of a model, the one that verdicts are about first.

    With "layers" and "heads" that is the last layer, and the others come after it. A model with one attention over
    its tokens, as those of Jain & Wallace, has one site.
    """
    check_site(asked)
    if pooled:
        return (Site((0,), None, "the attention"),)
    last = _layer(layers - 1)
    if asked == "last":
        return (last,)
    if asked == "all":
        return (Site(tuple(range(layers)), None, "all layers"),)
    if asked == "layers":
        return (last, *(_layer(at) for at in range(layers - 1)))
    if asked == "heads":
        return (last, *(_head(at, head) for at in range(layers) for head in range(heads)))
    layer, _, head = asked.partition(".")
    at = int(layer) + (layers if int(layer) < 0 else 0)
    if not 0 <= at < layers or (head and int(head) >= heads):
        raise BadParameter(
            f"There is no site {asked!r}: the model has the layers 0 to {layers - 1}, each with the heads 0 to "
            f"{heads - 1}. Allowed: {_ALLOWED}."
        )
    return (_head(at, int(head)) if head else _layer(at),)


def _layer(at: int) -> Site:
    return Site((at,), None, f"layer {at}")


def _head(at: int, head: int) -> Site:
    return Site((at,), head, f"layer {at}, head {head}")
