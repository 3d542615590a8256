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
