"""Audits in parts: made experiment by experiment, on several days or in a run, they are what one in one go is."""

import json
from dataclasses import replace
from functools import cache

import pytest

import whence
from tests.runs import TEXTS
from whence.audit.composed import Parts
from whence.audit.experiments import experiment
from whence.core.errors import NotCapturable
from whence.data.sets.source import source
from whence.run import audits
from whence.run.audits import audit_of, audited
from whence.run.plan import Manner, Plan
from whence.run.store import Store
from whence.run.watch import Silent
from whence.run.worker import Worker

NAMES = ("permutation", "replacement")
DATA = [
    {"text": text, "label": ("positive", "negative")[n % 2]} for n, text in enumerate(TEXTS[:4])
]


@cache
def reviews():
    return whence.load("reviews", dtype="float64")


class Diary(Parts):
    """Keeps everything, and goes on after a failure."""

    def __init__(self, known=None):
        super().__init__(known)
        self.begun, self.kept, self.lost = [], {}, {}

    def begin(self, name):
        self.begun.append(name)

    def keep(self, found, about):
        self.kept[found["name"]] = json.loads(json.dumps(found))

    def failed(self, name, error):
        self.lost[name] = error


def timeless(payload):
    """Leave out what differs each time: seconds, and how often the model was run, which experiments share."""
    kept = {
        name: value
        for name, value in payload.items()
        if name not in ("seconds", "calls", "provenance")
    }
    kept["experiments"] = [
        timeless({**one, "experiments": []}) for one in payload.get("experiments", ())
    ]
    return json.loads(json.dumps(kept))


@cache
def whole():
    return timeless(whence.audit(reviews(), DATA, experiments=list(NAMES)).to_dict())


def test_in_parts_it_is_what_it_is_in_one_go():
    first = Diary()
    whence.audit(reviews(), DATA, experiments=list(NAMES[1:]), parts=first)
    assert first.begun == ["replacement"]
    second = Diary(first.kept)
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=second)
    assert second.begun == ["permutation"]
    assert timeless(found.to_dict()) == whole()
    # Nothing is left to do.
    third = Diary({**first.kept, **second.kept})
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=third)
    assert (third.begun, timeless(found.to_dict())) == ([], whole())


@pytest.fixture
def failing(monkeypatch):
    """Let one of the experiments fail."""
    entry = experiment.get("replacement")

    def fail(subject, **params):
        """Fail."""
        raise NotCapturable("Not here.")

    fail.__module__ = entry.fn.__module__  # as if it were that very experiment on a bad day
    monkeypatch.setitem(experiment._entries, "replacement", replace(entry, fn=fail))


def test_an_experiment_that_fails_ends_an_audit_or_is_named_in_it(failing):
    with pytest.raises(NotCapturable):
        whence.audit(reviews(), DATA, experiments=list(NAMES))
    diary = Diary()
    found = whence.audit(reviews(), DATA, experiments=list(NAMES), parts=diary)
    assert list(found.verdicts) == ["permutation"]
    assert str(diary.lost["replacement"]) == "Not here."
    assert {"name": "replacement", "why": "Not here."} in found.to_dict()["not_run"]


@pytest.fixture
def asked(tmp_path):
    """Return a plan with an audit, its data, and a folder in which its rows are done."""
    path = tmp_path / "some.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in DATA))
    plan = Plan("reviews", str(path), methods=("gradient",), audit=NAMES, dtype="float64")
    return plan, source(plan.data), tmp_path / "out"


def make(asked, watch=None, **changed):
    """Audit in a folder, and return the files with what was found."""
    plan, data, out = asked
    with Store.locked(out) as store:
        store.begin(plan, Worker(plan, Manner(), reviews()).identity, data.facts())
        audited(plan, Manner(), data, store, watch or Silent(), **changed)
        found = audit_of(store)
    return found, {path.name: path.read_bytes() for path in sorted((out / "audits").iterdir())}


class Ears(Silent):
    """Hears which experiments begin, and may interrupt one."""

    def __init__(self, stop=None):
        self.heard, self.stop = [], stop

    def auditing(self, name):
        self.heard.append(name)
        if name == self.stop:
            raise KeyboardInterrupt


def test_a_run_keeps_each_experiment_and_makes_none_twice(asked, monkeypatch):
    monkeypatch.setattr(audits, "load", lambda *_, **__: reviews())
    interrupted = Ears(stop="replacement")
    with pytest.raises(KeyboardInterrupt):
        make(asked, interrupted)
    assert interrupted.heard == list(NAMES)
    ears = Ears()
    found, files = make(asked, ears)
    assert ears.heard == ["replacement"]
    ours = timeless(found.to_dict())
    name = {"data": {**ours["data"], "name": "the examples", "guessed": whole()["data"]["guessed"]}}
    model = {"model": {what: ours["model"][what] for what in whole()["model"]}}
    assert json.loads(json.dumps({**ours, **name, **model})) == {
        **whole(),
        "conclusion": ours["conclusion"],
    }
    assert found.conclusion.replace("some.jsonl", "the examples") == whole()["conclusion"]
    assert b"seconds" not in b"".join(files.values())
    # Lost and made again, it is the same to the byte; what is there already needs no model.
    (asked[2] / "audits" / "permutation.json").unlink()
    assert make(asked)[1] == files
    monkeypatch.setattr(audits, "load", None)
    assert make(asked)[1] == files
    for shown in (str(found), found.to_html(), found.to_markdown()):
        assert "What it took is in the journal of the run." in shown


def test_a_run_keeps_what_failed_and_makes_it_again_if_asked(asked, monkeypatch, request):
    monkeypatch.setattr(audits, "load", lambda *_, **__: reviews())
    request.getfixturevalue("failing")
    found, files = make(asked)
    assert {"name": "replacement", "why": "Not here."} in found.to_dict()["not_run"]
    monkeypatch.undo()
    monkeypatch.setattr(audits, "load", lambda *_, **__: reviews())
    ears = Ears()
    assert make(asked, ears)[1] == files
    assert ears.heard == []
    found, after = make(asked, ears, retry_failed=True)
    assert ears.heard == ["replacement"]
    assert list(found.verdicts) == list(NAMES)
    assert after["permutation.json"] == files["permutation.json"]


def test_data_that_cannot_be_audited_does_not_end_a_run(asked, monkeypatch):
    monkeypatch.setattr(audits, "load", lambda *_, **__: reviews())
    plan, _, out = asked
    short = out.parent / "short.jsonl"
    short.write_text(
        '{"text": "good", "label": "positive"}\n{"text": "bad", "label": "negative"}\n'
    )
    plan = Plan("reviews", str(short), methods=("gradient",), audit=NAMES, dtype="float64")
    found, files = make((plan, source(plan.data), out))
    assert found is None
    assert len(files) == 2
    assert all(b"fewer than two tokens" in raw for raw in files.values())
