"""Experiment: a model trained to predict the same with other attention (Wiegreffe & Pinter 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from whence.core.errors import BadParameter
from whence.core.params import Range
from whence.data.batches import Batch
from whence.studies.audit.attention_variants import kl, tvd
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.finding_summary import (
    Plot,
    build_violin,
    describe_too_short,
    group_by_class,
    summarise,
    summarise_performance,
)
from whence.studies.audit.retrain import (
    RetrainedModel,
    count_training_passes,
    largest_attention_divergence,
    measure_divergences,
    prediction_distance,
)
from whence.studies.audit.subject import AuditSubject, Numbers
from whence.studies.training.fit import Loss
from whence.tracing.attention_override import watch_attention
from whence.tracing.forward import compute_logits
from whence.tracing.target import compute_probabilities

THRESHOLD = 0.4
_MIN_MASS = 1e-12  # the content may get no weight at all


def build_imitation_loss(subject: AuditSubject, weight: float) -> Loss:
    """Return the loss of imitating a model on its examples: TVD(p, own p) - weight · KL(attention ‖ own attention).

    It is the mean of a batch. Attention is that of `AuditSubject.attention`, with a gradient: the mean over heads of the
    rows that the prediction reads, normalised over the content.
    """
    device, task, site = subject.loaded.device, subject.loaded.task, subject.sites[0]
    probabilities = torch.tensor(subject.probabilities, device=device)
    attention = [torch.tensor(weights, device=device) for weights in subject.attention()]
    content = [torch.tensor(places, device=device) for places in subject.content]
    rows = subject.read_rows

    def loss(model: Any, batch: Batch, _: Tensor, numbers: Sequence[int]) -> Tensor:
        with watch_attention(model, len(batch)) as layers:
            logits = compute_logits(model, batch)
        reference = probabilities[list(numbers)].to(logits.dtype)
        apart = tvd(compute_probabilities(logits, task), reference, task).mean()
        if not weight:
            return apart
        width = layers[0].length  # a single row if the model pools
        shares = torch.stack([functional.pad(rows[i], (0, width - len(rows[i]))) for i in numbers])
        active = shares.any(0).nonzero().squeeze(1)
        read = torch.zeros_like(batch.real, dtype=layers[0].v.dtype)
        for at in site.layers:
            maps = layers[at].weights(active)
            maps = maps if site.head is None else maps[:, site.head, None]
            part = torch.einsum("bhrk,br->bk", maps, shares[:, active].to(maps))
            read = read + part / maps.shape[1]
        own = torch.zeros(batch.real.shape, device=batch.real.device)
        is_content = torch.zeros_like(own)
        for row, i in enumerate(numbers):
            own[row, content[i]] = attention[i].to(own.dtype)
            is_content[row, content[i]] = 1
        held = read * is_content
        normalised = held / held.sum(-1, keepdim=True).clamp(min=_MIN_MASS)
        return apart - weight * kl(normalised, own).mean()

    return loss


@dataclass(frozen=True, eq=False)
class _Adversary:
    """A trained adversary, with its distances from the model in attention and predictions."""

    weight: float
    model: RetrainedModel
    subject: AuditSubject
    jsd: Numbers
    tvd: Numbers


@experiment(
    "trained_adversary",
    hypothesis="A model that predicts the same looks at the same words: none can be trained to predict the same with "
    "attention that is far away.",
    measure="mean over examples of the Jensen-Shannon divergence (at most 0.693) between the attention of the model "
    "and of the adversary that is farthest away among those whose mean TVD from the model is within epsilon",
    threshold=THRESHOLD,
    direction="below",
    labels=False,
    trains=True,
    calls=lambda plan, params: (
        len(parse_weights(params["weights"]))
        * (params["passes"] * count_training_passes(plan.train, plan.epochs) + plan.n)
        + 2 * plan.train
    ),
    cite="Wiegreffe & Pinter 2019, arXiv:1908.04626",
    misleads_when="the training is too short for an adversary to come about, as that none was found is no proof that "
    "there is none; or two words say the same, and looking at either is right",
    presets={
        "wiegreffe_pinter": {
            "weights": "0, 0.0004, 0.001, 0.0016",
            "start": "anew",
            "passes": 10,
        }
    },
)
def trained_adversary(
    subject: AuditSubject,
    *,
    weights: str = "0, 0.03, 0.1, 0.3, 1",
    epsilon: Annotated[float, Range(0, 1)] = 0.05,
    start: Literal["near", "anew"] = "near",
    passes: Annotated[int, Range(1, 100)] = 1,
) -> Finding:
    """Train models to say what this one says and to look elsewhere: TVD - weight · KL(attention ‖ the model's).

    `weights`: one model is trained for each. Both terms are means over examples, and TVD is the whole total variation
    distance: Wiegreffe and Pinter's code has half of it, so that their lambda is half of the weight here (their 5e-4
    for SST is 0.001). `epsilon`: the mean TVD, on the examples of the audit, up to which a model counts as predicting
    the same. `start`: near the model, its attention moved a little, or anew, as theirs did, which takes much more
    data to predict the same. `passes`: how many times as long as another seed it is trained; it keeps the epoch with
    the lowest loss. KL is over content tokens alone, and bounded (1e-10 is added under the logarithm).

    A divergence of 0.4 needs at least 58% of the attention on other words. The weight 0 asks for the same predictions
    and nothing else, and is among the candidates: where no other keeps the prediction, the effect is how far a model
    strays that does not even try. If none keeps it at all, there is no verdict, nor if no weight takes attention far
    away at any price: it must have been shown that training can.
    """
    workshop = subject.workshop
    assert workshop is not None, "an experiment that trains is not run without a workshop"
    (seed,) = workshop.list_seeds(1)
    training = workshop.build_training_subject(subject)
    points = []
    for weight in parse_weights(weights):
        model = workshop.retrain(
            seed,
            loss=build_imitation_loss(training, weight),
            start=start,
            epochs=passes * workshop.recipe.epochs,
            tick=subject.tick,
        )
        other = model.apply_to(subject)
        apart = measure_divergences(subject, other.attention())
        points.append(_Adversary(weight, model, other, apart, prediction_distance(subject, other)))
    same = [point for point in points if point.tvd.mean() <= epsilon]
    chosen = max(same, key=lambda point: float(point.jsd.mean())) if same else None
    best = chosen or min(points, key=lambda point: float(point.tvd.mean()))
    if chosen is not None:
        subject.memo["adversary"] = chosen.model
    floor = subject.memo.get("floor")
    far = largest_attention_divergence(subject)
    detail: dict[str, Any] = {
        "weight": None if chosen is None else chosen.weight,
        "curve": [_summarise_adversary(subject, point) for point in points],
        "reach": summarise(far, "reach", subject.seed),
    }
    if floor is not None:
        detail["floor"] = summarise(floor, "floor", subject.seed)
        detail["above_floor"] = summarise(best.jsd - floor, "above the floor", subject.seed)
    return Finding(
        best.jsd,
        by_class=group_by_class(subject, best.jsd),
        detail=detail,
        plots=[
            _build_curve(points, floor),
            build_violin(subject, "How far the adversary looks", "JSD", best.jsd),
        ],
        notes=_list_notes(points, chosen, floor),
        undecided=_explain_undecided(points, chosen, far, epsilon),
    )


def parse_weights(text: str) -> list[float]:
    """Parse the weights of the divergence: each once, in ascending order."""
    try:
        weights = sorted({float(part) for part in text.replace(";", ",").split(",")})
    except ValueError:
        weights = []
    if not weights or not all(isfinite(weight) and weight >= 0 for weight in weights):
        raise BadParameter(
            f"The 'weights' parameter of trained_adversary must be numbers from 0, separated by commas, such as "
            f"'0, 0.001, 0.01'. Got {text!r}."
        )
    return weights


def _summarise_adversary(subject: AuditSubject, point: _Adversary) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "weight": point.weight,
        "jsd": summarise(point.jsd, "jsd", subject.seed),
        "tvd": summarise(point.tvd, "tvd", subject.seed),
        "same_class": float((point.subject.predictions == subject.predictions).mean()),
        "epochs": len(point.model.fitted.history),
        "loss": point.model.fitted.best.loss,
    }
    if subject.truth is not None:
        summary |= summarise_performance(subject, point.subject.predictions, "adversary")
    return summary


def _build_curve(points: list[_Adversary], floor: Numbers | None) -> Plot:
    return {
        "kind": "curve",
        "title": "Looking elsewhere, and what it costs",
        "x": "mean JSD of attention",
        "y": "mean TVD of predictions",
        "points": [
            {"x": float(p.jsd.mean()), "y": float(p.tvd.mean()), "name": f"{p.weight:g}"}
            for p in points
        ],
        "floor": None if floor is None else {"x": float(floor.mean()), "name": "other seeds"},
    }


def _list_notes(
    points: list[_Adversary], chosen: _Adversary | None, floor: Numbers | None
) -> list[str]:
    notes = []
    away = [point for point in points if point.jsd.mean() >= THRESHOLD]
    if away and chosen not in away:
        least = min(away, key=lambda point: float(point.tvd.mean()))
        notes.append(
            f"Attention that is {least.jsd.mean():.2f} away has its price: predictions that are "
            f"{least.tvd.mean():.3f} away in the mean."
        )
    if chosen is not None:
        notes.append(
            f"The adversary was trained with a weight of {chosen.weight:g}. It was chosen on the examples it is "
            "judged on, so that the divergence is that of the best of several."
        )
    if floor is not None and chosen is not None and chosen.jsd.mean() <= floor.mean():
        notes.append(
            f"It looks no farther away ({chosen.jsd.mean():.3f}) than a model trained from another seed does "
            f"({floor.mean():.3f})."
        )
    return notes


def _explain_undecided(
    points: list[_Adversary], chosen: _Adversary | None, far: Numbers, epsilon: float
) -> str | None:
    if chosen is None:
        nearest = min(float(point.tvd.mean()) for point in points)
        return (
            f"No model that was trained here predicts what this one does: the nearest is {nearest:.3f} away in the "
            f"mean, and {epsilon:g} is allowed. That says nothing about attention. Train longer (--param passes=2), "
            "or on more examples."
        )
    if chosen.jsd.mean() < THRESHOLD and far.mean() < THRESHOLD:
        return describe_too_short(far)
    farthest = max(float(point.jsd.mean()) for point in points)
    if farthest < THRESHOLD:
        return (
            f"No training took attention far away at any price: {farthest:.3f} at the most, and {THRESHOLD:g} is "
            "asked about. That may be for want of training. Train longer (--param passes=3), or with larger weights."
        )
    return None
