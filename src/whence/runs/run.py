"""Explain, test and audit a data set, so that nothing is lost whatever happens.

The order of events: the plan is checked without loading anything; the folder is locked; the workers load the model;
the folder is asked whether it belongs to this plan; the cost is estimated; then windows are opened one by one, what
is missing of them goes to the workers as tasks, and what comes back is written at once; at last attention is audited.
"""

import os
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan, CannotWrite, NoHead
from whence.data.sets.labels import label_names, label_places
from whence.data.sets.source import Bad, Source, source
from whence.evaluation.portions import GOLD
from whence.explainer.intake import InputWarning
from whence.run.backends import Backend
from whence.run.backends import backend as chosen_backend
from whence.run.choice import chosen, elsewhere
from whence.run.chunks import Window, windows
from whence.run.cost import Estimate, estimated
from whence.run.plan import Manner, Plan
from whence.run.plan.settle import settled, unreadable
from whence.run.results import Run
from whence.run.store import Held, Store
from whence.run.task import Done, Identity, Item, Task
from whence.run.watch import Opened, Silent, Watch

_SEEN, _SEEN_FAR = (
    50_000,
    1_000,
)  # rows whose labels are looked at; fewer of data that come from afar


def run(
    plan: Plan,
    out: str | Path,
    manner: Manner = Manner(),  # noqa: B008 - it cannot be changed
    *,
    retry_failed: bool = False,
    watch: Watch | None = None,
) -> Run:
    """Do what a plan says and is not yet done in the folder `out`, and return what is there in the end."""
    watch = Silent() if watch is None else watch
    data, plan = checked(plan)
    check_folder(out)
    with Store.locked(out) as store:
        try:
            with chosen_backend(plan, manner) as workers:
                _worked(plan, data, manner, store, workers, retry_failed, watch)
            if plan.audit and (plan.shard is None or plan.shard[0] == 1):
                from whence.run.audits import audited  # few runs have one, and it brings a lot

                audited(plan, manner, data, store, watch, retry_failed)
            store.finish()
        except KeyboardInterrupt:
            watch.interrupted()
            raise
    return Run(out)


def _worked(
    plan: Plan,
    data: Source,
    manner: Manner,
    store: Store,
    workers: Backend,
    retry_failed: bool,
    watch: Watch,
) -> None:
    """Explain and test everything that is missing."""
    identity = workers.identity
    check_fits(identity, data)
    warning = _warning(data, identity)
    if warning is not None:
        warnings.warn(warning, InputWarning, stacklevel=2)
    known = {"labels": _labels(plan, data, identity), "warning": warning}
    store.begin(plan, identity, {**data.facts(), **known})
    watch.start(plan, told(data), identity, workers.size)
    cost = estimated(plan, data, workers, store)
    counts = {"rows": cost.rows, "examples": cost.own, "of": data.count()}
    store.journal("start", {**_session(manner, workers), **counts})
    watch.estimate(cost)
    work = _Work(plan, data, store, identity, retry_failed, watch)
    try:
        for done in workers.map(work.tasks()):
            store.add(done)
            watch.done(done)
            work.finished(done)
    except KeyboardInterrupt:
        watch.interrupted()  # before the workers are ended, which another one must not disturb
        raise


def estimate(
    plan: Plan,
    out: str | Path | None = None,
    manner: Manner = Manner(),  # noqa: B008 - it cannot be changed
    watch: Watch | None = None,
) -> Estimate:
    """Say what a run would take, and write nothing at all."""
    watch = Silent() if watch is None else watch
    data, plan = checked(plan)
    if out is not None:
        check_folder(out)
    store = None if out is None else Store.reading(out)
    with chosen_backend(plan, manner) as workers:
        check_fits(workers.identity, data)
        watch.start(plan, told(data), workers.identity, workers.size)
        found = estimated(plan, data, workers, store)
    watch.estimate(found)
    return found


def checked(plan: Plan) -> tuple[Source, Plan]:
    """Open the data and settle the plan: whatever is wrong with them is said before a model is loaded."""
    data = source(plan.data, text=plan.text, pair=plan.pair, label=plan.label)
    return data, settled(plan, data)


def told(data: Source) -> str:
    """Say in one line what is read, and what of it was guessed."""
    facts = data.facts()
    seen = {"text": "picture"} if facts["pictures"] else {}
    taken = [f"{seen.get(role, role)} from {name!r}" for role, name in facts["columns"].items()]
    guessed = ", ".join(map(str, facts["guessed"]))
    return ", ".join([data.name, *taken]) + (f" (guessed: {guessed})" if guessed else "")


