"""Long work: the queue says where you stand, work can be watched and cancelled, quick questions go first."""

import json
import threading
import time

import pytest

from tests.web.serving import ask, begun, client_of, ended, refused
from whence.core.errors import Busy, UnknownModel
from whence.web.inputs import Inputs
from whence.web.jobs import Cancelled, Jobs, Worker
from whence.web.settings import Settings

INPUT = {"model": "reviews", "text": "the plot is thin, but the actors are wonderful " * 3}
LONG = {"input": INPUT, "methods": ["kernel_shap", "lime", "attcat"], "budget": 20_000}
SHORT = {"input": {"model": "reviews", "text": "a film"}, "edges": [[0, 0, 0, 1]], "draws": 5}


@pytest.fixture
def held(app):
    """Hold the model back until the gate is opened."""
    worker = app.state.desk.models.get("reviews").worker
    gate = threading.Event()
    running = threading.Event()

    def wait(progress):
        running.set()
        gate.wait(30)

    worker.put("a held one", wait, quick=True)
    assert running.wait(30)
    yield gate
    gate.set()


def told(app, job):
    return ask(app, "GET", f"/api/jobs/{job['id']}").json()


def test_the_queue_says_where_you_stand(app, held):
    jobs = [begun(app, "/api/jobs/verify", SHORT) for _ in range(3)]
    assert [job["state"] for job in jobs] == ["queued"] * 3
    assert [job["position"] for job in jobs] == [
        1,
        2,
        3,
    ]  # one runs, so the first has one before it
    dropped = ask(app, "DELETE", f"/api/jobs/{jobs[0]['id']}").json()
    assert (dropped["state"], dropped["result"], dropped["error"]) == ("cancelled", None, None)
    assert [told(app, job)["position"] for job in jobs] == [0, 1, 2]
    held.set()
    done = [ended(app, job) for job in jobs[1:]]
    assert [job["state"] for job in done] == ["done", "done"]
    assert told(app, jobs[0])["state"] == "cancelled"  # it was never run


def test_quick_questions_go_before_jobs_that_have_not_begun():
    order = []
    gate = threading.Event()
    worker = Worker("m", 10)
    worker.put("first", lambda go: gate.wait(10), quick=False)
    while worker.current is None:
        time.sleep(0.001)
    names = [("long 1", False), ("long 2", False), ("quick 1", True), ("quick 2", True)]
    tasks = [
        worker.put(name, lambda go, name=name: order.append(name), quick=quick)
        for name, quick in names
    ]
    gate.set()
    for task in tasks:
        task.future.result(10)
    assert order == ["quick 1", "quick 2", "long 1", "long 2"]
    worker.close()
    assert worker.join(10)


def test_quick_questions_count_where_a_job_stands():
    gate, worker = threading.Event(), Worker("m", 10)
    worker.put("first", lambda go: gate.wait(10), quick=False)
    while worker.current is None:
        time.sleep(0.001)
    job = worker.put("long", lambda go: None, quick=False)
    assert worker.position(job) == 1
    worker.put("quick", lambda go: None, quick=True)
    assert worker.position(job) == 2  # the one that runs, and the question
    gate.set()
    job.future.result(10)
    assert worker.position(job) == 0
    worker.close()
    assert worker.join(10)


def test_running_work_is_cancelled_and_the_model_is_as_before(app):
    before = ask(
        app, "POST", "/api/explain", json={"input": INPUT, "methods": ["integrated_gradients"]}
    ).json()
    job = begun(app, "/api/jobs/trust", LONG)
    until = time.monotonic() + 60
    while not (job["state"] == "running" and job["done"]):
        assert time.monotonic() < until, job
        assert job["state"] in ("queued", "running"), job
        job = told(app, job)
    assert job["position"] == 0
    assert 0 < job["done"] < job["total"]
    assert job["remaining"] > 0
    assert ask(app, "DELETE", f"/api/jobs/{job['id']}").json()["state"] == "cancelled"
    after = ask(
        app, "POST", "/api/explain", json={"input": INPUT, "methods": ["integrated_gradients"]}
    ).json()
    assert after["explanations"][0]["scores"] == before["explanations"][0]["scores"]
    again = ask(app, "DELETE", f"/api/jobs/{job['id']}").json()
    assert (again["state"], again["result"]) == ("cancelled", None)


