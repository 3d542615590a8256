"""Fused kernels on maps of several blocks, where bands begin and end inside of blocks, against the slow twin.

In float64, whose blocks are the smallest: 16 x 16. Only where Triton is, on a GPU or in its interpreter.
"""

import pytest
import torch

from tests.reference.test_kernel_twins import (
    DEVICE,
    IMPLEMENTATIONS,
    judged,
    layer_of,
    moved,
    poisoned,
    tolerance,
)
from tests.reference.twins_kernels import contracted, contracted_normalised, gathered, written
from whence.kernels.contract import contract, contract_normalised, gather, use_implementation
from whence.kernels.maps import VisibleKeys

FUSED = IMPLEMENTATIONS[1]
REAL = torch.arange(43) < torch.tensor([[43], [20]])
SEEN = {
    "all": VisibleKeys(),
    "causal": VisibleKeys(right=0),
    "padded": VisibleKeys(keys=REAL),
    "padded on the left": VisibleKeys(right=0, keys=REAL.flip(1)),
    "a window": VisibleKeys(left=18, right=0),
    "a narrow window": VisibleKeys(left=2, right=0),
    "both ways": VisibleKeys(left=5, right=21),
    "ahead": VisibleKeys(left=0, right=17),
}
WEIGHTS = {"all": slice(0, 43), "the last": slice(42, 43), "some": slice(17, 33)}


@pytest.mark.parametrize("implementation", [FUSED])
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("seen", SEEN)
def test_blocks_equal_the_twin(implementation, seen, weights):
    draw = torch.Generator().manual_seed(len(seen))
    layer = layer_of(
        draw, batch=2, key_heads=1, groups=2, queries=43, keys=43, width=4, value_width=3,
        mask="none", dtype=torch.float64,
    )  # fmt: skip
    layer.visible = SEEN[seen]
    row = torch.zeros(2, 43, dtype=torch.float64)
    row[:, WEIGHTS[weights]] = torch.randn(2, 43, generator=draw).double()[:, WEIGHTS[weights]]
    quotient = torch.randn(layer.out_grad.shape, generator=draw).double()
    column = torch.randn(2, 43, 1, generator=draw).double()
    maps = written(layer, quotient)
    allowed = tolerance(layer, row, maps)
    kind = "positive_gradient_x_relevance"
    expected = contracted(maps, row, kind)
    normalised = contracted_normalised(maps, row, kind)
    signed = gathered(maps, column, "gradient_x_attention")
    with use_implementation(implementation):
        found = gather(moved(layer), column.to(DEVICE), "gradient_x_attention")
        judged(found, signed, allowed)
        poisoned(layer, row, quotient, float("nan"))
        layer, row, quotient = moved(layer), row.to(DEVICE), quotient.to(DEVICE)
        judged(contract(layer, row, kind, quotient=quotient), expected, allowed)
        judged(contract_normalised(layer, row, kind, quotient=quotient), normalised, allowed)
