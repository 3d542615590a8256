"""The model under audit with its examples, its attention sites, and batches with replaced attention.

An attention site is a layer, a head of it, or all layers at once. A replay batch holds several examples, each
at its own site and in several copies, and computes the predictions with other attention weights.
"""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from whence.core.errors import BadParameter, NoHead, NotCapturable
from whence.data.batches import Batch, BatchRules, collate
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import choose_batch_policy, map_batches
from whence.models.model import LoadedModel
from whence.tracing.attention_layer import widen
from whence.tracing.out_of_memory import build_retry_batches
from whence.tracing.replay import AttentionReplacement, AttentionReplay, ReadRows
from whence.tracing.target import TargetSpec, compute_probabilities
from whence.tracing.trace import run_traced

if TYPE_CHECKING:
    from whence.studies.audit.retrain import Retrainer

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]
T = TypeVar("T")

SITE_NAMES = ("last", "all", "layers", "heads")
_ALLOWED_SITES = (
    "last (the last layer, all its heads), all (all layers at once), layers (each layer by itself), heads (each head "
    "by itself), a layer such as 3, or a head of it such as 3.0"
)


@dataclass(frozen=True)
class AttentionSite:
    """An attention site: layers with all their heads, or one head of one layer."""

    layers: tuple[int, ...]
    head: int | None = None
    name: str = ""

    def describe_rest(self, layers: int, heads: int) -> str:
        """Describe the model's attention outside this site, if there is any."""
        many, kind = layers * heads - 1, "head"
        if self.head is None:
            many, kind = layers - len(self.layers), "layer"
        return f"the other {f'{many} {kind}s' if many > 1 else kind}" if many else ""


def check_site(site: str) -> None:
    """Refuse a string that names no site of any model, before a model is loaded."""
    if site not in SITE_NAMES and not re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", site):
        raise BadParameter(f"There is no site {site!r}. Allowed: {_ALLOWED_SITES}.")


def resolve_sites(site: str, layers: int, heads: int, *, pooled: bool) -> tuple[AttentionSite, ...]:
    """Return the sites of a model, first the one that verdicts are about.

    With "layers" and "heads" that is the last layer, followed by the others. A model with a single attention over its
    tokens, as those of Jain & Wallace, has one site.
    """
    check_site(site)
    if pooled:
        return (AttentionSite((0,), None, "the attention"),)
    by_layer = [AttentionSite((at,), None, f"layer {at}") for at in range(layers)]
    by_head = [
        AttentionSite((at,), head, f"layer {at}, head {head}")
        for at in range(layers)
        for head in range(heads)
    ]
    *rest, last = by_layer
    named: dict[str, tuple[AttentionSite, ...]] = {
        "last": (last,),
        "all": (AttentionSite(tuple(range(layers)), None, "all layers"),),
        "layers": (last, *rest),
        "heads": (last, *by_head),
    }
    if site in named:
        return named[site]
    layer, _, head = site.partition(".")
    at = int(layer) + (layers if int(layer) < 0 else 0)
    if not 0 <= at < layers or (head and int(head) >= heads):
        raise BadParameter(
            f"There is no site {site!r}: the model has the layers 0 to {layers - 1}, each with the heads 0 to "
            f"{heads - 1}. Allowed: {_ALLOWED_SITES}."
        )
    return (by_head[at * heads + int(head)] if head else by_layer[at],)


