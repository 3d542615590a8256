"""A chunk that waits for its window: it comes back as it went, whoever packed it, or is known to be torn."""

import math
import pickle
import subprocess
import sys
from dataclasses import replace

import pytest

from tests import stores
from whence.run.backends.answer import Packing
from whence.run.backends.jobs import Job
from whence.run.store import Store, pending
from whence.run.task import Done, Tally, Task

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


class ByHand:
    """A worker without a model."""

    identity = WHO

    def __init__(self, own, failing=()):
        self.own, self.failing = own, failing

    def do(self, task):
        rows = {one.row for one in task.items}
        done = stores.done(WHO, self.own, task.chunk, task.methods, self.failing)
        return replace(done, records=[one for one in done.records if one["row"] in rows])


def task(own, chunk):
    return Task(own.number, chunk, own.chunks[chunk], ("attcat", "rollout"))


def test_numbers_nulls_and_letters_come_back_to_the_bit():
    [own] = stores.records(WHO, stores.item(0), "attcat")[:1]
    own["scores"] = [*NUMBERS, None, math.inf]
    own["ids"] = [-(1 << 63), (1 << 63) - 1, 0]
    own["tokens"] = ["", "é\u0000\n", "🙂", "\u2028"]
    own["starts"], own["words"], own["axioms"] = [], None, []
    back = pending.tables_of(pending.packed([own]))
    assert back["metrics"].num_rows == 0
    [row] = back["explanations"].to_pylist()
    assert {name: row[name] for name in own if name != "table"} == {
        name: value for name, value in own.items() if name != "table"
    }
    assert [str(one) for one in row["scores"]] == [str(one) for one in own["scores"]]  # -0.0, too


def test_what_was_sent_packed_is_stored_as_what_was_sent_plain(tmp_path):
    """As is a chunk of which one example was done here and one elsewhere, which a death of workers makes."""
    own, failing = stores.window(), (1, 4)
    for name, worker in {
        "plain": ByHand(own, failing),
        "packed": Packing(ByHand(own, failing)),
    }.items():
        with Store.locked(tmp_path / name) as store:
            store.begin(stores.plan(), WHO, stores.DATA)
            for chunk in range(len(own.chunks)):
                sent = pickle.dumps(worker.do(task(own, chunk)))
                store.add(pickle.loads(sent))  # noqa: S301 - made a line above
            store.commit(own)
            store.finish()
    with Store.locked(tmp_path / "both") as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for chunk in range(len(own.chunks)):
            first, second = Job(task(own, chunk)).cut()
            assert list(first.finished(ByHand(own, failing).do(first.task))) == []
            [whole] = second.finished(Packing(ByHand(own, failing)).do(second.task))
            assert whole.records and whole.packed and whole.counted.examples == 2
            store.add(whole)
        store.commit(own)
        store.finish()
    found = [stores.contents(tmp_path / name) for name in ("plain", "packed", "both")]
    assert found[0] == found[1] == found[2]
    assert not list((tmp_path / "packed" / "pending").iterdir())


def test_what_is_packed_is_counted():
    own = stores.window()
    plain, packed = (
        one.do(task(own, 0)) for one in (ByHand(own, (0,)), Packing(ByHand(own, (0,))))
    )
    assert packed.records == []
    # Two examples, two methods, one metric; the first example failed.
    assert plain.counted == packed.counted == Tally(2, {"attcat": 1, "rollout": 1}, 2)
    assert (packed.seconds, packed.costs, packed.worker) == (
        plain.seconds,
        plain.costs,
        plain.worker,
    )
    assert Done(0, 0, [], 0.0).counted == Tally()


def test_any_changed_or_missing_byte_shows():
    raw = pending.packed(stores.done(WHO, stores.window(), 0).records)
    assert pending.tables_of(raw)["explanations"].num_rows == 4
    for place in range(0, len(raw), 97):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        for torn in (changed, raw[:place], raw + raw[:place]):
            if torn != raw:
                with pytest.raises(ValueError, match="its checksum does not fit"):
                    pending.tables_of(torn)


def test_a_chunk_is_joined_to_what_an_earlier_run_left_of_it(tmp_path):
    own = stores.window()
    with Store.locked(tmp_path) as store:
        store.begin(stores.plan(), WHO, stores.DATA)
        for method in WHO.explained:
            store.add(stores.done(WHO, own, 0, [method]))
        assert len(store.layout.chunks()) == 1
        assert len(store.held(0)) == 8
        assert store.counts() == dict.fromkeys(WHO.settings, 2)


def test_a_worker_needs_no_arrow():
    """Where the model is, there may be none, unless records are packed there."""
    code = (
        "import sys, whence.run.worker, whence.run.backends.answer; print('pyarrow' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"
