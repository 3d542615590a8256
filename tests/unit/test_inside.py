"""Inside of one input: attention, flow, head statistics, tensors and warnings agree with the model."""

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.app.schema import Flow, Heads, Verification
from whence.core.errors import BadEncoding, BadParameter, NotCapturable, TooLong
from whence.flow.classic import ClassicSettings
from whence.flow.graph import EdgeQuery

TEXT = "a gripping, beautifully acted film that is never dull"


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews")


def test_inside_attention_equals_eager_attention_of_transformers(reviews):
    inside = reviews.inside(TEXT)
    model = reviews.model
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    try:
        with torch.no_grad():
            given = {"input_ids": torch.tensor([inside.item.ids])}
            expected = model(**given, output_attentions=True).attentions
    finally:
        model.set_attn_implementation(before)
    # float32: the same softmax, computed in another order.
    np.testing.assert_allclose(inside.attention(), torch.cat(expected).numpy(), rtol=0, atol=2e-6)


@pytest.mark.parametrize(
    "weight", ["attention", "norm", "value_zeroing", "gradient_x_attention", "relevance"]
)
def test_inside_flow_fits_the_schema_and_leaves_the_model_unchanged(reviews, weight):
    before = snapshot(reviews.model)
    found = reviews.inside(TEXT).flow(weight)
    assert_unchanged(before, snapshot(reviews.model))
    flow = Flow.model_validate(found)
    assert flow.sent <= flow.total * (1 + 1e-9) <= flow.whole * (1 + 2e-9)
    # In float32 a row of attention adds up to 1 within rounding.
    assert sum(flow.shares) == pytest.approx(1, abs=1e-6)
    assert flow.edges.flow == sorted(flow.edges.flow, reverse=True)


@pytest.mark.parametrize(
    ("weight", "free"),
    [
        ("attention", True),
        ("norm", True),
        ("value_zeroing", True),
        ("gradient_x_attention", False),
        ("relevance", False),
    ],
)
def test_inside_flow_is_class_free_exactly_if_its_edges_ignore_the_target(reviews, weight, free):
    one, other = (reviews.inside(TEXT, target=label).flow(weight) for label in reviews.labels)
    assert one["class_free"] is other["class_free"] is free
    assert (one["edges"] == other["edges"]) is free


def test_inside_flow_through_a_token_carries_its_share_at_every_level(reviews):
    inside = reviews.inside(TEXT)
    token = next(i for i, one in enumerate(inside.tokens) if one.text == "gripping")
    back = inside.flow()
    through = inside.flow(direction="through", token=token)
    # Paths from the decision to a word carry, at every level, what the word gets in the end.
    for level in through["nodes"]:
        assert sum(level) == pytest.approx(back["shares"][token], abs=1e-12)
    assert inside.flow(direction="forward", token=token)["total"] > 0
    with pytest.raises(BadParameter, match="needs a token"):
        inside.flow(direction="forward")
    with pytest.raises(BadParameter, match="There is no token 99"):
        inside.flow(token=99)


def test_inside_flow_with_unknown_weight_or_most_below_one_raises_bad_parameter(reviews):
    inside = reviews.inside(TEXT)
    with pytest.raises(BadParameter, match="no edge weight 'atention'"):
        inside.flow("atention")
    for most in (0, -1):
        with pytest.raises(BadParameter, match=f"at least 1.* Got {most}"):
            inside.flow(most=most)


def test_inside_flow_with_a_query_drops_edges_and_reports_the_unfiltered_whole(reviews):
    inside = reviews.inside(TEXT)
    whole = inside.flow()
    some = inside.flow(query=EdgeQuery(layers=(2, 3), specials=False))
    assert set(some["edges"]["layer"]) == {2, 3}
    assert not any(inside.special[to] for to in some["edges"]["to"])
    assert some["whole"] == whole["whole"] and some["total"] < whole["total"]
    assert some["special_share"] == whole["special_share"]


