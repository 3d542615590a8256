"""Equal to what the code of Abnar & Zuidema gives: rollout and maximum flow, at every layer and for every row."""

import json

import pytest
import torch

from tests.attention_traces import trace_of
from whence.core.registry import resolve_parameters
from whence.methods import method

# Which figure is which method with which parameters. What is called final is the last layer of the same.
FIGURES = {
    "attention_head_mean": ("raw_attention", {}),
    "attention_with_residual": ("rollout", {"start_layer": -1}),
    "rollout": ("rollout", {"preset": "abnar"}),
    "rollout_no_residual": ("rollout", {"residual": 0.0}),
    "maxflow_raw": ("max_flow", {"normalise": False}),
    "attention_flow": ("max_flow", {"preset": "abnar"}),
    "attention_flow_no_residual": ("max_flow", {"residual": 0.0}),
}
FINAL = {"rollout_final": "rollout", "attention_flow_final": "attention_flow"}
FACTS = {
    "name", "n_layers", "n_heads", "n_tokens", "attention_heads", "n_graph_nodes", "n_graph_edges",
    "seconds_flow_all_layers",
}  # fmt: skip


@pytest.fixture(scope="module", params=["bidirectional", "causal"])
def case(golden, request):
    cases = json.loads((golden / "flow.json").read_text())["cases"]
    return next(case for case in cases if case["name"] == request.param)


def scores(case, layer, name, params):
    """Explain the layers up to `layer`, a batch of one input for each row that can be read: (rows, tokens)."""
    heads = torch.tensor(case["attention_heads"][: layer + 1], dtype=torch.float64)
    rows = torch.eye(case["n_tokens"], dtype=torch.float64)
    trace = trace_of([one.expand(len(rows), *one.shape) for one in heads], rows)
    entry = method.get(name)
    values = resolve_parameters(name, entry.parameters, params, presets=entry.presets)
    found = entry.fn(trace, **values)
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("layer", range(4))
@pytest.mark.parametrize("figure", FIGURES)
def test_every_layer_and_row(case, figure, layer):
    # Products of at most four matrices of numbers below 1. The authors' solver works in floating point too, and the
    # flow is measured at the cut, where nothing is rounded to integers.
    found = scores(case, layer, *FIGURES[figure])
    wanted = torch.tensor(case[figure][layer], dtype=torch.float64)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


def test_every_figure_is_compared(case):
    assert case.keys() == {*FIGURES, *FINAL, *FACTS}
    for final, figure in FINAL.items():
        assert case[final] == case[figure][-1]
