"""Fixtures of the evaluation tests: a small evaluation, and its output in every format."""

import json
from io import StringIO

import pytest

import whence

TEXTS = [
    "a gripping, beautifully acted film",
    "the plot is thin and the jokes are worse",
    "not a bad film at all",
    "dull, slow and far too long",
    "a warm and funny story that never tires",
    "i wanted to like it and could not",
    "one of the best films of the year",
    "the actors do what they can with a poor script",
]
METHODS = ["attcat", "grad_x_input"]


@pytest.fixture(scope="session")
def explainer():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="session")
def table(explainer):
    return whence.evaluate(explainer, TEXTS, METHODS, ["comprehensiveness", "infidelity", "tau_b"])


def render_all_formats(found):
    """Return an evaluation on every surface."""
    from rich.console import Console

    out = Console(width=100, file=StringIO())
    out.print(found)
    return {
        "plain": str(found),
        "rich": out.file.getvalue(),
        "markdown": found.to_markdown(),
        "latex": found.to_latex(),
        "csv": found.to_csv(),
        "svg": found.plot(),
        "html": found._repr_html_(),
        "json": json.dumps(found.to_dict(), allow_nan=False),
    }


def read_all_formats(found):
    """Return an evaluation on every surface with words, on one line and without escapes."""
    shown = {name: " ".join(text.split()) for name, text in render_all_formats(found).items()}
    names = ("plain", "rich", "markdown", "latex", "html")
    return {name: shown[name].replace("\\", "").replace("$-$", "-") for name in names}


def assert_in_all_text_formats(found, said):
    """Assert that every surface with words says something."""
    for text in read_all_formats(found).values():
        assert said in text
