"""Jobs and model workers of the app: queue, progress, cancellation, deadlocks, limits, and the cache of inputs."""

import json
import threading
import time

import pytest

from tests.web.serving import ask, assert_error, begin_job, serve_with_client, wait_for_job
from whence.app.jobs import Cancelled, Jobs, ModelWorker
from whence.app.models import InsideCache
from whence.app.settings import Settings
from whence.core.errors import Busy, UnknownModel
from whence.studies.compare.compare import compare

INPUT = {"model": "reviews", "text": "the plot is thin, but the actors are wonderful " * 3}
LONG = {"input": INPUT, "methods": ["kernel_shap", "lime", "attcat"], "budget": 20_000}
SHORT = {"input": {"model": "reviews", "text": "a film"}, "edges": [[0, 0, 0, 1]], "draws": 5}


@pytest.fixture
def model_gate(app):
    """Hold the model back until the gate is opened."""
    worker = app.state.app_state.models.get("reviews").worker
    gate = threading.Event()
    running = threading.Event()

    def wait(progress):
        running.set()
        gate.wait(30)

    worker.put("a held one", wait, quick=True)
    assert running.wait(30)
    yield gate
    gate.set()


def get_job(app, job):
    return ask(app, "GET", f"/api/jobs/{job['id']}").json()


def test_queued_jobs_report_their_position_and_move_up_after_a_cancellation(app, model_gate):
    jobs = [begin_job(app, "/api/jobs/verify", SHORT) for _ in range(3)]
    assert [job["state"] for job in jobs] == ["queued"] * 3
    assert [job["position"] for job in jobs] == [
        1,
        2,
        3,
    ]  # one runs, so the first has one before it
    dropped = ask(app, "DELETE", f"/api/jobs/{jobs[0]['id']}").json()
    assert (dropped["state"], dropped["result"], dropped["error"]) == ("cancelled", None, None)
    assert [get_job(app, job)["position"] for job in jobs] == [0, 1, 2]
    model_gate.set()
    done = [wait_for_job(app, job) for job in jobs[1:]]
    assert [job["state"] for job in done] == ["done", "done"]
    assert get_job(app, jobs[0])["state"] == "cancelled"  # it was never run


def test_quick_questions_go_before_jobs_that_have_not_begun():
    order = []
    gate = threading.Event()
    worker = ModelWorker("m", 10)
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


def test_queue_position_of_a_job_counts_quick_questions():
    gate, worker = threading.Event(), ModelWorker("m", 10)
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


def test_cancelling_a_running_job_leaves_the_model_unchanged(app):
    before = ask(
        app, "POST", "/api/explain", json={"input": INPUT, "methods": ["integrated_gradients"]}
    ).json()
    job = begin_job(app, "/api/jobs/trust", LONG)
    until = time.monotonic() + 60
    while not (job["state"] == "running" and job["done"]):
        assert time.monotonic() < until, job
        assert job["state"] in ("queued", "running"), job
        job = get_job(app, job)
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


def test_job_events_report_progress_until_the_job_is_done():
    with serve_with_client(Settings()) as client:
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


def test_events_of_a_cancelled_job_end_with_cancelled():
    with serve_with_client(Settings()) as client:
        job = client.post("/api/jobs/trust", json=LONG).json()
        seen = []
        with client.stream("GET", f"/api/jobs/{job['id']}/events") as stream:
            for line in stream.iter_lines():
                if line:
                    seen.append(json.loads(line.removeprefix("data: "))["state"])
                    if len(seen) == 1:
                        client.delete(f"/api/jobs/{job['id']}")
        assert seen[-1] == "cancelled"


def test_compare_jobs_of_two_models_in_opposite_orders_do_not_deadlock(app):
    body = {"data": "films.tsv", "limit": 5}
    jobs = [
        begin_job(app, "/api/jobs/compare", {**body, "a": a, "b": b})
        for a, b in [("reviews", "reviews-base"), ("reviews-base", "reviews")] * 3
    ]
    assert [wait_for_job(app, job)["state"] for job in jobs] == ["done"] * 6


def test_compare_job_waiting_for_the_second_model_can_be_cancelled(app):
    """The first model's thread stands by while the second is busy: that is waiting, too."""
    other = app.state.app_state.models.get("reviews-base").worker
    gate = threading.Event()
    other.put("a held one", lambda go: gate.wait(30), quick=True)
    try:
        body = {"data": "films.tsv", "a": "reviews", "b": "reviews-base"}
        job = begin_job(app, "/api/jobs/compare", body)
        while get_job(app, job)["state"] == "queued":
            time.sleep(0.01)
        ask(app, "DELETE", f"/api/jobs/{job['id']}")
        answer = ask(
            app, "POST", "/api/explain", json={"input": INPUT, "methods": ["attcat"]}
        )  # the first model is free again, while the other is still held
        assert answer.status_code == 200
        assert not gate.is_set()
    finally:
        gate.set()


