"""Attention kernels: tiles never make a whole map, tile sizes from free memory, choice of the implementation."""

import os
import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pytest
import torch
import transformers as hf
from torch.utils._python_dispatch import TorchDispatchMode

import whence
from tests import zoo
from tests.reference.test_kernel_twins import layer_of
from whence.core.errors import BadMethod, BadParameter
from whence.kernels import tiled
from whence.kernels.contract import contract, contract_normalised, gather, use_implementation
from whence.kernels.maps import VisibleKeys
from whence.kernels.tiled import iterate_row_tiles, use_tile_size
from whence.tracing.attention_layer import StoredAttention

# The package has a function of the same name as this module of it.
contract_module = import_module("whence.kernels.contract")


def make_layer(seed=0, *, n=5, batch=2, key_heads=3, groups=1, mask="none", dtype=torch.float64):
    return layer_of(
        torch.Generator().manual_seed(seed), batch=batch, key_heads=key_heads, groups=groups,
        queries=n, keys=n, width=4, value_width=4, mask=mask, dtype=dtype,
    )  # fmt: skip


class Largest(TorchDispatchMode):
    """Watches how large tensors get."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.numbers = max(self.numbers, out.numel())
        return out


@pytest.mark.parametrize("mask", ["none", "causal", "around", "padded"])
def test_contract_and_gather_in_small_tiles_make_no_tensor_of_tokens_squared(mask):
    """With small tiles, no tensor of tokens x tokens exists while a row is contracted."""
    layer = make_layer(batch=1, key_heads=2, n=64, mask=mask)
    row, columns = torch.ones(1, 64).double(), torch.ones(1, 64, 1).double()
    with Largest() as seen, use_tile_size(4 * 64 * 8):
        contract(layer, row, "positive_gradient_x_attention")
        contract_normalised(layer, row, "positive_gradient_x_attention")
        gather(layer, columns, "positive_gradient_x_attention")
    # Four rows of a head, or two of both; what has no keys x queries is as large as q: 2 heads x 64 x 4.
    assert seen.numbers <= 2 * 64 * 4


def test_contract_with_a_sliding_window_makes_tiles_no_wider_than_the_window():
    """Of 4096 keys a query sees 9; the tiles of 512 rows are as wide as what all of them see together, not 4096."""
    layer = make_layer(batch=1, key_heads=1, n=4096, mask="none", dtype=torch.float32)
    layer.visible = VisibleKeys(left=4, right=4)
    with Largest() as seen:
        found = contract(layer, torch.ones(1, 4096))
    assert seen.numbers <= 512 * (512 + 8)
    # In the middle every key is seen by nine queries, whose rows have a sum of one each: all rows add up to 4096.
    torch.testing.assert_close(found.sum(), torch.tensor(4096.0))


def test_contract_of_stored_maps_equals_contract_of_computed_maps():
    computed = make_layer(3)
    stored = StoredAttention(probabilities=computed.map(), v=computed.v)
    stored.out_grad = stored.heads_first(computed.out_grad.reshape(6, 5, 4))
    row = torch.ones(2, 5, dtype=torch.float64)
    for combination in ("attention", "gradient_x_attention", "positive_gradient_x_attention"):
        for size in (1, 1 << 20):
            with use_tile_size(size):
                found = contract(stored, row, combination)
            torch.testing.assert_close(found, contract(computed, row, combination))


def test_weights_of_selected_rows_equal_those_rows_of_the_whole_map():
    layer = make_layer(4, mask="causal", groups=2)
    whole, grads = layer.map(), layer.map_grad()
    some = torch.tensor([1, 3])
    torch.testing.assert_close(layer.weights(some), whole[:, :, some])
    torch.testing.assert_close(layer.weights_grad(slice(2, 4)), grads[:, :, 2:4])
    quotient = torch.randn_like(layer.out_grad)
    relevance = layer.weights_relevance(quotient, some)
    values = layer.v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(relevance, (whole * (quotient @ values.mT) / 2)[:, :, some])


def test_contract_with_gradient_but_without_attention_grad_raises_bad_method():
    layer = make_layer()
    layer.out_grad = None
    row = torch.ones(2, 5, dtype=torch.float64)
    contract(layer, row)
    with pytest.raises(BadMethod, match=r"attention_grad"):
        contract(layer, row, "gradient_x_attention")


def test_select_tile_size_takes_whole_heads_before_splitting_rows():
    layer = make_layer(n=10, key_heads=2, groups=3, dtype=torch.float32)
    head = 10 * 10 * 4  # bytes of one head's map of one input

    def size(wanted, **kind):
        with use_tile_size(wanted):
            return tiled.select_tile_size(layer, layer.visible, torch.float32, **kind)

    assert size(1) == tiled.TileSize(1, 1, 1)
    assert size(head) == tiled.TileSize(1, 1, 10)
    assert size(2 * head) == tiled.TileSize(
        1, 1, 10
    )  # two of three heads that share keys: rather one
    assert size(5 * head) == tiled.TileSize(1, 3, 10)
    assert size(6 * head) == tiled.TileSize(1, 6, 10)
    assert size(6 * head, whole_heads=True) == tiled.TileSize(1, 6, 10)
    assert size(3 * head, whole_heads=True) == tiled.TileSize(1, 6, 5)
    assert size(16 * 2 * 6 * head) == tiled.TileSize(
        2, 6, 10
    )  # on a CPU inputs share a tile if they are small


def test_iterate_row_tiles_covers_all_rows_without_gap_or_overlap():
    layer = make_layer(n=10)
    with use_tile_size(3 * 2 * 3 * 10 * 8):
        found = list(iterate_row_tiles(layer, layer.q))
    assert found == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)]


def test_tile_bytes_come_from_the_environment_unless_use_tile_size_overrides(monkeypatch):
    monkeypatch.setenv("WHENCE_TILE_BYTES", "12345")
    assert tiled._count_tile_bytes(torch.device("cpu")) == 12345
    with use_tile_size(7):
        assert tiled._count_tile_bytes(torch.device("cpu")) == 7


@pytest.mark.parametrize("text", ["", "4 MiB", "-1", "0", "1e6", "٣"])
def test_tile_bytes_in_the_environment_that_are_no_number_raise_bad_parameter(monkeypatch, text):
    monkeypatch.setenv("WHENCE_TILE_BYTES", text)
    with pytest.raises(BadParameter, match=r"WHENCE_TILE_BYTES.*whole number") as raised:
        contract(make_layer(), torch.ones(2, 5, dtype=torch.float64))
    assert repr(text) in str(raised.value)


def test_use_implementation_nests_and_restores_after_errors(monkeypatch):
    monkeypatch.delenv("WHENCE_KERNELS", raising=False)
    assert contract_module.get_implementation() == "auto"
    with use_implementation("tiled"):
        assert contract_module.get_implementation() == "tiled"
        with use_implementation("fused"):
            assert contract_module.get_implementation() == "fused"
        assert contract_module.get_implementation() == "tiled"
        with pytest.raises(RuntimeError, match=r"on purpose"), use_implementation("fused"):
            raise RuntimeError("on purpose")
        assert contract_module.get_implementation() == "tiled"
    assert contract_module.get_implementation() == "auto"
    monkeypatch.setenv("WHENCE_KERNELS", "tiled")
    assert contract_module.get_implementation() == "tiled"
    with use_implementation("auto"):
        assert contract_module.get_implementation() == "auto"


def test_unknown_kernel_implementation_raises_bad_parameter(monkeypatch):
    with (
        pytest.raises(BadParameter, match=r"'cuda'.*auto, tiled, fused"),
        use_implementation("cuda"),
    ):
        pass
    monkeypatch.setenv("WHENCE_KERNELS", "fast")
    with pytest.raises(BadParameter, match=r"'fast'.*WHENCE_KERNELS"):
        contract(make_layer(), torch.ones(2, 5, dtype=torch.float64))


def test_fused_implementation_on_cpu_or_stored_maps_falls_back_to_tiles(monkeypatch):
    """On a CPU outside of Triton's interpreter, and for maps that the model made itself."""
    layer, row = make_layer(), torch.ones(2, 5, dtype=torch.float64)
    stored = StoredAttention(probabilities=layer.map(), v=layer.v)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with use_implementation("fused"):
        assert contract_module._choose_kernels(layer, row, "attention") is tiled
        torch.testing.assert_close(contract(layer, row), contract(stored, row))
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert contract_module._choose_kernels(stored, row, "attention") is tiled


