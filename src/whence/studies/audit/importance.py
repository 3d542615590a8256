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
from whence.explain.batch_policy import choose_batch_policy
from whence.explain.pipeline import build_prediction_cache, run_method
from whence.explain.request import resolve_methods
from whence.metrics._requests import ROUNDINGS
from whence.stats.rank import level_ties
from whence.studies.audit.attention_variants import tvd
from whence.studies.audit.subject import AuditSubject, Numbers
from whence.tracing.attention_override import override_attention
from whence.tracing.target import TargetSpec, compute_probabilities
from whence.tracing.trace import run_traced

_PREDICTED_LABEL = TargetSpec("predicted", None, "probability")
# Variants held in memory at a time: enough to fill batches of one length.
_MAX_VARIANTS = 2048


def gradient(subject: AuditSubject, *, detached: bool = True) -> list[Numbers]:
    """Return |Σ_d e · dp / de| of each content token, p the probability of the predicted label.

    With `detached`, attention weights are constants to the gradient, as in Jain and Wallace: it flows through the
    values only.
    """
    model, task = subject.loaded.model, subject.loaded.task

    def differentiate(_: Sequence[int], batch: Batch) -> NDArray[Any]:
        with override_attention(model, "detached" if detached else "own"):
            trace = run_traced(model, batch, {"embedding_grad"}, _PREDICTED_LABEL, task)
        embedding, grad = trace.embeddings()
        return (embedding.double() * grad.double()).sum(-1).cpu().numpy()

    return subject.remember(
        ("gradient", detached),
        lambda: _compute_magnitudes(subject, subject.map_batches("gradient", differentiate, 3)),
    )


def integrated_gradients(subject: AuditSubject, **params: Any) -> list[Numbers]:
    """Return |integrated gradients| of the predicted label's probability for each content token."""
    loaded = subject.loaded
    (request,) = resolve_methods("integrated_gradients", params, loaded.fillers)
    policy = choose_batch_policy(loaded, subject.items, variants=True)

    def integrate(_: Sequence[int], batch: Batch) -> Any:
        trace = run_traced(loaded.model, batch, (), _PREDICTED_LABEL, loaded.task)
        counter = ProgressCounter(None)
        result = run_method(loaded, request, trace=trace, policy=policy, counter=counter)
        subject.tick(sum(1 + calls.forward + 2 * calls.backward for calls in result.extra))
        return result.scores

    return subject.remember(
        ("integrated_gradients", *sorted(request.params.items())),
        lambda: _compute_magnitudes(
            subject, subject.map_batches("integrated gradients", integrate, 0)
        ),
    )


def _compute_magnitudes(subject: AuditSubject, scores: Sequence[Any]) -> list[Numbers]:
    """Return |scores| of the content tokens, made equal where they differ by rounding only."""
    eps = ROUNDINGS * torch.finfo(subject.loaded.dtype).eps
    sizes = [
        np.abs(row[places].astype(np.float64))
        for row, places in zip(scores, subject.places, strict=True)
    ]
    return [level_ties(row, eps * float(row.max(initial=0))) for row in sizes]


def leave_one_out(subject: AuditSubject, *, remove: Removal | None = None) -> list[Numbers]:
    """Return the total variation distance of the prediction without each content token.

    An input with a single content token has NaN: without it nothing would be left. A token without which the model is
    undefined cannot be removed, and has 0.
    """
    how = resolve_removal(remove, subject.loaded.fillers)
    return subject.remember(("loo", how), lambda: _compute_leave_one_out(subject, how))


def _compute_leave_one_out(subject: AuditSubject, how: Removal) -> list[Numbers]:
    """Query the model with each content token left out; batches are filled across examples."""
    loaded = subject.loaded
    answers = build_prediction_cache(loaded, subject.policy)
    distances = [np.full(len(places), np.nan) for places in subject.content]
    variants: list[tuple[int, int]] = []  # (example, index of a content token)
    for number in sorted(range(len(subject)), key=lambda number: -len(subject.items[number])):
        places = subject.content[number]
        for token, place in enumerate(places if len(places) > 1 else ()):
            if subject.items[number].ids[place] in loaded.anchors:
                distances[number][token] = 0.0
            else:
                variants.append((number, token))
    for start in range(0, len(variants), _MAX_VARIANTS):
        some = variants[start : start + _MAX_VARIANTS]
        rows = {number: row for row, number in enumerate(dict.fromkeys(n for n, _ in some))}
        logits, _ = answers.without(
            [subject.items[number] for number in rows],
            [rows[number] for number, _ in some],
            [(int(subject.content[number][token]),) for number, token in some],
            how,
            loaded.fillers,
            subject.tick,
        )
        answers.forget()
        shares = compute_probabilities(logits.double(), loaded.task).mean(1).cpu()
        base = torch.from_numpy(subject.probabilities)[[number for number, _ in some]]
        moved = tvd(shares, base.double(), loaded.task).tolist()
        for (number, token), distance in zip(some, moved, strict=True):
            distances[number][token] = distance
    eps = ROUNDINGS * torch.finfo(loaded.dtype).eps
    # Rounding of a logit moves a probability p by about eps · p (1 - p).
    moves = (subject.probabilities * (1 - subject.probabilities)).max(1)
    return [level_ties(row, eps * move) for row, move in zip(distances, moves, strict=True)]
