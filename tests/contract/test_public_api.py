"""The public surface: light to import, listed, documented."""

import inspect
import re
import subprocess
import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

import whence
from tests.conftest import ROOT
from whence.core.errors import all_errors
from whence.kernels.choice import has_triton
from whence.methods import method

PACKAGE = Path(whence.__file__).parent
# A dot-file is a stray; the rooms' modules are the package.
MODULES = [
    ".".join(("whence", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__")
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__main__.py"
]


def test_import_whence_imports_nothing_heavy():
    program = "import sys, whence; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {
        "torch",
        "transformers",
        "numpy",
        "tokenizers",
        "rich",
        "typer",
        "pydantic",
        "safetensors",
    }


def test_the_room_of_audits_can_be_called_whoever_imported_it():
    import whence.audit.site

    assert whence.audit.site.WORDS
    assert callable(whence.audit)
    assert "experiments" in inspect.signature(whence.audit).parameters
    with pytest.raises(whence.WhenceError, match="There is no site"):
        whence.audit("reviews", ["a film", "another film"], site="nowhere")


def test_a_run_can_be_called_whatever_was_imported():
    import whence.run.plan

    assert "retry_failed" in inspect.signature(whence.run).parameters
    with pytest.raises(whence.WhenceError, match="There is no folder for the results"):
        whence.run(whence.run.plan.Plan("reviews", "reviews.tsv"))


def test_the_public_names():
    assert whence.__all__ == [
        "Audit",
        "Comparison",
        "Explainer",
        "Explanation",
        "Generation",
        "Plan",
        "Run",
        "WhenceError",
        "__version__",
        "audit",
        "compare",
        "evaluate",
        "load",
        "recommend",
        "run",
        "train_attention",
        "workbench",
    ]
    for name in whence.__all__:
        assert getattr(whence, name)
    with pytest.raises(AttributeError, match="has no attribute 'explode'"):
        whence.explode  # noqa: B018


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_says_what_it_is(name):
    if name.startswith("whence.kernels.fused") and not has_triton():
        pytest.skip("the kernels of accelerators are written in Triton, which is not installed")
    module = import_module(name)
    assert (module.__doc__ or "").strip()
    for attribute, value in vars(module).items():
        own = getattr(value, "__module__", None) == name and not attribute.startswith("_")
        if not own or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if inspect.isclass(value) and issubclass(value, whence.WhenceError):
            continue  # the tree in the module's docstring and a page each
        assert inspect.getdoc(value), f"{name}.{attribute} has no docstring"


@pytest.mark.parametrize("error", all_errors(), ids=lambda e: e.code)
def test_every_error_has_a_page(error):
    text = (ROOT / "docs" / "errors" / f"{error.code}.md").read_text()
    assert text.startswith(f"# {error.__name__}")
    assert f"exit status {error.exit_status}" in text
    for part in ("## What you see", "## Why", "## What to do"):
        assert part in text


def test_the_list_of_exit_statuses_is_complete():
    text = (ROOT / "docs" / "errors" / "README.md").read_text()
    for error in all_errors():
        assert re.search(rf"\| {error.exit_status} \| \[{error.code}\]", text)


def test_no_page_is_left_of_an_error_that_is_gone():
    pages = {path.stem for path in (ROOT / "docs" / "errors").glob("*.md")} - {"README"}
    assert pages == {error.code for error in all_errors()}


def test_version_from_one_place():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert f"## {whence.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_dependencies_have_lower_bounds_and_no_caps():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    everything = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for one in everything:
        assert re.fullmatch(r"[a-z0-9-]+>=[\d.]+", one), one


def test_one_file_per_method():
    files = {path.stem for path in (PACKAGE / "methods").glob("[!_]*.py")}
    assert files == {entry.name for entry in method if entry.fn.__module__.startswith("whence.")}


def test_pre_commit_is_what_ci_runs():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "entry: make lint" in hooks
    assert re.search(r"^test: lint page unit", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
