"""Files that are brought in, data and results, and files that were given at the start."""

import gzip
import io
import json

import pyarrow
import pyarrow.parquet
import pytest

from tests.audits import audit
from tests.web.serving import ask, begun, ended, refused
from whence.core.errors import BadExamples, CannotRead
from whence.web.app import create_app
from whence.web.results import StoredResults
from whence.web.settings import Settings
from whence.web.uploads import plain_name

CSV = b'text,label\n"a fine film, really",positive\na dull one,negative\n'


@pytest.fixture
def fresh():
    app = create_app(Settings(models=("reviews",), kept=2))
    yield app
    assert app.state.desk.close(10)


def put(app, where, name, raw):
    return ask(app, "PUT", f"/api/{where}", params={"name": name}, content=raw)


def test_a_data_set_is_brought_in_and_predicted(fresh):
    entry = put(fresh, "data", "my films.csv", CSV).json()
    assert entry["id"] == "my-films.csv"
    assert (entry["rows"], entry["text"], entry["label"]) == (2, "text", "label")
    assert ask(fresh, "GET", "/api/session").json()["data"] == [entry]
    job = ended(fresh, begun(fresh, f"/api/jobs/predict/{entry['id']}", {"model": "reviews"}))
    assert [row["text"] for row in job["result"]["rows"]] == ["a fine film, really", "a dull one"]


def test_two_of_one_name_and_too_many(fresh):
    ids = [put(fresh, "data", "a.csv", CSV).json()["id"] for _ in range(3)]
    assert ids == ["a.csv", "a.csv-2", "a.csv-3"]
    kept = [one["id"] for one in ask(fresh, "GET", "/api/session").json()["data"]]
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
def test_a_file_that_is_no_data_set(fresh, name, raw):
    refused(put(fresh, "data", name, raw), 422, "bad-examples")
    assert ask(fresh, "GET", "/api/session").json()["data"] == []


def test_a_file_that_is_too_large(settings):
    app = create_app(Settings(upload=1000))
    try:
        refused(put(app, "data", "a.txt", b"x" * 1001), 413, "too-large")
        bomb = gzip.compress(b"x" * 1_000_000)  # a thousandth of what it holds
        assert len(bomb) < 1000 + 100
        refused(put(app, "data", "a.txt.gz", bomb[:1000]), 413, "too-large")
        small = gzip.compress(b"a film\n" * 10) + gzip.compress(b"another\n")
        assert put(app, "data", "a.txt.gz", small).json()["rows"] == 11
    finally:
        assert app.state.desk.close(10)


def test_a_small_file_that_holds_much(settings):
    app = create_app(Settings(upload=20_000))  # 160,000 bytes unpacked
    try:
        second = gzip.compress(b"a film\n") + gzip.compress(b"x" * 1_000_000)
        refused(put(app, "data", "a.txt.GZ", second), 413, "too-large")
        once = parquet({"text": ["a film " * 10] * 10_000})  # 700,000 bytes, stored as one value
        assert len(once) < 20_000
        refused(put(app, "data", "a.parquet", once), 413, "too-large")
        named = pyarrow.array(["a film " * 10] * 10_000).dictionary_encode()
        refused(put(app, "data", "a.parquet", parquet({"text": named})), 413, "too-large")
        words = [["a film " * 10] * 10] * 1000
        refused(put(app, "data", "a.parquet", parquet({"tokens": words})), 413, "too-large")
        refused(put(app, "data", "a.parquet.gz", gzip.compress(once)), 413, "too-large")
        small = parquet({"text": ["a film " * 10] * 1000})
        assert put(app, "data", "a.parquet", small).json()["rows"] == 1000
    finally:
        assert app.state.desk.close(10)


def parquet(columns):
    written = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), written)
    return written.getvalue()


def test_errors_name_the_file_as_it_was_brought(fresh):
    said = refused(put(fresh, "data", "my films.json", b"{}"), 422, "bad-examples")
    assert said["message"].startswith("my films.json: .json is no kind of file that is read here.")
    said = refused(put(fresh, "data", "a.csv", b"id,stars\n1,2\n"), 422, "bad-examples")
    assert said["message"].startswith("a.csv has no column of texts; it has id, stars.")
    assert "Columns on the page" in said["message"]


FOUR = b"id,body,other,stars\n7,a fine film,a dull one,1\n8,a dull one,a fine film,0\n"


def test_columns_are_chosen_when_a_file_is_brought_in(fresh):
    named = {"name": "four.csv", "text": "body", "label": "stars"}
    entry = ask(fresh, "PUT", "/api/data", params=named, content=FOUR).json()
    assert (entry["text"], entry["pair"], entry["label"]) == ("body", None, "stars")
    assert entry["columns"] == ["id", "body", "other", "stars"]
    assert entry["guessed"] == []
    wrong = ask(fresh, "PUT", "/api/data", params={**named, "text": "bdy"}, content=FOUR)
    assert "Did you mean 'body'?" in refused(wrong, 422, "bad-examples")["message"]


