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
