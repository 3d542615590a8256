"""The ruler that whence and its peers are held against: it must see what is wrong, and pass what is right.

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
from bench.peers import checks, environment, inside, page, scene  # noqa: E402
from bench.peers.adapter import Absent, Adapter, Given  # noqa: E402
from bench.peers.adapters.whence import Own  # noqa: E402

FOLDERS = {"classifier": str(scene.BUILTIN)}
HERE = Path(inside.__file__).parent


class Unsigned(Own):
    """A library that forgets the sign, and whose lists leak into one another."""

    names = {"integrated": "unsigned"}  # noqa: RUF012

    def integrated(self, texts, steps=None):
        found = super().integrated(texts, steps or 8)
        more = 0.01 * len(texts)
        return [Given(one.tokens, [abs(score) + more for score in one.scores]) for one in found]

    def pair(self, first, second):
        found = super().pair(first, second)
        return Given(["the story is", *found.tokens[2:]], found.scores)


class Careless(Own):
    """A library that leaves a hook behind when it fails, and a gradient when it does not."""

    names = {"gradient": "careless"}  # noqa: RUF012

    def gradient(self, texts):
        handle = self.model.register_forward_hook(lambda *_: None)
        self.model(**self.tokenizer(list(texts), return_tensors="pt")).logits[:, 1].sum().backward()
        handle.remove()
        return super().gradient(texts)


def rows_of(kind, stage):
    return list(inside.STAGES[stage](inside.Asking(kind, FOLDERS)))


@pytest.fixture(scope="module")
def ours():
    """Return whence's rows, as its environment gives them."""
    surroundings = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "bench.peers.inside", "whence", "right,found"]
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


def test_whence_holds_against_the_ruler_on_the_built_in_model(ours):
    verdicts = checks.judged(ours)
    assert {name: one.answer for name, one in verdicts.items()} == dict.fromkeys(verdicts, "yes")
    (row,) = checks.picked(ours, "wrong target")
    assert row["error"].startswith("BadTarget") or "99" in row["error"]


def test_whence_is_asked_for_everything_it_has():
    own = inside.Asking(Own, FOLDERS).adapter()
    assert {"attcat", "leave_one_out", "rollout"} <= set(own.methods("a good film"))
    assert {"comprehensiveness", "sufficiency"} <= set(own.offered())


def test_the_ruler_sees_a_library_that_is_wrong():
    verdicts = checks.judged(rows_of(Unsigned, "right"))
    assert {name for name, one in verdicts.items() if one.answer == "no"} >= {
        "completeness",
        "agreement",
        "batch equals single",
        "pairs",
    }
    assert "the story is" in verdicts["pairs"].detail


def test_the_ruler_sees_what_is_left_on_a_model():
    rows = rows_of(Careless, "found")
    assert checks.picked(rows, "found", after="explaining")[0]["changed"] == ["gradients kept"]
    assert "hooks" in checks.picked(rows, "found", after="a failure")[0]["changed"]
    assert checks.found(rows).answer == "no"


def made(**changes):
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


def test_a_library_that_passes():
    assert {one.answer for one in checks.judged(made()).values()} == {"yes"}


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
def test_each_check_fails_for_its_own_reason_alone(check, change):
    verdicts = checks.judged(made(**change))
    assert {name for name, one in verdicts.items() if one.answer != "yes"} == {check}
    assert verdicts[check].answer == "no"


def test_what_a_library_does_not_have_is_not_held_against_it():
    rows = [
        {"check": "completeness", "steps": "own", "absent": "promises no sum"},
        {"check": "completeness", "steps": 64, "absent": "has no steps"},
        {"check": "agreement", "absent": "no integrated gradients"},
        {"check": "batch", "error": "TypeError: a list"},
    ]
    verdicts = checks.judged(rows)
    assert {one.answer for one in verdicts.values()} == {"-"}
    assert verdicts["batch equals single"].detail == "takes no list"


def test_words_that_are_there_twice_under_one_score_are_left_out_of_the_signs():
    given = Given(["good", "very"], [0.5, 0.1])
    assert inside.side_by_side("very very good", given, [1.0, 2.0, 3.0], []) == [[0.5], [3.0]]


class Twice(Adapter):
    """A library that asks the model twice about each text."""

    takes_lists = True
    names = {"gradient": "twice"}  # noqa: RUF012

    def gradient(self, texts):
        encoded = self.tokenizer(list(texts), return_tensors="pt", padding=True)
        for _ in range(2):
            self.model(**encoded)
        return []


def test_time_is_a_ratio_to_the_bare_pass_and_rows_are_counted():
    rows = checks.picked(rows_of(Twice, "costs"), "time")
    assert [(row["kind"], row["batch"], row["rows"]) for row in rows] == [
        ("gradient", 1, 2),
        ("gradient", 8, 16),
    ]
    for row in rows:
        assert row["ratio"] == row["seconds"] / row["floor"] > 0


def test_memory_is_what_a_run_takes_on_top():
    class Large(Twice):
        def gradient(self, texts):
            return [bytearray(os.urandom(1) * (64 << 20))]

    rows = checks.picked(rows_of(Large, "costs"), "memory")
    if not rows:
        pytest.skip("only Linux says how much memory a process has had")
    assert 60 < rows[0]["mebibytes"] < 200  # the 64 MiB, and what Python takes besides


def test_rows_of_a_stage_take_the_place_of_the_old_ones(tmp_path):
    file = tmp_path / "peers.jsonl"
    shap, captum = environment.peer("shap"), environment.peer("captum")
    peers.keep([{"check": "time", "ratio": 1}], shap, "costs", file)
    peers.keep([{"check": "method", "ok": True}], captum, "methods", file)
    peers.keep([{"check": "time", "ratio": 2}], shap, "costs", file)
    assert [(row["peer"], row.get("ratio")) for row in peers.kept(file)] == [
        ("captum", None),
        ("shap", 2),
    ]


def test_errors_are_told_without_places_of_the_machine():
    said = "noise\nERROR: No matching distribution for x from file:///a/b/c in /home/me/x/y.py\n"
    assert (
        environment.complaint(said)
        == "ERROR: No matching distribution for x from ADDRESS in .../y.py"
    )
    trace = (
        "Traceback\n  File '/a/b/c.py'\nImportError: cannot import name 'x' from 'y' (/a/b/c.py)\n"
    )
    assert peers.last_line(trace) == "ImportError: cannot import name 'x' from 'y' (.../c.py)"


def test_the_page_names_every_library_and_says_how_it_was_called():
    rows = peers.kept()
    if not rows:
        pytest.skip("nothing has been measured")
    text = page.markdown(rows)
    for one in environment.PEERS:
        assert f"| {one.name} " in text, one.name
    assert "build/peers" not in text and str(ROOT) not in text


def test_what_runs_inside_a_peers_environment_imports_nothing_else():
    allowed = {"bench", "torch", "transformers", "numpy", *sys.stdlib_module_names}
    ruler = ["adapter", "scene", "plain", "found", "inside", "cost"]
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


def test_an_adapter_that_overrides_nothing_has_nothing():
    bare = Adapter(None, None, 1)
    for ask in (bare.gradient, bare.integrated, bare.perturbation, bare.several, bare.wrong):
        with pytest.raises(Absent):
            ask("")