def test_columns_are_chosen_afterwards(fresh):
    params = {"name": "four.csv", "text": "body"}
    key = ask(fresh, "PUT", "/api/data", params=params, content=FOUR).json()["id"]
    where = f"/api/data/{key}/columns"
    pair = ask(
        fresh, "POST", where, json={"text": "other", "pair": "body", "label": "stars"}
    ).json()
    assert pair["id"] == key
    assert (pair["text"], pair["pair"], pair["label"]) == ("other", "body", "stars")
    job = ended(fresh, begun(fresh, f"/api/jobs/predict/{key}", {"model": "reviews"}))
    assert (job["result"]["rows"][0]["text"], job["result"]["rows"][0]["pair"]) == (
        "a dull one",
        "a fine film",
    )
    none = ask(fresh, "POST", where, json={"text": "other", "pair": "", "label": ""}).json()
    assert (none["pair"], none["label"]) == (None, None)
    bad = ask(fresh, "POST", where, json={"text": "nowhere"})
    refused(bad, 422, "bad-examples")
    assert ask(fresh, "GET", "/api/session").json()["data"] == [none]  # as it was
    refused(ask(fresh, "POST", "/api/data/none/columns", json={}), 404, "not-found")


def test_columns_of_a_file_that_was_given_at_the_start(tmp_path):
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
        assert app.state.desk.close(10)


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
def test_names_of_files_are_made_plain(name, plain):
    assert plain_name(name) == plain


def test_a_name_must_be_given(fresh):
    refused(ask(fresh, "PUT", "/api/data", content=CSV), 422, "bad-request")
    refused(put(fresh, "data", "", CSV), 422, "bad-request")


def test_results_given_at_the_start(app, stored):
    listed = ask(app, "GET", "/api/results").json()
    found = {one["id"]: one for one in listed["results"]}
    assert (found["why"]["kind"], found["card"]["kind"]) == ("explanation", "trust")
    assert found["why"]["model"] == "reviews"
    assert "a fine film" in found["why"]["summary"]
    assert found["why"]["changed"].endswith("+00:00")
    (problem,) = listed["problems"]
    assert problem == "1 file is no result of whence, and passed over: other.json."
    assert ask(app, "GET", "/api/results/why").json() == json.loads(
        (stored / "why.json").read_text()
    )
    page = ask(app, "GET", "/api/results/card/page")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert page.text.startswith("<!doctype html>")


def test_a_result_is_brought_in(fresh, stored):
    entry = put(fresh, "results", "mine.json", (stored / "card.json").read_bytes()).json()
    assert (entry["id"], entry["kind"], entry["changed"]) == ("mine", "trust", None)
    assert ask(fresh, "GET", "/api/results").json()["results"] == [entry]
    assert "<html" in ask(fresh, "GET", "/api/results/mine/page").text


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
def test_a_file_that_is_no_result(fresh, raw):
    refused(put(fresh, "results", "a.json", raw), 422, "cannot-read")
    assert ask(fresh, "GET", "/api/results").json()["results"] == []


@pytest.mark.parametrize(
    ("score", "text", "what"),
    [
        ("NaN", "a", "a number that is none"),
        ("-Infinity", "a", "a number that is none"),
        ("0.5", "\\ud800 a", "half a character"),
    ],
)
def test_a_result_that_could_not_be_sent_is_refused(fresh, stored, tmp_path, score, text, what):
    """Python reads these from JSON, and no browser does: kept, one of them would break the whole list."""
    payload = json.loads((stored / "why.json").read_text())
    payload["explanations"][0]["word_scores"][0] = "SCORE"
    payload["input"]["text"] = "TEXT"
    raw = json.dumps(payload).replace('"SCORE"', score).replace("TEXT", text).encode()
    assert what in refused(put(fresh, "results", "a.json", raw), 422, "cannot-read")["message"]
    assert ask(fresh, "GET", "/api/results").json() == {"results": [], "problems": []}
    (tmp_path / "mine.json").write_bytes(raw)
    listed = StoredResults(Settings(results=(tmp_path,))).listed()
    assert listed["results"] == []
    assert what in listed["problems"][0]


def test_every_kind_of_result_has_a_page(fresh, data_file, explainer):
    from whence import compare, evaluate, load, recommend
    from whence.view import listed

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
    made |= {"targets": listed(rings, "targets"), "entities": listed(said)}
    for kind, result in made.items():
        raw = json.dumps(result).encode()
        answer = put(fresh, "results", f"{kind}.json", raw)
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
        page = ask(fresh, "GET", f"/api/results/{entry['id']}/page").text
        assert "<script" not in page


@pytest.mark.parametrize("answer", ["no", "yes", "undecided"])
def test_the_summary_of_an_audit_begins_with_its_answer(fresh, answer):
    entry = put(
        fresh, "results", f"{answer}.json", json.dumps({**audit(), "answer": answer}).encode()
    )
    said = entry.json()["summary"]
    begin = f"May attention be read as an explanation here? {answer.capitalize()}. "
    assert said.startswith(begin)


def test_a_hostile_result_is_escaped(fresh, stored):
    payload = json.loads((stored / "why.json").read_text())
    payload["model"]["name"] = "<script>alert(1)</script>"
    payload["words"][0]["text"] = "<img src=x onerror=alert(1)>"
    entry = put(fresh, "results", "<b>.json", json.dumps(payload).encode()).json()
    assert "<" not in entry["id"]
    page = ask(fresh, "GET", f"/api/results/{entry['id']}/page").text
    assert "<script" not in page
    assert "<img" not in page


def test_what_was_given_at_the_start_must_be_there(tmp_path):
    with pytest.raises(CannotRead, match="there is no such file"):
        create_app(Settings(results=(tmp_path / "none",)))
    with pytest.raises(BadExamples, match=r"none\.tsv"):
        create_app(Settings(data=(tmp_path / "none.tsv",)))
