"""The manifest: which questions may share a folder, and what becomes of the results of older ones."""

import pytest

from tests import stores
from whence.core.errors import BadStore
from whence.run.keys import setting_digest
from whence.run.store import manifest
from whence.run.task import Identity


def stated(methods=("attcat", "rollout"), params=5, **changed):
    """State what a run with one metric would find out."""
    alike = {"target": "predicted", "truncate": True, "dtype": "float32"}
    asks = {"remove": "mask", "unit": "token", "rankings": 5, "params": {"steps": params}}
    alike |= {name: value for name, value in changed.items() if name in alike}
    asks |= {name: value for name, value in changed.items() if name not in alike}
    settings, explained, tested = {}, {}, {}
    for method in methods:
        facts = {"kind": "explanation", "method": method, **alike}
        explained[method] = setting_digest(facts)
        test = {"kind": "test", "metric": "sufficiency", "explanation": explained[method], **asks}
        tested[method] = {"sufficiency": setting_digest(test)}
        settings |= {explained[method]: facts, tested[method]["sufficiency"]: test}
    who = Identity({"name": "reviews", "fingerprint": "f"}, "c", settings, explained, tested)
    return manifest.stated(stores.plan(), who, stores.DATA)


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
def test_methods_that_cannot_be_compared_do_not_share_a_folder(name, value, said):
    # In one table, each two methods are compared example by example: of two targets that would say nothing.
    with pytest.raises(BadStore, match=said):
        manifest.check_same(stated(), stated(["attcat"], **{name: value}), "out")


def test_other_methods_and_parameters_of_metrics_share_one():
    manifest.check_same(stated(), stated(["grad_x_input"]), "out")
    manifest.check_same(stated(), stated(params=9), "out")


def test_what_was_tested_by_other_parameters_is_not_compared_with_what_is_new():
    old, new = stated(), stated(["attcat"], params=9)
    both = manifest.joined(old, new)
    assert both["explained"] == old["explained"]
    assert both["tested"] == {"attcat": new["tested"]["attcat"], "rollout": {}}
    assert set(both["settings"]) == {*old["settings"], *new["settings"]}
    more = manifest.joined(old, stated(["grad_x_input"]))
    assert {name: more["tested"][name] for name in old["tested"]} == old["tested"]
