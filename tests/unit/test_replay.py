"""A batch is run again from its attention on: the same as running all of it with other weights inside."""

import pytest
import torch
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from tests.subjects import subject_of
from whence.capture import bare_logits
from whence.capture.changed.replay import Replay, Rows, Swap
from whence.data import collate
from whence.explainer.intake import take

SEAMED = tuple(
    n for n in zoo.ARCHITECTURES if n not in zoo.TWO_STREAMS and n not in {"deberta-v2", "mpnet"}
)


def batch_of(name):
    model = zoo.make(name)
    explainer = whence.load(model)
    ids = [[2, 11, 23, 5, 7, 3], [2, 40, 9, 61, 3]]
    if explainer.loaded.pad_id is None or name in {"modernbert"}:
        ids = ids[:1]
    items, _ = take([{"input_ids": [one]} for one in ids], explainer.loaded, truncate=False)
    return model, collate(items, pad_id=explainer.loaded.pad_id, device=explainer.loaded.device)


def others(replay, at, seed):
    """Draw weights for the rows that are read, on the places that they may attend to."""
    own = replay.own[at]
    drawn = torch.rand(own.shape, dtype=own.dtype, generator=torch.Generator().manual_seed(seed))
    drawn = drawn * replay.reach[at][:, None]
    return drawn / drawn.sum(-1, keepdim=True)


def by_hand(model, batch, rows, weights):
    """Run the whole model with a plain attention function that puts `weights` in; layers are counted as they come."""
    calls = []

    def attend(module, query, key, value, attention_mask, scaling=None, **_):
        groups = query.shape[1] // key.shape[1]
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
        scores = query @ key.transpose(-1, -2) * (scaling or query.shape[-1] ** -0.5)
        if attention_mask is not None:
            hidden = ~attention_mask if attention_mask.dtype == torch.bool else attention_mask < -1
            scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
        elif getattr(module, "is_causal", False):
            n = scores.shape[-1]
            ahead = torch.ones(n, n, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(ahead, torch.finfo(scores.dtype).min)
        map_ = scores.softmax(-1)
        for at, replaced in weights.items():
            if at == len(calls):
                for row in range(len(map_)):
                    for slot, place in enumerate(rows.places[row].tolist()):
                        if rows.shares[row, slot] > 0:
                            map_[row, :, place] = replaced[row, :, slot]
        calls.append(None)
        return (map_ @ value).transpose(1, 2).contiguous(), None

    AttentionInterface.register("by_hand", attend)
    AttentionMaskInterface.register("by_hand", sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("by_hand")
    try:
        return bare_logits(model, batch)
    finally:
        model.set_attn_implementation(before)


@pytest.mark.parametrize("name", SEAMED)
def test_other_weights_as_the_whole_model_would_have_it(name):
    model, batch = batch_of(name)
    whole = bare_logits(model, batch)
    everyone = torch.arange(len(batch))
    for layers in ([2], [1], [0, 1, 2]):
        before = snapshot(model)
        replay = Replay(model, batch, layers, "single_label")
        own = replay({at: Swap(everyone, replay.own[at]) for at in layers})
        assert_unchanged(before, snapshot(model))
        # Rounding of float64 through three small layers; a wrong row moves the logits by 1e-3 and more.
        assert (own - whole).abs().max() < 1e-10
        weights = {at: others(replay, at, at) for at in layers}
        found = replay({at: Swap(everyone, weights[at]) for at in layers})
        expected = by_hand(model, batch, replay.rows, weights)
        assert (found - expected).abs().max() < 1e-10
        assert (found - whole).abs().max() > 1e-9


def test_only_the_chosen_inputs_change_and_layers_may_differ():
    model, batch = batch_of("bert")
    replay = Replay(model, batch, [1, 2], "single_label")
    weights = {at: others(replay, at, 5 + at) for at in (1, 2)}
    swaps = {
        1: Swap(torch.tensor([0]), weights[1][:1]),
        2: Swap(torch.tensor([1]), weights[2][1:]),
    }
    found = replay(swaps)
    everyone = torch.arange(2)
    lower = Replay(model, batch, [1], "single_label")({1: Swap(everyone, weights[1])})
    upper = Replay(model, batch, [2], "single_label")({2: Swap(everyone, weights[2])})
    torch.testing.assert_close(found, torch.stack([lower[0], upper[1]]), rtol=0, atol=1e-12)


def test_the_short_way_is_taken_and_equals_the_long_one():
    model, batch = batch_of("bert")
    replay = Replay(model, batch, [2], "single_label")
    assert replay._short is not None
    swap = {2: Swap(torch.arange(2), others(replay, 2, 1))}
    short = replay(swap)
    replay._short = None
    torch.testing.assert_close(short, replay(swap), rtol=0, atol=1e-12)


def test_gradients_reach_the_weights():
    model, batch = batch_of("bert")
    replay = Replay(model, batch, [2], "single_label")
    weights = others(replay, 2, 3).requires_grad_()
    everyone = torch.arange(2)

    def value(given):
        return replay({2: Swap(everyone, given)})[:, 0].sum()

    (grad,) = torch.autograd.grad(value(weights), weights)
    direction = torch.randn(
        weights.shape, dtype=weights.dtype, generator=torch.Generator().manual_seed(0)
    )
    step = 1e-6
    with torch.no_grad():
        ahead, behind = value(weights + step * direction), value(weights - step * direction)
    # The error of central differences is of the order step², and rounding / step: both below 1e-9 here.
    assert float((ahead - behind) / (2 * step)) == pytest.approx(
        float((grad * direction).sum()), abs=1e-8
    )


def test_weights_that_a_model_makes_itself_are_replaced_too():
    """DeBERTa does not use transformers' attention functions; its dropout shows the weights to a hook."""
    model, batch = batch_of("deberta-v2")
    replay = Replay(model, batch, [2], "single_label")
    weights = others(replay, 2, 9)
    layer = model.deberta.encoder.layer[2].attention.self

    def put_in(_, args, output):
        folded = output.reshape(len(batch), -1, *output.shape[-2:]).clone()
        folded[:, :, 0] = weights[:, :, 0]
        return folded.reshape(output.shape)

    hook = layer.dropout.register_forward_hook(put_in)
    expected = bare_logits(model, batch)
    hook.remove()
    found = replay({2: Swap(torch.arange(len(batch)), weights)})
    assert (found - expected).abs().max() < 1e-10
    assert (found - bare_logits(model, batch)).abs().max() > 1e-9


@pytest.mark.parametrize("name", sorted(zoo.CAUSAL))
def test_a_single_causal_input_has_no_mask_and_sees_all_before_it(name):
    model = zoo.make(name)
    loaded = whence.load(model).loaded
    items, _ = take([{"input_ids": [[2, 11, 23, 5]]}], loaded, truncate=False)
    replay = Replay(
        model, collate(items, pad_id=None, device=loaded.device), [0, 1, 2], "single_label"
    )
    for reach in replay.reach.values():
        assert reach.shape == (1, 1, 4)
        assert reach.any(-1).all()
    if name != "gemma3":  # of which two layers see a window of four
        assert all(reach.all() for reach in replay.reach.values())


def test_where_tokens_meet_after_the_attention_the_long_way_is_taken():
    model, batch = batch_of("bert")
    mixed = model.bert.encoder.layer[2].output.register_forward_hook(
        lambda _, __, out: out + out.mean(1, keepdim=True)
    )
    replay = Replay(model, batch, [2], "single_label")
    assert replay._short is None
    mixed.remove()


def test_reads_without_a_share_are_written_nowhere():
    model = zoo.make("modernbert")
    model.config.classifier_pooling = "mean"
    rows = zoo.rows("modernbert", (9, 5))
    subject = subject_of(whence.load(model), rows, (0, 1), site="last")
    (replayed,) = subject.replays()
    own = replayed.own[:, None]
    other = own.clone()
    other[(replayed.shares == 0)[:, None, None, :, None].expand_as(own)] = 0.5
    assert (other != own).any()
    torch.testing.assert_close(replayed(other), replayed(own), rtol=0, atol=1e-12)


def test_rows_that_are_read():
    read = torch.tensor([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])
    rows = Rows.of(read)
    assert rows.places.tolist() == [[1, 3], [2, 2]]
    assert rows.shares.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert rows.are_read.tolist() == [[True, True], [True, False]]
