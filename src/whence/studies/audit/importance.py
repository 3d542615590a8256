"""What attention is compared with: gradients, leave-one-out, integrated gradients, for each content token.

All are sizes, without a sign, as attention is. Each is computed once for a subject, whoever asks. What differs by no
more than the rounding of the model is made equal: it is no order of tokens.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from whence.audit.distance import tvd
from whence.audit.subject import Subject
from whence.capture import Answers, TargetSpec, attention_as, probabilities, trace
from whence.data import Batch, Encoded
from whence.data.removal import DRAWS, Removal, resolve, without
from whence.explainer.request import requests
from whence.explainer.sharing import Sharing
from whence.explainer.work import Tally, scored, traced
from whence.stats.rank import levelled
from whence.trial.removed import ROUNDINGS

Numbers = NDArray[np.float64]

_PREDICTED = TargetSpec("predicted", None, "probability")
# Variants that are held at a time: enough to fill batches of one length, few enough for the memory.
_AT_A_TIME = 2048


def gradient(subject: Subject, *, detached: bool = True) -> list[Numbers]:
    """Return |Σ_d e · dp / de| of each content token, p the probability of the predicted label.

    With `detached`, attention weights are constants to the gradient, as Jain and Wallace have it: it flows
    through what is attended to alone.
    """
    key = ("gradient", detached)
    if key not in subject.memo:
        found: list[Numbers] = [np.empty(0)] * len(subject.items)
        loaded = subject.loaded

        def differentiate(numbers: Sequence[int], batch: Batch) -> None:
            with attention_as(loaded.model, "detached" if detached else "own"):
                seen = trace(loaded.model, batch, {"embedding_grad"}, _PREDICTED, loaded.task)
            embedding, grad = seen.embeddings()
            scores = (embedding.double() * grad.double()).sum(-1).abs().cpu().numpy()
            for number, row in zip(numbers, scores, strict=True):
                found[number] = _sizes(row[subject.places[number]], loaded.dtype)
            subject.tick(3 * len(numbers))

        subject.in_batches("gradient", differentiate)
        subject.memo[key] = found
    kept: list[Numbers] = subject.memo[key]
    return kept


def loo(subject: Subject, *, remove: Removal | None = None) -> list[Numbers]:
    """Return the total variation distance of the prediction without each content token from that with it.

    The only content token of an input is not removed, as nothing would be left: it has NaN, and there is nothing to
    rank. A token without which the model is undefined cannot be removed, and has 0.
    """
    how = resolve(remove, subject.loaded.fillers)
    key = ("loo", how)
    if key not in subject.memo:
        subject.memo[key] = _left_out(subject, how)
    kept: list[Numbers] = subject.memo[key]
    return kept


def integrated_gradients(subject: Subject, **params: Any) -> list[Numbers]:
    """Return the sizes of the integrated gradients of the predicted label's probability, for each content token."""
    loaded = subject.loaded
    (request,) = requests("integrated_gradients", params, loaded.fillers)
    key = ("integrated_gradients", *sorted(request.params.items()))
    if key not in subject.memo:
        found: list[Numbers] = [np.empty(0)] * len(subject.items)
        policy = Sharing(loaded).policy(subject.items, asks=True)

        def integrate(numbers: Sequence[int], batch: Batch) -> None:
            seen = traced(loaded, batch, [request], _PREDICTED)
            tally = Tally(None, batch.items, [request])
            scores, _, passes, _ = scored(loaded, request, seen, policy, tally)
            for number, row in zip(numbers, scores, strict=True):
                found[number] = _sizes(row[subject.places[number]], loaded.dtype)
            subject.tick(sum(1 + made.forward + 2 * made.backward for made in passes))

        subject.in_batches("integrated gradients", integrate)
        subject.memo[key] = found
    kept: list[Numbers] = subject.memo[key]
    return kept


def _left_out(subject: Subject, how: Removal) -> list[Numbers]:
    """Ask about all examples with each token left out: batches are filled across examples."""
    loaded, sharing = subject.loaded, Sharing(subject.loaded)
    answers = Answers(
        loaded.model,
        pad_id=loaded.pad_id,
        device=loaded.device,
        policy=sharing.variants(sharing.policy(subject.items, tests=True), subject.items),
        infiller=loaded.infiller,
    )
    found = [np.full(len(places), np.nan) for places in subject.content]
    order = sorted(range(len(subject.items)), key=lambda number: -len(subject.items[number]))
    waiting: list[tuple[int, int]] = []  # an example, and which of its content tokens
    for number in order:
        places = subject.content[number]
        if len(places) < 2:
            continue
        if waiting and len(waiting) + len(places) > _AT_A_TIME:
            _answer(subject, how, answers, waiting, found)
            waiting = []
        for token, place in enumerate(places):
            if subject.items[number].ids[place] in loaded.anchors:
                found[number][token] = 0.0
            else:
                waiting.append((number, token))
    _answer(subject, how, answers, waiting, found)
    eps = ROUNDINGS * torch.finfo(loaded.dtype).eps
    # How far the rounding of logits of ordinary size moves a probability: less, the surer the model is.
    moves = (subject.probabilities * (1 - subject.probabilities)).max(1)
    return [levelled(row, eps * move) for row, move in zip(found, moves, strict=True)]


def _sizes(scores: NDArray[Any], dtype: torch.dtype) -> Numbers:
    """Return the sizes of scores, equal where rounding alone keeps them apart."""
    sizes = np.abs(scores.astype(np.float64))
    return levelled(sizes, ROUNDINGS * torch.finfo(dtype).eps * float(sizes.max(initial=0)))


def _answer(
    subject: Subject,
    how: Removal,
    answers: Answers,
    waiting: list[tuple[int, int]],
    found: list[Numbers],
) -> None:
    """Ask about what is waiting, and write down how far the predictions move."""
    if not waiting:
        return
    loaded = subject.loaded
    holes = [
        (subject.items[number], (int(subject.content[number][token]),)) for number, token in waiting
    ]
    variants: list[Encoded]
    if how == "draw":
        assert answers.infill is not None, "without a language model, resolve refuses to draw"
        variants = [
            filled for fillings in answers.infill(holes, subject.tick) for filled in fillings
        ]
    else:
        variants = [without(item, hole, how, loaded.fillers) for item, hole in holes]
    logits = answers(variants, subject.tick).double()
    each = DRAWS if how == "draw" else 1
    shares = probabilities(logits, loaded.task).reshape(len(holes), each, -1).mean(1).cpu()
    base = torch.from_numpy(subject.probabilities)[[number for number, _ in waiting]]
    moved = tvd(shares, base.double(), loaded.task).tolist()
    for (number, token), distance in zip(waiting, moved, strict=True):
        found[number][token] = distance
    answers.forget()
