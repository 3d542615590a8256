"""Plans: what may stand in one, where it may come from, and what is wrong with it, said before anything is loaded."""

import tomllib
from dataclasses import replace

import pytest

from tests.conftest import ROOT
from whence.core.errors import BadExamples, BadParameter, BadPlan, UnknownMethod, UnknownMetric
from whence.data.sets.source import source
from whence.metrics import metric
from whence.run.plan import Manner, Plan, told
from whence.run.plan.fields import FORMS, MANNER, PLAN, over, planned
from whence.run.plan.file import read_plan
from whence.run.plan.settle import settled

LEAST = {"model": "reviews", "data": "reviews.tsv"}
FULL = {
    **LEAST,
    "methods": ["attcat", "integrated_gradients"],
    "metrics": ["aopc"],
    "audit": ["permutation"],
    "params": {"integrated_gradients": {"steps": 7}, "layer": -1},
    "metric_params": {"steps": 5},
    "audit_params": {"draws": 3},
    "text": "sentence",
    "pair": "",
    "label": 'a "quoted" name',
    "limit": 10,
    "sample": 20,
    "shard": "2/3",
    "bad_rows": "fail",
    "target": ["positive", 0],
    "remove": "draw",
    "unit": "word",
    "truncate": False,
    "rankings": 2,
    "seed": 3,
    "dtype": "float64",
    "revision": "main",
    "mlm": "reviews-base",
    "backend": "ray",
    "device": "cpu",
    "batch_size": 4,
    "checkpoint": True,
    "compile": True,
    "address": "auto",
    "actors": 2,
    "gpus_per_actor": 0.5,
}


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    path = tmp_path / "reviews.tsv"
    path.write_text("sentence\tlabel\na good film\t1\na bad film\t0\n")
    return path


def test_every_part_of_a_plan_has_a_form():
    assert set(FORMS) == {*PLAN, *MANNER}


def test_a_plan_goes_through_a_file_unchanged():
    plan, manner = planned(FULL)
    assert plan.shard == (2, 3)
    assert plan.target == ("positive", 0)
    assert plan.params == {"integrated_gradients.steps": 7, "layer": -1}
    assert (manner.actors, manner.gpus_per_actor) == (2, 0.5)
    again, default = planned(tomllib.loads(plan.to_toml()))
    assert again == plan
    assert default == Manner()
    assert planned({**LEAST, **told(manner)})[1] == manner


def test_the_text_of_a_plan_does_not_depend_on_the_order_of_its_parameters():
    one = Plan("reviews", "a.tsv", params={"b": 1, "a": None})
    other = replace(one, params={"a": None, "b": 1})
    assert one.to_toml() == other.to_toml()
    assert one.to_toml() == 'model = "reviews"\ndata = "a.tsv"\n\n[params]\na = "none"\nb = 1\n'


