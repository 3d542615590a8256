"""`whence.audit`, the test of attention as explanation: experiments chosen, costed and run; result `Audit`."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

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
from whence.core.progress import Progress, ProgressCounter, announce
from whence.core.registry import Entry, resolve_entries
from whence.core.result import RESULT_VERSION, Result
from whence.data.dataset import Dataset, read_dataset, resolve_label_indices, shuffle_indices
from whence.data.example import Example
from whence.data.tokens import EncodedInput
from whence.explain.explainer import Explainer, load
from whence.explain.inputs import encode_dataset
from whence.explain.pipeline import describe_origin
from whence.studies.audit.attention_variants import COPIES
from whence.studies.audit.conclusion import conclude
from whence.studies.audit.experiments import experiment
from whence.studies.audit.retrain import Retrainer
from whence.studies.audit.subject import AttentionSite, AuditSubject, Special, check_site
from whence.studies.audit.verdict import judge
from whence.studies.training.performance import compute_performance
from whence.tracing.ask import count_forwards
from whence.tracing.forward import compute_plain_logits

if TYPE_CHECKING:
    from whence.render.document import Document

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
    all_names = sorted(experiment.names(), key=sort_key)
    if request is None:
        ready = {"seeds"} if others else set()
        return [
            name
            for name in all_names
            if can_train or name in ready or not experiment.get(name).facts["trains"]
        ]
    names = [request] if isinstance(request, str) else list(request)
    if not names:
        known = ", ".join(experiment.names())
        raise BadParameter(f"No experiment was named. Known: {known}, or all of them: all.")
    # An unknown name raises UnknownExperiment, which lists the names.
    requested = set(all_names) if "all" in names else {experiment.get(one).name for one in names}
    return [name for name in all_names if name in requested]


def select_experiments(
    request: str | Sequence[str] | None,
    params: Mapping[str, Any] | None = None,
    *,
    can_train: bool,
    others: bool = False,
    from_text: bool = False,
) -> list[SelectedExperiment]:
    """Return the experiments to run with their parameters, which `params` has as `resolve_entries` takes them."""
    names = resolve_names(request, can_train=can_train, others=others)
    resolved = resolve_entries(experiment, names, params, from_text=from_text)
    return [SelectedExperiment(entry, values) for entry, values in resolved]


class AuditCheckpoint:
    """Results of an earlier audit, and hooks that are called during an audit; by default neither."""

    def __init__(self, known: Mapping[str, Mapping[str, Any] | None] | None = None) -> None:
        """`known`: results of an earlier audit of the same kind, by experiment; None marks one that failed."""
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
    not_run: dict[str, str] = {}  # why, by experiment
    for entry in experiment:
        if entry.name not in ran:
            lacks_data = entry.facts["trains"] and about["setting"]["train"] is None
            why = "no training data was given: --train" if lacks_data else "not asked for"
            not_run[entry.name] = why_not.get(entry.name) or why
    answer, conclusion = conclude(
        results,
        model=origin["model"]["name"],
        data=about["data"]["name"],
        site=about["site"],
        rest=about["rest"],
        performance=about["performance"],
        not_run=list(not_run),
    )
    return {
        "version": RESULT_VERSION,
        "kind": "audit",
        **origin,
        "data": about["data"],
        "setting": about["setting"],
        "performance": about["performance"],
        "experiments": list(results),
        "not_run": [{"name": name, "why": why} for name, why in not_run.items()],
        "answer": answer,
        "conclusion": conclusion,
        "calls": calls,
        "seconds": seconds,
    }


def encode_examples(
    dataset: Dataset,
    explainer: Explainer,
    chosen: Sequence[SelectedExperiment],
    *,
    truncate: bool,
    limit: int | None,
    seed: int,
) -> tuple[list[EncodedInput], NDArray[np.int64] | None, dict[str, Any]]:
    """Encode the examples, or `limit` of them drawn by the seed; count the unusable ones by reason.

    Returns the usable ones, their true labels, and the facts on the data set that results carry.
    """
    loaded = explainer.loaded
    if not loaded.is_classifier or loaded.task == "regression":
        what = "predicts a number" if loaded.is_classifier else "does not classify whole inputs"
        raise NoHead(
            f"{loaded.name!r} {what}: an audit compares distributions over classes. "
            "Give a model that classifies."
        )
    needy = [choice.name for choice in chosen if choice.entry.facts["labels"]]
    labelled = [example for example in dataset.examples if example.label is not None]
    # Rows without a label are left out, unless the whole data set has no labels.
    usable = labelled if needy and labelled else list(dataset.examples)
    refused = Counter({"no label": len(dataset.examples) - len(usable)})
    truth, without_labels = _resolve_true_labels(usable, explainer.labels, needy)
    drawn = range(len(usable)) if limit is None else sorted(shuffle_indices(usable, seed)[:limit])
    errors: list[WhenceError] = []

    def record_failure(_: int, __: Any, error: WhenceError) -> None:
        errors.append(error)
        refused[error.code.replace("-", " ")] += 1

    readable = encode_dataset([usable[i].given for i in drawn], loaded, truncate, record_failure)
    long = {
        drawn[i]: item
        for i, item in readable.by_number().items()
        # One token gets all the attention.
        if sum(not token.special and token.segment == 0 for token in item.tokens) > 1
    }
    refused["fewer than two tokens"] += len(readable.items) - len(long)
    if not long:
        first = errors[0] if errors else BadExamples("They have fewer than two tokens each.")
        kind = type(first) if isinstance(first, InputError) else BadExamples
        raise kind(f"None of the {len(drawn)} examples can be used. {first}")
    truth = None if truth is None else truth[list(long)]
    counts = Counter([] if truth is None else truth.tolist())
    facts = {
        "name": dataset.name,
        "given": len(dataset.examples),
        "used": len(long),
        **{column: getattr(dataset, column) for column in ("text", "pair", "label")},
        "guessed": list(dataset.guessed),
        "classes": {explainer.labels[i]: count for i, count in sorted(counts.items())},
        "without_labels": without_labels,
        "why_not": [{"why": why, "count": count} for why, count in refused.items() if count],
    }
    return list(long.values()), truth, facts


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

    def __str__(self) -> str:
        """Describe the planned work and its estimated duration."""
        seconds = {one.name: self.count_forwards(one) * self.seconds for one in self.chosen}
        total = format_duration(sum(seconds.values()))
        parts = ", ".join(f"{name} {format_duration(part)}" for name, part in seconds.items())
        return f"{self.about}\nIt will take {total} on this machine: {parts}."


def format_duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 1:
        return "less than a second"
    units = ((3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
    size, name = next(unit for unit in units if seconds >= 1.5 * unit[0] or unit[0] == 1.0)
    count = max(1, round(seconds / size))
    return f"about {count} {name}{'' if count == 1 else 's'}"


class Audit(Result):
    """The result of an audit: whether attention may be read as an explanation of a model, by its experiments."""

    kind: ClassVar[str] = "audit"

    def document(self) -> "Document":
        """Return the blocks that every surface shows."""
        from whence.studies.audit.report import build_document

        return build_document(self.data)

    @property
    def experiments(self) -> list[dict[str, Any]]:
        """The experiments, in the order they were run: hypothesis, threshold, verdict, effect, interval, n, ..."""
        return [dict(result) for result in self.data["experiments"]]

    def experiment(self, name: str) -> dict[str, Any]:
        """Return the result of one experiment."""
        for result in self.data["experiments"]:
            if result["name"] == name:
                return dict(result)
        known = list(self.verdicts)
        why = {omission["name"]: omission["why"] for omission in self.data["not_run"]}
        if name in why:
            raise UnknownExperiment(f"The experiment {name!r} was not run: {why[name]}")
        raise UnknownExperiment(
            f"There is no experiment {name!r} in this audit.{suggest_name(name, known)} There are "
            f"{', '.join(known) or 'none'}."
        )

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of each experiment: holds, fails or undecided."""
        return {result["name"]: result["verdict"] for result in self.data["experiments"]}

    @property
    def answer(self) -> str:
        """The answer, whether attention may be read as an explanation here: yes, no or undecided."""
        return str(self.data["answer"])

    @property
    def conclusion(self) -> str:
        """The answer as a paragraph, with the figures it rests on."""
        return str(self.data["conclusion"])

    def __repr__(self) -> str:
        text = ", ".join(f"{name}: {verdict}" for name, verdict in self.verdicts.items())
        return f"<Audit {self.answer}; {text or 'no experiments'}>"


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
    moved, too ("free"). `progress` is called with (done, in all), in forward passes; its method `announce`, if it has
    one, gets the plan and its estimate before the work starts. `parts` has what was found before, which is not done
    again, and gets what is found, experiment by experiment.
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
    items, truth, facts = encode_examples(
        dataset, explainer, chosen, truncate=truncate, limit=limit, seed=seed
    )
    workshop = None
    if training is not None or others:
        rows = [] if training is None else training.examples
        workshop = Retrainer(
            explainer.loaded, rows, base=base, others=others, epochs=epochs, seed=seed
        )
    subject = AuditSubject(explainer.loaded, items, truth, site, special, seed, workshop)
    with count_forwards(explainer.model) as runs:
        plan = _estimate_cost(subject, dataset, chosen)
        announce(progress, plan)
        first = subject.sites[0]
        about: dict[str, Any] = {
            "data": facts,
            "setting": {
                "site": site,
                "sites": [one.name for one in subject.sites],
                "special": special,
                "seed": seed,
                "truncate": truncate,
                "limit": limit,
                "train": None if training is None else training.name,
                "epochs": epochs,
            },
            "performance": _measure_performance(subject),
            "site": first.name,
            "rest": first.describe_rest(plan.layers, plan.heads),
        }
        passes = {
            choice.name: 0.0 if choice.name in parts.known else plan.count_forwards(choice)
            for choice in chosen
        }
        tally = ProgressCounter(progress, round(sum(passes.values())))
        subject.tick, subject.replay = tally.add, plan.replay
        results = []
        for choice in chosen:
            result = parts.known.get(choice.name)
            if choice.name not in parts.known:
                parts.begin(choice.name)
                try:
                    result = _run_experiment(subject, choice)
                except WhenceError as error:
                    parts.why_not[choice.name] = str(error)
                    parts.add_failure(choice.name, error)
                else:
                    parts.keep(result, about)
            passes.pop(choice.name)
            tally.expect(round(sum(passes.values())))
            results += [] if result is None else [result]
    return Audit(
        compose_audit(
            results,
            about,
            origin=describe_origin(explainer.loaded),
            why_not=parts.why_not,
            calls={"forward": runs.forward},
            seconds=time.perf_counter() - started,
        )
    )


