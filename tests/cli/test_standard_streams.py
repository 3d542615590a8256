"""Closed standard streams and pipes without a reader, in real processes: exit statuses and no stray output."""

import os
import subprocess
import sys

import pytest

WHENCE = [sys.executable, "-m", "whence"]


@pytest.mark.parametrize("arguments", ["explain 'a good film'", "list methods", "--help"])
def test_command_with_closed_standard_output_exits_40_in_one_line(arguments):
    done = subprocess.run(
        f"{sys.executable} -m whence {arguments} >&-", shell=True, capture_output=True, text=True
    )
    assert done.returncode == 40
    assert done.stderr == (
        "whence: Cannot write the answer: standard output is closed. Send it to a file, or to /dev/null. "
        "[cannot-write, see docs/errors/cannot-write.md]\n"
    )


@pytest.mark.parametrize(
    "arguments", [["explain", "a good film"], ["list", "methods"], ["--help"], ["--version"]]
)
def test_command_into_a_closed_pipe_exits_141_without_an_error(arguments):
    """`whence ... | head`: 141 is what a shell says of a program that SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*WHENCE, *arguments], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_error_with_closed_standard_error_prints_nothing_on_standard_output():
    done = subprocess.run(
        f"{sys.executable} -m whence explain 'a' --method none 2>&-",
        shell=True,
        capture_output=True,
    )
    assert done.returncode == 20
    assert done.stdout == b""