@pytest.mark.parametrize("odd", ['"', "\\", "\n", "\t", "\x7f", "\x00", "é", "😀", "a = 1", "]"])
def test_any_text_can_stand_in_a_plan(odd):
    plan = Plan("reviews", f"x{odd}y", params={f"k{odd}": odd})
    assert planned(tomllib.loads(plan.to_toml()))[0] == plan


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"data": "a"}, "names no model"),
        ({"model": "a"}, "names no data"),
        ({**LEAST, "methds": []}, "has no 'methds'.* Did you mean 'methods'?"),
        ({**LEAST, "model": 3}, "'model' must be a text that is not empty. Got 3"),
        ({**LEAST, "methods": 3}, "'methods' must be a list of names. Got 3"),
        ({**LEAST, "methods": ["a", 3]}, "'methods' must be a list of names"),
        ({**LEAST, "limit": 0}, "'limit' must be a whole number, at least 1. Got 0"),
        ({**LEAST, "limit": True}, "'limit' must be a whole number"),
        ({**LEAST, "limit": 1.5}, "'limit' must be a whole number"),
        ({**LEAST, "seed": -1}, "'seed' must be a whole number, at least 0"),
        ({**LEAST, "shard": "3/2"}, "'shard' must be I/N"),
        ({**LEAST, "shard": "0/2"}, "'shard' must be I/N"),
        ({**LEAST, "shard": "half"}, "'shard' must be I/N"),
        ({**LEAST, "shard": "a"}, "Got 'a'\\.$"),  # and no guess at what it could have been
        ({**LEAST, "ouut": "x"}, "Allowed: .*, out\\. Did you mean 'out'"),
        ({**LEAST, "shard": [1]}, "'shard' must be I/N"),
        ({**LEAST, "target": ["a", "b", "c"]}, "'target' must be a label"),
        ({**LEAST, "target": 1.5}, "'target' must be a label"),
        ({**LEAST, "remove": "masks"}, "'remove' must be one of .* Did you mean 'mask'?"),
        ({**LEAST, "remove": "all"}, "'remove' must be one of"),
        ({**LEAST, "truncate": "yes"}, "'truncate' must be true or false"),
        ({**LEAST, "dtype": "int8"}, "'dtype' must be one of"),
        ({**LEAST, "params": [1]}, "'params' must be a table"),
        ({**LEAST, "params": {"a": [1]}}, "'params' must be a table"),
        ({**LEAST, "backend": "rays"}, "'backend' must be one of .* Did you mean 'ray'?"),
        ({**LEAST, "gpus_per_actor": float("nan")}, "'gpus_per_actor' must be a number"),
        ({**LEAST, "actors": 2}, "'actors' is for the backend ray, and the backend is in-process"),
        ({**LEAST, "workers": 2, "backend": "ray"}, "'workers' is for the backend processes"),
        ({**LEAST, "remove": "draw"}, "draws from a masked language model"),
        ({**LEAST, "metric_params": {"k": 1}}, "'metric_params' are given for 'metrics'"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said(given, said):
    with pytest.raises(BadPlan, match=said):
        planned(given)


def test_options_win_over_the_file():
    file = {**LEAST, "limit": 5, "backend": "ray", "actors": 4, "batch_size": 8}
    plan, manner = planned(over(file, {"limit": 7, "seed": None, "backend": "processes"}))
    assert plan.limit == 7
    assert manner == Manner(backend="processes", batch_size=8)  # the actors were Ray's


def test_paths_count_from_the_folder_of_the_file(tmp_path, monkeypatch, data):
    (tmp_path / "models" / "mine").mkdir(parents=True)
    file = tmp_path / "plan.toml"
    file.write_text('model = "models/mine"\ndata = "reviews.tsv"\nout = "results"\n')
    monkeypatch.chdir("/")
    found = read_plan(file)
    assert found["model"] == str(tmp_path / "models" / "mine")
    assert found["data"] == str(data)
    assert found["out"] == str(tmp_path / "results")


@pytest.mark.parametrize(
    ("name", "address"),
    [("reviews", "s3://bucket/a.tsv"), ("org/name", "org/data:validation"), ("x", "/a/b.tsv")],
)
def test_names_and_addresses_stay_what_they_are(tmp_path, name, address):
    file = tmp_path / "plan.toml"
    file.write_text(f'model = "{name}"\ndata = "{address}"\n')
    found = read_plan(file)
    assert (found["model"], found["data"]) == (name, address)


def test_a_built_in_model_is_meant_even_where_a_folder_has_its_name(tmp_path):
    (tmp_path / "reviews").mkdir()
    (tmp_path / "plan.toml").write_text('model = "reviews"\n')
    assert read_plan(tmp_path / "plan.toml")["model"] == "reviews"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model = ", "is not TOML"),
        ("\xff", "is not TOML"),
        ('out = ""', "'out' must be the name of a folder"),
        ("out = 3", "'out' must be the name of a folder"),
    ],
)
def test_a_file_that_is_no_plan(tmp_path, text, said):
    file = tmp_path / "plan.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadPlan, match=said):
        read_plan(file)
    with pytest.raises(BadPlan, match="Cannot read the plan"):
        read_plan(tmp_path / "nowhere.toml")


