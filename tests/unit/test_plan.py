"""Plans of runs: fields, TOML round trips, paths, merged options, expanded groups, and refusals before loading."""

import tomllib
from dataclasses import replace

import pytest

from tests.conftest import ROOT
from whence.core.errors import BadExamples, BadParameter, BadPlan, UnknownMethod, UnknownMetric
from whence.data.dataset import open_dataset
from whence.metrics import metric
from whence.runs.plan import (
    Execution,
    Plan,
    build_plan,
    merge_options,
    read_plan,
    to_plain_fields,
)
from whence.runs.plan_expansion import resolve_plan

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


def test_build_plan_of_its_own_toml_gives_an_equal_plan():
    plan, manner = build_plan(FULL)
    assert plan.shard == (2, 3)
    assert plan.target == ("positive", 0)
    assert plan.params == {"integrated_gradients.steps": 7, "layer": -1}
    assert (manner.actors, manner.gpus_per_actor) == (2, 0.5)
    again, default = build_plan(tomllib.loads(plan.to_toml()))
    assert again == plan
    assert default == Execution()
    assert build_plan({**LEAST, **to_plain_fields(manner)})[1] == manner


def test_plan_to_toml_does_not_depend_on_the_order_of_parameters():
    one = Plan("reviews", "a.tsv", params={"b": 1, "a": None})
    other = replace(one, params={"a": None, "b": 1})
    assert one.to_toml() == other.to_toml()
    assert one.to_toml() == 'model = "reviews"\ndata = "a.tsv"\n\n[params]\na = "none"\nb = 1\n'


@pytest.mark.parametrize("odd", ['"', "\\", "\n", "\t", "\x7f", "\x00", "é", "😀", "a = 1", "]"])
def test_plan_with_special_characters_survives_a_toml_round_trip(odd):
    plan = Plan("reviews", f"x{odd}y", params={f"k{odd}": odd})
    assert build_plan(tomllib.loads(plan.to_toml()))[0] == plan


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
def test_build_plan_with_a_bad_field_raises_bad_plan_with_the_reason(given, said):
    with pytest.raises(BadPlan, match=said):
        build_plan(given)


def test_merge_options_prefers_options_to_the_plan_file():
    file = {**LEAST, "limit": 5, "backend": "ray", "actors": 4, "batch_size": 8}
    plan, manner = build_plan(
        merge_options(file, {"limit": 7, "seed": None, "backend": "processes"})
    )
    assert plan.limit == 7
    assert manner == Execution(backend="processes", batch_size=8)  # the actors were Ray's


def test_read_plan_resolves_paths_against_the_folder_of_the_file(tmp_path, monkeypatch, data):
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
def test_read_plan_leaves_model_names_and_data_addresses_unchanged(tmp_path, name, address):
    file = tmp_path / "plan.toml"
    file.write_text(f'model = "{name}"\ndata = "{address}"\n')
    found = read_plan(file)
    assert (found["model"], found["data"]) == (name, address)


def test_read_plan_prefers_a_builtin_model_to_a_folder_of_the_same_name(tmp_path):
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
def test_read_plan_of_an_invalid_or_missing_file_raises_bad_plan(tmp_path, text, said):
    file = tmp_path / "plan.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadPlan, match=said):
        read_plan(file)
    with pytest.raises(BadPlan, match="Cannot read the plan"):
        read_plan(tmp_path / "nowhere.toml")


def test_resolve_plan_expands_groups_to_names_that_suit_the_data(data):
    def names(**asked):
        return resolve_plan(Plan("reviews", str(data), **asked), open_dataset(str(data)))

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


def test_resolve_plan_of_data_with_rationales_expands_plausibility_metrics(tmp_path):
    path = tmp_path / "marked.jsonl"
    path.write_text('{"text": "a good film", "label": "1", "rationale": [[2, 6]]}\n')
    plan = resolve_plan(
        Plan("reviews", str(path), metrics=("plausibility",)), open_dataset(str(path))
    )
    assert plan.metrics == ("auprc", "iou_f1", "token_f1")


def test_resolve_plan_converts_command_line_strings_to_typed_parameters(data):
    asked = Plan(
        "reviews",
        str(data),
        ("integrated_gradients",),
        ("aopc",),
        params={"integrated_gradients.steps": "7"},
        metric_params={"absolute": "yes"},
    )
    plan = resolve_plan(asked, open_dataset(str(data)))
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
        ({"metrics": ("aopc",), "metric_params": {"k": 1}}, BadParameter, "has no parameter 'k'"),
    ],
)
def test_resolve_plan_refuses_bad_requests_before_a_model_is_loaded(data, asked, error, said):
    with pytest.raises(error, match=said):
        resolve_plan(Plan("no such model", str(data), **asked), open_dataset(str(data)))


def test_resolve_plan_with_bad_rows_fail_raises_for_an_unreadable_row(tmp_path):
    path = tmp_path / "reviews.jsonl"
    path.write_text('{"text": "a film"}\nnot json\n')
    data = open_dataset(str(path))
    assert resolve_plan(Plan("reviews", str(path)), data).methods
    with pytest.raises(BadExamples, match=r"line 2.* --bad-rows skip"):
        resolve_plan(Plan("reviews", str(path), bad_rows="fail"), data)


def test_plan_in_the_documentation_can_be_read_and_resolved(tmp_path, data):
    text = (ROOT / "docs" / "reference" / "run.md").read_text(encoding="utf-8")
    file = tmp_path / "plan.toml"
    file.write_text(text.split("```toml\n")[1].split("```")[0])
    found = read_plan(file)
    assert found.pop("out") == str(tmp_path / "results")
    plan, _ = build_plan(found)
    assert resolve_plan(plan, open_dataset(plan.data)).metrics == (
        "comprehensiveness",
        "sufficiency",
    )
