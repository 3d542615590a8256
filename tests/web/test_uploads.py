"""Uploads of data sets and results, or files given at start: limits, columns, result pages, and refusals."""

import gzip
import io
import json

import pyarrow
import pyarrow.parquet
import pytest

from tests.audit_payloads import audit
from tests.web.serving import ask, assert_error, begin_job, wait_for_job
from whence.app.library import StoredResults, clean_file_name
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import BadExamples, CannotRead

CSV = b'text,label\n"a fine film, really",positive\na dull one,negative\n'


@pytest.fixture
def fresh_app():
    app = create_app(Settings(models=("reviews",), kept=2))
    yield app
    assert app.state.app_state.close(10)


def put(app, where, name, raw):
    return ask(app, "PUT", f"/api/{where}", params={"name": name}, content=raw)


def test_uploaded_data_set_is_listed_and_can_be_predicted(fresh_app):
    entry = put(fresh_app, "data", "my films.csv", CSV).json()
    assert entry["id"] == "my-films.csv"
    assert (entry["rows"], entry["text"], entry["label"]) == (2, "text", "label")
    assert ask(fresh_app, "GET", "/api/session").json()["data"] == [entry]
    job = wait_for_job(
        fresh_app, begin_job(fresh_app, f"/api/jobs/predict/{entry['id']}", {"model": "reviews"})
    )
    assert [row["text"] for row in job["result"]["rows"]] == ["a fine film, really", "a dull one"]


def test_uploads_of_one_name_get_numbered_ids_and_the_oldest_is_dropped(fresh_app):
    ids = [put(fresh_app, "data", "a.csv", CSV).json()["id"] for _ in range(3)]
    assert ids == ["a.csv", "a.csv-2", "a.csv-3"]
    kept = [one["id"] for one in ask(fresh_app, "GET", "/api/session").json()["data"]]
    assert kept == ["a.csv-2", "a.csv-3"]


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("a.csv", b"id,stars\n1,2\n"),
        ("a.exe", CSV),
        ("a", CSV),
        ("imdb", CSV),
        ("a.csv", b""),
        ("a.txt", b"\xff\xfe"),
        ("a.jsonl", b"[1]"),
        ("a.parquet", b"PAR1"),
        ("a.csv.gz", CSV),
    ],
)
def test_upload_of_a_file_that_is_no_data_set_is_refused(fresh_app, name, raw):
    assert_error(put(fresh_app, "data", name, raw), 422, "bad-examples")
    assert ask(fresh_app, "GET", "/api/session").json()["data"] == []


def test_upload_above_the_size_limit_is_refused_plain_or_compressed(settings):
    app = create_app(Settings(upload=1000))
    try:
        assert_error(put(app, "data", "a.txt", b"x" * 1001), 413, "too-large")
        bomb = gzip.compress(b"x" * 1_000_000)  # a thousandth of what it holds
        assert len(bomb) < 1000 + 100
        assert_error(put(app, "data", "a.txt.gz", bomb[:1000]), 413, "too-large")
        small = gzip.compress(b"a film\n" * 10) + gzip.compress(b"another\n")
        assert put(app, "data", "a.txt.gz", small).json()["rows"] == 11
    finally:
        assert app.state.app_state.close(10)


def test_upload_that_unpacks_to_more_than_the_limit_is_refused(settings):
    app = create_app(Settings(upload=20_000))  # 160,000 bytes unpacked
    try:
        second = gzip.compress(b"a film\n") + gzip.compress(b"x" * 1_000_000)
        assert_error(put(app, "data", "a.txt.GZ", second), 413, "too-large")
        once = parquet({"text": ["a film " * 10] * 10_000})  # 700,000 bytes, stored as one value
        assert len(once) < 20_000
        assert_error(put(app, "data", "a.parquet", once), 413, "too-large")
        named = pyarrow.array(["a film " * 10] * 10_000).dictionary_encode()
        assert_error(put(app, "data", "a.parquet", parquet({"text": named})), 413, "too-large")
        words = [["a film " * 10] * 10] * 1000
        assert_error(put(app, "data", "a.parquet", parquet({"tokens": words})), 413, "too-large")
        assert_error(put(app, "data", "a.parquet.gz", gzip.compress(once)), 413, "too-large")
        small = parquet({"text": ["a film " * 10] * 1000})
        assert put(app, "data", "a.parquet", small).json()["rows"] == 1000
    finally:
        assert app.state.app_state.close(10)


def parquet(columns):
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def test_upload_errors_name_the_file_by_its_original_name(fresh_app):
    said = assert_error(put(fresh_app, "data", "my films.json", b"{}"), 422, "bad-examples")
    assert said["message"].startswith("my films.json: .json is no kind of file that is read here.")
    said = assert_error(put(fresh_app, "data", "a.csv", b"id,stars\n1,2\n"), 422, "bad-examples")
    assert said["message"].startswith("a.csv has no column of texts; it has id, stars.")
    assert "Columns on the page" in said["message"]


