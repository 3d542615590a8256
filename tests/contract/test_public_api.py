"""Public interface: light import, listed names, docstrings, error pages, version and dependency bounds."""

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
from whence.core.errors import list_errors
from whence.kernels.contract import has_triton
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


@pytest.mark.parametrize("module", ["whence.cli.main", "whence.runs.plan"])
def test_import_of_the_command_line_and_of_plans_does_not_import_torch(module):
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & {"torch", "transformers", "pyarrow"}


def test_audit_is_a_function_also_after_its_package_was_imported():
    import whence.studies.audit.subject

    assert "experiments" in inspect.signature(whence.audit).parameters
    with pytest.raises(whence.WhenceError, match="There is no site"):
        whence.audit("reviews", ["a film", "another film"], site="nowhere")


def test_run_is_a_function_also_after_its_package_was_imported():
    import whence.runs.plan

    assert "retry_failed" in inspect.signature(whence.run).parameters
    with pytest.raises(whence.WhenceError, match="There is no folder for the results"):
        whence.run(whence.Plan("reviews", "reviews.tsv"))


def test_whence_all_lists_the_public_names_and_each_name_resolves():
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
def test_every_public_module_class_and_function_has_a_docstring(name):
    if name.startswith("whence.kernels.triton") and not has_triton():
        pytest.skip("the kernels of accelerators are written in Triton, which is not installed")
    module = import_module(name)
    assert (module.__doc__ or "").strip()
    for attribute, value in vars(module).items():
        own = getattr(value, "__module__", None) == name and not attribute.startswith("_")
        if not own or not (inspect.isclass(value) or inspect.isfunction(value)):
            continue
        if inspect.isclass(value) and issubclass(value, whence.WhenceError):
            continue  # a comment and a page each
        assert inspect.getdoc(value), f"{name}.{attribute} has no docstring"


@pytest.mark.parametrize("error", list_errors(), ids=lambda e: e.code)
def test_every_error_has_a_page_with_its_exit_status(error):
    text = (ROOT / "docs" / "errors" / f"{error.code}.md").read_text()
    assert text.startswith(f"# {error.__name__}")
    assert f"exit status {error.exit_status}" in text
    for part in ("## What you see", "## Why", "## What to do"):
        assert part in text


def test_errors_readme_lists_the_exit_status_of_every_error():
    text = (ROOT / "docs" / "errors" / "README.md").read_text()
    for error in list_errors():
        assert re.search(rf"\| {error.exit_status} \| \[{error.code}\]", text)


def test_error_pages_are_exactly_those_of_existing_errors():
    pages = {path.stem for path in (ROOT / "docs" / "errors").glob("*.md")} - {"README"}
    assert pages == {error.code for error in list_errors()}


def test_project_version_is_dynamic_and_has_a_changelog_entry():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert f"## {whence.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_dependencies_have_lower_bounds_and_no_caps():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    everything = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    for one in everything:
        assert re.fullmatch(r"[a-z0-9-]+>=[\d.]+", one), one


def test_methods_folder_has_one_file_for_each_registered_method():
    files = {path.stem for path in (PACKAGE / "methods").glob("[!_]*.py")}
    assert files == {entry.name for entry in method if entry.fn.__module__.startswith("whence.")}


def test_pre_commit_runs_make_lint_and_ci_runs_make_test():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert "entry: make lint" in hooks
    assert re.search(r"^test: lint page unit", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
