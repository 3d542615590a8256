"""Command `whence trust` on the built-in models: JSON, terminal text, HTML, options and refused requests."""

import json

import pytest

from tests.cli.conftest import interrupt_while_loading

TEXT = "a gripping, beautifully acted film"
BUDGET = ("--budget", "400")
TESTS = {"deletion", "sufficiency", "leave_one_out", "stability", "randomisation", "class_sensitivity",
         "completeness", "conservation"}  # fmt: skip
VERDICTS = {"holds", "weak", "fails", "not tested"}


def test_trust_with_json_prints_one_object_with_every_test_and_rule(run):
    status, out, err = run("trust", TEXT, *BUDGET, "--json")
    assert (status, err) == (0, "")
    assert out.count("\n") == 1
    payload = json.loads(out)
    assert payload["version"] == 1
    assert payload["model"]["name"] == "reviews"
    assert payload["input"]["text"] == TEXT
    assert payload["remove"] == ["mask"]
    assert (payload["unit"], payload["budget"]) == ("token", 400)
    assert payload["units"] == sum(not token["special"] for token in payload["tokens"])
    (method,) = payload["methods"]
    assert method["method"] == "attcat"
    assert {test["name"] for test in method["tests"]} == TESTS
    assert {rule["name"] for rule in payload["rules"]} == TESTS
    assert {method["verdict"], *(test["verdict"] for test in method["tests"])} <= VERDICTS
    assert len(method["scores"]) == len(payload["tokens"])
    for test in method["tests"]:
        assert (test["value"] is None) == (test["verdict"] == "not tested")
        assert test["why"]
        if test["interval"] is not None:
            low, high = test["interval"]
            assert 0 <= low <= test["percentile"] <= high <= 100


def test_trust_card_with_one_failed_main_test_has_verdict_fails(run):
    """Gradient and rollout fail deletion and not sufficiency here: 0.1 called both of them weak."""
    asked = ("trust", TEXT, "--method", "gradient", "--method", "rollout", "--budget", "600")
    status, out, err = run(*asked, "--json")
    assert (status, err) == (0, "")
    for method in json.loads(out)["methods"]:
        found = {test["name"]: test for test in method["tests"]}
        main = [found["deletion"], found["sufficiency"]]
        assert [test["verdict"] == "fails" for test in main] == [True, False]
        assert (
            found["randomisation"]["verdict"] != "fails"
        )  # so that nothing but the main test decides
        assert method["verdict"] == "fails"
        why = main[0]["why"]
        assert method["sentence"].endswith(f"not to be relied on: {why[:1].lower()}{why[1:]}")
    status, out, _ = run(*asked)
    assert (status, out.split()[:3]) == (0, ["Of", "2", "explanations"])
    assert "2 are not to be relied on (gradient, rollout)" in " ".join(out.split())


def test_trust_on_a_terminal_prints_sentence_tests_and_curves_within_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    status, out, _ = run("trust", TEXT, *BUDGET)
    assert status == 0
    assert out.startswith("attcat ")
    for part in (
        "class sensitivity",
        "by chance",
        "below the band is good",
        "░",
        "━",
        "tokens kept",
    ):
        assert part in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.xdist_group("app")
def test_trust_with_ascii_output_encoding_prints_only_ascii(warm):
    with warm.start("trust", TEXT, *BUDGET, PYTHONIOENCODING="ascii") as process:
        text, err = process.communicate()
    assert process.returncode == 0, err
    assert text.isascii()
    assert "\\u" not in text
    assert "::: " in text


