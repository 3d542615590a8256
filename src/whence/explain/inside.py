"""One input, seen from inside the model: its attention, what flows along it, its heads, and what a cut does."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any

import numpy as np
import torch

from whence.capture import TargetSpec, Trace, trace
from whence.capture.target import predictions
from whence.core.errors import BadParameter, NoHead, NotCapturable, TooLong
from whence.core.types import Prediction, Source, Target, Task, Token, Word
from whence.data import Batch, Encoded, collate
from whence.explainer.inside import guard, knocked
from whence.explainer.inside.statistics import STATISTICS, Statistic, drawn
from whence.explainer.sharing import Sharing
from whence.flow import (
    CLASS_FREE,
    NEEDS,
    Classic,
    Direction,
    Name,
    Query,
    Weights,
    attention_maps,
    crossing,
    entropy,
    flow_payload,
    gradient_importance,
    influence,
    select,
    special_mass,
    thumbnails,
    trace_flow,
    weights,
)
from whence.models import Loaded

Progress = Callable[[int, int], None]
# Of all attention maps of one input, in float32.
_MOST_BYTES = 4_000_000_000

Floats = np.ndarray[Any, np.dtype[np.floating[Any]]]

PATCHES = (
    "How information flowed through a picture has too many edges to be drawn: each patch attends to every other in "
    "every head. The maps over the picture show what arrives at each patch."
)


class Inside:
    """What happened inside a model on one input. Nothing is run before it is asked for, and nothing twice."""

    def __init__(self, loaded: Loaded, sharing: Sharing, item: Encoded, spec: TargetSpec) -> None:
        self.loaded = loaded
        self.item = item
        self._sharing = sharing
        self._spec = spec
        self._weights: dict[tuple[Name, float | None], Weights] = {}

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens, special ones included."""
        return self.item.tokens

    @property
    def words(self) -> tuple[Word, ...]:
        """The words."""
        return self.item.words

    @property
    def source(self) -> Source:
        """What was given."""
        return self.item.source

    @property
    def special(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which tokens are special, (tokens,)."""
        return np.array([token.special for token in self.tokens])

    @property
    def segments(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The segment of each token, (tokens,)."""
        return np.array([token.segment for token in self.tokens])

    @property
    def has_head(self) -> bool:
        """Whether the model decides anything; a pre-trained one without a head attends all the same."""
        return self._task != "none"

    @property
    def _task(self) -> Task:
        """What the model does here: one whose outputs are not labels decides nothing without a reading."""
        read = self.loaded.classifies or self.item.reading is not None
        return self.loaded.task if read else "none"

    @cached_property
    def _seen(self) -> Trace:
        return self._traced({"attention"})

    def _check_size(self) -> None:
        """Refuse what would not fit: unlike an explanation, a picture of all edges needs all of the maps."""
        size = 4 * self.layers * self.heads * len(self.tokens) ** 2
        if size > _MOST_BYTES:
            raise TooLong(
                f"The maps of {self.layers} layers and {self.heads} heads over {len(self.tokens)} tokens take "
                f"{size / 1e9:.0f} GB; at most {_MOST_BYTES / 1e9:.0f} GB of them can be looked at. Give a shorter "
                "text; explanations need no maps and take longer ones."
            )

    @cached_property
    def prediction(self) -> Prediction | None:
        """What the model said, if it has a head."""
        if not self.has_head:
            return None
        return predictions(self._seen.logits, self.loaded.task, self.loaded.labels, [self.item])[0]

    @cached_property
    def target(self) -> Target | None:
        """Which output is asked about, if there are outputs."""
        if not self.has_head:
            return None
        return self._seen.targets.describe(0, self.item.labels or self.loaded.labels)

    @property
    def logits(self) -> torch.Tensor:
        """The logits as the model gave them while it was watched, (labels,)."""
        return self._seen.logits[0]

    @property
    def layers(self) -> int:
        """The number of layers."""
        return len(self._seen.layers)

    @property
    def heads(self) -> int:
        """The number of heads of a layer, the most of all."""
        return max(layer.heads for layer in self._seen.layers)

    @cached_property
    def rows(self) -> Floats:
        """The weights of the rows that the decision reads, (tokens,); without a head, that of the one token."""
        _ = self._seen.layers  # refuses where there is no stack of layers to read
        rows: Floats = self._seen.rows[0].double().cpu().numpy()
        return rows

    @cached_property
    def _attention(self) -> Floats:
        self._check_size()
        return attention_maps(self._seen)

    def attention(self) -> Floats:
        """Return all maps, (layers, heads, tokens, tokens), in float32, or as wide as the model computes."""
        return self._attention

    def weights(self, name: Name = "attention", residual: float | None = None) -> Weights:
        """Return the weights of the edges, and the share of each token that goes past a layer."""
        if name not in NEEDS:
            raise BadParameter(f"There is no edge weight {name!r}. There are: {', '.join(NEEDS)}.")
        key = (name, residual)
        if key not in self._weights:
            self._require_head(name)
            self._check_size()
            seen = self._seen if NEEDS[name] <= {"attention"} else self._traced(NEEDS[name])
            # Of large inputs one set of weights is large: keep the last one asked for.
            self._weights = {key: weights(seen, name, residual)}
        return self._weights[key]

    def flow(
        self,
        weight: Name = "attention",
        *,
        direction: Direction = "back",
        token: int | None = None,
        residual: float | None = None,
        query: Query | None = None,
        most: int = 5000,
        classic: Classic | None = None,
        rows: Floats | None = None,
    ) -> dict[str, Any]:
        """Return what flowed from the decision (or a token) back to the words, as the documented object.

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
            reached = influence(self.attention(), root, classic)
        edges = select(
            traced,
            query or Query(),
            most,
            self.special,
            self.segments,
            within=None if reached is None else reached.edges,
        )
        return {
            **flow_payload(traced, edges, self.special, reached),
            "model": self.loaded.name,
            "target": None if self.target is None else asdict(self.target),
            "tokens": [asdict(one) for one in self.tokens],
        }

    def between_segments(
        self, weight: Name = "attention", *, residual: float | None = None
    ) -> dict[str, Any]:
        """Return how much of what flows back from the decision goes between the texts of a pair, layer by layer.

        Each layer's "within", "between" and "special" add up to 1; a layer along which nothing flows has None. Of the
        first two together, "chance" is what would go between if all tokens of both texts counted the same.
        """
        traced = trace_flow(self.weights(weight, residual), self.rows)
        found = crossing(traced, self.segments, self.special)
        return {
            "kind": "between_segments",
            "weight": weight,
            **{
                part: [None if np.isnan(v) else float(v) for v in getattr(found, part)]
                for part in ("within", "between", "special")
            },
            "chance": found.chance,
        }

    def head_values(self, statistic: Statistic, progress: Progress | None = None) -> Floats:
        """Return one number per layer and head, (layers, heads)."""
        if statistic not in STATISTICS:
            raise BadParameter(
                f"There is no statistic {statistic!r}. There are: {', '.join(STATISTICS)}."
            )
        if statistic == "entropy":
            return entropy(self.attention())
        if statistic == "special":
            return special_mass(self.attention(), self.special)
        self._require_head(statistic)
        if statistic == "gradient":
            return gradient_importance(self._traced({"attention", "attention_grad"}))
        return knocked.ablated(self, progress)

    def head_statistic(
        self, statistic: Statistic = "entropy", progress: Progress | None = None
    ) -> dict[str, Any]:
        """Return one number per layer and head, as the documented object."""
        self._require_text()
        return drawn(statistic, self.head_values(statistic, progress))

    def tensors(self, keys: Sequence[str]) -> dict[str, np.ndarray[Any, Any]]:
        """Return numbers in bulk: "attention.LAYER.HEAD" one map in float32, "thumbnails" all of them, small."""
        return {key: self._tensor(key) for key in keys}

    def _tensor(self, key: str) -> np.ndarray[Any, Any]:
        if key == "thumbnails":
            return thumbnails(self.attention())
        kind, *place = key.split(".")
        if kind != "attention" or len(place) != 2 or not all(part.isdecimal() for part in place):
            raise BadParameter(
                f"There is no tensor {key!r}. There are: attention.LAYER.HEAD, such as attention.0.0, and thumbnails."
            )
        layer, head = map(int, place)
        if layer >= self.layers or head >= self.heads:
            raise BadParameter(
                f"There is no head {layer}.{head}: the model has layers 0 to {self.layers - 1} with heads 0 to "
                f"{self.heads - 1}."
            )
        return np.ascontiguousarray(self.attention()[layer, head], dtype=np.float32)

    def verify(
        self,
        edges: Sequence[tuple[int, int, int, int]],
        *,
        draws: int = 30,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> dict[str, Any]:
        """Cut edges (layer, head, source, to) and see what becomes of the prediction, beside random edges.

        A head of -1 means all heads of the layer.
        """
        self._require_text()
        self._require_head("verify")
        return knocked.verified(self, edges, draws=draws, seed=seed, progress=progress)

    def warnings(self) -> list[dict[str, str]]:
        """Return what a reader must know before believing what is shown."""
        return guard.warnings(self)

    def copies(self, number: int) -> Batch:
        """Return a batch of so many copies of the input, for variants of what the model does."""
        return collate([self.item] * number, pad_id=self.loaded.pad_id, device=self.loaded.device)

    def at_a_time(self) -> int:
        """How many copies may share a batch."""
        policy = self._sharing.policy([self.item] * 2, asks=True)
        return max(1, min(policy.size, policy.cells // len(self.item)))

    def _traced(self, needs: frozenset[str] | set[str]) -> Trace:
        return trace(self.loaded.model, self.copies(1), needs, self._spec, self._task)

    def _require_text(self) -> None:
        if self.item.picture is not None:
            raise NotCapturable(PATCHES)

    def _require_head(self, what: str) -> None:
        if not self.has_head and what not in CLASS_FREE:
            raise NoHead(
                f"{self.loaded.name!r} is a {type(self.loaded.model).__name__}: it has no classification head, so "
                f"there is no decision that {what} could be about. Take the weight attention, or a fine-tuned model."
            )


"""One input, seen from inside the model."""


"""Guard rails: what a reader must know before believing what is shown about one input."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from whence.capture import bare_logits
from whence.core.errors import NotCapturable, TooLong
from whence.data.text.vocabulary import count_unknown
from whence.flow import entropy

if TYPE_CHECKING:
    from whence.explainer.inside.inside import Inside

# A prediction whose first two labels are nearer than this could as well have been the other one: 0.6 against 0.4.
_NEAR = 0.2
# Rows of attention as wide as this, in every head, say nothing about where a model looks.
_UNIFORM = 0.98
_UNKNOWN = 0.2
# Between two ways to compute the same attention; float32 is a hundred times better.
_SAME = 1e-3


def warnings(inside: "Inside") -> list[dict[str, str]]:
    """Return the warnings, each with a code and a sentence."""
    return [{"code": code, "message": message} for code, message in _found(inside)]


def _found(inside: "Inside") -> Iterator[tuple[str, str]]:
    if inside.source.dropped:
        yield (
            "truncated",
            f"The text is too long for the model: {inside.source.dropped} tokens were cut off and "
            "played no part.",
        )
    yield from inside.item.warnings
    yield from _tie(inside)
    yield from _vocabulary(inside)
    yield from _attention(inside)


def _tie(inside: "Inside") -> Iterator[tuple[str, str]]:
    said = inside.prediction
    if said is None:
        yield (
            "no-head",
            f"{inside.loaded.name} has no classification head: it decides nothing, and flow starts at one token.",
        )
        return
    if inside.loaded.task != "single_label" or len(said.probabilities) < 2:
        return
    (first, one), (second, two) = sorted(said.probabilities.items(), key=lambda pair: -pair[1])[:2]
    if one - two < _NEAR:
        yield (
            "near-tie",
            f"The prediction is close: {first} {one:.0%}, {second} {two:.0%}. An explanation of {first} is hardly "
            "one of the decision; explain the contrast of both.",
        )


def _vocabulary(inside: "Inside") -> Iterator[tuple[str, str]]:
    count, content = count_unknown(inside.tokens, inside.loaded.fillers.get("unk"))
    if count > _UNKNOWN * content:
        yield (
            "unknown-words",
            f"The tokenizer does not know {count} of {content} tokens: another language, or not the tokenizer "
            "that the model was trained with?",
        )


def _attention(inside: "Inside") -> Iterator[tuple[str, str]]:
    try:
        attention = inside.attention()
    except (NotCapturable, TooLong) as error:
        yield "no-attention", str(error)
        return
    # With two tokens or three, rows are wide by nature.
    if len(inside.tokens) > 4 and float(np.nanmin(entropy(attention))) > _UNIFORM:
        yield (
            "uniform-attention",
            "Every head attends alike to all tokens that it can see: weights that were never trained look like this. "
            "Check that the model was loaded with its own.",
        )
    if inside.has_head:
        yield from _capture(inside)


def _capture(inside: "Inside") -> Iterator[tuple[str, str]]:
    own = bare_logits(inside.loaded.model, inside.copies(1))[0].double()
    seen = inside.logits.to(own)
    apart = float((own - seen).abs().max())
    if apart > _SAME * max(1.0, float(own.abs().max())):
        yield (
            "capture-differs",
            f"Watched, the model's logits differ from its own by {apart:.2g}: its attention is computed in another "
            "way than is shown here. Do not trust these pictures.",
        )


"""Opening the inside of a model: on an input that is asked about, or on one that was explained."""

import torch

from whence.capture import TargetSpec
from whence.core.errors import BadEncoding
from whence.core.types import Target
from whence.data import Encoded
from whence.explainer.aims import Asked, aim
from whence.explainer.inside.inside import Inside
from whence.explainer.sharing import Sharing
from whence.models import Loaded


def look(loaded: Loaded, sharing: Sharing, item: Encoded, asked: Asked) -> Inside:
    """Return the inside of a model on one input.

    A masked language model is looked into as one without a head where there is no mask to fill.
    """
    unmasked = loaded.task == "mask" and loaded.fillers.get("mask") not in item.ids
    if loaded.task == "none" or unmasked:
        return Inside(loaded, sharing, item, TargetSpec("predicted", None, "logit"))
    with torch.inference_mode(False):
        aimed = aim(loaded, [item], asked)
        if len(aimed.items) != 1:
            raise BadEncoding(
                "Two answers of several tokens are two inputs of the model. Look into each: answer='...'."
                if aimed.join is not None
                else f"The model says {len(aimed.items)} things about this text. Say which one to look into: at=..."
            )
        return Inside(loaded, sharing, aimed.items[0], aimed.spec)


def again(loaded: Loaded, sharing: Sharing, item: Encoded, target: Target) -> Inside:
    """Return the inside of a model on an input that was explained, with the target that was."""
    against = None if target.against is None else target.against.index
    return Inside(loaded, sharing, item, TargetSpec(target.index, against, target.of))


"""What can be counted of every head, and what it means."""

from typing import Any, Literal

import numpy as np

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


def drawn(statistic: Statistic, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return one number per layer and head, as the documented object."""
    title, meaning = STATISTICS[statistic]
    signed = statistic == "ablation"
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if signed:
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
        "signed": signed,
    }
