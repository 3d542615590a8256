"""`whence.run`: checks of plan, data and folder, the loop that gives missing work to workers, the final audit.

The plan is checked before anything is loaded, the folder when the workers have the model. Windows are opened one by one,
their missing chunks go to workers as tasks, and results are written at once; attention is audited at last.
"""

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan, NoHead, WhenceError
from whence.core.progress import Progress
from whence.data.dataset import (
    Dataset,
    SkippedRow,
    compute_example_id,
    find_label_indices,
    hash_json,
    match_label_names,
    open_dataset,
)
from whence.data.example import Example
from whence.data.readers import is_data_frame
from whence.explain.explainer import load
from whence.explain.inputs import InputWarning
from whence.runs.backends import Backend, create_backend
from whence.runs.chunks import Window, is_in_other_shard, iterate_selected_rows, iterate_windows
from whence.runs.observers import (
    RunEstimate,
    RunObserver,
    RunProgress,
    WindowStatus,
    estimate_cost,
)
from whence.runs.plan import OUT_KEY, Execution, Plan, build_plan, merge_options, read_plan
from whence.runs.plan_expansion import resolve_plan, unreadable_row_error
from whence.runs.results import Run
from whence.runs.store import Store, StoreReader, WindowResults, check_folder, is_store
from whence.runs.task import Identity, Item, Task, compute_audit_code_digest, compute_source_digest
from whence.studies.audit.audit import (
    Audit,
    AuditCheckpoint,
    SelectedExperiment,
    audit,
    compose_audit,
    select_experiments,
)
from whence.studies.audit.subject import Special
from whence.studies.evaluation.evaluate import GOLD

ATTENTION_LOCATION = "last"
# The work that trying examples for the estimate may add to a run.
PROBED_SHARE = 0.05
SPECIAL_TOKENS: Special = "keep"


def load_audit(store: StoreReader) -> Audit | None:
    """Return the audit from the experiments stored in a folder; None without any."""
    manifest = store.manifest
    audits = {
        name: one for name, one in store.audits().items() if name in manifest["plan"]["audit"]
    }
    results = [one for one in audits.values() if one["experiment"] is not None]
    if not results:
        return None
    # The limit may have been raised between experiments: only those on the most data are combined.
    last = max((one["about"] for one in results), key=lambda about: about["data"]["given"])
    model = manifest["model"]
    return Audit(
        compose_audit(
            [one["experiment"] for one in results if one["about"] == last],
            last,
            origin={"model": model, "provenance": {"dtype": model["dtype"]}},
            why_not={name: one["why"] for name, one in audits.items() if one["experiment"] is None},
            calls=None,
            seconds=None,
        )
    )


