"""The manifest: what a store's results are results of. The same for all who run the plan, so no times, no hosts."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.core.errors import BadStore
from whence.core.places import public_address, public_name
from whence.run.keys import setting_digest
from whence.run.plan import Plan
from whence.run.store.schema import VERSION
from whence.run.store.seal import unsealed
from whence.run.task import Identity

FORMAT = "whence run"
Manifest = dict[str, Any]
# What all explanations of a folder have in common, and all tests: methods stand side by side in one table.
_ALIKE = {
    "explanation": ("target", "truncate", "dtype"),
    "test": ("remove", "mlm", "unit", "rankings"),
}


def stated(plan: Plan, identity: Identity, data: Mapping[str, Any]) -> Manifest:
    """Say what a run will find out; folders and files by their names, as it is the same on every machine."""
    asked = {name: _plain(value) for name, value in vars(plan).items() if name != "shard"}
    asked |= {"model": public_name(plan.model), "data": public_address(plan.data)}
    asked["mlm"] = None if plan.mlm is None else public_name(plan.mlm)
    asked["methods"] = list(identity.explained)
    asked["metrics"] = _together(*([*tested] for tested in identity.tested.values()))
    return {
        "format": FORMAT,
        "version": VERSION,
        "plan": asked,
        "parts": None if plan.shard is None else [list(plan.shard)],
        "data": _plain(data),
        "model": _plain(identity.model),
        "code": identity.code,
        "settings": _plain(identity.settings),
        "explained": _plain(identity.explained),
        "tested": _plain(identity.tested),
        "state": "running",
        "totals": None,
    }


def read(raw: bytes, where: str) -> Manifest:
    """Read a manifest: a ValueError where it is damaged, BadStore where it is of a whence that is not known yet."""
    found = unsealed(raw)
    if found.get("format") != FORMAT:
        raise ValueError("it is not of a run")
    if found["version"] > VERSION:
        raise BadStore(
            f"{where!r} was written by a newer whence: its format is {found['version']}, and this one knows formats "
            f"up to {VERSION}. Update whence."
        )
    return found


def check_same(old: Manifest, new: Manifest, where: str) -> None:
    """Refuse to mix the results of two models, data sets, samples or seeds, or methods that cannot be compared."""
    for what, of, names in (
        ("model", "model", ("fingerprint", "name")),
        ("data set", "data", ("name", "kind")),
        ("choice of columns", "data", ("columns",)),
        ("sample", "plan", ("sample",)),
        ("seed", "plan", ("seed",)),
    ):
        have, want = ([side[of].get(name) for name in names] for side in (old, new))
        if what == "model" and have[0] is not None and have[0] == want[0]:
            continue  # by another name, or from another place
        if have != want:
            raise _other(where, what, names, have, want)
    for kind, facts in _ALIKE.items():
        there, now = (_first(side, kind) for side in (old, new))
        for name in facts if there and now else ():
            if there.get(name) != now.get(name):
                raise _other(where, name, [name], [there.get(name)], [now.get(name)])


def _first(side: Manifest, kind: str) -> Mapping[str, Any]:
    """Return what one of the settings that are asked for now says; nothing where there is none of that kind."""
    known = (side["settings"].get(one, {}) for one in settings_of(side))
    return next((facts for facts in known if facts.get("kind") == kind), {})


def _other(
    where: str, what: str, names: Sequence[str], have: Sequence[Any], want: Sequence[Any]
) -> BadStore:
    return BadStore(
        f"{where!r} holds results of another {what}: {_named(names, have)} there, {_named(names, want)} now. "
        "Give another folder, or ask for what is there."
    )


def joined(old: Manifest, new: Manifest) -> Manifest:
    """Say what there is when what is new comes to what is there."""
    plan = {**old["plan"], **new["plan"]}
    for names in ("methods", "metrics", "audit"):
        plan[names] = _together(old["plan"][names], new["plan"][names])
    limits = (old["plan"]["limit"], new["plan"]["limit"])
    plan["limit"] = None if None in limits else max(limits)
    settings = {**old["settings"], **new["settings"]}
    explained = {**old["explained"], **new["explained"]}
    # Of an explanation that is made anew, by other code or parameters, the tests of the old one say nothing; and by a
    # metric that has other parameters now, nobody could compare what is old with what is new.
    params = {
        metric: settings[digest].get("params")
        for own in new["tested"].values()
        for metric, digest in own.items()
    }
    kept = {
        method: {
            metric: digest
            for metric, digest in own.items()
            if (facts := settings.get(digest, {})).get("explanation", explained[method])
            == explained[method]
            and facts.get("params") == params.get(metric, facts.get("params"))
        }
        for method, own in old["tested"].items()
    }
    tested = {
        method: {**kept.get(method, {}), **new["tested"].get(method, {})}
        for method in {**kept, **new["tested"]}
    }
    return {
        **new,
        "plan": plan,
        "parts": _parts(old["parts"], new["parts"]),
        "settings": settings,
        "explained": explained,
        "tested": tested,
    }


def same_question(one: Manifest, other: Manifest) -> bool:
    """Say whether two manifests differ in nothing but how far the work is."""
    return {**one, "state": "", "totals": None} == {**other, "state": "", "totals": None}


def covers(asked: Manifest, wanted: Manifest) -> bool:
    """Say whether who does what is asked has done all that is wanted."""
    same = ("parts", "explained", "tested")
    return all(asked[one] == wanted[one] for one in same) and all(
        asked["plan"][one] == wanted["plan"][one] for one in ("limit", "audit")
    )


def remembered(begun: Mapping[str, Any]) -> Manifest | None:
    """Return the manifest that the journal noted, where it did; its settings only as far as their hashes fit."""
    noted = begun.get("manifest")
    if not isinstance(noted, dict) or noted.get("format") != FORMAT or noted["version"] > VERSION:
        return None
    known = {
        name: facts for name, facts in noted["settings"].items() if setting_digest(facts) == name
    }
    return {**noted, "settings": known, "state": "running", "totals": None}


def settings_of(manifest: Mapping[str, Any]) -> list[str]:
    """Return the settings that results are asked for now; those of earlier code or parameters are left out."""
    tests = (digest for tested in manifest["tested"].values() for digest in tested.values())
    return [*manifest["explained"].values(), *tests]


def _parts(old: list[list[int]] | None, new: list[list[int]] | None) -> list[list[int]] | None:
    """Join the parts of a run that was dealt out; None is all of it."""
    if old is None or new is None:
        return None
    parts = sorted({(of, part) for part, of in (*old, *new)})
    for of in {of for of, _ in parts}:
        if sum(one == of for one, _ in parts) == of:
            return None
    return [[part, of] for of, part in parts]


def _together(*lists: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for names in lists for name in names))


def _plain(value: Any) -> Any:
    """Return plain data as JSON gives it back."""
    if isinstance(value, Mapping):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if value is None or isinstance(value, (str, bool, int, float)) else str(value)


def _named(names: Sequence[str], values: Sequence[Any]) -> str:
    stated = [
        f"{name} {value!r}" for name, value in zip(names, values, strict=True) if value is not None
    ]
    return ", ".join(stated) or "none"
