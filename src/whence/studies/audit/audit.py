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


"""Which experiments are run, with their parameters settled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whence.audit.experiments import experiment
from whence.core.errors import BadParameter
from whence.core.params import PRESET, checked
from whence.core.registry import Entry

# In this order they are shown and run: what is found early helps to read what comes later.
ORDER = (
    "correlation",
    "permutation",
    "replacement",
    "adversarial",
    "diversity",
    "uniform_training",
    "seeds",
    "trained_adversary",
    "guides",
)


@dataclass(frozen=True)
class Chosen:
    """One experiment, and the values of all its parameters."""

    entry: Entry
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Its name."""
        return self.entry.name


def place(name: str) -> tuple[int, str]:
    """Return what experiments are sorted by; those of other people come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def names(asked: str | Sequence[str] | None, *, can_train: bool, others: bool = False) -> list[str]:
    """Name the experiments that were asked for: by default those that train nothing; with data to train on, all.

    With `others`, ready models from other seeds, `seeds` need not train any.
    """
    known = experiment.names()
    every = sorted(known, key=place)
    if asked is None:
        ready = {"seeds"} if others else set()
        return [
            name
            for name in every
            if can_train or name in ready or not experiment.get(name).facts["trains"]
        ]
    given = [asked] if isinstance(asked, str) else list(asked)
    if not given:
        raise BadParameter(
            f"No experiment was named. Known: {', '.join(known)}, or all of them: all."
        )
    wanted = set(every if "all" in given else given)
    for name in wanted:
        experiment.get(name)  # or say what there is
    return [name for name in every if name in wanted]


def choose(
    asked: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    can_train: bool,
    others: bool = False,
    from_text: bool = False,
) -> list[Chosen]:
    """Settle what is run; `params` maps NAME or EXPERIMENT.NAME to a value, or an experiment to a mapping of them."""
    chosen = names(asked, can_train=can_train, others=others)
    entries = [experiment.get(name) for name in chosen]
    own: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in (params or {}).items():
        if key in own and isinstance(value, Mapping):
            own[key].update(value)
            continue
        owner, dot, name = key.rpartition(".")
        takers = [e for e in entries if e.name == owner] if dot else _takers(entries, key, value)
        if not takers:
            known = sorted({name for entry in entries for name in entry.parameters})
            raise BadParameter(
                f"None of the experiments ({', '.join(own)}) has a parameter {key!r}. Known: {', '.join(known)}; "
                "EXPERIMENT.NAME means one experiment's."
            )
        for entry in takers:
            own[entry.name][name if dot else key] = value
    return [
        Chosen(
            entry,
            checked(
                entry.name,
                entry.parameters,
                own[entry.name],
                presets=entry.presets,
                from_text=from_text,
            ),
        )
        for entry in entries
    ]


def _takers(entries: Sequence[Entry], key: str, value: Any) -> list[Entry]:
    """Find whose parameter this is; a preset is for all that have one of that name, or, wrongly, any."""
    if key == PRESET:
        return [e for e in entries if value in e.presets] or [e for e in entries if e.presets]
    return [e for e in entries if key in e.parameters]


"""An audit made of its experiments: found just now, or one by one on several days."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.audit.chosen import place
from whence.audit.conclusion import conclude
from whence.audit.experiments import experiment
from whence.audit.result import VERSION
from whence.core.errors import WhenceError


