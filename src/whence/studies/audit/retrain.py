"""Kin of a model: the same architecture, tokenizer and labels, trained again, from another start or to another end.

Models of Jain & Wallace start from nothing but the seed. A Transformer is too large for that: it starts from the
pre-trained model that is given, with a head drawn from the seed, or, without one, from itself, with its head and its
last block drawn from the seed. Kin that are to say what the model says may start near it in either case. The model
itself is never changed.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import ceil
from typing import Any, Literal

import torch
from torch import nn

from whence.audit.subject import Subject
from whence.capture import attention_as
from whence.capture.changed.altered import randomised, stages
from whence.core.errors import BadExamples, BadParameter, InputError, NoHead
from whence.data import Encoded
from whence.data.sets.examples import Example
from whence.data.sets.labels import label_indices
from whence.explainer import Explainer
from whence.explainer.intake import take
from whence.models import Loaded, load
from whence.models.attentive import AttentiveConfig, fresh
from whence.training import RECIPES, Fitted, Recipe, Row, fit
from whence.training.objective import Loss
from whence.training.recipe import usual

Attending = Literal["own", "uniform"]
Start = Literal["anew", "near"]

# What a training pass costs, in forward passes: one forward, and a backward that takes as long as two.
TRAINING_PASS = 3
# With fewer steps nothing is learnt, whatever the number of epochs: small data are gone through more often.
FEWEST_STEPS = 150
# The usual learning rate is for models of this width; narrower ones take and need a higher one.
_USUAL_WIDTH = 768
# A start near the model has its attention this part of the way to one that is drawn: at the model itself every
# gradient of a divergence is zero. It has not far to go, and takes smaller steps.
_NEAR, _SMALLER = 0.1, 0.3
# Of an encoder's weights, those that a base must have: a pooler is often missing.
_MOST_OF_IT = 0.9


@dataclass(frozen=True, eq=False)
class Kin:
    """A model that was trained here, and how it attends."""

    loaded: Loaded
    attention: Attending
    fitted: Fitted

    def on(self, subject: Subject) -> Subject:
        """Return what the kin says, and where it looks, on the same examples."""
        other = subject.kin(self.loaded)
        with self.attending():
            _ = other.probabilities  # seen now: later it might attend in another manner
        return other

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Let the kin attend as it was trained to; who was built to attend so needs no help."""
        built = isinstance(self.loaded.model.config, AttentiveConfig)
        with attention_as(self.loaded.model, "own" if built else self.attention):
            yield


