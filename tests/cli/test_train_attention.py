"""Command `whence train-attention`: output, JSON, refused input, progress, and resumption after a signal."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings

import pytest

from tests.unit.test_train_attention import reviews

QUICK = ("--hidden-size", 8, "--embedding-size", 8, "--learning-rate", 0.02, "--batch-size", 8)


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


def table(path, examples):
    rows = [f"{example.given}\t{example.label}\n" for example in examples]
    path.write_text("sentence\tlabel\n" + "".join(rows))
    return path


@pytest.fixture
def data(tmp_path):
    """Write texts whose label is one word."""
    return table(tmp_path / "train.tsv", reviews())


def test_train_attention_saves_a_model_and_prints_working_next_commands(run, data, tmp_path):
    test = table(tmp_path / "my test.tsv", reviews(40, seed=2))
    status, out, err = run(
        "train-attention", data, "--test", test, "--out", tmp_path / "m", "--epochs", 12, *QUICK
    )
    assert status == 0, err
    assert "bilstm encoder, tanh attention" in out
    assert "test        accuracy 1.000, F1 1.000, ROC-AUC 1.000 (n = 40)" in out
    assert f"Saved in {tmp_path / 'm'}." in out
    assert f"whence audit '{test}' --model {tmp_path / 'm'}\n" in out
    explain = ("explain", "a text", "--model", tmp_path / "m", "--method", "grad_x_input")
    assert f"whence explain 'a text' --model {tmp_path / 'm'} --method grad_x_input\n" in out
    assert run(*explain)[0] == 0
    # What was guessed and what was set aside is said.
    assert "texts from 'sentence', labels from 'label' (guessed: text, label" in err
    assert "12 of 80 training examples were drawn" in err
    status, out, _ = run(
        "explain", "the plot was fine", "--model", tmp_path / "m", "--method", "gradient", "--json"
    )
    assert (status, json.loads(out)["prediction"]["label"]) == (0, "good")


def test_train_attention_with_json_prints_only_the_training_object(run, data, tmp_path):
    ways = ("--encoder", "lstm", "--attention", "additive", "--epochs", 2, "--json")
    status, out, err = run("train-attention", data, "--out", tmp_path / "m", *QUICK, *ways)
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["kind"] == "training"
    assert (told["model"]["encoder"], told["model"]["attention"]) == ("bilstm", "tanh")
    assert told["test"] is None
    assert told["dev"]["n"] == told["sizes"]["dev"] == 12


def test_train_attention_with_named_columns_repeats_them_in_the_next_commands(run, tmp_path):
    rows = [{"a": e.given, "b": "which is it", "c": e.label} for e in reviews(30)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    named = ("--text", "a", "--pair", "b", "--label", "c")
    status, out, err = run(
        "train-attention",
        tmp_path / "d.jsonl",
        "--out",
        tmp_path / "m",
        "--epochs",
        1,
        *named,
        *QUICK,
    )
    assert status == 0, err
    # Not what it was trained on.
    assert "(DATA: examples that it was not trained on)" in out
    assert f"whence audit DATA --model {tmp_path / 'm'} --text a --pair b --label c\n" in out
    assert "guessed" not in err
    assert "whence explain 'a text' --pair another --model" in out
    explain = ("explain", "a text", "--pair", "another", "--model", tmp_path / "m")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # as for users; in tests they are errors
        assert run(*explain, "--method", "grad_x_input")[0] == 0
        status, out, err = run(*explain)
    assert status == 0
    assert "whence: attcat, the default method, does not work on this model" in err
    assert "grad_x_input explains in its place" in " ".join(out.split())


def test_train_attention_strips_control_characters_of_labels_and_file_names(run, tmp_path, data):
    rows = [{"text": e.given, "label": f"{e.label}\x1b[31m\x07\u202e"} for e in reviews(30)]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "dev\x1b[31m.jsonl").write_bytes((tmp_path / "d.jsonl").read_bytes())
    command = ("train-attention", tmp_path / "d.jsonl", "--dev", tmp_path / "dev\x1b[31m.jsonl",
               "--out", tmp_path / "m", "--epochs", 1, *QUICK)  # fmt: skip
    for _ in range(2):  # trained, and found already trained
        status, out, err = run(*command)
        assert status == 0, err
        assert not any(sign in out + err for sign in "\x1b\x07\u202e")
        # Control characters of a label are a space, as a line break is; the sign that turns a line is marked.
        assert "good [31m �" in out
        # Examples to choose the epoch by are nearer to new ones than those to train on.
        assert "whence audit '" in out and "dev�[31m.jsonl' --model" in out


def test_train_attention_with_bad_input_fails_in_one_line_before_training(run, tmp_path, data):
    alone = table(tmp_path / "alone.tsv", [e for e in reviews() if e.label == "good"])
    (tmp_path / "plain.txt").write_text("one\ntwo\n")
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "thesis.tex").write_text("mine")
    for given, status, said in (
        ((tmp_path / "plain.txt",), 13, "None of the 2 examples has a label"),
        ((alone,), 13, "All 40 examples have the label 'good'"),
        ((data, "--min-length", 99), 13, "Nothing is left of the 80 examples of train.tsv: none has more than 99"),
        ((data, "--label", "stars"), 13, "no column 'stars'; it has sentence, label"),
        ((tmp_path / "no.tsv",), 13, "Cannot read"),
        ((data, "--encoder", "gru"), 22, "encoder must be one of bilstm, cnn, average. Got 'gru'."),
        ((data, "--vectors", tmp_path / "no.txt"), 30, "no word vectors to be had from"),
        ((data, "--out", tmp_path / "thesis"), 40, "holds something else (thesis.tex)"),
        ((data, "--out", data), 40, "is a file"),
    ):  # fmt: skip
        out = () if "--out" in given else ("--out", tmp_path / "m")
        found = run("train-attention", *given, *out)
        assert found[0] == status, found
        assert found[1] == ""
        assert said in found[2]
        assert found[2].count("\n") == 1
    assert not (tmp_path / "m").exists()
    status, _, err = run("train-attention", data)
    assert status == 2
    assert "--out" in err


def test_train_attention_on_a_terminal_reports_loss_and_accuracy_of_every_epoch(
    data, tmp_path, monkeypatch, capsys
):
    from whence.cli import main

    monkeypatch.setenv("FORCE_COLOR", "1")
    arguments = ["train-attention", data, "--out", tmp_path / "m", "--epochs", 2, *QUICK]
    monkeypatch.setattr(sys, "argv", ["whence", *map(str, arguments)])
    with pytest.raises(SystemExit) as left:
        main.run()
    assert not left.value.code
    err = capsys.readouterr().err
    for number in (1, 2):
        assert f"epoch {number}: loss 0." in err
    assert "dev accuracy" in err


def run_until_signal(end, out, *command):
    """Run a real command until an epoch is kept, and send it a signal."""
    import torch
    from safetensors import safe_open

    def count_epochs():
        with safe_open(out / "training" / "checkpoint.safetensors", "pt") as stored:
            return len(json.loads(stored.metadata()["state"])["history"])

    # As many threads as this process has: a sum in other parts is rounded otherwise.
    environment = {**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())}
    with subprocess.Popen(
        [sys.executable, "-m", "whence", *map(str, command)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    ) as running:  # fmt: skip
        while not (out / "training" / "checkpoint.safetensors").exists():
            assert running.poll() is None, running.communicate()
            time.sleep(0.002)
        running.send_signal(end)
        said = running.communicate(timeout=60)
    assert not (out / "config.json").exists()
    return running.returncode, *said, count_epochs()


def test_train_attention_after_sigint_exits_130_and_reports_how_to_resume(data, tmp_path):
    command = ("train-attention", data, "--out", tmp_path / "m", "--epochs", 500, "--json", *QUICK)
    status, out, err, _ = run_until_signal(signal.SIGINT, tmp_path / "m", *command)
    assert (status, out) == (130, "")
    assert err == (
        "whence: interrupted; the epochs that were done are kept, and the same command goes on from there.\n"
    )


def test_train_attention_after_sigkill_resumes_to_the_same_bytes(run, data, tmp_path):
    def command(out):
        return ("train-attention", data, "--out", tmp_path / out, "--epochs", 5, *QUICK)

    status, *_, done = run_until_signal(signal.SIGKILL, tmp_path / "killed", *command("killed"))
    assert status == -signal.SIGKILL
    assert 1 <= done < 5
    assert run(*command("killed"))[0] == 0
    assert run(*command("straight"))[0] == 0
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        killed, straight = ((tmp_path / out / name).read_bytes() for out in ("killed", "straight"))
        assert killed == straight
