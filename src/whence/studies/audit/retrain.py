"""Trainers for audit experiments: retrained, imitating, context-free models; their divergence and performance.

Models of Jain & Wallace start from the seed alone. A Transformer is too large for that: it starts from the
given pre-trained model with a head drawn from the seed, or, without one, from itself with its head and its
last block drawn from the seed. A model that imitates the audited one may start near it. The audited model
itself is never changed.

Imitation (Wiegreffe & Pinter 2019): the loss TVD(p, own p) - weight · KL(attention ‖ own attention) asks for
the same predictions with other attention. Guided models (their section 4) have no context: each token has its
own state tanh(W e + b), the prediction is read from the weighted mean of the states, and only the weights
differ: uniform, learnt with the rest, or those of another model, given for every example.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence.core.errors import BadExamples, BadParameter, InputError, NoHead
from whence.core.seed import build_generator
from whence.core.types import InputText
from whence.data.batches import Batch, BatchRules, collate, plan_batches
from whence.data.dataset import resolve_label_indices
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_inputs
from whence.models.load import load_model
from whence.models.model import LoadedModel
from whence.models.rnn import AttentiveConfig, initialise_model
from whence.stats.intervals import bootstrap
from whence.studies.audit.attention_variants import jsd, kl, tvd
from whence.studies.audit.finding_summary import summarise
from whence.studies.audit.subject import AuditSubject
from whence.studies.training.fit import FitResult, Loss, build_cross_entropy, fit
from whence.studies.training.performance import LabelledInput
from whence.studies.training.recipe import RECIPES, Recipe, choose_recipe
from whence.tracing.alter import randomise_weights
from whence.tracing.attention_layer import AttentionLayer
from whence.tracing.attention_override import override_attention, watch_attention
from whence.tracing.forward import compute_logits, open_plain_forward
from whence.tracing.structure import list_stages
from whence.tracing.target import TargetSpec, compute_probabilities
from whence.tracing.trace import run_traced

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

# A model has learnt a task if its accuracy is this far from the commonest label's to the reference's.
_LEARNT_SHARE = 0.5
_ROUNDING = 1e-9
_BOOTSTRAP_DRAWS = 1000  # bootstrap draws for F1, which is no mean


def attention_divergence(subject: AuditSubject, other: AuditSubject) -> Numbers:
    """Return the Jensen-Shannon divergence of two models' attention, for each example."""
    return _jsd_per_example(subject.attention(), other.attention())


def chance_attention_divergence(subject: AuditSubject, other: AuditSubject) -> Numbers:
    """Return the attention divergence by example, with the other's weights permuted over words."""
    permuted = []
    for item, weights in zip(other.items, other.attention(), strict=True):
        order = build_generator("dealt out", subject.seed, item.key).permutation(len(weights))
        permuted.append(weights[order])
    return _jsd_per_example(subject.attention(), permuted)


def largest_attention_divergence(subject: AuditSubject) -> Numbers:
    """Return the largest possible divergence from the model's attention.

    It is reached with all weight on the token that has the least.
    """
    far = []
    for weights in subject.attention():
        least = np.zeros_like(weights)
        least[weights.argmin()] = 1
        far.append(least)
    return _jsd_per_example(subject.attention(), far)


def describe_too_short(reach: Numbers) -> str:
    """Return the reason for no verdict: the texts are too short for attention to diverge."""
    return (
        f"The texts are too short: no attention at all can be farther from the model's than {reach.mean():.3f} in "
        "the mean."
    )


def _jsd_per_example(own: list[Numbers], other: list[Numbers]) -> Numbers:
    pairs = zip(own, other, strict=True)
    return np.array([float(jsd(torch.from_numpy(a), torch.from_numpy(b))) for a, b in pairs])


def prediction_distance(subject: AuditSubject, other: AuditSubject) -> Numbers:
    """Return the total variation distance of two models' predictions, for each example."""
    probabilities = torch.from_numpy(subject.probabilities), torch.from_numpy(other.probabilities)
    return tvd(*probabilities, subject.loaded.task).numpy()


