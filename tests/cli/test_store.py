"""`whence store` commands: verify, merge and export."""

import json

import pytest

from tests import stores
from whence.runs.store import Store


@pytest.fixture
def whole(tmp_path):
    return stores.write_store(tmp_path / "out", failing=(2,))


def test_store_verify_of_a_complete_run_prints_its_counts(run, whole):
    status, out, err = run("store", "verify", whole)
    assert (status, err) == (0, "")
    assert out == (
        f"{whole} is whole, and the run is complete: 12 examples, 24 explanations, 24 tests, 4 failures, "
        "0 unreadable rows.\n"
    )


def test_store_verify_counts_the_rows_of_an_unfinished_run(run, tmp_path):
    who = stores.identity()
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), who, stores.DATA)
        store.find_results(stores.window())
        store.add_result(stores.make_task_result(who, stores.window(), 0))
    status, out, err = run("store", "verify", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "the run is running: 2 examples, 4 explanations, 4 tests" in out


def test_store_verify_names_a_damaged_file_and_changes_nothing(run, whole):
    (whole / "metrics/000001-001.parquet").write_bytes(b"gone")
    before = stores.contents(whole)
    status, out, err = run("store", "verify", whole)
    assert status == 42
    first, second = out.splitlines()
    assert first.startswith("metrics/000001-001.parquet: it is no whole Parquet file")
    assert second == "manifest.json: its totals are not what the files add up to"
    assert err.startswith(f"whence: 2 things are wrong with '{whole}'. The same `whence run` as")
    assert "[bad-store, see docs/errors/bad-store.md]" in err
    assert stores.contents(whole) == before


def test_store_merge_joins_the_methods_of_two_runs(run, tmp_path):
    who = stores.identity(methods=("attcat",)), stores.identity(methods=("rollout",))
    for name, one in zip(("one", "two"), who, strict=True):
        stores.write_store(tmp_path / name, who=one)
    status, out, err = run("store", "merge", tmp_path / "both", tmp_path / "one", tmp_path / "two")
    assert (status, err) == (0, "")
    assert "both is complete: 12 examples, 24 explanations, 24 tests, 0 failures" in out
    assert Store.open_existing(tmp_path / "both").manifest["plan"]["methods"] == [
        "attcat",
        "rollout",
    ]


def test_store_export_writes_jsonl_and_refuses_an_unknown_suffix(run, whole, tmp_path):
    to = tmp_path / "metrics.jsonl"
    assert run("store", "export", whole, "--table", "metrics", "--to", to) == (
        0,
        "",
        f"wrote {to}\n",
    )
    assert [json.loads(line)["row"] for line in to.read_text().splitlines()][::2] == list(range(12))
    status, _, err = run("store", "export", whole, "--to", tmp_path / "a.xlsx")
    assert status == 22
    assert "--to must end in .parquet, .csv, .jsonl, .csv.gz, .jsonl.gz. Got 'a.xlsx'." in err


def test_store_verify_of_a_folder_in_use_exits_43(run, whole):
    with Store.open_locked(whole):
        status, _, err = run("store", "verify", whole)
    assert status == 43
    assert "Another run is writing to" in err
    assert "[store-in-use, see docs/errors/store-in-use.md]" in err


def test_store_verify_of_a_folder_without_a_run_exits_42(run, tmp_path):
    status, _, err = run("store", "verify", tmp_path)
    assert status == 42
    assert "holds no run. Give the folder that `whence run --out` wrote to." in err


def test_store_help_lists_its_three_commands(run):
    status, out, _ = run("store", "--help")
    assert status == 0
    assert all(name in out for name in ("verify", "merge", "export"))
