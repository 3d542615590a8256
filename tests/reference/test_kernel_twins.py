"""Both implementations of the contractions against the slow twin, for every mask, dtype, head layout and tile.

The fused kernels are judged where Triton is, on a GPU or, with TRITON_INTERPRET=1, in its interpreter.
"""

import os
import warnings
from contextlib import contextmanager, nullcontext
from typing import get_args

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.reference.twins_kernels import contracted, contracted_normalised, gathered, written
from whence.kernels.contract import (
    contract,
    contract_normalised,
    gather,
    has_triton,
    use_implementation,
)
from whence.kernels.maps import Combination, VisibleKeys
from whence.kernels.tiled import use_tile_size
from whence.tracing.attention_layer import ComputedAttention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
_FUSED = has_triton() and (DEVICE == "cuda" or os.environ.get("TRITON_INTERPRET") == "1")
IMPLEMENTATIONS = [
    "tiled",
    pytest.param(
        "fused",
        marks=[
            pytest.mark.skipif(not _FUSED, reason="no Triton, or neither CUDA nor its interpreter"),
            # Said by numpy to the interpreter.
            pytest.mark.filterwarnings(
                "ignore:Conversion of an array with ndim:DeprecationWarning"
            ),
        ],
    ),
]
COMBINATIONS = get_args(Combination)
MASKS = (
    "none", "causal", "padded", "causal padded", "left padded", "behind", "around",
    "rule", "boolean", "additive", "row", "rule padded", "shut",
)  # fmt: skip
DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def visible_of(mask, draw, batch, heads, queries, keys):
    """Return one of every kind of mask; each query sees a key, but where it is shut or padded on the left."""
    lengths = torch.randint(1, keys + 1, (batch, 1), generator=draw)
    real = torch.arange(keys) < lengths
    some = torch.rand(batch, heads, queries, keys, generator=draw) > 0.4
    some[..., 0] = True
    return {
        "none": lambda: VisibleKeys(),
        "causal": lambda: VisibleKeys(right=0),
        "padded": lambda: VisibleKeys(keys=real),
        "causal padded": lambda: VisibleKeys(right=0, keys=real),
        "left padded": lambda: VisibleKeys(right=0, keys=real.flip(1)),
        "behind": lambda: VisibleKeys(left=2, right=0),
        "around": lambda: VisibleKeys(left=1, right=2),
        "rule": lambda: VisibleKeys(rule=lambda rows: some.to(rows.device)[:, :, rows]),
        "rule padded": lambda: VisibleKeys(
            keys=real, rule=lambda rows: some.to(rows.device)[:1, :1, rows]
        ),
        "boolean": lambda: VisibleKeys(dense=some[:, :1]),
        "additive": lambda: VisibleKeys(dense=torch.randn(batch, 1, queries, keys, generator=draw)),
        "row": lambda: VisibleKeys(dense=some[:, :1, :1]),
        # Additive, and from every other query all is hidden.
        "shut": lambda: VisibleKeys(
            dense=torch.zeros(1, 1, queries, keys).masked_fill(
                torch.arange(queries)[:, None] % 2 == 0, -torch.inf
            )
        ),
    }[mask]()


def layer_of(
    draw, *, batch, key_heads, groups, queries, keys, width, value_width, mask, dtype,
    bias=False, sink=False, softcap=None, scale=0.4,
):  # fmt: skip
    """Return a layer of noise; heads first, but as views of tokens first, as models make them."""

    def normal(heads, tokens, features):
        made = torch.randn(batch, tokens, heads, features, generator=draw, dtype=torch.float64)
        return made.to(dtype).transpose(1, 2)

    heads = key_heads * groups
    return ComputedAttention(
        q=normal(heads, queries, width),
        k=normal(key_heads, keys, width),
        v=normal(key_heads, keys, value_width),
        out_grad=normal(heads, queries, value_width),
        visible=visible_of(mask, draw, batch, heads, queries, keys),
        bias=normal(heads, queries, keys) if bias else None,
        scale=scale,
        softcap=softcap,
        sink=torch.randn(heads, generator=draw).to(dtype) if sink else None,
    )


def moved(layer):
    """Bring a layer to the device on which it is judged."""

    def there(one):
        return one.to(DEVICE) if isinstance(one, torch.Tensor) else one

    visible = VisibleKeys(**{name: there(one) for name, one in vars(layer.visible).items()})
    rest = {name: there(one) for name, one in vars(layer).items() if name != "visible"}
    return ComputedAttention(**rest, visible=visible)


