"""Contract of every registered method: batches, padding, dtypes, facts, passes, parameters and targets."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import whence
from tests import zoo
from tests.reduced_params import FEW
from whence.core.errors import BadMethod, BadParameter
from whence.methods import is_trace_method, method
from whence.tracing.trace import GRADIENTS, NEEDS

METHODS = method.names()
READERS = [name for name in METHODS if is_trace_method(method.get(name))]
MODELS = ["bert", "roberta", "gpt2", "llama", "deberta-v2"]

# float64, sums of at most a few thousand terms; Llama's norms run in float32 but in the same order.
EXACT = {"rtol": 1e-9, "atol": 1e-11}


@pytest.fixture(scope="module", params=MODELS)
def case(request):
    return request.param, whence.load(zoo.make(request.param))


@pytest.fixture(scope="module")
def together(case):
    """Return all methods' explanations that were made in one go, once for each model."""
    architecture, explainer = case
    return explainer.explain(zoo.rows(architecture), method=METHODS, params=FEW)


def scores(explanations):
    return [explanation.scores for explanation in explanations]


def assert_same_scores(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, **EXACT)


@pytest.mark.parametrize("name", METHODS)
def test_batch_equals_singles_in_any_order(case, name):
    architecture, explainer = case
    rows = zoo.rows(architecture, lengths=(9, 4, 6, 9, 5))
    how = {"method": name, "params": FEW.get(name, {})}
    singles = [explainer.explain(row, **how).scores for row in rows]
    assert_same_scores(scores(explainer.explain(rows, **how)), singles)
    assert_same_scores(scores(explainer.explain(rows[::-1], **how)), singles[::-1])
    assert_same_scores(scores(explainer.explain(rows, batch_size=2, **how)), singles)


@pytest.mark.parametrize("name", METHODS)
def test_scores_of_every_method_are_unchanged_by_padding(case, name):
    architecture, explainer = case
    row = zoo.rows(architecture, lengths=(6,))[0]["input_ids"]
    pad = explainer.model.config.pad_token_id
    padded = {
        "input_ids": torch.tensor([row + [pad] * 4]),
        "attention_mask": torch.tensor([[1] * 6 + [0] * 4]),
    }
    how = {"method": name, "params": FEW.get(name, {})}
    alone = explainer.explain({"input_ids": row}, **how)
    assert_same_scores([explainer.explain(padded, **how).scores], [alone.scores])
    together = explainer.explain([{"input_ids": row}, *zoo.rows(architecture, (12,))], **how)
    assert_same_scores([together[0].scores], [alone.scores])