def test_groups_become_names(data):
    def names(**asked):
        return settled(Plan("reviews", str(data), **asked), source(str(data)))

    assert "rollout" in names().methods
    assert "leave_one_out" not in names().methods
    assert names().metrics == ()
    every = names(methods=("attcat", "all"), metrics=("all",), audit=("all",))
    assert every.methods[0] == "attcat"
    assert {"leave_one_out", "rollout"} <= set(every.methods)
    assert len(set(every.methods)) == len(every.methods)
    assert {"aopc", "sensitivity", "completeness"} <= set(every.metrics)
    assert not {"auprc", "pointing_game", "tau_b"} & set(
        every.metrics
    )  # no rationales, no pictures
    assert "permutation" in every.audit
    assert "seeds" not in every.audit  # it trains models
    kinds = {metric.get(name).facts["kind"] for name in names(metrics=("faithfulness",)).metrics}
    assert kinds == {"faithfulness"}
    assert names(metrics=("none",)).metrics == ()


def test_rationales_bring_metrics_of_plausibility(tmp_path):
    path = tmp_path / "marked.jsonl"
    path.write_text('{"text": "a good film", "label": "1", "rationale": [[2, 6]]}\n')
    plan = settled(Plan("reviews", str(path), metrics=("plausibility",)), source(str(path)))
    assert plan.metrics == ("auprc", "iou_f1", "token_f1")


def test_texts_of_the_command_line_become_values(data):
    asked = Plan(
        "reviews",
        str(data),
        ("integrated_gradients",),
        ("aopc",),
        params={"integrated_gradients.steps": "7"},
        metric_params={"absolute": "yes"},
    )
    plan = settled(asked, source(str(data)))
    assert plan.params == {"integrated_gradients.steps": 7}
    assert plan.metric_params == {"absolute": True}


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"methods": ("attcut",)}, UnknownMethod, "Did you mean 'attcat'"),
        ({"metrics": ("aopcs",)}, UnknownMetric, "Did you mean 'aopc'"),
        ({"metrics": ("none", "aopc")}, BadPlan, "stands alone"),
        ({"metrics": ("tau_b",)}, BadPlan, "tau_b compares methods with each other"),
        ({"metrics": ("agreement",)}, BadPlan, "compares methods with each other"),
        ({"metrics": ("plausibility",)}, BadPlan, "No metric of plausibility suits this data"),
        ({"audit": ("seeds",)}, BadPlan, "seeds train models"),
        ({"params": {"nothing": 1}}, BadParameter, "has a parameter 'nothing'"),
        ({"metrics": ("aopc",), "metric_params": {"k": 1}}, BadParameter, "has a parameter 'k'"),
    ],
)
def test_what_is_asked_for_is_checked_before_a_model_is_loaded(data, asked, error, said):
    with pytest.raises(error, match=said):
        settled(Plan("no such model", str(data), **asked), source(str(data)))


def test_the_first_rows_are_read(tmp_path):
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "a film"}\nnot json\n')
    data = source(str(path))
    assert settled(Plan("reviews", str(path)), data).methods
    with pytest.raises(BadExamples, match=r"line 2.* --bad-rows skip"):
        settled(Plan("reviews", str(path), bad_rows="fail"), data)


def test_the_plan_in_the_documentation_is_one(tmp_path, data):
    text = (ROOT / "docs" / "reference" / "run.md").read_text(encoding="utf-8")
    file = tmp_path / "plan.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    found = read_plan(file)
    assert found.pop("out") == str(tmp_path / "results")
    plan, _ = planned(found)
    assert settled(plan, source(plan.data)).metrics == ("comprehensiveness", "sufficiency")
