"""Lazy attention masks: equal to transformers' masks, made as tensors only when needed; windows recognised."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import masking_utils as theirs

from whence.tracing.masks import LazyMask, build_lazy_mask_function

KNOWN = {
    theirs.causal_mask_function: (None, 0),
    theirs.bidirectional_mask_function: (None, None),
}
unwritten_mask = build_lazy_mask_function(theirs.sdpa_mask, KNOWN)

LENGTH = 21
REAL = {
    "none": None,
    "whole": torch.ones(3, LENGTH, dtype=torch.bool),
    "right": torch.arange(LENGTH) < torch.tensor([[LENGTH], [5], [13]]),
    "left": torch.arange(LENGTH) >= torch.tensor([[0], [5], [13]]),
    "within": (torch.arange(LENGTH) % 4 != torch.tensor([[1], [2], [9]])),
}
PACKED = torch.arange(LENGTH)[None].expand(3, -1) // torch.tensor([[4], [7], [30]])
# Name: the function, its local size, and whether two numbers say it.
FUNCTIONS = {
    "causal": (theirs.causal_mask_function, None, (None, 0)),
    "bidirectional": (theirs.bidirectional_mask_function, None, (None, None)),
    "one-sided window": (theirs.sliding_window_causal_mask_function(4), 4, (3, 0)),
    "wide window": (theirs.sliding_window_causal_mask_function(90), 90, (89, 0)),
    "two-sided window": (theirs.sliding_window_bidirectional_mask_function(4), 4, (4, 4)),
    "chunks": (theirs.chunked_causal_mask_function(5, torch.tensor([0, 2, 4])), 5, None),
    "packed": (
        theirs.and_masks(theirs.causal_mask_function, theirs.packed_sequence_mask_function(PACKED)),
        None,
        None,
    ),
    "blocks": (
        theirs.or_masks(theirs.causal_mask_function, theirs.blockwise_overlay(PACKED - 1)),
        None,
        None,
    ),
    "chunks of a number": (lambda _, __, q, k: q // 5 == k // 5, 5, None),
    "window of another size": (theirs.sliding_window_causal_mask_function(3), 7, None),
}


def given(name, real="none", **other):
    function, local, _ = FUNCTIONS[name]
    return {
        "batch_size": 3, "q_length": LENGTH, "kv_length": LENGTH, "mask_function": function,
        "attention_mask": REAL[real], "local_size": local, "device": torch.device("cpu"), "dtype": torch.float32,
        "config": None, "use_vmap": False, **other,
    }  # fmt: skip


@pytest.mark.parametrize("skips", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("real", REAL)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_lazy_mask_equals_the_mask_of_transformers_for_every_function_and_padding(
    name, real, skips
):
    causal, bidirectional = skips
    asked = given(
        name, real, allow_is_causal_skip=causal, allow_is_bidirectional_skip=bidirectional
    )
    wanted, found = theirs.sdpa_mask(**asked), unwritten_mask(**asked)
    assert (wanted is None) == (found is None)
    if wanted is None:
        return
    assert isinstance(found, LazyMask)
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert torch.equal(found.materialise(), wanted)
    band = FUNCTIONS[name][2]
    assert found.visible.is_banded == (band is not None)
    if band is not None:
        assert (found.visible.left, found.visible.right) == band
    assert (found.visible.keys is None) == (real in {"none", "whole"})
    assert found.visible.trailing == (real in {"whole", "right"})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("queries", "ahead", "behind"), [(1, 20, 0), (4, 17, 0), (3, 18, 10)])
def test_lazy_mask_with_cached_keys_equals_the_mask_of_transformers(name, queries, ahead, behind):
    for real in REAL:
        asked = given(
            name, real, q_length=queries, q_offset=ahead, kv_length=LENGTH - behind, kv_offset=behind,
            allow_is_causal_skip=False,
        )  # fmt: skip
        assert torch.equal(unwritten_mask(**asked).materialise(), theirs.sdpa_mask(**asked))


def test_lazy_mask_with_padding_shorter_than_the_keys_equals_that_of_transformers():
    asked = given("causal", attention_mask=REAL["left"][:, :17])
    assert torch.equal(unwritten_mask(**asked).materialise(), theirs.sdpa_mask(**asked))


def test_lazy_mask_with_more_or_fewer_queries_than_keys_is_banded_and_equal():
    for queries, keys in [(6, LENGTH), (LENGTH, 6)]:
        real = REAL["right"][:, :keys]
        asked = given("bidirectional", attention_mask=real, q_length=queries, kv_length=keys)
        found = unwritten_mask(**asked)
        assert found.visible.is_banded
        assert torch.equal(found.materialise(), theirs.sdpa_mask(**asked))


def test_lazy_mask_function_with_vmap_returns_a_plain_tensor():
    asked = given("causal", "left", use_vmap=True)
    found = unwritten_mask(**asked)
    assert type(found) is torch.Tensor
    assert torch.equal(found, theirs.sdpa_mask(**asked))


@pytest.mark.parametrize("real", ["left", "right"])
def test_operations_on_a_lazy_mask_give_plain_tensors_with_equal_values(real):
    asked = given("one-sided window", real)
    wanted, mask = theirs.sdpa_mask(**asked), unwritten_mask(**asked)
    scores = torch.randn(3, 2, LENGTH, LENGTH)
    touched = {
        "cut": lambda m: m[:, :, 2:9, :7],
        "turned": lambda m: ~m,
        "added": lambda m: scores + m,
        "compared": lambda m: m == 0,
        "joined": lambda m: m & m,
        "chosen by": lambda m: torch.where(m, scores, 0.0),
        "filled by": lambda m: scores.masked_fill(m, -1.0),
        "cast": lambda m: m.to(torch.float64),
        "copied": lambda m: m.clone(),
        "reshaped": lambda m: m.reshape(3, -1),
        "expanded": lambda m: m.expand(3, 2, LENGTH, LENGTH),
        "repeated": lambda m: m.repeat(1, 2, 1, 1),
        "put together": lambda m: torch.cat([m, m], dim=-1),
        "counted": lambda m: m.sum(-1),
    }
    for name, touch in touched.items():
        found = touch(mask)
        assert type(found) is torch.Tensor, name
        assert torch.equal(found, touch(wanted)), name
    assert bool(mask.any()) and not bool(mask.all())


@pytest.mark.parametrize("mode", [torch.enable_grad, torch.inference_mode])
@pytest.mark.parametrize("name", ["bidirectional", "one-sided window"])
def test_in_place_writes_change_a_lazy_mask_and_not_its_earlier_visible_keys(name, mode):
    first = torch.arange(LENGTH) < 2

    def joined(mask):
        mask |= first

    def part_of_the_same(mask):
        part = mask.detach()[:, :, 3:]
        part[..., 1:4] = True

    written = {
        "a part": lambda m: m[:, :, 2:9, :7].fill_(True),
        "an entry": lambda m: m.__setitem__((0, 0, 0, LENGTH - 1), True),
        "by another": lambda m: m.masked_fill_(first, False),
        "all": lambda m: m.logical_not_(),
        "joined": joined,
        "part of the same": part_of_the_same,
    }
    asked = given(name, "left")
    padding = asked["attention_mask"].clone()
    for how, write in written.items():
        with mode():
            wanted, mask = theirs.sdpa_mask(**asked).clone(), unwritten_mask(**asked)
            before = mask.visible
            write(wanted)
            write(mask)
            seen = mask.visible.build_mask(torch.arange(LENGTH), LENGTH)
            assert torch.equal(seen, wanted), how
            assert torch.equal(mask & True, wanted), how
            # A layer that saw the mask before saw what it was then.
            was = before.build_mask(torch.arange(LENGTH), LENGTH)
            assert torch.equal(was.expand(wanted.shape), theirs.sdpa_mask(**asked)), how
    assert torch.equal(asked["attention_mask"], padding)


def test_detach_to_and_contiguous_of_a_lazy_mask_do_not_materialise_the_mask():
    mask = unwritten_mask(**given("causal", "left"))
    assert mask.detach().visible is mask.visible
    assert mask.to("cpu") is mask and mask.to(torch.bool) is mask and mask.contiguous() is mask
    with torch.inference_mode():
        assert torch.equal(unwritten_mask(**given("causal", "left")) & True, mask.materialise())


class Largest(TorchDispatchMode):
    """Notes the largest tensor that anybody makes."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        sizes = [
            one.untyped_storage().nbytes() // one.element_size()
            for one in tree_leaves(made)
            if isinstance(one, torch.Tensor) and not isinstance(one, LazyMask)
        ]
        self.elements = max([self.elements, *sizes])
        return made


