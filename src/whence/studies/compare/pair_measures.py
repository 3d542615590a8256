"""Both models looked into, batch by batch; what remains of an input is a few numbers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from whence.comparison.heads import Measured, measured
from whence.comparison.match import check_shape, check_tokens
from whence.comparison.overlap import Overlap, overlap
from whence.comparison.rows import read_rows
from whence.comparison.views import View, policy, views
from whence.core.errors import BadExamples, InputError, WhenceError
from whence.core.types import Prediction
from whence.data import Encoded, batches
from whence.data.sets.examples import Example, Read
from whence.explainer import Explainer
from whence.explainer.verify.testing import taken
from whence.flow import Name


@dataclass(frozen=True)
class Looked:
    """What was found of one input."""

    measured: Measured
    overlap: Overlap
    said: tuple[Prediction | None, Prediction | None]


@dataclass
class Seen:
    """What was found of the inputs that both models could take, in the order of the data."""

    examples: list[Example]
    looked: list[Looked]
    shape: tuple[int, int]  # layers, heads
    tokens: int
    cut: int
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def measured(self) -> list[Measured]:
        """How the heads attended, input by input."""
        return [one.measured for one in self.looked]

    @property
    def overlaps(self) -> list[Overlap]:
        """What the flows had in common, input by input."""
        return [one.overlap for one in self.looked]

    @property
    def said(self) -> tuple[list[Prediction | None], list[Prediction | None]]:
        """What the two models predicted."""
        return [one.said[0] for one in self.looked], [one.said[1] for one in self.looked]

    def order(self) -> list[int]:
        """Return the inputs in an order that does not depend on the one they came in."""
        return sorted(range(len(self.examples)), key=lambda i: repr(self.examples[i]))

    def facts(self, given: Read, drawn: int) -> dict[str, Any]:
        """Say what was read and used, as plain data."""
        used = len(self.examples)
        return {
            "name": given.name,
            "given": len(given),
            "drawn": drawn,
            "used": used,
            "cut": self.cut,
            "tokens": self.tokens / used,
            "text": given.text,
            "pair": given.pair,
            "label": given.label,
            "guessed": list(given.guessed),
            "why_not": [{"why": why, "count": count} for why, count in self.refused.items()],
        }


def look(
    models: tuple[Explainer, Explainer],
    examples: Sequence[Example],
    *,
    weight: Name,
    coverage: float,
    specials: bool,
    truncate: bool,
    seed: int,
    done: Callable[[int], None],
) -> Seen:
    """Look into both models on every example; those that cannot be taken are counted by reason."""
    numbers, sides, refused = _taken(models, examples, truncate)
    done(len(examples) - len(numbers))
    items = sides[0]
    loaded = (models[0].loaded, models[1].loaded)
    names = (loaded[0].name, loaded[1].name)
    found: dict[int, Looked] = {}
    shape = (0, 0)
    for chosen in batches(items, policy(loaded, sides, weight)):
        seen = [
            views(one, [side[i] for i in chosen], weight)
            for one, side in zip(loaded, sides, strict=True)
        ]
        for place, one, other in zip(chosen, *seen, strict=True):
            shape = one.shape
            check_shape(shape, other.shape, names)
            found[place] = _looked(items[place], one, other, coverage, specials, seed)
        done(len(chosen))
    return Seen(
        [examples[i] for i in numbers],
        [found[place] for place in range(len(items))],
        shape,
        sum(len(item) for item in items),
        sum(bool(item.source.dropped) for item in items),
        refused,
    )


def _taken(
    models: tuple[Explainer, Explainer], examples: Sequence[Example], truncate: bool
) -> tuple[list[int], tuple[list[Encoded], list[Encoded]], Counter[str]]:
    """Encode the examples for both models, which must make the same tokens of each."""
    refused: dict[int, WhenceError] = {}

    def failed(number: int, _: str | None, error: WhenceError) -> None:
        if not isinstance(error, InputError):
            raise error
        refused.setdefault(number, error)

    texts = [example.given for example in examples]
    names = (models[0].loaded.name, models[1].loaded.name)
    encoded = [
        dict(zip(*taken(texts, one.loaded, truncate, failed), strict=True)) for one in models
    ]
    numbers = [number for number in encoded[0] if number in encoded[1]]
    if not numbers:
        first = min(refused.items(), key=lambda pair: pair[0])[1]
        kind = type(first) if isinstance(first, InputError) else BadExamples
        raise kind(f"None of the {len(examples)} examples can be used. {first}")
    for number in numbers:
        one, other = encoded[0][number], encoded[1][number]
        check_tokens(one.source.text, one.tokens, other.tokens, names)
    reasons = Counter(error.code.replace("-", " ") for error in refused.values())
    return numbers, ([encoded[0][i] for i in numbers], [encoded[1][i] for i in numbers]), reasons


def _looked(
    item: Encoded, one: View, other: View, coverage: float, specials: bool, seed: int
) -> Looked:
    roots = read_rows(one, other)
    rows = (roots[0] + roots[1]) / 2
    return Looked(
        measured(one.maps, other.maps, rows, item.tokens, seed),
        overlap(one.weights, other.weights, roots, coverage, item.tokens, seed, specials),
        (one.prediction, other.prediction),
    )


"""How two models attend to one input: head by head, and to which kinds of tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.core.types import Token
from whence.flow import entropy, jensen_shannon, special_mass
from whence.flow.query import PAIRS

