"""Tiles: no map is ever whole, their size, free memory; and which implementation contracts."""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch
import transformers as hf
from torch.utils._python_dispatch import TorchDispatchMode

import whence
from tests import zoo
from tests.reference.test_kernel_twins import layer_of
from whence.capture.attention.layer import Stored
from whence.core.errors import BadMethod, BadParameter
from whence.kernels import (
    Visible,
    choice,
    contract,
    contract_normalised,
    gather,
    memory,
    row_tiles,
    tile_of,
    tiles,
    using,
)


def example(seed=0, *, n=5, batch=2, key_heads=3, groups=1, mask="none", dtype=torch.float64):
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
def test_no_map_is_ever_whole(mask):
    """With small tiles, no tensor of tokens x tokens exists while a row is contracted."""
    layer = example(batch=1, key_heads=2, n=64, mask=mask)
    row, columns = torch.ones(1, 64).double(), torch.ones(1, 64, 1).double()
    with Largest() as seen, tile_of(4 * 64 * 8):
        contract(layer, row, "positive_gradient_x_attention")
        contract_normalised(layer, row, "positive_gradient_x_attention")
        gather(layer, columns, "positive_gradient_x_attention")
    # Four rows of a head, or two of both; what has no keys x queries is as large as q: 2 heads x 64 x 4.
    assert seen.numbers <= 2 * 64 * 4


def test_a_window_costs_no_more_than_its_width():
    """Of 4096 keys a query sees 9; the tiles of 512 rows are as wide as what all of them see together, not 4096."""
    layer = example(batch=1, key_heads=1, n=4096, mask="none", dtype=torch.float32)
    layer.visible = Visible(left=4, right=4)
    with Largest() as seen:
        found = contract(layer, torch.ones(1, 4096))
    assert seen.numbers <= 512 * (512 + 8)
    # In the middle every key is seen by nine queries, whose rows have a sum of one each: all rows add up to 4096.
    torch.testing.assert_close(found.sum(), torch.tensor(4096.0))


def test_stored_maps_are_contracted_the_same_way():
    computed = example(3)
    stored = Stored(probabilities=computed.map(), v=computed.v)
    stored.take_grad(computed.out_grad.reshape(6, 5, 4))
    row = torch.ones(2, 5, dtype=torch.float64)
    for combination in ("attention", "gradient_x_attention", "positive_gradient_x_attention"):
        for size in (1, 1 << 20):
            with tile_of(size):
                found = contract(stored, row, combination)
            torch.testing.assert_close(found, contract(computed, row, combination))


def test_rows_of_a_map_are_those_that_were_asked_for():
    layer = example(4, mask="causal", groups=2)
    whole, grads = layer.map(), layer.map_grad()
    some = torch.tensor([1, 3])
    torch.testing.assert_close(layer.weights(some), whole[:, :, some])
    torch.testing.assert_close(layer.weights_grad(slice(2, 4)), grads[:, :, 2:4])
    quotient = torch.randn_like(layer.out_grad)
    relevance = layer.weights_relevance(quotient, some)
    values = layer.v.repeat_interleave(2, dim=1)
    torch.testing.assert_close(relevance, (whole * (quotient @ values.mT) / 2)[:, :, some])


def test_a_gradient_that_nobody_asked_for_is_missed():
    layer = example()
    layer.out_grad = None
    row = torch.ones(2, 5, dtype=torch.float64)
    contract(layer, row)
    with pytest.raises(BadMethod, match=r"attention_grad"):
        contract(layer, row, "gradient_x_attention")


def test_a_tile_has_whole_heads_before_it_has_some_rows():
    layer = example(n=10, key_heads=2, groups=3, dtype=torch.float32)
    head = 10 * 10 * 4  # bytes of one head's map of one input

    def size(wanted, **kind):
        with tile_of(wanted):
            return tiles.cut(layer, layer.visible, torch.float32, **kind)

    assert size(1) == tiles.Cut(1, 1, 1)
    assert size(head) == tiles.Cut(1, 1, 10)
    assert size(2 * head) == tiles.Cut(1, 1, 10)  # two of three heads that share keys: rather one
    assert size(5 * head) == tiles.Cut(1, 3, 10)
    assert size(6 * head) == tiles.Cut(1, 6, 10)
    assert size(6 * head, whole_heads=True) == tiles.Cut(1, 6, 10)
    assert size(3 * head, whole_heads=True) == tiles.Cut(1, 6, 5)
    assert size(16 * 2 * 6 * head) == tiles.Cut(
        2, 6, 10
    )  # on a CPU inputs share a tile if they are small


def test_row_tiles_cover_all_rows():
    layer = example(n=10)
    with tile_of(3 * 2 * 3 * 10 * 8):
        found = list(row_tiles(layer, layer.q))
    assert found == [slice(0, 3), slice(3, 6), slice(6, 9), slice(9, 12)]