def check_folder(out: str | Path) -> None:
    """Find out before the work that results cannot be written there."""
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise CannotWrite(f"Cannot write to {str(out)!r}: it is a file. Give a folder: --out DIR.")
    there = next(one for one in (out.absolute(), *out.absolute().parents) if one.exists())
    if not os.access(there, os.W_OK | os.X_OK):
        raise CannotWrite(
            f"Cannot write to {str(out)!r}: no permission. Give a folder that you may write to: --out DIR."
        )


def _warning(data: Source, identity: Identity) -> str | None:
    """Return what must be known of all inputs: single texts for a model of pairs, or pairs for one of texts."""
    facts = data.facts()
    if facts["pictures"]:
        return None
    return identity.warnings.get("two-texts" if "pair" in facts["columns"] else "one-text")


def _labels(plan: Plan, data: Source, identity: Identity) -> dict[str, Any] | None:
    """Return what the model calls the labels of the data, and how that was found out; None where nobody can tell.

    All rows are looked at, also those that the plan leaves out: of numbers it depends on which of them occur. Where
    each example's own label is explained, numbers that may mean something else are refused: those counted from 1
    would be taken for the class after theirs.
    """
    facts = data.facts()
    if identity.model.get("task", "single_label") != "single_label" or not (
        facts["pictures"] or "label" in facts["columns"]
    ):
        return None
    most = _SEEN_FAR if facts["kind"] == "hub" else _SEEN
    seen = (one for one in islice(data, most) if not isinstance(one, Bad))
    said = [one.example.label for one in seen if one.example.label is not None]
    labels = tuple(identity.model.get("labels") or ())
    found = label_names(said, labels)
    if found is not None:
        return found.to_dict()
    alone = [label_names([one], labels) for one in set(said)]
    if (
        plan.target == GOLD
        and GOLD not in labels
        and any(one and one.by != "name" for one in alone)
    ):
        label_places(said, labels)  # which says what is wrong
    return None


def check_fits(identity: Identity, data: Source) -> None:
    """Refuse data that the model cannot take: every row would fail, and texts be taken for names of pictures."""
    name, takes = identity.model.get("name"), identity.model.get("modality", "both")
    if identity.model.get("task") == "none":
        raise NoHead(
            f"{name!r} is a {identity.model.get('class')}: it has no head that whence knows, so there is no "
            "prediction to explain. Give a model for a task, such as one that classifies."
        )
    given = "picture" if data.facts()["pictures"] else "text"
    if takes not in ("both", given):
        raise BadPlan(
            f"{data.name} has {given}s, and {name!r} takes {takes}s. Give another model, or other data."
        )


def _session(manner: Manner, workers: Backend) -> dict[str, Any]:
    return {
        "backend": manner.backend,
        "device": manner.device,
        "workers": workers.size,
        "batch_size": manner.batch_size,
    }


class _Work:
    """What is left to do: windows are opened as workers need them, and closed when their last chunk is in."""

    def __init__(
        self,
        plan: Plan,
        data: Source,
        store: Store,
        identity: Identity,
        retry_failed: bool,
        watch: Watch,
    ) -> None:
        self._plan, self._data, self._store = plan, data, store
        self._identity, self._retry, self._watch = identity, retry_failed, watch
        self._open: dict[int, tuple[Window, set[int]]] = {}  # by number, with the chunks to come

    def tasks(self) -> Iterator[Task]:
        """Yield what is missing; a window of which nothing is missing is closed at once."""
        for window in windows(chosen(self._data, self._plan), tested=bool(self._plan.metrics)):
            if window.bad and self._plan.bad_rows == "fail":
                raise unreadable(window.bad[0])
            held = self._store.held(window)
            opened = self._opened(window, held)
            self._watch.window(opened)
            self._open[window.number] = (window, {task.chunk for task in opened.missing})
            if not opened.missing:
                self._close(window)
            yield from opened.missing

    def finished(self, done: Done) -> None:
        """Count a chunk of a window, and close the window after the last."""
        window, left = self._open[done.window]
        left.remove(done.chunk)
        if not left:
            self._close(window)

    def _close(self, window: Window) -> None:
        self._store.commit(window)
        del self._open[window.number]

    def _opened(self, window: Window, held: Held) -> Opened:
        """Find out what is missing of a window: a task for each chunk of it that lacks something."""
        own = [
            (n, items)
            for n, items in enumerate(window.chunks)
            if not elsewhere(self._plan, window.number, n)
        ]
        here, failed = (
            dict.fromkeys(self._identity.explained, 0),
            dict.fromkeys(self._identity.explained, 0),
        )
        missing: list[Task] = []
        empty = not held  # as of most windows of a new run, and then no key need be computed
        for number, items in own:
            lacks = {
                name: [i for i in items if empty or self._lacks(i, name, held)] for name in here
            }
            methods = tuple(name for name, some in lacks.items() if some)
            rows = {item.row: item for some in lacks.values() for item in some}
            if methods:
                task = Task(
                    window.number, number, tuple(rows[row] for row in sorted(rows)), methods
                )
                missing.append(task)
            for name in here:
                kept = [item for item in items if name not in methods or item.row not in rows]
                here[name] += len(kept)
                failed[name] += sum(self._failed(item, name, held) for item in kept)
        examples = sum(len(items) for _, items in own)
        return Opened(window.number, examples, len(window.bad), here, failed, missing)

    def _lacks(self, item: Item, method: str, held: Held) -> bool:
        settings = (self._identity.explained[method], *self._identity.tested[method].values())
        return any(
            held.lacks(item.row, self._identity.key(one, item), self._retry) for one in settings
        )

    def _failed(self, item: Item, method: str, held: Held) -> bool:
        """Say whether there is an explanation, and it is a failure: one to be had again, if that were asked for."""
        key = self._identity.key(self._identity.explained[method], item)
        return held.lacks(item.row, key, True) and not held.lacks(item.row, key, False)


