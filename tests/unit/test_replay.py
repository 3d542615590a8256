"""Attention replay: logits and gradients by replaced weights equal the whole model's, on the short path too."""

import pytest
import torch
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask
from transformers.modeling_utils import AttentionInterface

import whence
from tests import zoo
from tests.audit_subjects import subject_of
from tests.contract.state import assert_unchanged, snapshot
from whence.data.batches import collate
from whence.explain.inputs import encode_inputs
from whence.tracing.forward import compute_plain_logits
from whence.tracing.replay import AttentionReplacement, AttentionReplay, ReadRows

SEAMED = tuple(
    n for n in zoo.ARCHITECTURES if n not in zoo.TWO_STREAMS and n not in {"deberta-v2", "mpnet"}
)


def batch_of(name):
    model = zoo.make(name)
    explainer = whence.load(model)
    ids = [[2, 11, 23, 5, 7, 3], [2, 40, 9, 61, 3]]
    if explainer.loaded.pad_id is None or name in {"modernbert"}:
        ids = ids[:1]
    items, _ = encode_inputs(
        [{"input_ids": [one]} for one in ids], explainer.loaded, truncate=False
    )
    return model, collate(items, pad_id=explainer.loaded.pad_id, device=explainer.loaded.device)


def draw_replacement_weights(replay, at, seed):
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
        return compute_plain_logits(model, batch)
    finally:
        model.set_attn_implementation(before)


@pytest.mark.parametrize("name", SEAMED)
def test_replay_with_replaced_weights_equals_the_whole_model_with_these_weights(name):
    model, batch = batch_of(name)
    whole = compute_plain_logits(model, batch)
    everyone = torch.arange(len(batch))
    for layers in ([2], [1], [0, 1, 2]):
        before = snapshot(model)
        replay = AttentionReplay(model, batch, layers, "single_label")
        own = replay({at: AttentionReplacement(everyone, replay.own[at]) for at in layers})
        assert_unchanged(before, snapshot(model))
        # Rounding of float64 through three small layers; a wrong row moves the logits by 1e-3 and more.
        assert (own - whole).abs().max() < 1e-10
        weights = {at: draw_replacement_weights(replay, at, at) for at in layers}
        found = replay({at: AttentionReplacement(everyone, weights[at]) for at in layers})
        expected = by_hand(model, batch, replay.rows, weights)
        assert (found - expected).abs().max() < 1e-10
        assert (found - whole).abs().max() > 1e-9


def test_replay_changes_only_chosen_inputs_with_one_layer_for_each():
    model, batch = batch_of("bert")
    replay = AttentionReplay(model, batch, [1, 2], "single_label")
    weights = {at: draw_replacement_weights(replay, at, 5 + at) for at in (1, 2)}
    swaps = {
        1: AttentionReplacement(torch.tensor([0]), weights[1][:1]),
        2: AttentionReplacement(torch.tensor([1]), weights[2][1:]),
    }
    found = replay(swaps)
    everyone = torch.arange(2)
    lower = AttentionReplay(model, batch, [1], "single_label")(
        {1: AttentionReplacement(everyone, weights[1])}
    )
    upper = AttentionReplay(model, batch, [2], "single_label")(
        {2: AttentionReplacement(everyone, weights[2])}
    )
    torch.testing.assert_close(found, torch.stack([lower[0], upper[1]]), rtol=0, atol=1e-12)


def test_replay_short_path_is_taken_and_equals_the_long_path():
    model, batch = batch_of("bert")
    replay = AttentionReplay(model, batch, [2], "single_label")
    assert replay._short is not None
    swap = {2: AttentionReplacement(torch.arange(2), draw_replacement_weights(replay, 2, 1))}
    short = replay(swap)
    replay._short = None
    torch.testing.assert_close(short, replay(swap), rtol=0, atol=1e-12)


def test_replay_gradient_by_weights_equals_central_differences():
    model, batch = batch_of("bert")
    replay = AttentionReplay(model, batch, [2], "single_label")
    weights = draw_replacement_weights(replay, 2, 3).requires_grad_()
    everyone = torch.arange(2)

    def value(given):
        return replay({2: AttentionReplacement(everyone, given)})[:, 0].sum()

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


def test_replay_replaces_weights_of_deberta_with_its_own_attention():
    """DeBERTa does not use transformers' attention functions; its dropout shows the weights to a hook."""
    model, batch = batch_of("deberta-v2")
    replay = AttentionReplay(model, batch, [2], "single_label")
    weights = draw_replacement_weights(replay, 2, 9)
    layer = model.deberta.encoder.layer[2].attention.self

    def put_in(_, args, output):
        folded = output.reshape(len(batch), -1, *output.shape[-2:]).clone()
        folded[:, :, 0] = weights[:, :, 0]
        return folded.reshape(output.shape)

    hook = layer.dropout.register_forward_hook(put_in)
    expected = compute_plain_logits(model, batch)
    hook.remove()
    found = replay({2: AttentionReplacement(torch.arange(len(batch)), weights)})
    assert (found - expected).abs().max() < 1e-10
    assert (found - compute_plain_logits(model, batch)).abs().max() > 1e-9


@pytest.mark.parametrize("name", sorted(zoo.CAUSAL))
def test_replay_reach_of_a_single_causal_input_covers_all_tokens(name):
    model = zoo.make(name)
    loaded = whence.load(model).loaded
    items, _ = encode_inputs([{"input_ids": [[2, 11, 23, 5]]}], loaded, truncate=False)
    replay = AttentionReplay(
        model, collate(items, pad_id=None, device=loaded.device), [0, 1, 2], "single_label"
    )
    for reach in replay.reach.values():
        assert reach.shape == (1, 1, 4)
        assert reach.any(-1).all()
    if name != "gemma3":  # of which two layers see a window of four
        assert all(reach.all() for reach in replay.reach.values())


def test_replay_has_no_short_path_where_tokens_mix_after_attention():
    model, batch = batch_of("bert")
    mixed = model.bert.encoder.layer[2].output.register_forward_hook(
        lambda _, __, out: out + out.mean(1, keepdim=True)
    )
    replay = AttentionReplay(model, batch, [2], "single_label")
    assert replay._short is None
    mixed.remove()


def test_replay_ignores_replaced_weights_of_rows_with_zero_share():
    model = zoo.make("modernbert")
    model.config.classifier_pooling = "mean"
    rows = zoo.rows("modernbert", (9, 5))
    subject = subject_of(whence.load(model), rows, (0, 1), site="last")
    (replayed,) = subject.build_replays()
    own = replayed.own[:, None]
    other = own.clone()
    other[(replayed.shares == 0)[:, None, None, :, None].expand_as(own)] = 0.5
    assert (other != own).any()
    torch.testing.assert_close(replayed(other), replayed(own), rtol=0, atol=1e-12)


def test_read_rows_of_shares_lists_places_and_padded_slots():
    read = torch.tensor([[0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]])
    rows = ReadRows.of(read)
    assert rows.places.tolist() == [[1, 3], [2, 2]]
    assert rows.shares.tolist() == [[0.5, 0.5], [1.0, 0.0]]
    assert rows.is_read.tolist() == [[True, True], [True, False]]
