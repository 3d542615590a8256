"""Parts of a run become the run; results of one question do not mix with those of another."""

import shutil

import pytest

from tests import stores
from whence.core.errors import BadStore, StoreInUse
from whence.run.store import Store
from whence.run.store.merge import merge
from whence.run.store.verify import verify

WHO = stores.identity()


def part(out, number, of, failing=(), windows=(0, 1)):
    """Do one part of a run."""
    with Store.locked(out) as store:
        store.begin(stores.plan(shard=(number, of)), WHO, stores.DATA)
        for one in windows:
            stores.work(store, WHO, stores.window(one), part=(number, of), failing=failing)
        if number == 1:
            store.add_audit("permutation", {"verdict": "holds"})
        store.finish()
    return out


@pytest.fixture
def whole(tmp_path):
    out = stores.filled(tmp_path / "whole")
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add_audit("permutation", {"verdict": "holds"})
        store.finish()
    return out


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_parts_become_the_run(whole, tmp_path, order):
    parts = [part(tmp_path / f"part{number}", number, 2) for number in order]
    assert Store.read(parts[0]).manifest["parts"] == [[order[0], 2]]
    assert list(verify(parts[0])) == []
    before = [stores.contents(one) for one in parts]
    merge(tmp_path / "merged", parts)
    assert stores.contents(tmp_path / "merged") == stores.contents(whole)
    assert [stores.contents(one) for one in parts] == before
    tasks = list(Store.read(tmp_path / "merged").events("task"))
    assert len(tasks) == 6  # three chunks in each of two windows
    merge(tmp_path / "merged", parts)
    assert stores.contents(tmp_path / "merged") == stores.contents(whole)
    assert len(list(Store.read(tmp_path / "merged").events("task"))) == 6


def test_parts_in_one_folder_become_the_run(whole, tmp_path):
    out = tmp_path / "out"
    for number in (1, 3, 2):
        part(out, number, 3)
    assert stores.contents(out) == stores.contents(whole)


def test_a_part_of_a_run_can_be_completed_as_a_whole(whole, tmp_path):
    out = part(tmp_path / "out", 1, 2)
    stores.filled(out)
    assert stores.contents(out) == stores.contents(whole)


def test_some_parts_are_some_parts(tmp_path):
    parts = [part(tmp_path / f"part{number}", number, 3) for number in (3, 1)]
    merge(tmp_path / "merged", parts)
    stated = Store.read(tmp_path / "merged").manifest
    assert (stated["parts"], stated["state"]) == ([[1, 3], [3, 3]], "complete")


def test_runs_of_other_methods_come_together(tmp_path):
    one = stores.filled(tmp_path / "one", who=stores.identity(methods=("attcat",)))
    two = stores.filled(tmp_path / "two", who=stores.identity(methods=("rollout",)))
    merge(one, [two])
    assert stores.contents(one) == stores.contents(stores.filled(tmp_path / "both"))


def test_methods_that_were_not_tested_alike_are_not_complete_together(tmp_path):
    one = stores.filled(tmp_path / "one", who=stores.identity(methods=("attcat",)))
    two = stores.filled(tmp_path / "two", who=stores.identity(methods=("rollout",), metrics=()))
    merge(tmp_path / "both", [one, two])
    assert Store.read(tmp_path / "both").manifest["state"] == "running"
    stores.filled(tmp_path / "both")
    assert Store.read(tmp_path / "both").manifest["state"] == "complete"


def test_a_longer_run_and_a_shorter_one(tmp_path, whole):
    stores.filled(tmp_path / "short", stores.plan(limit=6), windows=(0,))
    merge(tmp_path / "short", [whole])
    assert stores.contents(tmp_path / "short") == stores.contents(whole)


def test_what_worked_in_one_of_them_is_taken(tmp_path, whole):
    failed = stores.filled(tmp_path / "failed", failing=(1, 8))
    merge(failed, [whole])
    assert stores.contents(failed) == stores.contents(whole)


def test_a_part_that_was_interrupted_is_taken_as_far_as_it_is(tmp_path, whole):
    one = part(tmp_path / "one", 1, 2)
    two = tmp_path / "two"
    with Store.locked(two) as store:
        store.begin(stores.plan(shard=(2, 2)), WHO, stores.DATA)
        store.add(stores.done(WHO, stores.window(0), 1))
    merge(tmp_path / "merged", [one, two])
    found = Store.read(tmp_path / "merged")
    assert found.manifest["state"] == "running"
    assert len(found.layout.chunks()) == 1
    with Store.locked(tmp_path / "merged") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.held(0)) == 24
    stores.filled(tmp_path / "merged")
    assert stores.contents(tmp_path / "merged") == stores.contents(whole)


def test_an_audit_that_worked_is_taken(tmp_path, whole):
    for name, found in (
        ("one", {"error": "too-long"}),
        ("two", {"error": None, "verdict": "holds"}),
    ):
        with Store.locked(stores.filled(tmp_path / name)) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            store.add_audit("permutation", found)
    for into, other in (("one", "two"), ("two", "one")):
        merge(tmp_path / into, [tmp_path / other])
        assert Store.read(tmp_path / into).audits()["permutation"]["verdict"] == "holds"


def test_bad_rows_are_there_once(tmp_path):
    for name in ("one", "two"):
        with Store.locked(tmp_path / name) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            store.commit(stores.window(bad=stores.BAD))
            store.finish()
    merge(tmp_path / "one", [tmp_path / "two"])
    assert [one["row"] for one in Store.read(tmp_path / "one").bad()] == [3]


def test_other_models_data_and_samples_are_refused_and_nothing_is_made(tmp_path, whole):
    before = stores.contents(whole)
    others = {
        "model": {"who": stores.identity(fingerprint="f2")},
        "data set": {"data": {**stores.DATA, "name": "movies.tsv"}},
        "sample": {"asked": stores.plan(sample=7)},
    }
    for number, (what, changed) in enumerate(others.items()):
        other = stores.filled(tmp_path / f"other{number}", **changed)
        with pytest.raises(BadStore, match=f"results of another {what}: "):
            merge(whole, [other])
        with pytest.raises(BadStore, match=f"results of another {what}: "):
            merge(tmp_path / "new", [whole, other])
    assert stores.contents(whole) == before
    assert not (tmp_path / "new").exists()


def test_a_folder_is_not_merged_into_itself(whole):
    with pytest.raises(BadStore, match="into itself"):
        merge(whole, [whole / "." / "index" / ".."])


def test_a_folder_that_is_written_to_is_refused(tmp_path, whole):
    with Store.locked(whole), pytest.raises(StoreInUse):
        merge(tmp_path / "new", [whole])


def test_damage_is_not_merged(tmp_path, whole):
    path = whole / "metrics/part-000001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        BadStore, match=r"part-000001.parquet' is damaged: its checksum does not fit\. First"
    ):
        merge(tmp_path / "new", [whole])
    assert Store.read(tmp_path / "new").manifest["state"] == "running"


def test_a_commit_under_way_is_not_merged(tmp_path, whole):
    shutil.copy(whole / "index/000000.json", whole / "index/000000.next.json")
    with pytest.raises(BadStore, match=r"000000\.next\.json' is damaged: unfinished"):
        merge(tmp_path / "new", [whole])
