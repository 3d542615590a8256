"""A store that is gone on with: more is asked, or less, or something else; rows changed, or are gone."""

from dataclasses import replace

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.run.store import Store, manifest

WHO = stores.identity()


@pytest.fixture
def whole(tmp_path):
    """Write the store of an undisturbed run."""
    return stores.filled(tmp_path / "whole")


def test_more_methods_metrics_and_rows_are_welcome(whole, tmp_path):
    out = tmp_path / "out"
    few = stores.identity(methods=("attcat",), metrics=())
    stores.filled(out, stores.plan(limit=6), few, windows=(0,))
    assert not (out / "metrics").exists() or not list((out / "metrics").iterdir())
    stores.filled(out)
    assert stores.contents(out) == stores.contents(whole)


def test_fewer_methods_and_rows_lose_nothing(whole):
    before = stores.contents(whole)
    few = stores.identity(methods=("rollout",), metrics=())
    with Store.locked(whole) as store:
        store.begin(stores.plan(limit=2), few, stores.DATA)
        stores.work(store, few, stores.window(items=[stores.item(0), stores.item(1)]))
        store.finish()
    assert stores.contents(whole) == before


def test_a_shorter_run_on_an_unfinished_one_does_not_call_it_complete(tmp_path):
    out = tmp_path / "out"
    with Store.locked(out) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        stores.work(store, WHO, stores.window(0))
    stores.filled(out, stores.plan(limit=6), windows=(0,))
    assert Store.read(out).manifest["state"] == "running"
    assert Store.read(out).manifest["plan"]["limit"] is None


def test_results_of_other_code_stay_beside_the_new_ones(whole):
    other = stores.identity()
    settings = {f"{name[:-1]}x": facts for name, facts in other.settings.items()}
    other = replace(
        other,
        settings=settings,
        explained={method: f"{name[:-1]}x" for method, name in other.explained.items()},
        tested={m: {k: f"{v[:-1]}x" for k, v in t.items()} for m, t in other.tested.items()},
    )
    stores.filled(whole, who=other)
    store = Store.read(whole)
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
def test_other_questions_are_refused(whole, changed, said):
    before = stores.contents(whole)
    with pytest.raises(BadStore, match=said):
        stores.filled(whole, **changed)
    assert stores.contents(whole) == before


def test_a_row_that_changed_is_computed_again_and_the_rest_is_kept(whole):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    items[3] = stores.item(3, label="negative")  # the explanation stays, its test does not
    changed = stores.window(items=items)
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        held = store.held(changed)
        lacking = [one.row for one in items if stores.lacks(WHO, held, one, "attcat")]
        assert lacking == [2, 3]
        assert not held.lacks(3, WHO.key(WHO.explained["attcat"], items[3]))
        stores.work(store, WHO, changed)
        stores.work(store, WHO, stores.window(1))
        store.finish()
        assert store.manifest["state"] == "complete"
    rows = Store.read(whole).table("explanations").to_table().to_pylist()
    assert [one["text"] for one in rows if one["row"] == 2] == ["another text"] * 2
    assert [(one["label"], one["example"]) for one in rows if one["row"] == 3] == [
        ("negative", items[3].digest)
    ] * 2
    assert len(rows) == 24


def test_a_row_that_changed_goes_even_if_nothing_new_comes(whole):
    items = [stores.item(row) for row in range(6)]
    items[2] = stores.item(2, "another text")
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        store.commit(stores.window(items=items))
        assert len(store.held(0)) == 20
        assert store.manifest["state"] == "running"


def test_rows_that_are_gone_from_the_data_go_from_the_store(whole, tmp_path):
    short = stores.window(items=[stores.item(row) for row in range(4)])
    for out in (whole, tmp_path / "fresh"):
        with Store.locked(out) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            stores.work(store, WHO, short)
            store.finish()
    assert stores.contents(whole) == stores.contents(tmp_path / "fresh")


def test_data_that_has_nothing_in_common_with_the_store_is_refused(whole):
    before = stores.contents(whole)
    other = stores.window(items=[stores.item(row, f"other {row}") for row in range(6)])
    with Store.locked(whole) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        with pytest.raises(BadStore, match=r"in rows 0 to 5 of 'reviews\.tsv' no example is what"):
            store.held(other)
    assert stores.contents(whole) == before


def test_tests_of_an_explanation_that_is_made_anew_count_no_more():
    def stated(method, explanation, metrics):
        settings = {one: {"explanation": explanation} for one in metrics.values()}
        tested = {method: metrics}
        plan = {"methods": [method], "metrics": [*metrics], "audit": [], "limit": None}
        facts = {"plan": plan, "parts": None, "settings": settings, "tested": tested}
        return {**facts, "explained": {method: explanation}}

    old = stated("attcat", "e1", {"sufficiency": "t1"})
    again = stated("attcat", "e1", {"flip": "t2"})
    assert manifest.joined(old, again)["tested"] == {"attcat": {"sufficiency": "t1", "flip": "t2"}}
    anew = stated("attcat", "e2", {"flip": "t3"})
    assert manifest.joined(old, anew)["tested"] == {"attcat": {"flip": "t3"}}
    other = stated("rollout", "e3", {})
    assert manifest.joined(old, other)["tested"] == {"attcat": {"sufficiency": "t1"}, "rollout": {}}


def test_a_run_that_did_not_begin_leaves_no_run(tmp_path):
    with pytest.raises(ValueError, match="no such target"), Store.locked(tmp_path / "out"):
        raise ValueError("no such target")
    assert Store.reading(tmp_path / "out") is None
