"""Merging of stores: shards become the whole run, and runs of another model, data set or sample are refused."""

import pytest

from tests import stores
from whence.core.errors import BadStore, StoreInUse
from whence.runs.store import Store, merge_stores, verify_store

WHO = stores.identity()


def part(out, number, of, failing=(), windows=(0, 1)):
    """Do one part of a run."""
    with Store.open_locked(out) as store:
        store.begin(stores.plan(shard=(number, of)), WHO, stores.DATA)
        for one in windows:
            stores.complete_window(
                store, WHO, stores.window(one), part=(number, of), failing=failing
            )
        if number == 1:
            store.add_audit("permutation", {"verdict": "holds"})
        store.finish()
    return out


@pytest.fixture
def complete_store(tmp_path):
    out = stores.write_store(tmp_path / "whole")
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.add_audit("permutation", {"verdict": "holds"})
        store.finish()
    return out


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_merge_stores_of_all_shards_equals_the_whole_run_in_any_order(
    complete_store, tmp_path, order
):
    parts = [part(tmp_path / f"part{number}", number, 2) for number in order]
    assert Store.open_existing(parts[0]).manifest["parts"] == [[order[0], 2]]
    assert list(verify_store(parts[0])) == []
    before = [stores.contents(one) for one in parts]
    merge_stores(tmp_path / "merged", parts)
    assert stores.contents(tmp_path / "merged") == stores.contents(complete_store)
    assert [stores.contents(one) for one in parts] == before
    tasks = list(Store.open_existing(tmp_path / "merged").events("task"))
    assert len(tasks) == 6  # three chunks in each of two windows
    merge_stores(tmp_path / "merged", parts)
    assert stores.contents(tmp_path / "merged") == stores.contents(complete_store)
    assert len(list(Store.open_existing(tmp_path / "merged").events("task"))) == 6


def test_shards_written_into_one_folder_equal_the_whole_run(complete_store, tmp_path):
    out = tmp_path / "out"
    for number in (1, 3, 2):
        part(out, number, 3)
    assert stores.contents(out) == stores.contents(complete_store)


def test_store_of_one_shard_completed_without_sharding_equals_the_whole_run(
    complete_store, tmp_path
):
    out = part(tmp_path / "out", 1, 2)
    stores.write_store(out)
    assert stores.contents(out) == stores.contents(complete_store)


def test_merge_of_two_of_three_shards_lists_both_in_the_manifest(tmp_path):
    parts = [part(tmp_path / f"part{number}", number, 3) for number in (3, 1)]
    merge_stores(tmp_path / "merged", parts)
    stated = Store.open_existing(tmp_path / "merged").manifest
    assert (stated["parts"], stated["state"]) == ([[1, 3], [3, 3]], "complete")


def test_merge_of_runs_with_different_methods_equals_one_run_with_both(tmp_path):
    one = stores.write_store(tmp_path / "one", who=stores.identity(methods=("attcat",)))
    two = stores.write_store(tmp_path / "two", who=stores.identity(methods=("rollout",)))
    merge_stores(one, [two])
    assert stores.contents(one) == stores.contents(stores.write_store(tmp_path / "both"))


def test_merge_of_methods_with_different_metrics_is_running_until_completed(tmp_path):
    one = stores.write_store(tmp_path / "one", who=stores.identity(methods=("attcat",)))
    two = stores.write_store(
        tmp_path / "two", who=stores.identity(methods=("rollout",), metrics=())
    )
    merge_stores(tmp_path / "both", [one, two])
    assert Store.open_existing(tmp_path / "both").manifest["state"] == "running"
    stores.write_store(tmp_path / "both")
    assert Store.open_existing(tmp_path / "both").manifest["state"] == "complete"


def test_merge_of_a_longer_run_into_a_shorter_one_equals_the_longer(tmp_path, complete_store):
    stores.write_store(tmp_path / "short", stores.plan(limit=6), windows=(0,))
    merge_stores(tmp_path / "short", [complete_store])
    assert stores.contents(tmp_path / "short") == stores.contents(complete_store)


