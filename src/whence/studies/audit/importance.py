"""Token importances for comparison with attention: its own gradient and leave-one-out, integrated gradients.

All are magnitudes of content tokens, without a sign, as attention is. Each is computed once per subject.
Values that differ by no more than the rounding of the model are made equal: rounding does not rank tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.core.progress import ProgressCounter
from whence.data.batches import Batch
from whence.data.removal import Removal, resolve_removal
from whence.explain.batch_policy import choose_batch_policy, widen_for_variants
from whence.explain.pipeline import run_method, trace_batch
from whence.explain.request import resolve_methods
from whence.metrics._trial import ROUNDINGS
from whence.stats.rank import level_ties
from whence.studies.audit.attention_variants import tvd
from whence.studies.audit.subject import AuditSubject
from whence.tracing.ask import PredictionCache
from whence.tracing.attention_override import override_attention
from whence.tracing.target import TargetSpec, compute_probabilities
from whence.tracing.trace import run_traced

Numbers = NDArray[np.float64]

_PREDICTED_LABEL = TargetSpec("predicted", None, "probability")
# Variants held in memory at a time: enough to fill batches of one length.
_MAX_VARIANTS = 2048


def gradient(subject: AuditSubject, *, detached: bool = True) -> list[Numbers]:
    """Return |Σ_d e · dp / de| of each content token, p the probability of the predicted label.

    With `detached`, attention weights are constants to the gradient, as in Jain and Wallace: it flows through the
    values only.
    """
    key = ("gradient", detached)
    if key not in subject.memo:
        magnitudes: list[Numbers] = [np.empty(0)] * len(subject.items)
        loaded = subject.loaded

        def differentiate(numbers: Sequence[int], batch: Batch) -> None:
            with override_attention(loaded.model, "detached" if detached else "own"):
                trace = run_traced(
                    loaded.model, batch, {"embedding_grad"}, _PREDICTED_LABEL, loaded.task
                )
            embedding, grad = trace.embeddings()
            scores = (embedding.double() * grad.double()).sum(-1).abs().cpu().numpy()
            for number, row in zip(numbers, scores, strict=True):
                magnitudes[number] = _compute_magnitudes(row[subject.places[number]], loaded.dtype)
            subject.tick(3 * len(numbers))

        subject.run_in_batches("gradient", differentiate)
        subject.memo[key] = magnitudes
    result: list[Numbers] = subject.memo[key]
    return result


def leave_one_out(subject: AuditSubject, *, remove: Removal | None = None) -> list[Numbers]:
    """Return the total variation distance of the prediction without each content token.

    An input with a single content token has NaN: without it nothing would be left. A token without which the model is
    undefined cannot be removed, and has 0.
    """
    how = resolve_removal(remove, subject.loaded.fillers)
    key = ("loo", how)
    if key not in subject.memo:
        subject.memo[key] = _compute_leave_one_out(subject, how)
    result: list[Numbers] = subject.memo[key]
    return result


def integrated_gradients(subject: AuditSubject, **params: Any) -> list[Numbers]:
    """Return |integrated gradients| of the predicted label's probability for each content token."""
    loaded = subject.loaded
    (request,) = resolve_methods("integrated_gradients", params, loaded.fillers)
    key = ("integrated_gradients", *sorted(request.params.items()))
    if key not in subject.memo:
        magnitudes: list[Numbers] = [np.empty(0)] * len(subject.items)
        policy = choose_batch_policy(loaded, subject.items, variants=True)

        def integrate(numbers: Sequence[int], batch: Batch) -> None:
            trace = trace_batch(loaded, batch, [request], _PREDICTED_LABEL)
            result = run_method(
                loaded, request, trace=trace, policy=policy, counter=ProgressCounter(None)
            )
            for number, row in zip(numbers, result.scores, strict=True):
                magnitudes[number] = _compute_magnitudes(row[subject.places[number]], loaded.dtype)
            subject.tick(sum(1 + calls.forward + 2 * calls.backward for calls in result.extra))

        subject.run_in_batches("integrated gradients", integrate)
        subject.memo[key] = magnitudes
    result: list[Numbers] = subject.memo[key]
    return result


def _compute_leave_one_out(subject: AuditSubject, how: Removal) -> list[Numbers]:
    """Query the model with each content token left out; batches are filled across examples."""
    loaded = subject.loaded
    policy = choose_batch_policy(loaded, subject.items, probe=True)
    answers = PredictionCache(
        loaded.model,
        pad_id=loaded.pad_id,
        device=loaded.device,
        policy=widen_for_variants(loaded, policy),
        infiller=loaded.infiller,
    )
    distances = [np.full(len(places), np.nan) for places in subject.content]
    order = sorted(range(len(subject.items)), key=lambda number: -len(subject.items[number]))
    waiting: list[tuple[int, int]] = []  # (example, index of a content token)
    for number in order:
        places = subject.content[number]
        if len(places) < 2:
            continue
        if waiting and len(waiting) + len(places) > _MAX_VARIANTS:
            _measure_distances(subject, how, answers, waiting, distances)
            waiting = []
        for token, place in enumerate(places):
            if subject.items[number].ids[place] in loaded.anchors:
                distances[number][token] = 0.0
            else:
                waiting.append((number, token))
    _measure_distances(subject, how, answers, waiting, distances)
    eps = ROUNDINGS * torch.finfo(loaded.dtype).eps
    # Rounding of a logit moves a probability p by about eps · p (1 - p).
    moves = (subject.probabilities * (1 - subject.probabilities)).max(1)
    return [level_ties(row, eps * move) for row, move in zip(distances, moves, strict=True)]


def _compute_magnitudes(scores: NDArray[Any], dtype: torch.dtype) -> Numbers:
    """Return |scores|, made equal where they differ by rounding only."""
    sizes = np.abs(scores.astype(np.float64))
    return level_ties(sizes, ROUNDINGS * torch.finfo(dtype).eps * float(sizes.max(initial=0)))


def _measure_distances(
    subject: AuditSubject,
    how: Removal,
    answers: PredictionCache,
    waiting: list[tuple[int, int]],
    distances: list[Numbers],
) -> None:
    """Query the model about the waiting variants, and record the distances of their predictions."""
    if not waiting:
        return
    loaded = subject.loaded
    rows = list(dict.fromkeys(number for number, _ in waiting))
    owners = [rows.index(number) for number, _ in waiting]
    holes = [(int(subject.content[number][token]),) for number, token in waiting]
    items = [subject.items[number] for number in rows]
    logits, _ = answers.without(items, owners, holes, how, loaded.fillers, subject.tick)
    shares = compute_probabilities(logits.double(), loaded.task).mean(1).cpu()
    base = torch.from_numpy(subject.probabilities)[[number for number, _ in waiting]]
    moved = tvd(shares, base.double(), loaded.task).tolist()
    for (number, token), distance in zip(waiting, moved, strict=True):
        distances[number][token] = distance
    answers.forget()
