"""LRP: operations and rule tables, conservation, stabilisers, contrasts, ViT; operations without a rule refused."""

import operator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests import zoo
from tests.tapes import Do, Hidden, propagate_to_input, record
from whence.core.errors import BadMethod, NoRule
from whence.lrp import TABLES, rules
from whence.lrp.node import (
    OPERATION_BY_FUNCTION,
    OPERATION_NAMESPACES,
    OPERATION_SPELLINGS,
    STABILISERS,
    list_spellings,
)
from whence.lrp.propagate import compute_relevance
from whence.lrp.tables import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP, RELEVANCE_TABLES


def inplace(name):
    return lambda x: getattr(x * 1, name)(torch.full_like(x, 2.0))


WRITTEN = {
    "add": [lambda x: x + 2, lambda x: 2 + x, lambda x: torch.add(x, 2), lambda x: x.add(2), inplace("add_"),
            lambda x: operator.iadd(x * 1, 2)],
    "sub": [lambda x: x - 2, lambda x: torch.sub(x, 2), lambda x: x.sub(2), inplace("sub_"),
            lambda x: torch.subtract(x, 2), lambda x: operator.isub(x * 1, 2)],
    "rsub": [lambda x: 2 - x, lambda x: torch.rsub(x, 2)],
    "mul": [lambda x: x * 2, lambda x: 2 * x, lambda x: torch.mul(x, 2), lambda x: x.mul(2), inplace("mul_"),
            lambda x: torch.multiply(x, 2), lambda x: operator.imul(x * 1, 2)],
    "div": [lambda x: x / 2, lambda x: torch.div(x, 2), lambda x: x.div(2), inplace("div_"),
            lambda x: torch.true_divide(x, 2), lambda x: operator.itruediv(x * 1, 2)],
    "neg": [lambda x: -x, torch.neg, lambda x: x.neg(), torch.negative],
    "matmul": [lambda x: x @ x.T, lambda x: torch.matmul(x, x.T), lambda x: x.mm(x.T), lambda x: torch.mm(x, x.T),
               lambda x: torch.bmm(x[None], x.T[None]), lambda x: x.matmul(x.T)],
    "softmax": [lambda x: x.softmax(-1), lambda x: torch.softmax(x, -1), lambda x: F.softmax(x, -1)],
    "activation": [F.gelu, F.relu, torch.relu, torch.tanh, F.tanh, lambda x: x.tanh(), F.silu, nn.ReLU(), nn.SiLU()],
    "square": [lambda x: x**2, lambda x: x.pow(2), lambda x: torch.pow(x, 2), torch.square],
    "scale": [torch.rsqrt, lambda x: x.rsqrt(), lambda x: x.sqrt()],
    "sum": [lambda x: x.sum(-1), lambda x: torch.mean(x, -1)],
    "pick": [lambda x: x[:, 0], lambda x: x.select(1, 0), lambda x: x.narrow(1, 0, 2)],
    "join": [lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x])],
    "move": [lambda x: x.view(-1), lambda x: x.reshape(-1), lambda x: x.transpose(0, 1), lambda x: x.T,
             lambda x: x.permute(1, 0), lambda x: x.contiguous(), lambda x: x.double(), lambda x: x.to(torch.float64),
             lambda x: x.chunk(2), lambda x: x.unsqueeze(0), lambda x: x.flatten(), lambda x: x.mT],
    "dropout": [lambda x: F.dropout(x, 0.1, training=False), nn.Dropout().eval()],
    "layer_norm": [lambda x: F.layer_norm(x, (4,)), nn.LayerNorm(4)],
    "linear": [nn.Linear(4, 3), lambda x: F.linear(x, torch.ones(2, 4))],
    "addmm": [lambda x: torch.addmm(torch.ones(2), x, torch.ones(4, 2))],
}  # fmt: skip


@pytest.mark.parametrize("op", WRITTEN)
def test_operation_by_function_knows_every_spelling_of_an_operation(op):
    for fn in WRITTEN[op]:
        x = torch.rand(4, 4) + 0.5
        tape, _, output = record(Do(lambda x, fn=fn: fn(x * 1)), x)
        # Dropout of a model at rest, or `contiguous` of what is contiguous, gives its argument back: no step.
        same = len(tape.steps) == 1
        assert same or OPERATION_BY_FUNCTION[tape.steps[-1].func] == op
        assert not same or torch.equal(output, x)


