"""The rules of the house that a program can check (docs/adr/0011-twelve-rules.md has all of them)."""

import re
import subprocess

import pytest

from tests.conftest import ROOT

LISTED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=False,  # an unpacked archive has no git: then the folders themselves are the list
).stdout.split()
TREES = ("src", "tests", "bench", "scripts")
PYTHON = sorted(
    path
    for path in (
        {ROOT / name for name in LISTED if name.startswith(TREES)}
        or {path for tree in TREES for path in (ROOT / tree).rglob("*.py")}
    )
    if path.suffix == ".py" and path.is_file()
)
SOURCE = [path for path in PYTHON if path.is_relative_to(ROOT / "src")]
# What a file may hold at the most, by where it stands; a method is to be read at one sitting.
BUDGETS = {"src/whence/methods": 120, "src/whence/metrics": 130, "src": 370, "": 400}
NO_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "tools"}


def named(path):
    return path.relative_to(ROOT).as_posix()


def lines(paths):
    for path in paths:
        text = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(text):
            after = text[number + 1] if number + 1 < len(text) else ""
            yield f"{named(path)}:{number + 1}", line, after


def test_there_is_something_to_check():
    assert len(SOURCE) > 500 and len(PYTHON) > 900


@pytest.mark.parametrize("tree", [*TREES, "web/src"])
def test_no_drawer_for_odds_and_ends(tree):
    found = [path for path in (ROOT / tree).rglob("*") if path.stem.lower() in NO_NAMES]
    assert not found


def test_files_keep_to_their_budget():
    over = []
    for path in PYTHON:
        name = named(path)
        budget = next(most for place, most in BUDGETS.items() if name.startswith(place))
        count = len(path.read_text(encoding="utf-8").splitlines())
        if count > budget:
            over.append(f"{name}: {count} lines, and {budget} are allowed")
    assert not over, "\n".join(over)


def test_what_a_checker_is_told_to_pass_over_is_named():
    bare = [
        where
        for where, line, _ in lines(SOURCE)
        if re.search(r"# type: ignore(?!\[)|# noqa(?!: [A-Z])", line)
    ]
    assert not bare


def test_whoever_catches_everything_says_why():
    silent = [
        where
        for where, line, after in lines(SOURCE)
        if re.search(r"except (Exception|BaseException)\b|except:", line)
        and "#" not in line + after
    ]
    assert not silent


def test_annotations_are_not_strings():
    # Parameters are read from signatures: the types must be there.
    assert not [
        where for where, line, _ in lines(SOURCE) if line == "from __future__ import annotations"
    ]


def test_a_file_begins_by_saying_what_it_is_for():
    silent = [
        named(path)
        for path in PYTHON
        if not path.read_text(encoding="utf-8").startswith(('"""', "#!"))
        and path.name != "__init__.py"
    ]
    assert not silent
