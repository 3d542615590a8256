"""Is a store what it should be? Everything is read, nothing is changed."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from whence.core.errors import BadStore
from whence.data.sets.examples import Example
from whence.run.keys import digest, given_digest, key, setting_digest
from whence.run.store import commit, rows
from whence.run.store.layout import Layout
from whence.run.store.lock import at_rest
from whence.run.store.opened import Opened, content, opened
from whence.run.store.reading import Reading, check_used
from whence.run.store.schema import ORDER, TABLES
from whence.run.store.seal import unsealed


class Problem(NamedTuple):
    """Something that is wrong: with which file, and what."""

    where: str
    what: str


def verify(folder: str | Path) -> Iterator[Problem]:
    """Go through all that is wrong with a store. BadStore where the folder is none at all."""
    layout = Layout(folder)
    check_used(layout)
    with at_rest(layout.folder):
        yield from problems(layout)


def problems(layout: Layout) -> Iterator[Problem]:
    """The same, while the folder is held by who asks."""
    store = None
    try:
        store = Reading.read(layout.folder)
    except BadStore as error:
        yield Problem("manifest.json", str(error))
    settings = None if store is None else store.manifest["settings"]
    for setting, facts in (settings or {}).items():
        if setting_digest(facts) != setting:
            yield Problem("manifest.json", f"the setting {setting} stands for something else")
    yield from _leftovers(layout)
    last = -1
    for window in windows_of(layout):
        found = opened(layout, window, thorough=True)
        yield from (Problem(_local(layout, path), why) for path, why in found.damage)
        if _orphaned(layout, window):
            yield Problem(_local(layout, layout.index(window)), "it is missing")
        if found.coming is not None:
            yield Problem(_local(layout, layout.coming(window)), "a commit was interrupted")
        if found.index is not None:
            if found.index["first"] is not None and found.index["first"] <= last:
                yield Problem(
                    _local(layout, layout.index(window)), "another window has these rows, too"
                )
            last = max(last, -1 if found.index["last"] is None else found.index["last"])
        for name in found.parts:
            for what in _table(found, name, settings):
                yield Problem(_local(layout, layout.part(name, window)), what)
        for path, tables in found.chunks:
            for name in TABLES:
                for what in _keys(name, tables[name], settings):
                    yield Problem(_local(layout, path), what)
    if store is not None:
        yield from _complete(store)


def _complete(store: Reading) -> Iterator[Problem]:
    """Hold what the manifest says against what is there, if it says that all is."""
    if store.manifest["state"] != "complete":
        return
    if store.manifest["totals"] != commit.totals(store.indices()):
        yield Problem("manifest.json", "its totals are not what the index adds up to")
    for window in store.lacking():
        yield Problem(_local(store.layout, store.layout.index(window)), "results are missing")
    for path in store.layout.chunks():
        yield Problem(_local(store.layout, path), "it was left over: its window is complete")


def _leftovers(layout: Layout) -> Iterator[Problem]:
    """Find files that a kill left, and those that are not of this store but would be read with it."""
    for path in layout.temporary():
        yield Problem(_local(layout, path), "it was being written when a run was killed")
    for name in TABLES:
        own = set(layout.own(name))
        for path in sorted((layout.folder / name).glob("*.parquet")):
            if path not in own:
                yield Problem(_local(layout, path), "it is not of this store; move it elsewhere")
    for path in layout.own("audits"):
        try:
            unsealed(content(path) or b"")
        except ValueError as error:
            yield Problem(_local(layout, path), str(error))


def _table(found: Opened, name: str, settings: Any) -> Iterator[str]:
    """Find what is wrong with the rows of a file that is what its index says."""
    raw = found.parts[name]
    table = rows.read(raw)
    stated = commit.facts_of(table, raw)
    commits = [one["tables"].get(name) for one in (found.index, found.coming) if one is not None]
    if stated not in commits:
        yield "its rows are not what the index says"
    placed = list(zip(*(table[column].to_pylist() for column in ORDER[name]), strict=True))
    if placed != sorted(placed):
        yield "its rows are not sorted"
    yield from _keys(name, table, settings)


def _keys(name: str, table: pa.Table, settings: Any) -> Iterator[str]:
    """Find rows that are there twice or that nobody asked for: of a file, or of a chunk that is still pending."""
    known = zip(table["row"].to_pylist(), table["key"].to_pylist(), strict=True)
    if twice := sum(number > 1 for number in Counter(known).values()):
        yield f"{twice:,} results are there more than once"
    if settings is None:
        return
    if strange := sorted(set(table["setting"].to_pylist()) - set(settings)):
        yield f"the manifest does not say what the setting {', '.join(strange)} stands for"
    if wrong := sum(
        1 for one in _keyed(name, table, settings) if one["key"] != _key(one, settings)
    ):
        yield f"{wrong:,} rows have a key that is not theirs"


def _keyed(name: str, table: pa.Table, settings: Any) -> Iterator[dict[str, Any]]:
    """Go through the rows whose keys can be computed again: not those of explained pictures."""
    named = [
        "key",
        "setting",
        "example",
        *(("text", "pair", "label") if name == "explanations" else ()),
    ]
    for one in table.select(named).to_pylist():
        facts = settings.get(one["setting"])
        if facts is not None and (
            facts.get("example", "all") == "all" or one.get("text") is not None
        ):
            yield one


def _key(one: dict[str, Any], settings: Any) -> str:
    part = settings[one["setting"]].get("example", "all")
    if part == "all":
        return key(one["setting"], one["example"])
    text, pair = one["text"], one["pair"]
    given = given_digest(Example(text if pair is None else (text, pair)))
    return key(one["setting"], given if part == "given" else digest([given, one["label"]]))


def _orphaned(layout: Layout, window: int) -> bool:
    """Say whether a window has tables and nothing that tells of them."""
    told = layout.index(window).exists() or layout.coming(window).exists()
    return not told and any(layout.part(name, window).exists() for name in TABLES)


def windows_of(layout: Layout) -> list[int]:
    """Return the numbers of all windows that anything is there of."""
    folders = ("index", *TABLES)
    chunks = {layout.numbers(path)[0] for path in layout.chunks()}
    return sorted(chunks.union(*(layout.windows(name) for name in folders)))


def _local(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.folder).as_posix()