Array = np.ndarray[Any, np.dtype[np.float64]]
Maps = np.ndarray[Any, np.dtype[np.floating[Any]]]  # (layers, heads, tokens, tokens)

_ROWS = 64  # of an input, about, that strangers are compared on: a mean of so many is near enough


@dataclass(frozen=True)
class Measured:
    """The numbers of one input. Of pairs of arrays the first is of the first model."""

    divergence: Array  # (layers, heads), in bits
    decision: Array  # the same of the rows that the decision reads
    strangers: Array  # (layers,): of a head from another head of its layer
    special: Array  # (2, layers, heads)
    entropy: Array  # (2, layers, heads)
    kinds: dict[str, Array]  # by special token: (2,)
    segments: dict[str, Array]  # by pair of segments: (2,); empty for a single text


def measured(a: Maps, b: Maps, rows: Array, tokens: Sequence[Token], seed: int) -> Measured:
    """Measure two models on one input; `rows` are the weights of the rows that the decision reads, (tokens,)."""
    special = np.array([token.special for token in tokens])
    shape = a.shape[:2]
    divergence, decision = np.zeros(shape), np.zeros(shape)
    strangers = np.full(shape[0], np.nan)
    shift = _shift(shape[1], tokens, seed)
    step = max(1, len(tokens) // _ROWS)
    # A layer at a time: all maps in double precision at once would be large for long inputs.
    for layer in range(shape[0]):
        rowwise = jensen_shannon(a[layer], b[layer])
        divergence[layer] = rowwise.mean(-1)
        decision[layer] = rowwise @ rows
        if shift:
            own, other = a[layer][:, ::step], np.roll(b[layer][:, ::step], shift, axis=0)
            strangers[layer] = jensen_shannon(own, other).mean()
    return Measured(
        divergence,
        decision,
        strangers,
        np.stack([special_mass(side, special) for side in (a, b)]),
        np.stack([entropy(side) for side in (a, b)]),
        _kinds(a, b, tokens),
        _segments(a, b, tokens),
    )


def _shift(heads: int, tokens: Sequence[Token], seed: int) -> int:
    """Draw how far heads are moved round, so that none meets its twin; 0 where there is only one."""
    if heads < 2:
        return 0
    draw = generator("strangers", seed, [token.id for token in tokens])
    return int(draw.integers(1, heads))


def _kinds(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return what each special token gets, in the mean over all layers, heads and rows."""
    gets = [_received(side) for side in (a, b)]
    names = dict.fromkeys(token.text for token in tokens if token.special)
    chosen = {name: [t.special and t.text == name for t in tokens] for name in names}
    return {
        name: np.array([float(side[places].sum()) for side in gets])
        for name, places in chosen.items()
    }


def _received(maps: Maps) -> Array:
    """Return what each token gets of all attention, (tokens,), in the mean over layers, heads and rows."""
    received: Array = np.mean([layer.mean((0, 1), dtype=np.float64) for layer in maps], axis=0)
    return received


def _segments(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return the attention that the words of one text give to those of another; the rest goes to special tokens."""
    words = [np.array([not t.special and t.segment == s for t in tokens]) for s in (0, 1)]
    if not all(side.any() for side in words):
        return {}
    sides = [_by_segment(side, words) for side in (a, b)]
    return {name: np.array([side[name] for side in sides]) for name in PAIRS}


def _by_segment(
    maps: Maps, words: Sequence[np.ndarray[Any, np.dtype[np.bool_]]]
) -> dict[str, float]:
    mean = np.mean([layer.mean(0, dtype=np.float64) for layer in maps], axis=0)
    return {
        f"{one}>{other}": float(mean[words[i]][:, words[j]].sum(1).mean())
        for i, one in enumerate("AB")
        for j, other in enumerate("AB")
    }


"""Whether two models can be compared head by head: one tokenizer, as many layers, as many heads."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from whence.core.errors import BadParameter, BadTokenizer, NoTokenizer, short
from whence.core.types import Token
from whence.explainer import Explainer

_NEXT = (
    "Give two models of one tokenizer, such as a pre-trained model and what was fine-tuned from it."
)


def check_vocabulary(base: Explainer, tuned: Explainer) -> None:
    """Refuse two tokenizers that give one token two ids. What only one of them has shows where it is used."""
    for one in (base, tuned):
        if one.tokenizer is None:
            raise NoTokenizer(
                f"{one.loaded.name!r} has no tokenizer: it cannot be seen whether both models read a text alike. "
                "Pass one: whence.load(model, tokenizer=...)."
            )
    if base.tokenizer is tuned.tokenizer:
        return
    own, other = _vocabulary(base.tokenizer), _vocabulary(tuned.tokenizer)
    differ = [token for token in own if other.get(token, own[token]) != own[token]]
    if differ:
        token = min(differ, key=lambda one: own[one])
        raise BadTokenizer(
            f"{base.loaded.name!r} and {tuned.loaded.name!r} have different tokenizers: {token!r} is "
            f"{own[token]} in one and {other[token]} in the other. {_NEXT}"
        )


def _vocabulary(tokenizer: Any) -> dict[str, int]:
    found: dict[str, int] = tokenizer.get_vocab()
    return found


def check_tokens(
    text: str | None,
    one: Sequence[Token],
    other: Sequence[Token],
    names: tuple[str, str] = ("One model", "the other"),
) -> None:
    """Refuse a text of which two models make different tokens."""
    if [token.id for token in one] == [token.id for token in other]:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a.id != b.id),
        min(len(one), len(other)),
    )
    shown = [
        f"{side[place].text!r} (id {side[place].id})" if place < len(side) else "nothing"
        for side in (one, other)
    ]
    said = "An input" if text is None else repr(short(text))
    raise BadTokenizer(
        f"{said} is read differently: at token {place} {names[0]!r} has {shown[0]}, {names[1]!r} {shown[1]}. "
        f"{_NEXT}"
    )


def check_shape(one: tuple[int, int], other: tuple[int, int], names: tuple[str, str]) -> None:
    """Refuse models that differ in their numbers of layers or heads: there is no twin to compare with."""
    if one != other:
        told = [
            f"{name!r} has {layers} layers of {heads} heads"
            for name, (layers, heads) in zip(names, (one, other), strict=True)
        ]
        raise BadParameter(
            f"Heads are compared one by one, and {told[0]}, {told[1]}. Give two models of one shape, such as a "
            "pre-trained model and what was fine-tuned from it."
        )


def of_one_length(base: Explainer, tuned: Explainer) -> tuple[Explainer, Explainer]:
    """Return both with the smaller of their longest inputs, so that a text is cut at the same place."""
    bounds = [one.loaded.max_length for one in (base, tuned)]
    known = [bound for bound in bounds if bound is not None]
    if not known or bounds[0] == bounds[1]:
        return base, tuned
    shortest = min(known)
    first, second = (
        one
        if one.loaded.max_length == shortest
        else Explainer(replace(one.loaded, max_length=shortest))
        for one in (base, tuned)
    )
    return first, second


"""Whether two models' flows take the same way: the edges that carry a share of it, and which of them both have."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from whence.core.seed import generator
from whence.core.types import Token
from whence.flow import (
    Edges,
    Query,
    Traced,
    Weights,
    chance_jaccard,
    cover,
    possible,
    select,
    trace_flow,
)

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]

# Edges that are sorted at first, how many times more where these do not carry enough, and where that ends: a set
# beyond it takes hundreds of megabytes.
_FEW, _MORE, _MOST = 1 << 13, 8, 1 << 22
_DRAWS = 200  # of random sets, for each input


@dataclass(frozen=True)
class Overlap:
    """What two covering sets have in common; NaN where there are no edges, or too many to be sorted.

    `other_` is the same with, or without, edges that end on special tokens.
    """

    jaccard: float
    chance: float
    only_a: float  # as shares of the union
    only_b: float
    layers: Array  # Jaccard index by layer
    layers_chance: Array
    other_jaccard: float = float("nan")
    other_chance: float = float("nan")


def overlap(
    a: Weights,
    b: Weights,
    roots: tuple[Array, Array],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool = False,
) -> Overlap:
    """Trace back from the decision in both models and compare the edges that carry the share `coverage` of it.

    Without `specials`, edges that end on special tokens neither count nor carry anything of what is to be covered.
    """
    traces = (trace_flow(a, roots[0]), trace_flow(b, roots[1]))
    found, other = (_alike(traces, coverage, tokens, seed, s) for s in (specials, not specials))
    return replace(found, other_jaccard=other.jaccard, other_chance=other.chance)


def _alike(
    traces: tuple[Traced, Traced],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool,
) -> Overlap:
    a, b = traces[0].weights, traces[1].weights
    query, special = Query(specials=specials), np.array([token.special for token in tokens])
    one, other = (_covering(traced, coverage, query, special) for traced in traces)
    if one is None or other is None:
        return _unknown(a.layers)
    both = np.intersect1d(_numbers(one, a), _numbers(other, b), assume_unique=True)
    per_layer = a.edge.shape[1] * a.tokens**2
    shared = np.bincount(both // per_layer, minlength=a.layers)
    sizes = [np.bincount(edges.layer, minlength=a.layers) for edges in (one, other)]
    union = sizes[0] + sizes[1] - shared
    whole = int(union.sum())
    if not whole:
        return _unknown(a.layers)
    choice = possible(*traces, query, special)
    draw = generator("random edges", seed, [token.id for token in tokens])
    return Overlap(
        jaccard=len(both) / whole,
        chance=_chance(sizes[0], sizes[1], choice, draw),
        only_a=(len(one) - len(both)) / whole,
        only_b=(len(other) - len(both)) / whole,
        layers=np.divide(shared, union, out=np.full(a.layers, np.nan), where=union > 0),
        layers_chance=np.array(
            [
                chance_jaccard(int(m), int(n), size) if m + n else np.nan
                for m, n, size in zip(*sizes, choice, strict=True)
            ]
        ),
    )


def _unknown(layers: int) -> Overlap:
    none, nowhere = float("nan"), np.full(layers, np.nan)
    return Overlap(none, none, none, none, nowhere, nowhere)


def _covering(traced: Traced, coverage: float, query: Query, special: Bools) -> Edges | None:
    """Return the fewest edges that carry the share; sort no more of them than it takes."""
    most = _FEW
    while True:
        edges = select(traced, query, most, special)
        number = cover(edges, edges.total, coverage)
        if number < len(edges) or edges.count <= len(edges):
            return edges.first(number)
        if most >= _MOST:
            return None
        most *= _MORE


def _numbers(edges: Edges, weights: Weights) -> Ints:
    """Number the edges, so that those of one place in two models have one number."""
    heads, tokens = weights.edge.shape[1], weights.tokens
    head = np.maximum(edges.head, 0)  # -1: all heads together
    numbers: Ints = ((edges.layer * heads + head) * tokens + edges.source) * tokens + edges.to
    return numbers


def _chance(a: Ints, b: Ints, choice: Sequence[int], draw: np.random.Generator) -> float:
    """Return the mean Jaccard index of random sets that have as many edges in each layer."""
    shared = np.zeros(_DRAWS)
    for m, n, size in zip(a.tolist(), b.tolist(), choice, strict=True):
        if m and n:
            shared += draw.hypergeometric(m, size - m, n, size=_DRAWS)
    return float((shared / (a.sum() + b.sum() - shared)).mean())


"""The rows that two decisions read."""

from typing import Any, Protocol

import numpy as np

Array = np.ndarray[Any, np.dtype[np.floating[Any]]]


class Reads(Protocol):
    """One input in one model."""

    @property
    def rows(self) -> Array:
        """The weights of the rows that the decision reads, (tokens,)."""

    @property
    def has_head(self) -> bool:
        """Whether the model decides anything."""


def read_rows(one: Reads, other: Reads) -> tuple[Array, Array]:
    """Return the rows that each decision reads; where only one model decides, its rows stand for both."""
    if one.has_head == other.has_head:
        return one.rows, other.rows
    known = one.rows if one.has_head else other.rows
    return known, known


"""A model looked into on several inputs at once: their attention, what the edges weigh, and what is predicted."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from whence.capture import TargetSpec, Trace, trace
from whence.capture.target import predictions
from whence.core.types import Prediction
from whence.data import Encoded, Policy, collate
from whence.flow import NEEDS, Name, Weights, attention_weights, weights
from whence.models import Loaded

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

_INPUTS, _CELLS = (
    64,
    1024,
)  # of one batch: at most, and times the longest; more would not be quicker on a CPU
# Padding that is seen changes weights by much more, rounding by much less.
_SAME = 1e-4


@dataclass(frozen=True, eq=False)
class View:
    """One input in one model."""

    maps: Floats  # (layers, heads, tokens, tokens)
    weights: Weights
    rows: Floats  # (tokens,): weights of the rows that the decision reads
    prediction: Prediction | None
    has_head: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of layers and heads."""
        return self.maps.shape[0], self.maps.shape[1]


def views(loaded: Loaded, items: Sequence[Encoded], weight: Name) -> list[View]:
    """Run the model once on all inputs together."""
    seen = _traced(loaded, items, {"attention", *NEEDS[weight]})
    has_head = loaded.classifies
    said = predictions(seen.logits, loaded.task, loaded.labels) if has_head else []
    heads = [layer.heads for layer in seen.layers]
    found = []
    for row, (item, maps) in enumerate(zip(items, _maps(seen, items), strict=True)):
        rows = seen.rows[row, : len(item)].double().cpu().numpy()
        alone = weight == "attention"
        own = attention_weights(maps, heads=heads) if alone else weights(seen, weight, row=row)
        found.append(View(maps, own, rows, said[row] if has_head else None, has_head))
    return found


def policy(models: Sequence[Loaded], inputs: Sequence[Sequence[Encoded]], weight: Name) -> Policy:
    """Say which inputs may share a batch in all models: found out by trying the shortest beside the longest.

    `inputs` are the same texts as each model takes them. Weights that follow every step of a model take it one input
    at a time.
    """
    anchors = frozenset().union(*(one.anchors for one in models))
    size, mixed = _INPUTS, True
    if weight != "attention" or len(inputs[0]) < 2:
        return Policy(1, _CELLS, False, anchors)
    for loaded, items in zip(models, inputs, strict=True):
        shortest, longest = min(items, key=len), max(items, key=len)
        try:
            mixed &= _bears(loaded, shortest, longest)
            size = size if mixed or _bears(loaded, shortest, shortest) else 1
        except (ValueError, RuntimeError, IndexError):
            size = 1
    return Policy(size, _CELLS, mixed, anchors)


def _bears(loaded: Loaded, item: Encoded, beside: Encoded) -> bool:
    """Say whether a neighbour in the batch leaves an input's attention, and what comes of it, as they are."""
    alone, together = (_traced(loaded, items, {"attention"}) for items in ([item], [item, beside]))
    size = len(item)
    # The last layer rests on all others.
    maps = (seen.layers[-1].map()[0, :, :size, :size] for seen in (alone, together))
    return _same(*maps) and _same(alone.logits[0], together.logits[0])


def _same(one: Tensor, other: Tensor) -> bool:
    return float((one - other).abs().max()) <= _SAME * max(1.0, float(one.abs().max()))


def _traced(loaded: Loaded, items: Sequence[Encoded], needs: set[str]) -> Trace:
    batch = collate(items, pad_id=loaded.pad_id, device=loaded.device)
    spec = TargetSpec("predicted", None, "logit")
    return trace(loaded.model, batch, needs, spec, loaded.task if loaded.classifies else "none")


def _maps(seen: Trace, items: Sequence[Encoded]) -> list[Floats]:
    """Return the attention of each input, (layers, heads, tokens, tokens).

    Heads that a layer lacks attend to nothing. A layer at a time: the maps of all layers and inputs are in memory
    once. numpy has no narrow floating point worth the name: they become float32 at least.
    """
    layers = seen.layers
    wide = torch.promote_types(seen.logits.dtype, torch.float32)
    depth, heads = len(layers), max(layer.heads for layer in layers)
    kind = np.float64 if wide == torch.float64 else np.float32
    stacks = [np.zeros((depth, heads, len(item), len(item)), dtype=kind) for item in items]
    for number, layer in enumerate(layers):
        every = layer.map().to(wide).cpu().numpy()
        for row, stack in enumerate(stacks):
            size = stack.shape[-1]
            stack[number, : layer.heads] = every[row, :, :size, :size]
    return stacks


"""Whether two models lean on the same words, by one method of explanation."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whence.core.errors import WhenceError
from whence.core.types import Prediction
from whence.explainer import Explainer, Explanation
from whence.explainer.work import unnamed
from whence.stats import kendall, top_k_overlap

Array = np.ndarray[Any, np.dtype[np.float64]]

TOP = 5
_AT_ONCE = 64  # inputs between two reports of progress


def why_not(base: Explainer, tuned: Explainer) -> str | None:
    """Say why attributions cannot be compared, if they cannot."""
    without = [one.loaded.name for one in (base, tuned) if not one.loaded.classifies]
    if without:
        both = len(without) == 2
        named = " and ".join(map(repr, dict.fromkeys(without)))
        have, predict = ("have", "predict") if both else ("has", "predicts")
        return (
            f"{named} {have} no classification head and {predict} nothing that could be explained."
        )
    if base.labels != tuned.labels:
        return (
            f"The models have different labels ({listed(base.labels)}; {listed(tuned.labels)}): there is no output "
            "that both could be asked about."
        )
    if base.loaded.task != tuned.loaded.task:
        return "The models have different tasks: what they predict means different things."
    return None


def listed(labels: Sequence[str]) -> str:
    """Name labels, the first of many."""
    shown = ", ".join(labels[:4])
    return shown if len(labels) <= 4 else f"{shown} and {len(labels) - 4} more"


class Agreement:
    """For each input: tau-b, the overlap of the top words, and what random rankings of so many words overlap by."""

    def __init__(self, inputs: int) -> None:
        self.tau, self.top, self.chance = (np.full(inputs, np.nan) for _ in range(3))

    def add(self, number: int, one: Explanation, other: Explanation) -> None:
        """Compare the explanations that two models have for one input."""
        a, b = (np.asarray(side.word_scores, dtype=np.float64) for side in (one, other))
        self.tau[number], self.top[number] = agreement(a, b)
        if not np.isnan(self.top[number]):
            self.chance[number] = TOP / len(a)


def agreement(a: Array, b: Array) -> tuple[float, float]:
    """Return tau-b and the overlap of the strongest words; NaN where nothing is ranked, or all words are the top."""
    tau = float(kendall(a, b)[0])
    if len(a) <= TOP or np.isnan(tau):
        return tau, float("nan")
    # Ties at the edge would be drawn by lot; the same scores are the same explanation all the same.
    if np.array_equal(a, b):
        return tau, 1.0
    return tau, float(top_k_overlap(np.abs(a), np.abs(b), TOP)[0])


def agree(
    models: tuple[Explainer, Explainer],
    inputs: Sequence[Any],
    predictions: Sequence[Prediction],
    method: str,
    truncate: bool,
    done: Callable[[int], None],
) -> tuple[Agreement, str | None]:
    """Explain all inputs by both models, each for the class that the second one predicts.

    Returns the agreement, and a sentence where no input could be explained.
    """
    found, failures = Agreement(len(inputs)), list[str]()
    explained = 0
    for index in sorted({said.index for said in predictions}):
        numbers = [i for i, said in enumerate(predictions) if said.index == index]
        for start in range(0, len(numbers), _AT_ONCE):
            some = numbers[start : start + _AT_ONCE]
            texts = [inputs[i] for i in some]
            sides = [_explained(one, texts, method, index, truncate, failures) for one in models]
            for number, one, other in zip(some, *sides, strict=True):
                if one is not None and other is not None:
                    explained += 1
                    found.add(number, one, other)
            done(len(some))
    return found, None if explained else failures[0]


def _explained(
    explainer: Explainer,
    texts: Sequence[Any],
    method: str,
    index: int,
    truncate: bool,
    failures: list[str],
) -> list[Explanation | None]:
    """Explain some inputs; where that fails, one by one."""
    target = None if explainer.loaded.task == "regression" else index
    try:
        return list(explainer.explain(texts, method=method, target=target, truncate=truncate))
    except WhenceError as error:
        failures.append(str(unnamed(error)))
        if len(texts) == 1:
            return [None]
    return [
        one
        for text in texts
        for one in _explained(explainer, [text], method, index, truncate, failures)
    ]