_EXPLAINED = """
import os, sys
import torch, whence
import whence.kernels
sys.modules["whence.kernels.contract"].has_triton = lambda: True  # as if it were there; whence must not even look
assert not torch.cuda.is_available()
explainer = whence.load("decoy")
for asked in ("auto", "fused"):
    os.environ["WHENCE_KERNELS"] = asked
    for method in ("generic_attention", "transformer_attribution", "attcat", "attn_lrp"):
        explainer.explain({"input_ids": [[2, 5, 6, 3]]}, method=method)
print([name for name in sys.modules if name.startswith(("triton", "whence.kernels.triton"))])
"""


def test_has_triton_is_false_for_a_triton_without_knobs(monkeypatch, tmp_path):
    """One without its knobs could not be used: tiles are taken."""
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('whence must not even look')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert not contract_module.has_triton.__wrapped__()
    (package / "knobs.py").touch()
    assert contract_module.has_triton.__wrapped__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_explain_without_cuda_does_not_import_the_triton_kernels():
    environment = {name: one for name, one in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", _EXPLAINED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "whence.kernels.triton" not in done.stdout
    # Where Triton is installed, PyTorch imports it for itself.
    assert find_spec("triton") is not None or done.stdout.strip() == "[]"


def test_contract_in_float64_ignores_a_logsumexp_in_float32():
    layer, row = make_layer(), torch.ones(2, 5, dtype=torch.float64)
    wanted = contract(layer, row)
    layer.logsumexp = torch.zeros(2, 3, 5)  # in float32, and wrong
    assert torch.equal(contract(layer, row), wanted)


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("attention_gradcam", {}),
        ("attention_gradcam", {"preset": "chefer_bert"}),
        ("attention_gradcam", {"preset": "chefer_vit"}),
        ("generic_attention", {}),
        ("attcat", {}),
        ("rollout", {}),
    ],
)
def test_trace_methods_on_1024_tokens_make_no_whole_attention_map(method, params):
    n = 1024
    size = {
        "hidden_size": 8,
        "num_attention_heads": 2,
        "intermediate_size": 8,
        "num_hidden_layers": 2,
    }
    config = hf.LlamaConfig(**size, vocab_size=100, max_position_embeddings=n, pad_token_id=0)
    explainer = whence.load(zoo.seeded(lambda: hf.LlamaForSequenceClassification(config)).eval())
    ids = [i % 90 + 5 for i in range(n)]
    with use_tile_size(1 << 16), Largest() as largest:
        found = explainer.explain({"input_ids": ids}, method=method, params=params)
    assert np.isfinite(found.scores).all()
    # A map of one head has n² numbers; a tile has 2^14, and activations n x 8.
    assert largest.numbers < n * n / 8