class Workshop:
    """Trains kin of one model on one set of examples; the same kin is trained once."""

    def __init__(
        self,
        loaded: Loaded,
        train: Sequence[Example] = (),
        *,
        base: Any = None,
        others: Sequence[Any] = (),
        epochs: int | None = None,
        seed: int = 0,
    ) -> None:
        """`base` is a pre-trained model to start from: a name, a folder, a Hub id or a model.

        Of a model of Jain & Wallace it is one that has the word vectors to start from. `others` are models that were
        trained elsewhere by the same recipe from other seeds.
        """
        self.loaded = loaded
        self.seed = seed
        self.others = tuple(_fitting(_taken(one), loaded) for one in others)
        self._base = None if base is None else _taken(base).model
        self._epochs = epochs
        self._kin: dict[tuple[int, Attending], Kin] = {}
        self.examples, self.rows = _rows(train, loaded) if train else ([], [])

    @property
    def items(self) -> list[Encoded]:
        """The training examples, encoded."""
        return [row.item for row in self.rows]

    @property
    def attentive(self) -> bool:
        """Whether the model is one of Jain & Wallace's."""
        return isinstance(self.loaded.model.config, AttentiveConfig)

    @cached_property
    def recipe(self) -> Recipe:
        """How kin are trained: as the model says it was, or as such models usually are."""
        found = self._stated()
        if self._epochs is not None:
            return replace(found, epochs=self._epochs)
        steps = ceil(len(self.rows) / found.batch_size)
        return replace(found, epochs=max(found.epochs, ceil(FEWEST_STEPS / max(1, steps))))

    def _stated(self) -> Recipe:
        config = self.loaded.model.config
        if self.attentive:
            known = {field.name for field in fields(Recipe)}
            stated = {name: value for name, value in config.training.items() if name in known}
            plain = usual(query=config.query, labels=config.num_labels)
            return Recipe.from_dict({**plain.to_dict(), **stated, "patience": None})
        found = RECIPES["transformer"]
        rate = found.learning_rate * _USUAL_WIDTH / getattr(config, "hidden_size", _USUAL_WIDTH)
        return replace(found, learning_rate=rate)

    def seeds(self, count: int) -> list[int]:
        """Return seeds of kin, none of which is the one that the model itself says it was trained with."""
        own = getattr(self.loaded.model.config, "training", None) or {}
        some = range(self.seed + 1, self.seed + 2 + count)
        return [seed for seed in some if seed != own.get("seed")][:count]

    def kin(
        self,
        seed: int,
        attention: Attending = "own",
        loss: Loss | None = None,
        *,
        start: Start = "anew",
        epochs: int | None = None,
        tick: Callable[[float], None] = lambda _: None,
    ) -> Kin:
        """Train a model like the one that is examined.

        `attention` is how it attends while it is trained and afterwards. With a `loss` of its own it ends with the
        weights of the epoch that had the lowest; else with those of the last. `start` "near" begins with the model's
        own weights, those of its attention, or of a Transformer's last block, moved a little. `tick` is called with
        forward passes done.
        """
        key = (seed, attention)
        plain = loss is None and epochs is None and start == "anew"
        if plain and key in self._kin:
            return self._kin[key]
        model = self._near(seed) if start == "near" else self._start(seed, attention)
        name = f"{self.loaded.name}, seed {seed}"
        loaded = replace(self.loaded, model=model, name=name, revision=None, infiller=None)
        recipe = replace(self.recipe, seed=seed, epochs=epochs or self.recipe.epochs)
        if start == "near":
            recipe = replace(recipe, learning_rate=_SMALLER * recipe.learning_rate)
        manner: Attending = "own" if self.attentive else attention
        with attention_as(model, manner):
            fitted = fit(
                model,
                self._training_rows(),
                recipe if loss is None else replace(recipe, summed=False),
                pad_id=loaded.pad_id,
                loss=loss,
                select=None if loss is None else lambda _, value: -value,
                progress=_counting(tick),
            )
        made = Kin(loaded, attention, fitted)
        if plain:
            self._kin[key] = made
        return made

    def training(self, subject: Subject) -> Subject:
        """Return the examined model on the training examples."""
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
        found: Subject = subject.memo[key]
        return found

    def _training_rows(self) -> list[Row]:
        if not self.rows:
            raise BadExamples(
                "There are no examples to train on. Give labelled ones: train=..., --train FILE."
            )
        if self.loaded.sees:
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

    def _start(self, seed: int, attention: Attending) -> Any:
        loaded = self.loaded
        wide = torch.promote_types(loaded.dtype, torch.float32)
        if self.attentive:
            config = copy.deepcopy(loaded.model.config)
            config.attention = "uniform" if attention == "uniform" else config.attention
            model = fresh(config, seed, self._vectors())
        else:
            model = self._drawn(copy.deepcopy(loaded.model), seed)
            model.requires_grad_(True)
        return model.to(device=loaded.device, dtype=wide).eval()

    def _near(self, seed: int) -> Any:
        """Copy the model and move its attention, or its last block, a little."""
        model = copy.deepcopy(self.loaded.model)
        if self.attentive:
            stage, drawn = "attention", fresh(copy.deepcopy(model.config), seed).state_dict()
        else:
            last = min(1, len(stages(model)) - 1)
            stage, drawn = stages(model)[last], _randomised(model, last, seed)
        own = model.state_dict()
        for name, value in own.items():
            if name.startswith(f"{stage}.") and value.is_floating_point():
                value.lerp_(drawn[name].to(value), _NEAR)
        for module in model.modules():
            # What is said is to be said again exactly; noise would only drive the copy away.
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        wide = torch.promote_types(self.loaded.dtype, torch.float32)
        return model.requires_grad_(True).to(dtype=wide).eval()

    def _vectors(self) -> Any:
        """Return the word vectors to start from, if a base has some."""
        if self._base is None:
            return None
        own, given = self.loaded.vocabulary, self._base.get_input_embeddings().weight
        wanted = (own, self.loaded.model.config.embedding_size)
        if tuple(given.shape) != wanted:
            raise BadParameter(
                f"The base has word vectors of {tuple(given.shape)}, and the model needs {wanted}. Give a base with "
                "the same words, or none."
            )
        return given.detach().double().cpu().numpy()

    def _drawn(self, model: Any, seed: int) -> Any:
        """Take over what the base knows, and draw the head, or without a base the last block too."""
        if self._base is not None:
            _take_over(model, self._base, self.loaded.name)
        last = 0 if self._base is not None else min(1, len(stages(model)) - 1)
        model.load_state_dict(_randomised(model, last, seed))
        return model


