"""Measures of two models on shared inputs: tokenizer checks, attention divergence, flow overlap, word agreement.

Attention: the Jensen-Shannon divergence of each head from its twin in bits, over all rows and over the
rows that the decision reads; as a baseline, the divergence from another head of the same layer
("strangers"). Flow: the Jaccard index of the fewest edges that carry a share of the flow back from the
decision, and the same of random edges, as many in each layer (200 draws). Words: Kendall's tau-b and the
overlap of the top 5 words. The models must share a tokenizer and the numbers of layers and heads.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from whence.core.errors import (
    BadExamples,
    BadParameter,
    BadTokenizer,
    InputError,
    NoTokenizer,
    WhenceError,
    shorten_quote,
)
from whence.core.seed import build_generator
from whence.core.types import Prediction, Token
from whence.data.batches import BatchRules, collate, plan_batches
from whence.data.dataset import Dataset
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.examine import strip_method_name
from whence.explain.explainer import Explainer
from whence.explain.explanation import Explanation
from whence.explain.explanations import Explanations
from whence.explain.inputs import encode_dataset
from whence.flow.graph import (
    SEGMENT_PAIRS,
    EdgeQuery,
    StrongestEdges,
    TracedFlow,
    compute_chance_jaccard,
    count_covering_edges,
    count_possible_edges,
    select_edges,
    trace_flow,
)
from whence.flow.heads import compute_head_entropy, compute_special_mass, jensen_shannon
from whence.flow.weights import (
    EDGE_WEIGHT_NEEDS,
    EdgeWeightName,
    EdgeWeights,
    compute_attention_weights,
    compute_edge_weights,
)
from whence.models.model import LoadedModel
from whence.stats.rank import kendall, top_k_overlap
from whence.tracing.target import TargetSpec, build_predictions
from whence.tracing.trace import Trace, run_traced

Array = np.ndarray[Any, np.dtype[np.float64]]
Maps = np.ndarray[Any, np.dtype[np.floating[Any]]]  # (layers, heads, tokens, tokens)

_STRANGER_ROWS = (
    64  # approximate number of rows for the baseline of other heads; enough for a stable mean
)


@dataclass(frozen=True)
class HeadMeasures:
    """Attention measures of one input; in pairs of values the first model comes first."""

    divergence: Array  # (layers, heads), in bits
    decision: Array  # the same, over the rows that the decision reads
    strangers: Array  # (layers,): divergence of a head from another head of its layer
    special: Array  # (2, layers, heads)
    entropy: Array  # (2, layers, heads)
    kinds: dict[str, Array]  # by special token: (2,)
    segments: dict[str, Array]  # by pair of segments: (2,); empty for a single text


def measure_heads(
    a: Maps, b: Maps, rows: Array, tokens: Sequence[Token], seed: int
) -> HeadMeasures:
    """Measure both models' attention on one input; `rows` weights the rows of the decision, (tokens,)."""
    special = np.array([token.special for token in tokens])
    shape = a.shape[:2]
    divergence, decision = np.zeros(shape), np.zeros(shape)
    strangers = np.full(shape[0], np.nan)
    shift = _draw_head_shift(shape[1], tokens, seed)
    step = max(1, len(tokens) // _STRANGER_ROWS)
    # A layer at a time: all maps in double precision at once would be large for long inputs.
    for layer in range(shape[0]):
        rowwise = jensen_shannon(a[layer], b[layer])
        divergence[layer] = rowwise.mean(-1)
        decision[layer] = rowwise @ rows
        if shift:
            own, other = a[layer][:, ::step], np.roll(b[layer][:, ::step], shift, axis=0)
            strangers[layer] = jensen_shannon(own, other).mean()
    return HeadMeasures(
        divergence,
        decision,
        strangers,
        np.stack([compute_special_mass(side, special) for side in (a, b)]),
        np.stack([compute_head_entropy(side) for side in (a, b)]),
        _measure_special_tokens(a, b, tokens),
        _measure_segments(a, b, tokens),
    )


def _draw_head_shift(heads: int, tokens: Sequence[Token], seed: int) -> int:
    """Draw the shift that pairs each head with another head of its layer; 0 for a single head."""
    if heads < 2:
        return 0
    draw = build_generator("strangers", seed, [token.id for token in tokens])
    return int(draw.integers(1, heads))


def _measure_special_tokens(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return the mean attention to each special token, over all layers, heads and rows."""
    gets = [_compute_received_attention(side) for side in (a, b)]
    names = dict.fromkeys(token.text for token in tokens if token.special)
    chosen = {name: [t.special and t.text == name for t in tokens] for name in names}
    return {
        name: np.array([float(side[places].sum()) for side in gets])
        for name, places in chosen.items()
    }


def _compute_received_attention(maps: Maps) -> Array:
    """Return the mean attention that each token receives, (tokens,), over layers, heads and rows."""
    received: Array = np.mean([layer.mean((0, 1), dtype=np.float64) for layer in maps], axis=0)
    return received


def _measure_segments(a: Maps, b: Maps, tokens: Sequence[Token]) -> dict[str, Array]:
    """Return the attention between the words of two texts; special tokens get the rest."""
    words = [np.array([not t.special and t.segment == s for t in tokens]) for s in (0, 1)]
    if not all(side.any() for side in words):
        return {}
    sides = [_compute_segment_attention(side, words) for side in (a, b)]
    return {name: np.array([side[name] for side in sides]) for name in SEGMENT_PAIRS}


def _compute_segment_attention(
    maps: Maps, words: Sequence[np.ndarray[Any, np.dtype[np.bool_]]]
) -> dict[str, float]:
    mean = np.mean([layer.mean(0, dtype=np.float64) for layer in maps], axis=0)
    return {
        f"{source}>{target}": float(mean[words[i]][:, words[j]].sum(1).mean())
        for i, source in enumerate("AB")
        for j, target in enumerate("AB")
    }


_MODEL_ADVICE = (
    "Give two models of one tokenizer, such as a pre-trained model and what was fine-tuned from it."
)


def check_vocabulary(base: Explainer, tuned: Explainer) -> None:
    """Refuse two tokenizers that give the same token different ids.

    Tokens that only one of them has are found by `check_tokens` when a text uses them.
    """
    for model in (base, tuned):
        if model.tokenizer is None:
            raise NoTokenizer(
                f"{model.loaded.name!r} has no tokenizer: it cannot be seen whether both models read a text alike. "
                "Pass one: whence.load(model, tokenizer=...)."
            )
    if base.tokenizer is tuned.tokenizer:
        return
    own, other = _get_vocabulary(base.tokenizer), _get_vocabulary(tuned.tokenizer)
    differ = [token for token in own if other.get(token, own[token]) != own[token]]
    if differ:
        token = min(differ, key=lambda name: own[name])
        raise BadTokenizer(
            f"{base.loaded.name!r} and {tuned.loaded.name!r} have different tokenizers: {token!r} is "
            f"{own[token]} in one and {other[token]} in the other. {_MODEL_ADVICE}"
        )


def _get_vocabulary(tokenizer: Any) -> dict[str, int]:
    vocabulary: dict[str, int] = tokenizer.get_vocab()
    return vocabulary


def check_tokens(
    text: str | None,
    first: Sequence[Token],
    second: Sequence[Token],
    names: tuple[str, str] = ("One model", "the other"),
) -> None:
    """Refuse a text that two models tokenize differently."""
    if [token.id for token in first] == [token.id for token in second]:
        return
    place = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a.id != b.id),
        min(len(first), len(second)),
    )
    descriptions = [
        f"{side[place].text!r} (id {side[place].id})" if place < len(side) else "nothing"
        for side in (first, second)
    ]
    quote = "An input" if text is None else repr(shorten_quote(text))
    raise BadTokenizer(
        f"{quote} is read differently: at token {place} {names[0]!r} has {descriptions[0]}, {names[1]!r} {descriptions[1]}. "
        f"{_MODEL_ADVICE}"
    )


def check_shape(first: tuple[int, int], second: tuple[int, int], names: tuple[str, str]) -> None:
    """Refuse models with different numbers of layers or heads: their heads have no counterparts."""
    if first != second:
        descriptions = [
            f"{name!r} has {layers} layers of {heads} heads"
            for name, (layers, heads) in zip(names, (first, second), strict=True)
        ]
        raise BadParameter(
            f"Heads are compared one by one, and {descriptions[0]}, {descriptions[1]}. Give two models of one shape, such as a "
            "pre-trained model and what was fine-tuned from it."
        )


def with_common_max_length(base: Explainer, tuned: Explainer) -> tuple[Explainer, Explainer]:
    """Return both models with the smaller maximum length, so that texts are truncated alike."""
    bounds = [model.loaded.max_length for model in (base, tuned)]
    known = [bound for bound in bounds if bound is not None]
    if not known or bounds[0] == bounds[1]:
        return base, tuned
    shortest = min(known)
    first, second = (
        model
        if model.loaded.max_length == shortest
        else Explainer(replace(model.loaded, max_length=shortest))
        for model in (base, tuned)
    )
    return first, second


FloatingArray = np.ndarray[Any, np.dtype[np.floating[Any]]]
IntArray = np.ndarray[Any, np.dtype[np.int64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

# Edges that are sorted at first, the growth factor if these do not carry enough, and the limit: larger sets take
# hundreds of megabytes.
_FIRST_EDGES, _EDGE_GROWTH, _MAX_EDGES = 1 << 13, 8, 1 << 22
_RANDOM_DRAWS = 200  # random edge sets per input


@dataclass(frozen=True)
class FlowOverlap:
    """Overlap of two models' covering edge sets; NaN without edges, or with too many to sort.

    `other_` is the same with the opposite choice about edges that end on special tokens.
    """

    jaccard: float
    chance: float
    only_a: float  # share of the union
    only_b: float
    layers: FloatingArray  # Jaccard index by layer
    layers_chance: FloatingArray
    other_jaccard: float = float("nan")
    other_chance: float = float("nan")


def compute_flow_overlap(
    a: EdgeWeights,
    b: EdgeWeights,
    roots: tuple[FloatingArray, FloatingArray],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool = False,
) -> FlowOverlap:
    """Compare the edges that carry the share `coverage` of the flow from the decision in both models.

    Without `specials`, edges that end on special tokens are left out of the sets and of the flow to be covered.
    """
    traces = (trace_flow(a, roots[0]), trace_flow(b, roots[1]))
    overlap, other = (
        _compare_covering_edges(traces, coverage, tokens, seed, s) for s in (specials, not specials)
    )
    return replace(overlap, other_jaccard=other.jaccard, other_chance=other.chance)


def _compare_covering_edges(
    traces: tuple[TracedFlow, TracedFlow],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool,
) -> FlowOverlap:
    a, b = traces[0].weights, traces[1].weights
    query, special = EdgeQuery(specials=specials), np.array([token.special for token in tokens])
    first, second = (_select_covering_edges(traced, coverage, query, special) for traced in traces)
    if first is None or second is None:
        return _build_unknown_overlap(a.layers)
    both = np.intersect1d(_number_edges(first, a), _number_edges(second, b), assume_unique=True)
    per_layer = a.edge.shape[1] * a.tokens**2
    shared = np.bincount(both // per_layer, minlength=a.layers)
    sizes = [np.bincount(edges.layer, minlength=a.layers) for edges in (first, second)]
    union = sizes[0] + sizes[1] - shared
    whole = int(union.sum())
    if not whole:
        return _build_unknown_overlap(a.layers)
    choice = count_possible_edges(*traces, query, special)
    draw = build_generator("random edges", seed, [token.id for token in tokens])
    return FlowOverlap(
        jaccard=len(both) / whole,
        chance=_compute_chance_overlap(sizes[0], sizes[1], choice, draw),
        only_a=(len(first) - len(both)) / whole,
        only_b=(len(second) - len(both)) / whole,
        layers=np.divide(shared, union, out=np.full(a.layers, np.nan), where=union > 0),
        layers_chance=np.array(
            [
                compute_chance_jaccard(int(m), int(n), size) if m + n else np.nan
                for m, n, size in zip(*sizes, choice, strict=True)
            ]
        ),
    )


def _build_unknown_overlap(layers: int) -> FlowOverlap:
    none, nowhere = float("nan"), np.full(layers, np.nan)
    return FlowOverlap(none, none, none, none, nowhere, nowhere)


def _select_covering_edges(
    traced: TracedFlow, coverage: float, query: EdgeQuery, special: BoolArray
) -> StrongestEdges | None:
    """Return the fewest edges that carry the share, sorting no more of them than needed."""
    most = _FIRST_EDGES
    while True:
        edges = select_edges(traced, query, most, special)
        number = count_covering_edges(edges, edges.total, coverage)
        if number < len(edges) or edges.count <= len(edges):
            return edges.first(number)
        if most >= _MAX_EDGES:
            return None
        most *= _EDGE_GROWTH


def _number_edges(edges: StrongestEdges, weights: EdgeWeights) -> IntArray:
    """Return an id for each edge, equal for the same edge in two models."""
    heads, tokens = weights.edge.shape[1], weights.tokens
    head = np.maximum(edges.head, 0)  # -1: all heads together
    numbers: IntArray = ((edges.layer * heads + head) * tokens + edges.source) * tokens + edges.to
    return numbers


def _compute_chance_overlap(
    a: IntArray, b: IntArray, choice: Sequence[int], draw: np.random.Generator
) -> float:
    """Return the mean Jaccard index of random edge sets with as many edges in each layer."""
    shared = np.zeros(_RANDOM_DRAWS)
    for m, n, size in zip(a.tolist(), b.tolist(), choice, strict=True):
        if m and n:
            shared += draw.hypergeometric(m, size - m, n, size=_RANDOM_DRAWS)
    return float((shared / (a.sum() + b.sum() - shared)).mean())


class DecisionReader(Protocol):
    """Protocol of one input in one model, with the rows that its decision reads."""

    @property
    def rows(self) -> FloatingArray:
        """The weights of the rows that the decision reads, (tokens,)."""

    @property
    def has_head(self) -> bool:
        """Whether the model has a classification head."""


def select_decision_rows(
    first: DecisionReader, second: DecisionReader
) -> tuple[FloatingArray, FloatingArray]:
    """Return the rows that each decision reads; if only one model has a head, its rows serve both."""
    if first.has_head == second.has_head:
        return first.rows, second.rows
    known = first.rows if first.has_head else second.rows
    return known, known


Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

_MAX_BATCH_INPUTS, _MAX_BATCH_CELLS = (
    64,
    1024,
)  # inputs per batch, and inputs times longest length; more is not faster on a CPU
# Padding that is attended to changes weights by much more, rounding by much less.
_TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class ModelView:
    """Attention maps, edge weights and prediction of one input in one model."""

    maps: Floats  # (layers, heads, tokens, tokens)
    weights: EdgeWeights
    rows: Floats  # (tokens,): weights of the rows that the decision reads
    prediction: Prediction | None
    has_head: bool

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of layers and heads."""
        return self.maps.shape[0], self.maps.shape[1]


def trace_views(
    loaded: LoadedModel, items: Sequence[EncodedInput], weight: EdgeWeightName
) -> list[ModelView]:
    """Run the model once on a batch of inputs, and return a view of each."""
    trace = _run_traced(loaded, items, {"attention", *EDGE_WEIGHT_NEEDS[weight]})
    has_head = loaded.is_classifier
    predictions = build_predictions(trace.logits, loaded.task, loaded.labels) if has_head else []
    heads = [layer.heads for layer in trace.layers]
    views = []
    for row, (item, maps) in enumerate(
        zip(items, _extract_attention_maps(trace, items), strict=True)
    ):
        rows = trace.rows[row, : len(item)].double().cpu().numpy()
        alone = weight == "attention"
        own = (
            compute_attention_weights(maps, heads=heads)
            if alone
            else compute_edge_weights(trace, weight, row=row)
        )
        views.append(ModelView(maps, own, rows, predictions[row] if has_head else None, has_head))
    return views


def choose_batch_policy(
    models: Sequence[LoadedModel], inputs: Sequence[Sequence[EncodedInput]], weight: EdgeWeightName
) -> BatchRules:
    """Return the batch rules that suit all models, probed with the shortest input beside the longest.

    `inputs` are the same texts as encoded for each model. Edge weights other than attention need every step of the model,
    and take one input at a time.
    """
    anchors = frozenset().union(*(model.anchors for model in models))
    size, mixed = _MAX_BATCH_INPUTS, True
    if weight != "attention" or len(inputs[0]) < 2:
        return BatchRules(1, _MAX_BATCH_CELLS, False, anchors)
    for loaded, items in zip(models, inputs, strict=True):
        shortest, longest = min(items, key=len), max(items, key=len)
        try:
            mixed &= _can_share_batch(loaded, shortest, longest)
            size = size if mixed or _can_share_batch(loaded, shortest, shortest) else 1
        except (ValueError, RuntimeError, IndexError):
            size = 1
    return BatchRules(size, _MAX_BATCH_CELLS, mixed, anchors)


def _can_share_batch(loaded: LoadedModel, item: EncodedInput, beside: EncodedInput) -> bool:
    """Return whether an input's attention and logits stay the same beside another input."""
    alone, together = (
        _run_traced(loaded, items, {"attention"}) for items in ([item], [item, beside])
    )
    size = len(item)
    # The last layer depends on all others.
    maps = (trace.layers[-1].map()[0, :, :size, :size] for trace in (alone, together))
    return _is_close(*maps) and _is_close(alone.logits[0], together.logits[0])


def _is_close(first: Tensor, second: Tensor) -> bool:
    return float((first - second).abs().max()) <= _TOLERANCE * max(1.0, float(first.abs().max()))


def _run_traced(loaded: LoadedModel, items: Sequence[EncodedInput], needs: set[str]) -> Trace:
    batch = collate(items, pad_id=loaded.pad_id, device=loaded.device)
    spec = TargetSpec("predicted", None, "logit")
    return run_traced(
        loaded.model, batch, needs, spec, loaded.task if loaded.is_classifier else "none"
    )


def _extract_attention_maps(trace: Trace, items: Sequence[EncodedInput]) -> list[Floats]:
    """Return the attention maps of each input, (layers, heads, tokens, tokens).

    Heads that a layer lacks are 0. Layers are copied one at a time, so that memory holds all maps only once; numpy
    lacks bfloat16, so maps become float32 at least.
    """
    layers = trace.layers
    wide = torch.promote_types(trace.logits.dtype, torch.float32)
    depth, heads = len(layers), max(layer.heads for layer in layers)
    kind = np.float64 if wide == torch.float64 else np.float32
    stacks = [np.zeros((depth, heads, len(item), len(item)), dtype=kind) for item in items]
    for number, layer in enumerate(layers):
        batch_maps = layer.map().to(wide).cpu().numpy()
        for row, stack in enumerate(stacks):
            size = stack.shape[-1]
            stack[number, : layer.heads] = batch_maps[row, :, :size, :size]
    return stacks


@dataclass(frozen=True)
class InputMeasures:
    """The measures of one input."""

    heads: HeadMeasures
    overlap: FlowOverlap
    predictions: tuple[Prediction | None, Prediction | None]


@dataclass
class DatasetMeasures:
    """The measures of all inputs that both models could take, in the order of the data."""

    examples: list[Example]
    inputs: list[InputMeasures]
    shape: tuple[int, int]  # layers, heads
    tokens: int
    cut: int
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def head_measures(self) -> list[HeadMeasures]:
        """The attention measures of each input."""
        return [row.heads for row in self.inputs]

    @property
    def overlaps(self) -> list[FlowOverlap]:
        """The flow overlap of each input."""
        return [row.overlap for row in self.inputs]

    @property
    def predictions(self) -> tuple[list[Prediction | None], list[Prediction | None]]:
        """The predictions of the first model, and those of the second."""
        return [row.predictions[0] for row in self.inputs], [
            row.predictions[1] for row in self.inputs
        ]

    def order(self) -> list[int]:
        """Return a permutation of the inputs that does not depend on their given order."""
        return sorted(range(len(self.examples)), key=lambda i: repr(self.examples[i]))

    def facts(self, dataset: Dataset, drawn: int) -> dict[str, Any]:
        """Return the facts on the data that was read and used."""
        used = len(self.examples)
        return {
            "name": dataset.name,
            "given": len(dataset.examples),
            "drawn": drawn,
            "used": used,
            "cut": self.cut,
            "tokens": self.tokens / used,
            "text": dataset.text,
            "pair": dataset.pair,
            "label": dataset.label,
            "guessed": list(dataset.guessed),
            "why_not": [{"why": why, "count": count} for why, count in self.refused.items()],
        }


def measure_models(
    models: tuple[Explainer, Explainer],
    examples: Sequence[Example],
    *,
    weight: EdgeWeightName,
    coverage: float,
    specials: bool,
    truncate: bool,
    seed: int,
    advance: Callable[[int], None],
) -> DatasetMeasures:
    """Measure both models on every example; unusable examples are counted by reason."""
    numbers, sides, refused = _encode_for_both(models, examples, truncate)
    advance(len(examples) - len(numbers))
    items = sides[0]
    loaded = (models[0].loaded, models[1].loaded)
    names = (loaded[0].name, loaded[1].name)
    measures: dict[int, InputMeasures] = {}
    shape = (0, 0)
    for chosen in plan_batches(items, choose_batch_policy(loaded, sides, weight)):
        views = [
            trace_views(model, [side[i] for i in chosen], weight)
            for model, side in zip(loaded, sides, strict=True)
        ]
        for place, first, second in zip(chosen, *views, strict=True):
            shape = first.shape
            check_shape(shape, second.shape, names)
            measures[place] = _measure_input(items[place], first, second, coverage, specials, seed)
        advance(len(chosen))
    return DatasetMeasures(
        [examples[i] for i in numbers],
        [measures[place] for place in range(len(items))],
        shape,
        sum(len(item) for item in items),
        sum(bool(item.source.dropped) for item in items),
        refused,
    )


def _encode_for_both(
    models: tuple[Explainer, Explainer], examples: Sequence[Example], truncate: bool
) -> tuple[list[int], tuple[list[EncodedInput], list[EncodedInput]], Counter[str]]:
    """Encode the examples for both models, whose tokens must be the same."""
    refused: dict[int, WhenceError] = {}

    def record_failure(number: int, _: str | None, error: WhenceError) -> None:
        if not isinstance(error, InputError):
            raise error
        refused.setdefault(number, error)

    texts = [example.given for example in examples]
    names = (models[0].loaded.name, models[1].loaded.name)
    encoded = [
        encode_dataset(texts, model.loaded, truncate, record_failure).by_number()
        for model in models
    ]
    numbers = [number for number in encoded[0] if number in encoded[1]]
    if not numbers:
        first_error = min(refused.items(), key=lambda pair: pair[0])[1]
        kind = type(first_error) if isinstance(first_error, InputError) else BadExamples
        raise kind(f"None of the {len(examples)} examples can be used. {first_error}")
    for number in numbers:
        first, second = encoded[0][number], encoded[1][number]
        check_tokens(first.source.text, first.tokens, second.tokens, names)
    reasons = Counter(error.code.replace("-", " ") for error in refused.values())
    return numbers, ([encoded[0][i] for i in numbers], [encoded[1][i] for i in numbers]), reasons


def _measure_input(
    item: EncodedInput, a: ModelView, b: ModelView, coverage: float, specials: bool, seed: int
) -> InputMeasures:
    roots = select_decision_rows(a, b)
    rows = (roots[0] + roots[1]) / 2
    return InputMeasures(
        measure_heads(a.maps, b.maps, rows, item.tokens, seed),
        compute_flow_overlap(a.weights, b.weights, roots, coverage, item.tokens, seed, specials),
        (a.prediction, b.prediction),
    )


TOP_WORDS = 5
_CHUNK_SIZE = 64  # inputs between two reports of progress


def describe_incomparability(base: Explainer, tuned: Explainer) -> str | None:
    """Return why attributions cannot be compared; None if they can."""
    without = [model.loaded.name for model in (base, tuned) if not model.loaded.is_classifier]
    if without:
        both = len(without) == 2
        named = " and ".join(map(repr, dict.fromkeys(without)))
        have, predict = ("have", "predict") if both else ("has", "predicts")
        return (
            f"{named} {have} no classification head and {predict} nothing that could be explained."
        )
    if base.labels != tuned.labels:
        return (
            f"The models have different labels ({format_labels(base.labels)}; {format_labels(tuned.labels)}): there is no output "
            "that both could be asked about."
        )
    if base.loaded.task != tuned.loaded.task:
        return "The models have different tasks: what they predict means different things."
    return None


def format_labels(labels: Sequence[str]) -> str:
    """Return the labels as text, cut off after the first few."""
    text = ", ".join(labels[:4])
    return text if len(labels) <= 4 else f"{text} and {len(labels) - 4} more"


class WordAgreement:
    """Agreement of two models' word scores by input: tau-b, top-word overlap, and its chance level."""

    def __init__(self, inputs: int) -> None:
        self.tau, self.top, self.chance = (np.full(inputs, np.nan) for _ in range(3))

    def add(self, number: int, first: Explanation, second: Explanation) -> None:
        """Add the agreement of the two models' explanations of one input."""
        a, b = (np.asarray(side.word_scores, dtype=np.float64) for side in (first, second))
        self.tau[number], self.top[number] = compute_word_agreement(a, b)
        if not np.isnan(self.top[number]):
            self.chance[number] = TOP_WORDS / len(a)


def compute_word_agreement(a: Array, b: Array) -> tuple[float, float]:
    """Return tau-b and the overlap of the top words; NaN for constant scores or too few words."""
    tau = float(kendall(a, b)[0])
    if len(a) <= TOP_WORDS or np.isnan(tau):
        return tau, float("nan")
    # Equal scores agree fully, though top_k_overlap would break their ties at random.
    if np.array_equal(a, b):
        return tau, 1.0
    return tau, float(top_k_overlap(np.abs(a), np.abs(b), TOP_WORDS)[0])


def compare_explanations(
    models: tuple[Explainer, Explainer],
    inputs: Sequence[Any],
    predictions: Sequence[Prediction],
    method: str,
    truncate: bool,
    advance: Callable[[int], None],
) -> tuple[WordAgreement, str | None]:
    """Explain all inputs by both models, for the class that the second one predicts.

    Return the agreement, and the reason if no input could be explained.
    """
    agreement, failures = WordAgreement(len(inputs)), list[str]()
    explained = 0
    for index in sorted({prediction.index for prediction in predictions}):
        numbers = [i for i, prediction in enumerate(predictions) if prediction.index == index]
        for start in range(0, len(numbers), _CHUNK_SIZE):
            some = numbers[start : start + _CHUNK_SIZE]
            texts = [inputs[i] for i in some]
            sides = [
                _explain_inputs(model, texts, method, index, truncate, failures) for model in models
            ]
            for number, first, second in zip(some, *sides, strict=True):
                if first is not None and second is not None:
                    explained += 1
                    agreement.add(number, first, second)
            advance(len(some))
    return agreement, None if explained else failures[0]


def _explain_inputs(
    explainer: Explainer,
    texts: Sequence[Any],
    method: str,
    index: int,
    truncate: bool,
    failures: list[str],
) -> list[Explanation | None]:
    """Explain some inputs; if that fails, one by one."""
    target = None if explainer.loaded.task == "regression" else index
    try:
        explanations = explainer.explain(texts, method=method, target=target, truncate=truncate)
        assert isinstance(explanations, Explanations)
        return list(explanations.flatten())
    except WhenceError as error:
        failures.append(str(strip_method_name(error)))
        if len(texts) == 1:
            return [None]
    return [
        explanation
        for text in texts
        for explanation in _explain_inputs(explainer, [text], method, index, truncate, failures)
    ]
