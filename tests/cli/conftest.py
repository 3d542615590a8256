"""Fixtures of command-line tests: a command in this process, a file of reviews, a wide terminal, an interrupt."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.audit_data import ROWS, table


def interrupt_while_loading(*arguments):
    """Interrupt a real command in the middle of loading, when torch is there and the answer is not."""
    command = [sys.executable, "-m", "whence", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        maps = Path(f"/proc/{running.pid}/maps")
        while "libtorch" not in maps.read_text():
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    return running.returncode, out, err


@pytest.fixture
def wide(monkeypatch):
    """Nothing is folded where a test looks for it."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def data(tmp_path):
    """Write a small file of reviews."""
    return table(tmp_path / "reviews.tsv", ROWS)


@pytest.fixture
def run(capsys, monkeypatch):
    """Run the command line in this process: same code from `run()` on, without the cold start."""

    def call(*arguments):
        from whence.cli import main

        monkeypatch.setattr(sys, "argv", ["whence", *map(str, arguments)])
        capsys.readouterr()  # what the set-up printed
        status = 0
        try:
            main.run()
        except SystemExit as leave:
            status = leave.code or 0
        out, err = capsys.readouterr()
        return status, out, err

    return call