def summarise_performance(
    predicted: Labels, truth: Labels, labels: int, *key: str | int
) -> dict[str, Any]:
    """Return accuracy and F1 with intervals.

    F1 is that of the second of two labels, or the mean over all labels that occur.
    """
    rows = np.column_stack([truth, predicted]).astype(np.float64)
    rows = rows[np.lexsort(rows.T[::-1])]  # the order of the examples must not change the bootstrap

    estimate = bootstrap(
        rows,
        ("audit", "f1", *key),
        statistic=lambda some: _f1(some, labels),
        draws=_BOOTSTRAP_DRAWS,
    )
    interval = None if estimate.low is None else [estimate.low, estimate.high]
    return {
        "accuracy": summarise((predicted == truth).astype(np.float64), "accuracy", *key),
        "f1": {"mean": estimate.mean, "interval": interval, "n": estimate.n},
    }


def _f1(rows: Numbers, labels: int) -> float:
    """Return the F1 of `whence.studies.training.performance` for rows of true and predicted labels."""
    true, predicted = rows.astype(np.int64).T
    hits = np.bincount(true[true == predicted], minlength=labels)
    total = np.bincount(true, minlength=labels) + np.bincount(predicted, minlength=labels)
    scores = 2 * hits / np.maximum(total, 1)
    return float(scores[1] if labels == 2 else scores[total > 0].mean())


def has_learnt(predicted: Labels, truth: Labels, reference: float = 1.0) -> bool:
    """Return whether accuracy is at least half way from the commonest label to `reference`.

    False if the reference itself is no better than the commonest label.
    """
    commonest = np.bincount(truth).max() / len(truth)
    right = float((predicted == truth).mean())
    gain = reference - commonest
    return bool(gain > _ROUNDING and right - commonest >= _LEARNT_SHARE * gain - _ROUNDING)


AttentionMode = Literal["own", "uniform"]
StartPoint = Literal["anew", "near"]

# The cost of a training pass in forward passes: one forward, and a backward that takes as long as two.
TRAINING_PASS = 3
# With fewer steps nothing is learnt: small data get more epochs.
MIN_STEPS = 150
# The default learning rate is for models of this width; narrower ones need a higher one.
_USUAL_WIDTH = 768
# A start near the model moves its attention this share of the way to random weights, because at the model itself
# every gradient of a divergence is zero. The way is short, so the learning rate is smaller.
_NEAR_FRACTION, _NEAR_RATE_FACTOR = 0.1, 0.3
# The share of the encoder's weights that a base must have: a pooler is often missing.
_MIN_SHARED_WEIGHTS = 0.9


@dataclass(frozen=True, eq=False)
class RetrainedModel:
    """A model trained for the audit, and the attention it was trained with."""

    loaded: LoadedModel
    attention: AttentionMode
    fitted: FitResult

    def apply_to(self, subject: AuditSubject) -> AuditSubject:
        """Return the retrained model as a subject with the same examples."""
        other = subject.with_model(self.loaded)
        with self.override_attention():
            _ = other.probabilities  # computed and cached while the override is active
        return other

    @contextmanager
    def override_attention(self) -> Iterator[None]:
        """Let the model attend as it was trained to; models of Jain & Wallace do so by themselves."""
        built = isinstance(self.loaded.model.config, AttentiveConfig)
        with override_attention(self.loaded.model, "own" if built else self.attention):
            yield