def test_merge_replaces_failed_results_by_successful_ones(tmp_path, complete_store):
    failed = stores.write_store(tmp_path / "failed", failing=(1, 8))
    merge_stores(failed, [complete_store])
    assert stores.contents(failed) == stores.contents(complete_store)


def test_merge_with_an_interrupted_shard_takes_its_finished_chunks(tmp_path, complete_store):
    one = part(tmp_path / "one", 1, 2)
    two = tmp_path / "two"
    with Store.open_locked(two) as store:
        store.begin(stores.plan(shard=(2, 2)), WHO, stores.DATA)
        store.find_results(stores.window(0))
        store.add_result(stores.make_task_result(WHO, stores.window(0), 1))
    merge_stores(tmp_path / "merged", [one, two])
    found = Store.open_existing(tmp_path / "merged")
    assert found.manifest["state"] == "running"
    with Store.open_locked(tmp_path / "merged") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        assert len(store.find_results(stores.window(0))) == 24
    stores.write_store(tmp_path / "merged")
    assert stores.contents(tmp_path / "merged") == stores.contents(complete_store)


def test_merge_takes_the_successful_audit_over_the_failed_one(tmp_path, complete_store):
    for name, found in (
        ("one", {"error": "too-long"}),
        ("two", {"error": None, "verdict": "holds"}),
    ):
        with Store.open_locked(stores.write_store(tmp_path / name)) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            store.add_audit("permutation", found)
    for into, other in (("one", "two"), ("two", "one")):
        merge_stores(tmp_path / into, [tmp_path / other])
        assert Store.open_existing(tmp_path / into).audits()["permutation"]["verdict"] == "holds"


def test_merge_lists_bad_rows_of_both_stores_once(tmp_path):
    for name in ("one", "two"):
        with Store.open_locked(tmp_path / name) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            store.find_results(stores.window(bad=stores.BAD))
            store.close_window(stores.window(bad=stores.BAD))
            store.finish()
    merge_stores(tmp_path / "one", [tmp_path / "two"])
    assert [one["row"] for one in Store.open_existing(tmp_path / "one").list_bad_rows()] == [3]


def test_merge_of_another_model_data_set_or_sample_is_refused_and_writes_nothing(
    tmp_path, complete_store
):
    before = stores.contents(complete_store)
    others = {
        "model": {"who": stores.identity(fingerprint="f2")},
        "data set": {"data": {**stores.DATA, "name": "movies.tsv"}},
        "sample": {"asked": stores.plan(sample=7)},
    }
    for number, (what, changed) in enumerate(others.items()):
        other = stores.write_store(tmp_path / f"other{number}", **changed)
        with pytest.raises(BadStore, match=f"results of another {what}: "):
            merge_stores(complete_store, [other])
        with pytest.raises(BadStore, match=f"results of another {what}: "):
            merge_stores(tmp_path / "new", [complete_store, other])
    assert stores.contents(complete_store) == before
    assert not (tmp_path / "new").exists()


def test_merge_of_a_folder_into_itself_is_refused(complete_store):
    with pytest.raises(BadStore, match="into itself"):
        merge_stores(complete_store, [complete_store / "." / "metrics" / ".."])


def test_merge_of_a_locked_store_raises_store_in_use(tmp_path, complete_store):
    with Store.open_locked(complete_store), pytest.raises(StoreInUse):
        merge_stores(tmp_path / "new", [complete_store])


def test_merge_of_a_damaged_store_raises_bad_store(tmp_path, complete_store):
    path = complete_store / "metrics/000001-001.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        BadStore, match=r"000001-001.parquet' is damaged: it is no whole Parquet file"
    ):
        merge_stores(tmp_path / "new", [complete_store])
    assert Store.open_existing(tmp_path / "new").manifest["state"] == "running"
