"""Data sets whose columns nobody can tell: the app starts, says so, and has what the page needs to choose."""

import pytest

from tests.web.serving import ask, refused
from whence.web.app import create_app
from whence.web.settings import Settings

FOUR = "id,body,other,stars\n7,a fine film,a dull one,positive\n8,a dull one,a fine film,negative\n"
COLUMNS = ["id", "body", "other", "stars"]
ROWS = [
    ["7", "a fine film", "a dull one", "positive"],
    ["8", "a dull one", "a fine film", "negative"],
]


@pytest.fixture
def served(tmp_path):
    (tmp_path / "four.csv").write_text(FOUR)
    started = []

    def serve(**columns):
        started.append(create_app(Settings(data=(tmp_path / "four.csv",), **columns)))
        return started[-1]

    yield serve
    for app in started:
        assert app.state.desk.close(10)


def test_a_data_set_with_unknown_columns_does_not_end_the_app_and_can_be_chosen_afterwards(served):
    app = served()
    (entry,) = ask(app, "GET", "/api/session").json()["data"]
    assert (entry["id"], entry["columns"]) == ("four.csv", COLUMNS)
    assert "it has id, body, other, stars" in entry["problem"]["message"]
    assert entry["problem"]["table"] == {"columns": COLUMNS, "rows": ROWS}
    job = ask(app, "POST", "/api/jobs/predict/four.csv", json={"model": "reviews"})
    assert "has no column of texts" in refused(job, 422, "bad-examples")["message"]
    where = "/api/data/four.csv/columns"
    assert (
        "body"
        in refused(ask(app, "POST", where, json={"text": "bdy"}), 422, "bad-examples")["message"]
    )
    found = ask(app, "POST", where, json={"text": "body", "label": "stars"}).json()
    assert (found["text"], found["label"], found["rows"]) == ("body", "stars", 2)
    assert found["problem"] is None
    assert ask(app, "GET", "/api/session").json()["data"] == [found]


def test_columns_are_named_when_the_app_is_started(served):
    (entry,) = ask(served(text="body", label="stars"), "GET", "/api/session").json()["data"]
    assert (entry["text"], entry["label"], entry["problem"]) == ("body", "stars", None)


def test_a_wrong_name_at_the_start_does_not_end_the_app_either(served):
    (entry,) = ask(served(text="bdy"), "GET", "/api/session").json()["data"]
    assert "Did you mean 'body'?" in entry["problem"]["message"]


def test_a_file_that_is_brought_in_with_unknown_columns_is_refused_with_what_there_is_to_choose(
    served,
):
    app = served(text="body")
    answer = ask(app, "PUT", "/api/data", params={"name": "b.csv"}, content=FOUR.encode())
    assert refused(answer, 422, "bad-examples")["table"] == {"columns": COLUMNS, "rows": ROWS}
    chosen = {"name": "b.csv", "text": "body", "label": "stars"}
    assert ask(app, "PUT", "/api/data", params=chosen, content=FOUR.encode()).json()["rows"] == 2
