"""Class `Inside`: attention, flow, heads and cut edges of a model on one input, and warnings on that input."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from whence.core.errors import BadEncoding, BadParameter, NoHead, NotCapturable, TooLong
from whence.core.progress import Progress
from whence.core.types import InputText, Prediction, Target, Task, Token, Word
from whence.data.batches import Batch, collate
from whence.data.prompts import count_unknown
from whence.data.tokens import EncodedInput
from whence.explain import ablation
from whence.explain.batch_policy import choose_batch_policy
from whence.explain.tasks import TargetRequest, resolve_targets
from whence.flow.classic import ClassicSettings, compute_influence
from whence.flow.graph import Direction, EdgeQuery, select_edges, trace_flow
from whence.flow.heads import (
    build_thumbnails,
    compute_cross_text_flow,
    compute_gradient_importance,
    compute_head_entropy,
    compute_special_mass,
)
from whence.flow.payload import build_flow_payload
from whence.flow.weights import (
    CLASS_FREE_WEIGHTS,
    EDGE_WEIGHT_NEEDS,
    EdgeWeightName,
    EdgeWeights,
    collect_attention_maps,
    compute_edge_weights,
)
from whence.models.model import LoadedModel
from whence.tracing.forward import compute_plain_logits
from whence.tracing.target import TargetSpec, build_predictions
from whence.tracing.trace import Trace, run_traced

# A prediction whose two best labels differ by less is a near tie: 0.6 against 0.4.
_NEAR_TIE = 0.2
# Attention with a relative entropy above this in every head is as good as uniform.
_UNIFORM_ENTROPY = 0.98
_UNKNOWN_SHARE = 0.2
# Largest difference of logits between two ways to compute attention; float32 differs by a hundredth of it.
_LOGIT_TOLERANCE = 1e-3


def find_warnings(inside: "Inside") -> Iterator[tuple[str, str]]:
    """Yield the warnings on an input, each a code and a sentence."""
    loaded, prediction = inside.loaded, inside.prediction
    if inside.source.dropped:
        yield (
            "truncated",
            f"The text is too long for the model: {inside.source.dropped} tokens were cut off and "
            "played no part.",
        )
    yield from inside.item.warnings
    if prediction is None:
        yield (
            "no-head",
            f"{loaded.name} has no classification head: it decides nothing, and flow starts at one token.",
        )
    elif loaded.task == "single_label" and len(prediction.probabilities) > 1:
        (first, p), (second, q) = sorted(prediction.probabilities.items(), key=lambda x: -x[1])[:2]
        if p - q < _NEAR_TIE:
            yield (
                "near-tie",
                f"The prediction is close: {first} {p:.0%}, {second} {q:.0%}. An explanation of {first} is hardly "
                "one of the decision; explain the contrast of both.",
            )
    count, content = count_unknown(inside.tokens, loaded.fillers.get("unk"))
    if count > _UNKNOWN_SHARE * content:
        yield (
            "unknown-words",
            f"The tokenizer does not know {count} of {content} tokens: another language, or not the tokenizer "
            "that the model was trained with?",
        )
    try:
        attention = inside.attention()
    except (NotCapturable, TooLong) as error:
        yield "no-attention", str(error)
        return
    # With two to four tokens, entropy is high by nature.
    many = len(inside.tokens) > 4
    if many and float(np.nanmin(compute_head_entropy(attention))) > _UNIFORM_ENTROPY:
        yield (
            "uniform-attention",
            "Every head attends alike to all tokens that it can see: weights that were never trained look like this. "
            "Check that the model was loaded with its own.",
        )
    if inside.has_head:
        plain = compute_plain_logits(loaded.model, inside.copies(1))[0].double()
        difference = float((plain - inside.logits.to(plain)).abs().max())
        if difference > _LOGIT_TOLERANCE * max(1.0, float(plain.abs().max())):
            yield (
                "capture-differs",
                f"Watched, the model's logits differ from its own by {difference:.2g}: its attention is computed in "
                "another way than is shown here. Do not trust these pictures.",
            )


Statistic = Literal["entropy", "special", "gradient", "ablation"]
STATISTICS: dict[Statistic, tuple[str, str]] = {
    "entropy": (
        "entropy",
        "How widely a head looks: the mean entropy of its rows, as a share of the largest possible. Rows that can "
        "see one token alone do not count.",
    ),
    "special": (
        "mass on special tokens",
        "How much of its attention a head rests on special tokens, in the mean over its rows.",
    ),
    "gradient": (
        "gradient importance",
        "How much the target depends on a head to first order: |sum of attention times its gradient| "
        "(Michel et al. 2019).",
    ),
    "ablation": (
        "effect of ablation",
        "How much the target (its probability, or what a regression gives) changes when a head attends to nothing; "
        "below zero: it falls.",
    ),
}


# Bytes of all attention maps of one input, in float32.
_MOST_BYTES = 4_000_000_000

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

PATCHES_NOTE = (
    "How information flowed through a picture has too many edges to be drawn: each patch attends to every other in "
    "every head. The maps over the picture show what arrives at each patch."
)


class Inside:
    """Attention, flows and heads of a model on one input; each is computed on first use, and once."""

    def __init__(self, loaded: LoadedModel, item: EncodedInput, spec: TargetSpec) -> None:
        self.loaded = loaded
        self.item = item
        self._spec = spec
        self._weights: dict[tuple[EdgeWeightName, float | None], EdgeWeights] = {}

    @property
    def tokens(self) -> Sequence[Token]:
        """The tokens, special ones included."""
        return self.item.tokens

    @property
    def words(self) -> Sequence[Word]:
        """The words."""
        return self.item.words

    @property
    def source(self) -> InputText:
        """The input text, or pair of texts."""
        return self.item.source

    @property
    def special(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The mask of special tokens, (tokens,)."""
        return np.array([token.special for token in self.tokens])

    @property
    def segments(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The segment of each token, (tokens,)."""
        return np.array([token.segment for token in self.tokens])

    @property
    def has_head(self) -> bool:
        """Whether the model has a head; a pre-trained one without a head has attention all the same."""
        return self._task != "none"

    @property
    def _task(self) -> Task:
        """The model's task, or "none" where its outputs are not labels and there is no readout."""
        read = self.loaded.is_classifier or self.item.reading is not None
        return self.loaded.task if read else "none"

    @cached_property
    def _trace(self) -> Trace:
        return self._run_trace({"attention"})

    def _check_size(self) -> None:
        """Refuse attention maps over 4 GB: a view of all edges needs every map at once."""
        size = 4 * self.layers * self.heads * len(self.tokens) ** 2
        if size > _MOST_BYTES:
            raise TooLong(
                f"The maps of {self.layers} layers and {self.heads} heads over {len(self.tokens)} tokens take "
                f"{size / 1e9:.0f} GB; at most {_MOST_BYTES / 1e9:.0f} GB of them can be looked at. Give a shorter "
                "text; explanations need no maps and take longer ones."
            )

    @cached_property
    def prediction(self) -> Prediction | None:
        """The prediction; None without a head."""
        if not self.has_head:
            return None
        return build_predictions(
            self._trace.logits, self.loaded.task, self.loaded.labels, [self.item]
        )[0]

    @cached_property
    def target(self) -> Target | None:
        """The explained output; None without a head."""
        if not self.has_head:
            return None
        return self._trace.targets.describe_rows([self.item.labels or self.loaded.labels])[0]

    @property
    def logits(self) -> torch.Tensor:
        """The logits of the traced forward pass, (labels,)."""
        return self._trace.logits[0]

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self._trace.layers)

    @property
    def heads(self) -> int:
        """The largest number of heads of a layer."""
        return max(layer.heads for layer in self._trace.layers)

    @cached_property
    def rows(self) -> Floats:
        """The weights of the rows that the decision reads, (tokens,); without a head, that of the one token."""
        _ = self._trace.layers  # raises NotCapturable if the model has no stack of layers
        rows: Floats = self._trace.rows[0].double().cpu().numpy()
        return rows

    @cached_property
    def _attention(self) -> Floats:
        self._check_size()
        return collect_attention_maps(self._trace)

    def attention(self) -> Floats:
        """Return all maps, (layers, heads, tokens, tokens), in float32 or the model's wider dtype."""
        return self._attention

    def weights(
        self, name: EdgeWeightName = "attention", residual: float | None = None
    ) -> EdgeWeights:
        """Return the weights of the edges, and the share of each token that goes past a layer."""
        if name not in EDGE_WEIGHT_NEEDS:
            raise BadParameter(
                f"There is no edge weight {name!r}. There are: {', '.join(EDGE_WEIGHT_NEEDS)}."
            )
        key = (name, residual)
        if key not in self._weights:
            self._require_head(name)
            self._check_size()
            needs = EDGE_WEIGHT_NEEDS[name]
            trace = self._trace if needs <= {"attention"} else self._run_trace(needs)
            # The weights of a long input are large: only the last set is kept.
            self._weights = {key: compute_edge_weights(trace, name, residual)}
        return self._weights[key]

    def flow(
        self,
        weight: EdgeWeightName = "attention",
        *,
        direction: Direction = "back",
        token: int | None = None,
        residual: float | None = None,
        query: EdgeQuery | None = None,
        most: int = 5000,
        classic: ClassicSettings | None = None,
        rows: Floats | None = None,
    ) -> dict[str, Any]:
        """Return the flow from the decision (or a token) back to the words, as the documented object.

        `direction`: "back" from the decision, or from `token` above the last layer; "forward" from `token` at the
        input; "through" it: the paths from the decision that end at `token`. `query` chooses edges, `most` is how
        many are returned at most, the strongest first. With `classic`, edges are those of DeRose, Wang & Berger
        2020: attention above a threshold. `rows`, (tokens,), takes the place of the rows that the decision reads,
        where another model's decision stands for it.
        """
        self._require_text()
        if most < 1:
            raise BadParameter(f"most must be at least 1: how many edges to return. Got {most}.")
        if classic is not None and (direction, weight) != ("back", "attention"):
            raise BadParameter(
                f"The classic definition goes back along attention. Got {direction} along {weight}: leave classic "
                "out, or take the direction back and the weight attention."
            )
        start = self.rows if rows is None else rows
        traced = trace_flow(self.weights(weight, residual), start, direction, token)
        reached = None
        if classic is not None:
            root = start if token is None else np.eye(len(self.tokens))[token]
            reached = compute_influence(self.attention(), root, classic)
        edges = select_edges(
            traced,
            query or EdgeQuery(),
            most,
            self.special,
            self.segments,
            within=None if reached is None else reached.edges,
        )
        return {
            **build_flow_payload(traced, edges, self.special, reached),
            "model": self.loaded.name,
            "target": None if self.target is None else asdict(self.target),
            "tokens": [asdict(t) for t in self.tokens],
        }

    def between_segments(
        self, weight: EdgeWeightName = "attention", *, residual: float | None = None
    ) -> dict[str, Any]:
        """Return the share of the flow from the decision that goes between two texts, layer by layer.

        Each layer's "within", "between" and "special" add up to 1; a layer along which nothing flows has None. Of the
        first two together, "chance" is what would go between if all tokens of both texts counted the same.
        """
        traced = trace_flow(self.weights(weight, residual), self.rows)
        shares = compute_cross_text_flow(traced, self.segments, self.special)
        return {
            "kind": "between_segments",
            "weight": weight,
            **{
                part: [None if np.isnan(v) else float(v) for v in getattr(shares, part)]
                for part in ("within", "between", "special")
            },
            "chance": shares.chance,
        }

    def head_values(self, statistic: Statistic, progress: Progress | None = None) -> Floats:
        """Return one number per layer and head, (layers, heads)."""
        if statistic not in STATISTICS:
            raise BadParameter(
                f"There is no statistic {statistic!r}. There are: {', '.join(STATISTICS)}."
            )
        if statistic == "entropy":
            return compute_head_entropy(self.attention())
        if statistic == "special":
            return compute_special_mass(self.attention(), self.special)
        self._require_head(statistic)
        if statistic == "gradient":
            return compute_gradient_importance(self._run_trace({"attention", "attention_grad"}))
        return ablation.ablate_heads(self, progress)

    def head_statistic(
        self, statistic: Statistic = "entropy", progress: Progress | None = None
    ) -> dict[str, Any]:
        """Return one number per layer and head, as the documented object."""
        self._require_text()
        values = self.head_values(statistic, progress)
        title, meaning = STATISTICS[statistic]
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        if statistic == "ablation":
            high = max(abs(low), abs(high))
            low = -high
        elif statistic != "gradient":
            low, high = 0.0, 1.0
        return {
            "kind": "heads",
            "statistic": statistic,
            "title": title,
            "meaning": meaning,
            "values": [[None if np.isnan(v) else float(v) for v in row] for row in values],
            "low": min(low, 0.0),
            "high": high,
            "signed": statistic == "ablation",
        }

    def tensors(self, keys: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Return numbers in bulk: "attention.LAYER.HEAD" one map in float32, "thumbnails" all of them, small."""
        tensors = {}
        for key in keys:
            if key == "thumbnails":
                tensors[key] = build_thumbnails(self.attention())
                continue
            kind, *place = key.split(".")
            if kind != "attention" or len(place) != 2 or not all(map(str.isdecimal, place)):
                raise BadParameter(
                    f"There is no tensor {key!r}. There are: attention.LAYER.HEAD, such as attention.0.0, and thumbnails."
                )
            layer, head = map(int, place)
            if layer >= self.layers or head >= self.heads:
                raise BadParameter(
                    f"There is no head {layer}.{head}: the model has layers 0 to {self.layers - 1} with heads 0 to "
                    f"{self.heads - 1}."
                )
            tensors[key] = np.ascontiguousarray(self.attention()[layer, head], dtype=np.float32)
        return tensors

    def verify(
        self,
        edges: Sequence[tuple[int, int, int, int]],
        *,
        draws: int = 30,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Cut edges (layer, head, source, to) and compare the change of the target with that by random cuts.

        A head of -1 means all heads of the layer.
        """
        self._require_text()
        self._require_head("verify")
        return ablation.verify_edges(self, edges, draws=draws, seed=seed, progress=progress)

    def warnings(self) -> list[dict[str, str]]:
        """Return the warnings on the input, each with a code and a message."""
        return [{"code": code, "message": message} for code, message in find_warnings(self)]

    def copies(self, number: int) -> Batch:
        """Return a batch of `number` copies of the input, one for each variant of the model."""
        return collate([self.item] * number, pad_id=self.loaded.pad_id, device=self.loaded.device)

    def max_batch_copies(self) -> int:
        """Return the number of copies that may share a batch."""
        policy = choose_batch_policy(self.loaded, [self.item] * 2, variants=True)
        return max(1, min(policy.size, policy.cells // len(self.item)))

    def _run_trace(self, needs: frozenset[str] | set[str]) -> Trace:
        return run_traced(self.loaded.model, self.copies(1), needs, self._spec, self._task)

    def _require_text(self) -> None:
        if self.item.picture is not None:
            raise NotCapturable(PATCHES_NOTE)

    def _require_head(self, what: str) -> None:
        if not self.has_head and what not in CLASS_FREE_WEIGHTS:
            raise NoHead(
                f"{self.loaded.name!r} is a {type(self.loaded.model).__name__}: it has no classification head, so "
                f"there is no decision that {what} could be about. Take the weight attention, or a fine-tuned model."
            )


def open_inside(loaded: LoadedModel, item: EncodedInput, request: TargetRequest) -> Inside:
    """Return the `Inside` of a model on one input.

    A masked language model without a mask in its input is treated as a model without a head.
    """
    unmasked = loaded.task == "mask" and loaded.fillers.get("mask") not in item.ids
    if loaded.task == "none" or unmasked:
        return Inside(loaded, item, TargetSpec("predicted", None, "logit"))
    with torch.inference_mode(False):
        targeted = resolve_targets(loaded, [item], request)
        if len(targeted.items) != 1:
            raise BadEncoding(
                "Two answers of several tokens are two inputs of the model. Look into each: answer='...'."
                if targeted.join is not None
                else f"The model says {len(targeted.items)} things about this text. Say which one to look into: at=..."
            )
        return Inside(loaded, targeted.items[0], targeted.spec)