class Retrainer:
    """A trainer of models like the audited one, on one set of examples; each training is done once."""

    def __init__(
        self,
        loaded: LoadedModel,
        train: Sequence[Example] = (),
        *,
        base: Any = None,
        others: Sequence[Any] = (),
        epochs: int | None = None,
        seed: int = 0,
    ) -> None:
        """`base` is a pre-trained model to start from: a name, a folder, a Hub id or a model.

        For a model of Jain & Wallace it provides the initial word vectors. `others` are models that were trained elsewhere
        by the same recipe from other seeds.
        """
        self.loaded = loaded
        self.seed = seed
        self.others = tuple(_check_same_architecture(_load_model(one), loaded) for one in others)
        self._base = None if base is None else _load_model(base).model
        self._epochs = epochs
        self._retrained: dict[tuple[int, AttentionMode], RetrainedModel] = {}
        self.examples, self.rows = _encode_training_rows(train, loaded) if train else ([], [])

    @property
    def items(self) -> list[EncodedInput]:
        """The training examples, encoded."""
        return [row.item for row in self.rows]

    @property
    def is_rnn(self) -> bool:
        """Whether the model is an RNN of Jain & Wallace."""
        return isinstance(self.loaded.model.config, AttentiveConfig)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of retraining: the model's own, if known, or the default for such models."""
        recipe = self._resolve_recipe()
        if self._epochs is not None:
            return replace(recipe, epochs=self._epochs)
        steps = ceil(len(self.rows) / recipe.batch_size)
        return replace(recipe, epochs=max(recipe.epochs, ceil(MIN_STEPS / max(1, steps))))

    def _resolve_recipe(self) -> Recipe:
        config = self.loaded.model.config
        if self.is_rnn:
            known = {field.name for field in fields(Recipe)}
            stated = {name: value for name, value in config.training.items() if name in known}
            plain = choose_recipe(query=config.query, labels=config.num_labels)
            return Recipe.from_dict({**plain.to_dict(), **stated, "patience": None})
        recipe = RECIPES["transformer"]
        rate = recipe.learning_rate * _USUAL_WIDTH / getattr(config, "hidden_size", _USUAL_WIDTH)
        return replace(recipe, learning_rate=rate)

    def list_seeds(self, count: int) -> list[int]:
        """Return `count` seeds for retraining, without the seed of the model itself."""
        own = getattr(self.loaded.model.config, "training", None) or {}
        some = range(self.seed + 1, self.seed + 2 + count)
        return [seed for seed in some if seed != own.get("seed")][:count]

    def retrain(
        self,
        seed: int,
        attention: AttentionMode = "own",
        loss: Loss | None = None,
        *,
        start: StartPoint = "anew",
        epochs: int | None = None,
        tick: Callable[[float], None] = lambda _: None,
    ) -> RetrainedModel:
        """Train a model like the audited one.

        `attention` is how it attends while it is trained and afterwards. With a `loss` of its own it ends with the
        weights of the epoch with the lowest loss; else with those of the last epoch. `start` "near" begins with the
        model's own weights, in which the attention, or a Transformer's last block, is moved a little. `tick` is called
        with finished forward passes.
        """
        key = (seed, attention)
        plain = loss is None and epochs is None and start == "anew"
        if plain and key in self._retrained:
            return self._retrained[key]
        model = (
            self._initialise_near(seed) if start == "near" else self._initialise(seed, attention)
        )
        name = f"{self.loaded.name}, seed {seed}"
        loaded = replace(self.loaded, model=model, name=name, revision=None, infiller=None)
        recipe = replace(self.recipe, seed=seed, epochs=epochs or self.recipe.epochs)
        if start == "near":
            recipe = replace(recipe, learning_rate=_NEAR_RATE_FACTOR * recipe.learning_rate)
        mode: AttentionMode = "own" if self.is_rnn else attention
        with override_attention(model, mode):
            fitted = fit(
                model,
                self._check_training_rows(),
                recipe if loss is None else replace(recipe, summed=False),
                pad_id=loaded.pad_id,
                loss=loss,
                select=None if loss is None else lambda _, value: -value,
                progress=_count_passes(tick),
            )
        retrained = RetrainedModel(loaded, attention, fitted)
        if plain:
            self._retrained[key] = retrained
        return retrained

    def build_training_subject(self, subject: AuditSubject) -> AuditSubject:
        """Return the audited model with the training examples as a subject."""
        key = "training examples"
        if key not in subject.memo:
            subject.memo[key] = replace(
                subject,
                examples=self.examples,
                items=self.items,
                truth=None,
                workshop=None,
                memo={},
            )
        training: AuditSubject = subject.memo[key]
        return training

    def _check_training_rows(self) -> list[LabelledInput]:
        if not self.rows:
            raise BadExamples(
                "There are no examples to train on. Give labelled ones: train=..., --train FILE."
            )
        if self.loaded.takes_images:
            raise NoHead(
                f"{self.loaded.name!r} sees pictures, and only models of texts are trained again here. Ask for "
                "experiments that train nothing."
            )
        if self.loaded.task != "single_label":
            raise NoHead(
                f"{self.loaded.name!r} is no classifier with one label of several (its task is {self.loaded.task}), "
                "and only such models can be trained again. Ask for experiments that train nothing."
            )
        return self.rows

    def _initialise(self, seed: int, attention: AttentionMode) -> Any:
        loaded = self.loaded
        wide = torch.promote_types(loaded.dtype, torch.float32)
        if self.is_rnn:
            config = copy.deepcopy(loaded.model.config)
            config.attention = "uniform" if attention == "uniform" else config.attention
            model = initialise_model(config, seed, self._find_base_vectors())
        else:
            model = self._initialise_head(copy.deepcopy(loaded.model), seed)
            model.requires_grad_(True)
        return model.to(device=loaded.device, dtype=wide).eval()

    def _initialise_near(self, seed: int) -> Any:
        """Copy the model and move its attention, or its last block, towards random weights."""
        model = copy.deepcopy(self.loaded.model)
        if self.is_rnn:
            stage, drawn = (
                "attention",
                initialise_model(copy.deepcopy(model.config), seed).state_dict(),
            )
        else:
            last = min(1, len(list_stages(model)) - 1)
            stage, drawn = list_stages(model)[last], _randomise_weights(model, last, seed)
        own = model.state_dict()
        for name, value in own.items():
            if name.startswith(f"{stage}.") and value.is_floating_point():
                value.lerp_(drawn[name].to(value), _NEAR_FRACTION)
        for module in model.modules():
            # The copy is to predict the same; dropout noise would only drive it away.
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        wide = torch.promote_types(self.loaded.dtype, torch.float32)
        return model.requires_grad_(True).to(dtype=wide).eval()

    def _find_base_vectors(self) -> Any:
        """Return the initial word vectors of the base, if it has any."""
        if self._base is None:
            return None
        own, vectors = self.loaded.vocabulary_size, self._base.get_input_embeddings().weight
        expected = (own, self.loaded.model.config.embedding_size)
        if tuple(vectors.shape) != expected:
            raise BadParameter(
                f"The base has word vectors of {tuple(vectors.shape)}, and the model needs {expected}. Give a base with "
                "the same words, or none."
            )
        return vectors.detach().double().cpu().numpy()

    def _initialise_head(self, model: Any, seed: int) -> Any:
        """Copy the weights of the base and randomise the head; without a base, also the last block."""
        if self._base is not None:
            _copy_base_weights(model, self._base, self.loaded.name)
        last = 0 if self._base is not None else min(1, len(list_stages(model)) - 1)
        model.load_state_dict(_randomise_weights(model, last, seed))
        return model