def _check_options(limit: int | None, special: str) -> None:
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise BadParameter(f"limit must be a whole number, at least 1. Got {limit!r}.")
    if special not in ("keep", "free"):
        raise BadParameter(f"special must be 'keep' or 'free'. Got {special!r}.")


def check_training_data(
    chosen: Sequence[SelectedExperiment], can_train: bool, others: bool
) -> None:
    """Refuse experiments that train models if there is no training data."""
    trained = (choice.name for choice in chosen if choice.entry.facts["trains"])
    needy = [name for name in trained if not can_train and not (name == "seeds" and others)]
    if needy:
        raise BadParameter(
            f"The experiments {', '.join(needy)} train models and have nothing to train on. Give training data: "
            "train=..., --train FILE; or leave them out."
        )


def _run_experiment(subject: AuditSubject, choice: SelectedExperiment) -> dict[str, Any]:
    started = time.perf_counter()
    facts = choice.entry.facts
    with count_forwards(subject.loaded.model) as runs:
        finding = choice.entry.fn(subject, **choice.params)
    return {
        "name": choice.name,
        "summary": choice.entry.summary,
        **{key: facts[key] for key in ("hypothesis", "measure", "threshold", "direction")},
        **judge(choice.entry, finding, subject.seed),
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


def _estimate_cost(
    subject: AuditSubject, dataset: Dataset, chosen: Sequence[SelectedExperiment]
) -> AuditCostEstimate:
    """Estimate the cost from the seconds of a forward pass of one example, and the mean cost of a replay."""
    layers, heads, _ = subject.attention_by_head()[0].shape
    sizes, workshop = [len(item) for item in subject.items], subject.workshop
    # Examples of median length stand for all.
    order = np.argsort(sizes, kind="stable").tolist()
    start = max(0, (len(order) - _SAMPLE_SIZE) // 2)
    items = [subject.items[i] for i in order[start : start + _SAMPLE_SIZE]]
    sample = replace(subject, items=items, memo={})
    model = subject.loaded.model
    forward = _time_call(
        lambda: sample.map_batches(
            "answers", lambda _, batch: compute_plain_logits(model, batch).cpu()
        )
    )
    # The lower the site, the more layers are run again: the lowest and the highest stand for all.
    sites = sorted(subject.sites, key=lambda site: site.layers)
    replays = [_time_replay(sample, site) for site in {sites[0], sites[-1]}]
    return AuditCostEstimate(
        n=len(subject),
        tokens=float(np.mean(sizes)),
        layers=layers,
        heads=heads,
        sites=len(subject.sites),
        train=0 if workshop is None else len(workshop.rows),
        epochs=None if workshop is None else workshop.recipe.epochs,
        replay=float(np.mean(replays)) / forward,
        seconds=forward / len(items),
        about=f"{dataset} {len(sizes)} of {len(dataset.examples)} examples, {np.mean(sizes):.0f} tokens each in the mean.",
        chosen=chosen,
    )


def _time_replay(sample: AuditSubject, site: AttentionSite) -> float:
    """Return the seconds of a replay of all examples."""
    replays = list(sample.build_replays([site], copies=COPIES))
    weights = [replay.own[:, None].expand(-1, COPIES, -1, -1, -1) for replay in replays]

    @torch.no_grad()
    def run() -> None:
        for replay, own in zip(replays, weights, strict=True):
            replay(own).sum().item()  # .item() waits for the GPU

    return _time_call(run) / COPIES


def _time_call(work: Callable[[], Any]) -> float:
    """Return the seconds of the second of two calls; the first one warms up."""
    for _ in range(2):
        started = time.perf_counter()
        work()
        seconds = time.perf_counter() - started
    return seconds