FOUR = b"id,body,other,stars\n7,a fine film,a dull one,1\n8,a dull one,a fine film,0\n"


def test_upload_takes_the_given_columns_and_refuses_unknown_ones(fresh_app):
    named = {"name": "four.csv", "text": "body", "label": "stars"}
    entry = ask(fresh_app, "PUT", "/api/data", params=named, content=FOUR).json()
    assert (entry["text"], entry["pair"], entry["label"]) == ("body", None, "stars")
    assert entry["columns"] == ["id", "body", "other", "stars"]
    assert entry["guessed"] == []
    wrong = ask(fresh_app, "PUT", "/api/data", params={**named, "text": "bdy"}, content=FOUR)
    assert "Did you mean 'body'?" in assert_error(wrong, 422, "bad-examples")["message"]


def test_columns_endpoint_changes_the_columns_of_an_uploaded_data_set(fresh_app):
    params = {"name": "four.csv", "text": "body"}
    key = ask(fresh_app, "PUT", "/api/data", params=params, content=FOUR).json()["id"]
    where = f"/api/data/{key}/columns"
    pair = ask(
        fresh_app, "POST", where, json={"text": "other", "pair": "body", "label": "stars"}
    ).json()
    assert pair["id"] == key
    assert (pair["text"], pair["pair"], pair["label"]) == ("other", "body", "stars")
    job = wait_for_job(
        fresh_app, begin_job(fresh_app, f"/api/jobs/predict/{key}", {"model": "reviews"})
    )
    assert (job["result"]["rows"][0]["text"], job["result"]["rows"][0]["pair"]) == (
        "a dull one",
        "a fine film",
    )
    none = ask(fresh_app, "POST", where, json={"text": "other", "pair": "", "label": ""}).json()
    assert (none["pair"], none["label"]) == (None, None)
    bad = ask(fresh_app, "POST", where, json={"text": "nowhere"})
    assert_error(bad, 422, "bad-examples")
    assert ask(fresh_app, "GET", "/api/session").json()["data"] == [none]  # as it was
    assert_error(ask(fresh_app, "POST", "/api/data/none/columns", json={}), 404, "not-found")


def test_columns_endpoint_changes_the_columns_of_a_data_set_given_at_start(tmp_path):
    (tmp_path / "four.csv").write_bytes(FOUR.replace(b"body", b"text"))
    app = create_app(Settings(data=(tmp_path / "four.csv",)))
    try:
        (entry,) = ask(app, "GET", "/api/session").json()["data"]
        assert (entry["text"], entry["label"], entry["guessed"]) == ("text", None, ["text"])
        found = ask(
            app, "POST", "/api/data/four.csv/columns", json={"text": "other", "label": "id"}
        )
        assert (found.json()["text"], found.json()["label"]) == ("other", "id")
    finally:
        assert app.state.app_state.close(10)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\films\\a.csv", "a.csv"),
        ("..", "file"),
        ("<img src=x>.csv", "_img src=x_.csv".replace("=", "_")),
        ("x" * 300 + ".csv", "x" * 96 + ".csv"),
        ("\x00a\n.csv", "_a_.csv"),
    ],
)
def test_clean_file_name_removes_folders_and_special_characters(name, plain):
    assert clean_file_name(name) == plain


def test_upload_without_a_name_is_a_bad_request(fresh_app):
    assert_error(ask(fresh_app, "PUT", "/api/data", content=CSV), 422, "bad-request")
    assert_error(put(fresh_app, "data", "", CSV), 422, "bad-request")


def test_results_given_at_start_are_listed_and_have_a_page(app, results_folder):
    listed = ask(app, "GET", "/api/results").json()
    found = {one["id"]: one for one in listed["results"]}
    assert (found["why"]["kind"], found["card"]["kind"]) == ("explanation", "trust")
    assert found["why"]["model"] == "reviews"
    assert "a fine film" in found["why"]["summary"]
    assert found["why"]["changed"].endswith("+00:00")
    (problem,) = listed["problems"]
    assert problem == "1 file is no result of whence, and passed over: other.json."
    assert ask(app, "GET", "/api/results/why").json() == json.loads(
        (results_folder / "why.json").read_text()
    )
    page = ask(app, "GET", "/api/results/card/page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.startswith("<!doctype html>")


def test_uploaded_result_is_listed_and_has_a_page(fresh_app, results_folder):
    entry = put(
        fresh_app, "results", "mine.json", (results_folder / "card.json").read_bytes()
    ).json()
    assert (entry["id"], entry["kind"], entry["changed"]) == ("mine", "trust", None)
    assert ask(fresh_app, "GET", "/api/results").json()["results"] == [entry]
    assert "<html" in ask(fresh_app, "GET", "/api/results/mine/page").text


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b"[]",
        b"[" * 100_000,
        b'{"kind": 3}',
        b'{"kind": "audit"}',
        b'{"kind": "comparison", "version": 1}',
        b'{"kind": "evaluation", "version": 1}',
        b'{"explanations": []}',
        b'{"methods": [], "rules": []}',
    ],
)
def test_upload_of_a_file_that_is_no_result_is_refused(fresh_app, raw):
    assert_error(put(fresh_app, "results", "a.json", raw), 422, "cannot-read")
    assert ask(fresh_app, "GET", "/api/results").json()["results"] == []