def with_logsumexp(layer):
    """Give a layer what a forward pass would leave: float32 at least, and nonsense for a query that sees nothing."""
    q, k = layer.q.double(), layer.k.double()
    scores = q @ k.repeat_interleave(q.shape[1] // k.shape[1], dim=1).mT * layer.scale
    if layer.softcap is not None:
        scores = layer.softcap * torch.tanh(scores / layer.softcap)
    if layer.bias is not None:
        scores = scores + layer.bias.double()
    rows = torch.arange(q.shape[2])
    seen = layer.visible.build_mask(rows, k.shape[2])
    if layer.visible.dense is not None and layer.visible.dense.dtype != torch.bool:
        scores = scores + layer.visible.dense
    if seen is not None:
        scores = scores.masked_fill(~seen, -torch.inf)
    found = scores.logsumexp(-1)
    if layer.sink is not None:
        found = torch.logaddexp(found, layer.sink.double()[:, None])
    layer.logsumexp = found.to(torch.promote_types(layer.q.dtype, torch.float32))
    return layer


def poisoned(layer, row, quotient, poison):
    """Write it wherever nobody may look: into padded keys and into queries whose row has no weight."""
    hidden = torch.zeros(len(layer.k), layer.k.shape[2], dtype=torch.bool)
    if layer.visible.keys is not None:
        hidden = ~layer.visible.keys
    for one in (layer.k, layer.v):
        one.masked_fill_(hidden[:, None, :, None], poison)
    for one in (layer.q, layer.out_grad, quotient, layer.logsumexp):
        if one is not None:
            idle = row.eq(0)[:, None].expand(one.shape[:3])
            one[idle] = poison


@contextmanager
def filthy_memory():
    """Let fresh memory hold NaN, so that whoever reads it before writing is found out."""
    before = torch.are_deterministic_algorithms_enabled()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what else this mode warns of is not meant
        torch.use_deterministic_algorithms(True, warn_only=True)
        try:
            assert torch.empty(3).isnan().all()
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def tolerance(layer, row, maps):
    """How far off a result may be, as a part of its size.

    With u the unit roundoff of the dtype that is summed in (float32 for halves), a score is off by (width + 4) u of
    the sum of its terms, and so is, as a part of itself, its exponential; a product with values adds (width + 1) u,
    sums over queries, keys and heads one u for each term, and a few operations stand between them. Twice that, for
    the logsumexp is off as well. The result is rounded once more, to the dtype of the row.
    """
    work = torch.promote_types(layer.q.dtype, torch.float32)
    heads, queries, width = layer.q.shape[1:]
    terms = (
        (width + 4) * maps.steepest + 2 * layer.v.shape[-1] + queries + layer.k.shape[2] + heads + 8
    )
    return 2 * terms * torch.finfo(work).eps / 2 + torch.finfo(row.dtype).eps / 2


def judged(found, expected, allowed):
    value, size = expected
    assert torch.isfinite(found).all()
    error = (found.cpu().double() - value).abs()
    # Where a weight is so small that its dtype has no such number, zero is right.
    least = torch.finfo(torch.float32 if found.dtype != torch.float64 else found.dtype).tiny * 64
    smallest = max(least, torch.finfo(found.dtype).tiny)
    assert (error <= allowed * size + smallest).all(), (error - allowed * size).max()


@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
@settings(
    max_examples=int(os.environ.get("WHENCE_EXAMPLES", "120")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    seed=st.integers(0, 2**20),
    batch=st.integers(1, 3),
    key_heads=st.integers(1, 3),
    groups=st.integers(1, 3),
    n=st.integers(1, 9),
    more_keys=st.sampled_from([0, 0, 0, 3]),
    widths=st.sampled_from([(4, 4), (16, 16), (16, 8)]),
    mask=st.sampled_from(MASKS),
    dtype=st.sampled_from(DTYPES),
    bias=st.booleans(),
    sink=st.booleans(),
    softcap=st.sampled_from([None, None, 2.0]),
    scale=st.sampled_from([0.4, 2.0]),
    known=st.booleans(),
    wide_grad=st.booleans(),
    combination=st.sampled_from(COMBINATIONS),
    idle=st.sampled_from(["none", "some", "all but one", "all"]),
    tile=st.sampled_from([None, 1, 300, 1 << 24]),
    columns=st.sampled_from([1, 2]),
    poison=st.sampled_from([torch.nan, torch.inf, -torch.inf]),
)
def test_contractions_equal_their_twin(
    implementation, seed, batch, key_heads, groups, n, more_keys, widths, mask, dtype, bias, sink,
    softcap, scale, known, wide_grad, combination, idle, tile, columns, poison,
):  # fmt: skip
    draw = torch.Generator().manual_seed(seed)
    width, value_width = widths
    layer = layer_of(
        draw, batch=batch, key_heads=key_heads, groups=groups, queries=n, keys=n + more_keys,
        width=width, value_width=value_width, mask=mask, dtype=dtype, bias=bias, sink=sink,
        softcap=softcap, scale=scale,
    )  # fmt: skip
    wide = torch.promote_types(dtype, torch.float32)
    row = torch.randn(batch, n, generator=draw, dtype=torch.float64).to(wide)
    if idle != "none":
        row[torch.rand(batch, n, generator=draw) > 0.5] = 0
    if idle.startswith("all"):
        row[:] = 0
    if idle == "all but one":
        row[torch.arange(batch), torch.randint(0, n, (batch,), generator=draw)] = 1
    quotient = torch.randn(layer.out_grad.shape, generator=draw, dtype=torch.float64).to(wide)
    shape = (batch, n + more_keys, columns)  # kernels take one column, and leave more to tiles
    columns = torch.randn(shape, generator=draw, dtype=torch.float64).to(wide)
    if known:
        with_logsumexp(layer)
    if wide_grad:  # where a gradient is too small for a half, the layer has it wider
        layer.out_grad = (layer.out_grad.double() * 0.7).to(wide)

    maps = written(layer, quotient)
    allowed = tolerance(layer, row, maps)
    square, positive = not more_keys, not combination.startswith("gradient")
    clean, clean_quotient = moved(layer), quotient.to(DEVICE)
    with (
        filthy_memory(),
        use_implementation(implementation),
        use_tile_size(tile) if tile else nullcontext(),
    ):
        found = gather(clean, columns.to(DEVICE), combination, quotient=clean_quotient)
        judged(found, gathered(maps, columns, combination), allowed)
        poisoned(layer, row, quotient, poison)
        layer, given, quotient = moved(layer), row.to(DEVICE), quotient.to(DEVICE)
        found = contract(layer, given, combination, quotient=quotient)
        judged(found, contracted(maps, row, combination), allowed)
        if square and positive:
            found = contract_normalised(layer, given, combination, quotient=quotient)
            judged(found, contracted_normalised(maps, row, combination), allowed)