def test_events_tell_of_a_job_until_it_ends():
    with client_of(Settings()) as client:
        job = client.post("/api/jobs/trust", json=dict(LONG, methods=["attcat"], budget=400)).json()
        with client.stream("GET", f"/api/jobs/{job['id']}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            lines = [line for line in stream.iter_lines() if line]
        assert all(line.startswith("data: ") for line in lines)
        told = [json.loads(line.removeprefix("data: ")) for line in lines]
        assert {one["id"] for one in told} == {job["id"]}
        assert all(one["result"] is None for one in told)
        assert told[-1]["state"] == "done"
        assert [one["state"] for one in told].count("done") == 1
        steps = [one["done"] for one in told if one["state"] == "running"]
        assert steps == sorted(steps)
        result = client.get(f"/api/jobs/{job['id']}").json()["result"]
        assert result["kind"] == "trust"


def test_events_of_a_cancelled_job_end():
    with client_of(Settings()) as client:
        job = client.post("/api/jobs/trust", json=LONG).json()
        seen = []
        with client.stream("GET", f"/api/jobs/{job['id']}/events") as stream:
            for line in stream.iter_lines():
                if line:
                    seen.append(json.loads(line.removeprefix("data: "))["state"])
                    if len(seen) == 1:
                        client.delete(f"/api/jobs/{job['id']}")
        assert seen[-1] == "cancelled"


def test_two_comparisons_the_other_way_round_do_not_wait_for_each_other(app):
    body = {"data": "films.tsv", "limit": 5}
    jobs = [
        begun(app, "/api/jobs/compare", {**body, "a": a, "b": b})
        for a, b in [("reviews", "reviews-base"), ("reviews-base", "reviews")] * 3
    ]
    assert [ended(app, job)["state"] for job in jobs] == ["done"] * 6


def test_a_comparison_that_waits_for_the_other_model_can_be_cancelled(app):
    """The first model's thread stands by while the second is busy: that is waiting, too."""
    other = app.state.desk.models.get("reviews-base").worker
    gate = threading.Event()
    other.put("a held one", lambda go: gate.wait(30), quick=True)
    try:
        body = {"data": "films.tsv", "a": "reviews", "b": "reviews-base"}
        job = begun(app, "/api/jobs/compare", body)
        while told(app, job)["state"] == "queued":
            time.sleep(0.01)
        ask(app, "DELETE", f"/api/jobs/{job['id']}")
        answer = ask(
            app, "POST", "/api/explain", json={"input": INPUT, "methods": ["attcat"]}
        )  # the first model is free again, while the other is still held
        assert answer.status_code == 200
        assert not gate.is_set()
    finally:
        gate.set()


def test_while_two_models_are_compared_neither_does_anything_else(app, monkeypatch):
    begun_, gate = threading.Event(), threading.Event()

    def held(a, b, *_):
        begun_.set()
        assert gate.wait(30)

    monkeypatch.setattr("whence.web.surveys.comparison", held)
    job = begun(app, "/api/jobs/compare", {"data": "films.tsv", "a": "reviews", "b": "decoy"})
    assert begun_.wait(30)
    desk = app.state.desk
    asked = [
        desk.models.get(name).worker.put("question", lambda go: None, quick=True)
        for name in ("reviews", "decoy")
    ]
    # Long enough for a free thread to take it, a hundred times over.
    time.sleep(0.1)
    assert [task.state for task in asked] == ["queued", "queued"]
    gate.set()
    for task in asked:
        task.future.result(30)
    assert ended(app, job)["state"] == "done"


def test_a_loan_of_a_model_that_is_gone_is_an_error():
    """Whoever waits for the second model must not keep the first for ever."""
    lead, other, gate = Worker("a", 8), Worker("b", 8), threading.Event()
    other.put("load", lambda go: gate.wait(10), quick=True)
    while other.current is None:
        time.sleep(0.001)

    def both(progress):
        with other.lent("compare", lambda: progress(0, 0)):
            raise AssertionError("there is no model to work with")

    task = lead.put("compare", both, quick=False)
    while not other._quick:
        time.sleep(0.001)
    other.close(UnknownModel("b is not there"))
    with pytest.raises(UnknownModel, match="b is not there"):
        task.future.result(10)
    assert task.state == "failed"
    assert task.error["code"] == "unknown-model"
    assert lead.put("question", lambda go: 3, quick=True).future.result(10) == 3
    with pytest.raises(UnknownModel, match="b is not there"):
        other.put("late", lambda go: None, quick=True)
    gate.set()
    lead.close()
    assert lead.join(10) and other.join(10)


def test_no_more_fits_into_a_full_queue():
    worker = Worker("m", 2)
    gate = threading.Event()
    worker.put("first", lambda go: gate.wait(10), quick=False)
    while worker.current is None:
        time.sleep(0.001)
    worker.put("second", lambda go: None, quick=False)
    worker.put("third", lambda go: None, quick=False)
    with pytest.raises(Busy, match="'m' has 2 requests waiting"):
        worker.put("fourth", lambda go: None, quick=False)
    gate.set()
    worker.close()
    assert worker.join(10)
    with pytest.raises(Busy):
        worker.put("late", lambda go: None, quick=True)


def test_of_ended_jobs_the_latest_are_kept(app):
    jobs, worker = Jobs(kept=2), Worker("m", 10)
    tasks = []
    for number in range(4):
        tasks.append(jobs.begin(worker, "k", lambda go, number=number: number))
        tasks[-1].future.result(10)
    kept = [task.id in jobs._tasks for task in tasks]
    assert kept == [False, True, True, True]  # the last had not ended when it was counted
    worker.close()


def test_a_failure_ends_the_work_and_not_the_thread(caplog):
    worker = Worker("m", 10)

    def broken(go):
        raise ZeroDivisionError("oh")

    task = worker.put("k", broken, quick=True)
    with pytest.raises(ZeroDivisionError):
        task.future.result(10)
    assert task.state == "failed"
    assert task.error["code"] == "internal-error"
    assert "k by m failed" in caplog.text
    assert worker.put("k", lambda go: 3, quick=True).future.result(10) == 3
    worker.close()
    assert worker.join(10)


def test_closing_cancels_what_runs_and_what_waits():
    worker = Worker("m", 10)
    begun_ = threading.Event()

    def long(progress):
        for step in range(10_000):
            begun_.set()
            progress(step, 10_000)
            time.sleep(0.001)

    running, waiting = worker.put("a", long, quick=False), worker.put("b", long, quick=False)
    assert begun_.wait(10)
    worker.close()
    assert worker.join(10)
    assert (running.state, waiting.state) == ("cancelled", "cancelled")
    with pytest.raises(Cancelled):
        waiting.future.result(0)


def test_what_was_seen_of_an_input_is_used_again(explainer):
    made = []

    def make(text):
        made.append(text)
        return explainer.inside(text)

    # 4 layers of 4 heads and 3 tokens ([CLS], a word, [SEP]): 16 maps of 9 edges, four numbers of 4 bytes for each.
    inputs = Inputs(2 * 16 * 9 * 16)
    first = inputs.get("a", lambda: make("film"))
    assert inputs.get("a", lambda: make("film")) is first
    inputs.get("b", lambda: make("plot"))
    assert (len(inputs), made) == (2, ["film", "plot"])
    inputs.get(
        "c", lambda: make("time")
    )  # too much: the one that was not asked about for longest goes
    assert len(inputs) == 2
    assert inputs.get("a", lambda: make("film")) is not first  # b goes
    inputs.get("c", lambda: make("time"))
    assert made == ["film", "plot", "time", "film"]
    inputs.get("d", lambda: make("good"))  # asked about before c was, a goes
    inputs.get("c", lambda: make("time"))
    assert (len(inputs), made[4:]) == (2, ["good"])
    small = Inputs(1)
    small.get("a", lambda: make("film"))
    assert len(small) == 1  # one always fits


def test_a_job_of_an_unknown_model_is_refused_at_once(app):
    body = {**SHORT, "input": {**SHORT["input"], "model": "none"}}
    refused(ask(app, "POST", "/api/jobs/verify", json=body), 404, "unknown-model")
