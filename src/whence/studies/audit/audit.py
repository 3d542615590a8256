"""`whence.audit`, the test of attention as explanation: experiments chosen, costed and run; result `Audit`.

Examples are encoded, the experiments are selected and their cost is estimated from the measured speed of the
model on a few examples; then they are run one by one, or taken from an earlier audit, and the conclusion is
drawn.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from whence.core.errors import (
    BadExamples,
    BadParameter,
    InputError,
    NoHead,
    UnknownExperiment,
    WhenceError,
    suggest_name,
)
from whence.core.files import write_if_path
from whence.core.params import PRESET, resolve_parameters
from whence.core.progress import Progress
from whence.core.registry import Entry
from whence.data.batches import Batch
from whence.data.dataset import Dataset, read_dataset, resolve_label_indices, shuffle_indices
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.explainer import Explainer, load
from whence.explain.inputs import encode_dataset
from whence.explain.pipeline import describe_origin
from whence.render.document import RESULT_VERSION, SavedResult
from whence.studies.audit.experiments import experiment
from whence.studies.audit.retrain import Retrainer
from whence.studies.audit.subject import AttentionSite, AuditSubject, Special, check_site
from whence.studies.audit.verdict import conclude, judge
from whence.studies.training.performance import compute_performance
from whence.tracing.ask import count_forwards
from whence.tracing.forward import compute_plain_logits

# The order in which experiments are run and shown: earlier results help to interpret later ones.
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
class SelectedExperiment:
    """An experiment to run, with the values of all its parameters."""

    entry: Entry
    params: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name of the experiment."""
        return self.entry.name


def sort_key(name: str) -> tuple[int, str]:
    """Return the sort key of an experiment; experiments registered by other packages come last."""
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def resolve_names(
    request: str | Sequence[str] | None, *, can_train: bool, others: bool = False
) -> list[str]:
    """Return the names of the requested experiments; by default those that can run on the given data.

    Without training data these are the experiments that train no model. With `others`, ready models from other seeds,
    `seeds` does not need to train.
    """
    known = experiment.names()
    all_names = sorted(known, key=sort_key)
    if request is None:
        ready = {"seeds"} if others else set()
        return [
            name
            for name in all_names
            if can_train or name in ready or not experiment.get(name).facts["trains"]
        ]
    names = [request] if isinstance(request, str) else list(request)
    if not names:
        raise BadParameter(
            f"No experiment was named. Known: {', '.join(known)}, or all of them: all."
        )
    requested = set(all_names if "all" in names else names)
    for name in requested:
        experiment.get(name)  # raises UnknownExperiment, which lists the names
    return [name for name in all_names if name in requested]


def select_experiments(
    request: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    can_train: bool,
    others: bool = False,
    from_text: bool = False,
) -> list[SelectedExperiment]:
    """Return the experiments to run with their parameters.

    `params` maps NAME or EXPERIMENT.NAME to a value, or an experiment to a mapping of parameters.
    """
    chosen = resolve_names(request, can_train=can_train, others=others)
    entries = [experiment.get(name) for name in chosen]
    own: dict[str, dict[str, Any]] = {entry.name: {} for entry in entries}
    for key, value in (params or {}).items():
        if key in own and isinstance(value, Mapping):
            own[key].update(value)
            continue
        owner, dot, name = key.rpartition(".")
        takers = (
            [e for e in entries if e.name == owner] if dot else _find_owners(entries, key, value)
        )
        if not takers:
            known = sorted({name for entry in entries for name in entry.parameters})
            raise BadParameter(
                f"None of the experiments ({', '.join(own)}) has a parameter {key!r}. Known: {', '.join(known)}; "
                "EXPERIMENT.NAME means one experiment's."
            )
        for entry in takers:
            own[entry.name][name if dot else key] = value
    return [
        SelectedExperiment(
            entry,
            resolve_parameters(
                entry.name,
                entry.parameters,
                own[entry.name],
                presets=entry.presets,
                from_text=from_text,
            ),
        )
        for entry in entries
    ]


