"""Putting explanations on trial: the model, the input and the claims, as the metrics take them."""

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch

from whence.capture import Answers, Ask, Targets, TargetSpec, probabilities
from whence.core.errors import BadParameter, UnknownMethod, WhenceError
from whence.core.types import Task
from whence.data import Encoded, Policy, collate
from whence.data.removal import Removal, players
from whence.explainer.aims.each import Failed, Inputs
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, take_each
from whence.explainer.request import Request, requests
from whence.explainer.verify.again import Claim, Remaker, in_units
from whence.models import Loaded
from whence.trial import Removed, Trial

Unit = Literal["token", "word"]
Units = tuple[tuple[int, ...], ...]
Marks = Callable[[int, Encoded, Units], Sequence[bool] | None]


@dataclass(frozen=True)
class Known:
    """What people said about an input: the label they gave it, and what of a picture they outlined."""

    truth: int | None = None
    mask: np.ndarray[Any, np.dtype[np.int8]] | None = (
        None  # (height, width), see whence.trial.Trial
    )


def units_of(item: Encoded, unit: Unit, loaded: Loaded) -> Units:
    """Return the places that come and go together; special tokens are never removed."""
    free = set(players(item, loaded.anchors))
    if unit == "token":
        return tuple((place,) for place in sorted(free))
    if unit != "word":
        raise BadParameter(f"unit must be 'token' or 'word'. Got {unit!r}.")
    words = [tuple(place for place in word.tokens if place in free) for word in item.words]
    return tuple(word for word in words if word)


