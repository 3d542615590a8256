"""Call-path ceilings: the functions, files and frames of whence that explain and its command may pass through."""

import pytest
from typer.testing import CliRunner

import whence
from tests.contract.call_path import measure_call_path
from whence.cli.main import app

# (functions, files, frames). The goals are those of the rebuilding: 120, 30, 18 and 170, 45, 22. A ceiling is lowered
# with every step towards them, and never raised without a sentence that says what was bought.
EXPLAIN = (127, 30, 17)
# Files of the command: one document for text, terminal and pages, and parts built on demand, took five more than before.
COMMAND = (236, 51, 19)


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews")


def check(path, ceiling):
    counts = (len(path.functions), len(path.files), path.depth)
    assert all(count <= most for count, most in zip(counts, ceiling, strict=True)), (
        f"{counts} functions, files and frames, and {ceiling} are allowed:\n"
        + "\n".join(sorted(f"{file}: {name}" for file, name in path.functions))
    )


def test_explain_of_one_text_passes_through_no_more_than_its_ceiling(explainer):
    explainer.explain(
        "a fine film", method="attcat"
    )  # what is imported or cached at first is not counted
    check(
        measure_call_path(lambda: explainer.explain("a dull film", method="attcat")),
        EXPLAIN,
    )


def test_explain_command_passes_through_no_more_than_its_ceiling():
    def run():
        done = CliRunner().invoke(app, ["explain", "a dull film", "--method", "attcat"])
        assert done.exit_code == 0, done.output

    run()
    check(measure_call_path(run), COMMAND)