def test_both_models_answer_no_other_question_during_a_compare_job(app, monkeypatch):
    begun_, gate = threading.Event(), threading.Event()

    def held(*models, **options):
        begun_.set()
        assert gate.wait(30)
        return compare(*models, **options)

    monkeypatch.setattr("whence.app.answers.compare", held)
    body = {"data": "films.tsv", "a": "reviews-base", "b": "reviews", "limit": 5}
    job = begin_job(app, "/api/jobs/compare", body)
    assert begun_.wait(30)
    desk = app.state.app_state
    asked = [
        desk.models.get(name).worker.put("question", lambda go: None, quick=True)
        for name in ("reviews-base", "reviews")
    ]
    # Long enough for a free thread to take it, a hundred times over.
    time.sleep(0.1)
    assert [task.state for task in asked] == ["queued", "queued"]
    gate.set()
    for task in asked:
        task.future.result(30)
    assert wait_for_job(app, job)["state"] == "done"


def test_lend_of_a_closed_model_worker_raises_its_error_and_frees_the_first():
    """Whoever waits for the second model must not keep the first for ever."""
    lead, other, gate = ModelWorker("a", 8), ModelWorker("b", 8), threading.Event()
    other.put("load", lambda go: gate.wait(10), quick=True)
    while other.current is None:
        time.sleep(0.001)

    def both(progress):
        with other.lend("compare", lambda: progress(0, 0)):
            raise AssertionError("there is no model to work with")

    task = lead.put("compare", both, quick=False)
    while not other._queue:
        time.sleep(0.001)
    other.close(UnknownModel("b is not there"))
    with pytest.raises(UnknownModel, match="b is not there"):
        task.future.result(10)
    assert task.state == "failed"
    assert task.describe().error.code == "unknown-model"
    assert lead.put("question", lambda go: 3, quick=True).future.result(10) == 3
    with pytest.raises(UnknownModel, match="b is not there"):
        other.put("late", lambda go: None, quick=True)
    gate.set()
    lead.close()
    assert lead.join(10) and other.join(10)


def test_model_worker_with_a_full_queue_raises_busy():
    worker = ModelWorker("m", 2)
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


def test_jobs_drops_the_oldest_ended_jobs_beyond_the_limit(app):
    jobs, worker = Jobs(kept=2), ModelWorker("m", 10)
    tasks = []
    for number in range(4):
        tasks.append(jobs.begin(worker, "k", lambda go, number=number: number))
        tasks[-1].future.result(10)
    kept = [task.id in jobs._tasks for task in tasks]
    assert kept == [False, True, True, True]  # the last had not ended when it was counted
    worker.close()


def test_model_worker_continues_after_a_failed_task(caplog):
    worker = ModelWorker("m", 10)

    def broken(go):
        raise ZeroDivisionError("oh")

    task = worker.put("k", broken, quick=True)
    with pytest.raises(ZeroDivisionError):
        task.future.result(10)
    assert task.state == "failed"
    assert task.describe().error.code == "internal-error"
    assert "k by m failed" in caplog.text
    assert worker.put("k", lambda go: 3, quick=True).future.result(10) == 3
    worker.close()
    assert worker.join(10)


def test_closing_a_model_worker_cancels_running_and_waiting_tasks():
    worker = ModelWorker("m", 10)
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


def test_inside_cache_reuses_inputs_and_drops_the_least_recently_used(explainer):
    made = []

    def make(text):
        made.append(text)
        return explainer.inside(text)

    # 4 layers of 4 heads and 3 tokens ([CLS], a word, [SEP]): 16 maps of 9 edges, four numbers of 4 bytes for each.
    inputs = InsideCache(2 * 16 * 9 * 16)
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
    small = InsideCache(1)
    small.get("a", lambda: make("film"))
    assert len(small) == 1  # one always fits


def test_a_job_of_an_unknown_model_is_refused_at_once(app):
    body = {**SHORT, "input": {**SHORT["input"], "model": "none"}}
    assert_error(ask(app, "POST", "/api/jobs/verify", json=body), 404, "unknown-model")
