"""Explaining inputs again under changed circumstances, for the metrics that compare.

A change is the same for every input: noise belongs to a token, random weights to the model. So what one trial of a
batch asks for is made for the whole batch, in one pass.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from whence.capture import TargetSpec
from whence.capture.changed.altered import dropped_out, noisy, randomised, stages
from whence.capture.found import turn
from whence.capture.memory.fitting import Fitting
from whence.capture.target import ranking
from whence.core.errors import OutOfMemory, WhenceError
from whence.core.types import Of, Passes
from whence.data import Batch, Encoded, Policy, collate
from whence.explainer.request import Request
from whence.explainer.work import Tally, scored, traced
from whence.models import Loaded
from whence.models.offload import is_offloaded
from whence.trial import (
    Anew,
    Beside,
    Change,
    Dropout,
    Noise,
    OtherClass,
    Padded,
    Randomised,
)
from whence.trial.removed import Numbers


class _Impossible(Exception):
    """This change cannot be made to this model or input, for the reason given."""


@dataclass
class Claim:
    """One input, with what explained it: a request, or a sentence where that cannot be made again, by method."""

    item: Encoded
    asked: Mapping[str, Request | str]
    logits: Tensor  # of the whole input, (1, labels)
    # By index: it is the same class that is explained, whatever is predicted then.
    main: int
    against: int | None
    of: Of
    words: tuple[tuple[int, ...], ...] | None = (
        None  # what comes and goes together, if that is words
    )
    made: dict[tuple[Change, str], Numbers | str] = field(default_factory=dict)
    predicted: dict[Change, int] = field(default_factory=dict)
    passes: Passes = field(default=Passes(0, 0))

    def other_class(self, outputs: int) -> int:
        """Return the class to hold the explained one against: the likeliest of the others."""
        if outputs < 2 and self.item.rest:
            raise _Impossible("It is held against everything else: there is no other class.")
        if outputs < 2:
            raise _Impossible("The model has one output: there is no other class.")
        if self.against is not None:
            raise _Impossible("Two classes are held against each other already.")
        best, second = ranking(self.logits, self.item.rest)[0, :2].tolist()
        return int(second if self.main == best else best)


class Repeater:
    """Makes the explanations of one input again."""

    def __init__(self, remaker: "Remaker", claim: Claim) -> None:
        self._remaker = remaker
        self._claim = claim

    @property
    def passes(self) -> Passes:
        """What was run so far, for this input."""
        return self._claim.passes

    @property
    def prices(self) -> list[int]:
        """The forwards that making each explanation once more takes."""
        tokens = len(self._claim.item)
        pieced = sum(len(places) > 1 for places in self._claim.words or ())
        return [
            0
            if isinstance(one, str)
            else 1 + (0 if one.reads else one.extra_forwards(tokens, pieced))
            for one in self._claim.asked.values()
        ]

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages whose weights can be replaced, from the output to the input."""
        return self._remaker.stages

    def __call__(self, change: Change, rows: Sequence[int] | None = None) -> Anew:
        """Return all explanations, or those in `rows`, under `change`."""
        claim, names = self._claim, list(self._claim.asked)
        wanted = range(len(names)) if rows is None else rows
        self._remaker.make(change, claim, [names[row] for row in wanted])
        scores = np.full((len(names), len(claim.item)), np.nan)
        why_not = {}
        for row in wanted:
            found = claim.made[change, names[row]]
            if isinstance(found, str):
                why_not[row] = found
            else:
                scores[row] = found
        predicted = claim.predicted.get(change, int(ranking(claim.logits, claim.item.rest)[0, 0]))
        return Anew(scores, predicted, why_not)