def _randomise_weights(model: Any, stage: int, seed: int) -> dict[str, torch.Tensor]:
    """Return the weights with those of stages 0 to `stage` drawn from the seed."""
    with randomise_weights(model, stage, seed):
        return {name: value.clone() for name, value in model.state_dict().items()}


def _count_passes(tick: Callable[[float], None]) -> Callable[[int, int], None]:
    """Return a progress callback that converts trained examples to forward passes."""
    previous = 0

    def count(examples: int, _: int) -> None:
        nonlocal previous
        tick(TRAINING_PASS * (examples - previous))
        previous = examples

    return count


def count_training_passes(train: int, epochs: int | None) -> int:
    """Return the cost of one training in forward passes; by default for eight epochs."""
    return TRAINING_PASS * train * (epochs or Recipe().epochs)


def _encode_training_rows(
    train: Sequence[Example], loaded: LoadedModel
) -> tuple[list[Example], list[LabelledInput]]:
    """Encode the usable training examples, truncated to the maximum length, with label indices."""
    usable: list[tuple[Example, EncodedInput]] = []
    why = ""
    for example in train:
        try:
            (item,), _ = encode_inputs(example.given, loaded, truncate=True)
        except InputError as error:
            why = str(error)
            continue
        usable.append((example, item))
    if not usable:
        raise BadExamples(f"None of the {len(train)} training examples can be used. {why}")
    chosen = [example for example, _ in usable]
    labels = resolve_label_indices(chosen, loaded.labels)
    return chosen, [
        LabelledInput(item, label) for (_, item), label in zip(usable, labels, strict=True)
    ]


def _load_model(source: Any) -> LoadedModel:
    if isinstance(source, Explainer):
        return source.loaded
    return source if isinstance(source, LoadedModel) else load_model(source)


