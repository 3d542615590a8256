"""Peer benchmark: checks fail wrong libraries and pass whence; costs, stored rows, page and import limits.

No peer is installed here. That the page is up to date with the stored rows is in tests/contract/test_docs.py.
"""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from bench.peers import __main__ as peers  # noqa: E402
from bench.peers import checks, environment, fixtures, page, stages  # noqa: E402
from bench.peers.adapter import Absent, Adapter, TokenScores  # noqa: E402
from bench.peers.adapters.whence import LibraryAdapter  # noqa: E402

FOLDERS = {"classifier": str(fixtures.BUILTIN)}
HERE = Path(stages.__file__).parent


class Unsigned(LibraryAdapter):
    """A library that forgets the sign, and whose lists leak into one another."""

    names = {"integrated": "unsigned"}  # noqa: RUF012

    def integrate_gradients(self, texts, steps=None):
        found = super().integrate_gradients(texts, steps or 8)
        more = 0.01 * len(texts)
        return [
            TokenScores(one.tokens, [abs(score) + more for score in one.scores]) for one in found
        ]

    def explain_pair(self, first, second):
        found = super().explain_pair(first, second)
        return TokenScores(["the story is", *found.tokens[2:]], found.scores)


class Careless(LibraryAdapter):
    """A library that leaves a hook behind when it fails, and a gradient when it does not."""

    names = {"gradient": "careless"}  # noqa: RUF012

    def explain_by_gradient(self, texts):
        handle = self.model.register_forward_hook(lambda *_: None)
        self.model(**self.tokenizer(list(texts), return_tensors="pt")).logits[:, 1].sum().backward()
        handle.remove()
        return super().explain_by_gradient(texts)


def rows_of(kind, stage):
    return list(stages.STAGES[stage](stages.LibrarySession(kind, FOLDERS)))


