"""The calculus: names of operations, rules that conserve, tables that refuse what they do not know."""

import operator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import whence
from tests import zoo
from tests.unit.test_tape import Hidden, record
from whence.core.errors import BadMethod, NoRule
from whence.lrp import ATTN_LRP, CHEFER, CP_LRP, ORIGINAL_LRP, TABLES, relevance, rules
from whence.lrp.ops import HOMES, OF, SPELLINGS, spellings
from whence.lrp.stabiliser import STABILISERS
from whence.lrp.tables import RELEVANCE
from whence.lrp.walk import walk


def carried_to_input(module, x, table, stabiliser="signed", seed=None):
    """Give relevance (or quotients) to a module's output; return what its input gets."""
    tape, outlet, output = record(module, x)
    seed = torch.ones_like(output) if seed is None else seed
    found = walk(
        tape, table, STABILISERS[stabiliser], seeds={outlet: seed.detach()}, leaves=[0], wanted=[0]
    )
    return found[0], output.detach()


class Do(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


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
def test_every_way_to_write_an_operation_is_that_operation(op):
    for fn in WRITTEN[op]:
        x = torch.rand(4, 4) + 0.5
        tape, _, output = record(Do(lambda x, fn=fn: fn(x * 1)), x)
        # Dropout of a model at rest, or `contiguous` of what is contiguous, gives its argument back: no step.
        same = len(tape.steps) == 1
        assert same or OF[tape.steps[-1].func] == op
        assert not same or torch.equal(output, x)


def test_the_names_are_those_of_pytorch():
    assert OF[torch.add] == OF[Tensor.add_] == OF[Tensor.__add__] == OF[Tensor.__radd__] == "add"
    functions = [function for op in SPELLINGS for function in spellings(op)]
    assert len(functions) == len(set(functions)), "a function is two operations"
    for op, names in SPELLINGS.items():
        for name in names.split():
            assert any(hasattr(home, name) for home in HOMES), f"{op}: there is no {name}"


def test_every_table_has_a_rule_for_every_operation():
    for table in TABLES.values():
        assert set(table.ops) == set(SPELLINGS), table.name


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
def test_chefers_rules_conserve_relevance(what):
    """What goes in comes out, per sample. The stabiliser takes about 1e-14 of it."""
    torch.manual_seed(0)
    x = torch.rand(3, 4, 4, dtype=torch.float64) + 0.1
    made = CONSERVING[what]
    module = (made if isinstance(made, nn.Module) else Do(made)).double()
    _, _, output = record(module, x)
    seed = torch.rand_like(output) + 0.1
    found, _ = carried_to_input(module, x, CHEFER, seed=seed)
    torch.testing.assert_close(
        found.flatten(1).sum(1), seed.flatten(1).sum(1), rtol=1e-11, atol=1e-11
    )


def test_original_lrp_doubles_where_both_signs_are_there():
    torch.manual_seed(0)
    layer, x = nn.Linear(64, 5).double(), torch.randn(2, 64, dtype=torch.float64)
    seed = torch.rand(2, 5, dtype=torch.float64)
    found, _ = carried_to_input(layer, x, ORIGINAL_LRP, seed=seed)
    torch.testing.assert_close(found.sum(1), 2 * seed.sum(1))


def test_the_sum_is_normalised_per_sample():
    """In the authors' code one input changes the relevance of another: their totals run over the batch."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    module = Do(lambda x: x + x.flip(1) * -1.7)
    together, _ = carried_to_input(module, x, CHEFER)
    for row in range(2):
        alone, _ = carried_to_input(module, x[row : row + 1], CHEFER)
        torch.testing.assert_close(together[row], alone[0])


@pytest.mark.parametrize("table", [ATTN_LRP, CP_LRP], ids=lambda table: table.name)
def test_quotients_of_a_linear_model_are_its_gradient(table):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)).double()
    x = torch.randn(3, 4, dtype=torch.float64)
    found, _ = carried_to_input(model, x, table)
    wanted = torch.autograd.functional.jacobian(lambda x: model(x).sum(), x)
    torch.testing.assert_close(found, wanted)


def test_a_module_rule_beats_an_operation_rule():
    """GPT-2's GELU is written out in sums and products; as one activation it passes relevance through."""
    from transformers.activations import ACT2FN

    x = torch.randn(2, 4, dtype=torch.float64)
    found, _ = carried_to_input(nn.Sequential(ACT2FN["gelu_new"]), x, CHEFER)
    assert torch.equal(found, torch.ones_like(x))
    quotient, y = carried_to_input(nn.Sequential(ACT2FN["gelu_new"]), x, ATTN_LRP)
    torch.testing.assert_close(quotient, y / x)


def test_an_operation_without_a_rule_is_named():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.deep = nn.Sequential(Do(lambda x: x.cumsum(-1)))

        def forward(self, x):
            return self.deep(x) * 2

    with pytest.raises(
        NoRule, match=r"'ours' has no rule for torch\.Tensor\.cumsum, called in deep\.0"
    ) as caught:
        carried_to_input(Odd(), torch.randn(2, 4), CHEFER)
    assert "TABLES['ours'].add(" in str(caught.value)
    assert caught.value.code == "no-rule"


def test_an_operation_that_cannot_be_seen_is_never_passed_over():
    with pytest.raises(NoRule, match="an operation that PyTorch does not show"):
        carried_to_input(Do(lambda x: Hidden.apply(x * 2) + 1), torch.randn(2, 4), CHEFER)


def test_a_row_can_be_added():
    table = type(CHEFER)("mine", "relevance", dict(CHEFER.ops), dict(CHEFER.modules), CHEFER.cut)
    with pytest.raises(NoRule):
        carried_to_input(Do(lambda x: x.cumsum(-1)), torch.rand(2, 4), table)
    table.add(Tensor.cumsum, rules.in_proportion)
    found, _ = carried_to_input(Do(lambda x: x.cumsum(-1)), torch.rand(2, 4).double(), table)
    torch.testing.assert_close(found.sum(1), torch.full((2,), 4.0, dtype=torch.float64))
    table.add("tests.unit.test_lrp.Do", rules.unchanged)
    found, _ = carried_to_input(nn.Sequential(Do(lambda x: x.cumsum(-1))), torch.rand(2, 4), table)
    assert torch.equal(found, torch.ones(2, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_signed_stabiliser_never_blows_up(dtype):
    divide = STABILISERS["signed"].divide
    tiny = torch.tensor([0.0, -0.0, 1e-30, -1e-30, -1e-9, 1e-9, -1.0, 1.0], dtype=dtype)
    got = divide(torch.ones_like(tiny), tiny)
    assert got.isfinite().all()
    assert (got.sign() == torch.where(tiny < 0, -1.0, 1.0)).all()
    torch.testing.assert_close(got[-2:], torch.tensor([-1.0, 1.0], dtype=dtype), rtol=1e-6, atol=0)


def test_the_papers_stabiliser_is_theirs():
    divide = STABILISERS["paper"].divide
    bottom = torch.tensor([0.0, 1e-9, -2e-9, 1.0, -1.0, -1e-9], dtype=torch.float64)
    got = divide(torch.ones_like(bottom), bottom)
    wanted = torch.tensor([0.0, 1 / 2e-9, 1 / -1e-9, 1 / (1 + 1e-9), 1 / (-1 + 1e-9), 1 / 1e-9])
    torch.testing.assert_close(got, wanted.double(), rtol=1e-6, atol=0)


def test_relevance_is_walked_once_and_shared():
    trace = whence.load(zoo.make("bert")).trace(zoo.rows("bert"), needs={"attention", "relevance"})
    assert relevance(trace, "ours", "paper") is relevance(trace, "ours", "paper")
    assert relevance(trace, "ours", "paper") is not relevance(trace, "ours", "signed")


def test_relevance_must_be_asked_for():
    trace = whence.load(zoo.make("bert")).trace(zoo.rows("bert"))
    with pytest.raises(BadMethod, match="relevance"):
        relevance(trace, "ours", "paper")


@pytest.mark.parametrize("rule_set", ["ours", "original"])
def test_the_stabilisers_agree_where_nothing_is_close_to_zero(rule_set):
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


def test_a_pixels_share_is_conserved_too():
    """A stock ViT from its pixels: the box rule at the patches, and every table down to them."""
    model = zoo.make_vit()
    pixels = torch.randn(2, *zoo.PIXELS, dtype=torch.float64)

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, pixels):
            return self.model(pixel_values=pixels).logits

    seed = torch.eye(3, dtype=torch.float64)[:2]
    for table in RELEVANCE.values():
        found, _ = carried_to_input(Logits(), pixels, table, seed=seed)
        assert found.shape == pixels.shape
        assert found.isfinite().all()
        alone, _ = carried_to_input(Logits(), pixels[:1], table, seed=seed[:1])
        torch.testing.assert_close(
            found[0], alone[0], rtol=1e-9, atol=1e-9 * float(found.abs().max())
        )


def test_terms_keep_their_signs_and_weights():
    """Without normalisation, shares add up only if every term is taken as it stands in the sum."""
    x = torch.rand(3, 4, dtype=torch.float64) + 0.5
    sums = [
        lambda x: x - x.flip(-1) * 0.25,
        lambda x: torch.sub(x, x.flip(-1), alpha=0.25),
        lambda x: torch.add(x, x.flip(-1), alpha=-0.25),
        lambda x: torch.subtract(x, x.flip(-1) * 0.25),
        lambda x: x + x.mean(-1, keepdim=True),
        lambda x: x.mean(-1, keepdim=True) - 2 * x,
    ]
    for fn in sums:
        found, output = carried_to_input(Do(fn), x, ORIGINAL_LRP)
        torch.testing.assert_close(found.sum(1), torch.ones_like(output).sum(1))
    # By hand: of x - b/4, x gets x/y and b gets -(b/4)/y.
    found, y = carried_to_input(Do(sums[0]), x, ORIGINAL_LRP)
    wanted = x / y + (-0.25 * x.flip(-1) / y).flip(-1)
    torch.testing.assert_close(found, wanted)


def test_a_constant_term_gets_nothing_wherever_it_stands():
    x = torch.rand(3, 1, dtype=torch.float64) + 0.5
    many = torch.rand(3, 4, dtype=torch.float64)
    for fn in (lambda x: x + many, lambda x: many + x, lambda x: many - x, lambda x: x / many):
        found, _ = carried_to_input(Do(fn), x, CHEFER)
        assert torch.equal(found, torch.full_like(x, 4))  # one from each place it was spread to
    # What comes out of a root is a constant too, and comes first here.
    found, _ = carried_to_input(Do(lambda x: x.rsqrt() + x), x, CHEFER)
    assert torch.equal(found, torch.ones_like(x))


def test_a_reversed_difference_turns_the_quotient_round():
    found, _ = carried_to_input(Do(lambda x: 2 - x), torch.rand(2, 3), ATTN_LRP)
    assert torch.equal(found, -torch.ones(2, 3))


def test_samples_are_told_apart_where_heads_are_folded_into_the_batch():
    torch.manual_seed(0)
    x = torch.randn(2, 6, 4, dtype=torch.float64)

    def folded(x):
        heads = x.reshape(-1, 3, 4)
        return (heads - 1.7 * heads.flip(-1)).reshape(len(x), -1)

    together, _ = carried_to_input(Do(folded), x, CHEFER)
    for row in range(2):
        alone, _ = carried_to_input(Do(folded), x[row : row + 1], CHEFER)
        torch.testing.assert_close(together[row], alone[0])


def test_an_activation_at_zero_hands_on_nothing():
    found, _ = carried_to_input(Do(F.gelu), torch.tensor([[0.0, 1.0]]), ATTN_LRP)
    assert found[0, 0] == 0
    assert found[0, 1] == pytest.approx(F.gelu(torch.tensor(1.0)).item())


def test_a_sigmoid_does_not_start_at_zero_and_hands_on_its_slope():
    x = torch.randn(2, 3, dtype=torch.float64)
    found, y = carried_to_input(Do(torch.sigmoid), x, ATTN_LRP)
    torch.testing.assert_close(found, y * (1 - y))


def test_a_root_mean_square_norm_is_the_same_in_one_piece_or_written_out():
    torch.manual_seed(0)
    weight = torch.rand(4, dtype=torch.float64)
    x = torch.randn(3, 4, dtype=torch.float64)

    def written_out(x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    for table in (CHEFER, ATTN_LRP, CP_LRP):
        seed = torch.rand(3, 4, dtype=torch.float64)
        whole, _ = carried_to_input(
            Do(lambda x: F.rms_norm(x, (4,), weight, 1e-6)), x, table, seed=seed
        )
        parts, _ = carried_to_input(Do(written_out), x, table, seed=seed)
        torch.testing.assert_close(whole, parts)


def test_attention_in_one_piece_is_its_derivative_over_the_number_of_factors():
    torch.manual_seed(0)
    x = torch.randn(2, 4, 5, 9, dtype=torch.float64)

    def attend(x):
        q, k, v = x.chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)

    found, _ = carried_to_input(Do(attend), x, ATTN_LRP)
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(attend(leaf).sum(), leaf)
    shares = torch.cat([torch.full((6,), 1 / 4), torch.full((3,), 1 / 2)]).double()
    torch.testing.assert_close(found, slope * shares)
    only, _ = carried_to_input(Do(attend), x, CP_LRP)
    torch.testing.assert_close(only, slope * torch.tensor([0.0] * 6 + [1.0] * 3).double())


def test_the_box_rule_is_that_of_the_paper():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 4, dtype=torch.float64)
    weight = torch.randn(5, 3, 2, 2, dtype=torch.float64)
    seed = torch.rand(2, 5, 2, 2, dtype=torch.float64)
    found, _ = carried_to_input(
        Do(lambda x: F.conv2d(x, weight, stride=2)), x, CHEFER, "paper", seed
    )
    low = x.amin((1, 2, 3), keepdim=True).expand_as(x)
    high = x.amax((1, 2, 3), keepdim=True).expand_as(x)
    up, down = weight.clamp(min=0), weight.clamp(max=0)
    bottom = (
        F.conv2d(x, weight, stride=2) - F.conv2d(low, up, stride=2) - F.conv2d(high, down, stride=2)
    )
    s = seed / (bottom + 1e-9)

    def back(w):
        return F.conv_transpose2d(s, w, stride=2)

    torch.testing.assert_close(found, x * back(weight) - low * back(up) - high * back(down))
    torch.testing.assert_close(found.sum((1, 2, 3)), seed.sum((1, 2, 3)))


def test_of_two_modules_with_rules_the_outer_one_counts():
    table = type(CHEFER)("mine", "relevance", dict(CHEFER.ops), {}, CHEFER.cut)
    inner = Do(lambda x: x * x.flip(-1))
    module = nn.Sequential(nn.Sequential(inner))
    table.add("tests.unit.test_lrp.Do", rules.cut)
    table.add("torch.nn.modules.container.Sequential", rules.unchanged)
    found, _ = carried_to_input(module, torch.rand(2, 4), table)
    assert torch.equal(found, torch.ones(2, 4))


def test_half_precision_is_walked_in_float32():
    layer = nn.Linear(4, 3).half()
    found, _ = carried_to_input(layer, torch.rand(2, 4).half(), CHEFER, seed=torch.ones(2, 3))
    assert found.dtype == torch.float32


def test_a_contrast_under_chefers_rules_is_the_difference_of_both():
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


def test_a_norm_with_more_inside_is_not_taken_for_a_norm():
    class DenseLayerNorm(nn.Module):
        def __init__(self):
            super().__init__()
            self.dense = nn.Linear(4, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, x):
            return self.norm(self.dense(x))

    torch.manual_seed(0)
    module, x = DenseLayerNorm().double(), torch.rand(2, 4, dtype=torch.float64)
    found, _ = carried_to_input(nn.Sequential(module), x, CHEFER)
    assert not torch.equal(found, torch.ones_like(found))
    wanted, _ = carried_to_input(module.dense, x, CHEFER)
    torch.testing.assert_close(found, wanted)
