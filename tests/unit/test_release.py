"""Release artefacts: contents and installation of the wheel and sdist, version, citation, and extras."""

import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import version

import pytest
import yaml
from release_contents import (
    build,
    find_sdist_problems,
    find_wheel_problems,
    list_package_files,
    read_wheel,
)
from versions_check import EXTRAS, SELECTION, list_core, list_extras, pin_lowest

import whence
from tests.conftest import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TEXT = "a gripping, beautifully acted film"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel from this folder, with the backend that is installed."""
    (made,) = build(tmp_path_factory.mktemp("wheel"), "wheel")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert find_wheel_problems(wheel, whence.__version__) == []


def test_package_files_include_typing_marker_static_files_and_builtin_models():
    held = list_package_files()
    assert "whence/py.typed" in held
    page = {name for name in held if name.startswith("whence/app/static/")}
    assert {name.rpartition(".")[2] for name in page} == {"css", "html", "js"}
    builtin = {name.split("/")[3] for name in held if name.startswith("whence/models/builtin/")}
    assert {"reviews", "reviews-base", "decoy", "shapes"} <= builtin


def test_wheel_problems_reports_missing_extra_and_leftover_files(wheel, tmp_path):
    import zipfile

    spoilt = tmp_path / wheel.name
    with zipfile.ZipFile(spoilt, "w") as out:
        for name, content in read_wheel(wheel).items():
            if name != "whence/py.typed":
                out.writestr(name, content)
        out.writestr("tests/left.py", "")
        out.writestr("whence/__pycache__/core.pyc", "")
    said = "\n".join(find_wheel_problems(spoilt, "9.9.9"))
    for expected in (
        "lacks whence/py.typed",
        "should not hold tests/left.py",
        "leftover: whence/__pycache__",
        "do not say version 9.9.9",
    ):
        assert expected in said


def test_source_distribution_holds_all_files_to_build_and_to_test(tmp_path):
    (made,) = build(tmp_path, "sdist")
    assert find_sdist_problems(made, whence.__version__) == []


def test_installed_wheel_explains_a_text_without_the_source_folder(wheel, tmp_path):
    """With this environment's packages, but never with this folder's source."""
    there, work = tmp_path / "there", tmp_path / "work"
    work.mkdir()
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, "--target", str(there), str(wheel)], check=True)
    env = {**os.environ, "PYTHONPATH": str(there)}
    command = [sys.executable, "-P", "-m", "whence"]
    program = (
        "import sys, whence\n"
        "from whence.cli.main import run\n"
        "print(whence.__file__)\n"
        f"sys.argv = ['whence', 'explain', {TEXT!r}]\n"
        "run()\n"
    )
    said = [
        subprocess.run(what, cwd=work, env=env, capture_output=True, text=True, check=True).stdout
        for what in ([*command, "--version"], [*command[:2], "-c", program])
    ]
    assert said[0].split()[-1] == whence.__version__
    where, _, explained = said[1].partition("\n")
    assert where == str(there / "whence" / "__init__.py")
    assert "positive" in explained
    assert "gripping" in explained


def test_version_is_the_same_in_package_metadata_citation_and_changelog():
    stated = whence.__version__
    assert re.fullmatch(r"\d+\.\d+\.\d+([ab]|rc)?\d*", stated)
    assert PROJECT["dynamic"] == ["version"]
    assert version("whence") == stated
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(citation["version"]) == stated
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[?(\d[^\] ]*)", changes, re.MULTILINE)[0] == stated


def test_citation_file_agrees_with_the_project_and_lists_the_papers():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["cff-version"] == "1.2.0"
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    assert " ".join(citation["abstract"].split()) == PROJECT["description"]
    papers = {paper["title"].partition(":")[0]: paper for paper in citation["references"]}
    assert set(papers) == {
        "Attention is not Explanation",
        "Transformer Interpretability Beyond Attention Visualization",
        "AttCAT",
        "Attention Flows",
    }
    for paper in papers.values():
        assert paper["type"] in ("article", "conference-paper")
        assert all({"family-names", "given-names"} == set(author) for author in paper["authors"])


def test_extra_named_all_lists_every_other_extra():
    extras = PROJECT["optional-dependencies"]
    names = ",".join(name for name in extras if name != "all")
    assert extras["all"] == [f"whence[{names}]"]


def test_every_requirement_has_a_lower_bound_and_selected_test_files_exist():
    pins = pin_lowest(list_core() + list_extras())
    assert len(pins) > len(PROJECT["dependencies"])
    assert all(re.fullmatch(r"[\w-]+==\d[\d.]*", pin) for pin in pins)
    assert all((ROOT / path.partition("::")[0]).is_file() for path in SELECTION + EXTRAS)
