"""One input seen from inside: what is shown is what the model did, and what a reader must know is said."""

import numpy as np
import pytest
import torch

import whence
from tests import zoo
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import BadEncoding, BadParameter, NotCapturable, TooLong
from whence.flow import Classic, Query
from whence.web.schema.flow import Flow, Heads, Verified

TEXT = "a gripping, beautifully acted film that is never dull"


@pytest.fixture(scope="module")
def reviews():
    return whence.load("reviews")


def test_attention_is_what_eager_attention_gives(reviews):
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
def test_a_flow_is_the_documented_object_and_the_model_is_left_as_found(reviews, weight):
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
def test_a_flow_says_whether_it_knows_the_class(reviews, weight, free):
    one, other = (reviews.inside(TEXT, target=label).flow(weight) for label in reviews.labels)
    assert one["class_free"] is other["class_free"] is free
    assert (one["edges"] == other["edges"]) is free


def test_words_are_traced_through_and_forward(reviews):
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


def test_bad_requests_are_named(reviews):
    inside = reviews.inside(TEXT)
    with pytest.raises(BadParameter, match="no edge weight 'atention'"):
        inside.flow("atention")
    for most in (0, -1):
        with pytest.raises(BadParameter, match=f"at least 1.* Got {most}"):
            inside.flow(most=most)


def test_a_query_leaves_edges_out_and_says_how_much_they_carry(reviews):
    inside = reviews.inside(TEXT)
    whole = inside.flow()
    some = inside.flow(query=Query(layers=(2, 3), specials=False))
    assert set(some["edges"]["layer"]) == {2, 3}
    assert not any(inside.special[to] for to in some["edges"]["to"])
    assert some["whole"] == whole["whole"] and some["total"] < whole["total"]
    assert some["special_share"] == whole["special_share"]


def test_classic_edges_are_those_above_the_threshold(reviews):
    inside = reviews.inside(TEXT)
    found = inside.flow(classic=Classic(threshold=0.3, decay=0.5))
    assert min(found["edges"]["weight"]) >= 0.3
    assert found["influence"]["reached"][-1] == 1
    assert Flow.model_validate(found).influence.values[-1][0] == 1


def test_the_classic_definition_goes_back_along_attention_alone(reviews):
    inside = reviews.inside(TEXT)
    for wrong in ({"direction": "through", "token": 2}, {"weight": "norm"}):
        with pytest.raises(BadParameter, match="goes back along attention"):
            inside.flow(classic=Classic(), **wrong)


def test_maps_that_would_fill_the_memory_are_refused(reviews, monkeypatch):
    monkeypatch.setattr("whence.explainer.inside.inside._MOST_BYTES", 1000)
    inside = reviews.inside(TEXT)
    with pytest.raises(TooLong, match="maps of 4 layers and 4 heads"):
        inside.flow()
    assert "no-attention" in codes(inside)


@pytest.mark.parametrize("statistic", ["entropy", "special", "gradient", "ablation"])
def test_heads_have_a_number_each(reviews, statistic):
    found = Heads.model_validate(reviews.inside(TEXT).head_statistic(statistic))
    assert (len(found.values), len(found.values[0])) == (4, 4)
    assert all(found.low <= value <= found.high for row in found.values for value in row)
    assert found.signed == (statistic == "ablation")


def test_tensors_are_exact_and_thumbnails_small(reviews):
    inside = reviews.inside(TEXT)
    found = inside.tensors(["attention.3.1", "thumbnails"])
    np.testing.assert_array_equal(found["attention.3.1"], inside.attention()[3, 1])
    assert found["thumbnails"].dtype == np.uint8 and found["thumbnails"].shape[:2] == (4, 4)
    for wrong in ("attention.4.0", "attention.0", "attention.x.0", "weights", "attention.-1.0"):
        with pytest.raises(BadParameter, match="There is no"):
            inside.tensors([wrong])


def test_verify_is_the_documented_object(reviews):
    found = reviews.inside(TEXT).verify([(3, 0, 0, 2), (3, -1, 0, 3)], draws=6)
    assert Verified.model_validate(found).edges == 5  # one, and one for each of four heads


def test_pairs_have_segments():
    inside = whence.load("reviews").inside((TEXT, "and it is short"))
    assert set(inside.segments.tolist()) == {0, 1}
    crossing = inside.flow(query=Query(segments=("A>B",)))["edges"]
    assert crossing["to"]
    for source, to in zip(crossing["source"], crossing["to"], strict=True):
        assert (inside.segments[source], inside.segments[to]) == (0, 1)


