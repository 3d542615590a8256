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