def _check_same_architecture(other: LoadedModel, loaded: LoadedModel) -> LoadedModel:
    """Return another model if it has the same class, tokens and labels; else raise."""
    same = other.vocabulary_size == loaded.vocabulary_size and other.labels == loaded.labels
    if same and type(other.model) is type(loaded.model):
        return replace(other, tokenizer=loaded.tokenizer)
    raise BadParameter(
        f"{other.name!r} ({type(other.model).__name__}, {other.vocabulary_size} tokens, labels {list(other.labels)}) is "
        f"no other training of {loaded.name!r} ({type(loaded.model).__name__}, {loaded.vocabulary_size} tokens, labels "
        f"{list(loaded.labels)}). Give models that differ in their seed alone."
    )


def _copy_base_weights(model: Any, base: Any, name: str) -> None:
    """Copy every weight of the base that the model has too, matched by its name within the encoder."""
    prefix = getattr(model, "base_model_prefix", "")
    known = {key.removeprefix(f"{prefix}."): value for key, value in base.state_dict().items()}
    own = model.state_dict()
    shared = {
        key: known[short]
        for key, value in own.items()
        if (short := key.removeprefix(f"{prefix}.")) in known and known[short].shape == value.shape
    }
    encoder = [key for key in own if key.startswith(f"{prefix}.")]
    if len(shared) < _MIN_SHARED_WEIGHTS * len(encoder):
        raise BadParameter(
            f"The base ({type(base).__name__}) has {len(shared)} of the {len(encoder)} weights of {name!r}: it is "
            "another architecture, or of another size. Give the model that this one was fine-tuned from."
        )
    model.load_state_dict(shared, strict=False)


# The initial word vectors: the audited model's, scaled to a standard deviation of 1, or random. With random vectors,
# words that are in no training example are unknown.
VectorSource = Literal["model", "drawn"]

# The cost of a pass of a context-free model, in passes of the audited RNN or Transformer.
RNN_PASS_COST, TRANSFORMER_PASS_COST = 0.25, 0.05
# A context-free model starts from random weights: with fewer steps it learns nothing.
MIN_GUIDED_STEPS = 300
_MIN_STD = 1e-12  # equal vectors have a standard deviation of 0
_PAD_ID, _UNKNOWN_ID, _FIRST_WORD_ID = (
    0,
    1,
    4,
)  # 2 and 3 are special tokens, which these models lack


@dataclass(frozen=True, eq=False)
class AttentionGuide:
    """Attention weights over the content of every training example and every audited example."""

    train: Sequence[Numbers]
    test: Sequence[Numbers]


