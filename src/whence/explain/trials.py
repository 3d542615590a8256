"""Trials for metrics, built from inputs or saved explanations; trust cards; a sign check."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from whence.core.errors import BadEncoding, BadParameter, CannotRead, UnknownMethod
from whence.core.progress import Progress, ProgressCounter
from whence.core.types import PassCount
from whence.data.batches import BatchRules, collate
from whence.data.prompts import append_tokens
from whence.data.readout import ClassReadout
from whence.data.removal import (
    BULK_REMOVALS,
    Removal,
    can_delete_tokens,
    list_players,
    list_removable_tokens,
    list_removals,
    remove_sets,
    resolve_removal,
    select_replacements,
)
from whence.data.tokens import EncodedInput
from whence.explain.batch_policy import choose_batch_policy
from whence.explain.explanation import Explanation
from whence.explain.inputs import (
    encode_inputs,
    encode_value,
    warn_about_unknown_tokens,
)
from whence.explain.pipeline import (
    ExplainedBatch,
    build_prediction_cache,
    build_query,
    explain_batches,
)
from whence.explain.repeat import (
    BatchRepeater,
    InputRepeater,
    replace_unit_scores,
)
from whence.explain.request import MethodRequest, resolve_methods
from whence.explain.tasks import (
    TargetedInputs,
    TargetRequest,
    resolve_targets,
)
from whence.explain.tasks.causal_lm import CONTRAST_NOTE, with_decoder_start
from whence.explain.tasks.masked_lm import mark_masks_special
from whence.explain.word_scores import merge_payloads
from whence.metrics._requests import RemovalPredictions, run_together
from whence.metrics._trial import Trial, TrialStep
from whence.models.fingerprint import compute_fingerprint
from whence.models.model import LoadedModel
from whence.tracing.ask import PredictionCache, count_forwards
from whence.tracing.target import ResolvedTargets, TargetSpec, compute_probabilities
from whence.tracing.trace import run_traced
from whence.trust.card import Trust, assess

if TYPE_CHECKING:
    from whence.explain.explainer import Explainer

_EXPLAIN_AGAIN_HINT = "Explain the input anew and test that."


def restore_input(explanation: Explanation, loaded: LoadedModel) -> EncodedInput:
    """Return the input of an explanation that this model made; that of a saved one is encoded again."""
    recorded, current = explanation.model.get("fingerprint"), compute_fingerprint(loaded.model)
    if recorded != current:
        raise BadParameter(
            f"The explanation is of the model {explanation.model.get('name')!r} ({recorded}), not of {loaded.name!r} "
            f"({current}). Give the model that it was made with."
        )
    scores = explanation.scores
    if scores.shape != (len(explanation.tokens),) or not np.isfinite(scores).all():
        raise BadParameter(
            f"An explanation to test must have one finite score for each of its {len(explanation.tokens)} tokens. "
            f"Its scores are {scores.shape} with {int((~np.isfinite(scores)).sum())} that are not finite."
        )
    if explanation.provenance.get("contrast") == CONTRAST_NOTE:
        raise BadParameter(
            f"This is {CONTRAST_NOTE}: no model takes both at once, so it can be neither tested nor looked into. Explain each "
            "answer by itself: answer='...'."
        )
    if explanation.item is not None:
        return explanation.item
    if explanation.shown is not None:
        raise CannotRead(
            "The file holds the picture as people see it, not the numbers that the model was given. Explain the "
            "picture anew and test that."
        )
    if explanation.source.text is None:
        raise CannotRead(
            f"The explanation holds no text, so its input cannot be made again. {_EXPLAIN_AGAIN_HINT}"
        )
    reading = explanation.reading
    if reading is None and not loaded.is_classifier:
        raise CannotRead(
            f"The explanation does not say all of how {type(loaded.model).__name__} was read. {_EXPLAIN_AGAIN_HINT}"
        )
    item = _encode_source(explanation, explanation.source.text, loaded)
    if item.tokens != explanation.tokens:
        raise CannotRead(
            f"The tokenizer makes {len(item.tokens)} tokens of the text that are not the explanation's "
            f"{len(explanation.tokens)}. Give the tokenizer that it was made with."
        )
    length = len(item.answer) or len(item)
    if reading is not None and not all(-length <= place < length for place in reading.places):
        raise CannotRead(f"The model was read at tokens that are not there. {_EXPLAIN_AGAIN_HINT}")
    return replace(item, reading=reading, labels=explanation.columns)


def _encode_source(explanation: Explanation, text: str, loaded: LoadedModel) -> EncodedInput:
    """Encode the text of a saved explanation, as its task does."""
    source = explanation.source
    if loaded.task in ("next", "sequence"):
        prompt = sum(token.segment == 0 for token in explanation.tokens)
        # A cut prompt is cut to the same length again: it may have left room for an answer.
        room = replace(loaded, max_length=prompt) if source.dropped else loaded
        (item,), _ = encode_inputs(text, room, truncate=True)
        start = with_decoder_start(item, loaded)
        return append_tokens(start, explanation.tokens[len(start) :], source.pair)
    given = text if source.pair is None else (text, source.pair)
    if isinstance(given, tuple) and isinstance(explanation.reading, ClassReadout):
        (item,) = encode_value(given, loaded, True, "only_first")
    else:
        (item,), _ = encode_inputs(given, loaded, truncate=True)
    mask = loaded.fillers.get("mask") if loaded.task == "mask" else None
    return item if mask is None else mark_masks_special(item, mask)


Unit = Literal["token", "word"]
Units = tuple[tuple[int, ...], ...]
MarkFunction = Callable[[int, EncodedInput, Units], Sequence[bool] | None]


@dataclass(frozen=True)
class HumanAnnotation:
    """Human annotation of an input: its true label, and the mask of an image."""

    truth: int | None = None
    # (height, width), see whence.metrics._trial.Trial
    mask: np.ndarray[Any, np.dtype[np.int8]] | None = None


def find_units(item: EncodedInput, unit: Unit, loaded: LoadedModel) -> Units:
    """Return the removable units as token positions: tokens or words; special tokens are in none."""
    free = set(list_players(item, loaded.anchors))
    if unit == "token":
        return tuple((place,) for place in sorted(free))
    if unit != "word":
        raise BadParameter(f"unit must be 'token' or 'word'. Got {unit!r}.")
    words = [tuple(place for place in word.tokens if place in free) for word in item.words]
    return tuple(word for word in words if word)


def put_on_trial(
    loaded: LoadedModel,
    explained: Sequence[tuple[EncodedInput, Sequence[Explanation]]],
    *,
    how: Removal,
    unit: Unit,
    policy: BatchRules,
    seed: int = 0,
    answers: PredictionCache | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> list[Trial]:
    """Build the trials of inputs of one batch, each with explanations of one target.

    `answers` are those of the model so far, and `progress` is told of forward passes.
    """
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise BadParameter(f"seed must be a whole number. Got {seed!r}.")
    items, firsts = [item for item, _ in explained], [own[0] for _, own in explained]
    logits = torch.tensor(
        [first.prediction.logits for first in firsts], dtype=torch.float64, device=loaded.device
    )
    targets = [first.original_target for first in firsts]
    spec, own_logits = TargetSpec.from_targets(targets), logits.to(loaded.dtype)
    batch = collate(items, pad_id=loaded.pad_id, device=loaded.device)
    resolved = ResolvedTargets(*spec.resolve(own_logits), spec, loaded.task)
    ask = build_query(loaded, batch, own_logits, resolved, policy, answers, progress)
    shares = compute_probabilities(logits, loaded.task).cpu().numpy()
    with torch.inference_mode(False):  # tensors of inference mode cannot be differentiated
        copy = logits.cpu().clone()
        slopes = ResolvedTargets(*spec.resolve(copy), spec, loaded.task).slope(copy).abs()
    repeater = BatchRepeater(loaded, policy, progress)
    trials = []
    for row, (item, explanations) in enumerate(explained):
        units = find_units(item, unit, loaded)
        requests = {one.method: _rebuild_request(one, loaded) for one in explanations}
        words = units if unit == "word" else None
        trials.append(
            Trial(
                item=item,
                task=loaded.task,
                names=tuple(one.method for one in explanations),
                scores=np.stack([_compute_unit_scores(one, units, unit) for one in explanations]),
                signed=tuple(one.signed for one in explanations),
                axioms=tuple(one.axioms for one in explanations),
                units=units,
                removed=RemovalPredictions(
                    ask, row, units, how, firsts[row].target, shares[row], loaded.task
                ),
                again=repeater.add(item, requests, logits[row : row + 1], targets[row], words),
                fine=tuple(None if one.shown is None else one.shown.fine for one in explanations),
                seed=seed,
                # The sum of |d explained / d logits|: 1 for a logit, 2 for a contrast.
                slope=float(slopes[row].sum()),
            )
        )
    return trials


def _compute_unit_scores(
    explanation: Explanation, units: Units, unit: Unit
) -> np.ndarray[Any, Any]:
    """Return token scores in which each unit's tokens add up to the unit's score."""
    scores = explanation.scores.astype(np.float64)
    if unit == "token" or explanation.words_by == "sum":
        return scores
    pairs = zip(explanation.spans, explanation.word_scores, strict=True)
    own = {place: score for word, score in pairs for place in word.tokens}
    return replace_unit_scores(scores, units, [float(own[positions[0]]) for positions in units])


def _rebuild_request(explanation: Explanation, loaded: LoadedModel) -> MethodRequest | str:
    """Return the method request of an explanation, or the reason why it cannot be repeated."""
    try:
        (request,) = resolve_methods(explanation.method, dict(explanation.params), loaded.fillers)
    except UnknownMethod:
        return f"It cannot be made again: there is no method {explanation.method!r}."
    except BadParameter as error:
        return f"It cannot be made again. {error}"
    return request


def build_trials(
    loaded: LoadedModel,
    batch: ExplainedBatch,
    *,
    how: Removal,
    unit: Unit,
    marks: MarkFunction | None,
    known: Sequence[HumanAnnotation] | None,
    seed: int,
    parts: Sequence[TrialStep],
) -> Iterator[tuple[int, Trial, dict[str, Explanation]]]:
    """Yield a trial for each explained input of a batch, with what people marked; see `Explainer.trials`."""
    rows = zip(batch.numbers, batch.items, batch.results, strict=True)
    explained = [row for row in rows if row[2]]
    if not explained:
        return
    trials = put_on_trial(
        loaded,
        [(item, list(by_name.values())) for _, item, by_name in explained],
        how=how,
        unit=unit,
        policy=batch.policy,
        seed=seed,
        answers=batch.answers,
    )
    for place, (number, item, _) in enumerate(explained):
        marked = None if marks is None else marks(number, item, trials[place].units)
        own = HumanAnnotation() if known is None else known[number]
        trials[place] = replace(
            trials[place],
            marked=None if marked is None else tuple(marked),
            mask=own.mask,
            truth=own.truth,
        )
    results = iter(run_together(step(trial) for trial in trials for step in parts))
    for trial, (number, _, by_name) in zip(trials, explained, strict=True):
        yield number, replace(trial, results=tuple(islice(results, len(parts)))), by_name


def assess_trust(
    explainer: "Explainer",
    what: Any,
    about: TargetRequest,
    *,
    method: str | Sequence[str] | None,
    params: Mapping[str, Any] | None,
    remove: Removal | Literal["all"] | None,
    unit: Unit,
    budget: int | None,
    seed: int,
    progress: Progress | None,
) -> Trust:
    """Explain one input, or take an explanation, and return its trust card; see `Explainer.trust`."""
    started = time.perf_counter()
    explainer.loaded.check_head()
    explanation = what if isinstance(what, Explanation) else None
    image = about.image if explanation is None else explanation.shown is None or None
    loaded = explainer.loaded
    pictures = loaded.takes_images and image is None
    loaded = replace(loaded, fillers=select_replacements(loaded.fillers, pictures))
    if explanation is None:
        names = explainer.default_method(image) if method is None else method
        requests = resolve_methods(names, params, loaded.fillers)
        targeted = _resolve_single_target(loaded, what, about)
        item = targeted.items[0]
    else:
        item = restore_input(explanation, loaded)
    ways = _resolve_removals(remove, item, loaded)
    earlier = PassCount(0, 0)
    # Its passes, once a model, do not count.
    policy = choose_batch_policy(loaded, [item], probe=True)
    with count_forwards(loaded.model) as runs:
        if explanation is None:
            (batch,) = explain_batches(
                explainer, [([0], targeted)], requests, progress=progress, tests=True
            )
            explanations = list(batch.results[0].values())
            earlier = PassCount(targeted.forwards, _count_backwards(explanations))
            answers = batch.answers
            assert answers is not None
        else:
            explanations = [explanation]
            answers = build_prediction_cache(loaded, policy)
        meter = ProgressCounter(progress)
        (trial,) = put_on_trial(
            loaded,
            [(item, explanations)],
            how=ways[0],
            unit=unit,
            policy=policy,
            seed=seed,
            answers=answers,
            progress=meter.add,
        )
        again = trial.again
        assert isinstance(again, InputRepeater)

        def count_spent() -> PassCount:
            drawn = 0 if answers.infill is None else answers.infill.forwards
            forward = earlier.forward + runs.forward + drawn
            return PassCount(forward, earlier.backward + again.passes.backward)

        return assess(
            trial,
            merge_payloads([one.to_dict() for one in explanations]),
            prices=again.prices,
            spent=count_spent,
            started=started,
            removals=ways,
            unit=unit,
            budget=budget,
            meter=meter,
        )


def _resolve_single_target(loaded: LoadedModel, text: Any, about: TargetRequest) -> TargetedInputs:
    """Return the one input with its one target; refuse several of either."""
    items, single = encode_inputs(text, loaded, truncate=about.truncate, reads=about.has_image)
    warn_about_unknown_tokens(items, loaded)
    if not single:
        raise BadEncoding(
            f"trust takes one input at a time. Got {len(items)}: call it for each, or whence.evaluate."
        )
    targeted = resolve_targets(loaded, items, about)
    if targeted.join is not None:
        raise BadEncoding(
            "Two answers of several tokens are held against each other by the difference of two explanations, which "
            "no model can be asked about. Test each answer: answer='...'."
        )
    if len(targeted.items) != 1:
        raise BadEncoding(
            f"trust tests one explanation at a time, and the model says {len(targeted.items)} things about "
            "this input. Say which one: at=..., or test each explanation: explanation.trust()."
        )
    return targeted


def _resolve_removals(
    remove: Removal | Literal["all"] | None, item: EncodedInput, loaded: LoadedModel
) -> list[Removal]:
    """Return the ways of removal to test with, that of the verdicts first."""
    known = [*get_args(Removal), "all"]
    if remove is not None and remove not in known:
        raise BadParameter(f"remove must be one of {', '.join(known)}. Got {remove!r}.")
    if remove != "all":
        return [resolve_removal(remove, loaded.fillers, BULK_REMOVALS)]
    have = list_removals(loaded.fillers)
    if "delete" in have and not can_delete_tokens(item, loaded.anchors):
        have.remove("delete")
    first = [way for way in BULK_REMOVALS if way in have]
    return [*first, *(way for way in have if way not in first)]


def _count_backwards(explanations: Sequence[Explanation]) -> int:
    """Return the backward passes of explanations made together: they share that of the trace."""
    counts = [explanation.passes.backward for explanation in explanations]
    return int(any(counts)) + sum(count - 1 for count in counts if count > 1)


# In a longer text one word hardly moves the prediction, so a wrong sign misleads little.
_MAX_WORDS = 64  # words
# Probabilities after some dozen layers are exact to a few tens of units in the last place:
# smaller differences are rounding.
_ROUNDING = 100


def find_sign_doubt(loaded: LoadedModel, explanation: Explanation) -> tuple[str, str] | None:
    """Remove the strongest word; return code and sentence if the probability moves against the word's sign.

    Only for text classifiers, with the removal of leave_one_out. For a contrast it is the difference of both
    probabilities. Scores measured on whole words are not measured again.
    """
    item, words, target = explanation.item, explanation.word_scores, explanation.target
    if item is None or item.picture is not None or item.reading is not None or item.labels:
        return None
    tested = explanation.signed and explanation.measured is None and 0 < len(words) <= _MAX_WORDS
    if not tested or loaded.task not in ("single_label", "multi_label"):
        return None
    place = int(abs(words).argmax())
    score, word = float(words[place]), explanation.spans[place]
    masked = set(word.tokens).intersection(list_removable_tokens(item, loaded.anchors))
    if not score or not masked:
        return None
    fillers = select_replacements(loaded.fillers, pictures=False)
    variants = remove_sets([item], [0, 0], [(), masked], resolve_removal(None, fillers), fillers)
    # One pass for both, unless a token was deleted: padding changes what some models say.
    together = variants.lengths[0] == variants.lengths[1]
    against = None if target.against is None else target.against.index
    spec, values = TargetSpec(target.index, against, "probability"), list[float]()
    for rows in [[0, 1]] if together else [[0], [1]]:
        batch = variants.collate(rows, pad_id=loaded.pad_id, device=loaded.device)
        trace = run_traced(loaded.model, batch, (), spec, loaded.task)
        values += trace.targets.value(trace.logits).tolist()
    whole, without = values
    known = explanation.prediction.probabilities
    base = known[target.label] - (known[target.against.label] if target.against else 0.0)
    noise = _ROUNDING * torch.finfo(loaded.dtype).eps
    # A different prediction for the whole text means that the model was trained since: no comparison.
    if abs(whole - base) > noise or abs(whole - without) <= noise:
        return None
    if (score > 0) == (whole > without):
        return None
    side = "for" if score > 0 else "against"
    moves = "falls" if whole > without else "rises"
    lead = target.label
    if target.against is not None:
        lead = f"the lead of {target.label} over {target.against.label}"
    for figures in range(1, 8):  # enough to tell them apart
        before, after = (f"{100 * value:.{figures}f} %" for value in values)
        if before != after:
            break
    return "sign", (
        f"{explanation.method} has {word.text!r} {side} {target} ({score:+.3g}), but without it {lead} {moves} from "
        f"{before} to {after}: do not trust the sign; leave_one_out measures it."
    )
