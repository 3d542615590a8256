"""Query rows of attention: choice, own score; max flow, attention gradient and Grad-CAM over several rows."""

import numpy as np
import pytest
import torch

from tests.attention_traces import trace_of
from tests.reference.twins_attention import largest_flow
from whence.methods import method, query_rows, with_own_score

N = 5


def draw_normal(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


@pytest.fixture
def maps():
    return list(draw_normal(3, 2, 4, N, N).softmax(-1))


@pytest.fixture
def grads():
    return list(draw_normal(3, 2, 4, N, N))


# The first input reads the mean of its rows, unequally; the second one row. Neither is padded.
ROWS = torch.tensor([[0.1, 0.2, 0.3, 0.3, 0.1], [0.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)


def test_query_rows_gives_read_mean_last_and_max_rows_without_padding(maps):
    trace = trace_of(maps, torch.eye(N, dtype=torch.float64)[:2], lengths=[3, 5])
    (read,) = query_rows(trace, "read")
    assert read is trace.rows
    (mean,) = query_rows(trace, "mean")
    assert mean.tolist() == [[1 / 3] * 3 + [0] * 2, [1 / 5] * 5]
    (last,) = query_rows(trace, "last")
    assert last.tolist() == [[0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    each = torch.stack(query_rows(trace, "max"))
    assert each[:, 1].equal(torch.eye(N, dtype=torch.float64))
    assert each[:, 0].diagonal().tolist() == [1, 1, 1, 0, 0]


def test_with_own_score_keeps_zeroes_or_minimises_the_read_entry():
    scores = torch.tensor([[3.0, -1.0, 2.0, -9.0], [3.0, 1.0, 2.0, 4.0]])
    real = torch.tensor([[True, True, True, False], [True] * 4])
    one = torch.tensor([[0.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    assert with_own_score(scores, one, real, "keep") is scores
    assert with_own_score(scores, one, real, "zero").tolist() == [[3, -1, 0, -9], [3, 0, 2, 4]]
    # The smallest is looked for among the tokens, not in the padding, and the entry itself may be it.
    assert with_own_score(scores, one, real, "min").tolist() == [[3, -1, -1, -9], [3, 1, 2, 4]]
    several = torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    assert with_own_score(scores, several, real, "zero").tolist() == [[3, -1, 2, -9], [3, 0, 2, 4]]


@pytest.mark.parametrize("name", ["raw_attention", "rollout"])
def test_sums_to_one_residual_is_computed_before_the_own_score_is_replaced(maps, name):
    trace = trace_of(maps, torch.eye(N, dtype=torch.float64)[:2])
    kept, axioms = method.get(name).fn(trace)
    zeroed, still = method.get(name).fn(trace, own="zero")
    assert zeroed.sum() < kept.sum() - 0.1
    assert still["sums_to_one"].equal(axioms["sums_to_one"])
    assert axioms["sums_to_one"].abs().max() < 1e-12
    assert method.get(name).fn(trace, query="max")[1] == {}


def test_max_flow_of_several_read_rows_equals_the_reference_maximum_flow(maps):
    found = method.get("max_flow").fn(trace_of(maps, ROWS), residual=0.25, normalise=False)
    for item, weights in enumerate(ROWS.tolist()):
        steps = [0.75 * one[item].mean(0) + 0.25 * torch.eye(N) for one in maps]
        pipes = {
            (depth + 1, i): {(depth, j): step[i, j].item() for j in range(N)}
            for depth, step in enumerate(steps)
            for i in range(N)
        }
        pipes["source"] = {(len(maps), i): weights[i] for i in range(N)}
        wanted = [largest_flow(pipes, "source", (0, j)) for j in range(N)]
        np.testing.assert_allclose(found[item], wanted, rtol=1e-12)


@pytest.mark.parametrize("tokens", [1, 2])
def test_max_flow_of_one_or_two_tokens_equals_hand_computed_values(tokens):
    one = torch.full((1, 2, tokens, tokens), 1 / tokens, dtype=torch.float64)
    found = method.get("max_flow").fn(trace_of([one], torch.eye(tokens, dtype=torch.float64)[:1]))
    assert found.tolist() == [[1.0], [0.75, 0.25]][tokens - 1 : tokens]


def test_max_flow_finds_a_flow_below_the_unit_of_the_solver():
    # One part in 10^12 of the attention: far below 2^-30, the solver's unit.
    small = 1e-12
    one = torch.tensor([[[[1 - small, small], [small, 1 - small]]]], dtype=torch.float64)
    trace = trace_of([one], torch.tensor([[1.0, 0.0]], dtype=torch.float64))
    large, tiny = method.get("max_flow").fn(trace, residual=0.0, normalise=False)[0].tolist()
    assert tiny == small
    # Here two cuts, 1 and 1 - small, are the same to the solver; it may take either.
    assert abs(large - 1) <= small


def test_attention_gradient_of_several_read_rows_is_their_weighted_sum(maps, grads):
    found = method.get("attention_gradient").fn(trace_of(maps, ROWS, grads=grads))
    summed = sum((a * g).mean(1) for a, g in zip(maps, grads, strict=True))
    torch.testing.assert_close(found, torch.einsum("bq,bqk->bk", ROWS, summed))


@pytest.mark.parametrize("weights", ["map", "row"])
def test_attention_gradcam_of_several_read_rows_equals_a_loop_over_rows(maps, grads, weights):
    found = method.get("attention_gradcam").fn(trace_of(maps, ROWS, grads=grads), weights=weights)
    for item, rows in enumerate(ROWS.tolist()):
        attention, grad = maps[-1][item], grads[-1][item]
        weight = grad.mean((1, 2))
        if weights == "row":
            means = [(grad[:, i].sum(1) - grad[:, i, i]) / (N - 1) for i in range(N)]
            weight = sum(share * mean for share, mean in zip(rows, means, strict=True))
        cam = (weight[:, None, None] * attention).mean(0).clamp(min=0)
        torch.testing.assert_close(found[item], sum(rows[i] * cam[i] for i in range(N)))


@pytest.mark.parametrize("weights", ["map", "row"])
def test_attention_gradcam_of_uniform_attention_normalises_to_zero(weights):
    one = torch.full((1, 2, N, N), 1 / N, dtype=torch.float64)
    trace = trace_of([one], torch.eye(N, dtype=torch.float64)[:1], grads=[torch.ones_like(one)])
    read = method.get("attention_gradcam").fn
    torch.testing.assert_close(read(trace, weights=weights), torch.full_like(trace.rows, 1 / N))
    assert read(trace, weights=weights, normalise=True).tolist() == [[0.0] * N]


def test_attention_gradcam_by_row_of_a_single_token_is_its_gradient():
    one = torch.ones(1, 2, 1, 1, dtype=torch.float64)
    trace = trace_of([one], torch.ones(1, 1, dtype=torch.float64), grads=[0.5 * one])
    assert method.get("attention_gradcam").fn(trace, weights="row").tolist() == [[0.5]]