class _FixedScores(nn.Module):
    """Attention scores whose softmax is the weights given for the batch."""

    weights: Tensor

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return the score of each state, (batch, tokens)."""
        return self.weights.to(states).clamp(min=torch.finfo(states.dtype).tiny).log()


class ContextFreeTrainer:
    """A trainer of context-free models, which predict the audited examples afterwards."""

    def __init__(
        self, subject: AuditSubject, workshop: Retrainer, vectors: VectorSource = "model"
    ) -> None:
        self._subject = subject
        self._workshop = workshop
        self._query = bool(getattr(subject.loaded.model.config, "query", False))
        training = workshop.build_training_subject(subject)
        read = [
            *_pair_with_content(training),
            *(_pair_with_content(subject) if vectors == "model" else []),
        ]
        known = sorted(
            {
                item.ids[p]
                for item, content in read
                for p in self._list_read_positions(item, content)
            }
        )
        self._words = {identity: _FIRST_WORD_ID + number for number, identity in enumerate(known)}
        self._vectors = self._standardise_vectors(known) if vectors == "model" else None
        labels = [row.label for row in workshop.rows]
        self._rows = [
            LabelledInput(self._renumber_words(*pair), label)
            for pair, label in zip(_pair_with_content(training), labels, strict=True)
        ]
        self._items = [self._renumber_words(*pair) for pair in _pair_with_content(subject)]

    def train_and_predict(
        self,
        seed: int,
        attention: Literal["uniform", "tanh"] | AttentionGuide,
        tick: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Train a context-free model and return its predicted labels.

        A seed gives all kinds of attention the same initial weights.
        """
        guide = attention if isinstance(attention, AttentionGuide) else None
        config = self._build_config(
            "uniform" if isinstance(attention, AttentionGuide) else attention
        )
        model = initialise_model(config, seed, self._vectors).to(self._subject.loaded.device)
        recipe = replace(self.recipe, seed=seed)
        loss = build_cross_entropy(self._rows, config.num_labels, recipe)
        if guide is not None:
            model.attention.scores = _FixedScores()
            loss = _with_guide(loss, guide.train)
        fit(model, self._rows, recipe, pad_id=_PAD_ID, loss=loss)
        tick(self.pass_cost * TRAINING_PASS * len(self._rows) * recipe.epochs)
        return self._predict(model, guide)

    @property
    def pass_cost(self) -> float:
        """The cost of a pass, in forward passes of the audited model."""
        return RNN_PASS_COST if self._workshop.is_rnn else TRANSFORMER_PASS_COST

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe: that of Jain & Wallace, with enough epochs for small data."""
        config = self._subject.loaded.model.config
        recipe = choose_recipe(query=self._query, labels=config.num_labels)
        if self._workshop.is_rnn:
            recipe = self._workshop.recipe
        epochs = ceil(MIN_GUIDED_STEPS / ceil(len(self._rows) / recipe.batch_size))
        return replace(recipe, epochs=max(recipe.epochs, epochs))

    def _predict(self, model: Any, guide: AttentionGuide | None) -> NDArray[np.int64]:
        predictions = np.zeros(len(self._items), dtype=np.int64)
        with open_plain_forward(model) as logits:
            for numbers in plan_batches(self._items, BatchRules(64, 16384)):
                some = [self._items[i] for i in numbers]
                batch = collate(some, pad_id=_PAD_ID, device=model.device)
                if guide is not None:
                    _set_guide(model, batch, [guide.test[i] for i in numbers])
                predictions[numbers] = logits(batch).argmax(1).cpu().numpy()
        return predictions

    def _build_config(self, attention: Literal["uniform", "tanh"]) -> AttentiveConfig:
        own = self._subject.loaded.model.config
        sizes = {}
        if self._workshop.is_rnn:
            sizes = {"embedding_size": own.embedding_size, "hidden_size": own.hidden_size}
        if self._vectors is not None:
            sizes["embedding_size"] = self._vectors.shape[1]
        possible = bool(getattr(own, "answers_in_passage", False))
        answers = [self._words.get(answer, -1) for answer in own.answer_ids] if possible else []
        return AttentiveConfig(
            vocab_size=_FIRST_WORD_ID + len(self._words),
            encoder="average",
            attention=attention,
            query=self._query,
            num_labels=own.num_labels,
            answers_in_passage=possible,
            answer_ids=answers,
            **sizes,
        )

    def _standardise_vectors(self, known: Sequence[int]) -> Numbers:
        """Return the audited model's word vectors, standardised; reserved ids get their mean."""
        table = self._subject.loaded.model.get_input_embeddings().weight
        own = table.detach().double().cpu().numpy()[list(known)]
        own = (own - own.mean()) / max(float(own.std()), _MIN_STD)
        return np.concatenate([np.tile(own.mean(0), (_FIRST_WORD_ID, 1)), own])

    def _list_read_positions(self, item: EncodedInput, content: NDArray[np.int64]) -> list[int]:
        """Return the positions that the model reads: the content, then the query if there is one."""
        return [*content.tolist(), *(_find_second_text(item) if self._query else [])]

    def _renumber_words(self, item: EncodedInput, content: NDArray[np.int64]) -> EncodedInput:
        """Number the words consecutively, without special tokens."""
        places = self._list_read_positions(item, content)
        ids = tuple(self._words.get(item.ids[place], _UNKNOWN_ID) for place in places)
        features = {"input_ids": ids, "attention_mask": (1,) * len(ids)}
        if self._query:
            features["token_type_ids"] = (0,) * len(content) + (1,) * (len(ids) - len(content))
        return EncodedInput(features, (), (), InputText(None))


def _pair_with_content(subject: AuditSubject) -> list[tuple[EncodedInput, NDArray[np.int64]]]:
    return list(zip(subject.items, subject.content, strict=True))


def _find_second_text(item: EncodedInput) -> list[int]:
    """Return the positions of the second text."""
    return [p for p, token in enumerate(item.tokens) if token.segment == 1 and not token.special]


