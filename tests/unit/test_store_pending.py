"""Pending chunks of a store: encoded and decoded exactly, packed or plain, with damage detected."""

import math
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from tests import stores
from whence.runs import store as store_module
from whence.runs.backends import PackingWorker, PoolJob
from whence.runs.store import Store
from whence.runs.task import RecordCounts, Task, TaskResult

WHO = stores.identity()
NUMBERS = (
    0.1,
    -0.0,
    5e-324,
    2.2250738585072014e-308,
    1.7976931348623157e308,
    1 / 3,
    1e23,
    2.0**53 + 2,
)


class FakeWorker:
    """A worker without a model."""

    identity = WHO

    def __init__(self, own, failing=()):
        self.own, self.failing = own, failing

    def do(self, task):
        rows = {one.row for one in task.items}
        done = stores.make_task_result(WHO, self.own, task.chunk, task.methods, self.failing)
        return replace(done, records=[one for one in done.records if one["row"] in rows])


def task(own, chunk):
    return Task(own.number, chunk, own.chunks[chunk], ("attcat", "rollout"))


def test_encode_records_and_decode_tables_return_numbers_nulls_and_texts_exactly():
    [own] = stores.records(WHO, stores.item(0), "attcat")[:1]
    own["scores"] = [*NUMBERS, None, math.inf]
    own["ids"] = [-(1 << 63), (1 << 63) - 1, 0]
    own["tokens"] = ["", "é\u0000\n", "🙂", "\u2028"]
    own["starts"], own["words"], own["axioms"] = [], None, []
    back = store_module.decode_tables(store_module.encode_records([own]))
    assert back["metrics"].num_rows == 0
    [row] = back["explanations"].to_pylist()
    assert {name: row[name] for name in own if name != "table"} == {
        name: value for name, value in own.items() if name != "table"
    }
    assert [str(one) for one in row["scores"]] == [str(one) for one in own["scores"]]  # -0.0, too


def test_packed_plain_and_mixed_results_are_stored_identically(tmp_path):
    """As is a chunk of which one example was done here and one elsewhere, which a death of workers makes."""
    own, failing = stores.window(), (1, 4)
    for name, worker in {
        "plain": FakeWorker(own, failing),
        "packed": PackingWorker(FakeWorker(own, failing)),
    }.items():
        with Store.open_locked(tmp_path / name) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            for chunk in range(len(own.chunks)):
                sent = pickle.dumps(worker.do(task(own, chunk)))
                store.add_result(pickle.loads(sent))  # noqa: S301 - made a line above
            store.commit_window(own)
            store.finish()
    with Store.open_locked(tmp_path / "both") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for chunk in range(len(own.chunks)):
            first, second = PoolJob(task(own, chunk)).split()
            assert list(first.finish(FakeWorker(own, failing).do(first.task))) == []
            [whole] = second.finish(PackingWorker(FakeWorker(own, failing)).do(second.task))
            assert whole.records and whole.packed and whole.counts.examples == 2
            store.add_result(whole)
        store.commit_window(own)
        store.finish()
    found = [stores.contents(tmp_path / name) for name in ("plain", "packed", "both")]
    assert found[0] == found[1] == found[2]
    assert not list((tmp_path / "packed" / "pending").iterdir())


def test_packing_worker_reports_the_counts_and_costs_of_the_plain_worker():
    own = stores.window()
    plain, packed = (
        one.do(task(own, 0))
        for one in (FakeWorker(own, (0,)), PackingWorker(FakeWorker(own, (0,))))
    )
    assert packed.records == []
    # Two examples, two methods, one metric; the first example failed.
    assert plain.counts == packed.counts == RecordCounts(2, {"attcat": 1, "rollout": 1}, 2)
    assert (packed.seconds, packed.costs, packed.worker) == (
        plain.seconds,
        plain.costs,
        plain.worker,
    )
    assert TaskResult(0, 0, [], 0.0).counts == RecordCounts()


def test_decode_tables_of_changed_cut_or_appended_bytes_raises_value_error():
    raw = store_module.encode_records(stores.make_task_result(WHO, stores.window(), 0).records)
    assert store_module.decode_tables(raw)["explanations"].num_rows == 4
    for place in range(0, len(raw), 97):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        for torn in (changed, raw[:place], raw + raw[:place]):
            if torn != raw:
                with pytest.raises(ValueError, match="its checksum does not fit"):
                    store_module.decode_tables(torn)


def test_add_result_of_a_second_method_joins_the_pending_chunk(tmp_path):
    own = stores.window()
    with Store.open_locked(tmp_path) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for method in WHO.explained:
            store.add_result(stores.make_task_result(WHO, own, 0, [method]))
        assert len(store.layout.chunks()) == 1
        assert len(store.find_results(0)) == 8
        assert store.count_results() == dict.fromkeys(WHO.settings, 2)


def test_importing_worker_and_backends_does_not_import_pyarrow():
    """Where the model is, there may be none, unless records are packed there."""
    code = "import sys, whence.runs.worker, whence.runs.backends; print('pyarrow' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
