"""Standard streams that are closed, and readers that go away: real processes, as a shell starts them."""

import os
import subprocess
import sys

import pytest

WHENCE = [sys.executable, "-m", "whence"]


@pytest.mark.parametrize("arguments", ["explain 'a good film'", "list methods", "--help"])
def test_standard_output_that_is_closed_is_an_error_in_one_line(arguments):
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
def test_a_reader_that_went_away_ends_it_like_sigpipe(arguments):
    """`whence ... | head`: 141 is what a shell says of a program that SIGPIPE ended."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([*WHENCE, *arguments], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_error_is_not_printed_on_standard_output_where_that_of_errors_is_closed():
    done = subprocess.run(
        f"{sys.executable} -m whence explain 'a' --method none 2>&-",
        shell=True,
        capture_output=True,
    )
    assert done.returncode == 20
    assert done.stdout == b""
