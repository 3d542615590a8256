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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    InputError,
    NoTokenizer,
    WhenceError,
    shorten_quote,
)
from whence.core.seed import build_generator
from whence.core.types import Prediction, Token
from whence.data.dataset import Dataset
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.examine import strip_method_name
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_dataset
from whence.explain.inside import Inside
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
from whence.flow.heads import (
    compute_head_divergence,
    compute_head_entropy,
    compute_special_mass,
    jensen_shannon,
)
from whence.flow.weights import EdgeWeightName
from whence.stats.rank import kendall, top_k_overlap
from whence.tracing.target import TargetSpec

Array = NDArray[np.float64]
Floats = NDArray[np.floating[Any]]

# About as many rows are taken for the baseline of other heads; enough for a stable mean.
_STRANGER_ROWS = 64


@dataclass(frozen=True)
class HeadMeasures:
    """Attention measures of one input; in pairs of values the first model comes first."""

    divergence: Floats  # (layers, heads), in bits
    decision: Floats  # the same, over the rows that the decision reads
    strangers: Array  # (layers,): divergence of a head from another head of its layer
    special: Array  # (2, layers, heads)
    entropy: Array  # (2, layers, heads)
    # By special token: (2,), its mean attention in all layers, heads and rows.
    kinds: dict[str, Array]
    # By pair of texts: (2,), the attention between their words; empty for a single text. Special tokens get the rest.
    segments: dict[str, Array]


