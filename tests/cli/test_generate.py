"""`whence explain --generate` and `--answer` options: matrices, JSON, contrasts and refusals."""

import json

import pytest

from whence.explain.generation import Generation

STORY = "[[Tom has a red car.]] [[Lily has a blue ball.]] Lily likes her"


@pytest.fixture
def model(shared, monkeypatch):
    """Return a real language model; nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "200")
    return shared / "models" / "stories260K"


def test_generate_by_passage_prints_the_matrix_and_writes_the_page(run, model, tmp_path):
    page = tmp_path / "answer.html"
    status, out, err = run(
        "explain", STORY, "--model", model, "--generate", "3", "--granularity", "passage", "--html", page
    )  # fmt: skip
    assert (status, err.strip()) == (0, f"wrote {page}")
    for said in (
        "Tom has a red car.",
        "Lily has a blue ball.",
        "(said before)",
        "share",
        "by length",
    ):
        assert said in out
    assert "[[" not in out
    assert "Lily has a blue ball." in page.read_text()


def test_generate_json_is_read_by_generation_from_dict(run, model):
    status, out, err = run(
        "explain", "Lily likes her", "--model", model, "--generate", "3", "--json", "--method", "gradient"
    )  # fmt: skip
    assert (status, err) == (0, "")
    found = Generation.from_dict(json.loads(out))
    assert found.matrix.shape == (3, len(found.prompt_tokens))
    assert found.payload["method"] == "gradient"


def test_answer_options_explain_an_answer_a_contrast_or_every_word(run, model):
    ask = ("explain", "Lily likes her", "--model", model, "--method", "grad_x_input", "--json")
    status, out, _ = run(*ask, "--answer", "ball")
    assert status == 0
    assert json.loads(out)["target"]["label"] == "ball"
    status, out, _ = run(*ask, "--answer", "ball", "--answer", "mom")
    assert status == 0
    assert json.loads(out)["target"]["against"]["label"] == "mom"
    status, out, _ = run(*ask, "--answer", "ball and", "--generate", "9", "--granularity", "word")
    assert status == 0
    assert [one["text"] for one in json.loads(out)["outputs"]] == ["ball", "and"]


@pytest.mark.parametrize(
    ("options", "status", "said"),
    [
        (["--granularity", "word"], 22, "is for --generate N"),
        (["--generate", "3", "--target", "x"], 22, "--target means nothing beside --generate"),
        (["--generate", "3", "--pair", "x"], 22, "--pair means nothing beside --generate"),
        (["--generate", "3", "--granularity", "chapter"], 22, "'chapter'"),
        (["--generate", "3", "--granularity", "passage"], 12, "There are none"),
        (["--generate", "3", "--method", "cat", "--method", "attcat"], 22, "one --method"),
        (["--generate", "3", "--answer", "a", "--answer", "b"], 22, "one --answer"),
        (["--answer", "a", "--answer", "b", "--answer", "c"], 22, "Got 3"),
        (["--answer", "word " * 600], 11, "at most 512"),
        (["--generate", "0"], 2, "--generate"),
    ],
)
def test_generate_with_bad_options_exits_with_the_reason(run, model, options, status, said):
    found, out, err = run("explain", "Lily likes her", "--model", model, *options)
    assert (found, out) == (status, "")
    assert said in err
