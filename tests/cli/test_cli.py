"""Command line: `explain`, `list`, `doctor`, exit statuses, standard streams and completion."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest

from tests import zoo
from tests.cli.conftest import interrupt_while_loading
from tests.fork_server import CLOSED
from whence._version import __version__
from whence.cli.failures import with_exit_status
from whence.core.errors import list_errors

TEXT = "a gripping, beautifully acted film"
UNSURE = "the acting is fine but the story never works"  # so that a word matters
real = pytest.mark.xdist_group("app")  # those that start processes share one that starts them


def wait_for_exit(process):
    """Return the status of a process, and what it said."""
    with process:
        out, err = process.communicate()
    return process.returncode, out, err


def make_pipe(given):
    """Return a stream that bytes can be read from."""
    read, write = os.pipe()
    os.write(write, given)
    os.close(write)
    return read


def test_explain_command_in_a_new_process_prints_prediction_and_words():
    """As a shell would start it; the others below are forks of a process that has imported everything."""
    command = [sys.executable, "-m", "whence", "explain", TEXT]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "positive" in done.stdout
    assert "beautifully" in done.stdout
    assert done.stderr == ""


def test_installed_command_prints_its_version():
    command = Path(sys.executable).with_name("whence")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"whence {__version__}\n"


def test_explain_json_holds_words_scores_and_passes_of_every_method(run):
    status, out, err = run(
        "explain", TEXT, "--method", "attcat", "--method", "leave_one_out", "--json"
    )
    assert (status, err) == (0, "")
    payload = json.loads(out)
    assert out.count("\n") == 1
    assert payload["version"] == 1
    assert payload["model"]["name"] == "reviews"
    assert payload["input"] == {"text": TEXT, "pair": None, "dropped": 0}
    assert [e["method"] for e in payload["explanations"]] == ["attcat", "leave_one_out"]
    assert [w["text"] for w in payload["words"]] == [
        "a",
        "gripping",
        ",",
        "beautifully",
        "acted",
        "film",
    ]
    assert payload["prediction"]["label"] == payload["target"]["label"] == "positive"
    for e in payload["explanations"]:
        assert len(e["scores"]) == len(payload["tokens"])
        assert len(e["word_scores"]) == len(payload["words"])
    loo = payload["explanations"][1]
    assert loo["params"] == {"remove": "mask"}
    assert loo["passes"] == {"forward": 1 + len(payload["tokens"]), "backward": 0}


@real
def test_explain_command_with_a_dash_reads_standard_input(warm):
    started = warm.start("explain", "-", "--json", stdin=make_pipe(f"{TEXT}\n".encode()))
    _, out, _ = wait_for_exit(started)
    assert json.loads(out)["input"]["text"] == TEXT


def test_explain_options_pair_target_param_and_top_are_applied(run):
    status, out, _ = run(
        "explain", "a good film", "--pair", "a bad film", "--model", "decoy", "--target", "positive:negative",
        "--method", "leave_one_out", "--param", "remove=delete", "--json",
    )  # fmt: skip
    payload = json.loads(out)
    assert status == 0
    assert payload["input"]["pair"] == "a bad film"
    assert payload["target"]["against"]["label"] == "negative"
    assert payload["explanations"][0]["params"] == {"remove": "delete"}
    status, out, _ = run("explain", UNSURE, "--top", "1")
    assert len(re.findall(r"█", out)) == 16


def test_preset_parameter_applies_only_to_methods_that_have_the_preset(run):
    status, out, _ = run(
        "explain", TEXT, "--method", "rollout", "--method", "attention_gradcam", "--method", "cat",
        "--param", "preset=chefer_vit", "--param", "rollout.start_layer=0", "--json",
    )  # fmt: skip
    params = {e["method"]: e["params"] for e in json.loads(out)["explanations"]}
    assert status == 0
    assert params["rollout"]["own"] == "zero"
    assert params["rollout"]["start_layer"] == 0
    assert params["attention_gradcam"] == {"weights": "row", "normalise": True, "own": "zero"}
    assert params["cat"] == {"layer": None}


def test_explain_html_writes_the_page_and_reports_its_path(run, tmp_path):
    page = tmp_path / "why.html"
    status, _, err = run("explain", TEXT, "--html", page)
    assert status == 0
    assert f"wrote {page}" in err.replace("\n", "")
    assert page.read_text().startswith("<!doctype html>")


def test_explain_of_a_too_long_text_exits_11_unless_truncated(run):
    long = "good film " * 400
    status, _, err = run("explain", long)
    assert status == 11
    assert re.search(r"has 802 tokens and the model takes at most \d+", err)
    status, out, _ = run("explain", long, "--truncate")
    assert status == 0
    assert "were cut off" in " ".join(out.split())


@pytest.fixture
def broken(tmp_path):
    """Folders that are wrong in one way each."""
    zoo.make("bert").save_pretrained(tmp_path / "wordless")
    pickled = tmp_path / "pickled"
    zoo.make("bert").save_pretrained(pickled)
    (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
    return tmp_path


BAD = [
    (("explain", "  "), 10, "'  ' is empty"),
    (("explain", "-"), 10, "is empty"),
    (("explain", TEXT, "--method", "atcat"), 20, "Did you mean 'attcat'"),
    (("explain", TEXT, "--target", "positiv"), 21, "0 'negative', 1 'positive'"),
    (("explain", TEXT, "--target", "2"), 21, "no target 2"),
    (("explain", TEXT, "--target", "²"), 21, "no target"),
    (("explain", TEXT, "--of", "prob"), 22, "'logit' or 'probability'"),
    (("explain", TEXT, "--param", "layer"), 22, "NAME=VALUE"),
    (("explain", TEXT, "--param", "layer=x"), 22, "must be an integer or none. Got 'x'"),
    (("explain", TEXT, "--param", "layer=99"), 22, "no layer 99"),
    (("explain", TEXT, "--param", "colour=red"), 22, "has no parameter 'colour'"),
    (("explain", TEXT, "--param", "preset=atcat"), 22, "Did you mean 'attcat'"),
    (
        ("explain", TEXT, "--method", "cat", "--method", "rollout", "--param", "preset=chefer"),
        22,
        "None of the methods has a preset 'chefer'. They have cat: none; rollout: abnar, ",
    ),
    (("explain", TEXT, "--device", "abacus"), 22, "Here are: cpu"),
    (("explain", TEXT, "--dtype", "int8"), 22, "float64, float32"),
    (("explain", TEXT, "--model", "revews"), 30, "Did you mean 'reviews'"),
    (("explain", TEXT, "--model", "./nowhere"), 30, "no folder './nowhere'"),
    (("explain", TEXT, "--model", "{broken}/pickled"), 31, "pytorch_model.bin"),
    (("explain", TEXT, "--model", "{broken}/wordless"), 32, "no tokenizer"),
    (("explain", TEXT, "--model", "reviews-base"), 12, "no mask in the text"),
    (("explain", TEXT, "--html", "/nowhere/why.html"), 40, "no folder '/nowhere'"),
    (("explain", TEXT, "--html", "."), 40, "it is a folder"),
    (("list", "methods", "atcat"), 20, "Did you mean 'attcat'"),
]


@pytest.mark.parametrize(
    ("arguments", "status", "message"), BAD, ids=lambda x: None if isinstance(x, str) else str(x)
)
def test_bad_input_prints_one_line_and_exits_with_its_own_status(
    run, broken, monkeypatch, arguments, status, message
):
    monkeypatch.setattr(sys, "stdin", StringIO(" \n"))
    found, out, err = run(*(a.format(broken=broken) for a in arguments))
    assert found == status
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
    assert "Traceback" not in err
    code = next(e.code for e in list_errors() if e.exit_status == status)
    assert f"docs/errors/{code}.md" in err


@real
def test_bad_input_in_a_real_process_exits_10_and_writes_no_file(warm, tmp_path):
    status, _, err = wait_for_exit(warm.start("explain", "  ", "--html", tmp_path / "why.html"))
    assert status == 10
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_explain_with_nan_logits_exits_35(run, tmp_path):
    from tests.unit.small_tokenizers import wordpiece

    model = zoo.make("bert")
    model.resize_token_embeddings(400)
    model.classifier.bias.data[0] = float("nan")
    model.save_pretrained(tmp_path / "m")
    wordpiece().save_pretrained(tmp_path / "m")
    status, _, err = run("explain", TEXT, "--model", tmp_path / "m")
    assert status == 35
    assert "nan" in err


def test_keyboard_interrupt_prints_one_line_and_exits_130(run, monkeypatch):
    from whence.explain.explainer import Explainer

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(Explainer, "explain", interrupt)
    status, _, err = run("explain", TEXT)
    assert status == 130
    assert err.count("\n") == 1


def test_internal_error_exits_1_and_raises_in_debug_mode(run, monkeypatch):
    from whence.explain.explainer import Explainer

    def fail(*_, **__):
        raise ZeroDivisionError("oh\nno")

    monkeypatch.setattr(Explainer, "explain", fail)
    status, _, err = run("explain", TEXT)
    assert status == 1
    assert "ZeroDivisionError: oh no" in err
    monkeypatch.setenv("WHENCE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run("explain", TEXT)


@real
def test_explain_json_into_a_closed_pipe_prints_no_error(warm):
    read, write = os.pipe()
    os.close(read)
    _, _, err = wait_for_exit(warm.start("explain", TEXT, "--json", stdout=write))
    assert err == ""


def test_list_command_shows_methods_presets_and_models(run):
    status, out, _ = run("list", "methods")
    assert status == 0
    assert "leave_one_out" in out
    _, out, _ = run("list", "methods", "attcat")
    assert "misleads when" in out
    assert "formula" in out
    _, out, _ = run("list", "methods", "rollout")
    assert re.search(r"chefer_vit: start_layer=1, .*own=zero", " ".join(out.split()))
    _, out, _ = run("list", "methods", "rollout", "--json")
    assert json.loads(out)[0]["presets"]["chefer_vit"]["start_layer"] == 1
    _, out, _ = run("list", "methods", "--json")
    facts = json.loads(out)
    assert {f["name"] for f in facts} >= {"attcat", "rollout", "random"}
    _, out, _ = run("list", "models")
    assert "whence doctor --model M" in out  # any kind of model, not text classifiers alone
    assert "decoy" in out


def test_doctor_command_finds_every_method_working_on_built_in_models(run):
    status, out, _ = run("doctor")
    assert status == 0
    assert "transformers" in out
    status, out, _ = run("doctor", "--model", "decoy", "--json")
    report = json.loads(out)
    assert all(row["works"] for row in report["model"]["methods"])
    _, out, _ = run("doctor", "--model", "reviews-base", "--json")
    assert all(row["works"] for row in json.loads(out)["model"]["methods"])


def test_doctor_command_reports_rollout_as_failing_on_an_encoder_decoder(run, tmp_path):
    zoo.make("t5").save_pretrained(tmp_path / "t5")
    _, out, _ = run("doctor", "--model", tmp_path / "t5", "--json")
    rows = {row["method"]: row for row in json.loads(out)["model"]["methods"]}
    assert not rows["rollout"]["works"]
    assert "encoder and a decoder" in rows["rollout"]["why_not"]
    assert rows["gradient"]["works"]


@pytest.mark.parametrize("command", [(), ("explain",), ("list",), ("list", "methods"), ("doctor",)])
def test_help_option_of_a_command_shows_its_usage(run, command):
    status, out, _ = run(*command, "--help")
    assert status == 0
    assert "Usage" in out
    if command in {(), ("explain",)}:
        assert 'whence explain "' in out


def test_completion_of_method_and_metric_names_does_not_import_torch():
    program = (
        "import sys; from whence.cli.options import complete_method, complete_metric;"
        "print(complete_method('ro'), complete_metric('ta')); assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['rollout'] ['tau_b']\n"
    asked = {
        "_WHENCE_COMPLETE": "complete_bash",
        "COMP_WORDS": "whence explain x --method ro",
        "COMP_CWORD": "4",
    }
    command = Path(sys.executable).with_name("whence")
    shown = subprocess.run(
        [command], capture_output=True, text=True, check=True, env={**os.environ, **asked}
    )
    assert shown.stdout.split() == ["rollout"]


@real
def test_explain_json_onto_a_full_disk_exits_40(warm):
    full = os.open("/dev/full", os.O_WRONLY)
    status, _, err = wait_for_exit(warm.start("explain", TEXT, "--json", stdout=full))
    assert status == 40
    assert err.count("\n") == 1
    assert "No space left" in err


@real
def test_explain_with_closed_or_undecodable_standard_input_is_refused(warm):
    status, _, err = wait_for_exit(warm.start("explain", "-", stdin=CLOSED))
    assert (status, err.count("\n")) == (10, 1)
    started = warm.start(
        "explain", "-", stdin=make_pipe(b"\xff\xfe"), PYTHONIOENCODING="utf-8:strict"
    )
    status, _, err = wait_for_exit(started)
    assert (status, err.count("\n")) == (12, 1)


@real
def test_explain_command_in_an_ascii_terminal_exits_0(warm):
    text = "ein schöner Film"
    status, out, err = wait_for_exit(
        warm.start("explain", text, "--json", PYTHONIOENCODING="ascii")
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["input"]["text"] == text
    status, _, err = wait_for_exit(warm.start("explain", text, PYTHONIOENCODING="ascii"))
    assert (status, err) == (0, "")


def test_explain_command_takes_a_text_with_a_leading_dash(run):
    status, out, _ = run("explain", "--json", "--", "-good film-")
    assert status == 0
    assert json.loads(out)["input"]["text"] == "-good film-"


def test_explain_html_reports_markup_in_a_file_name_literally(run, tmp_path):
    _, _, err = run("explain", TEXT, "--html", tmp_path / "[red]x.html")
    assert "[red]x.html" in err.replace("\n", "")


def test_explain_command_after_sigint_exits_130_and_leaves_no_file(tmp_path):
    found = interrupt_while_loading("explain", TEXT, "--html", tmp_path / "why.html")
    assert found == (130, "", "whence: interrupted; nothing was left half-written.\n")
    assert list(tmp_path.iterdir()) == []


def test_memory_error_outside_of_a_method_exits_38(capsys):
    @with_exit_status
    def hungry():
        bytearray(1 << 62)  # more than any machine can address: Python itself refuses

    with pytest.raises(SystemExit) as left:
        hungry()
    assert left.value.code == 38
    assert "not enough memory" in capsys.readouterr().err


# Options that mean another thing there, or are declared by a plan's own table.
OWN_OPTIONS = {"run": "all", "doctor": {"model", "text"}, "app": {"model", "data"}}
OWN_OPTIONS |= {"compare": {"method"}, "report": {"markdown", "latex"}, "train-attention": {"seed"}}
OWN_OPTIONS |= {"audit": {"data", "param"}}


def test_commands_share_the_declaration_of_the_options_that_they_share():
    """The same option has the same spellings, help and place in the help of every command that has it."""
    import typer.main

    from whence.cli.main import app

    shared = {
        "model",
        "device",
        "dtype",
        "revision",
        "checkpoint",
        "data",
        "label",
        "method",
        "param",
    }
    shared |= {"as_json", "html", "markdown", "latex", "seed", "remove", "unit", "mlm"}
    first = {}
    for name, command in typer.main.get_command(app).commands.items():
        own = OWN_OPTIONS.get(name, set())
        for option in command.params:
            if own != "all" and option.name in shared - own and option.param_type_name == "option":
                panel = getattr(option, "rich_help_panel", None)
                facts = (option.opts, option.metavar, option.help, panel, option.required)
                assert first.setdefault(option.name, (name, facts))[1] == facts, (name, first)
    assert shared <= set(first)