class ReplayBatch:
    """A batch of (example, site) rows that computes the model's predictions with replaced attention."""

    def __init__(
        self, subject: "AuditSubject", rows: Sequence[tuple[int, AttentionSite]], copies: int
    ) -> None:
        """Run the model on `copies` consecutive copies of each row."""
        self.numbers = [number for number, _ in rows]
        self.sites = [site for _, site in rows]
        self.copies, self._task = copies, subject.loaded.task
        layers = sorted({layer for site in self.sites for layer in site.layers})
        inputs = [subject.items[number] for number in self.numbers for _ in range(copies)]
        batch = subject.build_batch(inputs)
        self._replay = replay = AttentionReplay(subject.loaded.model, batch, layers, self._task)
        first = torch.arange(0, len(inputs), copies, device=batch.device)
        self.base = self._compute_probabilities(replay.logits[first])  # (rows, labels)
        self.shares = replay.rows.shares[first]  # (rows, reads)
        movable = torch.zeros(len(rows), batch.real.shape[1], dtype=torch.bool)
        own, reachable = [], []
        for row, (number, site) in enumerate(rows):
            at = row * copies
            weights = torch.cat([replay.own[layer][at] for layer in site.layers])
            own.append(weights if site.head is None else weights[site.head, None])
            if subject.special == "free" and not subject.is_pooled:
                movable[row] = batch.real[at].cpu()
            else:
                movable[row, subject.places[number]] = True
            # What all read rows may attend to, in all layers of the site.
            read = replay.rows.is_read[at]
            reach = [replay.reach[layer][at][read].all(0) for layer in site.layers]
            reachable.append(torch.stack(reach).all(0))
        # In half precision, equal distributions computed in two ways would differ.
        self.own = widen(torch.stack(own))  # (rows, channels, reads, tokens)
        self.movable = movable.to(batch.device) & torch.stack(reachable)  # (rows, tokens)
        if (self.movable.sum(1) < 2).any():
            raise NotCapturable(
                "The rows that the prediction reads attend through windows that have no two tokens of a text in common, so "
                "their weights cannot be exchanged alike. Choose one layer that sees everything: site=..., --site LAYER."
            )
        # By layer: the rows whose site includes it, and with all their copies as the inputs of the replay.
        self._swapped: dict[int, tuple[list[int], Tensor]] = {}
        for layer in layers:
            own_rows = [row for row, site in enumerate(self.sites) if layer in site.layers]
            copied = [row * copies + copy for row in own_rows for copy in range(copies)]
            self._swapped[layer] = own_rows, torch.tensor(copied, device=batch.device)

    def __len__(self) -> int:
        return len(self.numbers)

    def __call__(self, weights: Tensor) -> Tensor:
        """Return the probabilities, (rows, copies, labels), with other weights, (rows, copies, channels, reads, tokens)."""
        flat = weights.flatten(0, 1)  # (rows x copies, channels, reads, tokens)
        swaps = {layer: self._build_swap(layer, flat) for layer in self._swapped}
        probabilities = self._compute_probabilities(self._replay(swaps))
        return probabilities.reshape(len(self), self.copies, probabilities.shape[1])

    def _compute_probabilities(self, logits: Tensor) -> Tensor:
        return compute_probabilities(widen(logits), self._task)

    def _build_swap(self, layer: int, weights: Tensor) -> AttentionReplacement:
        """Return the replaced weights of one layer, for the rows whose site includes it."""
        own = self._replay.own[layer]
        heads = own.shape[1]
        rows, inputs = self._swapped[layer]
        row_weights = weights if len(inputs) == len(weights) else weights[inputs]
        if self.sites[0].head is None:
            start = self.sites[rows[0]].layers.index(layer) * heads
            return AttentionReplacement(inputs, row_weights[:, start : start + heads].to(own.dtype))
        chosen = torch.tensor([self.sites[row].head for row in rows], device=weights.device)
        is_it = torch.nn.functional.one_hot(chosen, heads).bool().repeat_interleave(self.copies, 0)
        full = torch.where(is_it[:, :, None, None], row_weights.to(own.dtype), own[inputs])
        return AttentionReplacement(inputs, full)


# Weights on special tokens: kept as they are, or moved like those of the text.
Special = Literal["keep", "free"]

# Cells (rows x copies x tokens) replayed at a time: all their activations are in memory.
_CELLS = {"cpu": 8192}
_CELLS_ELSEWHERE = 1 << 16


class _Observation(NamedTuple):
    """What one pass over an example shows."""

    probabilities: Numbers  # (labels,)
    attention: Numbers  # (layers, heads, tokens): the rows that the prediction reads
    rows: Tensor  # (rows,): the share of each row in the prediction
    pooled: bool  # a single attention over the tokens, no stack of layers
    reads: int  # the largest number of rows that a prediction of its batch reads


