"""The command line, run in this process."""

import sys

import pytest


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
