"""Fixtures of the web tests: one application that all tests share, its data file and its results."""

import pytest

import whence
from whence.app.server import create_app
from whence.app.settings import Settings

ROWS = "text\tlabel\n" + "".join(
    f"{text}\t{label}\n"
    for text, label in (
        ("a fine film", "positive"),
        ("a dull film", "negative"),
        ("wonderful actors, a wonderful plot", "positive"),
        ("the plot is thin and the actors are bad", "negative"),
        ("not bad at all", "positive"),
        ("a waste of time", "negative"),
    )
)


@pytest.fixture(scope="session")
def data_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "films.tsv"
    path.write_text(ROWS, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def results_folder(tmp_path_factory):
    """A folder with an explanation, a card and something else."""
    folder = tmp_path_factory.mktemp("stored")
    why = whence.load("reviews").explain("a fine film")
    why.save(folder / "why.json")
    why.trust(budget=200).save(folder / "card.json")
    (folder / "other.json").write_text('{"version": 1, "kind": "shopping list"}')
    return folder


@pytest.fixture(scope="session")
def settings(data_file, results_folder):
    return Settings(
        models=("reviews", "reviews-base", "decoy"),
        compare=("reviews-base", "reviews"),
        data=(data_file,),
        results=(results_folder,),
    )


@pytest.fixture(scope="session")
def app(settings):
    app = create_app(settings)
    yield app
    assert app.state.app_state.close(10)


@pytest.fixture(scope="session")
def explainer():
    return whence.load("reviews")
