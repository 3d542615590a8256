"""Column choice: the app starts with a data set of unknown columns, reports the problem and takes a choice."""

import pytest

from tests.web.serving import ask, assert_error
from whence.app.server import create_app
from whence.app.settings import Settings

FOUR = "id,body,other,stars\n7,a fine film,a dull one,positive\n8,a dull one,a fine film,negative\n"
COLUMNS = ["id", "body", "other", "stars"]
ROWS = [
    ["7", "a fine film", "a dull one", "positive"],
    ["8", "a dull one", "a fine film", "negative"],
]


@pytest.fixture
def serve_four_columns(tmp_path):
    (tmp_path / "four.csv").write_text(FOUR)
    started = []

    def serve(**columns):
        started.append(create_app(Settings(data=(tmp_path / "four.csv",), **columns)))
        return started[-1]

    yield serve
    for app in started:
        assert app.state.app_state.close(10)


def test_app_with_unknown_data_columns_starts_and_takes_columns_afterwards(serve_four_columns):
    app = serve_four_columns()
    (entry,) = ask(app, "GET", "/api/session").json()["data"]
    assert (entry["id"], entry["columns"]) == ("four.csv", COLUMNS)
    assert "it has id, body, other, stars" in entry["problem"]["message"]
    assert entry["problem"]["table"] == {"columns": COLUMNS, "rows": ROWS}
    job = ask(app, "POST", "/api/jobs/predict/four.csv", json={"model": "reviews"})
    assert "has no column of texts" in assert_error(job, 422, "bad-examples")["message"]
    where = "/api/data/four.csv/columns"
    assert (
        "body"
        in assert_error(ask(app, "POST", where, json={"text": "bdy"}), 422, "bad-examples")[
            "message"
        ]
    )
    found = ask(app, "POST", where, json={"text": "body", "label": "stars"}).json()
    assert (found["text"], found["label"], found["rows"]) == ("body", "stars", 2)
    assert found["problem"] is None
    assert ask(app, "GET", "/api/session").json()["data"] == [found]


def test_app_started_with_named_columns_lists_the_data_set_without_a_problem(serve_four_columns):
    (entry,) = ask(serve_four_columns(text="body", label="stars"), "GET", "/api/session").json()[
        "data"
    ]
    assert (entry["text"], entry["label"], entry["problem"]) == ("body", "stars", None)


def test_app_started_with_a_misspelt_column_lists_a_suggestion(serve_four_columns):
    (entry,) = ask(serve_four_columns(text="bdy"), "GET", "/api/session").json()["data"]
    assert "Did you mean 'body'?" in entry["problem"]["message"]


def test_upload_with_unknown_columns_is_refused_with_columns_and_rows_to_choose_from(
    serve_four_columns,
):
    app = serve_four_columns(text="body")
    answer = ask(app, "PUT", "/api/data", params={"name": "b.csv"}, content=FOUR.encode())
    assert assert_error(answer, 422, "bad-examples")["table"] == {"columns": COLUMNS, "rows": ROWS}
    chosen = {"name": "b.csv", "text": "body", "label": "stars"}
    assert ask(app, "PUT", "/api/data", params=chosen, content=FOUR.encode()).json()["rows"] == 2