@pytest.mark.parametrize(
    ("score", "text", "what"),
    [
        ("NaN", "a", "a number that is none"),
        ("-Infinity", "a", "a number that is none"),
        ("0.5", "\\ud800 a", "half a character"),
    ],
)
def test_result_with_nan_infinity_or_half_a_character_is_refused(
    fresh_app, results_folder, tmp_path, score, text, what
):
    """Python reads these from JSON, and no browser does: kept, one of them would break the whole list."""
    payload = json.loads((results_folder / "why.json").read_text())
    payload["explanations"][0]["word_scores"][0] = "SCORE"
    payload["input"]["text"] = "TEXT"
    raw = json.dumps(payload).replace('"SCORE"', score).replace("TEXT", text).encode()
    assert (
        what
        in assert_error(put(fresh_app, "results", "a.json", raw), 422, "cannot-read")["message"]
    )
    assert ask(fresh_app, "GET", "/api/results").json() == {"results": [], "problems": []}
    (tmp_path / "mine.json").write_bytes(raw)
    listed = StoredResults(Settings(results=(tmp_path,))).list_results()
    assert listed["results"] == []
    assert what in listed["problems"][0]


def test_every_kind_of_result_has_a_summary_and_a_page_without_scripts(
    fresh_app, data_file, explainer
):
    from whence.explain.explainer import load
    from whence.explain.word_scores import wrap_payloads
    from whence.studies.compare.compare import compare
    from whence.studies.evaluation.evaluate import evaluate
    from whence.studies.evaluation.recommend import recommend

    some = {"methods": ["attcat", "rollout"], "metrics": ["comprehensiveness"]}
    kinds = {
        "comparison": compare("reviews-base", "reviews", data_file),
        "evaluation": evaluate(explainer, data_file, **some),
        "recommendation": recommend(explainer, data_file, methods=some["methods"], budget=500),
    }
    shapes = load("shapes")
    rings = [shapes.explain("shapes:3", target=name).to_dict() for name in ("ring", "square")]
    said = [explainer.explain("a good film", target=name).to_dict() for name in ("positive",)]
    made = {kind: result.to_dict() for kind, result in kinds.items()}
    made |= {"targets": wrap_payloads(rings, "targets"), "entities": wrap_payloads(said)}
    for kind, result in made.items():
        raw = json.dumps(result).encode()
        answer = put(fresh_app, "results", f"{kind}.json", raw)
        assert answer.status_code == 200, answer.text
        entry = answer.json()
        assert entry["kind"] == kind
        assert entry["model"]
        assert entry["summary"]
        if kind == "targets":
            assert (
                entry["summary"]
                == "ring, by generic_attention: shapes:3; square, by generic_attention: shapes:3"
            )
        page = ask(fresh_app, "GET", f"/api/results/{entry['id']}/page").text
        assert "<script" not in page


@pytest.mark.parametrize("answer", ["no", "yes", "undecided"])
def test_the_summary_of_an_audit_begins_with_its_answer(fresh_app, answer):
    entry = put(
        fresh_app, "results", f"{answer}.json", json.dumps({**audit(), "answer": answer}).encode()
    )
    said = entry.json()["summary"]
    begin = f"May attention be read as an explanation here? {answer.capitalize()}. "
    assert said.startswith(begin)


def test_page_of_a_result_with_html_in_its_texts_is_escaped(fresh_app, results_folder):
    payload = json.loads((results_folder / "why.json").read_text())
    payload["model"]["name"] = "<script>alert(1)</script>"
    payload["words"][0]["text"] = "<img src=x onerror=alert(1)>"
    entry = put(fresh_app, "results", "<b>.json", json.dumps(payload).encode()).json()
    assert "<" not in entry["id"]
    page = ask(fresh_app, "GET", f"/api/results/{entry['id']}/page").text
    assert "<script" not in page
    assert "<img" not in page


def test_create_app_with_missing_results_or_data_raises(tmp_path):
    with pytest.raises(CannotRead, match="there is no such file"):
        create_app(Settings(results=(tmp_path / "none",)))
    with pytest.raises(BadExamples, match=r"none\.tsv"):
        create_app(Settings(data=(tmp_path / "none.tsv",)))