class Parts:
    """What of an audit is known, and who is told of what is found. By default nothing, and nobody."""

    def __init__(self, known: Mapping[str, Mapping[str, Any] | None] | None = None) -> None:
        """`known` has what an earlier audit of the same model, data and setting found, by experiment.

        None stands for one that failed.
        """
        self.known = dict(known or {})
        self.why_not: dict[str, str] = {}  # experiments that were tried and failed

    def begin(self, name: str) -> None:
        """Hear that an experiment begins."""

    def keep(self, found: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Get what an experiment found, and what it was found about (see `composed`)."""

    def failed(self, name: str, error: WhenceError) -> None:
        """Hear that an experiment could not be made. Whoever keeps this need not raise it."""
        raise error


def composed(
    experiments: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    why_not: Mapping[str, str],
    calls: Mapping[str, int] | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Draw the conclusion from all experiments, and return the documented JSON object.

    `about`: data, setting, performance, and the site as the conclusion names it, with the rest of the model.
    `why_not`: experiments that failed, and why; of all others it is said that nobody asked for them.
    """
    found = sorted(experiments, key=lambda one: place(one["name"]))
    ran = {one["name"] for one in found}
    not_run = [entry for entry in experiment if entry.name not in ran]
    answer, conclusion = conclude(
        found,
        model=origin["model"]["name"],
        data=about["data"]["name"],
        site=about["site"],
        rest=about["rest"],
        performance=about["performance"],
        not_run=[entry.name for entry in not_run],
    )
    can_train = about["setting"]["train"] is not None
    return {
        "version": VERSION,
        "kind": "audit",
        **origin,
        "data": about["data"],
        "setting": about["setting"],
        "performance": about["performance"],
        "experiments": list(found),
        "not_run": [
            {
                "name": entry.name,
                "why": why_not.get(entry.name) or _why_not(entry.facts["trains"], can_train),
            }
            for entry in not_run
        ],
        "answer": answer,
        "conclusion": conclusion,
        "calls": calls,
        "seconds": seconds,
    }


def _why_not(trains: bool, can_train: bool) -> str:
    if trains and not can_train:
        return "no training data was given: --train"
    return "not asked for"


"""From a data set to the examples that a model can be examined on."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.audit.chosen import Chosen
from whence.audit.experiments import experiment
from whence.core.errors import BadExamples, InputError, NoHead, WhenceError
from whence.data import Encoded
from whence.data.sets.examples import Example, Read, shuffled
from whence.data.sets.labels import label_indices
from whence.explainer import Explainer
from whence.explainer.verify.testing import taken

FEWEST_TOKENS = 2  # of a text whose words attention can tell apart


@dataclass
class Taken:
    """The examples that can be used, and why the others cannot."""

    examples: list[Example]
    items: list[Encoded]
    truth: NDArray[np.int64] | None
    refused: Counter[str] = field(default_factory=Counter)
    without_labels: str | None = None  # why there are no true labels, where nobody needs them

    def facts(self, given: Read, labels: Sequence[str]) -> dict[str, Any]:
        """Say what was read and used, as plain data."""
        counts = Counter() if self.truth is None else Counter(self.truth.tolist())
        return {
            "name": given.name,
            "given": len(given),
            "used": len(self.items),
            "text": given.text,
            "pair": given.pair,
            "label": given.label,
            "guessed": list(given.guessed),
            "classes": {labels[i]: count for i, count in sorted(counts.items())},
            "without_labels": self.without_labels,
            "why_not": [
                {"why": why, "count": count} for why, count in self.refused.items() if count
            ],
        }


def take(
    given: Read,
    explainer: Explainer,
    chosen: Sequence[Chosen],
    *,
    truncate: bool,
    limit: int | None,
    seed: int,
) -> Taken:
    """Encode the examples, or as many of them as wanted, drawn by the seed; count by reason what cannot be taken."""
    _require_classes(explainer)
    refused: Counter[str] = Counter()
    needy = [one.name for one in chosen if one.entry.facts["labels"]]
    labelled = [example for example in given.examples if example.label is not None]
    # Some rows without a label are a gap in the data; none with one is a data set without labels.
    usable = labelled if needy and labelled else list(given.examples)
    refused["no label"] += len(given.examples) - len(usable)
    truth, why = _truth(usable, explainer.labels, needy)
    order = shuffled(usable, seed)[:limit] if limit is not None else range(len(usable))
    numbers = sorted(order)
    errors: list[WhenceError] = []

    def failed(_: int, __: Any, error: WhenceError) -> None:
        errors.append(error)
        refused[error.code.replace("-", " ")] += 1

    kept, items = taken([usable[i].given for i in numbers], explainer.loaded, truncate, failed)
    found = [(numbers[i], item) for i, item in zip(kept, items, strict=True)]
    words = [(i, item) for i, item in found if _content(item) >= FEWEST_TOKENS]
    refused["fewer than two tokens"] += len(found) - len(words)
    if not words:
        first = errors[0] if errors else None
        kind = type(first) if isinstance(first, InputError) else BadExamples
        said = str(first) if first is not None else "They have fewer than two tokens each."
        raise kind(f"None of the {len(numbers)} examples can be used. {said}")
    places = [i for i, _ in words]
    return Taken(
        [usable[i] for i in places],
        [item for _, item in words],
        None if truth is None else truth[places],
        refused,
        why,
    )


def _require_classes(explainer: Explainer) -> None:
    loaded = explainer.loaded
    if not loaded.classifies or loaded.task == "regression":
        what = "predicts a number" if loaded.classifies else "does not classify whole inputs"
        raise NoHead(
            f"{loaded.name!r} {what}: an audit compares distributions over classes. "
            "Give a model that classifies."
        )


def _truth(
    examples: Sequence[Example], labels: tuple[str, ...], needy: Sequence[str]
) -> tuple[NDArray[np.int64] | None, str | None]:
    """Return the true labels, which some experiments cannot do without, or why there are none."""
    try:
        return np.array(label_indices(examples, labels), dtype=np.int64), None
    except BadExamples as error:
        if not needy:
            return None, str(error)
        rest = [entry.name for entry in experiment if not entry.facts["labels"]]
        raise BadExamples(
            f"{error} {', '.join(needy)} cannot do without; these can: {', '.join(rest)} (--experiment NAME)."
        ) from None


def _content(item: Encoded) -> int:
    return sum(not token.special and token.segment == 0 for token in item.tokens)


"""What an audit will take, said before it starts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from whence.audit.chosen import Chosen


@dataclass(frozen=True)
class Plan:
    """The size of an audit, and what it will cost."""

    n: int  # examples
    tokens: float  # of an example, in the mean
    layers: int
    heads: int
    sites: int
    train: int = 0  # training examples
    epochs: int | None = None
    replay: float = 1.0  # what a pass from the attention on takes, in forward passes
    seconds: float = 0.0  # of one forward pass of one example
    about: str = ""  # the model and the data
    chosen: Sequence[Chosen] = field(default=())

    def forwards(self, one: Chosen) -> float:
        """Return what an experiment takes, in forward passes of one example."""
        return float(one.entry.facts["calls"](self, one.params))

    @property
    def total(self) -> float:
        """What all experiments take."""
        return sum(self.forwards(one) for one in self.chosen)

    def lines(self) -> list[str]:
        """Say what will be done and how long it takes."""
        each = ", ".join(
            f"{one.name} {spoken(self.forwards(one) * self.seconds)}" for one in self.chosen
        )
        return [
            self.about,
            f"It will take {spoken(self.total * self.seconds)} on this machine: {each}.",
        ]


def spoken(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 1:
        return "less than a second"
    for size, name in ((3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= 1.5 * size or size == 1.0:
            count = max(1, round(seconds / size))
            return f"about {count} {name}{'' if count == 1 else 's'}"
    raise AssertionError("the last size always fits")


"""What an audit returns: a documented JSON object that can be shown, saved and read back."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from whence.core.errors import UnknownExperiment, did_you_mean
from whence.core.io import written
from whence.report.shown import VERSION, Stored

__all__ = ["VERSION", "Audit"]


@dataclass(frozen=True, eq=False)
class Audit(Stored):
    """Whether attention may be read as an explanation of a model on a data set, and what that rests on."""

    _report: ClassVar[str] = "audit"
    _kind: ClassVar[str] = "audit"
    _article: ClassVar[str] = "an"

    @property
    def experiments(self) -> list[dict[str, Any]]:
        """The experiments, in the order they were made: hypothesis, threshold, verdict, effect, interval, n, ..."""
        return [dict(one) for one in self.payload["experiments"]]

    def experiment(self, name: str) -> dict[str, Any]:
        """Return what one experiment found."""
        for one in self.payload["experiments"]:
            if one["name"] == name:
                return dict(one)
        known = list(self.verdicts)
        why = {one["name"]: one["why"] for one in self.payload["not_run"]}
        if name in why:
            raise UnknownExperiment(f"The experiment {name!r} was not run: {why[name]}")
        raise UnknownExperiment(
            f"There is no experiment {name!r} in this audit.{did_you_mean(name, known)} There are "
            f"{', '.join(known) or 'none'}."
        )

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each experiment: holds, fails or undecided."""
        return {one["name"]: one["verdict"] for one in self.payload["experiments"]}

    @property
    def answer(self) -> str:
        """May attention be read as an explanation here: yes, no or undecided."""
        return str(self.payload["answer"])

    @property
    def conclusion(self) -> str:
        """The answer as a paragraph, with the figures it rests on."""
        return str(self.payload["conclusion"])

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the audit in Markdown, and write it if a path is given."""
        from whence.report.audit import markdown

        return written(markdown(self.to_dict()), path)

    def __repr__(self) -> str:
        told = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<Audit {self.answer}; {told or 'no experiments'}>"


"""How fast this model is on this machine, found out on a few of the examples."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from whence.audit.site import Site
from whence.audit.subject import Subject
from whence.capture.forward import bare_logits
from whence.data import Batch

_TRIED = 32  # examples
_COPIES = 5  # of each, as most experiments replay them


def speed(subject: Subject) -> tuple[float, float]:
    """Return the seconds of one example's forward pass, and what a replay takes, in passes: the mean of all sites."""
    # As long as the others are: the middle of them.
    order = sorted(range(len(subject)), key=lambda i: len(subject.items[i]))
    start = max(0, (len(order) - _TRIED) // 2)
    chosen = order[start : start + _TRIED]
    few = replace(
        subject,
        examples=[subject.examples[i] for i in chosen],
        items=[subject.items[i] for i in chosen],
        truth=None,
        tick=lambda _: None,
        memo={},
    )

    def say(_: Sequence[int], batch: Batch) -> None:
        bare_logits(
            subject.loaded.model, batch
        ).sum().item()  # an accelerator answers when it is asked

    forward = _timed(lambda: few.in_batches("answers", say))
    return forward / len(few), _replay(few) / forward


def _replay(few: Subject) -> float:
    """Return the seconds of a replay of all examples, the mean of all sites.

    Those between the lowest site and the highest are not tried: the lower, the more layers are run again.
    """
    depths = {site.layers[0]: site for site in few.sites}
    low, high = min(depths), max(depths)
    found = {at: _replayed(few, depths[at]) for at in {low, high}}
    slope = (found[high] - found[low]) / max(1, high - low)
    each = [found[low] + slope * (site.layers[0] - low) for site in few.sites]
    return sum(each) / len(each)


def _replayed(few: Subject, site: Site) -> float:
    replays = list(few.replays([site], copies=_COPIES))
    weights = [one.own[:, None].expand(-1, _COPIES, -1, -1, -1) for one in replays]
    with torch.no_grad():
        seconds = _timed(
            lambda: [one(own).sum().item() for one, own in zip(replays, weights, strict=True)]
        )
    return seconds / _COPIES


def _timed(work: Callable[[], Any]) -> float:
    """Return the seconds of the second time: the first one is for the machine to get ready."""
    for _ in range(2):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
    return seconds


"""How far an audit is, in forward passes."""

from whence.explainer.work import Progress


class Tally:
    """Counts forward passes, and never past the experiment that is running."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._until = self._total = 0.0

    def expect(self, total: float) -> None:
        """Take note of how many there will be in all."""
        self._total = total

    def begin(self, count: float) -> None:
        """Take note of how many the next experiment takes."""
        self._until += count

    def add(self, count: float) -> None:
        """Count some."""
        self._tell(min(self._done + count, self._until))

    def end(self) -> None:
        """Count what the experiment was thought to take and did not."""
        self._tell(self._until)

    def _tell(self, done: float) -> None:
        self._done = done
        if self._progress is not None and self._total:
            self._progress(round(done), round(self._total))
