"""Public names in shared results: data set and rows drawn are named, local paths are not."""

import csv
import json
import re
from io import StringIO

import pytest
from rich.console import Console

import whence
from tests.web.serving import ask
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.files import format_public_address, format_public_name
from whence.data.dataset import read_dataset
from whence.runs.store import export_table

HOME = "a-home-that-nobody-may-see"
WORDS = ("gripping", "dull", "warm", "poor", "fine", "bad", "great", "weak", "slow")
TWO = ["attcat", "rollout"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Make a folder with a model and data, as somebody has it on a machine of their own."""
    folder = tmp_path_factory.mktemp(HOME)
    model = whence.load("reviews")
    model.model.save_pretrained(folder / "my-reviews")
    model.loaded.tokenizer.save_pretrained(folder / "my-reviews")
    rows = "".join(f"a {word} film with good actors\t{i % 2}\n" for i, word in enumerate(WORDS))
    (folder / "films.tsv").write_text(f"text\tlabel\n{rows}")
    return folder


@pytest.fixture(scope="module")
def explainer(home):
    return whence.load(str(home / "my-reviews"))


@pytest.fixture(scope="module")
def run(home):
    return whence.run(
        model=str(home / "my-reviews"),
        data=str(home / "films.tsv"),
        methods=TWO,
        metrics="comprehensiveness",
        sample=6,
        out=home / "runs" / "out",
    )


def surfaces(shown):
    """Return all that can be made of a result, as text."""
    console = Console(width=400, record=True, file=StringIO())
    console.print(shown)
    found = {"terminal": console.export_text(), "text": str(shown), "repr": repr(shown)}
    for name in ("to_html", "to_markdown", "to_latex", "to_csv", "plot", "to_json", "_repr_html_"):
        if hasattr(shown, name):
            found[name] = getattr(shown, name)()
    return {**found, "json": json.dumps(shown.to_dict())}


def strip_tags(text):
    return " ".join(re.sub("<[^>]*>", " ", text).split())


def test_evaluation_in_every_format_names_its_data_and_the_rows_drawn(explainer, home):
    data = read_dataset(home / "films.tsv").draw(6)
    found = surfaces(whence.evaluate(explainer, data, TWO, "comprehensiveness"))
    for name in ("terminal", "text", "to_html", "to_markdown", "to_latex", "plot", "_repr_html_"):
        assert "films.tsv: 6 of 9 rows drawn with seed 0" in strip_tags(found[name]), name
    for row in csv.DictReader(StringIO(found["to_csv"])):
        assert (row["data"], row["rows"], row["drawn"]) == ("films.tsv", "9", "6")
        assert row["drawn_by_seed"] == "0"
    whole = str(whence.evaluate(explainer, home / "films.tsv", "attcat", "comprehensiveness"))
    assert "films.tsv: all 9 rows; texts from 'text'; labels from 'label'." in whole


def test_recommend_audit_compare_and_run_name_their_data_and_the_rows_drawn(explainer, home, run):
    data = home / "films.tsv"
    advice = whence.recommend(explainer, data, methods=TWO)
    assert "films.tsv: all 9 rows" in strip_tags(advice._repr_html_()) and "films.tsv" in str(
        advice
    )
    audit = whence.audit(
        explainer, data, experiments="permutation", limit=6, params={"permutations": 5}
    )
    both = whence.compare("reviews-base", "reviews", data, limit=6)
    for shown, said in (
        (audit, "films.tsv, 6 of 9 examples, drawn with seed 0"),
        (both, "films.tsv, 6 of 9 inputs, drawn with seed 0"),
        (run.report(), "films.tsv, 6 examples, 6 of 9 rows drawn with seed 0"),
    ):
        found = surfaces(shown)
        for name in ("terminal", "text", "to_html"):
            assert said in strip_tags(found[name]), (type(shown), name)


def test_run_report_with_limit_names_the_first_rows_of_all(home, tmp_path):
    plan = {"model": "reviews", "data": str(home / "films.tsv"), "methods": "attcat", "limit": 4}
    found = whence.run(**plan, out=tmp_path / "out")
    assert found.evaluation().payload["data"]["drawn"] == 4
    assert "the first 4 of 9 rows" in str(found.report())


def test_results_and_run_files_contain_no_local_path(explainer, home, run, tmp_path):
    data = home / "films.tsv"
    shown = [
        explainer.explain("a dull film"),
        explainer.trust("a dull film", method="attcat", budget=300),
        whence.evaluate(explainer, data, TWO, "comprehensiveness"),
        whence.recommend(explainer, data, methods=TWO),
        whence.audit(explainer, data, experiments="permutation", params={"permutations": 5}),
        whence.compare(explainer, explainer, data),
        run.report(),
    ]
    for one in shown:
        for name, text in surfaces(one).items():
            assert HOME not in text, (type(one), name)
    for path in run.folder.rglob("*"):
        assert not path.is_file() or HOME.encode() not in path.read_bytes(), path.name
    for ending in ("csv", "jsonl", "parquet"):
        written = export_table(run.folder, "explanations", tmp_path / f"a.{ending}")
        assert HOME.encode() not in written.read_bytes()
    assert 'data = "films.tsv"' in run.report().payload["reproduce"]["plan"]


def test_app_responses_contain_no_local_path(home, run):
    settings = Settings(
        models=(str(home / "my-reviews"),), data=(home / "films.tsv",), runs=run.folder.parent
    )
    app = create_app(settings)
    try:
        session = ask(app, "GET", "/api/session")
        assert session.json()["models"][0]["id"] == "my-reviews"
        runs = ask(app, "GET", "/api/runs")
        (entry,) = runs.json()["runs"]
        assert entry["asks"] == "my-reviews"  # the run's model is the one that the app has
        given = {"model": "my-reviews", "text": "a dull film"}
        answers = [
            session,
            runs,
            ask(app, "GET", f"/api/runs/{entry['id']}/rows"),
            ask(app, "POST", "/api/explain", json={"input": given, "methods": ["attcat"]}),
            ask(app, "GET", "/api/session"),
        ]
        for answer in answers:
            assert answer.status_code == 200 and HOME not in answer.text
    finally:
        assert app.state.app_state.close(10)


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/home/me/models/my-bert", "my-bert"),
        ("~/models/my-bert/", "my-bert"),
        ("C:\\Users\\me\\my-bert", "my-bert"),
        ("/home/me/my-bert/checkpoint-500", "my-bert/checkpoint-500"),
        ("/home/me/.cache/huggingface/hub/models--org--name/snapshots/0123abc", "org/name"),
        ("models/my-bert", "models/my-bert"),
        ("org/name", "org/name"),
        ("reviews", "reviews"),
    ],
)
def test_format_public_name_takes_the_last_part_of_an_absolute_path(given, found):
    assert format_public_name(given) == found


def test_format_public_name_adds_the_parent_to_a_folder_named_like_a_builtin_model():
    assert format_public_name("/home/me/shapes", ("shapes",)) == "me/shapes"


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("/home/me/films.tsv", "films.tsv"),
        ("/home/me/movies:val", "movies:val"),
        ("s3://bucket/films.jsonl.gz", "s3://bucket/films.jsonl.gz"),
        ("https://me:word@host/films.csv?key=1", "https://host/films.csv"),
        ("stanfordnlp/imdb:test", "stanfordnlp/imdb:test"),
    ],
)
def test_format_public_address_strips_folders_and_credentials(given, found):
    assert format_public_address(given) == found
