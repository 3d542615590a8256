"""Encoder-decoder models: maps of both stacks and cross attention, and each method's scores on both sides."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import encoder_decoder_models
from tests.contract.state import assert_unchanged, snapshot
from tests.reference.twins_sides import TWINS, TwoSided
from whence.core.errors import BadParameter, NotCapturable
from whence.core.progress import ProgressCounter
from whence.data.batches import Batch, BatchRules, collate
from whence.data.readout import ContinuationReadout, TokenReadout
from whence.data.removal import delete_tokens, list_removable_tokens, remove_sets
from whence.explain.explainer import Explainer
from whence.explain.pipeline import explain_batch
from whence.explain.request import resolve_methods
from whence.methods import method
from whence.models.load import load_model
from whence.tracing.ask import ModelQuery
from whence.tracing.attention_layer import StoredAttention
from whence.tracing.forward import compute_plain_logits
from whence.tracing.structure import DecoderLayer, EncoderDecoder
from whence.tracing.target import ResolvedTargets, TargetSpec
from whence.tracing.trace import Trace, run_traced

READERS = ("attention", "attention_grad", "hidden_grad", "embedding_grad")
REFUSED = {
    "alti", "attention_gradcam", "decompx", "globenc", "max_flow", "norm", "partial_lrp", "transformer_attribution",
    "value_zeroing",
}  # fmt: skip
FEW = {
    "lime": {"samples": 20},
    "kernel_shap": {"samples": 32},
    "smoothgrad": {"samples": 3},
    "gradient_shap": {"samples": 3},
    "integrated_gradients": {"steps": 4},
}
ASKED = TargetSpec(0, None, "logit")


def batch_of(items, width=0):
    return collate(items, pad_id=0, device=torch.device("cpu"), width=width)


def scores(model, batch, names, spec=ASKED, params=None):
    """Return what each method says of each input, by its name."""
    loaded = load_model(model, dtype="float64")
    found = [{} for _ in batch.items]
    for name in names:
        asked = resolve_methods(name, {**FEW.get(name, {}), **(params or {})}, loaded.fillers)
        results = explain_batch(
            Explainer(loaded), batch.items, asked, spec=spec, policy=BatchRules(64, 4096), counter=ProgressCounter(None),
            origin={"model": {}, "provenance": {}},
        )  # fmt: skip
        for one, result in zip(found, results, strict=True):
            one[name] = result[name]
    return found


def assert_close_to_rounding(name, one, other):
    """Equal up to the rounding of the model, in parts of the largest score."""
    size = max(np.abs(other).max(), 1e-12)
    np.testing.assert_allclose(
        one / size, other / size, rtol=0, atol=encoder_decoder_models.tolerance(name)
    )


@pytest.fixture(scope="module", params=encoder_decoder_models.NAMES)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return encoder_decoder_models.make(name)


def test_traced_maps_of_both_stacks_equal_eager_attention(name, model):
    """Encoder self, decoder self and cross attention, of a batch padded on both sides, against eager attention."""
    items = encoder_decoder_models.items(model)
    seen = run_traced(model, batch_of(items), {"attention"}, ASKED, "sequence")
    assert (len(seen.sides.encoder), len(seen.sides.decoder)) == (2, 3)
    assert len(seen.attention) == 2 + 2 * 3
    for row, item in enumerate(items):
        own = TwoSided(model, item, 0).seen
        captured = {
            "ss": seen.sides.encoder,
            "qq": [layer.own for layer in seen.sides.decoder],
            "qs": [layer.cross for layer in seen.sides.decoder],
        }
        for kind, layers in captured.items():
            for layer, wanted in zip(layers, own[kind], strict=True):
                queries, keys = wanted.shape[-2:]
                found = layer.map()[row]
                assert_close_to_rounding(name, found[:, :queries, :keys].numpy(), wanted.numpy())
                assert not found[:, :queries, keys:].any(), "padding is attended to"


@pytest.mark.parametrize("column", [0, 1])
def test_methods_in_a_padded_batch_equal_their_reference_twins(name, model, column):
    """In one batch padded on both sides, each input as its twin has it alone."""
    items = encoder_decoder_models.items(model)
    found = scores(model, batch_of(items), TWINS, TargetSpec(column, None, "logit"))
    for item, result in zip(items, found, strict=True):
        run = TwoSided(model, item, column)
        for method_name, twin in TWINS.items():
            assert result[method_name].scores.shape == (len(item),)
            assert_close_to_rounding(name, result[method_name].scores, twin(run).numpy())


def test_trace_reads_the_decoder_rows_that_predict_the_tokens(model):
    items = encoder_decoder_models.items(model)
    seen = run_traced(model, batch_of(items), {"attention"}, ASKED, "sequence")
    sources = max(len(item) - len(item.answer) for item in items)
    for row, item in zip(seen.rows, items, strict=True):
        assert row.nonzero().flatten().tolist() == [sources + len(item.answer) - 1]
    # Several tokens are foretold at several places.
    places, ids = (-3, -2), (7, 8)
    item = replace(items[1], reading=ContinuationReadout(places, ids), labels=("7 8", "rest"))
    seen = run_traced(model, batch_of([item]), {"attention"}, ASKED, "sequence")
    own = len(item) - len(item.answer)
    wanted = {own + len(item.answer) + place: 0.5 for place in places}
    assert {i: v for i, v in enumerate(seen.rows[0].tolist()) if v} == wanted


def test_encoder_decoder_batch_equals_its_singles_with_any_padding(name, model):
    """Every method that works, the lengths of sources and of answers mixed; and one input padded further."""
    items = encoder_decoder_models.items(model)
    names = sorted(set(method.names()) - REFUSED)
    together = scores(model, batch_of(items), names)
    for item, result in zip(items, together, strict=True):
        alone = scores(model, batch_of([item]), names)[0]
        wide = scores(model, batch_of([item], width=len(item) + 5), names)[0]
        for one in names:
            # The rules of full_lrp divide by sums that may nearly cancel, and magnify rounding a thousandfold.
            rough = one == "full_lrp"
            for other in (alone, wide):
                if rough:
                    size = np.abs(other[one].scores).max()
                    bound = 1e3 * encoder_decoder_models.tolerance(name) * size
                    np.testing.assert_allclose(
                        result[one].scores, other[one].scores, rtol=0, atol=bound
                    )
                else:
                    assert_close_to_rounding(name, result[one].scores, other[one].scores)
            assert alone[one].passes == result[one].passes


def test_every_method_gives_nonzero_scores_to_source_and_decoder_tokens(model):
    """No method leaves a side out: it would be easy to lose one between two axes."""
    (result,) = scores(
        model,
        batch_of(encoder_decoder_models.items(model)[1:2]),
        sorted(set(method.names()) - REFUSED),
    )
    sources = 5
    for one, explanation in result.items():
        assert np.abs(explanation.scores[:sources]).max() > 0, one
        assert np.abs(explanation.scores[sources:]).max() > 0, one


@pytest.mark.parametrize("how", ["delete", "pad"])
def test_leave_one_out_on_both_sides_equals_a_loop_over_tokens(name, model, how):
    """The end of the source can go like any token; the token with which a decoder starts cannot."""
    items = encoder_decoder_models.items(model)
    found = scores(model, batch_of(items), ["leave_one_out"], params={"remove": how})

    def probability(source, answer, column_ids):
        with torch.no_grad():
            out = model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([answer]))
        return out.logits[0, -1].softmax(-1)[column_ids[0]].item()

    for item, result in zip(items, found, strict=True):
        source, answer = list(item.features["input_ids"]), list(item.answer)
        whole = probability(source, answer, item.reading.ids)
        wanted = []
        for place in range(len(item)):
            one, other = list(source), list(answer)
            side, at = (one, place) if place < len(source) else (other, place - len(source))
            if side is other and at == 0:
                wanted.append(0.0)
                continue
            side[at : at + 1] = [] if how == "delete" else [0]
            wanted.append(whole - probability(one, other, item.reading.ids))
        np.testing.assert_allclose(
            result["leave_one_out"].scores,
            wanted,
            rtol=0,
            atol=encoder_decoder_models.tolerance(name),
        )


def test_delete_tokens_moves_the_places_of_the_readout():
    """Decoder s a b c, read at s (for a), a (for b) and b (for c). Without a: s b c, where b is foretold at s."""
    model = encoder_decoder_models.make("bart")
    item = encoder_decoder_models.item(
        model, [5, 6, 3], [7, 8, 9], ContinuationReadout((-4, -3, -2), (7, 8, 9))
    )
    gone = delete_tokens(item, {4}, {})
    assert gone.answer == (3, 8, 9)
    assert gone.reading.places == (-3, -3, -2)
    gone = delete_tokens(item, {0, 5}, {})
    assert (gone.features["input_ids"], gone.answer) == ((6, 3), (3, 7, 9))
    assert gone.reading.places == (-3, -2, -2)
    assert list_removable_tokens(item, {3}) == [
        0,
        1,
        4,
        5,
        6,
    ]  # neither an anchor nor the decoder's start
    for places in ({3}, {0, 1, 2}):
        with pytest.raises(BadParameter, match="remove='delete' would"):
            delete_tokens(item, places, {"pad": 0})
    padded = remove_sets([item], [0], [{2, 3}], "pad", {"pad": 0})
    inputs = padded.collate([0], pad_id=1, device=torch.device("cpu")).inputs
    assert inputs["input_ids"].tolist() == [[5, 6, 0]]
    assert inputs["decoder_input_ids"].tolist() == [[0, 7, 8, 9]]


def test_model_query_at_embeddings_of_another_text_gives_logits_of_the_other_text(name, model):
    """Both sides are swapped, wherever they are looked up; and the slope there is the gradient."""
    items = encoder_decoder_models.items(model)
    others = [
        encoder_decoder_models.item(model, item.features["input_ids"][::-1], item.answer[:0:-1])
        for item in items
    ]
    vectors = _ask(model, others).embeddings
    ask = _ask(model, items)
    points = [(row, vectors[row]) for row in (0, 2, 1, 0)]
    wanted = compute_plain_logits(model, batch_of(others))[[0, 2, 1, 0], 0]
    torch.testing.assert_close(
        ask.at(points), wanted, rtol=0, atol=encoder_decoder_models.tolerance(name)
    )
    seen = run_traced(model, batch_of(others), {"embedding_grad"}, ASKED, "sequence")
    for row, slope in enumerate(ask.slopes(enumerate(vectors))):
        own = seen.embedding_grad[row, seen.real[row]]
        assert_close_to_rounding(name, slope.numpy(), own.numpy())


@pytest.mark.parametrize("smooth", ["bart", "pegasus", "marian"])
def test_integrated_gradients_of_smooth_encoder_decoders_are_complete(smooth):
    """From the padding token on both sides; T5 is left out, whose ReLU has kinks on the way."""
    model = encoder_decoder_models.make(smooth)
    params = {"steps": 100, "baseline": "pad"}
    for result in scores(
        model,
        batch_of(encoder_decoder_models.items(model)),
        ["integrated_gradients"],
        params=params,
    ):
        # On a smooth way the rule of Gauss and Legendre errs by less with every node: 1e-4 with 50, 2e-9 with 100.
        assert abs(result["integrated_gradients"].axioms["completeness"]) < 1e-6


def test_grad_x_input_with_a_decoder_repeating_its_source_equals_the_twin(name, model):
    """The two look-ups are of the same ids, and are told apart by their order."""
    start = model.config.decoder_start_token_id
    item = encoder_decoder_models.item(model, [start, 9, 10, 11], [9, 10, 11])
    (found,) = scores(model, batch_of([item]), ["grad_x_input"])
    wanted = TWINS["grad_x_input"](TwoSided(model, item, 0)).numpy()
    assert_close_to_rounding(name, found["grad_x_input"].scores, wanted)


def test_cp_lrp_on_t5_conserves_the_logit_over_both_sides():
    """T5 has no biases, and positions in its attention alone, where CP-LRP lets nothing through: nothing is lost."""
    model = encoder_decoder_models.make("t5")
    items = encoder_decoder_models.items(model)
    logits = compute_plain_logits(model, batch_of(items))[:, 0]
    found = scores(model, batch_of(items), ["cp_lrp", "full_lrp"], params={})
    for result, logit in zip(found, logits.tolist(), strict=True):
        # The norms' roots come in float32.
        assert abs(result["cp_lrp"].scores.sum() - logit) < 1e-5 * max(
            1, np.abs(result["cp_lrp"].scores).sum()
        )
        assert set(result["full_lrp"].axioms) == {"conservation"}


def test_methods_without_encoder_decoder_support_raise_and_name_working_methods(model):
    batch = batch_of(encoder_decoder_models.items(model))
    for one in sorted(REFUSED):
        with pytest.raises(
            NotCapturable, match=r"an encoder and a decoder.*generic_attention, raw_attention"
        ):
            scores(model, batch, [one])


def test_generic_attention_with_wrong_layer_counts_in_the_config_raises_not_capturable():
    model = encoder_decoder_models.make("bart")
    batch = batch_of(encoder_decoder_models.items(model))
    model.config.encoder_layers = 4
    with pytest.raises(
        NotCapturable, match=r"4 encoder and 3 decoder layers. The 8 attention calls"
    ):
        scores(model, batch, ["generic_attention"])
    scores(model, batch, ["gradient"])


@pytest.mark.parametrize("one", ["raw_attention", "attcat", "cat", "attention_gradient"])
def test_layer_parameter_selects_a_layer_and_refuses_one_beyond_the_decoder(model, one):
    """Decoders of three layers, encoders of two: the sum over single layers is the sum over all."""
    batch = batch_of(encoder_decoder_models.items(model)[:1])
    parts = [
        scores(model, batch, [one], params={"layer": layer})[0][one].scores for layer in (-1, -2)
    ]
    assert np.abs(parts[0] - parts[1]).max() > 0
    with pytest.raises(BadParameter, match="There is no layer 3"):
        scores(model, batch, [one], params={"layer": 3})


@pytest.mark.parametrize("query", ["last", "mean", "max"])
def test_raw_attention_query_option_reads_last_mean_or_max_of_decoder_rows(name, model, query):
    item = encoder_decoder_models.items(model)[1]
    (found,) = scores(model, batch_of([item]), ["raw_attention"], params={"query": query})
    seen = TwoSided(model, item, 0).seen
    both = torch.cat([seen[kind][-1].mean(0) for kind in ("qs", "qq")], dim=1)
    wanted = {"last": both[-1], "mean": both.mean(0), "max": both.amax(0)}[query]
    assert_close_to_rounding(name, found["raw_attention"].scores, wanted.numpy())


def test_rollout_of_every_layer_is_the_mean_over_shorter_decoders(model):
    batch = batch_of(encoder_decoder_models.items(model))
    seen = run_traced(model, batch, {"attention"}, ASKED, "sequence")
    rollout = method.get("rollout").fn
    whole, _ = rollout(seen, every_layer=True)
    parts = []
    for count in range(1, len(seen.sides.decoder) + 1):
        shorter = replace(seen, sides=replace(seen.sides, decoder=seen.sides.decoder[:count]))
        parts.append(rollout(shorter)[0])
    torch.testing.assert_close(whole, torch.stack(parts).mean(0))


def test_generic_attention_of_a_tiny_encoder_decoder_equals_values_by_hand():
    """One layer each, one head, two tokens each; f = A ∘ ∇A, cut off at zero.

    f_ss = [[0, 1], [0, 0]]: R_ss = I + f_ss = [[1, 1], [0, 1]], N(R_ss) the same: row 0 gathered 1, row 1 nothing.
    f_qq = [[0, 0], [2, 2]]: R_qq = [[1, 0], [2, 3]], R_qq - I = [[0, 0], [2, 2]], N(R_qq) = [[1, 0], [.5, 1.5]].
    f_qs = [[1, 0], [3, 0]]: R_qs = N(R_qq)ᵀ f_qs N(R_ss) = [[1, .5], [0, 1.5]] [[1, 1], [3, 3]]
                                  = [[2.5, 2.5], [4.5, 4.5]].
    Row 1 is read: 4.5, 4.5 for the source, 2, 3 for the decoder.
    """
    ss = _layer([[0.0, 1.0], [0.5, 0.5]], [[9.0, 1.0], [-1.0, -2.0]])
    qq = _layer([[1.0, 0.0], [0.5, 0.5]], [[-1.0, 7.0], [4.0, 4.0]])
    qs = _layer([[0.5, 0.5], [1.0, 0.0]], [[2.0, -1.0], [3.0, 5.0]])
    real = torch.ones(1, 4, dtype=torch.bool)
    rows = torch.tensor([[0.0, 0.0, 0.0, 1.0]]).double()
    target = ResolvedTargets(torch.tensor([0]), None, ASKED, "sequence")
    seen = Trace(
        Batch((), {}, real), rows.new_zeros(1, 1), target, [ss, qq, qs], None, rows, None, None,
        sides=EncoderDecoder([ss], [DecoderLayer(qq, qs)], 2),
    )  # fmt: skip
    found = method.get("generic_attention").fn(seen)
    assert found.tolist() == [[4.5, 4.5, 2.0, 3.0]]


def test_explain_batch_leaves_the_encoder_decoder_as_found_also_after_an_error(model):
    items = encoder_decoder_models.items(model)
    model.train()
    before = snapshot(model)
    scores(
        model,
        batch_of(items),
        ["generic_attention", "integrated_gradients", "attn_lrp", "leave_one_out"],
    )
    assert_unchanged(before, snapshot(model))
    broken = [
        replace(item, reading=TokenReadout(-1, (11, 99))) for item in items
    ]  # there is no token 99
    with pytest.raises(IndexError):
        scores(model, batch_of(broken), ["generic_attention"])
    assert_unchanged(before, snapshot(model))
    model.eval()


def test_traced_forward_of_an_encoder_decoder_caches_no_keys_or_values(model):
    kept = []
    handle = model.register_forward_hook(lambda _, __, out: kept.append(out.past_key_values))
    try:
        run_traced(model, batch_of(encoder_decoder_models.items(model)), READERS, ASKED, "sequence")
    finally:
        handle.remove()
    assert kept == [None]


def _ask(model, items):
    loaded = load_model(model, dtype="float64")
    batch = batch_of(items)
    seen = run_traced(model, batch, (), ASKED, "sequence")
    return ModelQuery(
        model, batch, seen.logits, seen.targets, fillers=loaded.fillers, pad_id=0, policy=BatchRules(2, 4096)
    )  # fmt: skip


def _layer(weights, slopes):
    """Return a layer whose map is given, and whose map's gradient is: with values that are the identity."""
    weights, slopes = (torch.tensor(one).double()[None, None] for one in (weights, slopes))
    layer = StoredAttention(probabilities=weights, v=torch.eye(2).double().expand(weights.shape))
    layer.out_grad = slopes
    return layer
