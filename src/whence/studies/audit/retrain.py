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


"""Two models on the same examples: how far apart they look and predict, and how well each does."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.audit.distance import jsd, tvd
from whence.audit.figures import summary
from whence.audit.subject import Subject
from whence.core.seed import generator
from whence.stats import bootstrap

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]

# A model has learnt a task if it comes at least so far from always saying the commonest label to what another does.
_LEARNT = 0.5
_ROUNDING = 1e-9
_DRAWS = 1000  # of the bootstrap of F1, which is no mean


def looks_apart(one: Subject, other: Subject) -> Numbers:
    """Return the Jensen-Shannon divergence of two models' attention, for each example."""
    return _apart(one.attention(), other.attention())


def looks_apart_by_chance(one: Subject, other: Subject) -> Numbers:
    """Return the same with the other's weights dealt out anew over the words of each example."""
    dealt = []
    for item, weights in zip(other.items, other.attention(), strict=True):
        order = generator("dealt out", one.seed, item.key).permutation(len(weights))
        dealt.append(weights[order])
    return _apart(one.attention(), dealt)


def reach(subject: Subject) -> Numbers:
    """Return how far apart any attention can be from the model's: all of it on the word that gets the least."""
    far = []
    for weights in subject.attention():
        least = np.zeros_like(weights)
        least[weights.argmin()] = 1
        far.append(least)
    return _apart(subject.attention(), far)


def too_short(reach: Numbers) -> str:
    """Say that nothing could have been found, whatever the model."""
    return (
        f"The texts are too short: no attention at all can be farther from the model's than {reach.mean():.3f} in "
        "the mean."
    )


def _apart(one: list[Numbers], other: list[Numbers]) -> Numbers:
    pairs = zip(one, other, strict=True)
    return np.array([float(jsd(torch.from_numpy(a), torch.from_numpy(b))) for a, b in pairs])


def says_apart(one: Subject, other: Subject) -> Numbers:
    """Return the total variation distance of two models' predictions, for each example."""
    said = torch.from_numpy(one.probabilities), torch.from_numpy(other.probabilities)
    return tvd(*said, one.loaded.task).numpy()


def standing(predicted: Labels, truth: Labels, labels: int, *key: str | int) -> dict[str, Any]:
    """Return accuracy and F1 (of two labels the second's, else the mean over all that occur) with intervals."""
    rows = np.column_stack([truth, predicted]).astype(np.float64)
    rows = rows[np.lexsort(rows.T[::-1])]  # in another order they are the same data

    found = bootstrap(
        rows, ("audit", "f1", *key), statistic=lambda some: _f1(some, labels), draws=_DRAWS
    )
    interval = None if found.low is None else [found.low, found.high]
    return {
        "accuracy": summary((predicted == truth).astype(np.float64), "accuracy", *key),
        "f1": {"mean": found.mean, "interval": interval, "n": found.n},
    }


def _f1(rows: Numbers, labels: int) -> float:
    """Return what `whence.training.performance` calls F1, of rows of true and predicted labels."""
    true, said = rows.astype(np.int64).T
    hits = np.bincount(true[true == said], minlength=labels)
    total = np.bincount(true, minlength=labels) + np.bincount(said, minlength=labels)
    each = 2 * hits / np.maximum(total, 1)
    return float(each[1] if labels == 2 else each[total > 0].mean())


def has_learnt(predicted: Labels, truth: Labels, reference: float = 1.0) -> bool:
    """Say whether predictions are at least half way from the commonest label to what is right `reference` times.

    Where the reference itself is no better than the commonest label there is nothing to learn from it.
    """
    commonest = np.bincount(truth).max() / len(truth)
    right = float((predicted == truth).mean())
    gain = reference - commonest
    return bool(gain > _ROUNDING and right - commonest >= _LEARNT * gain - _ROUNDING)