def test_classic_flow_has_only_edges_at_or_above_the_threshold(reviews):
    inside = reviews.inside(TEXT)
    found = inside.flow(classic=ClassicSettings(threshold=0.3, decay=0.5))
    assert min(found["edges"]["weight"]) >= 0.3
    assert found["influence"]["reached"][-1] == 1
    assert Flow.model_validate(found).influence.values[-1][0] == 1


def test_classic_flow_with_another_direction_or_weight_raises_bad_parameter(reviews):
    inside = reviews.inside(TEXT)
    for wrong in ({"direction": "through", "token": 2}, {"weight": "norm"}):
        with pytest.raises(BadParameter, match="goes back along attention"):
            inside.flow(classic=ClassicSettings(), **wrong)


def test_inside_flow_with_maps_over_the_memory_limit_raises_too_long(reviews, monkeypatch):
    monkeypatch.setattr("whence.explain.inside._MOST_BYTES", 1000)
    inside = reviews.inside(TEXT)
    with pytest.raises(TooLong, match="maps of 4 layers and 4 heads"):
        inside.flow()
    assert "no-attention" in warning_codes(inside)


@pytest.mark.parametrize("statistic", ["entropy", "special", "gradient", "ablation"])
def test_head_statistic_has_one_value_in_range_for_each_head(reviews, statistic):
    found = Heads.model_validate(reviews.inside(TEXT).head_statistic(statistic))
    assert (len(found.values), len(found.values[0])) == (4, 4)
    assert all(found.low <= value <= found.high for row in found.values for value in row)
    assert found.signed == (statistic == "ablation")


def test_inside_tensors_equal_attention_and_unknown_names_raise_bad_parameter(reviews):
    inside = reviews.inside(TEXT)
    found = inside.tensors(["attention.3.1", "thumbnails"])
    np.testing.assert_array_equal(found["attention.3.1"], inside.attention()[3, 1])
    assert found["thumbnails"].dtype == np.uint8 and found["thumbnails"].shape[:2] == (4, 4)
    for wrong in ("attention.4.0", "attention.0", "attention.x.0", "weights", "attention.-1.0"):
        with pytest.raises(BadParameter, match="There is no"):
            inside.tensors([wrong])


def test_inside_verify_fits_the_schema_and_counts_edges_of_all_heads(reviews):
    found = reviews.inside(TEXT).verify([(3, 0, 0, 2), (3, -1, 0, 3)], draws=6)
    assert Verification.model_validate(found).edges == 5  # one, and one for each of four heads


def test_inside_of_a_pair_has_two_segments_that_edge_queries_can_name():
    inside = whence.load("reviews").inside((TEXT, "and it is short"))
    assert set(inside.segments.tolist()) == {0, 1}
    crossing = inside.flow(query=EdgeQuery(segments=("A>B",)))["edges"]
    assert crossing["to"]
    for source, to in zip(crossing["source"], crossing["to"], strict=True):
        assert (inside.segments[source], inside.segments[to]) == (0, 1)


def test_inside_of_several_inputs_raises_bad_encoding(reviews):
    with pytest.raises(BadEncoding, match="one input at a time"):
        reviews.inside([TEXT, TEXT])


def test_inside_flow_of_encoder_decoder_or_recurrent_model_raises_not_capturable():
    for name in ("bart", "bilstm"):
        inside = whence.load(zoo.make(name)).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
        with pytest.raises(NotCapturable):
            inside.flow()
        assert "no-attention" in {warning["code"] for warning in inside.warnings()}


def warning_codes(inside):
    return {warning["code"] for warning in inside.warnings()}


def test_inside_warnings_of_an_ordinary_input_are_empty(reviews):
    assert warning_codes(reviews.inside(TEXT)) == set()


def test_inside_of_a_truncated_text_warns_of_truncation(reviews):
    inside = reviews.inside("good film " * 400, truncate=True)
    assert "truncated" in warning_codes(inside)


def test_inside_of_a_model_with_near_zero_queries_warns_of_uniform_attention():
    """Weights of nearly zero attend to everything alike, as a model that was never trained does."""
    model = zoo.make("bert")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "query" in name or "key" in name:
                weight.mul_(1e-3)
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 9, 3]]})
    assert "uniform-attention" in warning_codes(inside)