"""The audit of a run: experiments on attention over its data, each of them kept as soon as it is there."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from whence.audit.chosen import Chosen, choose
from whence.audit.composed import Parts, composed
from whence.audit.result import Audit
from whence.audit.run import audit
from whence.audit.subject import Special
from whence.core.errors import WhenceError
from whence.data.sets.digest import example_digest
from whence.data.sets.examples import Example, Read
from whence.data.sets.source import Bad, Source
from whence.explainer import load
from whence.run.choice import chosen as rows_of
from whence.run.code import code_of_audits, source_of
from whence.run.keys import digest
from whence.run.plan import Manner, Plan
from whence.run.watch import Watch

if TYPE_CHECKING:
    from whence.run.store import Store

SITE = "last"
SPECIAL: Special = "keep"


def audited(
    plan: Plan,
    manner: Manner,
    data: Source,
    store: "Store",
    watch: Watch,
    retry_failed: bool = False,
) -> None:
    """Make the experiments of a plan that are not in its folder yet.

    One that cannot be made is kept, too, with the reason. The model is loaded if there is anything to do.
    """
    examples = [one.example for one in rows_of(data, plan) if not isinstance(one, Bad)]
    wanted = choose(list(plan.audit), plan.audit_params, can_train=False)
    keys = _keys(plan, wanted, examples, store.manifest["model"])
    there = {
        name: one
        for name, one in store.audits().items()
        if one["key"] == keys.get(name) and not (retry_failed and one["error"])
    }
    missing = [one.name for one in wanted if one.name not in there]
    if not missing:
        return
    explainer = load(
        plan.model,
        device=manner.device,
        dtype=plan.dtype,
        revision=plan.revision,
        checkpoint=manner.checkpoint,
    )
    parts = _Kept(store, watch, keys, there)
    columns: Mapping[str, str] = data.facts().get("columns") or {}
    given = Read(
        examples, data.name, columns.get("text"), columns.get("pair"), columns.get("label")
    )
    try:
        audit(
            explainer,
            given,
            experiments=[one.name for one in wanted],
            params={one.name: dict(one.params) for one in wanted},
            site=SITE,
            special=SPECIAL,
            truncate=plan.truncate,
            seed=plan.seed,
            parts=parts,
        )
    except WhenceError as error:
        # Of the model or the data as a whole: no experiment can be made, and the rest of the run stands.
        for name in missing:
            parts.failed(name, error)


def audit_of(store: "Store") -> Audit | None:
    """Return the audit of the experiments that are in a folder; None where there are none."""
    manifest = store.manifest
    kept = {name: one for name, one in store.audits().items() if name in manifest["plan"]["audit"]}
    found = {name: one for name, one in kept.items() if one["experiment"] is not None}
    if not found:
        return None
    # More of the data may have been asked for since: the experiments on most of it count, as far as they are made.
    last = max((one["about"] for one in found.values()), key=lambda about: about["data"]["given"])
    same = [one["experiment"] for one in found.values() if one["about"] == last]
    return Audit(
        composed(
            same,
            last,
            origin={
                "model": manifest["model"],
                "provenance": {"dtype": manifest["model"]["dtype"]},
            },
            why_not={name: one["why"] for name, one in kept.items() if one["experiment"] is None},
            calls=None,
            seconds=None,
        )
    )


class _Kept(Parts):
    """Keeps every experiment in the folder: what it found, without what it took, which goes into the journal."""

    def __init__(
        self,
        store: "Store",
        watch: Watch,
        keys: Mapping[str, str],
        there: Mapping[str, Mapping[str, Any]],
    ) -> None:
        super().__init__({name: one["experiment"] for name, one in there.items()})
        self._store, self._watch, self._keys = store, watch, keys

    def begin(self, name: str) -> None:
        """Tell who watches."""
        self._watch.auditing(name)

    def keep(self, found: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        """Write what was found."""
        name = found["name"]
        took = {what: found[what] for what in ("seconds", "calls")}
        bare = {what: one for what, one in found.items() if what not in took}
        self._add(name, {"about": dict(about), "experiment": bare, "error": None, "why": None})
        self._store.journal("audit", {"experiment": name, **took})

    def failed(self, name: str, error: WhenceError) -> None:
        """Write that it could not be made."""
        self._add(name, {"about": None, "experiment": None, "error": error.code, "why": str(error)})

    def _add(self, name: str, found: Mapping[str, Any]) -> None:
        self._store.add_audit(name, {"key": self._keys[name], **found})


def _keys(
    plan: Plan, wanted: Sequence[Chosen], examples: Sequence[Example], model: Mapping[str, Any]
) -> dict[str, str]:
    """Return, by experiment, the hash of all that its result depends on."""
    shared = {
        "code": code_of_audits(),
        "model": {name: model[name] for name in ("fingerprint", "tokenizer", "processor", "dtype")},
        "data": digest([example_digest(one) for one in examples]),
        # Where an experiment needs labels, examples without one are left out of all.
        "labels": any(one.entry.facts["labels"] for one in wanted),
        "site": SITE,
        "special": SPECIAL,
        "truncate": plan.truncate,
        "seed": plan.seed,
    }
    return {
        one.name: digest(
            {
                **shared,
                "experiment": one.name,
                "params": dict(one.params),
                "source": source_of(one.entry),
            }
        )
        for one in wanted
    }


"""`whence.run`: a plan, a file of one, or its parts by name."""

from dataclasses import fields
from pathlib import Path
from typing import Any

from whence.core.errors import BadPlan
from whence.data.sets.frames import is_frame
from whence.run.plan import Manner, Plan
from whence.run.plan.fields import MANNER, over, planned
from whence.run.plan.file import OUT, read_plan
from whence.run.results import Run
from whence.run.run import run as do
from whence.run.watch import Watch


def run(
    plan: Plan | str | Path | None = None,
    out: str | Path | None = None,
    *,
    manner: Manner | None = None,
    retry_failed: bool = False,
    watch: Watch | None = None,
    **given: Any,
) -> Run:
    """Explain, test and audit a data set, and keep the results in a folder; what is there already is not done again.

    `plan`: a `Plan`, the path of a TOML file, or nothing: then `model=`, `data=`, `methods=` and whatever else a plan
    has are given by name, and so are `backend=`, `workers=`, `device=` and the rest of a `Manner`. What is given by
    name wins over what the plan says. `out`: the folder, unless a file names it. `retry_failed`: try again what
    failed before. `watch` is told how it goes. Interrupted or killed at any moment, the same call goes on.
    """
    where, said = "The plan", dict[str, Any]()
    if isinstance(plan, str | Path):
        where, said = str(plan), read_plan(plan)
    elif isinstance(plan, Plan):
        said = {one.name: getattr(plan, one.name) for one in fields(plan)}
    elif plan is not None:
        raise BadPlan(
            f"A plan is a whence.Plan or the path of a .toml file. Got {type(plan).__name__}."
        )
    for own in (said if isinstance(plan, Plan) else {}, given):
        if isinstance(own.get("target"), list):
            raise BadPlan(
                f"target={own['target']!r} is a list, one target each, and a run explains one for all examples. Give "
                "one target, 'gold' for each example's own label, or a contrast, which is a tuple: ('a', 'b')."
            )
    if is_frame(given.get("data")):
        raise BadPlan(
            f"data is a table in memory ({type(given['data']).__name__}), and a run that goes on has to read its "
            "data again. Save it as a .parquet or .csv file, and give the path of that: data=..., with text=... and "
            "label=... as here. whence.evaluate takes a table as it is."
        )
    if manner is not None:
        said = {**said, **{name: getattr(manner, name) for name in MANNER}}
    folder = said.pop(OUT, None) if out is None else out
    said.pop(OUT, None)
    if folder is None:
        raise BadPlan(
            "There is no folder for the results. Name it: out=..., or out = ... in the plan."
        )
    settled, way = planned(over(said, given), where)
    return do(settled, folder, way, retry_failed=retry_failed, watch=watch)