"""A model without context that is told where to look (Wiegreffe & Pinter 2019, section 4).

Each token has a state of its own, tanh(W e + b), whatever stands around it; the prediction is read from their
weighted mean. Only the weights differ: the same everywhere, learnt with the rest, or those of another model, given
for every example.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from whence.audit.subject import Subject
from whence.audit.workshop import TRAINING_PASS, Workshop
from whence.capture.forward import bare
from whence.core.types import Source
from whence.data import Batch, Encoded, Policy, batches, collate
from whence.models.attentive import AttentiveConfig, fresh
from whence.training import Recipe, Row, fit
from whence.training.objective import Loss, cross_entropy
from whence.training.recipe import usual

Numbers = NDArray[np.float64]
# The word vectors to start from: the examined model's, scaled to a deviation of 1, or drawn. What is drawn says
# nothing of words that are in no training example: to it they are unknown.
Vectors = Literal["model", "drawn"]

# What a pass of such a model takes, in passes of the one that is examined: of Jain & Wallace's and of a Transformer.
SHARE_OF_ATTENTIVE, SHARE_OF_TRANSFORMER = 0.25, 0.05
# It is small and starts from nothing: with fewer steps it learns nothing.
FEWEST_STEPS = 300
_FLAT = 1e-12  # vectors that are all alike have no deviation
_PAD, _UNKNOWN, _WORDS = 0, 1, 4  # 2 and 3 are special tokens, of which there are none here


@dataclass(frozen=True, eq=False)
class Guide:
    """Weights over the content of every training example and every example of the audit."""

    train: Sequence[Numbers]
    test: Sequence[Numbers]


class _Given(nn.Module):
    """Scores whose softmax are the weights that were given for this batch."""

    weights: Tensor

    def forward(self, states: Tensor, query: Tensor | None) -> Tensor:
        """Return a score for each state, (batch, tokens)."""
        return self.weights.to(states).clamp(min=torch.finfo(states.dtype).tiny).log()


class Guided:
    """Trains such models on a workshop's examples, and asks them about a subject's."""

    def __init__(self, subject: Subject, workshop: Workshop, vectors: Vectors = "model") -> None:
        self._subject = subject
        self._workshop = workshop
        self._query = bool(getattr(subject.loaded.model.config, "query", False))
        seen = workshop.training(subject)
        read = [*_read(seen), *(_read(subject) if vectors == "model" else [])]
        known = sorted({item.ids[p] for item, content in read for p in self._places(item, content)})
        self._words = {identity: _WORDS + number for number, identity in enumerate(known)}
        self._vectors = self._scaled(known) if vectors == "model" else None
        labels = [row.label for row in workshop.rows]
        self._rows = [
            Row(self._bare(*one), label) for one, label in zip(_read(seen), labels, strict=True)
        ]
        self._items = [self._bare(*one) for one in _read(subject)]

    def said(
        self,
        seed: int,
        attention: Literal["uniform", "tanh"] | Guide,
        tick: Callable[[float], None],
    ) -> NDArray[np.int64]:
        """Train a model from a seed, the same start for all kinds of attention, and return the labels it predicts."""
        guide = attention if isinstance(attention, Guide) else None
        config = self._config("uniform" if isinstance(attention, Guide) else attention)
        model = fresh(config, seed, self._vectors).to(self._subject.loaded.device)
        recipe = replace(self.recipe, seed=seed)
        loss = cross_entropy(self._rows, config.num_labels, recipe)
        if guide is not None:
            model.attention.scores = _Given()
            loss = _told(loss, guide.train)
        fit(model, self._rows, recipe, pad_id=_PAD, loss=loss)
        tick(self.share * TRAINING_PASS * len(self._rows) * recipe.epochs)
        return self._predicted(model, guide)

    @property
    def share(self) -> float:
        """What a pass takes, in passes of the examined model."""
        return SHARE_OF_ATTENTIVE if self._workshop.attentive else SHARE_OF_TRANSFORMER

    @cached_property
    def recipe(self) -> Recipe:
        """How they are trained: as models of Jain & Wallace are, and as often as small data need it."""
        config = self._subject.loaded.model.config
        found = usual(query=self._query, labels=config.num_labels)
        if self._workshop.attentive:
            found = self._workshop.recipe
        epochs = ceil(FEWEST_STEPS / ceil(len(self._rows) / found.batch_size))
        return replace(found, epochs=max(found.epochs, epochs))

    def _predicted(self, model: Any, guide: Guide | None) -> NDArray[np.int64]:
        found = np.zeros(len(self._items), dtype=np.int64)
        with bare(model) as logits:
            for numbers in batches(self._items, Policy(64, 16384)):
                some = [self._items[i] for i in numbers]
                batch = collate(some, pad_id=_PAD, device=model.device)
                if guide is not None:
                    _tell(model, batch, [guide.test[i] for i in numbers])
                found[numbers] = logits(batch).argmax(1).cpu().numpy()
        return found

    def _config(self, attention: Literal["uniform", "tanh"]) -> AttentiveConfig:
        own = self._subject.loaded.model.config
        sizes = {}
        if self._workshop.attentive:
            sizes = {"embedding_size": own.embedding_size, "hidden_size": own.hidden_size}
        if self._vectors is not None:
            sizes["embedding_size"] = self._vectors.shape[1]
        possible = bool(getattr(own, "answers_in_passage", False))
        answers = [self._words.get(one, -1) for one in own.answer_ids] if possible else []
        return AttentiveConfig(
            vocab_size=_WORDS + len(self._words),
            encoder="average",
            attention=attention,
            query=self._query,
            num_labels=own.num_labels,
            answers_in_passage=possible,
            answer_ids=answers,
            **sizes,
        )

    def _scaled(self, known: Sequence[int]) -> Numbers:
        """Return the examined model's vectors of the words, and the mean of them where there is no word."""
        table = self._subject.loaded.model.get_input_embeddings().weight
        own = table.detach().double().cpu().numpy()[list(known)]
        own = (own - own.mean()) / max(float(own.std()), _FLAT)
        return np.concatenate([np.tile(own.mean(0), (_WORDS, 1)), own])

    def _places(self, item: Encoded, content: NDArray[np.int64]) -> list[int]:
        """Return the places that are read: the content, then the query if there is one."""
        return [*content.tolist(), *(_second(item) if self._query else [])]

    def _bare(self, item: Encoded, content: NDArray[np.int64]) -> Encoded:
        """Number the words anew, without special tokens."""
        places = self._places(item, content)
        ids = tuple(self._words.get(item.ids[place], _UNKNOWN) for place in places)
        features = {"input_ids": ids, "attention_mask": (1,) * len(ids)}
        if self._query:
            features["token_type_ids"] = (0,) * len(content) + (1,) * (len(ids) - len(content))
        return Encoded(features, (), (), Source(None))