def _find_owners(entries: Sequence[Entry], key: str, value: Any) -> list[Entry]:
    """Return the experiments that have the parameter `key`.

    A preset goes to all experiments that have one of that name, or else to all with presets, which then refuse it.
    """
    if key == PRESET:
        return [e for e in entries if value in e.presets] or [e for e in entries if e.presets]
    return [e for e in entries if key in e.parameters]


class AuditCheckpoint:
    """Results of an earlier audit, and hooks that are called during an audit; by default neither."""

    def __init__(self, known: Mapping[str, Mapping[str, Any] | None] | None = None) -> None:
        """`known`: results of an earlier audit of the same model, data and settings, by experiment.

        None marks an experiment that failed.
        """
        self.known = dict(known or {})
        self.why_not: dict[str, str] = {}  # error messages by experiment

    def begin(self, name: str) -> None:
        """Handle the start of an experiment."""

    def keep(self, result: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Handle the result of an experiment; `about` is its context (see `compose_audit`)."""

    def add_failure(self, name: str, error: WhenceError) -> None:
        """Handle the failure of an experiment; overrides that record it need not raise."""
        raise error


def compose_audit(
    experiments: Sequence[Mapping[str, Any]],
    about: Mapping[str, Any],
    *,
    origin: Mapping[str, Any],
    why_not: Mapping[str, str],
    calls: Mapping[str, int] | None,
    seconds: float | None,
) -> dict[str, Any]:
    """Draw the conclusion from all experiments, and return the documented JSON object.

    `about`: data, setting, performance, the site as the conclusion names it, and the rest of the model's attention.
    `why_not`: error messages of failed experiments; all others missing from `experiments` were not requested.
    """
    results = sorted(experiments, key=lambda result: sort_key(result["name"]))
    ran = {result["name"] for result in results}
    not_run = [entry for entry in experiment if entry.name not in ran]
    answer, conclusion = conclude(
        results,
        model=origin["model"]["name"],
        data=about["data"]["name"],
        site=about["site"],
        rest=about["rest"],
        performance=about["performance"],
        not_run=[entry.name for entry in not_run],
    )
    can_train = about["setting"]["train"] is not None
    return {
        "version": RESULT_VERSION,
        "kind": "audit",
        **origin,
        "data": about["data"],
        "setting": about["setting"],
        "performance": about["performance"],
        "experiments": list(results),
        "not_run": [
            {
                "name": entry.name,
                "why": why_not.get(entry.name)
                or _describe_not_run(entry.facts["trains"], can_train),
            }
            for entry in not_run
        ],
        "answer": answer,
        "conclusion": conclusion,
        "calls": calls,
        "seconds": seconds,
    }


def _describe_not_run(trains: bool, can_train: bool) -> str:
    if trains and not can_train:
        return "no training data was given: --train"
    return "not asked for"


MIN_TOKENS = 2  # one token gets all the attention


@dataclass
class UsableExamples:
    """The usable examples, encoded, and the counted reasons why others are not."""

    examples: list[Example]
    items: list[EncodedInput]
    truth: NDArray[np.int64] | None
    refused: Counter[str] = field(default_factory=Counter)
    without_labels: str | None = None  # why there are no true labels, if no experiment needs them

    def describe_data(self, dataset: Dataset, labels: Sequence[str]) -> dict[str, Any]:
        """Return the facts on the data set and its usable examples."""
        counts = Counter() if self.truth is None else Counter(self.truth.tolist())
        return {
            "name": dataset.name,
            "given": len(dataset.examples),
            "used": len(self.items),
            "text": dataset.text,
            "pair": dataset.pair,
            "label": dataset.label,
            "guessed": list(dataset.guessed),
            "classes": {labels[i]: count for i, count in sorted(counts.items())},
            "without_labels": self.without_labels,
            "why_not": [
                {"why": why, "count": count} for why, count in self.refused.items() if count
            ],
        }


def encode_examples(
    dataset: Dataset,
    explainer: Explainer,
    chosen: Sequence[SelectedExperiment],
    *,
    truncate: bool,
    limit: int | None,
    seed: int,
) -> UsableExamples:
    """Encode the examples, or `limit` of them drawn by the seed; count the unusable ones by reason."""
    _check_classifier(explainer)
    refused: Counter[str] = Counter()
    needy = [choice.name for choice in chosen if choice.entry.facts["labels"]]
    labelled = [example for example in dataset.examples if example.label is not None]
    # Rows without a label are left out, unless the whole data set has no labels.
    usable = labelled if needy and labelled else list(dataset.examples)
    refused["no label"] += len(dataset.examples) - len(usable)
    truth, why = _resolve_true_labels(usable, explainer.labels, needy)
    order = shuffle_indices(usable, seed)[:limit] if limit is not None else range(len(usable))
    numbers = sorted(order)
    errors: list[WhenceError] = []

    def record_failure(_: int, __: Any, error: WhenceError) -> None:
        errors.append(error)
        refused[error.code.replace("-", " ")] += 1

    readable = encode_dataset(
        [usable[i].given for i in numbers], explainer.loaded, truncate, record_failure
    )
    encoded = [(numbers[i], item) for i, item in readable.by_number().items()]
    words = [(i, item) for i, item in encoded if _count_content_tokens(item) >= MIN_TOKENS]
    refused["fewer than two tokens"] += len(encoded) - len(words)
    if not words:
        first = errors[0] if errors else None
        kind = type(first) if isinstance(first, InputError) else BadExamples
        message = str(first) if first is not None else "They have fewer than two tokens each."
        raise kind(f"None of the {len(numbers)} examples can be used. {message}")
    places = [i for i, _ in words]
    return UsableExamples(
        [usable[i] for i in places],
        [item for _, item in words],
        None if truth is None else truth[places],
        refused,
        why,
    )


def _check_classifier(explainer: Explainer) -> None:
    loaded = explainer.loaded
    if not loaded.is_classifier or loaded.task == "regression":
        what = "predicts a number" if loaded.is_classifier else "does not classify whole inputs"
        raise NoHead(
            f"{loaded.name!r} {what}: an audit compares distributions over classes. "
            "Give a model that classifies."
        )


def _resolve_true_labels(
    examples: Sequence[Example], labels: tuple[str, ...], needy: Sequence[str]
) -> tuple[NDArray[np.int64] | None, str | None]:
    """Return the true labels or why there are none; raise if an experiment needs them."""
    try:
        return np.array(resolve_label_indices(examples, labels), dtype=np.int64), None
    except BadExamples as error:
        if not needy:
            return None, str(error)
        rest = [entry.name for entry in experiment if not entry.facts["labels"]]
        raise BadExamples(
            f"{error} {', '.join(needy)} cannot do without; these can: {', '.join(rest)} (--experiment NAME)."
        ) from None


def _count_content_tokens(item: EncodedInput) -> int:
    return sum(not token.special and token.segment == 0 for token in item.tokens)


@dataclass(frozen=True)
class AuditCostEstimate:
    """The size of an audit and its estimated cost."""

    n: int  # examples
    tokens: float  # mean number per example
    layers: int
    heads: int
    sites: int
    train: int = 0  # training examples
    epochs: int | None = None
    replay: float = 1.0  # cost of a replay, in forward passes
    seconds: float = 0.0  # per forward pass of one example
    about: str = ""  # the model and the data
    chosen: Sequence[SelectedExperiment] = field(default=())

    def count_forwards(self, choice: SelectedExperiment) -> float:
        """Return the cost of an experiment, in forward passes of one example."""
        return float(choice.entry.facts["calls"](self, choice.params))

    @property
    def total(self) -> float:
        """The cost of all experiments, in forward passes."""
        return sum(self.count_forwards(choice) for choice in self.chosen)

    def describe(self) -> list[str]:
        """Describe the planned work and its estimated duration."""
        durations = ", ".join(
            f"{choice.name} {format_duration(self.count_forwards(choice) * self.seconds)}"
            for choice in self.chosen
        )
        return [
            self.about,
            f"It will take {format_duration(self.total * self.seconds)} on this machine: {durations}.",
        ]


def format_duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 1:
        return "less than a second"
    for size, name in ((3600.0, "hour"), (60.0, "minute"), (1.0, "second")):
        if seconds >= 1.5 * size or size == 1.0:
            count = max(1, round(seconds / size))
            return f"about {count} {name}{'' if count == 1 else 's'}"
    raise AssertionError("the last size always fits")


class Audit(SavedResult):
    """The result of an audit: whether attention may be read as an explanation of a model, by its experiments."""

    _writers: ClassVar[Mapping[str, str]] = {
        "page": "whence.studies.audit.report:render_audit_html",
        "fragment": "whence.studies.audit.report:render_audit_fragment",
        "text": "whence.studies.audit.report:format_audit_text",
        "terminal": "whence.studies.audit.report:render_audit_terminal",
    }
    _kind: ClassVar[str] = "audit"
    _article: ClassVar[str] = "an"

    @property
    def experiments(self) -> list[dict[str, Any]]:
        """The experiments, in the order they were run: hypothesis, threshold, verdict, effect, interval, n, ..."""
        return [dict(result) for result in self.payload["experiments"]]

    def experiment(self, name: str) -> dict[str, Any]:
        """Return the result of one experiment."""
        for result in self.payload["experiments"]:
            if result["name"] == name:
                return dict(result)
        known = list(self.verdicts)
        why = {omission["name"]: omission["why"] for omission in self.payload["not_run"]}
        if name in why:
            raise UnknownExperiment(f"The experiment {name!r} was not run: {why[name]}")
        raise UnknownExperiment(
            f"There is no experiment {name!r} in this audit.{suggest_name(name, known)} There are "
            f"{', '.join(known) or 'none'}."
        )

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each experiment: holds, fails or undecided."""
        return {result["name"]: result["verdict"] for result in self.payload["experiments"]}

    @property
    def answer(self) -> str:
        """The answer, whether attention may be read as an explanation here: yes, no or undecided."""
        return str(self.payload["answer"])

    @property
    def conclusion(self) -> str:
        """The answer as a paragraph, with the figures it rests on."""
        return str(self.payload["conclusion"])

    def to_markdown(self, path: str | Path | None = None) -> str:
        """Return the audit in Markdown, and write it if a path is given."""
        from whence.studies.audit.report import format_audit_markdown

        return write_if_path(format_audit_markdown(self.to_dict()), path)

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<Audit {self.answer}; {text or 'no experiments'}>"


class ForwardPassProgress:
    """A counter of forward passes; each experiment's count is capped at its estimate."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._done = self._until = self._total = 0.0

    def set_total(self, total: float) -> None:
        """Set the estimated number of forward passes of the audit."""
        self._total = total

    def begin(self, count: float) -> None:
        """Start an experiment with its estimated number of forward passes."""
        self._until += count

    def add(self, count: float) -> None:
        """Add finished forward passes."""
        self._report(min(self._done + count, self._until))

    def end(self) -> None:
        """End an experiment: passes that were estimated and not needed count as done."""
        self._report(self._until)

    def _report(self, count: float) -> None:
        self._done = count
        if self._progress is not None and self._total:
            self._progress(round(count), round(self._total))


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
    announce: Callable[[AuditCostEstimate], None] | None = None,
    parts: AuditCheckpoint | None = None,
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
    parts = AuditCheckpoint() if parts is None else parts
    _check_options(limit, special)
    check_site(site)
    dataset = read_dataset(data, text=text, pair=pair, label=label)
    training = None if train is None else read_dataset(train, text=text, pair=pair, label=label)
    can_train = training is not None
    chosen = select_experiments(experiments, params, can_train=can_train, others=bool(others))
    check_training_data(chosen, can_train, bool(others))
    explainer = model if isinstance(model, Explainer) else load(model)
    dataset.check_pairs(explainer.labels)
    started = time.perf_counter()
    tally = ForwardPassProgress(progress)
    usable = encode_examples(dataset, explainer, chosen, truncate=truncate, limit=limit, seed=seed)
    workshop = None
    if training is not None or others:
        workshop = Retrainer(
            explainer.loaded,
            [] if training is None else training.examples,
            base=base,
            others=others,
            epochs=epochs,
            seed=seed,
        )
    subject = AuditSubject(
        explainer,
        usable.examples,
        usable.items,
        usable.truth,
        site=site,
        special=special,
        seed=seed,
        workshop=workshop,
        tick=tally.add,
    )
    with count_forwards(explainer.model) as runs:
        planned_epochs = epochs if workshop is None else workshop.recipe.epochs
        plan = _estimate_cost(
            subject,
            dataset,
            chosen,
            0 if training is None else len(training.examples),
            planned_epochs,
        )
        subject.replay = plan.replay
        if announce is not None:
            announce(plan)
        about = _describe_context(
            subject,
            plan,
            usable.describe_data(dataset, explainer.labels),
            _measure_performance(subject),
        )
        about["setting"] |= {
            "truncate": truncate,
            "limit": limit,
            "train": None if training is None else training.name,
            "epochs": epochs,
        }
        tally.set_total(
            sum(plan.count_forwards(choice) for choice in chosen if choice.name not in parts.known)
        )
        results = [_run_or_reuse(subject, choice, plan, tally, parts, about) for choice in chosen]
    return Audit(
        compose_audit(
            [result for result in results if result is not None],
            about,
            origin=describe_origin(explainer.loaded),
            why_not=parts.why_not,
            calls={"forward": runs.forward},
            seconds=time.perf_counter() - started,
        )
    )


def _describe_context(
    subject: AuditSubject,
    plan: AuditCostEstimate,
    data: dict[str, Any],
    performance: dict[str, Any] | None,
) -> dict[str, Any]:
    """Return the context of all experiments: data, setting, performance and site."""
    first = subject.sites[0]
    return {
        "data": data,
        "setting": {
            "site": subject.site,
            "sites": [site.name for site in subject.sites],
            "special": subject.special,
            "seed": subject.seed,
        },
        "performance": performance,
        "site": first.name,
        "rest": first.describe_rest(plan.layers, plan.heads),
    }


def _run_or_reuse(
    subject: AuditSubject,
    choice: SelectedExperiment,
    plan: AuditCostEstimate,
    tally: ForwardPassProgress,
    parts: AuditCheckpoint,
    about: Mapping[str, Any],
) -> Mapping[str, Any] | None:
    """Return the result of an experiment, new or from the checkpoint; None if it failed."""
    if choice.name in parts.known:
        return parts.known[choice.name]
    parts.begin(choice.name)
    try:
        result = _run_experiment(subject, choice, plan, tally, subject.seed)
    except WhenceError as error:
        parts.why_not[choice.name] = str(error)
        parts.add_failure(choice.name, error)
        return None
    parts.keep(result, about)
    return result


def _check_options(limit: int | None, special: str) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1. Got {limit!r}.")
    if special not in ("keep", "free"):
        raise BadParameter(f"special must be 'keep' or 'free'. Got {special!r}.")


def check_training_data(
    chosen: Sequence[SelectedExperiment], can_train: bool, others: bool
) -> None:
    """Refuse experiments that train models if there is no training data."""
    needy = [
        choice.name
        for choice in chosen
        if choice.entry.facts["trains"]
        and not can_train
        and not (choice.name == "seeds" and others)
    ]
    if needy:
        raise BadParameter(
            f"The experiments {', '.join(needy)} train models and have nothing to train on. Give training data: "
            "train=..., --train FILE; or leave them out."
        )


def _estimate_cost(
    subject: AuditSubject,
    dataset: Dataset,
    chosen: Sequence[SelectedExperiment],
    train: int,
    epochs: int | None,
) -> AuditCostEstimate:
    layers, heads, _ = subject.attention_by_head()[0].shape
    seconds, replay = measure_speed(subject)
    sizes = [len(item) for item in subject.items]
    return AuditCostEstimate(
        n=len(subject),
        tokens=float(np.mean(sizes)),
        layers=layers,
        heads=heads,
        sites=len(subject.sites),
        train=train,
        epochs=epochs,
        replay=replay,
        seconds=seconds,
        about=f"{dataset} {len(subject)} of {len(dataset.examples)} examples, {np.mean(sizes):.0f} tokens each in the mean.",
        chosen=chosen,
    )


def _run_experiment(
    subject: AuditSubject,
    choice: SelectedExperiment,
    plan: AuditCostEstimate,
    tally: ForwardPassProgress,
    seed: int,
) -> dict[str, Any]:
    started = time.perf_counter()
    tally.begin(plan.count_forwards(choice))
    facts = choice.entry.facts
    with count_forwards(subject.loaded.model) as runs:
        finding = choice.entry.fn(subject, **choice.params)
    tally.end()
    return {
        "name": choice.name,
        "summary": choice.entry.summary,
        **{key: facts[key] for key in ("hypothesis", "measure", "threshold", "direction")},
        **judge(choice.entry, finding, seed),
        "detail": finding.detail,
        "plots": list(finding.plots),
        "notes": list(finding.notes),
        "params": dict(choice.params),
        "misleads_when": facts["misleads_when"],
        "cite": facts["cite"],
        "calls": {"forward": runs.forward},
        "seconds": time.perf_counter() - started,
    }


def _measure_performance(subject: AuditSubject) -> dict[str, Any] | None:
    if subject.truth is None:
        return None
    with np.errstate(divide="ignore"):
        performance = compute_performance(np.log(subject.probabilities), subject.truth.tolist())
    most = Counter(subject.truth.tolist()).most_common(1)[0][1]
    return {**performance.to_dict(), "majority": most / len(subject)}


_SAMPLE_SIZE = 32  # examples
_COPIES = 5  # of each example, as in most experiments


def measure_speed(subject: AuditSubject) -> tuple[float, float]:
    """Return the seconds of a forward pass of one example, and the mean cost of a replay."""
    # Examples of median length stand for all.
    order = sorted(range(len(subject)), key=lambda i: len(subject.items[i]))
    start = max(0, (len(order) - _SAMPLE_SIZE) // 2)
    chosen = order[start : start + _SAMPLE_SIZE]
    sample = replace(
        subject,
        examples=[subject.examples[i] for i in chosen],
        items=[subject.items[i] for i in chosen],
        truth=None,
        tick=lambda _: None,
        memo={},
    )

    def run_batch(_: Sequence[int], batch: Batch) -> None:
        compute_plain_logits(subject.loaded.model, batch).sum().item()  # .item() waits for the GPU

    forward = _time_call(lambda: sample.run_in_batches("answers", run_batch))
    return forward / len(sample), _estimate_replay_seconds(sample) / forward


def _estimate_replay_seconds(sample: AuditSubject) -> float:
    """Return the seconds of a replay of all examples, averaged over all sites.

    Only the lowest and the highest site are timed, the others interpolated: the lower the site, the more layers are run
    again.
    """
    depths = {site.layers[0]: site for site in sample.sites}
    low, high = min(depths), max(depths)
    seconds = {at: _time_replay(sample, depths[at]) for at in {low, high}}
    slope = (seconds[high] - seconds[low]) / max(1, high - low)
    estimates = [seconds[low] + slope * (site.layers[0] - low) for site in sample.sites]
    return sum(estimates) / len(estimates)


def _time_replay(sample: AuditSubject, site: AttentionSite) -> float:
    replays = list(sample.build_replays([site], copies=_COPIES))
    weights = [replay.own[:, None].expand(-1, _COPIES, -1, -1, -1) for replay in replays]
    with torch.no_grad():
        seconds = _time_call(
            lambda: [replay(own).sum().item() for replay, own in zip(replays, weights, strict=True)]
        )
    return seconds / _COPIES


def _time_call(work: Callable[[], Any]) -> float:
    """Return the seconds of the second of two calls; the first one warms up."""
    for _ in range(2):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
    return seconds
