"""Resumed stores: more, fewer or other methods and rows, changed examples, and refused requests."""

from dataclasses import replace

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs import store as store_module
from whence.runs.store import Store

WHO = stores.identity()


@pytest.fixture
def finished_folder(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.write_store(tmp_path / "whole")


def test_store_resumed_with_more_methods_metrics_and_rows_equals_a_whole_run(
    finished_folder, tmp_path
):
    out = tmp_path / "out"
    few = stores.identity(methods=("attcat",), metrics=())
    stores.write_store(out, stores.plan(limit=6), few, windows=(0,))
    assert not (out / "metrics").exists()
    stores.write_store(out)
    assert stores.contents(out) == stores.contents(finished_folder)


def test_store_resumed_with_fewer_methods_and_rows_loses_no_results(finished_folder):
    before = stores.contents(finished_folder)
    few = stores.identity(methods=("rollout",), metrics=())
    with Store.open_locked(finished_folder) as store:
        store.begin(stores.plan(limit=2), few, stores.DATA)
        stores.complete_window(store, few, stores.window(items=[stores.item(0), stores.item(1)]))
        store.finish()
    assert stores.contents(finished_folder) == before


def test_unfinished_store_resumed_with_a_limit_is_not_marked_complete(tmp_path):
    out = tmp_path / "out"
    with Store.open_locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.complete_window(store, WHO, stores.window(0))
    stores.write_store(out, stores.plan(limit=6), windows=(0,))
    assert Store.open_existing(out).manifest["state"] == "running"
    assert Store.open_existing(out).manifest["plan"]["limit"] is None


def test_store_resumed_with_other_settings_holds_old_and_new_results(finished_folder):
    other = stores.identity()
    settings = {f"{name[:-1]}x": facts for name, facts in other.settings.items()}
    other = replace(
        other,
        settings=settings,
        explained={method: f"{name[:-1]}x" for method, name in other.explained.items()},
        tested={m: {k: f"{v[:-1]}x" for k, v in t.items()} for m, t in other.tested.items()},
    )
    stores.write_store(finished_folder, who=other)
    store = Store.open_existing(finished_folder)
    assert store.table("explanations").count_rows() == 48
    assert store.manifest["explained"] == other.explained
    assert set(store.manifest["settings"]) == set(WHO.settings) | set(settings)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"who": stores.identity(fingerprint="f2")}, "another model: fingerprint 'f1', .* 'f2'"),
        ({"data": {**stores.DATA, "name": "movies.tsv"}}, "another data set: name 'reviews.tsv'.*'movies.tsv'"),
        ({"data": {**stores.DATA, "columns": {"text": "body"}}}, "another choice of columns"),
        ({"asked": stores.plan(sample=5)}, "another sample: none there, sample 5 now"),
        ({"asked": stores.plan(seed=1)}, "another seed: seed 0 there, seed 1 now"),
    ],
)  # fmt: skip
def test_store_resumed_with_another_model_data_or_seed_raises_bad_store(
    finished_folder, changed, said
):
    before = stores.contents(finished_folder)
    with pytest.raises(BadStore, match=said):
        stores.write_store(finished_folder, **changed)
    assert stores.contents(finished_folder) == before


def test_store_recomputes_only_changed_rows_of_the_data(finished_folder):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    items[3] = stores.item(3, label="negative")  # the explanation stays, its test does not
    changed = stores.window(items=items)
    with Store.open_locked(finished_folder) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.find_results(changed)
        lacking = [one.row for one in items if stores.lacks(WHO, held, one, "attcat")]
        assert lacking == [2, 3]
        assert not held.needs_result(3, WHO.compute_key(WHO.explained["attcat"], items[3]))
        stores.complete_window(store, WHO, changed)
        stores.complete_window(store, WHO, stores.window(1))
        store.finish()
        assert store.manifest["state"] == "complete"
    rows = Store.open_existing(finished_folder).table("explanations").to_table().to_pylist()
    assert [one["text"] for one in rows if one["row"] == 2] == ["another text"] * 2
    assert [(one["label"], one["example"]) for one in rows if one["row"] == 3] == [
        ("negative", items[3].digest)
    ] * 2
    assert len(rows) == 24


def test_find_results_drops_results_of_a_changed_row_without_new_results(finished_folder):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    with Store.open_locked(finished_folder) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        changed = stores.window(items=items)
        assert len(store.find_results(changed)) == 20
        store.close_window(changed)
        assert store.table("explanations").count_rows() == 22
        assert store.manifest["state"] == "running"


def test_store_drops_rows_that_are_missing_from_the_data(finished_folder, tmp_path):
    short = stores.window(items=[stores.item(row) for row in range(4)])
    for out in (finished_folder, tmp_path / "fresh"):
        with Store.open_locked(out) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            stores.complete_window(store, WHO, short)
            store.finish()
    stored, fresh = (
        list(Store.open_existing(out).iterate_windows("explanations"))
        for out in (finished_folder, tmp_path / "fresh")
    )
    assert stored == fresh
    assert Store.open_existing(finished_folder).manifest["totals"]["examples"] == 4


def test_find_results_of_data_without_a_shared_example_raises_bad_store(finished_folder):
    before = stores.contents(finished_folder)
    other = stores.window(items=[stores.item(row, f"other {row}") for row in range(6)])
    with Store.open_locked(finished_folder) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        with pytest.raises(BadStore, match=r"in rows 0 to 5 of 'reviews\.tsv' no example is what"):
            store.find_results(other)
    assert stores.contents(finished_folder) == before


def test_merge_manifests_drops_metrics_of_a_recomputed_explanation():
    def stated(method, explanation, metrics):
        settings = {one: {"explanation": explanation} for one in metrics.values()}
        tested = {method: metrics}
        plan = {"methods": [method], "metrics": [*metrics], "audit": [], "limit": None}
        facts = {"plan": plan, "parts": None, "settings": settings, "tested": tested}
        return {**facts, "explained": {method: explanation}}

    old = stated("attcat", "e1", {"sufficiency": "t1"})
    again = stated("attcat", "e1", {"flip": "t2"})
    assert store_module.merge_manifests(old, again)["tested"] == {
        "attcat": {"sufficiency": "t1", "flip": "t2"}
    }
    anew = stated("attcat", "e2", {"flip": "t3"})
    assert store_module.merge_manifests(old, anew)["tested"] == {"attcat": {"flip": "t3"}}
    other = stated("rollout", "e3", {})
    assert store_module.merge_manifests(old, other)["tested"] == {
        "attcat": {"sufficiency": "t1"},
        "rollout": {},
    }


def test_error_before_begin_leaves_no_store_in_the_folder(tmp_path):
    with pytest.raises(ValueError, match="no such target"), Store.open_locked(tmp_path / "out"):
        raise ValueError("no such target")
    assert not store_module.is_store(tmp_path / "out")