def test_operation_spellings_exist_in_pytorch_and_belong_to_one_operation():
    assert (
        OPERATION_BY_FUNCTION[torch.add]
        == OPERATION_BY_FUNCTION[Tensor.add_]
        == OPERATION_BY_FUNCTION[Tensor.__add__]
        == OPERATION_BY_FUNCTION[Tensor.__radd__]
        == "add"
    )
    functions = [function for op in OPERATION_SPELLINGS for function in list_spellings(op)]
    assert len(functions) == len(set(functions)), "a function is two operations"
    for op, names in OPERATION_SPELLINGS.items():
        for name in names.split():
            assert any(hasattr(home, name) for home in OPERATION_NAMESPACES), (
                f"{op}: there is no {name}"
            )


def test_every_rule_table_has_a_rule_for_every_operation():
    for table in TABLES.values():
        assert set(table.ops) == set(OPERATION_SPELLINGS), table.name


# Each output needs one product x·w that is positive: without any, z+ has nobody to give relevance to.
WEIGHT = torch.tensor([[0.5, -0.2, 0.1, 0.3], [-0.4, 0.2, 0.7, -0.1]], dtype=torch.float64)

CONSERVING = {
    "linear": lambda x: F.linear(x, WEIGHT, torch.ones(2, dtype=torch.float64)),
    "two terms": lambda x: x + x.flip(-1) * 0.5,
    "difference": lambda x: x - x.flip(-1) * 0.25,
    "product": lambda x: x * x.flip(-1),
    "matrix product": lambda x: x @ (x.mT * 0.5),
    "softmax": lambda x: x.softmax(-1),
    "mean": lambda x: x.mean(-1),
    "activation": F.gelu,
    "norm": nn.LayerNorm(4),
    "rotation": lambda x: x * 0.6 + torch.cat([-x[..., 2:], x[..., :2]], -1) * 0.8,
    "choice": lambda x: x[:, 1],
    "pieces": lambda x: torch.cat(list(x.chunk(2, -1))[::-1], -1),
    "attention": lambda x: F.scaled_dot_product_attention(x[:, None], x[:, None] * 0.5, x[:, None] * 2),
}  # fmt: skip


@pytest.mark.parametrize("what", CONSERVING)
def test_chefer_rules_conserve_relevance_of_each_sample(what):
    """What goes in comes out, per sample. The stabiliser takes about 1e-14 of it."""
    torch.manual_seed(0)
    x = torch.rand(3, 4, 4, dtype=torch.float64) + 0.1
    made = CONSERVING[what]
    module = (made if isinstance(made, nn.Module) else Do(made)).double()
    _, _, output = record(module, x)
    seed = torch.rand_like(output) + 0.1
    found, _ = propagate_to_input(module, x, CHEFER, seed=seed)
    torch.testing.assert_close(
        found.flatten(1).sum(1), seed.flatten(1).sum(1), rtol=1e-11, atol=1e-11
    )


def test_original_lrp_doubles_relevance_of_a_linear_layer_with_both_signs():
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 5).double(), torch.randn(2, 64, dtype=torch.float64)
    seed = torch.rand(2, 5, dtype=torch.float64)
    found, _ = propagate_to_input(layer, x, ORIGINAL_LRP, seed=seed)
    torch.testing.assert_close(found.sum(1), 2 * seed.sum(1))


def test_chefer_rule_for_sums_normalises_each_sample_alone():
    """In the authors' code one input changes the relevance of another: their totals run over the batch."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    module = Do(lambda x: x + x.flip(1) * -1.7)
    together, _ = propagate_to_input(module, x, CHEFER)
    for row in range(2):
        alone, _ = propagate_to_input(module, x[row : row + 1], CHEFER)
        torch.testing.assert_close(together[row], alone[0])


@pytest.mark.parametrize("table", [ATTN_LRP, CP_LRP], ids=lambda table: table.name)
def test_quotients_of_a_linear_model_equal_its_gradient(table):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    found, _ = propagate_to_input(model, x, table)
    wanted = torch.autograd.functional.jacobian(lambda x: model(x).sum(), x)
    torch.testing.assert_close(found, wanted)


def test_rule_of_a_module_takes_precedence_over_rules_of_its_operations():
    """GPT-2's GELU is written out in sums and products; as one activation it passes relevance through."""
    from transformers.activations import ACT2FN

    x = torch.randn(2, 4, dtype=torch.float64)
    found, _ = propagate_to_input(nn.Sequential(ACT2FN["gelu_new"]), x, CHEFER)
    assert torch.equal(found, torch.ones_like(x))
    quotient, y = propagate_to_input(nn.Sequential(ACT2FN["gelu_new"]), x, ATTN_LRP)
    torch.testing.assert_close(quotient, y / x)


