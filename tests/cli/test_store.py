"""`whence store` commands: verify, repair, merge and export."""

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


def test_store_verify_counts_the_pending_rows_of_an_unfinished_run(run, tmp_path):
    who = stores.identity()
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), who, stores.DATA)
        store.add_result(stores.make_task_result(who, stores.window(), 0))
    status, out, err = run("store", "verify", tmp_path / "out")
    assert (status, err) == (0, "")
    assert "the run is running: 0 examples" in out
    assert (
        "and of windows that are not complete yet 4 explanations and 4 tests, which the next run goes on from"
        in out
    )


def test_store_verify_finds_pending_rows_with_wrong_keys(run, tmp_path):
    who = stores.identity()
    with Store.open_locked(tmp_path / "out") as store:
        store.begin(stores.plan(), who, stores.DATA)
        wrong = stores.make_task_result(who, stores.window(), 0)
        wrong.records[0]["key"] = "0" * 64
        store.add_result(wrong)
    status, out, _ = run("store", "verify", tmp_path / "out")
    assert status == 42
    assert "1 rows have a key that is not theirs" in out


def test_store_repair_sets_a_damaged_file_aside_and_verify_then_passes(run, whole):
    (whole / "metrics/part-000001.parquet").write_bytes(b"gone")
    before = stores.contents(whole)
    status, out, err = run("store", "verify", whole)
    assert status == 42
    assert out == "metrics/part-000001.parquet: its checksum does not fit\n"
    assert err.startswith(
        f"whence: 1 thing is wrong with '{whole}'. `whence store repair {whole}` sets"
    )
    assert "[bad-store, see docs/errors/bad-store.md]" in err
    assert stores.contents(whole) == before
    status, out, err = run("store", "repair", whole)
    assert (status, err) == (0, "")
    assert out == (
        "metrics/part-000001.parquet: set aside: its checksum does not fit\n"
        f"{whole} is whole, as far as it goes. The same `whence run` as before completes it.\n"
    )
    assert (whole / "damaged/metrics-part-000001.parquet.1").read_bytes() == b"gone"
    status, out, _ = run("store", "verify", whole)
    assert status == 0
    assert "the run is running: 12 examples, 24 explanations, 12 tests" in out
    stores.write_store(whole, failing=(2,))
    assert run("store", "repair", whole) == (0, f"{whole} is whole.\n", "")


def test_store_verify_counts_every_missing_file(run, whole):
    (whole / "metrics/part-000001.parquet").unlink()
    (whole / "explanations/part-000000.parquet").unlink()
    status, out, err = run("store", "verify", whole)
    assert status == 42
    assert len(out.splitlines()) == 2
    assert "2 things are wrong" in err


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


def test_store_verify_and_repair_of_a_folder_in_use_exit_43(run, whole):
    with Store.open_locked(whole):
        for command in ("verify", "repair"):
            status, _, err = run("store", command, whole)
            assert status == 43
            assert "Another run is writing to" in err
            assert "[store-in-use, see docs/errors/store-in-use.md]" in err


def test_store_verify_and_repair_of_a_folder_without_a_run_exit_42(run, tmp_path):
    for command in ("verify", "repair"):
        status, _, err = run("store", command, tmp_path)
        assert status == 42
        assert "holds no run. Give the folder that `whence run --out` wrote to." in err


def test_store_help_lists_its_four_commands(run):
    status, out, _ = run("store", "--help")
    assert status == 0
    assert all(name in out for name in ("verify", "repair", "merge", "export"))
