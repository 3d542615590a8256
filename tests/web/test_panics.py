"""Whatever is raised in the thread of a model, also a panic of Rust: the asker hears of it, the thread goes on."""

import threading

import pytest

from tests import zoo
from tests.unit.tokenizers import panicking
from tests.web.serving import ask, begun, client_of, ended, refused
from whence.web.app import create_app
from whence.web.jobs import Worker
from whence.web.models import Model
from whence.web.settings import Settings


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier, and a tokenizer that panics on every word that it does not know."""
    where = tmp_path_factory.mktemp("models") / "panics"
    zoo.make("bert").save_pretrained(where)
    panicking().save_pretrained(where)
    return where


def asked(text):
    return {"input": {"model": "panics", "text": text}, "methods": ["gradient"]}


def test_a_panic_of_the_tokenizer_is_an_error_of_the_text_and_the_next_one_is_answered(folder):
    with client_of(Settings(models=(str(folder),))) as client:
        for _ in range(2):
            said = refused(client.post("/api/explain", json=asked("a plot")), 422, "bad-encoding")
            assert "PanicException" in said["message"]
            assert client.post("/api/explain", json=asked("a film")).status_code == 200


def test_a_job_over_a_row_that_panics_ends_and_the_model_goes_on(folder):
    app = create_app(Settings(models=(str(folder),)))
    try:
        rows = b"text\tlabel\na film\t0\na plot\t1\na thin film\t0\n"
        data = ask(app, "PUT", "/api/data", params={"name": "rows.tsv"}, content=rows).json()["id"]
        body = {"model": "panics", "limit": 3}
        job = ended(app, begun(app, f"/api/jobs/predict/{data}", body))
        assert job["state"] == "done"
        assert ask(app, "POST", "/api/explain", json=asked("a film")).status_code == 200
    finally:
        assert app.state.desk.close(10)


def test_a_panic_anywhere_else_is_an_answer_and_the_next_one_is_answered(
    folder, monkeypatch, caplog
):
    taken = Model.taken

    def panic(self, given):
        if "plot" in given.text:
            panicking()("a plot")
        return taken(self, given)

    monkeypatch.setattr(Model, "taken", panic)
    with client_of(Settings(models=(str(folder),))) as client:
        said = refused(client.post("/api/explain", json=asked("a plot")), 500, "internal-error")
        assert "PanicException: chunk size" in said["message"]
        assert client.post("/api/explain", json=asked("a film")).status_code == 200
    assert "explain by panics failed" in caplog.text


def test_a_model_that_panics_while_it_is_loaded_is_named_and_does_not_load_for_ever(
    folder, monkeypatch
):
    monkeypatch.setattr(Model, "_load", lambda self: panicking()("a plot"))
    app = create_app(Settings(models=(str(folder),)))
    try:
        for _ in range(2):
            said = refused(
                ask(app, "POST", "/api/explain", json=asked("a film")), 500, "internal-error"
            )
            assert "PanicException" in said["message"]
        (entry,) = ask(app, "GET", "/api/session").json()["models"]
        assert entry["state"] == "failed"
        assert "PanicException" in entry["error"]["message"]
    finally:
        assert app.state.desk.close(10)


def test_a_panic_outside_of_a_models_thread_is_an_answer(folder, monkeypatch):
    monkeypatch.setattr("whence.web.uploads.DataSets.bring", lambda *given: panicking()("a plot"))
    with client_of(Settings(models=(str(folder),))) as client:
        answer = client.put("/api/data", params={"name": "a.txt"}, content=b"a")
        said = refused(answer, 500, "internal-error")
        assert "PanicException" in said["message"]
        assert client.get("/api/health").status_code == 200


@pytest.mark.parametrize("raised", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_thread_survives_whatever_is_raised_and_says_so(raised, caplog):
    worker = Worker("m", 10)

    def broken(progress):
        raise raised

    task = worker.put("k", broken, quick=True)
    with pytest.raises(RuntimeError, match=type(raised).__name__):
        task.future.result(10)
    assert (task.state, task.error["code"]) == ("failed", "internal-error")
    assert type(raised).__name__ in task.error["message"]
    assert "k by m failed" in caplog.text
    assert worker.put("k", lambda progress: 3, quick=True).future.result(10) == 3
    worker.close()
    assert worker.join(10)


def test_a_thread_survives_what_is_raised_by_whoever_is_told_of_an_end(caplog):
    worker, gate = Worker("m", 10), threading.Event()

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
