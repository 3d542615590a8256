"""Results of several folders in one: the parts of a run that was dealt out, or runs of other methods."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from whence.core.errors import BadStore
from whence.core.typed import typed
from whence.run.store import commit, manifest, rows
from whence.run.store.lock import at_rest
from whence.run.store.opened import Opened, opened
from whence.run.store.reading import Reading
from whence.run.store.schema import TABLES
from whence.run.store.store import Store
from whence.run.store.verify import windows_of


def merge(into: str | Path, sources: Sequence[str | Path]) -> Store:
    """Take the results of other folders into one, which may not exist yet; the others stay as they are."""
    others = [Reading.read(one) for one in sources]
    for one in others:
        if one.folder.resolve() == Path(into).resolve():
            raise BadStore(f"{str(into)!r} cannot be merged into itself. Give other folders.")
        manifest.check_same(others[0].manifest, one.manifest, str(others[0].folder))
    with ExitStack() as stack:
        for one in others:
            stack.enter_context(at_rest(one.folder))
        store = stack.enter_context(Store.locked(into))
        store.tidy()
        there, brought = store.recalled(), others[0].manifest
        for one in others[1:]:
            brought = manifest.joined(brought, one.manifest)
        if there is not None:
            manifest.check_same(there, brought, str(store.folder))
        known = brought if there is None else manifest.joined(there, brought)
        # What is there may be a merge that was killed: the others have all of it, if they have all that is asked for.
        whole = all(one.manifest["state"] == "complete" for one in others) and (
            there is None or there["state"] == "complete" or manifest.covers(brought, known)
        )
        store.state({**known, "state": "running", "totals": None})
        for window in sorted({window for one in others for window in windows_of(one.layout)}):
            _window(store, others, window)
        for one in others:
            _rest(store, one)
        tested_alike = len({frozenset(tested) for tested in known["tested"].values()}) <= 1
        store.settled(whole and tested_alike)
        store.journal("merge", {"from": [one.folder.name for one in others]})
    return store


def _window(store: Store, others: Sequence[Reading], window: int) -> None:
    """Take the committed rows of a window; what is pending stays so, for the next run to complete."""
    own = store.mended(window)
    committed = Opened(index=own.index, parts=own.parts)
    parts = [committed]
    for one in others:
        found = opened(one.layout, window, thorough=True)
        if found.damage or found.coming is not None:
            path, why = (
                found.damage[0] if found.damage else (one.layout.coming(window), "unfinished")
            )
            raise BadStore(
                f"{str(path)!r} is damaged: {why}. First make it whole: `whence store repair {typed(one.folder)}`."
            )
        for path, _ in found.chunks:
            store.keep(store.folder / "pending" / path.name, path.read_bytes())
        parts.append(found)
    bounds = [found.index for found in parts if found.index is not None]
    if bounds:
        widest = bounds[0]
        for more in bounds[1:]:
            widest = commit.further(widest, more)
        tables = {
            name: rows.gathered(
                name, [rows.read(one.parts[name]) for one in parts if name in one.parts]
            )
            for name in TABLES
        }
        store.place(committed, widest, tables)


def _rest(store: Store, one: Reading) -> None:
    """Take audits that are not there yet or failed, and what the journal says that the work took."""
    there = store.audits()
    for name, found in one.audits().items():
        if name not in there or (there[name].get("error") and not found.get("error")):
            store.add_audit(name, found)
    known = {(event["at"], event["window"], event["chunk"]) for event in store.events("task")}
    for event in one.events("task"):
        if (event["at"], event["window"], event["chunk"]) not in known:
            store.journal("task", event)
