"""A model trained to predict the same with different attention (Wiegreffe & Pinter 2019)."""

from dataclasses import dataclass
from math import isfinite
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from whence.audit.compare import looks_apart, reach, says_apart, standing, too_short
from whence.audit.experiments import Finding, experiment
from whence.audit.figures import Plot, by_class, summary, violin
from whence.audit.imitation import Imitation
from whence.audit.subject import Subject
from whence.audit.workshop import Kin, training_passes
from whence.core.errors import BadParameter
from whence.core.params import Range

Numbers = NDArray[np.float64]

THRESHOLD = 0.4


@dataclass(frozen=True, eq=False)
class _Point:
    """One adversary: how far it looks and says apart from the model, for each example."""

    weight: float
    kin: Kin
    seen: Subject
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
        len(weights_of(params["weights"]))
        * (params["passes"] * training_passes(plan.train, plan.epochs) + plan.n)
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
    subject: Subject,
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
    (seed,) = workshop.seeds(1)
    imitation = Imitation(workshop.training(subject))
    points = []
    for weight in weights_of(weights):
        kin = workshop.kin(
            seed,
            loss=imitation.loss(weight),
            start=start,
            epochs=passes * workshop.recipe.epochs,
            tick=subject.tick,
        )
        seen = kin.on(subject)
        apart, moved = looks_apart(subject, seen), says_apart(subject, seen)
        points.append(_Point(weight, kin, seen, apart, moved))
    same = [point for point in points if point.tvd.mean() <= epsilon]
    chosen = max(same, key=lambda point: float(point.jsd.mean())) if same else None
    shown = chosen or min(points, key=lambda point: float(point.tvd.mean()))
    if chosen is not None:
        subject.memo["adversary"] = chosen.kin
    floor = subject.memo.get("floor")
    far = reach(subject)
    largest = np.array([own.max() for own in subject.attention()])
    detail: dict[str, Any] = {
        "weight": None if chosen is None else chosen.weight,
        "curve": [_figures(subject, point) for point in points],
        "reach": summary(far, "reach", subject.seed),
    }
    if floor is not None:
        detail["floor"] = summary(floor, "floor", subject.seed)
        detail["above_floor"] = summary(shown.jsd - floor, "above the floor", subject.seed)
    return Finding(
        shown.jsd,
        by_class=by_class(subject, shown.jsd),
        detail=detail,
        plots=[
            _curve(points, floor),
            violin(subject, "How far the adversary looks", "JSD", shown.jsd, largest),
        ],
        notes=_notes(points, chosen, floor),
        undecided=_undecided(points, chosen, far, epsilon),
    )


def weights_of(text: str) -> list[float]:
    """Read the weights of the divergence, each once, from the least to the greatest."""
    try:
        found = sorted({float(part) for part in text.replace(";", ",").split(",")})
    except ValueError:
        found = []
    if not found or not all(isfinite(one) and one >= 0 for one in found):
        raise BadParameter(
            f"The 'weights' parameter of trained_adversary must be numbers from 0, separated by commas, such as "
            f"'0, 0.001, 0.01'. Got {text!r}."
        )
    return found


def _figures(subject: Subject, point: _Point) -> dict[str, Any]:
    found: dict[str, Any] = {
        "weight": point.weight,
        "jsd": summary(point.jsd, "jsd", subject.seed),
        "tvd": summary(point.tvd, "tvd", subject.seed),
        "same_class": float((point.seen.predicted == subject.predicted).mean()),
        "epochs": len(point.kin.fitted.history),
        "loss": point.kin.fitted.best.loss,
    }
    if subject.truth is not None:
        labels = len(subject.loaded.labels)
        found |= standing(point.seen.predicted, subject.truth, labels, "adversary", subject.seed)
    return found


def _curve(points: list[_Point], floor: Numbers | None) -> Plot:
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


def _notes(points: list[_Point], chosen: _Point | None, floor: Numbers | None) -> list[str]:
    found = []
    away = [point for point in points if point.jsd.mean() >= THRESHOLD]
    if away and chosen not in away:
        least = min(away, key=lambda point: float(point.tvd.mean()))
        found.append(
            f"Attention that is {least.jsd.mean():.2f} away has its price: predictions that are "
            f"{least.tvd.mean():.3f} away in the mean."
        )
    if chosen is not None:
        found.append(
            f"The adversary was trained with a weight of {chosen.weight:g}. It was chosen on the examples it is "
            "judged on, so that the divergence is that of the best of several."
        )
    if floor is not None and chosen is not None and chosen.jsd.mean() <= floor.mean():
        found.append(
            f"It looks no farther away ({chosen.jsd.mean():.3f}) than a model trained from another seed does "
            f"({floor.mean():.3f})."
        )
    return found


def _undecided(
    points: list[_Point], chosen: _Point | None, far: Numbers, epsilon: float
) -> str | None:
    if chosen is None:
        nearest = min(float(point.tvd.mean()) for point in points)
        return (
            f"No model that was trained here predicts what this one does: the nearest is {nearest:.3f} away in the "
            f"mean, and {epsilon:g} is allowed. That says nothing about attention. Train longer (--param passes=2), "
            "or on more examples."
        )
    if chosen.jsd.mean() < THRESHOLD and far.mean() < THRESHOLD:
        return too_short(far)
    farthest = max(float(point.jsd.mean()) for point in points)
    if farthest < THRESHOLD:
        return (
            f"No training took attention far away at any price: {farthest:.3f} at the most, and {THRESHOLD:g} is "
            "asked about. That may be for want of training. Train longer (--param passes=3), or with larger weights."
        )
    return None
