"""Snapshot test: each call's output equals its stored text; `scripts/snapshots.py` shows or accepts changes."""

import pytest

import snapshots
from tests.snapshots.calls import CALLS, made


@pytest.mark.slow
@pytest.mark.xdist_group("snapshots")
@pytest.mark.parametrize("name", CALLS)
def test_a_snapshot_is_what_the_code_gives(name):
    changed = snapshots.format_difference(name, made(name))
    assert not changed, f"scripts/snapshots.py --accept {name} takes this over:\n{changed}"


def test_every_stored_text_belongs_to_a_call():
    assert not snapshots.find_unknown()


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        ("off by 0.0e+00 of 1.25", "off by -1.1e-16 of 1.2500000001", True),
        ("1.25", "1.2500001", False),
        ("n=6, 0.5", "n=7, 0.5", False),
        ("0.5, 0.5", "0.5", False),
        ("0.5 words", "0.5 tokens", False),
    ],
)
def test_numbers_of_a_snapshot_may_differ_by_the_rounding_of_another_processor(before, now, same):
    assert snapshots.equals_but_for_rounding(before, now) is same