def test_trust_with_two_methods_pair_word_unit_and_all_removals_reports_each(run, tmp_path):
    page = tmp_path / "trust.html"
    status, out, err = run(
        "trust", "a good film", "--pair", "a bad film", "--method", "leave_one_out", "--method", "random",
        "--param", "leave_one_out.remove=delete", "--remove", "all", "--unit", "word", "--target", "negative",
        "--of", "probability", "--seed", "3", "--budget", "4000", "--json", "--html", page,
    )  # fmt: skip
    assert status == 0, err
    payload = json.loads(out)
    assert [method["method"] for method in payload["methods"]] == ["leave_one_out", "random"]
    assert payload["methods"][0]["params"] == {"remove": "delete"}
    assert payload["remove"][0] == "mask"
    assert {"delete", "pad", "unk"} <= set(payload["remove"])
    assert payload["removal_matters"]
    assert (payload["unit"], payload["units"]) == ("word", 6)
    assert payload["target"] | {"against": None} == {
        "label": "negative", "index": 0, "against": None, "of": "probability",
    }  # fmt: skip
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_trust_with_draw_removal_needs_an_infill_model(run):
    status, out, err = run(
        "trust", TEXT, *BUDGET, "--json", "--remove", "draw", "--mlm", "reviews-base"
    )
    assert status == 0, err
    assert json.loads(out)["remove"] == ["draw"]
    status, out, err = run("trust", TEXT, "--remove", "draw")
    assert (status, out, err.count("\n")) == (22, "", 1)
    assert "mlm" in err


def test_trust_with_the_same_seed_repeats_and_with_another_seed_differs(run):
    first, again, other = (
        json.loads(run("trust", TEXT, *BUDGET, "--json", "--seed", seed)[1])["methods"]
        for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_trust_with_html_option_writes_a_page_with_curves(run, tmp_path):
    page = tmp_path / "trust.html"
    status, out, err = run("trust", TEXT, *BUDGET, "--html", page)
    assert status == 0
    assert "deletion" in out
    assert f"wrote {page}" in err.replace("\n", "")
    assert "<svg" in page.read_text(encoding="utf-8")


def test_trust_of_a_one_word_text_exits_0_with_verdict_not_tested(run):
    status, out, err = run("trust", "good", "--json")
    assert (status, err) == (0, "")
    (method,) = json.loads(out)["methods"]
    assert method["verdict"] == "not tested"


BAD = [
    (("  ",), 10, "'  ' is empty"),
    ((TEXT, "--method", "atcat"), 20, "Did you mean 'attcat'"),
    ((TEXT, "--target", "positiv"), 21, "0 'negative', 1 'positive'"),
    ((TEXT, "--param", "layer"), 22, "NAME=VALUE"),
    ((TEXT, "--param", "colour=red"), 22, "has no parameter 'colour'"),
    ((TEXT, "--remove", "erase"), 22, "--remove must be one of mask, delete"),
    ((TEXT, "--unit", "words"), 22, "Did you mean 'word'"),
    ((TEXT, "--budget", "0"), 22, "at least 1. Got 0"),
    ((TEXT, "--of", "prob"), 22, "'logit' or 'probability'"),
    ((TEXT, "--model", "revews"), 30, "Did you mean 'reviews'"),
    ((TEXT, "--html", "/nowhere/trust.html"), 40, "no folder '/nowhere'"),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD, ids=lambda x: str(x)[-24:])
def test_trust_with_bad_input_prints_one_line_and_exits_with_its_own_status(
    run, arguments, status, message
):
    found, out, err = run("trust", *arguments)
    assert (found, out) == (status, "")
    assert err.count("\n") == 1
    assert message in err
    assert "docs/errors/" in err


@pytest.mark.parametrize(
    "wrong",
    [("--method", "atcat"), ("--param", "layer=x"), ("--remove", "erase"), ("--unit", "x"), ("--budget", "0"),
     ("--html", "/nowhere/x.html")],
)  # fmt: skip
def test_a_bad_request_is_refused_before_a_model_is_loaded(run, wrong):
    # The model does not exist either, and that is not what the message is about.
    _, _, err = run("trust", TEXT, "--model", "./nowhere", *wrong)
    assert "./nowhere" not in err


def test_trust_help_and_general_help_show_a_trust_example(run):
    status, out, _ = run("trust", "--help")
    assert status == 0
    assert 'whence trust "' in out
    assert 'whence trust "' in run("--help")[1]


def test_trust_after_sigint_prints_one_line_and_leaves_no_files(tmp_path):
    found = interrupt_while_loading("trust", TEXT, "--html", tmp_path / "trust.html")
    assert found == (130, "", "whence: interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == []
