"""Ablation of attention edges: logits equal attention without these edges; verify() against random edge sets."""

import numpy as np
import pytest
import torch
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import BadParameter, NoHead, NotCapturable
from whence.explain.ablation import _draw_random_sets
from whence.tracing.alter import _EdgeCutter, cut_edges
from whence.tracing.forward import compute_plain_logits

SEAMED = tuple(
    n for n in zoo.ARCHITECTURES if n not in zoo.TWO_STREAMS and n not in {"deberta-v2", "mpnet"}
)
IDS = [2, 11, 23, 5, 7, 3]


def load_inside(name, **options):
    return whence.load(zoo.make(name), **options).inside({"input_ids": [IDS]})


def by_hand(model, batch, cuts, renormalise):
    """Run the model with a plain attention function that masks before the softmax, or zeroes after it."""
    calls = []

    def attend(module, query, key, value, attention_mask, scaling=None, **_):
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        scores = query @ key.transpose(-1, -2) * (scaling or query.shape[-1] ** -0.5)
        lowest = torch.finfo(scores.dtype).min
        if attention_mask is not None:
            hidden = ~attention_mask if attention_mask.dtype == torch.bool else attention_mask < -1
            scores = scores.masked_fill(hidden, lowest)
        elif getattr(module, "is_causal", False):
            n = scores.shape[-1]
            scores = scores.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), lowest)
        cut = cuts.get(len(calls))
        calls.append(module)
        if cut is None:
            weights = scores.softmax(-1)
        elif renormalise:
            weights = scores.masked_fill(cut, -torch.inf).softmax(-1)
        else:
            weights = scores.softmax(-1).masked_fill(cut, 0)
        return (weights @ value).transpose(1, 2).contiguous(), None

    AttentionInterface.register("by_hand_cut", attend)
    AttentionMaskInterface.register("by_hand_cut", sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("by_hand_cut")
    try:
        with torch.no_grad():
            return model(**batch.inputs).logits
    finally:
        model.set_attn_implementation(before)


def make_random_cuts(inside):
    """Cut a third of the edges of every layer but keep each token's own, so that no row is empty."""
    shape = (1, inside.heads, len(inside.tokens), len(inside.tokens))
    draw = torch.Generator().manual_seed(3)
    own = torch.eye(shape[-1], dtype=torch.bool)
    return {
        layer: (torch.rand(shape, generator=draw) < 1 / 3) & ~own for layer in range(inside.layers)
    }


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("name", SEAMED)
def test_cut_edges_equals_an_attention_function_without_those_edges(name, renormalise):
    inside = load_inside(name)
    model, batch, cuts = inside.loaded.model, inside.copies(1), make_random_cuts(inside)
    with cut_edges(model, 1, renormalise=renormalise) as run:
        found = run(batch, cuts)
    # float32, three layers: rounding is near 1e-6, and a cut moves logits by more than 1e-3 (next assertion).
    torch.testing.assert_close(found, by_hand(model, batch, cuts, renormalise), rtol=0, atol=2e-5)
    assert (found - compute_plain_logits(model, batch)).abs().max() > 1e-3


@pytest.mark.parametrize("name", ["deberta-v2", "mpnet"])
def test_cut_edges_works_on_models_without_the_attention_interface(name):
    inside = load_inside(name, dtype="float64")
    model, batch = inside.loaded.model, inside.copies(1)
    every = torch.ones(1, inside.heads, len(IDS), len(IDS), dtype=torch.bool)
    with cut_edges(model, 1, renormalise=False) as run:
        nothing = run(batch, {0: torch.zeros_like(every)})
        one_row = run(batch, {0: every & (torch.arange(len(IDS)) == 2)[:, None]})
    torch.testing.assert_close(nothing, compute_plain_logits(model, batch), rtol=0, atol=1e-12)
    assert (one_row - nothing).abs().max() > 1e-6


def test_cut_edges_of_no_edges_equals_the_plain_logits():
    inside = load_inside("bert", dtype="float64")
    with cut_edges(inside.loaded.model, 1, renormalise=True) as run:
        found = run(inside.copies(1), {})
    torch.testing.assert_close(
        found, compute_plain_logits(inside.loaded.model, inside.copies(1)), rtol=0, atol=1e-12
    )


def test_cut_edges_of_a_whole_layer_is_finite_and_equal_with_or_without_renormalise():
    """All edges of all rows cut: with or without making up for it, attention gives zero."""
    inside = load_inside("bert", dtype="float64")
    every = {0: torch.ones(1, inside.heads, len(IDS), len(IDS), dtype=torch.bool)}
    found = []
    for renormalise in (True, False):
        with cut_edges(inside.loaded.model, 1, renormalise=renormalise) as run:
            found.append(run(inside.copies(1), every))
    assert torch.isfinite(found[0]).all()
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_cut_edges_of_two_copies_in_a_batch_equals_single_runs():
    inside = load_inside("bert", dtype="float64")
    sets = [
        make_random_cuts(inside),
        {layer: ~cut for layer, cut in make_random_cuts(inside).items()},
    ]
    with cut_edges(inside.loaded.model, 1, renormalise=True) as run:
        singles = [run(inside.copies(1), cuts) for cuts in sets]
    both = {layer: torch.cat([one[layer] for one in sets]) for layer in sets[0]}
    with cut_edges(inside.loaded.model, 2, renormalise=True) as run:
        together = run(inside.copies(2), both)
    torch.testing.assert_close(together, torch.cat(singles), rtol=0, atol=1e-12)


def test_edge_cutter_renormalises_a_row_to_its_former_sum():
    """With a sink, a row of attention adds up to less than 1: .1 + .2 + .3 without the last is .3, times two."""
    row = torch.tensor([[[[0.1, 0.2, 0.3]]]])
    found = _EdgeCutter({0: torch.tensor([[[[False, False, True]]]])}, True)(lambda: row)
    torch.testing.assert_close(found, torch.tensor([[[[0.2, 0.4, 0.0]]]]))


def test_cut_edges_above_the_last_layer_raises_not_capturable():
    inside = load_inside("bert")
    some = make_random_cuts(inside)[0]
    with cut_edges(inside.loaded.model, 1, renormalise=True) as run:
        run(inside.copies(1), {inside.layers - 1: some})
        with pytest.raises(NotCapturable, match=f"attention {inside.layers}, "):
            run(inside.copies(1), {inside.layers: some})


def test_cut_edges_leaves_the_model_unchanged_after_an_error():
    inside = load_inside("bert")
    model, before = inside.loaded.model, snapshot(inside.loaded.model)
    wrong = {0: torch.ones(1, inside.heads, 3, 3, dtype=torch.bool)}
    with (
        pytest.raises(NotCapturable, match="Attention 0"),
        cut_edges(model, 1, renormalise=True) as run,
    ):
        run(inside.copies(1), wrong)
    assert_unchanged(before, snapshot(model))
    with (
        pytest.raises(NotCapturable, match="attention 7"),
        cut_edges(model, 1, renormalise=True) as run,
    ):
        run(inside.copies(1), {7: make_random_cuts(inside)[0]})
    assert_unchanged(before, snapshot(model))


def test_verify_on_decoy_moves_the_target_for_evidence_and_not_for_the_decoy_word():
    """By construction all of decoy's evidence reaches the first token from one word, the decoy's value is zero."""
    inside = whence.load("decoy", dtype="float64").inside("the film was great honestly")
    words = {word.text: word.tokens[0] for word in inside.words}
    found = {}
    for word, token in words.items():
        edges = [(layer, -1, 0, token) for layer in range(inside.layers)]
        found[word] = abs(inside.verify(edges, draws=5)["tests"][1]["change"])
    strongest = max(found, key=found.get)
    attention = inside.attention()[:, :, 0].max((0, 1))
    looked_at = max(words, key=lambda word: attention[words[word]])
    assert found[strongest] > 0.1
    if looked_at != strongest:
        assert found[looked_at] < 1e-9


def test_verify_reports_both_cuts_random_sets_and_mass_reproducibly():
    inside = whence.load("reviews").inside("a gripping and beautifully acted film")
    flow = inside.flow(most=20)["edges"]
    edges = list(zip(flow["layer"], flow["head"], flow["source"], flow["to"], strict=True))
    seen = []
    found = inside.verify(edges, draws=8, progress=lambda done, total: seen.append((done, total)))
    again = inside.verify(edges, draws=8)
    assert found == again
    assert found["edges"] == 20 and found["before"] == pytest.approx(
        inside.prediction.probability, abs=1e-6
    )
    assert [test["renormalised"] for test in found["tests"]] == [True, False]
    assert all(len(test["random"]) == test["of"] == 8 for test in found["tests"])
    assert seen[-1] == (18, 18)
    # The mass is the attention that the edges hold; the flow's own weights say the same.
    assert found["tests"][0]["mass"] == pytest.approx(sum(flow["weight"]), rel=1e-6)


def test_head_ablation_equals_the_change_by_cutting_all_edges_of_the_head():
    inside = whence.load("reviews", dtype="float64").inside("a gripping film")
    values = inside.head_values("ablation")
    n = len(inside.tokens)
    edges = [(2, 1, i, j) for i in range(n) for j in range(n)]
    found = inside.verify(edges, draws=5)["tests"][1]
    assert found["change"] == pytest.approx(values[2, 1], abs=1e-12)
    assert values.shape == (inside.layers, inside.heads)


def test_verify_with_bad_edges_or_too_few_draws_raises_bad_parameter():
    inside = whence.load("reviews").inside("a gripping film")
    with pytest.raises(BadParameter, match="nothing to cut"):
        inside.verify([])
    with pytest.raises(BadParameter, match=r"\(9, 0, 0, 0\)"):
        inside.verify([(9, 0, 0, 0)])
    with pytest.raises(BadParameter, match="draws must be at least 5"):
        inside.verify([(0, 0, 0, 0)], draws=1)


def test_inside_of_a_model_without_output_head_gives_flow_and_refuses_verify():
    inside = whence.load("reviews-base").inside("a gripping film")
    assert inside.prediction is None and inside.target is None
    assert inside.rows.tolist() == [1.0, *[0.0] * (len(inside.tokens) - 1)]
    assert inside.flow()["total"] > 0
    with pytest.raises(NoHead, match="no classification head"):
        inside.verify([(0, 0, 0, 0)])
    with pytest.raises(NoHead, match="relevance"):
        inside.flow("relevance")


def test_random_sets_of_the_last_layer_start_at_the_read_rows():
    """Edges of other rows change nothing for certain, and would make any path look better than chance."""
    inside = whence.load("reviews").inside("a gripping and beautifully acted film")
    last = inside.layers - 1
    read = int(inside.rows.argmax())
    drawn = list(_draw_random_sets(inside, np.array([[last, 0, read, 1], [0, 0, 3, 4]]), 20, 0))
    assert {int(edge[2]) for edges in drawn for edge in edges if edge[0] == last} == {read}
    assert len({int(edge[2]) for edges in drawn for edge in edges if edge[0] == 0}) > 3
    assert all(len(edges) == 2 for edges in drawn)
