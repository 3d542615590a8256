"""Panics of Rust and other exceptions in the thread of a model: an error response, and the thread continues."""

import threading

import pytest

from tests import zoo
from tests.unit.small_tokenizers import make_panicking_tokenizer
from tests.web.serving import ask, assert_error, begin_job, serve_with_client, wait_for_job
from whence.app.jobs import ModelWorker
from whence.app.models import ServedModel
from whence.app.server import create_app
from whence.app.settings import Settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier, and a tokenizer that panics on every word that it does not know."""
    where = tmp_path_factory.mktemp("models") / "panics"
    zoo.make("bert").save_pretrained(where)
    make_panicking_tokenizer().save_pretrained(where)
    return where


def build_explain_body(text):
    return {"input": {"model": "panics", "text": text}, "methods": ["gradient"]}


def test_tokenizer_panic_is_a_bad_encoding_error_and_the_next_request_is_answered(folder):
    with serve_with_client(Settings(models=(str(folder),))) as client:
        for _ in range(2):
            said = assert_error(
                client.post("/api/explain", json=build_explain_body("a plot")), 422, "bad-encoding"
            )
            assert "PanicException" in said["message"]
            assert client.post("/api/explain", json=build_explain_body("a film")).status_code == 200


def test_predict_job_over_a_panicking_row_is_done_and_the_model_continues(folder):
    app = create_app(Settings(models=(str(folder),)))
    try:
        rows = b"text\tlabel\na film\t0\na plot\t1\na thin film\t0\n"
        data = ask(app, "PUT", "/api/data", params={"name": "rows.tsv"}, content=rows).json()["id"]
        body = {"model": "panics", "limit": 3}
        job = wait_for_job(app, begin_job(app, f"/api/jobs/predict/{data}", body))
        assert job["state"] == "done"
        assert (
            ask(app, "POST", "/api/explain", json=build_explain_body("a film")).status_code == 200
        )
    finally:
        assert app.state.app_state.close(10)


def test_panic_outside_the_tokenizer_is_a_500_error_and_the_next_request_is_answered(
    folder, monkeypatch, caplog
):
    taken = ServedModel.resolve_input

    def panic(self, given):
        if "plot" in given.text:
            make_panicking_tokenizer()("a plot")
        return taken(self, given)

    monkeypatch.setattr(ServedModel, "resolve_input", panic)
    with serve_with_client(Settings(models=(str(folder),))) as client:
        said = assert_error(
            client.post("/api/explain", json=build_explain_body("a plot")), 500, "internal-error"
        )
        assert "PanicException: chunk size" in said["message"]
        assert client.post("/api/explain", json=build_explain_body("a film")).status_code == 200
    assert "explain by panics failed" in caplog.text


def test_panic_while_loading_a_model_is_a_500_error_and_marks_the_model_failed(folder, monkeypatch):
    monkeypatch.setattr(ServedModel, "_load", lambda self: make_panicking_tokenizer()("a plot"))
    app = create_app(Settings(models=(str(folder),)))
    try:
        for _ in range(2):
            said = assert_error(
                ask(app, "POST", "/api/explain", json=build_explain_body("a film")),
                500,
                "internal-error",
            )
            assert "PanicException" in said["message"]
        (entry,) = ask(app, "GET", "/api/session").json()["models"]
        assert entry["state"] == "failed"
        assert "PanicException" in entry["error"]["message"]
    finally:
        assert app.state.app_state.close(10)


def test_panic_outside_the_thread_of_a_model_is_a_500_error(folder, monkeypatch):
    monkeypatch.setattr(
        "whence.app.library.DataSets.add_upload",
        lambda *given: make_panicking_tokenizer()("a plot"),
    )
    with serve_with_client(Settings(models=(str(folder),))) as client:
        answer = client.put("/api/data", params={"name": "a.txt"}, content=b"a")
        said = assert_error(answer, 500, "internal-error")
        assert "PanicException" in said["message"]
        assert client.get("/api/health").status_code == 200


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_model_worker_survives_base_exceptions_and_logs_them(raised, caplog):
    worker = ModelWorker("m", 10)

    def broken(progress):
        raise raised

    task = worker.put("k", broken, quick=True)
    with pytest.raises(RuntimeError, match=type(raised).__name__):
        task.future.result(10)
    assert (task.state, task.describe().error.code) == ("failed", "internal-error")
    assert type(raised).__name__ in task.describe().error.message
    assert "k by m failed" in caplog.text
    assert worker.put("k", lambda progress: 3, quick=True).future.result(10) == 3
    worker.close()
    assert worker.join(10)


def test_model_worker_survives_an_exception_in_a_done_callback(caplog):
    worker, gate = ModelWorker("m", 10), threading.Event()

    def told(future):
        raise SystemExit(3)

    task = worker.put("k", lambda progress: gate.wait(10), quick=True)
    task.future.add_done_callback(told)
    gate.set()
    assert task.future.result(10)
    assert worker.put("k", lambda progress: 3, quick=True).future.result(10) == 3
    assert "the end of k by m failed" in caplog.text
    worker.close()
    assert worker.join(10)
