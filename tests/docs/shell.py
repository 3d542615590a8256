"""Shell commands of the documentation: run them, or check that their options, targets and files exist."""

import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import typer

from tests.conftest import ROOT
from tests.docs.code_blocks import needs_shell
from whence.cli import main

# Never run: they change the machine, ask the network, or are about a checkout (.venv/bin/...).
LEFT_ALONE = ("git", "make", "npm", "pip", "hf")
SECONDS = 120  # for a command in a shell
_REDIRECTED = re.compile(r"([^<>]*[^<>\s]) *([<>]) *([\w./-]+)")


def run(text: str) -> tuple[int, str]:
    """Run a command in the folder that this process is in; return its status and what it printed, errors last."""
    assert not text.startswith("whence app"), (
        "`whence app` stays running: say `<!-- not run: ... -->`"
    )
    # A command that reads one file or writes one, as most of those with a < or > do, needs no shell for that either.
    redirected = _REDIRECTED.fullmatch(text)
    command, way, path = redirected.groups() if redirected else (text, "", "")
    words = _expanded(command)
    if words[:1] != ["whence"]:
        return _in_bash(text)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in "oe")
    given = io.StringIO(Path(path).read_text(encoding="utf-8") if way == "<" else "")
    status: object = 0
    with (
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "stdin", given),
        mock.patch.object(warnings, "showwarning"),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main.run()
        except SystemExit as leave:
            status = leave.code or 0
    assert isinstance(status, int)
    if way == ">":
        Path(path).write_text(_held(out), encoding="utf-8")
        return status, _held(err)
    return status, _held(out) + _held(err)


def _held(stream: io.TextIOWrapper) -> str:
    stream.flush()
    held = stream.buffer
    assert isinstance(held, io.BytesIO)
    return held.getvalue().decode("utf-8")


def _expanded(text: str) -> list[str]:
    """Return the words of a command; none where it is more than one, or has its streams redirected."""
    if not needs_shell(text):
        return shlex.split(text)
    # What a shell puts in the place of $(...) and of variables is no part of the command itself.
    bare = re.sub(r"\$\([^()]*\)|'[^']*'|\\.", "", text)
    if re.search(r"[|<>&;\n]|^\w+=", re.sub(r'"[^"]*"', "", bare)):
        return []
    status, words = _in_bash(f"printf '%s\\0' {text}")
    assert status == 0, words
    return words.split("\0")[:-1]


def _in_bash(text: str) -> tuple[int, str]:
    home = str(Path(sys.executable).parent)
    # A pipe's reader may have enough and leave (head): then its writer ends by a signal, which is no failure.
    done = subprocess.run(
        ["bash", "-eu", "-c", text],
        env={**os.environ, "PATH": f"{home}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


def python(code: str) -> tuple[int, str]:
    """Run Python in a process of its own, warnings as errors."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=SECONDS
    )
    return done.returncode, done.stdout + done.stderr


def is_never_run(text: str) -> bool:
    """Say whether a command is one that is never run."""
    first = _words(text)[0]
    return first in LEFT_ALONE or first.startswith(".venv/") or " -m pip " in text


def find_command_fault(text: str) -> str | None:
    """Say what is wrong with a command that is not run: an option, a target or an extra that does not exist."""
    for part in re.split(r"&&|\|\|?|;", text) if needs_shell(text) else [text]:
        words = _words(re.sub(r"^\s*(?:\w+=\S*\s+)*", "", part))
        if words and (check := _CHECKS.get(words[0])) and (why := check(words[1:])):
            return why
    return None


def _words(text: str) -> list[str]:
    return shlex.split(re.sub(r"[<>]", " ", text))


def _whence(arguments: list[str]) -> str | None:
    command = typer.main.get_command(main.app)
    names = ["whence"]
    while own := getattr(command, "commands", None):
        if arguments and arguments[0] in ("--help", "-h", "--version"):
            return None
        if not arguments or arguments[0] not in own:
            return f"`{' '.join(names)}` has no command {arguments[:1]}; it has {', '.join(own)}"
        command, names = own[arguments[0]], [*names, arguments[0]]
        arguments = arguments[1:]
    try:
        command.make_context(" ".join(names), list(arguments))
    except Exception as error:  # click's, or that of the click which typer has within
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())
    return None


def _make(arguments: list[str]) -> str | None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    asked = [word for word in arguments if "=" not in word and not word.startswith("-")]
    missing = [name for name in asked if name not in targets]
    return f"the Makefile has no target {missing}" if missing else None


def _pip(arguments: list[str]) -> str | None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for word in arguments:
        if extras := re.fullmatch(r"(?:whence|\.)\[([\w,]+)\]", word):
            asked = set(extras[1].split(","))
            if missing := sorted(asked - project["optional-dependencies"].keys()):
                return f"pyproject.toml has no extra {missing}"
    return None


def _python(arguments: list[str]) -> str | None:
    """A script, a module or a test of this repository must be there."""
    if arguments[:1] == ["-m"]:
        name = arguments[1]
        if name == "pip":
            return _pip(arguments[2:])
        if name == "pytest":
            missing = [one for one in arguments[2:] if "/" in one and not (ROOT / one).exists()]
            return f"there are no tests {missing}" if missing else None
        path = ROOT / name.replace(".", "/")
        if name.split(".")[0] in ("bench", "scripts", "tests"):
            there = path.with_suffix(".py").exists() or (path / "__main__.py").exists()
            return None if there else f"there is no module {name}"
        return None
    if arguments and arguments[0].startswith(("bench/", "scripts/")):
        return None if (ROOT / arguments[0]).exists() else f"there is no {arguments[0]}"
    return None


_CHECKS: dict[str, Callable[[list[str]], str | None]] = {
    "whence": _whence,
    "make": _make,
    "pip": _pip,
    "python": _python,
    ".venv/bin/python": _python,
}