def _with_guide(loss: Loss, weights: Sequence[Numbers]) -> Loss:
    def compute_guided_loss(
        model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]
    ) -> Tensor:
        _set_guide(model, batch, [weights[i] for i in numbers])
        return loss(model, batch, truth, numbers)

    return compute_guided_loss


def _set_guide(model: Any, batch: Batch, weights: Sequence[Numbers]) -> None:
    """Set the attention weights of a batch."""
    padded = np.zeros(tuple(batch.real.shape))
    for row, own in enumerate(weights):
        padded[row, : len(own)] = own
    model.attention.scores.weights = torch.from_numpy(padded).to(batch.real.device)


_MIN_MASS = 1e-12  # the content may get no weight at all


class ImitationLoss:
    """The loss of imitation: predictions and attention of the audited model as references."""

    def __init__(self, model: AuditSubject) -> None:
        """Compute the audited model's predictions and attention on the examples."""
        device = model.loaded.device
        self._task = model.loaded.task
        self._site = model.sites[0]
        self._probabilities = torch.tensor(model.probabilities, device=device)
        self._attention = [torch.tensor(weights, device=device) for weights in model.attention()]
        self._content = [torch.tensor(places, device=device) for places in model.content]
        self._rows = _compute_row_shares(model)

    def loss(self, weight: float) -> Loss:
        """Return the loss: TVD(p, own p) - weight · KL(attention ‖ own attention), the mean of a batch.

        Attention is that of `AuditSubject.attention`, with a gradient: the mean over heads of the rows that the
        prediction reads, normalised over the content.
        """

        def loss(model: Any, batch: Batch, _: Tensor, numbers: Sequence[int]) -> Tensor:
            with watch_attention(model, len(batch)) as layers:
                logits = compute_logits(model, batch)
            reference = self._probabilities[list(numbers)].to(logits.dtype)
            apart = tvd(compute_probabilities(logits, self._task), reference, self._task).mean()
            if not weight:
                return apart
            own = self._scatter_content([self._attention[i] for i in numbers], batch, numbers)
            return apart - weight * kl(self._compute_attention(layers, batch, numbers), own).mean()

        return loss

    def _compute_attention(
        self, layers: Sequence[AttentionLayer], batch: Batch, numbers: Sequence[int]
    ) -> Tensor:
        """Return the attention of the trained model, (batch, tokens), normalised over the content."""
        width = layers[0].length  # a single row if the model pools
        shares = torch.stack([_pad_row(self._rows[i], width) for i in numbers])
        active = shares.any(0).nonzero().squeeze(1)
        total = torch.zeros_like(batch.real, dtype=layers[0].v.dtype)
        for at in self._site.layers:
            weights = layers[at].weights(active)
            head = self._site.head
            weights = weights if head is None else weights[:, head, None]
            read = torch.einsum("bhrk,br->bk", weights, shares[:, active].to(weights))
            total = total + read / weights.shape[1]
        ones = [torch.ones_like(self._attention[i]) for i in numbers]
        held = total * self._scatter_content(ones, batch, numbers)
        return held / held.sum(-1, keepdim=True).clamp(min=_MIN_MASS)

    def _scatter_content(
        self, content: Sequence[Tensor], batch: Batch, numbers: Sequence[int]
    ) -> Tensor:
        """Put values of content tokens at their positions, (batch, tokens)."""
        padded = torch.zeros(batch.real.shape, device=batch.real.device)
        for row, (number, values) in enumerate(zip(numbers, content, strict=True)):
            padded[row, self._content[number]] = values.to(padded.dtype)
        return padded


def _compute_row_shares(model: AuditSubject) -> list[Tensor]:
    """Return the shares of the rows that the prediction reads, by example.

    Retrained models read the same rows.
    """
    shares: list[Tensor] = [torch.empty(0)] * len(model)

    def look(numbers: Sequence[int], batch: Batch) -> None:
        spec = TargetSpec("predicted", None, "logit")
        trace = run_traced(model.loaded.model, batch, {"attention"}, spec, model.loaded.task)
        for number, row in zip(numbers, trace.rows, strict=True):
            shares[number] = row if trace.pooled else row[: len(model.items[number])]
        model.tick(len(numbers))

    model.run_in_batches("attention", look)
    return shares


def _pad_row(row: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(row, (0, width - len(row)))