class Remaker:
    """Makes explanations of a batch of inputs again; what was made once is not made again."""

    def __init__(
        self, loaded: Loaded, policy: Policy, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        self.stages = stages(loaded.model)
        self._loaded = loaded
        self._policy = policy
        self._progress = progress
        self._claims: list[Claim] = []

    def add(self, claim: Claim) -> Repeater:
        """Take in one more input of the batch."""
        self._claims.append(claim)
        return Repeater(self, claim)

    def make(self, change: Change, claim: Claim, names: Sequence[str]) -> None:
        """Make what is still missing, for this input, and for the others while the model is changed."""
        for name in names:
            if isinstance(why := claim.asked[name], str):
                claim.made[change, name] = why
        new = [name for name in names if (change, name) not in claim.made]
        if not new:
            return
        together = [claim]
        # Padding and neighbours are about the one input; all else is the same for every one of them.
        if not isinstance(change, Padded | Beside):
            together = [one for one in self._claims if _alike(one, claim, new)]
        model = self._loaded.model
        work = Fitting(model, ", ".join(sorted(new)), [together], _cells)
        for part in work:
            before = [one.passes for one in part]
            try:
                with work.trying(part):
                    self._make(change, part, new)
                    before = [one.passes for one in part]
            except OutOfMemory as error:
                for name in new:
                    part[0].made[change, name] = str(error)
            for one, passes in zip(part, before, strict=True):
                one.passes = passes  # what did not fit is made again, and counted then

    def _make(self, change: Change, claims: Sequence[Claim], names: Sequence[str]) -> None:
        """Make some explanations of some inputs; where that fails, one at a time, to see which it is."""
        requests = {name: one for name, one in claims[0].asked.items() if name in names}
        methods = [one for one in requests.values() if isinstance(one, Request)]
        try:
            with turn(self._loaded.model), self._changed(change, claims) as (batch, spec):
                # What is dropped out depends on how often a module ran: it cannot be run again.
                runs_again = self._loaded.checkpoint and not isinstance(change, Dropout)
                loaded = replace(self._loaded, checkpoint=runs_again)
                seen = traced(loaded, batch, methods, spec)
                ranked = ranking(seen.logits, claims[0].item.rest)
                own = seen.batch.own.cpu().numpy()
                for claim, best in zip(claims, ranked[:, 0].tolist(), strict=False):
                    claim.predicted[change] = int(best)
                    self._count(claim, 1, max((one.backwards for one in methods), default=0))
                for request in methods:
                    adds_up = request.words_by(measured=False) == "sum"
                    by_words = claims[0].words is not None and not adds_up
                    scores, _, extra, words = scored(
                        loaded, request, seen, self._policy, Tally(None, (), ()), words=by_words
                    )
                    for row, claim in enumerate(claims):
                        found = scores[row, own[row]].astype(np.float64)
                        if by_words:
                            found = _by_words(found, claim, None if words is None else words[row])
                        claim.made[change, request.name] = found
                        self._count(claim, extra[row].forward, extra[row].backward)
        except (_Impossible, WhenceError) as error:
            if len(claims) == len(names) == 1:
                claims[0].made[change, names[0]] = str(error)
                return
            for claim in claims:
                for name in names:
                    if (change, name) not in claim.made:
                        self._make(change, [claim], [name])

    def _count(self, claim: Claim, forward: int, backward: int) -> None:
        made = claim.passes
        claim.passes = Passes(made.forward + forward, made.backward + backward)
        self._progress(forward)

    @contextmanager
    def _changed(
        self, change: Change, claims: Sequence[Claim]
    ) -> Iterator[tuple[Batch, TargetSpec]]:
        """Make the change, for as long as the block lasts."""
        model, items = self._loaded.model, [claim.item for claim in claims]
        spec = _each(claims)
        if isinstance(change, Noise | Randomised) and is_offloaded(model):
            raise _Impossible(
                "The weights are offloaded, and cannot be changed to see what follows."
            )
        match change:
            case Noise(radius, seed) if items[0].picture is not None:
                yield self._batch([_shaken(item, radius, seed) for item in items]), spec
            case Noise(radius, seed):
                ids = {*self._loaded.fillers.values()}.union(*(item.ids for item in items))
                with noisy(model, ids, radius, seed):
                    yield self._batch(items), spec
            case Randomised(stage, seed):
                with randomised(model, stage, seed):
                    yield self._batch(items), spec
            case Dropout(seed):
                with dropped_out(model, seed) as places:
                    if not places:
                        raise _Impossible("The model has no dropout to switch on.")
                    yield self._batch(items), spec
            case Padded(extra):
                yield self._batch(items, self._padded(items[0], extra)), spec
            case Beside():
                beside = self._neighbours(items[0])
                yield self._batch([*items, *beside]), _each([claims[0]] * (1 + len(beside)))
            case OtherClass():
                outputs = 1 if self._loaded.task == "regression" else claims[0].logits.shape[1]
                outputs -= claims[0].item.rest
                others = tuple(claim.other_class(outputs) for claim in claims)
                yield self._batch(items), replace(spec, main=others)

    def _batch(self, items: Sequence[Encoded], width: int = 0) -> Batch:
        loaded = self._loaded
        return collate(items, pad_id=loaded.pad_id, device=loaded.device, width=width)

    def _padded(self, item: Encoded, extra: int) -> int:
        if not self._policy.mixed:
            raise _Impossible("Padding changes what this model says.")
        width, longest = len(item) + extra, self._loaded.max_length
        if longest is not None and width > longest:
            raise _Impossible(f"The model takes {longest} tokens at most: none can be added.")
        return width

    def _neighbours(self, item: Encoded) -> list[Encoded]:
        """Return what shares the batch: the input once more, and a part of it where lengths may mix."""
        if self._policy.size < 2:
            raise _Impossible("This model takes one input at a time.")
        half = len(item) // 2
        if not self._policy.mixed or not half or self._loaded.anchors:
            return [item]
        features = {name: values[:half] for name, values in item.features.items()}
        part = replace(item, features=features, tokens=item.tokens[:half], words=())
        return [item, part]


def _shaken(item: Encoded, radius: float, seed: int) -> Encoded:
    assert item.picture is not None
    return replace(item, picture=item.picture.shaken(radius, seed))


def in_units(scores: Numbers, units: Sequence[Sequence[int]], values: Sequence[float]) -> Numbers:
    """Return the scores of tokens with those of every unit replaced, such that they add up to its value.

    The first token gets all of it: shares of it would add up to a little more or less, and break ties.
    """
    found = scores.copy()
    for places, value in zip(units, values, strict=True):
        found[list(places)] = 0.0
        found[places[0]] = value
    return found


def _by_words(scores: Numbers, claim: Claim, measured: Numbers | None) -> Numbers:
    """Return scores whose sums over words are what the words have, where the tokens' own do not add up."""
    assert claim.words is not None
    if measured is None:
        values = [float(scores[list(places)].mean()) for places in claim.words]
    else:
        numbers = {place: i for i, word in enumerate(claim.item.words) for place in word.tokens}
        values = [float(measured[numbers[places[0]]]) for places in claim.words]
    return in_units(scores, claim.words, values)


def _cells(claims: Sequence[Claim]) -> int:
    return len(claims) * max(len(claim.item) for claim in claims)


def _alike(one: Claim, other: Claim, names: Sequence[str]) -> bool:
    """Say whether two inputs were explained by the same methods in the same way."""
    return all(one.asked.get(name) == other.asked[name] for name in names)


def _each(claims: Sequence[Claim]) -> TargetSpec:
    """Return one specification for a batch, in which every input has its own class."""
    others = tuple(claim.against for claim in claims if claim.against is not None)
    return TargetSpec(tuple(claim.main for claim in claims), others or None, claims[0].of)