@pytest.fixture(scope="module")
def whence_rows():
    """Return whence's rows, as its environment gives them."""
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "bench.peers.stages", "whence", "right,found"]
    done = subprocess.run(
        [*command, json.dumps(FOLDERS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=surroundings,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    return rows


def test_whence_passes_every_peer_check_on_the_built_in_model(whence_rows):
    verdicts = checks.judge_library(whence_rows)
    assert {name: one.answer for name, one in verdicts.items()} == dict.fromkeys(verdicts, "yes")
    (row,) = checks.select_rows(whence_rows, "wrong target")
    assert row["error"].startswith("BadTarget") or "99" in row["error"]


def test_whence_adapter_offers_the_methods_and_metrics_of_whence():
    own = stages.LibrarySession(LibraryAdapter, FOLDERS).build_adapter()
    assert {"attcat", "leave_one_out", "rollout"} <= set(own.list_methods("a good film"))
    assert {"comprehensiveness", "sufficiency"} <= set(own.list_metrics())


def test_peer_checks_fail_a_library_with_wrong_sums_batches_and_pairs():
    verdicts = checks.judge_library(rows_of(Unsigned, "right"))
    assert {name for name, one in verdicts.items() if one.answer == "no"} >= {
        "completeness",
        "agreement",
        "batch equals single",
        "pairs",
    }
    assert "the story is" in verdicts["pairs"].detail


def test_peer_checks_report_hooks_and_gradients_left_on_a_model():
    rows = rows_of(Careless, "found")
    assert checks.select_rows(rows, "found", after="explaining")[0]["changed"] == ["gradients kept"]
    assert "hooks" in checks.select_rows(rows, "found", after="a failure")[0]["changed"]
    assert checks.check_left_as_found(rows).answer == "no"


def passing_rows(**changes):
    """Return rows of a library that passes every check, with some of them changed."""
    rows = {
        "own": {"check": "completeness", "steps": "own", "sums": [[1.2, 1.0]], "of": "ig"},
        "64": {"check": "completeness", "steps": 64, "sums": [[1.005, 1.0], [-2.0, -2.0]]},
        "agreement": {"check": "agreement", "pairs": [[[1.0, 2.0, 4.0], [2.0, 4.0, 8.0]]]},
        "sign": {"check": "sign", "pairs": [[[1.0, -1.0, 0.1, 9.0], [3.0, -2.0, 1.0, -0.1]]]},
        "batch": {"check": "batch", "kind": "gradient", "of": "g", "off": 1e-6, "size": 1.0},
        "repeated": {"check": "repeated", "times": 3, "scores": 3},
        "pair": {
            "check": "pair",
            "texts": ["a b", "c"],
            "tokens": ["[CLS]", "a", "b ", "[SEP]", "c", "[SEP]"],
            "segments": None,
        },
        "found": {"check": "found", "after": "explaining", "changed": []},
    }
    return [row | changes.get(name, {}) for name, row in rows.items()]


def test_judged_answers_yes_to_every_check_of_correct_rows():
    assert {one.answer for one in checks.judge_library(passing_rows()).values()} == {"yes"}


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("completeness", {"64": {"sums": [[1.02, 1.0], [-2.0, -2.0]]}}),
        ("completeness", {"64": {"sums": [[float("nan"), 1.0]]}}),
        ("completeness", {"64": {"error": "ValueError: no"}}),
        ("agreement", {"agreement": {"pairs": [[[1.0, 2.0, 4.0], [4.0, 2.0, 1.0]]]}}),
        ("agreement", {"agreement": {"pairs": [[[1.0, 1.0, 1.0], [4.0, 2.0, 1.0]]]}}),
        ("sign", {"sign": {"pairs": [[[1.0, 1.0, 0.1, 9.0], [3.0, -2.0, 1.0, -0.1]]]}}),
        ("batch equals single", {"batch": {"off": 1e-3}}),
        ("repeated words", {"repeated": {"scores": 1}}),
        ("pairs", {"pair": {"tokens": ["a b", "c"]}}),
        ("pairs", {"pair": {"tokens": ["a", "b", "c"]}}),
        ("left as found", {"found": {"changed": ["hooks"]}}),
    ],
)
def test_judged_fails_only_the_check_whose_rows_are_wrong(check, change):
    verdicts = checks.judge_library(passing_rows(**change))
    assert {name for name, one in verdicts.items() if one.answer != "yes"} == {check}
    assert verdicts[check].answer == "no"


def test_judged_answers_dash_for_checks_a_library_does_not_support():
    rows = [
        {"check": "completeness", "steps": "own", "absent": "promises no sum"},
        {"check": "completeness", "steps": 64, "absent": "has no steps"},
        {"check": "agreement", "absent": "no integrated gradients"},
        {"check": "batch", "error": "TypeError: a list"},
    ]
    verdicts = checks.judge_library(rows)
    assert {one.answer for one in verdicts.values()} == {"-"}
    assert verdicts["batch equals single"].detail == "takes no list"


def test_side_by_side_leaves_out_repeated_words_that_share_one_score():
    given = TokenScores(["good", "very"], [0.5, 0.1])
    assert stages.align_scores("very very good", given, [1.0, 2.0, 3.0], []) == [[0.5], [3.0]]


class Twice(Adapter):
    """A library that asks the model twice about each text."""

    takes_lists = True
    names = {"gradient": "twice"}  # noqa: RUF012

    def explain_by_gradient(self, texts):
        encoded = self.tokenizer(list(texts), return_tensors="pt", padding=True)
        for _ in range(2):
            self.model(**encoded)
        return []


def test_costs_stage_gives_time_as_ratio_to_the_bare_pass_and_counts_rows():
    rows = checks.select_rows(rows_of(Twice, "costs"), "time")
    assert [(row["kind"], row["batch"], row["rows"]) for row in rows] == [
        ("gradient", 1, 2),
        ("gradient", 8, 16),
    ]
    for row in rows:
        assert row["ratio"] == row["seconds"] / row["floor"] > 0


def test_costs_stage_measures_the_memory_allocated_by_a_run():
    class Large(Twice):
        def explain_by_gradient(self, texts):
            return [bytearray(os.urandom(1) * (64 << 20))]

    rows = checks.select_rows(rows_of(Large, "costs"), "memory")
    if not rows:
        pytest.skip("only Linux says how much memory a process has had")
    assert 60 < rows[0]["mebibytes"] < 200  # the 64 MiB, and what Python takes besides


def test_keep_replaces_older_rows_of_the_same_peer_and_stage(tmp_path):
    file = tmp_path / "peers.jsonl"
    shap, captum = environment.get_peer("shap"), environment.get_peer("captum")
    peers.store_rows([{"check": "time", "ratio": 1}], shap, "costs", file)
    peers.store_rows([{"check": "method", "ok": True}], captum, "methods", file)
    peers.store_rows([{"check": "time", "ratio": 2}], shap, "costs", file)
    assert [(row["peer"], row.get("ratio")) for row in peers.load_results(file)] == [
        ("captum", None),
        ("shap", 2),
    ]


def test_complaint_and_last_line_strip_paths_and_addresses():
    said = "noise\nERROR: No matching distribution for x from file:///a/b/c in /home/me/x/y.py\n"
    assert (
        environment.extract_complaint(said)
        == "ERROR: No matching distribution for x from ADDRESS in .../y.py"
    )
    trace = (
        "Traceback\n  File '/a/b/c.py'\nImportError: cannot import name 'x' from 'y' (/a/b/c.py)\n"
    )
    assert peers.get_last_line(trace) == "ImportError: cannot import name 'x' from 'y' (.../c.py)"


def test_peers_page_names_every_library_and_no_local_path():
    rows = peers.load_results()
    if not rows:
        pytest.skip("nothing has been measured")
    text = page.render_page(rows)
    for one in environment.PEERS:
        assert f"| {one.name} " in text, one.name
    assert "build/peers" not in text and str(ROOT) not in text


def test_modules_run_in_a_peer_environment_import_only_allowed_packages():
    allowed = {"bench", "torch", "transformers", "numpy", *sys.stdlib_module_names}
    ruler = ["adapter", "fixtures", "reference", "model_state", "stages", "cost"]
    files = [*(HERE / f"{name}.py" for name in ruler), *(HERE / "adapters").glob("*.py")]
    own = {one.script.name: one.module for one in environment.PEERS}
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"))
        named = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
        named |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module}
        outside = {name.split(".")[0] for name in named} - allowed
        assert outside <= {own.get(file.name)}, file.name
        inner = {name for name in named if name.startswith("bench.peers.")}
        assert inner <= {f"bench.peers.{name}" for name in [*ruler, "adapters.whence"]}, file.name


def test_bare_adapter_raises_absent_for_every_question():
    bare = Adapter(None, None, 1)
    for ask in (
        bare.explain_by_gradient,
        bare.integrate_gradients,
        bare.explain_by_perturbation,
        bare.explain_list,
        bare.explain_wrong_target,
    ):
        with pytest.raises(Absent):
            ask("")
