"""Notebook executed in a kernel: the workbench widget shows and stores its state; an explanation shows itself."""

import nbformat
import pytest
from nbclient import NotebookClient

CELLS = [
    "import whence\nbench = whence.workbench('reviews', 'a dull film')\nbench",
    "bench.state = {'view': 'sankey'}\nprint(bench.state['view'], bench.selection)",
    # What a front end sends when somebody selects a head there.
    "bench.set_state({'selection': {'tokens': [2], 'edges': [[3, 0, 0, 2]], 'head': [3, 0]}})\n"
    "print(bench.selection['head'])",
    "whence.load('reviews').explain('a dull film')",
]

pytestmark = [
    # The client's sockets are left to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def test_workbench_in_an_executed_notebook_shows_and_stores_its_state():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown, moved, chosen, static = [cell["outputs"] for cell in notebook["cells"]]
    (bundle,) = (output["data"] for output in shown if output["output_type"] == "execute_result")
    model = bundle["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert bundle["text/html"].startswith('<div class="whence">')
    assert "sankey {'tokens': [], 'edges': [], 'head': None}" in moved[0]["text"]
    assert chosen[0]["text"].strip() == "[3, 0]"
    # A stored notebook has the widget with it: its program, its style, its state.
    kept = notebook["metadata"]["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    state = kept[model]["state"]
    assert state["state"]["text"] == "a dull film"
    assert state["state"]["view"] == "sankey"
    assert "whence-payload" in state["_esm"]
    assert ".whence-app" in state["_css"]
    # An explanation alone shows itself without a script.
    assert "<script" not in static[0]["data"]["text/html"]