def measure_heads(
    a: Floats, b: Floats, rows: Floats, tokens: Sequence[Token], seed: int
) -> HeadMeasures:
    """Measure both models' attention on one input, (layers, heads, tokens, tokens).

    `rows` weights the rows of the decision, (tokens,).
    """
    layers, heads = a.shape[:2]
    divergence, decision = compute_head_divergence(a, b, rows)
    strangers = np.full(layers, np.nan)
    draw = build_generator("strangers", seed, [token.id for token in tokens])
    if heads > 1:
        shift = int(draw.integers(1, heads))  # pairs each head with another one
        step = max(1, len(tokens) // _STRANGER_ROWS)
        # A layer at a time: all maps in double precision at once would be large for long inputs.
        for layer, (own, other) in enumerate(zip(a[:, :, ::step], b[:, :, ::step], strict=True)):
            strangers[layer] = jensen_shannon(own, np.roll(other, shift, axis=0)).mean()
    special = np.array([token.special for token in tokens])
    # The mean maps of all heads, of both models.
    means = [
        np.mean([layer.mean(0, dtype=np.float64) for layer in maps], axis=0) for maps in (a, b)
    ]
    kinds: dict[str, Array] = {}
    for name in dict.fromkeys(token.text for token in tokens if token.special):
        places = [token.special and token.text == name for token in tokens]
        kinds[name] = np.array([mean.mean(0)[places].sum() for mean in means])
    segments: dict[str, Array] = {}
    words = [np.array([not t.special and t.segment == s for t in tokens]) for s in (0, 1)]
    if all(side.any() for side in words):
        for name in SEGMENT_PAIRS:
            source, to = (words["AB".index(side)] for side in name.split(">"))
            segments[name] = np.array([mean[source][:, to].sum(1).mean() for mean in means])
    return HeadMeasures(
        divergence,
        decision,
        strangers,
        np.stack([compute_special_mass(side, special) for side in (a, b)]),
        np.stack([compute_head_entropy(side) for side in (a, b)]),
        kinds,
        segments,
    )


_MODEL_ADVICE = (
    "Give two models of one tokenizer, such as a pre-trained model and what was fine-tuned from it."
)


def check_vocabulary(base: Explainer, tuned: Explainer) -> None:
    """Refuse two tokenizers that give the same token different ids.

    Tokens that only one of them has are found by `check_tokens` when a text uses them.
    """
    vocabularies: list[dict[str, int]] = []
    for model in (base, tuned):
        if model.tokenizer is None:
            raise NoTokenizer(
                f"{model.loaded.name!r} has no tokenizer: it cannot be seen whether both models read a text alike. "
                "Pass one: whence.load(model, tokenizer=...)."
            )
        vocabularies.append(model.tokenizer.get_vocab())
    own, other = vocabularies
    differ = [token for token in own if other.get(token, own[token]) != own[token]]
    if differ:
        token = min(differ, key=lambda name: own[name])
        raise BadTokenizer(
            f"{base.loaded.name!r} and {tuned.loaded.name!r} have different tokenizers: {token!r} is "
            f"{own[token]} in one and {other[token]} in the other. {_MODEL_ADVICE}"
        )


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
    shortest = min((bound for bound in bounds if bound is not None), default=None)
    first, second = (
        model if bound == shortest else Explainer(replace(model.loaded, max_length=shortest))
        for model, bound in zip((base, tuned), bounds, strict=True)
    )
    return first, second


# Edges that are sorted at first, the growth factor if these do not carry enough, and the limit: larger sets take
# hundreds of megabytes.
_FIRST_EDGES, _EDGE_GROWTH, _MAX_EDGES = 1 << 13, 8, 1 << 22
_RANDOM_DRAWS = 200  # random edge sets per input


@dataclass(frozen=True)
class FlowOverlap:
    """Overlap of two models' covering edge sets; NaN without edges, or with too many to sort."""

    layers: Array  # Jaccard index by layer
    layers_chance: Array
    jaccard: float = float("nan")
    chance: float = float("nan")
    only_a: float = float("nan")  # share of the union
    only_b: float = float("nan")


def compute_flow_overlap(
    traces: tuple[TracedFlow, TracedFlow],
    coverage: float,
    tokens: Sequence[Token],
    seed: int,
    specials: bool,
) -> FlowOverlap:
    """Compare the edges that carry the share `coverage` of the flow from the decision in both models.

    Without `specials`, edges that end on special tokens are left out of the sets and of the flow to be covered.
    """
    weights = traces[0].weights
    depth, heads, length = weights.layers, weights.edge.shape[1], weights.tokens
    unknown = FlowOverlap(np.full(depth, np.nan), np.full(depth, np.nan))
    query, special = EdgeQuery(specials=specials), np.array([token.special for token in tokens])
    first, second = (_select_covering_edges(traced, coverage, query, special) for traced in traces)
    if first is None or second is None:
        return unknown
    # A number for each edge, the same in both models; a head of -1 stands for all heads together.
    a, b = (
        ((edges.layer * heads + np.maximum(edges.head, 0)) * length + edges.source) * length
        + edges.to
        for edges in (first, second)
    )
    both = np.intersect1d(a, b, assume_unique=True)
    shared = np.bincount(both // (heads * length**2), minlength=depth)
    sizes = [np.bincount(edges.layer, minlength=depth) for edges in (first, second)]
    union = sizes[0] + sizes[1] - shared
    whole = int(union.sum())
    if not whole:
        return unknown
    choice = count_possible_edges(*traces, query, special)
    draw = build_generator("random edges", seed, [token.id for token in tokens])
    layers_chance = [
        compute_chance_jaccard(int(m), int(n), size) if m + n else np.nan
        for m, n, size in zip(*sizes, choice, strict=True)
    ]
    return FlowOverlap(
        layers=np.divide(shared, union, out=np.full(depth, np.nan), where=union > 0),
        layers_chance=np.array(layers_chance),
        jaccard=len(both) / whole,
        chance=_compute_chance_overlap(sizes[0], sizes[1], choice, draw),
        only_a=(len(first) - len(both)) / whole,
        only_b=(len(second) - len(both)) / whole,
    )


def _select_covering_edges(
    traced: TracedFlow, coverage: float, query: EdgeQuery, special: NDArray[np.bool_]
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


def _compute_chance_overlap(
    a: NDArray[np.int64], b: NDArray[np.int64], choice: Sequence[int], draw: np.random.Generator
) -> float:
    """Return the mean Jaccard index of random edge sets with as many edges in each layer."""
    shared = np.zeros(_RANDOM_DRAWS)
    for m, n, size in zip(a.tolist(), b.tolist(), choice, strict=True):
        if m and n:
            shared += draw.hypergeometric(m, size - m, n, size=_RANDOM_DRAWS)
    return float((shared / (a.sum() + b.sum() - shared)).mean())


def select_decision_rows(first: Inside, second: Inside) -> tuple[Floats, Floats]:
    """Return the rows that each decision reads; if only one model has a head, its rows serve both."""
    if first.has_head == second.has_head:
        return first.rows, second.rows
    known = first.rows if first.has_head else second.rows
    return known, known


@dataclass
class DatasetMeasures:
    """The measures of all inputs that both models could take, in the order of the data."""

    refused: Counter[str]
    examples: list[Example] = field(default_factory=list)
    heads: list[HeadMeasures] = field(default_factory=list)
    # As asked for, and with the other choice about special tokens.
    overlaps: list[tuple[FlowOverlap, ...]] = field(default_factory=list)
    predictions: list[tuple[Prediction | None, Prediction | None]] = field(default_factory=list)
    shape: tuple[int, int] = (0, 0)  # layers, heads
    tokens: int = 0
    cut: int = 0

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
    encoded, refused = _encode_for_both(models, examples, truncate)
    advance(len(examples) - len(encoded))
    names = (models[0].loaded.name, models[1].loaded.name)
    measures = DatasetMeasures(refused)
    # One input at a time: what takes long is comparing the maps, not the forward passes.
    for number, items in encoded.items():
        a, b = (
            Inside(model.loaded, item, TargetSpec("predicted", None, "logit"))
            for model, item in zip(models, items, strict=True)
        )
        measures.shape = (a.layers, a.heads)
        check_shape(measures.shape, (b.layers, b.heads), names)
        roots, tokens = select_decision_rows(a, b), a.tokens
        rows = (roots[0] + roots[1]) / 2
        traces = (trace_flow(a.weights(weight), roots[0]), trace_flow(b.weights(weight), roots[1]))
        overlaps = (
            compute_flow_overlap(traces, coverage, tokens, seed, which)
            for which in (specials, not specials)
        )
        measures.examples.append(examples[number])
        measures.heads.append(measure_heads(a.attention(), b.attention(), rows, tokens, seed))
        measures.overlaps.append(tuple(overlaps))
        measures.predictions.append((a.prediction, b.prediction))
        measures.tokens += len(tokens)
        measures.cut += bool(a.source.dropped)
        advance(1)
    return measures


def _encode_for_both(
    models: tuple[Explainer, Explainer], examples: Sequence[Example], truncate: bool
) -> tuple[dict[int, tuple[EncodedInput, EncodedInput]], Counter[str]]:
    """Encode the examples for both models, whose tokens must be the same; count the others by reason."""
    refused: dict[int, InputError] = {}

    def record_failure(number: int, _: str | None, error: WhenceError) -> None:
        if not isinstance(error, InputError):
            raise error
        refused.setdefault(number, error)

    texts = [example.given for example in examples]
    names = (models[0].loaded.name, models[1].loaded.name)
    first, second = (
        encode_dataset(texts, model.loaded, truncate, record_failure).by_number()
        for model in models
    )
    both = {number: (first[number], second[number]) for number in first if number in second}
    if not both:
        first_error = refused[min(refused)]
        raise type(first_error)(f"None of the {len(examples)} examples can be used. {first_error}")
    for own, other in both.values():
        check_tokens(own.source.text, own.tokens, other.tokens, names)
    return both, Counter(error.code.replace("-", " ") for error in refused.values())


TOP_WORDS = 5


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
    measures: DatasetMeasures,
    method: str,
    truncate: bool,
    advance: Callable[[int], None],
) -> tuple[dict[str, Array], str | None]:
    """Explain all inputs by both models, for the class that the second one predicts.

    Return the agreement of their words' scores by input (tau-b, overlap of the top words and its chance level), and the
    reason if no input could be explained.
    """
    count, failures = len(measures.examples), list[str]()
    classes = [second and second.index for _, second in measures.predictions]
    scores: tuple[dict[int, Array], dict[int, Array]] = {}, {}
    for model, own in zip(models, scores, strict=True):
        explained = model.explain_each(
            [example.given for example in measures.examples],
            method=method,
            target=None if model.loaded.task == "regression" else classes,
            truncate=truncate,
            failed=lambda number, _, error: failures.append(str(strip_method_name(error))),
            words=True,
        )
        for number, explanations in explained:
            own[number] = np.asarray(explanations[method].word_scores, dtype=np.float64)
            advance(1)
    agreement = {name: np.full(count, np.nan) for name in ("tau", "top", "chance")}
    both = scores[0].keys() & scores[1].keys()
    for number in both:
        a, b = (side[number] for side in scores)
        agreement["tau"][number], agreement["top"][number] = compute_word_agreement(a, b)
        if not np.isnan(agreement["top"][number]):
            agreement["chance"][number] = TOP_WORDS / len(a)
    return agreement, None if both else failures[0]
