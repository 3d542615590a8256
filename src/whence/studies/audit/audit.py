"""`whence.audit`: may attention be read as an explanation of this model, on this data?"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from whence.audit.chosen import Chosen, choose
from whence.audit.composed import Parts, composed
from whence.audit.intake import take
from whence.audit.plan import Plan
from whence.audit.result import Audit
from whence.audit.site import check_site
from whence.audit.speed import speed
from whence.audit.subject import Special, Subject
from whence.audit.tally import Tally
from whence.audit.verdict import judged
from whence.audit.workshop import Workshop
from whence.capture.asking.counted import counted
from whence.core.errors import BadParameter, WhenceError
from whence.data.sets.examples import Read, read
from whence.explainer import Explainer, load
from whence.explainer.work import Progress, origin
from whence.training.performance import performance


def audit(
    model: Any,
    data: Any,
    *,
    experiments: str | Sequence[str] | None = None,
    params: Mapping[str, Any] | None = None,
    limit: int | None = None,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    train: Any = None,
    base: Any = None,
    others: Sequence[Any] = (),
    site: str = "last",
    special: Special = "keep",
    truncate: bool = True,
    epochs: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    announce: Callable[[Plan], None] | None = None,
    parts: Parts | None = None,
) -> Audit:
    """Test whether attention may be read as an explanation of a model's predictions, by several experiments.

    `model`: what `whence.load` takes, or an `Explainer`. `data`: a file, a Hugging Face data set by name, a table (a
    frame of pandas or polars), or a list of examples; `text`, `pair` and `label` name its columns. `experiments`:
    names, "all", or None for those that train no model; with `train`, data to train on, None means all. `params`:
    theirs, as NAME or EXPERIMENT.NAME. `limit`: draw so many examples. `base`: the pre-trained model that a
    Transformer was made from; `others`: the same model trained with other seeds. `site`: where attention is looked
    at and replaced: "last" (the last layer), "all" (all layers at once), "layers" or "heads" (each by itself), "3"
    or "3.0" (a layer, a head of it). `special`: the weights on special tokens stay as they are ("keep") or may be
    moved, too ("free"). `announce` is called with the plan and its estimate before the work starts, `progress` with
    (done, in all), in forward passes. `parts` has what was found before, which is not done again, and gets what is
    found, experiment by experiment.
    """
    parts = Parts() if parts is None else parts
    _check(limit, special)
    check_site(site)
    given = read(data, text=text, pair=pair, label=label)
    training = None if train is None else read(train, text=text, pair=pair, label=label)
    can_train = training is not None
    chosen = choose(experiments, params, can_train=can_train, others=bool(others))
    require_training(chosen, can_train, bool(others))
    explainer = model if isinstance(model, Explainer) else load(model)
    given.refuse_labels(explainer.labels)
    started = time.perf_counter()
    tally = Tally(progress)
    taken = take(given, explainer, chosen, truncate=truncate, limit=limit, seed=seed)
    workshop = None
    if training is not None or others:
        workshop = Workshop(
            explainer.loaded,
            [] if training is None else training.examples,
            base=base,
            others=others,
            epochs=epochs,
            seed=seed,
        )
    subject = Subject(
        explainer,
        taken.examples,
        taken.items,
        taken.truth,
        site=site,
        special=special,
        seed=seed,
        workshop=workshop,
        tick=tally.add,
    )
    with counted(explainer.model) as runs:
        settled = epochs if workshop is None else workshop.recipe.epochs
        plan = _plan(subject, given, chosen, 0 if training is None else len(training), settled)
        subject.replay = plan.replay
        if announce is not None:
            announce(plan)
        about = _about(subject, plan, taken.facts(given, explainer.labels), _performance(subject))
        about["setting"] |= {
            "truncate": truncate,
            "limit": limit,
            "train": None if training is None else training.name,
            "epochs": epochs,
        }
        tally.expect(sum(plan.forwards(one) for one in chosen if one.name not in parts.known))
        found = [_part(subject, one, plan, tally, parts, about) for one in chosen]
    return Audit(
        composed(
            [one for one in found if one is not None],
            about,
            origin=origin(explainer.loaded),
            why_not=parts.why_not,
            calls={"forward": runs.forward},
            seconds=time.perf_counter() - started,
        )
    )


def _about(
    subject: Subject, plan: Plan, data: dict[str, Any], performance: dict[str, Any] | None
) -> dict[str, Any]:
    """Say what all experiments are about, as plain data."""
    first = subject.sites[0]
    return {
        "data": data,
        "setting": {
            "site": subject.site,
            "sites": [one.name for one in subject.sites],
            "special": subject.special,
            "seed": subject.seed,
        },
        "performance": performance,
        "site": first.name,
        "rest": first.rest(plan.layers, plan.heads),
    }


def _part(
    subject: Subject,
    one: Chosen,
    plan: Plan,
    tally: Tally,
    parts: Parts,
    about: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    """Return what an experiment found, now or before; None where it failed, and that was heard."""
    if one.name in parts.known:
        return parts.known[one.name]
    parts.begin(one.name)
    try:
        found = _experiment(subject, one, plan, tally, subject.seed)
    except WhenceError as error:
        parts.why_not[one.name] = str(error)
        parts.failed(one.name, error)
        return None
    parts.keep(found, about)
    return found


def _check(limit: int | None, special: str) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1. Got {limit!r}.")
    if special not in ("keep", "free"):
        raise BadParameter(f"special must be 'keep' or 'free'. Got {special!r}.")


def require_training(chosen: Sequence[Chosen], can_train: bool, others: bool) -> None:
    """Refuse experiments that train models where there is nothing to train on."""
    needy = [
        one.name
        for one in chosen
        if one.entry.facts["trains"] and not can_train and not (one.name == "seeds" and others)
    ]
    if needy:
        raise BadParameter(
            f"The experiments {', '.join(needy)} train models and have nothing to train on. Give training data: "
            "train=..., --train FILE; or leave them out."
        )


def _plan(
    subject: Subject, given: Read, chosen: Sequence[Chosen], train: int, epochs: int | None
) -> Plan:
    layers, heads, _ = subject.attention_by_head()[0].shape
    seconds, replay = speed(subject)
    sizes = [len(item) for item in subject.items]
    return Plan(
        n=len(subject),
        tokens=float(np.mean(sizes)),
        layers=layers,
        heads=heads,
        sites=len(subject.sites),
        train=train,
        epochs=epochs,
        replay=replay,
        seconds=seconds,
        about=f"{given} {len(subject)} of {len(given)} examples, {np.mean(sizes):.0f} tokens each in the mean.",
        chosen=chosen,
    )


def _experiment(
    subject: Subject, one: Chosen, plan: Plan, tally: Tally, seed: int
) -> dict[str, Any]:
    started = time.perf_counter()
    tally.begin(plan.forwards(one))
    facts = one.entry.facts
    with counted(subject.loaded.model) as runs:
        finding = one.entry.fn(subject, **one.params)
    tally.end()
    return {
        "name": one.name,
        "summary": one.entry.summary,
        **{key: facts[key] for key in ("hypothesis", "measure", "threshold", "direction")},
        **judged(one.entry, finding, seed),
        "detail": finding.detail,
        "plots": list(finding.plots),
        "notes": list(finding.notes),
        "params": dict(one.params),
        "misleads_when": facts["misleads_when"],
        "cite": facts["cite"],
        "calls": {"forward": runs.forward},
        "seconds": time.perf_counter() - started,
    }


def _performance(subject: Subject) -> dict[str, Any] | None:
    if subject.truth is None:
        return None
    with np.errstate(divide="ignore"):
        found = performance(np.log(subject.probabilities), subject.truth.tolist())
    most = Counter(subject.truth.tolist()).most_common(1)[0][1]
    return {**found.to_dict(), "majority": most / len(subject)}
