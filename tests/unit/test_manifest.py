"""Manifest of a store: which settings may share a folder, and how old and new results are merged."""

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.runs import store
from whence.runs.task import Identity, compute_setting_digest


def make_manifest(methods=("attcat", "rollout"), params=5, **changed):
    """State what a run with one metric would find out."""
    alike = {"target": "predicted", "truncate": True, "dtype": "float32"}
    asks = {"remove": "mask", "unit": "token", "rankings": 5, "params": {"steps": params}}
    alike |= {name: value for name, value in changed.items() if name in alike}
    asks |= {name: value for name, value in changed.items() if name not in alike}
    settings, explained, tested = {}, {}, {}
    for method in methods:
        facts = {"kind": "explanation", "method": method, **alike}
        explained[method] = compute_setting_digest(facts)
        test = {"kind": "test", "metric": "sufficiency", "explanation": explained[method], **asks}
        tested[method] = {"sufficiency": compute_setting_digest(test)}
        settings |= {explained[method]: facts, tested[method]["sufficiency"]: test}
    who = Identity({"name": "reviews", "fingerprint": "f"}, "c", settings, explained, tested)
    return store.build_manifest(stores.plan(), who, stores.DATA)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("target", 0, "another target: target 'predicted' there, target 0 now"),
        ("truncate", False, "another truncate: truncate True there, truncate False now"),
        ("dtype", "bfloat16", "another dtype: dtype 'float32' there, dtype 'bfloat16' now"),
        ("remove", "delete", "another remove: remove 'mask' there"),
        ("unit", "word", "another unit: unit 'token' there"),
        ("rankings", 7, "another rankings: rankings 5 there, rankings 7 now"),
        ("mlm", "f9", "another mlm: none there, mlm 'f9' now"),
    ],
)
def test_check_compatible_of_settings_that_cannot_be_compared_raises_bad_store(name, value, said):
    # In one table, each two methods are compared example by example: of two targets that would say nothing.
    with pytest.raises(BadStore, match=said):
        store.check_compatible(make_manifest(), make_manifest(["attcat"], **{name: value}), "out")


def test_check_compatible_accepts_other_methods_and_metric_parameters():
    store.check_compatible(make_manifest(), make_manifest(["grad_x_input"]), "out")
    store.check_compatible(make_manifest(), make_manifest(params=9), "out")


def test_merge_manifests_drops_tests_with_other_metric_parameters():
    old, new = make_manifest(), make_manifest(["attcat"], params=9)
    both = store.merge_manifests(old, new)
    assert both["explained"] == old["explained"]
    assert both["tested"] == {"attcat": new["tested"]["attcat"], "rollout": {}}
    assert set(both["settings"]) == {*old["settings"], *new["settings"]}
    more = store.merge_manifests(old, make_manifest(["grad_x_input"]))
    assert {name: more["tested"][name] for name in old["tested"]} == old["tested"]