@pytest.mark.parametrize("name", METHODS)
def test_every_method_repeated_on_the_same_input_gives_identical_scores(case, name):
    architecture, explainer = case
    rows = zoo.rows(architecture)
    first, second = (scores(explainer.explain(rows, method=name)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", METHODS)
def test_methods_that_share_a_trace_give_the_same_scores_as_alone(case, together, name):
    architecture, explainer = case
    alone = explainer.explain(zoo.rows(architecture), method=name, params=FEW.get(name, {}))
    assert_same_scores([one[name].scores for one in together], scores(alone))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.filterwarnings("ignore:full_lrp in .* is mostly rounding")
@pytest.mark.parametrize("name", METHODS)
def test_scores_are_in_the_dtype_of_the_model_and_in_float32_at_least(name, dtype):
    explainer = whence.load(zoo.make("bert", dtype=dtype))
    found = explainer.explain(zoo.rows("bert"), method=name)
    wanted = np.dtype("float64" if dtype is torch.float64 else "float32")
    assert {e.scores.dtype for e in found} == {wanted}
    assert {e.provenance["dtype"] for e in found} == {str(dtype)[6:]}


@pytest.mark.parametrize("name", METHODS)
def test_method_facts_are_present_and_agree_with_signs_and_passes(case, name):
    architecture, explainer = case
    entry = method.get(name)
    assert frozenset(entry.facts["needs"]) <= NEEDS
    assert all(str(entry.facts[fact]).strip() for fact in method.required - {"needs"})
    rows = zoo.rows(architecture, lengths=(9, 8, 7, 6))
    # No token twice: what comes out the same without one as without the other is asked about once.
    rows = [{"input_ids": list(dict.fromkeys(row["input_ids"]))} for row in rows]
    found = explainer.explain(rows, method=name)
    smallest = min(e.scores.min() for e in found)
    assert (smallest < 0) == entry.facts["signed"]
    for e, row in zip(found, rows, strict=True):
        assert e.scores.shape == (len(row["input_ids"]),)
        if is_trace_method(entry):
            assert e.passes.backward == int(bool(entry.facts["needs"] & GRADIENTS))
            assert e.passes.forward == 1
        else:
            calls = entry.facts.get("calls", lambda n, params: 0)
            assert e.passes.forward == 1 + calls(len(e.tokens), e.params)


@pytest.mark.parametrize("name", METHODS)
def test_reported_passes_and_progress_equal_the_passes_of_the_model(name):
    model = zoo.make("bert")
    explainer = whence.load(model)
    # Of two lengths: what is the same of two inputs is asked once, and yet each needs it.
    given = zoo.rows("bert", lengths=(7, 6))
    # Found out once: that the model takes two lengths in one batch, and that it says the same by itself.
    explainer.explain(given, method=name)
    rows, rows_back, units = [], [], []
    layers = model.bert.encoder.layer
    # Of a method that reads the last layer alone, the gradient is taken no further down than into it.
    lowest = layers[-1].attention.output if name == "attention_gradcam" else layers[0]
    handles = [
        model.register_forward_pre_hook(
            lambda _, args, kwargs: rows.append(len(kwargs["input_ids"])), with_kwargs=True
        ),
        lowest.register_full_backward_pre_hook(lambda _, grads: rows_back.append(len(grads[0]))),
    ]
    found = explainer.explain(given, method=name, progress=lambda *done: units.append(done))
    for handle in handles:
        handle.remove()
    assert sum(rows) == sum(e.passes.forward for e in found)
    assert sum(rows_back) == sum(e.passes.backward for e in found)
    assert units[-1] == (sum(rows), sum(rows))


def test_all_trace_methods_share_one_forward_and_one_backward_pass():
    model = zoo.make("bert")
    given = (zoo.rows("bert")[0], zoo.rows("bert", lengths=(6, 6)))
    for rows in given:  # found out once: that it says the same by itself, and beside another input
        whence.load(model).explain(rows, method=READERS)
    calls = {"forward": 0, "backward": 0}

    def count(direction):
        return lambda *_: calls.update({direction: calls[direction] + 1})

    first = model.bert.encoder.layer[0]
    handles = [
        model.register_forward_pre_hook(count("forward")),
        first.register_full_backward_hook(count("backward")),
    ]
    for rows in given:
        calls.update(forward=0, backward=0)
        whence.load(model).explain(rows, method=READERS)
        assert calls == {"forward": 1, "backward": 1}
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("name", METHODS)
def test_every_method_with_an_unknown_or_bad_parameter_raises_bad_parameter(name):
    explainer = whence.load(zoo.make("bert"))
    with pytest.raises(BadParameter, match=f"{name} has no parameter 'nonsense'"):
        explainer.explain(zoo.rows("bert"), method=name, params={"nonsense": 1})
    for parameter in method.get(name).parameters.values():
        with pytest.raises(BadParameter, match=f"{parameter.name!r} parameter of {name} must be"):
            explainer.explain(zoo.rows("bert"), method=name, params={parameter.name: object()})


PRESETS = [(name, preset) for name in METHODS for preset in method.get(name).presets]


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_every_preset_equals_its_parameters_given_by_name(name, preset):
    """A preset runs, in a batch as alone, and is nothing but a short name for values of parameters."""
    explainer = whence.load(zoo.make("bert"))
    rows = zoo.rows("bert")
    found = explainer.explain(rows, method=name, params={"preset": preset})
    values = dict(method.get(name).presets[preset])
    spelt_out = [explainer.explain(row, method=name, params=values) for row in rows]
    assert_same_scores(scores(found), scores(spelt_out))
    assert all(e.params == other.params for e, other in zip(found, spelt_out, strict=True))
    assert all(e.params.items() >= values.items() and "preset" not in e.params for e in found)


@pytest.mark.parametrize("name", METHODS)
def test_scores_change_with_the_target_only_for_class_aware_methods(name):
    """Methods that know the class must give other scores for another class; the others must not."""
    explainer = whence.load(zoo.make("bert"))
    row = zoo.rows("bert")[0]
    first, second = (explainer.explain(row, method=name, target=t).scores for t in (0, 1))
    knows_no_class = method.get(name).facts["family"] in {"attention", "baseline"}
    assert np.array_equal(first, second) == knows_no_class


@pytest.mark.parametrize("name", READERS)
def test_trace_method_without_one_of_its_stated_gradients_raises_bad_method(name):
    """A reader that gets all it states but one gradient must fail: nothing is asked for in vain."""
    entry = method.get(name)
    needs = set(entry.facts["needs"])
    explainer = whence.load(zoo.make("bert"))
    entry.fn(explainer.trace(zoo.rows("bert"), needs=needs))
    for one in needs & GRADIENTS:
        with pytest.raises(BadMethod, match=one):
            entry.fn(explainer.trace(zoo.rows("bert"), needs=(needs - {one}) | {"attention"}))


@pytest.mark.parametrize(
    "name",
    ["grad_x_input", "attention_gradient", "cat", "attcat", "integrated_gradients", "gradient_shap",
     "leave_one_out", "occlusion", "lime", "kernel_shap", "attn_lrp", "cp_lrp", "decompx"],
)  # fmt: skip
def test_contrast_scores_of_linear_methods_equal_the_difference_of_two_targets(name):
    """What is linear in the target is linear in the scores."""
    explainer = whence.load(zoo.make("bert"))
    row = zoo.rows("bert")[0]
    one, two, both = (explainer.explain(row, method=name, target=t).scores for t in (0, 1, (0, 1)))
    np.testing.assert_allclose(both, one - two, **EXACT)


@pytest.mark.parametrize(
    "name",
    ["grad_x_input", "attention_gradient", "cat", "attcat", "attn_lrp", "cp_lrp", "decompx"],
)
def test_probability_scores_follow_from_logit_scores_by_the_chain_rule(name):
    explainer = whence.load(zoo.make("bert"))
    row = zoo.rows("bert")[0]
    found = explainer.explain(row, method=name, target=0, of="probability")
    shares = [found.prediction.probabilities[label] for label in explainer.labels]
    logit = [explainer.explain(row, method=name, target=t).scores for t in range(3)]
    mean = sum(share * scores for share, scores in zip(shares, logit, strict=True))
    np.testing.assert_allclose(found.scores, shares[0] * (logit[0] - mean), **EXACT)
    assert found.target.of == "probability"


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    lengths=st.lists(st.integers(2, 20), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
    size=st.integers(1, 7),
)
def test_batches_of_random_lengths_and_sizes_equal_their_singles(lengths, seed, size):
    explainer = whence.load(zoo.make("roberta"))
    rows = zoo.rows("roberta", tuple(lengths), seed)
    names = [
        "generic_attention",
        "attcat",
        "rollout",
        "leave_one_out",
        "transformer_attribution",
        "decompx",
    ]
    together = explainer.explain(rows, method=names, batch_size=size)
    for row, found in zip(rows, together, strict=True):
        alone = explainer.explain(row, method=names)
        assert_same_scores([found[n].scores for n in names], [alone[n].scores for n in names])
