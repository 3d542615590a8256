"""Code blocks of the README and of docs/: every block runs and prints what the page shows."""

import json
import linecache
import socket
import sys
import tomllib
from contextlib import ExitStack
from unittest import mock

import pytest
import yaml

from tests.conftest import ROOT
from tests.docs import sample_files, shell
from tests.docs.code_blocks import (
    LANGUAGES,
    REASONS,
    Block,
    blocks,
    commands,
    console_commands,
    matches_expected_output,
    pages,
)
from whence.lrp import TABLES
from whence.methods import method
from whence.metrics import metric
from whence.runs.plan import FIELD_TYPES, build_plan
from whence.studies.audit.experiments import experiment

# When a process ends that also had PyTorch in it, duckdb complains at length about what it thinks are leaks.
DUCKDB = "import duckdb"
PAGES = {str(page.relative_to(ROOT)): page for page in pages()}


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory):
    """The scene, made once."""
    return sample_files.create_sample_files(tmp_path_factory.mktemp("scene"))


@pytest.fixture
def page_folder(sample_folder, tmp_path, monkeypatch):
    """A fresh folder with the scene in it, a terminal of known width, no network, and nothing left behind."""
    sample_files.lay_out_sample_files(sample_folder, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name, value in {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_DATASETS_CACHE", str(tmp_path / ".cache"))
    if "datasets" in sys.modules:  # it read the variable when it was imported
        monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / ".cache"))
    connect = socket.socket.connect

    def only_here(own, address):
        assert own.family == socket.AF_UNIX or address[0] in ("127.0.0.1", "::1", "localhost"), (
            f"a block of the documentation asks the network: {address}"
        )
        return connect(own, address)

    monkeypatch.setattr(socket.socket, "connect", only_here)
    # What a page registers is gone when it ends.
    for registry in (method, metric, experiment):
        registry.names()
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    with ExitStack() as kept:
        for table in TABLES.values():
            kept.enter_context(mock.patch.dict(table.ops))
            kept.enter_context(mock.patch.dict(table.modules))
        yield tmp_path


class Page:
    """A page while its blocks are run: one namespace, one folder."""

    def __init__(self, name: str) -> None:
        """Read the page."""
        self.name = name
        self.names = {"__name__": "__main__"}

    def do(self, block: Block) -> None:
        """Run a block, or check what is not run."""
        assert block.language in LANGUAGES, (
            f"{self.at(block.line - 1)}: a code block names its language, one of {', '.join(LANGUAGES)}. "
            f"Got {block.language!r}."
        )
        for name in block.setup:
            assert name in sample_files.SETUPS, f"{self.at(block.line)}: the scene has no {name!r}"
            self.names[name] = sample_files.SETUPS[name]()
        getattr(self, f"_{block.language}")(block)

    def at(self, line: int) -> str:
        return f"{self.name}:{line}"

    def _python(self, block: Block) -> None:
        # Empty lines before it, so that a traceback shows the page and the line.
        code = compile("\n" * (block.line - 1) + block.text, str(PAGES[self.name]), "exec")
        linecache.checkcache(str(PAGES[self.name]))
        if block.not_run is not None:
            return
        if DUCKDB in block.text:
            status, printed = shell.python(block.text)
            assert status == 0, f"{self.at(block.line)}:\n{printed}"
        else:
            exec(code, self.names)  # noqa: S102 - this repository's own pages

    def _sh(self, block: Block) -> None:
        for one in commands(block):
            if block.not_run is not None or shell.is_never_run(one.text):
                why = shell.find_command_fault(one.text)
                assert why is None, f"{self.at(one.line)}: {one.text}\n{why}"
                continue
            status, printed = shell.run(one.text)
            assert status == 0, f"{self.at(one.line)}: {one.text}\nexit status {status}\n{printed}"

    def _console(self, block: Block) -> None:
        told, last = console_commands(block), 0
        for number, one in enumerate(told):
            if one.text == "echo $?":
                status, printed, last = 0, f"{last}\n", 0
            elif block.not_run is not None or shell.is_never_run(one.text):
                why = shell.find_command_fault(one.text)
                assert why is None, f"{self.at(one.line)}: {one.text}\n{why}"
                continue
            else:
                status, printed = shell.run(one.text)
                last = status
            asked = number + 1 < len(told) and told[number + 1].text == "echo $?"
            assert asked or status == 0, f"{self.at(one.line)}: exit status {status}\n{printed}"
            assert matches_expected_output(one.expected, printed), (
                f"{self.at(one.line)}: {one.text}\nthe page says\n{one.expected}\nand it prints\n{printed}"
            )

    def _toml(self, block: Block) -> None:
        found = tomllib.loads(block.text)
        if found.keys() & FIELD_TYPES.keys():
            found.pop("out", None)
            build_plan(found, self.at(block.line))

    def _json(self, block: Block) -> None:
        json.loads(block.text)

    def _yaml(self, block: Block) -> None:
        assert list(yaml.safe_load_all(block.text))

    def _text(self, block: Block) -> None:
        """What is shown and not run: output, formulas, drawings."""


@pytest.mark.parametrize("name", PAGES)
def test_code_blocks_of_a_page_run_and_print_the_shown_output(name, page_folder):
    page = Page(name)
    try:
        for block in blocks(PAGES[name].read_text(encoding="utf-8")):
            page.do(block)
    finally:
        page.names.clear()  # models, tables and what else it holds


def test_every_not_run_mark_names_an_accepted_reason():
    for name, page in PAGES.items():
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.not_run is not None:
                assert any(reason in block.not_run for reason in REASONS), (
                    f"{name}:{block.line}: `not run: {block.not_run}` is none of {', '.join(REASONS)}"
                )