def test_sliding_window_is_recognised_without_a_tensor_of_queries_times_keys():
    """Looking at the answers makes none of queries x keys either: 128 rows of 8,192 keys at a time."""
    asked = given("causal", q_length=8192, kv_length=8192, local_size=77)
    asked["mask_function"] = theirs.sliding_window_causal_mask_function(77)
    with Largest() as largest:
        mask = unwritten_mask(**asked)
    assert (mask.visible.left, mask.visible.right) == (76, 0)
    assert largest.elements <= 128 * 8192


def test_sliding_window_of_the_same_size_is_checked_once(monkeypatch):
    calls = []

    def window(size):
        def inside(_, __, query, key):
            calls.append(len(calls))
            return (key <= query) & (key > query - size)

        return inside

    # The list that it writes to is no number: nothing is known about such a function, and its mask is a rule.
    asked = {**given("causal"), "local_size": 9, "mask_function": window(9)}
    assert not unwritten_mask(**asked).visible.is_banded

    seen = []
    monkeypatch.setattr("whence.tracing.masks._is_band", lambda *given: seen.append(given) or True)
    asked["mask_function"] = theirs.sliding_window_causal_mask_function(11)
    asked["local_size"] = 11
    for _ in range(3):
        asked["mask_function"] = theirs.sliding_window_causal_mask_function(11)
        unwritten_mask(**asked)
    assert len(seen) == 1


_WINDOW = 4


def _as_wide_as_the_module_says(_, __, query, key):
    return (key <= query) & (key > query - _WINDOW)


def test_window_functions_with_other_defaults_or_globals_are_recognised_separately(monkeypatch):
    def by_name(size):
        def inside(_, __, query, key, *, width=size):
            return (key <= query) & (key > query - width)

        return inside

    def left(function, size):
        asked = given("causal", local_size=size, mask_function=function)
        return unwritten_mask(**asked).visible.left

    assert [left(by_name(size), size) for size in (4, 6)] == [3, 5]
    # Found to be no window of 7 places; the next function is one, and looks the same but for its default.
    assert [left(by_name(size), 7) for size in (4, 7)] == [None, 6]
    assert left(_as_wide_as_the_module_says, 4) == 3
    monkeypatch.setattr(f"{__name__}._WINDOW", 3)
    assert left(_as_wide_as_the_module_says, 4) is None


def test_mask_function_that_depends_on_the_input_is_not_taken_as_a_window():
    def inside(inputs, _, query, key):
        return (key <= query) & (key > query - 4) & (inputs < 1)

    asked = given("causal", local_size=4, mask_function=inside)
    found = unwritten_mask(**asked)
    assert found.visible.left is None
    assert torch.equal(found.materialise(), theirs.sdpa_mask(**asked))
