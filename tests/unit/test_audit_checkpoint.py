"""Audits in parts, or in a run: equal to one made at once, resumed after interrupts, failed experiments retried."""

import json
from dataclasses import replace
from functools import cache

import pytest

import whence
from tests.worker_tasks import TEXTS
from whence.core.errors import NotCapturable
from whence.data.dataset import open_dataset
from whence.runs import run
from whence.runs.observers import RunObserver
from whence.runs.plan import Execution, Plan
from whence.runs.run import RunSession, load_audit
from whence.runs.store import Store
from whence.runs.worker import Worker
from whence.studies.audit.audit import AuditCheckpoint
from whence.studies.audit.experiments import experiment

NAMES = ("permutation", "replacement")
DATA = [
    {"text": text, "label": ("positive", "negative")[n % 2]} for n, text in enumerate(TEXTS[:4])
]


@cache
def reviews():
    return whence.load("reviews", dtype="float64")


class RecordingCheckpoint(AuditCheckpoint):
    """Keeps everything, and goes on after a failure."""

    def __init__(self, known=None):
        super().__init__(known)
        self.begun, self.kept, self.lost = [], {}, {}

    def begin(self, name):
        self.begun.append(name)

    def keep(self, found, about):
        self.kept[found["name"]] = json.loads(json.dumps(found))

    def add_failure(self, name, error):
        self.lost[name] = error


def drop_timings(payload):
    """Leave out what differs each time: seconds, and how often the model was run, which experiments share."""
    kept = {
        name: value
        for name, value in payload.items()
        if name not in ("seconds", "calls", "provenance")
    }
    kept["experiments"] = [
        drop_timings({**one, "experiments": []}) for one in payload.get("experiments", ())
    ]
    return json.loads(json.dumps(kept))


@cache
def audit_made_at_once():
    return drop_timings(whence.audit(reviews(), DATA, experiments=list(NAMES)).to_dict())


def test_audit_made_in_parts_equals_the_audit_made_at_once():
    first = RecordingCheckpoint()
    whence.audit(reviews(), DATA, experiments=list(NAMES[1:]), parts=first)
    assert first.begun == ["replacement"]
    second = RecordingCheckpoint(first.kept)
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=second)
    assert second.begun == ["permutation"]
    assert drop_timings(found.to_dict()) == audit_made_at_once()
    # Nothing is left to do.
    third = RecordingCheckpoint({**first.kept, **second.kept})
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=third)
    assert (third.begun, drop_timings(found.to_dict())) == ([], audit_made_at_once())


@pytest.fixture
def failing(monkeypatch):
    """Let one of the experiments fail."""
    entry = experiment.get("replacement")

    def fail(subject, **params):
        """Fail."""
        raise NotCapturable("Not here.")

    fail.__module__ = entry.fn.__module__  # as if it were that very experiment on a bad day
    monkeypatch.setitem(experiment._entries, "replacement", replace(entry, fn=fail))


def test_failing_experiment_raises_without_a_checkpoint_and_is_listed_with_one(failing):
    with pytest.raises(NotCapturable):
        whence.audit(reviews(), DATA, experiments=list(NAMES))
    diary = RecordingCheckpoint()
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=diary)
    assert list(found.verdicts) == ["permutation"]
    assert str(diary.lost["replacement"]) == "Not here."
    assert {"name": "replacement", "why": "Not here."} in found.to_dict()["not_run"]


@pytest.fixture
def planned_audit(tmp_path):
    """Return a plan with an audit, its data, and a folder in which its rows are done."""
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in DATA))
    plan = Plan("reviews", str(path), methods=("gradient",), audit=NAMES, dtype="float64")
    return plan, open_dataset(plan.data), tmp_path / "out"


def make(asked, watch=None, **changed):
    """Audit in a folder, and return the files with what was found."""
    plan, data, out = asked
    with Store.open_locked(out) as store:
        store.begin(plan, Worker(plan, Execution(), reviews()).identity, data.facts())
        RunSession(plan, Execution(), data, store, watch or RunObserver(), **changed).run_audit()
        found = load_audit(store)
    return found, {path.name: path.read_bytes() for path in sorted((out / "audits").iterdir())}


class RecordingObserver(RunObserver):
    """Hears which experiments begin, and may interrupt one."""

    def __init__(self, stop=None):
        self.heard, self.stop = [], stop

    def on_audit(self, name):
        self.heard.append(name)
        if name == self.stop:
            raise KeyboardInterrupt


def test_run_audit_after_interrupt_makes_missing_experiments_only_and_to_the_same_bytes(
    planned_audit, monkeypatch
):
    monkeypatch.setattr(run, "load", lambda *_, **__: reviews())
    interrupted = RecordingObserver(stop="replacement")
    with pytest.raises(KeyboardInterrupt):
        make(planned_audit, interrupted)
    assert interrupted.heard == list(NAMES)
    ears = RecordingObserver()
    found, files = make(planned_audit, ears)
    assert ears.heard == ["replacement"]
    ours = drop_timings(found.to_dict())
    name = {
        "data": {
            **ours["data"],
            "name": "the examples",
            "guessed": audit_made_at_once()["data"]["guessed"],
        }
    }
    model = {"model": {what: ours["model"][what] for what in audit_made_at_once()["model"]}}
    assert json.loads(json.dumps({**ours, **name, **model})) == {
        **audit_made_at_once(),
        "conclusion": ours["conclusion"],
    }
    assert (
        found.conclusion.replace("some.jsonl", "the examples") == audit_made_at_once()["conclusion"]
    )
    assert b"seconds" not in b"".join(files.values())
    # Lost and made again, it is the same to the byte; what is there already needs no model.
    (planned_audit[2] / "audits" / "permutation.json").unlink()
    assert make(planned_audit)[1] == files
    monkeypatch.setattr(run, "load", None)
    assert make(planned_audit)[1] == files
    for shown in (str(found), found.to_html(), found.to_markdown()):
        assert "What it took is in the journal of the run." in shown


def test_run_audit_repeats_a_failed_experiment_only_with_retry_failed(
    planned_audit, monkeypatch, request
):
    monkeypatch.setattr(run, "load", lambda *_, **__: reviews())
    request.getfixturevalue("failing")
    found, files = make(planned_audit)
    assert {"name": "replacement", "why": "Not here."} in found.to_dict()["not_run"]
    monkeypatch.undo()
    monkeypatch.setattr(run, "load", lambda *_, **__: reviews())
    ears = RecordingObserver()
    assert make(planned_audit, ears)[1] == files
    assert ears.heard == []
    found, after = make(planned_audit, ears, retry_failed=True)
    assert ears.heard == ["replacement"]
    assert list(found.verdicts) == list(NAMES)
    assert after["permutation.json"] == files["permutation.json"]


def test_run_audit_on_too_short_texts_stores_the_reason_and_raises_nothing(
    planned_audit, monkeypatch
):
    monkeypatch.setattr(run, "load", lambda *_, **__: reviews())
    plan, _, out = planned_audit
    short = out.parent / "short.jsonl"
    short.write_text(
        '{"text": "good", "label": "positive"}\n{"text": "bad", "label": "negative"}\n'
    )
    plan = Plan("reviews", str(short), methods=("gradient",), audit=NAMES, dtype="float64")
    found, files = make((plan, open_dataset(plan.data), out))
    assert found is None
    assert len(files) == 2
    assert all(b"fewer than two tokens" in raw for raw in files.values())