class _StoredExperiments(AuditCheckpoint):
    """A checkpoint that stores each experiment's result in the folder, its cost in the journal."""

    def __init__(
        self, known: Mapping[str, Any], session: "RunSession", keys: Mapping[str, str]
    ) -> None:
        super().__init__(known)
        self._store, self._observer, self._keys = session.store, session.observer, keys

    def begin(self, name: str) -> None:
        """Notify the observer of an experiment's start."""
        self._observer.on_audit(name)

    def keep(self, result: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Store the result of an experiment, and log its cost."""
        name = result["name"]
        took = {what: result[what] for what in ("seconds", "calls")}
        bare = {what: value for what, value in result.items() if what not in took}
        self._write(name, about=dict(about), experiment=bare, error=None, why=None)
        self._store.log_event("audit", {"experiment": name, **took})

    def add_failure(self, name: str, error: WhenceError) -> None:
        """Store the failure of an experiment."""
        self._write(name, about=None, experiment=None, error=error.code, why=str(error))

    def _write(self, name: str, **record: Any) -> None:
        self._store.add_audit(name, {"key": self._keys[name], **record})


def _compute_experiment_keys(
    plan: Plan,
    experiments: Sequence[SelectedExperiment],
    examples: Sequence[Example],
    model: Mapping[str, Any],
) -> dict[str, str]:
    """Return each experiment's key: the hash of all that its result depends on."""
    shared = {
        "code": compute_audit_code_digest(),
        "model": {name: model[name] for name in ("fingerprint", "tokenizer", "processor", "dtype")},
        "data": hash_json([compute_example_id(example) for example in examples]),
        # If one experiment needs labels, unlabelled examples are left out of all.
        "labels": any(experiment.entry.facts["labels"] for experiment in experiments),
        "site": ATTENTION_LOCATION,
        "special": SPECIAL_TOKENS,
        "truncate": plan.truncate,
        "seed": plan.seed,
    }
    return {
        experiment.name: hash_json(
            {
                **shared,
                "experiment": experiment.name,
                "params": dict(experiment.params),
                "source": compute_source_digest(experiment.entry),
            }
        )
        for experiment in experiments
    }


def run(
    plan: Plan | str | Path | None = None,
    out: str | Path | None = None,
    *,
    manner: Execution | None = None,
    retry_failed: bool = False,
    progress: Progress | RunObserver | None = None,
    **given: Any,
) -> Run:
    """Explain, test and audit a data set into a folder; results that are there are not computed again.

    `plan`: a `Plan`, the path of a TOML file, or None: then `model=`, `data=`, `methods=` and the other fields of a plan
    are given by name, and so are `backend=`, `workers=`, `device=` and the other fields of an `Execution`. Options given
    by name override the plan. `out`: the folder, unless a file names it. `retry_failed`: compute failed results again.
    `progress` is called with (examples done, examples in all), or is a `RunObserver`, which hears more. After an
    interrupt or a kill, the same call resumes the run.
    """
    where, options = "The plan", dict[str, Any]()
    if isinstance(plan, str | Path):
        where, options = str(plan), read_plan(plan)
    elif isinstance(plan, Plan):
        options = dict(vars(plan))
    elif plan is not None:
        raise BadPlan(
            f"A plan is a whence.Plan or the path of a .toml file. Got {type(plan).__name__}."
        )
    for own in (options if isinstance(plan, Plan) else {}, given):
        if isinstance(own.get("target"), list):
            raise BadPlan(
                f"target={own['target']!r} is a list, one target each, and a run explains one for all examples. Give "
                "one target, 'gold' for each example's own label, or a contrast, which is a tuple: ('a', 'b')."
            )
    if is_data_frame(given.get("data")):
        raise BadPlan(
            f"data is a table in memory ({type(given['data']).__name__}), and a run that goes on has to read its "
            "data again. Save it as a .parquet or .csv file, and give the path of that: data=..., with text=... and "
            "label=... as here. whence.evaluate takes a table as it is."
        )
    named = options.pop(OUT_KEY, None)
    folder = named if out is None else out
    if folder is None:
        raise BadPlan(
            "There is no folder for the results. Name it: out=..., or out = ... in the plan."
        )
    options |= {} if manner is None else vars(manner)
    final_plan, execution = build_plan(merge_options(options, given), where)
    return execute_plan(final_plan, folder, execution, retry_failed=retry_failed, progress=progress)


# Rows whose labels are read, of local and of Hub data.
_MAX_LABEL_ROWS, _MAX_REMOTE_LABEL_ROWS = 50_000, 1_000


def execute_plan(
    plan: Plan,
    out: str | Path,
    execution: Execution = Execution(),  # noqa: B008 - it cannot be changed
    *,
    retry_failed: bool = False,
    progress: Progress | RunObserver | None = None,
) -> Run:
    """Compute the results of a plan that the folder `out` lacks, and return the run."""
    observer = progress if isinstance(progress, RunObserver) else RunProgress(progress)
    data, plan = open_and_resolve(plan)
    with Store.open_locked(out) as store:
        try:
            session = RunSession(plan, execution, data, store, observer, retry_failed)
            with create_backend(plan, execution) as workers:
                session.compute(workers)
            if plan.audit and (plan.shard is None or plan.shard[0] == 1):
                session.run_audit()
            store.finish()
        except KeyboardInterrupt:
            observer.on_interrupt()
            raise
    return Run(out)


def estimate_plan(
    plan: Plan,
    out: str | Path | None = None,
    execution: Execution = Execution(),  # noqa: B008 - it cannot be changed
    observer: RunObserver | None = None,
) -> RunEstimate:
    """Return the estimated cost of a plan, without writing anything."""
    observer = RunObserver() if observer is None else observer
    data, plan = open_and_resolve(plan)
    store = None
    if out is not None:
        check_folder(Path(out))
        store = StoreReader.open_existing(out) if is_store(Path(out)) else None
    with create_backend(plan, execution) as workers:
        check_data_fits_model(workers.identity, data)
        observer.on_start(plan, describe_data(data), workers.identity, workers.size)
        estimate = estimate_cost(plan, data, workers, store)
    observer.on_estimate(estimate)
    return estimate


def open_and_resolve(plan: Plan) -> tuple[Dataset, Plan]:
    """Open the data and resolve the plan; errors are raised before a model is loaded."""
    data = open_dataset(plan.data, text=plan.text, pair=plan.pair, label=plan.label)
    return data, resolve_plan(plan, data)


def describe_data(data: Dataset) -> str:
    """Return a line with the data's name and columns, and which were guessed."""
    facts = data.facts()
    names = {"text": "picture"} if facts["pictures"] else {}
    columns = [f"{names.get(role, role)} from {name!r}" for role, name in facts["columns"].items()]
    guessed = ", ".join(map(str, facts["guessed"]))
    return ", ".join([data.name, *columns]) + (f" (guessed: {guessed})" if guessed else "")


def _match_labels(plan: Plan, data: Dataset, identity: Identity) -> dict[str, Any] | None:
    """Return the match of the data's labels to the model's, and its rule; None without a match.

    Rows outside the plan are read too: the meaning of numbers depends on which occur. With the target "gold",
    ambiguous numbers are refused: labels counted from 1 would be taken for the next class.
    """
    facts = data.facts()
    if identity.model.get("task", "single_label") != "single_label" or not (
        facts["pictures"] or "label" in facts["columns"]
    ):
        return None
    most = _MAX_REMOTE_LABEL_ROWS if facts["kind"] == "hub" else _MAX_LABEL_ROWS
    rows = (row for row in islice(data, most) if not isinstance(row, SkippedRow))
    data_labels = [row.example.label for row in rows if row.example.label is not None]
    labels = tuple(identity.model.get("labels") or ())
    match = match_label_names(data_labels, labels)
    if match is not None:
        return match.to_dict()
    alone = [match_label_names([label], labels) for label in set(data_labels)]
    if (
        plan.target == GOLD
        and GOLD not in labels
        and any(match and match.by != "name" for match in alone)
    ):
        find_label_indices(data_labels, labels)  # raises the error with the reason
    return None


def check_data_fits_model(identity: Identity, data: Dataset) -> None:
    """Raise if the model has no head or takes another kind of input: every row would fail."""
    name, takes = identity.model.get("name"), identity.model.get("modality", "both")
    if identity.model.get("task") == "none":
        raise NoHead(
            f"{name!r} is a {identity.model.get('class')}: it has no head that whence knows, so there is no "
            "prediction to explain. Give a model for a task, such as one that classifies."
        )
    modality = "picture" if data.facts()["pictures"] else "text"
    if takes not in ("both", modality):
        raise BadPlan(
            f"{data.name} has {modality}s, and {name!r} takes {takes}s. Give another model, or other data."
        )


@dataclass
class RunSession:
    """A session of a run: windows are opened as needed, and closed after their last chunk; then attention is audited."""

    plan: Plan
    execution: Execution
    data: Dataset
    store: Store
    observer: RunObserver
    retry_failed: bool = False
    # Open windows by number, with the examples that are left of each chunk.
    _open: dict[int, tuple[Window, Counter[int]]] = field(default_factory=dict)

    def compute(self, workers: Backend) -> None:
        """Compute all missing explanations and metrics, and store them."""
        plan, data, identity, facts = self.plan, self.data, workers.identity, self.data.facts()
        check_data_fits_model(identity, data)
        # Of single texts for a model of pairs, or the reverse.
        code = "two-texts" if "pair" in facts["columns"] else "one-text"
        warning = None if facts["pictures"] else identity.warnings.get(code)
        if warning is not None:
            warnings.warn(warning, InputWarning, stacklevel=2)
        known = {"labels": _match_labels(plan, data, identity), "warning": warning}
        self.store.begin(plan, identity, {**facts, **known})
        self.observer.on_start(plan, describe_data(data), identity, workers.size)
        cost = estimate_cost(plan, data, workers, self.store, PROBED_SHARE)
        session = {
            "backend": self.execution.backend,
            "device": self.execution.device,
            "workers": workers.size,
            "batch_size": self.execution.batch_size,
            "software": dict(identity.software),
            "rows": cost.rows,
            "examples": cost.own,
            "of": data.count(),
        }
        self.store.log_event("start", session)
        self.observer.on_estimate(cost)
        try:
            for result in workers.map(self._iterate_tasks(identity)):
                self.store.add_result(result)
                self.observer.on_task_done(result)
                window, left = self._open[result.window]
                left[result.chunk] -= result.n_examples
                if not any(left.values()):
                    self._close_window(window)
        except KeyboardInterrupt:
            self.observer.on_interrupt()  # before the workers are killed, which a second interrupt must not disturb
            raise

    def _iterate_tasks(self, identity: Identity) -> Iterator[Task]:
        """Yield the missing tasks window by window; a complete window is closed at once."""
        rows = iterate_selected_rows(self.data, self.plan)
        for window in iterate_windows(rows, tested=bool(self.plan.metrics)):
            if window.bad and self.plan.bad_rows == "fail":
                raise unreadable_row_error(window.bad[0])
            status = self.find_missing(window, self.store.find_results(window), identity)
            self.observer.on_window(status)
            left = Counter({task.chunk: len(task.items) for task in status.missing})
            self._open[window.number] = (window, left)
            if not status.missing:
                self._close_window(window)
            yield from status.missing

    def _close_window(self, window: Window) -> None:
        self.store.close_window(window)
        del self._open[window.number]

    def find_missing(self, window: Window, held: WindowResults, identity: Identity) -> WindowStatus:
        """Return the state of a window, with a task for each incomplete chunk of this shard."""

        def lacks(item: Item, method: str) -> bool:
            settings = (identity.explained[method], *identity.tested[method].values())
            keys = (identity.compute_key(setting, item) for setting in settings)
            return any(held.needs_result(item.row, key, self.retry_failed) for key in keys)

        here, failed = Counter(dict.fromkeys(identity.explained, 0)), Counter[str]()
        examples, missing = 0, list[Task]()
        for number, items in enumerate(window.chunks):
            if is_in_other_shard(self.plan, window.number, number):
                continue
            examples += len(items)
            lacking = dict.fromkeys(here, items)
            if held:  # no results in most windows of a new run: saves computing keys
                lacking = {name: tuple(i for i in items if lacks(i, name)) for name in here}
            methods = tuple(name for name, some in lacking.items() if some)
            rows = {item.row: item for some in lacking.values() for item in some}
            if methods:
                task_items = tuple(rows[row] for row in sorted(rows))
                missing.append(Task(window.number, number, task_items, methods))
            for name, setting in identity.explained.items():
                stored = [item for item in items if name not in methods or item.row not in rows]
                here[name] += len(stored)
                failed[name] += sum(
                    held.has_failed(item.row, identity.compute_key(setting, item))
                    for item in stored
                )
        return WindowStatus(window.number, examples, len(window.bad), here, failed, missing)

    def run_audit(self) -> None:
        """Run the audit experiments of a plan that its folder lacks.

        A failed experiment is stored with its reason. The model is loaded only if an experiment is missing.
        """
        plan, data = self.plan, self.data
        rows = iterate_selected_rows(data, plan)
        examples = [row.example for row in rows if not isinstance(row, SkippedRow)]
        experiments = select_experiments(list(plan.audit), plan.audit_params, can_train=False)
        keys = _compute_experiment_keys(plan, experiments, examples, self.store.manifest["model"])
        stored = {
            name: record["experiment"]
            for name, record in self.store.audits().items()
            if record["key"] == keys.get(name) and not (self.retry_failed and record["error"])
        }
        missing = [name for name in keys if name not in stored]
        if not missing:
            return
        explainer = load(
            plan.model,
            device=self.execution.device,
            dtype=plan.dtype,
            revision=plan.revision,
            checkpoint=self.execution.checkpoint,
        )
        parts = _StoredExperiments(stored, self, keys)
        try:
            audit(
                explainer,
                Dataset.from_examples(examples, data.name, **(data.facts().get("columns") or {})),
                experiments=list(keys),
                params={experiment.name: dict(experiment.params) for experiment in experiments},
                site=ATTENTION_LOCATION,
                special=SPECIAL_TOKENS,
                truncate=plan.truncate,
                seed=plan.seed,
                parts=parts,
            )
        except WhenceError as error:
            # An error of the model or the data as a whole: all experiments fail, the run's results stay.
            for name in missing:
                parts.add_failure(name, error)
