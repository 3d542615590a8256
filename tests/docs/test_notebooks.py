"""Notebooks: every one runs from first to last cell and gives its stored outputs, but for rounding."""

import base64
import io
import json
import re

import notebooks
import pytest
from PIL import Image

import whence
from tests.conftest import ROOT

NAMES = sorted(path.stem for path in notebooks.NOTEBOOKS.glob("*.ipynb"))
LARGEST = 300_000  # bytes of a notebook
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
# What must not be kept: it is another in every place and at every time.
PASSING = {
    "a path": re.compile(r"(?:^|[\s\"'(])(?:/(?:home|root|tmp|usr|var|work|Users)/|[A-Z]:\\)|site-packages"),
    "a time": re.compile(r"\d(?:\.\d+)? (?:s|ms|seconds)\b|\d\d:\d\d:\d\d"),
    "a version": re.compile(rf"\b{re.escape(whence.__version__)}\b|\+cpu|\+cu\d"),
    "an address in memory": re.compile(r"0x[0-9a-f]{6,}"),
}  # fmt: skip

pytestmark = [
    # The client's sockets are left to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def outputs(notebook):
    """Return what every cell gave: its number, the kind of output, and the output."""
    return [
        (number, kind, notebooks.join_text(value))
        for number, cell in enumerate(notebook["cells"], 1)
        for one in cell.get("outputs", ())
        for kind, value in (one.get("data") or {one.get("name"): one.get("text")}).items()
    ]


def equal_but_for_rounding(stored, now):
    """Say whether two texts are the same but for rounding.

    Everything is seeded and computed in float32. Another processor or version of PyTorch adds up in another order, by
    parts of a million, and that may turn the last digit of what is printed, rarely a count of random rankings or the
    length of a bar. So numbers may differ by one in a hundred, or by one and a half in their last place.
    """
    if NUMBER.sub("#", _bare(stored)) != NUMBER.sub("#", _bare(now)):
        return False
    pairs = zip(NUMBER.findall(_bare(stored)), NUMBER.findall(_bare(now)), strict=True)
    return all(_close(one, other) for one, other in pairs)


def _close(one, other):
    last = 10.0 ** -len(one.partition(".")[2])
    return abs(float(one) - float(other)) <= max(1.5 * last, abs(float(one)) / 100)


def _bare(text):
    """Return a text without shades and pictures, which follow from the numbers, with one blank for many."""
    text = re.sub(r"data:image/png;base64,[\w+/=]+|#[0-9a-f]{6}\b|rgba?\([^)]*\)|█+", "", text)
    return re.sub(r"\s+", " ", text)


def test_notebook_files_equal_the_names_in_the_given_order():
    assert sorted(notebooks.ORDER) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_notebook_executed_again_gives_its_stored_outputs_without_stderr(name, monkeypatch):
    # Every warning of a cell is shown once, in its stderr, which must be empty.
    monkeypatch.setenv("PYTHONWARNINGS", "default")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    stored, now = outputs(notebooks.read_notebook(name)), outputs(notebooks.execute_notebook(name))
    assert [one for one in now if one[1] == "stderr"] == []
    assert [one[:2] for one in stored] == [one[:2] for one in now]
    for (number, kind, was), (_, _, said) in zip(stored, now, strict=True):
        if kind == "image/png":
            sizes = [Image.open(io.BytesIO(base64.b64decode(one))).size for one in (was, said)]
            assert sizes[0] == sizes[1]
        else:
            assert equal_but_for_rounding(was, said), f"cell {number}, stored:\n{was}\nnow:\n{said}"


@pytest.mark.parametrize("name", NAMES)
def test_stored_notebook_is_normalised_small_and_free_of_paths_times_and_versions(name):
    path = notebooks.NOTEBOOKS / f"{name}.ipynb"
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    assert text == notebooks.format_notebook(notebooks.normalise_notebook(notebook, name)), (
        f"run `python scripts/notebooks.py {name}`"
    )
    assert len(text.encode()) < LARGEST
    assert all(c["cell_type"] == "markdown" or c["source"] for c in notebook["cells"])
    for number, kind, said in outputs(notebook):
        for what, found in PASSING.items():
            match = found.search(re.sub(r"base64,[\w+/=]+", "", said))
            assert match is None, f"cell {number} ({kind}) has {what}: {match[0]!r}"


def test_notebook_page_contains_every_code_cell_of_the_notebook():
    for name in NAMES:
        page = notebooks.render_page(name)
        assert page.startswith("# ")
        for cell in notebooks.read_notebook(name)["cells"]:
            source = notebooks.join_text(cell["source"]).strip()
            if cell["cell_type"] == "code":
                assert source in page
        assert ".ipynb)" not in re.sub(r"\(\.\./\.\./notebooks/[\w-]+\.ipynb\)", "", page)
        assert (ROOT / "docs" / "notebooks" / f"{name}.md").exists()


def test_equal_but_for_rounding_accepts_rounding_and_rejects_other_differences():
    assert equal_but_for_rounding("attcat 0.57 ████ of 80", "attcat 0.58 ███ of 80")
    assert equal_but_for_rounding("-0.001", "0.000")
    assert not equal_but_for_rounding("attcat 0.57", "attcat 0.61")
    assert not equal_but_for_rounding("attcat holds 0.57", "attcat fails 0.57")
    assert not equal_but_for_rounding("a 1", "a 1 2")
