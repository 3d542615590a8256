"""Plugin guides of the docs: each guide's package is found by its entry point, and the files it names exist."""

import os
import re
import subprocess
import sys
import tomllib

import pytest

from tests.conftest import ROOT
from tests.docs.code_blocks import blocks

GUIDES = ROOT / "docs" / "guides"
# By page: what to ask of whence, and what it must say then. What is found through an entry point alone is said there.
SEEN = {
    "add-a-method": (["list", "methods", "keep_one"], "s_j = p(y | only token j)"),
    "add-a-metric": (["list", "metrics", "regret"], "max over u of loo(u)"),
    "add-an-audit": (["list", "experiments", "erasure"], "Serrano & Smith 2019"),
    "add-a-rule": (["list", "methods", "attn_lrp"], "attn_lrp"),
}
# A module that registers nothing shows itself by what it did to the tables.
RULE = """
from torch.nn import functional as F
from whence.lrp import TABLES
from whence.methods import method
assert not any(F.prelu in table.ops for table in TABLES.values())
method.names()
assert all(F.prelu in table.ops for table in TABLES.values())
"""


def install(page, folder):
    """Lay the package of a page into a folder, as pip would; return the name of its module."""
    own = blocks((GUIDES / f"{page}.md").read_text(encoding="utf-8"))
    (project,) = (tomllib.loads(one.text) for one in own if one.language == "toml")
    (module,) = project["tool"]["setuptools"]["py-modules"]
    # The file is the block that begins with a docstring.
    (source,) = (one.text for one in own if one.language == "python" and one.text[:3] == '"""')
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    name, version = project["project"]["name"], project["project"]["version"]
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = []
    for group, points in project["project"]["entry-points"].items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in points.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return module


def python(folder, *arguments):
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "100"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("page", SEEN)
def test_package_of_a_guide_is_found_by_its_entry_point(page, tmp_path):
    asked, wanted = SEEN[page]
    module = install(page, tmp_path)
    assert f"Save this as `{module}.py`" in re.sub(
        r"\s+", " ", (GUIDES / f"{page}.md").read_text(encoding="utf-8")
    )
    status, said = python(tmp_path, "-m", "whence", *asked)
    assert status == 0, said
    assert wanted in said
    if page == "add-a-rule":
        status, said = python(tmp_path, "-c", RULE)
        assert status == 0, said


@pytest.mark.parametrize("page", SEEN)
def test_files_named_by_a_guide_exist_in_the_repository(page):
    text = (GUIDES / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"(?:tests|src|bench)/[\w/]+(?:\.py)?", text)
    assert named
    for path in named:
        assert (ROOT / path).exists(), path