def test_tiles_leave_room_where_memory_is_short(monkeypatch):
    device = torch.device("cpu")
    monkeypatch.delenv("WHENCE_TILE_BYTES", raising=False)
    free = memory.free_bytes(device)
    if free is not None:
        assert 0 < free < 1 << 50
    monkeypatch.setattr(tiles, "lately_free", lambda _: 1 << 20)
    assert tiles._bytes(device) == (1 << 20) // 16
    monkeypatch.setattr(tiles, "lately_free", lambda _: None)
    assert tiles._bytes(device) == 1 << 22


def test_free_memory_is_asked_for_rarely(monkeypatch):
    device = torch.device("cpu")
    monkeypatch.setattr(memory, "_known", {})
    asked = []
    monkeypatch.setattr(memory, "free_bytes", lambda one: asked.append(one) or 7)
    assert [memory.lately_free(device) for _ in range(100)] == [7] * 100
    assert len(asked) < 5


def test_the_environment_sets_the_size(monkeypatch):
    monkeypatch.setenv("WHENCE_TILE_BYTES", "12345")
    assert tiles._bytes(torch.device("cpu")) == 12345
    with tile_of(7):
        assert tiles._bytes(torch.device("cpu")) == 7


@pytest.mark.parametrize("text", ["", "4 MiB", "-1", "0", "1e6", "٣"])
def test_a_size_that_is_none_is_refused(monkeypatch, text):
    monkeypatch.setenv("WHENCE_TILE_BYTES", text)
    with pytest.raises(BadParameter, match=r"WHENCE_TILE_BYTES.*whole number") as raised:
        contract(example(), torch.ones(2, 5, dtype=torch.float64))
    assert repr(text) in str(raised.value)


def test_using_nests_and_restores(monkeypatch):
    monkeypatch.delenv("WHENCE_KERNELS", raising=False)
    assert choice.chosen() == "auto"
    with using("tiled"):
        assert choice.chosen() == "tiled"
        with using("fused"):
            assert choice.chosen() == "fused"
        assert choice.chosen() == "tiled"
        with pytest.raises(RuntimeError, match=r"on purpose"), using("fused"):
            raise RuntimeError("on purpose")
        assert choice.chosen() == "tiled"
    assert choice.chosen() == "auto"
    monkeypatch.setenv("WHENCE_KERNELS", "tiled")
    assert choice.chosen() == "tiled"
    with using("auto"):
        assert choice.chosen() == "auto"


def test_an_implementation_that_is_not_there_is_refused(monkeypatch):
    with pytest.raises(BadParameter, match=r"'cuda'.*auto, tiled, fused"), using("cuda"):
        pass
    monkeypatch.setenv("WHENCE_KERNELS", "fast")
    with pytest.raises(BadParameter, match=r"'fast'.*WHENCE_KERNELS"):
        contract(example(), torch.ones(2, 5, dtype=torch.float64))


def test_what_is_asked_for_and_cannot_be_is_tiled(monkeypatch):
    """On a CPU outside of Triton's interpreter, and for maps that the model made itself."""
    layer, row = example(), torch.ones(2, 5, dtype=torch.float64)
    stored = Stored(probabilities=layer.map(), v=layer.v)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    with using("fused"):
        assert not choice.fuses(layer, row, "attention")
        torch.testing.assert_close(contract(layer, row), contract(stored, row))
        monkeypatch.setenv("TRITON_INTERPRET", "1")
        assert not choice.fuses(stored, row, "attention")


_EXPLAINED = """
import os, sys
import torch, whence
from whence.kernels import choice
choice.has_triton = lambda: True  # as if it were there; whence must not even look
assert not torch.cuda.is_available()
explainer = whence.load("decoy")
for asked in ("auto", "fused"):
    os.environ["WHENCE_KERNELS"] = asked
    for method in ("generic_attention", "transformer_attribution", "attcat", "attn_lrp"):
        explainer.explain({"input_ids": [[2, 5, 6, 3]]}, method=method)
print([name for name in sys.modules if name.startswith(("triton", "whence.kernels.fused"))])
"""


def test_a_triton_that_is_too_old_is_none(monkeypatch, tmp_path):
    """One without its knobs could not be used: tiles are taken."""
    package = tmp_path / "triton"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('whence must not even look')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "triton", raising=False)
    assert not choice.has_triton.__wrapped__()
    (package / "knobs.py").touch()
    assert choice.has_triton.__wrapped__()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA")
def test_triton_is_not_imported_without_cuda():
    environment = {name: one for name, one in os.environ.items() if name != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", _EXPLAINED], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "whence.kernels.fused" not in done.stdout
    # Where Triton is installed, PyTorch imports it for itself.
    assert find_spec("triton") is not None or done.stdout.strip() == "[]"


def test_a_logsumexp_that_is_less_exact_than_the_map_is_not_used():
    layer, row = example(), torch.ones(2, 5, dtype=torch.float64)
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
def test_no_reader_writes_a_map_out(method, params):
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
    with tile_of(1 << 16), Largest() as largest:
        found = explainer.explain({"input_ids": ids}, method=method, params=params)
    assert np.isfinite(found.scores).all()
    # A map of one head has n² numbers; a tile has 2^14, and activations n x 8.
    assert largest.numbers < n * n / 8
