"""Models trained again for the audit's experiments, and how far their attention and predictions are from the model's.

Models of Jain & Wallace start from the seed alone. A Transformer is too large for that: it starts from the
given pre-trained model with a head drawn from the seed, or, without one, from itself with its head and its
last block drawn from the seed. A model that imitates the audited one may start near it. The audited model
itself is never changed.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from whence.core.errors import BadExamples, BadParameter, NoHead, WhenceError
from whence.data.dataset import resolve_label_indices
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_dataset
from whence.models.load import load_model
from whence.models.model import LoadedModel
from whence.models.rnn import AttentiveConfig, initialise_model
from whence.studies.audit.attention_variants import jsd, tvd
from whence.studies.audit.subject import AuditSubject, Labels, Numbers
from whence.studies.training.fit import FitResult, Loss, fit
from whence.studies.training.performance import LabelledInput
from whence.studies.training.recipe import RECIPES, Recipe, choose_recipe
from whence.tracing.alter import randomise_weights
from whence.tracing.attention_override import override_attention
from whence.tracing.structure import list_stages

# A model has learnt a task if its accuracy is this far from the commonest label's to the reference's.
_LEARNT_SHARE = 0.5
_ROUNDING = 1e-9


def largest_attention_divergence(subject: AuditSubject) -> Numbers:
    """Return the largest possible divergence from the model's attention: all weight on the token with the least."""
    corners = [np.eye(len(weights))[weights.argmin()] for weights in subject.attention()]
    return measure_divergences(subject, corners)


def measure_divergences(subject: AuditSubject, others: Sequence[Numbers]) -> Numbers:
    """Return the Jensen-Shannon divergence of weights from the model's, for each example."""
    pairs = zip(subject.attention(), others, strict=True)
    return np.array([float(jsd(torch.from_numpy(a), torch.from_numpy(b))) for a, b in pairs])


def prediction_distance(subject: AuditSubject, other: AuditSubject) -> Numbers:
    """Return the total variation distance of two models' predictions, for each example."""
    probabilities = torch.from_numpy(subject.probabilities), torch.from_numpy(other.probabilities)
    return tvd(*probabilities, subject.loaded.task).numpy()