def test_operation_without_a_rule_raises_no_rule_with_operation_and_module():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(Do(lambda x: x.cumsum(-1)))

        def forward(self, x):
            return self.deep(x) * 2

    with pytest.raises(
        NoRule, match=r"'ours' has no rule for torch\.Tensor\.cumsum, called in deep\.0"
    ) as caught:
        propagate_to_input(Odd(), torch.randn(2, 4), CHEFER)
    assert "TABLES['ours'].add(" in str(caught.value)
    assert caught.value.code == "no-rule"


def test_operation_hidden_from_the_tape_raises_no_rule():
    with pytest.raises(NoRule, match="an operation that PyTorch does not show"):
        propagate_to_input(Do(lambda x: Hidden.apply(x * 2) + 1), torch.randn(2, 4), CHEFER)


def test_rule_table_add_gives_a_rule_to_an_operation_or_a_module():
    table = type(CHEFER)("mine", "relevance", dict(CHEFER.ops), dict(CHEFER.modules), CHEFER.cut)
    with pytest.raises(NoRule):
        propagate_to_input(Do(lambda x: x.cumsum(-1)), torch.rand(2, 4), table)
    table.add(Tensor.cumsum, rules.epsilon_rule)
    found, _ = propagate_to_input(Do(lambda x: x.cumsum(-1)), torch.rand(2, 4).double(), table)
    torch.testing.assert_close(found.sum(1), torch.full((2,), 4.0, dtype=torch.float64))
    table.add("tests.tapes.Do", rules.identity_rule)
    found, _ = propagate_to_input(
        nn.Sequential(Do(lambda x: x.cumsum(-1))), torch.rand(2, 4), table
    )
    assert torch.equal(found, torch.ones(2, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_signed_stabiliser_is_finite_near_zero_and_keeps_the_sign(dtype):
    divide = STABILISERS["signed"].divide
    tiny = torch.tensor([0.0, -0.0, 1e-30, -1e-30, -1e-9, 1e-9, -1.0, 1.0], dtype=dtype)
    got = divide(torch.ones_like(tiny), tiny)
    assert got.isfinite().all()
    assert (got.sign() == torch.where(tiny < 0, -1.0, 1.0)).all()
    torch.testing.assert_close(got[-2:], torch.tensor([-1.0, 1.0], dtype=dtype), rtol=1e-6, atol=0)


def test_paper_stabiliser_adds_epsilon_and_gives_zero_for_zero():
    divide = STABILISERS["paper"].divide
    bottom = torch.tensor([0.0, 1e-9, -2e-9, 1.0, -1.0, -1e-9], dtype=torch.float64)
    got = divide(torch.ones_like(bottom), bottom)
    wanted = torch.tensor([0.0, 1 / 2e-9, 1 / -1e-9, 1 / (1 + 1e-9), 1 / (-1 + 1e-9), 1 / 1e-9])
    torch.testing.assert_close(got, wanted.double(), rtol=1e-6, atol=0)


def test_compute_relevance_is_cached_for_each_table_and_stabiliser():
    trace = whence.load(zoo.make("bert")).trace(zoo.rows("bert"), needs={"attention", "relevance"})
    assert compute_relevance(trace, "ours", "paper") is compute_relevance(trace, "ours", "paper")
    assert compute_relevance(trace, "ours", "paper") is not compute_relevance(
        trace, "ours", "signed"
    )


def test_compute_relevance_of_a_trace_without_relevance_raises_bad_method():
    trace = whence.load(zoo.make("bert")).trace(zoo.rows("bert"))
    with pytest.raises(BadMethod, match="relevance"):
        compute_relevance(trace, "ours", "paper")


@pytest.mark.parametrize("rule_set", ["ours", "original"])
def test_full_lrp_with_paper_and_signed_stabiliser_nearly_agrees_on_bert(rule_set):
    explainer = whence.load(zoo.make("bert"))
    row = zoo.rows("bert")[0]
    one, other = (
        explainer.explain(
            row, method="full_lrp", params={"rules": rule_set, "stabiliser": s}
        ).scores
        for s in ("paper", "signed")
    )
    # 1e-9 over denominators down to about 1e-4, through 20 operations.
    assert abs(one - other).max() <= 1e-3 * abs(other).max()


def test_relevance_of_a_vit_reaches_its_pixels_and_equals_that_of_a_single_image():
    """Every table; what the class token and the positions say is not in the pixels, so it need not add up."""
    model = zoo.make_vit()
    pixels = torch.randn(2, *zoo.PIXELS, dtype=torch.float64)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            return self.model(pixel_values=pixels).logits

    seed = torch.eye(3, dtype=torch.float64)[:2]
    for table in RELEVANCE_TABLES.values():
        found, _ = propagate_to_input(Logits(), pixels, table, seed=seed)
        assert found.shape == pixels.shape
        assert found.isfinite().all() and (found.flatten(1).abs().sum(1) > 0).all()
        alone, _ = propagate_to_input(Logits(), pixels[:1], table, seed=seed[:1])
        torch.testing.assert_close(
            found[0], alone[0], rtol=1e-9, atol=1e-9 * float(found.abs().max())
        )


def test_rule_of_the_outer_module_takes_precedence_over_the_inner_one():
    table = type(CHEFER)("mine", "relevance", dict(CHEFER.ops), {}, CHEFER.cut)
    inner = Do(lambda x: x * x.flip(-1))
    module = nn.Sequential(nn.Sequential(inner))
    table.add("tests.tapes.Do", rules.stop_rule)
    table.add("torch.nn.modules.container.Sequential", rules.identity_rule)
    found, _ = propagate_to_input(module, torch.rand(2, 4), table)
    assert torch.equal(found, torch.ones(2, 4))


def test_relevance_of_a_half_precision_layer_is_computed_in_float32():
    layer = nn.Linear(4, 3).half()
    found, _ = propagate_to_input(layer, torch.rand(2, 4).half(), CHEFER, seed=torch.ones(2, 3))
    assert found.dtype == torch.float32


def test_full_lrp_of_a_contrast_with_chefer_rules_is_the_difference_of_both_targets():
    """Their totals would be zero, and nothing would be left: what speaks for and against is walked apart."""
    explainer = whence.load(zoo.make("bert"))
    row = zoo.rows("bert")[0]
    one, two, both = (
        explainer.explain(row, method="full_lrp", target=t, params={"rules": "ours"}).scores
        for t in (0, 1, (0, 1))
    )
    assert abs(both).max() > 1e-3
    # The authors' epsilon is not linear: 1e-9 over sums down to 1e-3.
    assert abs(both - (one - two)).max() <= 1e-6


def test_transformer_attribution_of_a_contrast_takes_the_sign_from_the_gradient():
    """Relevance of both classes, and the sign from the gradient alone: with a sign in both it would cancel."""
    explainer = whence.load(zoo.make("bert"), dtype="float64")
    row, needs = zoo.rows("bert")[0], ("attention", "attention_grad", "relevance")
    last = {"start_layer": -1, "row_normalise": False}
    relevant, slopes = [], []
    for target in (0, 1):
        seen = explainer.trace(row, target=target, needs=needs)
        layer = seen.layer(-1)
        relevant.append(
            layer.weights_relevance(compute_relevance(seen, "ours", "paper").quotient(layer))
        )
        slopes.append(layer.map_grad())
    for sign, target in ((1, (0, 1)), (-1, (1, 0))):
        found = explainer.explain(
            row, method="transformer_attribution", target=target, params=last
        ).scores
        weighed = (sign * (slopes[0] - slopes[1]) * (relevant[0] + relevant[1])).clamp(min=0)
        wanted = seen.rows + torch.einsum("bq,bqk->bk", seen.rows, weighed.mean(1))
        # The authors' epsilon is not linear: 1e-9 over sums down to 1e-3.
        assert abs(found - wanted[0].numpy()).max() <= 1e-6


def test_module_named_layer_norm_with_a_dense_layer_inside_gets_no_norm_rule():
    class DenseLayerNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.dense(x))

    torch.manual_seed(0)
    module, x = DenseLayerNorm().double(), torch.rand(2, 4, dtype=torch.float64)
    found, _ = propagate_to_input(nn.Sequential(module), x, CHEFER)
    assert not torch.equal(found, torch.ones_like(found))
    wanted, _ = propagate_to_input(module.dense, x, CHEFER)
    torch.testing.assert_close(found, wanted)