def _read(subject: Subject) -> list[tuple[Encoded, NDArray[np.int64]]]:
    return list(zip(subject.items, subject.content, strict=True))


def _second(item: Encoded) -> list[int]:
    """Return the places of the second text."""
    return [p for p, token in enumerate(item.tokens) if token.segment == 1 and not token.special]


def _told(loss: Loss, weights: Sequence[Numbers]) -> Loss:
    def told(model: Any, batch: Batch, truth: Tensor, numbers: Sequence[int]) -> Tensor:
        _tell(model, batch, [weights[i] for i in numbers])
        return loss(model, batch, truth, numbers)

    return told


def _tell(model: Any, batch: Batch, weights: Sequence[Numbers]) -> None:
    """Say where to look in this batch."""
    padded = np.zeros(tuple(batch.real.shape))
    for row, own in enumerate(weights):
        padded[row, : len(own)] = own
    model.attention.scores.weights = torch.from_numpy(padded).to(batch.real.device)


"""A loss that asks a model to say what another one says, and to look elsewhere (Wiegreffe & Pinter 2019)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from whence.audit.distance import kl, tvd
from whence.audit.subject import Subject
from whence.capture import AttentionLayer, TargetSpec, probabilities, trace, watching
from whence.capture.forward import run
from whence.data import Batch
from whence.training.objective import Loss

_UNDER = 1e-12  # the text may get no weight at all


class Imitation:
    """What a model says about examples, and where it looks: for another one to follow, or to avoid."""

    def __init__(self, model: Subject) -> None:
        """Run the model over the examples."""
        device = model.loaded.device
        self._task = model.loaded.task
        self._site = model.sites[0]
        self._said = torch.tensor(model.probabilities, device=device)
        self._looked = [torch.tensor(weights, device=device) for weights in model.attention()]
        self._content = [torch.tensor(places, device=device) for places in model.content]
        self._rows = _rows_read(model)

    def loss(self, weight: float) -> Loss:
        """Return the mean of TVD(p, own p) - weight · KL(attention ‖ own attention) over a batch.

        Attention is what `Subject.attention` is, with a gradient: of the rows that are read, the mean over the heads,
        on the content alone, where it adds up to 1.
        """

        def loss(model: Any, batch: Batch, _: Tensor, numbers: Sequence[int]) -> Tensor:
            with watching(model, len(batch)) as layers:
                logits = run(model, batch)
            said = self._said[list(numbers)].to(logits.dtype)
            apart = tvd(probabilities(logits, self._task), said, self._task).mean()
            if not weight:
                return apart
            own = self._padded([self._looked[i] for i in numbers], batch, numbers)
            return apart - weight * kl(self._attention(layers, batch, numbers), own).mean()

        return loss

    def _attention(
        self, layers: Sequence[AttentionLayer], batch: Batch, numbers: Sequence[int]
    ) -> Tensor:
        """Return where the model looks, (batch, tokens), adding up to 1 over the content."""
        width = layers[0].length  # one row where the model pools
        shares = torch.stack([_wider(self._rows[i], width) for i in numbers])
        active = shares.any(0).nonzero().squeeze(1)
        total = torch.zeros_like(batch.real, dtype=layers[0].v.dtype)
        for at in self._site.layers:
            weights = layers[at].weights(active)
            head = self._site.head
            weights = weights if head is None else weights[:, head, None]
            read = torch.einsum("bhrk,br->bk", weights, shares[:, active].to(weights))
            total = total + read / weights.shape[1]
        ones = [torch.ones_like(self._looked[i]) for i in numbers]
        held = total * self._padded(ones, batch, numbers)
        return held / held.sum(-1, keepdim=True).clamp(min=_UNDER)

    def _padded(self, content: Sequence[Tensor], batch: Batch, numbers: Sequence[int]) -> Tensor:
        """Put numbers of content tokens at their places, (batch, tokens)."""
        found = torch.zeros(batch.real.shape, device=batch.real.device)
        for row, (number, values) in enumerate(zip(numbers, content, strict=True)):
            found[row, self._content[number]] = values.to(found.dtype)
        return found


def _rows_read(model: Subject) -> list[Tensor]:
    """Return the shares of the rows that the prediction reads, for each example: kin read the same ones."""
    found: list[Tensor] = [torch.empty(0)] * len(model)

    def look(numbers: Sequence[int], batch: Batch) -> None:
        spec = TargetSpec("predicted", None, "logit")
        seen = trace(model.loaded.model, batch, {"attention"}, spec, model.loaded.task)
        for number, row in zip(numbers, seen.rows, strict=True):
            found[number] = row if seen.pooled else row[: len(model.items[number])]
        model.tick(len(numbers))

    model.in_batches("attention", look)
    return found


def _wider(row: Tensor, width: int) -> Tensor:
    return torch.nn.functional.pad(row, (0, width - len(row)))