@dataclass(eq=False)
class AuditSubject:
    """The model under audit, and the examples it is audited on."""

    loaded: LoadedModel
    items: Sequence[EncodedInput]
    truth: NDArray[np.int64] | None  # the true label of each example
    site: str = "last"
    special: Special = "keep"
    seed: int = 0
    workshop: "Retrainer | None" = None
    tick: Callable[[float], None] = lambda _: None  # called with finished forward passes
    replay: float = 1.0  # cost of a replay, in forward passes
    memo: dict[Any, Any] = field(default_factory=dict)  # results shared by experiments

    def with_model(self, loaded: LoadedModel) -> "AuditSubject":
        """Return another model, with the same tokenizer, on the same examples."""
        return replace(self, loaded=loaded, workshop=None, memo={})

    def __len__(self) -> int:
        return len(self.items)

    @property
    def known_truth(self) -> Labels:
        """The true labels, for experiments that are not run without them."""
        assert self.truth is not None, "an experiment that needs labels is not run without"
        return self.truth

    @cached_property
    def sites(self) -> tuple[AttentionSite, ...]:
        """The attention sites of the audit; verdicts are about the first."""
        layers, heads, _ = self._observations[0].attention.shape
        return resolve_sites(self.site, layers, heads, pooled=self.is_pooled)

    @cached_property
    def probabilities(self) -> Numbers:
        """The model's predicted probabilities, (examples, labels)."""
        return np.stack([one.probabilities for one in self._observations])

    @property
    def read_rows(self) -> list[Tensor]:
        """The share of each row of attention in the prediction, by example."""
        return [one.rows for one in self._observations]

    @property
    def predictions(self) -> NDArray[np.int64]:
        """The likeliest label of each example."""
        best: NDArray[np.int64] = self.probabilities.argmax(1)
        return best

    @cached_property
    def content(self) -> list[NDArray[np.int64]]:
        """The positions of each example's content, which attention is compared on: the text; the passage beside a query."""
        has_query = bool(getattr(self.loaded.model.config, "query", False))
        return [
            np.flatnonzero(
                [not token.special and not (has_query and token.segment) for token in item.tokens]
            )
            for item in self.items
        ]

    @cached_property
    def places(self) -> list[NDArray[np.int64]]:
        """The positions of the content tokens in the model; patches of a picture follow the tokens it adds."""
        picture = self.items[0].picture
        return self.content if picture is None else [one + picture.lead for one in self.content]

    def name_tokens(self, number: int, places: Sequence[int]) -> list[str]:
        """Return the strings of an example's tokens at positions of the model."""
        item = self.items[number]
        lead = 0 if item.picture is None else item.picture.lead
        own = [*["(added by the model)"] * lead, *(token.text for token in item.tokens)]
        return [own[place] for place in places]

    def attention(self, site: AttentionSite | None = None) -> list[Numbers]:
        """Return the weights over the content of each example: the mean of the heads, adding up to 1."""
        site = site or self.sites[0]
        averages = []
        for one, places in zip(self._observations, self.places, strict=True):
            chosen = one.attention[list(site.layers)]
            chosen = chosen if site.head is None else chosen[:, site.head, None]
            mean = chosen.mean((0, 1))[places]
            total = mean.sum()
            # A text without any attention counts as uniformly attended to.
            averages.append(mean / total if total > 0 else np.full(len(mean), 1 / len(mean)))
        return averages

    @cached_property
    def largest_weights(self) -> Numbers:
        """The largest weight of each example's attention."""
        return np.array([weights.max() for weights in self.attention()])

    def attention_by_head(self) -> list[Numbers]:
        """Return the weights over the content of each example, (layers, heads, content)."""
        return [
            one.attention[:, :, places]
            for one, places in zip(self._observations, self.places, strict=True)
        ]

    def remember(self, key: Hashable, compute: Callable[[], T]) -> T:
        """Return what was computed under a key, by this experiment or an earlier one."""
        if key not in self.memo:
            self.memo[key] = compute()
        return cast(T, self.memo[key])

    def map_batches(
        self, kind: str, compute: Callable[[Sequence[int], Batch], Iterable[T]], passes: float = 1
    ) -> list[T]:
        """Return `compute`'s result for each example, as the function of this name does; it takes so many `passes` of each."""

        def compute_and_tick(numbers: Sequence[int], batch: Batch) -> list[T]:
            results = list(compute(numbers, batch))
            self.tick(passes * len(numbers))
            return results

        return map_batches(self.loaded, kind, self.items, self.policy, compute_and_tick)

    def build_batch(self, items: Sequence[EncodedInput]) -> Batch:
        """Collate inputs into a batch on the model's device."""
        return collate(items, pad_id=self.loaded.pad_id, device=self.loaded.device)

    @cached_property
    def policy(self) -> BatchRules:
        """The batch rules of the examples."""
        return choose_batch_policy(self.loaded, self.items, probe=True)

    def build_replays(
        self, at: Sequence[AttentionSite] | None = None, copies: int = 1
    ) -> Iterator[ReplayBatch]:
        """Yield replay batches of all examples at the sites `at`, by default the first.

        Each row has `copies` copies, which may get different weights. Layers may share a batch, and so may heads.
        """
        cells = _CELLS.get(self.loaded.device.type, _CELLS_ELSEWHERE) // copies
        # A batch is replayed from its lowest layer on, so layers share one only if a single layer would not fill
        # the device; on a CPU a few rows do.
        alone = self.loaded.device.type in _CELLS or sum(map(len, self.items)) > cells

        def find_group(site: AttentionSite) -> tuple[Any, ...]:
            shape = len(site.layers), site.head is not None
            return (*shape, site.layers) if alone else shape

        reads = max(one.reads for one in self._observations)
        rules = replace(
            self.policy,
            size=1 if self.policy.size == 1 else max(1, cells),
            cells=max(1, cells // max(1, reads // 8)),
        )
        sites = sorted(self.sites[:1] if at is None else at, key=find_group)
        for _, group in groupby(sites, find_group):
            rows = [(number, site) for site in group for number in range(len(self))]
            items = [self.items[number] for number, _ in rows]
            work = build_retry_batches(self.loaded.model, f"replays of {copies}", items, rules)
            for some in work:
                replay = None
                with work.retry_halved(some):
                    replay = ReplayBatch(self, [rows[i] for i in some], copies)
                if replay is not None:
                    yield replay

    def map_replays(
        self,
        sites: Sequence[AttentionSite],
        copies: int,
        compute: Callable[[ReplayBatch], Iterable[T]],
        replays: float = 0,
    ) -> list[list[T]]:
        """Return what `compute` gives for each row, by site, then by example; it replays each row `replays` times."""
        results: dict[str, dict[int, T]] = {site.name: {} for site in sites}
        for batch in self.build_replays(sites, copies):
            for number, site, result in zip(
                batch.numbers, batch.sites, compute(batch), strict=True
            ):
                results[site.name][number] = result
            self.tick(len(batch) * (copies + replays * self.replay))
        return [[by_number[i] for i in range(len(self))] for by_number in results.values()]

    @cached_property
    def _observations(self) -> list[_Observation]:
        return self.map_batches("attention", self._observe_batch)

    @property
    def is_pooled(self) -> bool:
        """Whether the model has a single attention over its tokens, no stack of layers."""
        return any(one.pooled for one in self._observations)

    def _observe_batch(self, numbers: Sequence[int], batch: Batch) -> list[_Observation]:
        loaded = self.loaded
        spec = TargetSpec("predicted", None, "logit")
        trace = run_traced(loaded.model, batch, {"attention"}, spec, loaded.task)
        if trace.logits.shape[1] != len(loaded.labels):
            raise NoHead(
                f"The model gives {trace.logits.shape[1]} outputs, its configuration names {len(loaded.labels)} "
                "labels. Set num_labels and id2label to fit."
            )
        if trace.refusal is not None and not trace.pooled:
            reason = str(trace.refusal).partition(" Use ")[0]
            raise NotCapturable(
                f"{reason} An audit needs the row of attention that the prediction reads: give an encoder or a decoder "
                "with a classification head, or a model made by whence train-attention."
            )
        shares = compute_probabilities(trace.logits.double(), loaded.task).cpu().numpy()
        read_rows = ReadRows.of(trace.rows)
        by_layer = [read_rows.weights(layer) for layer in trace.read_layers]
        read = torch.stack(by_layer, dim=1).double()  # (batch, layers, heads, rows, tokens)
        means = torch.einsum("blhrk,br->blhk", read, read_rows.shares.to(read))
        return [
            _Observation(
                share,
                own[:, :, real],
                rows if trace.pooled else rows[: len(self.items[number])],
                trace.pooled,
                read_rows.places.shape[1],
            )
            for number, share, own, real, rows in zip(
                numbers,
                shares,
                means.cpu().numpy(),
                batch.real.cpu().numpy(),
                trace.rows,
                strict=True,
            )
        ]