def has_learnt(predicted: Labels, truth: Labels, reference: float = 1.0) -> bool:
    """Return whether accuracy is at least half way from the commonest label to `reference`, which must be better."""
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
    """A model trained for the audit, and how its attention is overridden wherever it is run."""

    loaded: LoadedModel
    attention: AttentionMode
    fitted: FitResult

    def apply_to(self, subject: AuditSubject) -> AuditSubject:
        """Return the retrained model as a subject with the same examples."""
        other = subject.with_model(self.loaded)
        with override_attention(self.loaded.model, self.attention):
            _ = other.probabilities  # computed and cached while the override is active
        return other


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
        self.others = tuple(_load_other_training(one, loaded) for one in others)
        self._base = None if base is None else _load_model(base).model
        self._epochs = epochs
        self._retrained: dict[tuple[int, AttentionMode], RetrainedModel] = {}
        self.rows = _encode_training_rows(train, loaded) if train else []

    @property
    def is_rnn(self) -> bool:
        """Whether the model is an RNN of Jain & Wallace."""
        return isinstance(self.loaded.model.config, AttentiveConfig)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of retraining: the model's own, if known, or the default for such models."""
        config = self.loaded.model.config
        if self.is_rnn:
            known = {field.name for field in fields(Recipe)}
            stated = {name: value for name, value in config.training.items() if name in known}
            plain = choose_recipe(query=config.query, labels=config.num_labels)
            recipe = Recipe.from_dict({**plain.to_dict(), **stated, "patience": None})
        else:
            recipe = RECIPES["transformer"]
            factor = _USUAL_WIDTH / getattr(config, "hidden_size", _USUAL_WIDTH)
            recipe = replace(recipe, learning_rate=recipe.learning_rate * factor)
        usual = recipe.count_epochs(len(self.rows), MIN_STEPS)
        return replace(recipe, epochs=usual if self._epochs is None else self._epochs)

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
        self._check_training_rows()
        near = start == "near"
        wide = torch.promote_types(self.loaded.dtype, torch.float32)
        model = self._initialise_near(seed) if near else self._initialise(seed, attention)
        model.requires_grad_(True).to(device=self.loaded.device, dtype=wide).eval()
        name = f"{self.loaded.name}, seed {seed}"
        loaded = replace(self.loaded, model=model, name=name, revision=None, infiller=None)
        recipe = self.recipe
        recipe = replace(
            recipe,
            seed=seed,
            epochs=epochs or recipe.epochs,
            learning_rate=(_NEAR_RATE_FACTOR if near else 1) * recipe.learning_rate,
            summed=recipe.summed and loss is None,
        )
        done = 0

        def count_passes(examples: int, _: int) -> None:
            nonlocal done
            tick(TRAINING_PASS * (examples - done))
            done = examples

        # Models of Jain & Wallace attend as they were trained to by themselves.
        override: AttentionMode = "own" if self.is_rnn else attention
        with override_attention(model, override):
            fitted = fit(
                model,
                self.rows,
                recipe,
                pad_id=loaded.pad_id,
                loss=loss,
                select=None if loss is None else lambda _, value: -value,
                progress=count_passes,
            )
        retrained = RetrainedModel(loaded, override, fitted)
        if plain:
            self._retrained[key] = retrained
        return retrained

    def build_training_subject(self, subject: AuditSubject) -> AuditSubject:
        """Return the audited model with the training examples as a subject."""
        items = [row.item for row in self.rows]
        return subject.remember(
            "training examples",
            lambda: replace(subject, items=items, truth=None, workshop=None, memo={}),
        )

    def _check_training_rows(self) -> None:
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

    def _initialise(self, seed: int, attention: AttentionMode) -> Any:
        if self.is_rnn:
            config = copy.deepcopy(self.loaded.model.config)
            config.attention = "uniform" if attention == "uniform" else config.attention
            return initialise_model(config, seed, self._find_base_vectors())
        model = copy.deepcopy(self.loaded.model)
        if self._base is not None:
            _copy_base_weights(model, self._base, self.loaded.name)
        # Without a base, the last block is drawn, too.
        last = 0 if self._base is not None else min(1, len(list_stages(model)) - 1)
        model.load_state_dict(_randomise_weights(model, last, seed))
        return model

    def _initialise_near(self, seed: int) -> Any:
        """Copy the model and move its attention, or its last block, towards random weights."""
        model = copy.deepcopy(self.loaded.model)
        if self.is_rnn:
            stage = "attention"
            drawn = initialise_model(copy.deepcopy(model.config), seed).state_dict()
        else:
            last = min(1, len(list_stages(model)) - 1)
            stage, drawn = list_stages(model)[last], _randomise_weights(model, last, seed)
        for name, value in model.state_dict().items():
            if name.startswith(f"{stage}.") and value.is_floating_point():
                value.lerp_(drawn[name].to(value), _NEAR_FRACTION)
        for module in model.modules():
            # The copy is to predict the same; dropout noise would only drive it away.
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        return model

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


def _randomise_weights(model: Any, stage: int, seed: int) -> dict[str, torch.Tensor]:
    """Return the weights with those of stages 0 to `stage` drawn from the seed."""
    with randomise_weights(model, stage, seed):
        return {name: value.clone() for name, value in model.state_dict().items()}


def count_training_passes(train: int, epochs: int | None) -> int:
    """Return the cost of one training in forward passes; by default for eight epochs."""
    return TRAINING_PASS * train * (epochs or Recipe().epochs)


def _encode_training_rows(train: Sequence[Example], loaded: LoadedModel) -> list[LabelledInput]:
    """Encode the usable training examples, truncated to the maximum length, with label indices."""
    errors: list[WhenceError] = []
    readable = encode_dataset(
        [example.given for example in train],
        loaded,
        truncate=True,
        failed=lambda _, __, error: errors.append(error),
    )
    if not readable.items:
        raise BadExamples(f"None of the {len(train)} training examples can be used. {errors[-1]}")
    labels = resolve_label_indices([train[number] for number in readable.numbers], loaded.labels)
    return [LabelledInput(*row) for row in zip(readable.items, labels, strict=True)]


def _load_model(source: Any) -> LoadedModel:
    if isinstance(source, Explainer):
        return source.loaded
    return source if isinstance(source, LoadedModel) else load_model(source)


def _load_other_training(source: Any, loaded: LoadedModel) -> LoadedModel:
    """Load another model if it has the same class, tokens and labels; else raise."""
    other = _load_model(source)
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
