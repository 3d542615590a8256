"""Sample texts: each built-in model opens with one that gets clear scores and no warnings."""

import pytest

import whence
from tests.web.serving import ask
from tests.web.test_tasks import app, folder  # noqa: F401, fixtures
from whence.app.server import create_app
from whence.app.settings import PAIR_SAMPLES, Settings
from whence.models.model_files import BUILTIN


@pytest.fixture(scope="module")
def built_in():
    made = create_app(Settings(models=tuple(BUILTIN)))
    yield made
    assert made.state.app_state.close(10)


def open_model(asked, name):
    """Return what a model's entry and the session say of the first text to ask it about, as the page reads them."""
    session = ask(asked, "GET", "/api/session").json()
    entry = ask(asked, "POST", "/api/models", json={"name": name}).json()
    by_task = [one for one in session["samples"] if one["task"] and one["task"] == entry["task"]]
    of_none = [one for one in session["samples"] if not one["task"]]
    return entry, (entry["samples"] or by_task or of_none)[0]


@pytest.mark.parametrize("name", BUILTIN)
def test_each_built_in_model_opens_with_scores_and_without_warnings(built_in, name):
    entry, sample = open_model(built_in, name)
    given = {"model": name, "text": sample["text"], "pair": sample["pair"]}
    if entry["modality"] == "picture":
        assert entry["draws"]
        given = {"model": name, "text": "", "picture": "shapes:0"}
    answer = ask(
        built_in, "POST", "/api/explain", json={"input": given, "methods": [entry["method"]]}
    )
    said = answer.json()
    assert answer.status_code == 200, said
    assert said["warnings"] == []
    (one,) = said["explanations"]
    assert max(map(abs, one["word_scores"] or one["scores"])) > 0.01
    if entry["task"] == "single_label":
        assert max(said["prediction"]["probabilities"].values()) > 0.6


def test_sample_texts_of_built_in_models_have_no_unknown_tokens(built_in):
    for name in BUILTIN:
        entry = next(
            one
            for one in ask(built_in, "GET", "/api/session").json()["models"]
            if one["id"] == name
        )
        for sample in entry["samples"]:
            tokenizer = whence.load(name).loaded.tokenizer
            assert tokenizer.unk_token_id not in tokenizer(sample["text"])["input_ids"], name


def test_a_model_of_pairs_opens_with_a_pair(app):  # noqa: F811
    entry, sample = open_model(app, "nli")
    assert entry["reads_pairs"]
    assert (sample["text"], sample["pair"]) == PAIR_SAMPLES[0]
    entry, sample = open_model(app, "tagger")
    assert not entry["reads_pairs"]
    assert sample["task"] == "tags"