def test_several_inputs_are_refused(reviews):
    with pytest.raises(BadEncoding, match="one input at a time"):
        reviews.inside([TEXT, TEXT])


def test_models_of_two_streams_and_pooled_ones_are_refused_with_a_reason():
    for name in ("bart", "bilstm"):
        inside = whence.load(zoo.make(name)).inside({"input_ids": [[2, 11, 23, 5, 7, 3]]})
        with pytest.raises(NotCapturable):
            inside.flow()
        assert "no-attention" in {warning["code"] for warning in inside.warnings()}


def codes(inside):
    return {warning["code"] for warning in inside.warnings()}


def test_an_ordinary_input_needs_no_warning(reviews):
    assert codes(reviews.inside(TEXT)) == set()


def test_what_was_cut_off_is_said(reviews):
    inside = reviews.inside("good film " * 400, truncate=True)
    assert "truncated" in codes(inside)


def test_untrained_attention_is_noticed():
    """Weights of nearly zero attend to everything alike, as a model that was never trained does."""
    model = zoo.make("bert")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "query" in name or "key" in name:
                weight.mul_(1e-3)
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 9, 3]]})
    assert "uniform-attention" in codes(inside)


def test_a_near_tie_is_said(reviews):
    assert reviews.predict("good bad").probabilities["positive"] == pytest.approx(0.46, abs=0.05)
    assert "near-tie" in codes(reviews.inside("good bad"))
    assert "near-tie" not in codes(reviews.inside("great cast, weak plot"))  # 0.24


def test_unknown_words_are_said(reviews):
    assert "unknown-words" in codes(reviews.inside("これは 映画 です"))


def test_a_third_of_unknown_words_is_said_and_one_in_six_is_not(reviews):
    unknown = reviews.loaded.fillers["unk"]
    for text, share, said in (
        ("a fine film これは", 1 / 4, True),
        ("a fine film with actors これは", 1 / 6, False),
    ):
        inside = reviews.inside(text)
        content = [token for token in inside.tokens if not token.special]
        assert sum(token.id == unknown for token in content) / len(content) == share
        assert ("unknown-words" in codes(inside)) is said


def test_even_attention_of_a_causal_model_is_noticed():
    """What a row may see grows from one token to all: even over that is even."""
    model = zoo.make("gpt2")
    with torch.no_grad():
        for block in model.transformer.h:
            wide = block.attn.c_attn.weight.shape[1] // 3
            block.attn.c_attn.weight[:, : 2 * wide] = 0  # queries and keys
            block.attn.c_attn.bias[: 2 * wide] = 0
    inside = whence.load(model).inside({"input_ids": [[2, 11, 23, 5, 7, 9, 3]]})
    assert inside.head_values("entropy") == pytest.approx(np.ones((inside.layers, inside.heads)))
    assert "uniform-attention" in codes(inside)


def test_a_model_that_computes_otherwise_when_watched_is_said(reviews):
    inside = reviews.inside(TEXT)
    inside._seen.logits.add_(0.01 * float(inside.logits.abs().max()))
    assert "capture-differs" in codes(inside)


def test_weights_are_known_by_their_skip_connection_too(reviews):
    inside = reviews.inside(TEXT)
    usual = inside.flow()["shares"]
    for residual in (0.2, None, 0.2):
        fresh = reviews.inside(TEXT).flow(residual=residual)["shares"]
        assert inside.flow(residual=residual)["shares"] == fresh
        assert (fresh == usual) is (residual is None)


@pytest.mark.parametrize("token", [None, 3])
@pytest.mark.parametrize("carry", [False, True])
def test_classic_edges_are_those_of_the_definition(reviews, token, carry):
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
    found = inside.flow(classic=Classic(threshold, 0.5, carry), token=token)
    edges = found["edges"]
    columns = (edges[name] for name in ("layer", "head", "source", "to"))
    assert set(zip(*columns, strict=True)) == expected
    assert found["count"] == len(expected)


def test_a_place_is_a_whole_number(reviews):
    inside = reviews.inside(TEXT)
    with pytest.raises(BadParameter, match=r"no token 1\.0"):
        inside.flow(token=1.0)
    with pytest.raises(BadParameter, match="whole numbers"):
        inside.verify([(0, 0.5, 0, 0)])
    assert inside.flow(token=np.int64(1)) == inside.flow(token=1)