def _randomised(model: Any, stage: int, seed: int) -> dict[str, torch.Tensor]:
    """Return the weights with those of some stages drawn anew."""
    with randomised(model, stage, seed):
        return {name: value.clone() for name, value in model.state_dict().items()}


def _counting(tick: Callable[[float], None]) -> Callable[[int, int], None]:
    """Make forward passes of the number of examples that a training is through."""
    done = 0

    def count(examples: int, _: int) -> None:
        nonlocal done
        tick(TRAINING_PASS * (examples - done))
        done = examples

    return count


def training_passes(train: int, epochs: int | None) -> int:
    """Return what one training costs, in forward passes; by default it goes through the examples eight times."""
    return TRAINING_PASS * train * (epochs or Recipe().epochs)


def _rows(train: Sequence[Example], loaded: Loaded) -> tuple[list[Example], list[Row]]:
    """Encode what can be encoded, cut to what the model takes, with the numbers of the labels."""
    kept: list[tuple[Example, Encoded]] = []
    why = ""
    for example in train:
        try:
            (item,), _ = take(example.given, loaded, truncate=True)
        except InputError as error:
            why = str(error)
            continue
        kept.append((example, item))
    if not kept:
        raise BadExamples(f"None of the {len(train)} training examples can be used. {why}")
    chosen = [example for example, _ in kept]
    labels = label_indices(chosen, loaded.labels)
    return chosen, [Row(item, label) for (_, item), label in zip(kept, labels, strict=True)]


def _taken(what: Any) -> Loaded:
    if isinstance(what, Explainer):
        return what.loaded
    return what if isinstance(what, Loaded) else load(what)


def _fitting(other: Loaded, loaded: Loaded) -> Loaded:
    """Return another model if it reads the same tokens and says the same labels."""
    same = other.vocabulary == loaded.vocabulary and other.labels == loaded.labels
    if same and type(other.model) is type(loaded.model):
        return replace(other, tokenizer=loaded.tokenizer)
    raise BadParameter(
        f"{other.name!r} ({type(other.model).__name__}, {other.vocabulary} tokens, labels {list(other.labels)}) is "
        f"no other training of {loaded.name!r} ({type(loaded.model).__name__}, {loaded.vocabulary} tokens, labels "
        f"{list(loaded.labels)}). Give models that differ in their seed alone."
    )


def _take_over(model: Any, base: Any, name: str) -> None:
    """Copy every weight of the base that the model has too, by its name within the encoder."""
    prefix = getattr(model, "base_model_prefix", "")
    given = {key.removeprefix(f"{prefix}."): value for key, value in base.state_dict().items()}
    own = model.state_dict()
    taken = {
        key: given[short]
        for key, value in own.items()
        if (short := key.removeprefix(f"{prefix}.")) in given and given[short].shape == value.shape
    }
    encoder = [key for key in own if key.startswith(f"{prefix}.")]
    if len(taken) < _MOST_OF_IT * len(encoder):
        raise BadParameter(
            f"The base ({type(base).__name__}) has {len(taken)} of the {len(encoder)} weights of {name!r}: it is "
            "another architecture, or of another size. Give the model that this one was fine-tuned from."
        )
    model.load_state_dict(taken, strict=False)