def trial_of(
    loaded: Loaded,
    item: Encoded,
    explanations: Sequence[Explanation],
    *,
    how: Removal,
    unit: Unit,
    policy: Policy,
    remaker: Remaker,
    seed: int,
    answers: Answers | None = None,
    marks: Callable[[Encoded, Units], Sequence[bool] | None] | None = None,
    known: Known | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> Trial:
    """Put explanations of one input and one target on trial."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    first = explanations[0]
    against = None if first.target.against is None else first.target.against.index
    of = first.asked.of
    spec = TargetSpec(first.target.index, against, of)
    logits = torch.tensor([first.prediction.logits], dtype=torch.float64, device=loaded.device)
    batch = collate([item], pad_id=loaded.pad_id, device=loaded.device)
    ask = Ask(
        loaded.model,
        batch,
        logits.to(loaded.dtype),
        Targets(*spec.resolve(logits), spec, loaded.task),
        fillers=loaded.fillers,
        anchors=loaded.anchors,
        pad_id=loaded.pad_id,
        policy=policy,
        answers=answers,
        infiller=loaded.infiller,
        checkpoint=loaded.checkpoint,
        progress=progress,
    )
    units = units_of(item, unit, loaded)
    shares = probabilities(logits, loaded.task)[0].cpu().numpy()
    marked = None if marks is None else marks(item, units)
    return Trial(
        item=item,
        task=loaded.task,
        names=tuple(one.method for one in explanations),
        scores=np.stack([_scores(one, units, unit) for one in explanations]),
        signed=tuple(one.signed for one in explanations),
        axioms=tuple(one.axioms for one in explanations),
        units=units,
        removed=Removed(ask, units, how, first.target, shares, loaded.task),
        again=remaker.add(
            Claim(
                item,
                {one.method: _request(one, loaded) for one in explanations},
                logits,
                first.target.index,
                against,
                of,
                units if unit == "word" else None,
            )
        ),
        marked=None if marked is None else tuple(marked),
        mask=None if known is None else known.mask,
        truth=None if known is None else known.truth,
        fine=tuple(None if one.shown is None else one.shown.fine for one in explanations),
        seed=seed,
        slope=_slope(first, spec, loaded.task),
    )


def _scores(explanation: Explanation, units: Units, unit: Unit) -> np.ndarray[Any, Any]:
    """Return the scores of an explanation's tokens, such that those of a unit add up to what the unit has."""
    scores = explanation.scores.astype(np.float64)
    if unit == "token" or explanation.words_by == "sum":
        return scores
    places = [frozenset(word.tokens) for word in explanation.spans]
    own = {
        place: score
        for word, score in zip(places, explanation.word_scores, strict=True)
        for place in word
    }
    return in_units(scores, units, [float(own[hole[0]]) for hole in units])


def inputs_of(texts: Any, loaded: Loaded, truncate: bool, failed: Failed | None) -> Inputs:
    """Return the inputs that can be taken, and how many there were; `failed` gets the others."""
    texts = texts if isinstance(texts, Sized) else list(texts)
    numbers, items = taken(cast(Iterable[Any], texts), loaded, truncate, failed)
    return Inputs(numbers, items, len(items) if failed is None else len(texts))


def taken(
    texts: Iterable[Any], loaded: Loaded, truncate: bool, failed: Failed | None
) -> tuple[list[int], list[Encoded]]:
    """Return the numbers of the inputs that can be taken, and these; `failed` gets the others."""
    if failed is None:
        items, _ = take(texts, loaded, truncate=truncate)
        return list(range(len(items))), items
    numbers, items = list[int](), list[Encoded]()
    if not loaded.sees:
        told = take_each(
            texts,
            loaded,
            truncate=truncate,
            refuse=lambda number, error: failed(number, None, error),
        )
        for number, item in told:
            numbers.append(number)
            items.append(item)
        return numbers, items
    for number, text in enumerate(texts):
        try:
            (item,), _ = take([text], loaded, truncate=truncate)
        except WhenceError as error:
            failed(number, None, error)
        else:
            numbers.append(number)
            items.append(item)
    return numbers, items


def explained(
    explain: Callable[[Sequence[Encoded], Sequence[Request]], list[dict[str, Explanation]]],
    items: Sequence[Encoded],
    numbers: Sequence[int],
    asked: Sequence[Request],
    failed: Failed | None,
) -> list[dict[str, Explanation]]:
    """Explain a batch; where that fails and `failed` wants to know, one by one, without what cannot be done."""
    try:
        return explain(items, asked)
    except WhenceError:
        if failed is None:
            raise
    results: list[dict[str, Explanation]] = []
    for number, item in zip(numbers, items, strict=True):
        found: dict[str, Explanation] = {}
        for request in asked:
            try:
                found |= explain([item], [request])[0]
            except WhenceError as error:
                failed(number, request.name, error)
        results.append(found)
    return results


# The caller may sit in inference mode, and nothing that was made in it can be differentiated.
@torch.inference_mode(False)
def _slope(explanation: Explanation, spec: TargetSpec, task: Task) -> float:
    """Return how much the explained number moves with the logits: the sizes of its slopes, added up."""
    logits = torch.tensor([explanation.prediction.logits], dtype=torch.float64)
    return float(Targets(*spec.resolve(logits), spec, task).slope(logits).abs().sum())


def _request(explanation: Explanation, loaded: Loaded) -> Request | str:
    """Return how to make the explanation again, or why that cannot be."""
    try:
        (request,) = requests(explanation.method, dict(explanation.params), loaded.fillers)
    except UnknownMethod:
        return f"It cannot be made again: there is no method {explanation.method!r}."
    except BadParameter as error:
        return f"It cannot be made again. {error}"
    return request


"""Explanations put to the test, and inputs explained again for it."""


"""Asking about all inputs of a batch what their trials are going to ask, before the first of them begins.

A metric asks about a few variants of one input at a time, which fill no batch. What it will ask is known, as far as
it does not depend on answers: so it is asked of all inputs together, and metrics find the answers there.
"""

from collections.abc import Sequence
from itertools import islice

from whence.capture import Answers
from whence.core.errors import WhenceError
from whence.data import Encoded
from whence.data.removal import suited, without
from whence.models import Loaded
from whence.trial import Trial
from whence.trial.rehearsal import Part, wanted

# A metric that goes by its answers asks again and again; after so many times each input is left to itself.
_ROUNDS = 16
# How many holes are asked about at a time: enough to sort by length, few enough for a long text.
_AT_A_TIME = 2048

Hole = tuple[Encoded, list[int]]


def rehearse(
    loaded: Loaded, trials: Sequence[Trial], parts: Sequence[Part], answers: Answers
) -> None:
    """Ask what the parts of some trials will ask.

    Where the model fails on a variant, it is left to each trial to find that out.
    """
    waiting = [(trial, part) for trial in trials for part in parts]
    for _ in range(_ROUNDS):
        asked: dict[int, tuple[Trial, dict[frozenset[int], None]]] = {}
        still = []
        for trial, part in waiting:
            holes = wanted(trial, part)
            if holes is not None:
                asked.setdefault(id(trial), (trial, {}))[1].update(dict.fromkeys(holes))
                still.append((trial, part))
        if not asked:
            return
        every = [(trial, list(holes)) for trial, holes in asked.values()]
        try:
            _ask(loaded, every, answers)
        except WhenceError:
            return
        for trial, holes in every:
            trial.removed.shares(holes)  # known to `answers` by now
        waiting = still


def _ask(
    loaded: Loaded, every: Sequence[tuple[Trial, list[frozenset[int]]]], answers: Answers
) -> None:
    holes = (
        (trial.item, trial.removed.places(hole), trial.removed.how)
        for trial, some in every
        for hole in some
    )
    while chunk := list(islice(holes, _AT_A_TIME)):
        how = chunk[0][2]
        if how == "draw":
            assert answers.infill is not None, "without a language model, resolve refuses to draw"
            fillings = answers.infill([(item, places) for item, places, _ in chunk])
            answers([one for each in fillings for one in each])
        else:
            fillers = suited(loaded.fillers, chunk[0][0].picture is not None)
            answers([without(item, places, how, fillers) for item, places, _ in chunk])


"""The input that an explanation is of: kept with it, or, of one that was read from a file, made again."""

from dataclasses import replace

import numpy as np

from whence.core.errors import BadParameter, CannotRead
from whence.data import Encoded
from whence.data.reading import Column
from whence.data.text.continuation import grown
from whence.explainer.aims.mask import without_masks
from whence.explainer.aims.next import begun
from whence.explainer.aims.rather import SAID
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, take_pair
from whence.models import Loaded, fingerprint

_ANEW = "Explain the input anew and test that."


def item_of(explanation: Explanation, loaded: Loaded) -> Encoded:
    """Return the input that an explanation is of, if it is one of this model's."""
    made, here = explanation.model.get("fingerprint"), fingerprint(loaded.model)
    if made != here:
        raise BadParameter(
            f"The explanation is of the model {explanation.model.get('name')!r} ({made}), not of {loaded.name!r} "
            f"({here}). Give the model that it was made with."
        )
    scores = explanation.scores
    if scores.shape != (len(explanation.tokens),) or not np.isfinite(scores).all():
        raise BadParameter(
            f"An explanation to test must have one finite score for each of its {len(explanation.tokens)} tokens. "
            f"Its scores are {scores.shape} with {int((~np.isfinite(scores)).sum())} that are not finite."
        )
    if explanation.provenance.get("contrast") == SAID:
        raise BadParameter(
            f"This is {SAID}: no model takes both at once, so it can be neither tested nor looked into. Explain each "
            "answer by itself: answer='...'."
        )
    return explanation.item or _made_again(explanation, loaded)


def _made_again(explanation: Explanation, loaded: Loaded) -> Encoded:
    """Encode what a file tells of an input as it was, and read the model where it was read."""
    if explanation.shown is not None:
        raise CannotRead(
            "The file holds the picture as people see it, not the numbers that the model was given. Explain the "
            "picture anew and test that."
        )
    if explanation.source.text is None:
        raise CannotRead(
            f"The explanation holds no text, so its input cannot be made again. {_ANEW}"
        )
    reading, columns = explanation.reading, explanation.columns
    if reading is None and not loaded.classifies:
        raise CannotRead(
            f"The explanation does not say all of how {type(loaded.model).__name__} was read. {_ANEW}"
        )
    item = _encoded(explanation, loaded)
    if item.tokens != explanation.tokens:
        raise CannotRead(
            f"The tokenizer makes {len(item.tokens)} tokens of the text that are not the explanation's "
            f"{len(explanation.tokens)}. Give the tokenizer that it was made with."
        )
    length = len(item.answer) or len(item)
    if reading is not None and not all(-length <= place < length for place in reading.places):
        raise CannotRead(f"The model was read at tokens that are not there. {_ANEW}")
    return replace(item, reading=reading, labels=columns)


def _encoded(explanation: Explanation, loaded: Loaded) -> Encoded:
    source = explanation.source
    assert source.text is not None
    if loaded.task in ("next", "sequence"):
        prompt = sum(token.segment == 0 for token in explanation.tokens)
        # Where a prompt was cut, it may have been to leave room for an answer.
        room = replace(loaded, max_length=prompt) if source.dropped else loaded
        (item,), _ = take(source.text, room, truncate=True)
        start = begun(item, loaded)
        return grown(start, explanation.tokens[len(start) :], source.pair)
    if source.pair is None:
        (item,), _ = take(source.text, loaded, truncate=True)
    elif isinstance(explanation.reading, Column):
        item = take_pair((source.text, source.pair), loaded, truncate=True, cut="only_first")
    else:
        (item,), _ = take((source.text, source.pair), loaded, truncate=True)
    mask = loaded.fillers.get("mask") if loaded.task == "mask" else None
    return item if mask is None else without_masks(item, mask)


"""Whether the sign of an explanation's strongest word holds: the word is taken away, and the model asked once more.

Signs of attribution methods often contradict what happens without a word. On a short text that can be known for the
price of a forward pass, when an explanation is shown.
"""

from typing import TYPE_CHECKING

import torch

from whence.capture import Ask, Targets, TargetSpec
from whence.data import collate
from whence.data.removal import removable, resolve
from whence.explainer.sharing import Sharing

if TYPE_CHECKING:
    from whence.explainer.explainer import Explainer
    from whence.explainer.explanation import Explanation

CODE = "sign"
# In a longer text one word of many hardly moves the prediction, and a sign that is wrong misleads about little.
_SHORT = 64  # words
# A forward pass of some dozen layers is good to a few tens of units in the last place, and so are its probabilities:
# what differs by less may be the same.
_ROUNDING = 100


def doubted_sign(explainer: "Explainer", explanation: "Explanation") -> tuple[str, str] | None:
    """Say, with a code, that the strongest word's sign is contradicted, if it is."""
    try:
        return _doubted(explainer, explanation)
    except (
        Exception
    ):  # a remark on what is shown: that it cannot be made is no reason not to show it
        return None


def _doubted(explainer: "Explainer", explanation: "Explanation") -> tuple[str, str] | None:
    """Say that taking the strongest word away moves the target's probability against the word's sign, if it does.

    That is asked of classifiers of texts, as leave_one_out asks it. Of a contrast it is the difference of both
    probabilities. What was measured on whole words is not measured again.
    """
    loaded, item = explainer.loaded, explanation.item
    own = item is None or item.picture is not None or item.reading is not None or bool(item.labels)
    if own or item is None or loaded.task not in ("single_label", "multi_label"):
        return None
    words = explanation.word_scores
    if not explanation.signed or explanation.measured is not None or not 0 < len(words) <= _SHORT:
        return None
    place = int(abs(words).argmax())
    score, word = float(words[place]), explanation.spans[place]
    free = set(removable(item, loaded.anchors))
    hole = [token for token in word.tokens if token in free]
    if not score or not hole:
        return None
    target = explanation.target
    against = None if target.against is None else target.against.index
    spec = TargetSpec(target.index, against, "probability")
    logits = torch.tensor([explanation.prediction.logits], dtype=loaded.dtype, device=loaded.device)
    ask = Ask(
        loaded.model,
        collate([item], pad_id=loaded.pad_id, device=loaded.device),
        logits,
        Targets(*spec.resolve(logits), spec, loaded.task),
        fillers=loaded.fillers,
        anchors=loaded.anchors,
        pad_id=loaded.pad_id,
        policy=Sharing(loaded).policy([item], tests=True),
        infiller=loaded.infiller,
        checkpoint=loaded.checkpoint,
    )
    (found,) = ask.without([[(), hole]], resolve(None, ask.fillers))
    whole, without = (float(value) for value in found)
    noise = _ROUNDING * ask.eps
    # A model that was trained on since says something else of the whole text: then this is another model.
    if abs(whole - float(ask.base())) > noise or abs(whole - without) <= noise:
        return None
    if (score > 0) == (whole > without):
        return None
    side = "for" if score > 0 else "against"
    moves = "falls" if whole > without else "rises"
    said = (
        f"{explanation.method} has {word.text!r} {side} {target} ({score:+.3g}), but without it "
        f"{_named(explanation)} {moves} from {_both(whole, without)}"
    )
    return CODE, f"{said}: do not trust the sign; leave_one_out measures it."


def _named(explanation: "Explanation") -> str:
    target = explanation.target
    if target.against is None:
        return target.label
    return f"the lead of {target.label} over {target.against.label}"


def _both(whole: float, without: float) -> str:
    """Write two probabilities with as many figures as tell them apart."""
    for figures in range(1, 8):
        said = [f"{100 * value:.{figures}f} %" for value in (whole, without)]
        if said[0] != said[1]:
            break
    return " to ".join(said)


"""Putting a whole data set on trial: what a method asks and what a metric asks is asked once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from whence.data import batches
from whence.data.removal import MANY, Removal, resolve
from whence.explainer.aims import Asked
from whence.explainer.aims.each import Failed, aim_each
from whence.explainer.explanation import Explanation
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.sharing import INPUTS
from whence.explainer.verify.again import Remaker
from whence.explainer.verify.rehearsing import rehearse
from whence.explainer.verify.testing import Known, Marks, Unit, explained, inputs_of, trial_of
from whence.explainer.work import Progress, Tally
from whence.trial import Trial
from whence.trial.rehearsal import Part


def trials(
    maker: Maker,
    given: Any,
    about: Asked,
    *,
    method: str | Sequence[str],
    params: Mapping[str, Any] | None,
    remove: Removal | None,
    unit: Unit,
    marks: Marks | None,
    known: Sequence[Known] | None,
    seed: int,
    failed: Failed | None,
    parts: Sequence[Part],
    batch_size: int,
    progress: Progress | None,
) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
    """Explain inputs and put each on trial; see `Explainer.trials`."""
    loaded, sharing = maker.loaded, maker.sharing
    asked = requests(method, params, loaded.fillers)
    maker.require_head()
    how = resolve(remove, loaded.fillers, MANY)
    inputs = inputs_of(given, loaded, about.truncate, failed)
    if not inputs.items:
        return
    aims = list(aim_each(loaded, inputs, about, failed))
    tally = Tally(progress, [item for _, aimed in aims for item in aimed.items], asked)
    facts = maker.facts()
    for numbers, aimed in aims:
        items = aimed.items
        # Metrics ask about many variants of different lengths, whatever the methods do.
        policy = sharing.policy(items, batch_size, tests=True)
        asking = sharing.variants(policy, items)
        if batch_size < INPUTS:
            asking = replace(asking, size=min(asking.size, batch_size))
        policy = sharing.small_enough(policy, items, asked)
        explain = partial(
            maker.explain,
            spec=aimed.spec,
            policy=policy,
            facts=facts,
            tally=tally,
            before=aimed.forwards,
            words=unit == "word",
        )
        for chosen in batches(items, policy):
            answers = maker.answers(asking)
            own, some = [numbers[i] for i in chosen], [items[i] for i in chosen]
            every = explained(partial(explain, answers=answers), some, own, asked, failed)
            remaker = Remaker(loaded, policy)
            tried = [one for one in zip(own, some, every, strict=True) if one[2]]
            # All of a batch before the first is used: what is made again for them is then made together.
            ready = [
                trial_of(
                    loaded,
                    item,
                    list(found.values()),
                    how=how,
                    unit=unit,
                    policy=asking,
                    remaker=remaker,
                    seed=seed,
                    answers=answers,
                    marks=None if marks is None else partial(marks, i),
                    known=None if known is None else known[i],
                )
                for i, item, found in tried
            ]
            rehearse(loaded, ready, parts, answers)
            for trial, (i, _, found) in zip(ready, tried, strict=True):
                yield i, trial, found


"""Testing what explanations of one input claim, on this very input."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from whence.capture import Answers
from whence.capture.asking.counted import Runs, counted
from whence.core.errors import BadEncoding, BadParameter
from whence.core.types import Passes
from whence.data import Encoded, Policy
from whence.data.removal import MANY, Removal, deletable, possible, resolve
from whence.explainer.aims import Aimed, Asked, aim
from whence.explainer.explanation import Explanation
from whence.explainer.intake import take, warn_of_unknown
from whence.explainer.maker import Maker
from whence.explainer.request import requests
from whence.explainer.verify.again import Remaker
from whence.explainer.verify.restored import item_of
from whence.explainer.verify.testing import Unit, trial_of
from whence.explainer.work import Progress, Tally
from whence.models import Loaded
from whence.trust import Meter, Trust, assess
from whence.view import merge


def trusted(
    maker: Maker,
    what: Any,
    about: Asked,
    *,
    method: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    remove: Removal | Literal["all"] | None,
    unit: Unit,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Explain one input and test what is claimed, or test an explanation as it is; see `Explainer.trust`."""
    started = time.perf_counter()
    maker.require_head()
    finished = what if isinstance(what, Explanation) else None
    reads = about.reads if finished is None else finished.shown is None
    loaded, sharing = maker.suited(reads), maker.sharing
    if finished is None:
        asked = requests(maker.method(reads) if method is None else method, params, loaded.fillers)
        aimed = _aimed(loaded, what, about)
        item = aimed.items[0]
    else:
        item = item_of(finished, loaded)
    ways = _ways(remove, item, loaded)
    policy = sharing.policy([item], tests=True)
    answers = maker.answers(sharing.variants(policy, [item]))
    made = Passes(0, 0)
    with counted(loaded.model) as runs:
        if finished is None:
            (by_name,) = maker.explain(
                [item],
                asked,
                spec=aimed.spec,
                policy=sharing.small_enough(policy, [item], asked),
                facts=maker.facts(),
                tally=Tally(progress, [item], asked),
                answers=answers,
                before=aimed.forwards,
            )
            found = list(by_name.values())
            made = Passes(aimed.forwards, _backwards(found))
        else:
            found = [finished]
        return _tested(
            loaded,
            item,
            found,
            ways=ways,
            unit=unit,
            policy=policy,
            answers=answers,
            runs=runs,
            made=made,
            started=started,
            budget=budget,
            seed=seed,
            progress=progress,
        )


def _aimed(loaded: Loaded, given: Any, about: Asked) -> Aimed:
    """Return the one input, and the one thing about it that is tested."""
    items, single = take(given, loaded, truncate=about.truncate, reads=about.reads)
    warn_of_unknown(items, loaded)
    if not single:
        raise BadEncoding(
            f"trust takes one input at a time. Got {len(items)}: call it for each, or whence.evaluate."
        )
    aimed = aim(loaded, items, about)
    if aimed.join is not None:
        raise BadEncoding(
            "Two answers of several tokens are held against each other by the difference of two explanations, which "
            "no model can be asked about. Test each answer: answer='...'."
        )
    if len(aimed.items) != 1:
        raise BadEncoding(
            f"trust tests one explanation at a time, and the model says {len(aimed.items)} things about "
            "this input. Say which one: at=..., or test each explanation: explanation.trust()."
        )
    return aimed


def _ways(remove: Removal | Literal["all"] | None, item: Encoded, loaded: Loaded) -> list[Removal]:
    """Return the ways of removal to test with, the one of the verdicts first."""
    known = [*get_args(Removal), "all"]
    if remove is not None and remove not in known:
        raise BadParameter(f"remove must be one of {', '.join(known)}. Got {remove!r}.")
    if remove != "all":
        return [resolve(remove, loaded.fillers, MANY)]
    have = [
        way
        for way in possible(loaded.fillers)
        if way != "delete" or deletable(item, loaded.anchors)
    ]
    return sorted(have, key=lambda way: MANY.index(way) if way in MANY else len(MANY))


def _backwards(explanations: Sequence[Explanation]) -> int:
    """Return the backward passes behind explanations that were made together: that of the trace is shared."""
    made = [one.passes.backward for one in explanations]
    return int(any(made)) + sum(one - 1 for one in made if one > 1)


def _tested(
    loaded: Loaded,
    item: Encoded,
    explanations: Sequence[Explanation],
    *,
    ways: list[Removal],
    unit: Unit,
    policy: Policy,
    answers: Answers,
    runs: Runs,
    made: Passes,
    started: float,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Test explanations of one input. `runs` counts the model's forwards; `made` is what else making these took."""
    meter = Meter(progress)
    trial = trial_of(
        loaded,
        item,
        explanations,
        how=ways[0],
        unit=unit,
        policy=policy,
        remaker=Remaker(loaded, policy, meter.add),
        seed=seed,
        answers=answers,
        progress=meter.add,
    )

    def spent() -> Passes:
        drawn = 0 if answers.infill is None else answers.infill.forwards
        forward = made.forward + runs.forward + drawn
        return Passes(forward, made.backward + trial.again.passes.backward)

    return assess(
        trial,
        merge([one.to_dict() for one in explanations]),
        prices=trial.again.prices,
        spent=spent,
        started=started,
        removals=ways,
        unit=unit,
        budget=budget,
        meter=meter,
    )