def test_inside_of_a_prediction_near_one_half_warns_of_a_near_tie(reviews):
    assert reviews.predict("good bad").probabilities["positive"] == pytest.approx(0.46, abs=0.05)
    assert "near-tie" in warning_codes(reviews.inside("good bad"))
    assert "near-tie" not in warning_codes(reviews.inside("great cast, weak plot"))  # 0.24


def test_inside_of_unknown_words_warns_of_unknown_words(reviews):
    assert "unknown-words" in warning_codes(reviews.inside("これは 映画 です"))


def test_inside_warns_of_one_unknown_word_in_four_and_not_of_one_in_six(reviews):
    unknown = reviews.loaded.fillers["unk"]
    for text, share, said in (
        ("a fine film これは", 1 / 4, True),
        ("a fine film with actors これは", 1 / 6, False),
    ):
        inside = reviews.inside(text)
        content = [token for token in inside.tokens if not token.special]
        assert sum(token.id == unknown for token in content) / len(content) == share
        assert ("unknown-words" in warning_codes(inside)) is said


def test_inside_of_a_causal_model_with_even_attention_warns_of_uniform_attention():
    """What a row may see grows from one token to all: even over that is even."""
    model = zoo.make("gpt2")
    with torch.no_grad():
        for block in model.transformer.h:
            wide = block.attn.c_attn.weight.shape[1] // 3
            block.attn.c_attn.weight[:, : 2 * wide] = 0  # queries and keys
            block.attn.c_attn.bias[: 2 * wide] = 0
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 9, 3]]})
    assert inside.head_values("entropy") == pytest.approx(np.ones((inside.layers, inside.heads)))
    assert "uniform-attention" in warning_codes(inside)


def test_inside_with_traced_logits_that_differ_warns_that_capture_differs(reviews):
    inside = reviews.inside(TEXT)
    inside._trace.logits.add_(0.01 * float(inside.logits.abs().max()))
    assert "capture-differs" in warning_codes(inside)


def test_inside_flow_caches_edge_weights_separately_for_each_residual(reviews):
    inside = reviews.inside(TEXT)
    usual = inside.flow()["shares"]
    for residual in (0.2, None, 0.2):
        fresh = reviews.inside(TEXT).flow(residual=residual)["shares"]
        assert inside.flow(residual=residual)["shares"] == fresh
        assert (fresh == usual) is (residual is None)


@pytest.mark.parametrize("token", [None, 3])
@pytest.mark.parametrize("carry", [False, True])
def test_classic_flow_edges_equal_a_loop_over_the_definition(reviews, token, carry):
    inside = reviews.inside(TEXT)
    maps = inside.attention()
    start = int(inside.rows.argmax()) if token is None else token
    # A weight that there is, of the row where it starts: at least as much, and not more, is enough.
    threshold = float(np.sort(maps[-1, 0, start])[-2])
    expected, reached = set(), {start}
    for layer in reversed(range(inside.layers)):
        heads, rows, to = np.nonzero(maps[layer] >= threshold)
        every = {tuple(map(int, one)) for one in zip(heads, rows, to, strict=True)}
        here = {edge for edge in every if edge[1] in reached}
        expected |= {(layer, *edge) for edge in here}
        reached = {edge[2] for edge in here} | (reached if carry else set())
    found = inside.flow(classic=ClassicSettings(threshold, 0.5, carry), token=token)
    edges = found["edges"]
    columns = (edges[name] for name in ("layer", "head", "source", "to"))
    assert set(zip(*columns, strict=True)) == expected
    assert found["count"] == len(expected)


def test_inside_flow_and_verify_refuse_positions_that_are_no_whole_numbers(reviews):
    inside = reviews.inside(TEXT)
    with pytest.raises(BadParameter, match=r"no token 1\.0"):
        inside.flow(token=1.0)
    with pytest.raises(BadParameter, match="whole numbers"):
        inside.verify([(0, 0.5, 0, 0)])
    assert inside.flow(token=np.int64(1)) == inside.flow(token=1)
