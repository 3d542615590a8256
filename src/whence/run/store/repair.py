"""Make a store whole again: what is damaged is set aside, and the next run fills the holes."""

from pathlib import Path

from whence.run.store import rows
from whence.run.store.layout import Layout
from whence.run.store.reading import check_used
from whence.run.store.schema import TABLES
from whence.run.store.store import Store
from whence.run.store.verify import Problem, windows_of


def repair(folder: str | Path) -> list[Problem]:
    """Repair a store, and return what was done to which file."""
    check_used(Layout(folder))
    with Store.locked(folder) as store:
        before = len(store.damage())
        done = [
            Problem(
                path.relative_to(store.folder).as_posix(), "removed: a run was killed writing it"
            )
            for path in store.tidy()
        ]
        known = store.recalled()
        if known is None:
            done.append(
                Problem("manifest.json", "lost: the same `whence run` as before makes it again")
            )
        else:
            store.state(known)
        for window in windows_of(store.layout):
            found = store.mended(window, thorough=True)
            if known is not None and known["state"] == "complete" and found.index and found.chunks:
                tables = {name: rows.gathered(name, list(found.tables(name))) for name in TABLES}
                store.place(found, found.index, tables)
        store.audits()
        aside = store.damage()[before:]
        if known is not None:
            store.settled(known["state"] == "complete" and not aside)
    return [*done, *(Problem(one["file"], f"set aside: {one['why']}") for one in aside)]
