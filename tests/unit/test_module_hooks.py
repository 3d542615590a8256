"""Module hooks: placed on every module, called in order, and removed afterwards."""

import pytest
import torch
from torch import nn

from whence.tracing.restore import hook_modules
from whence.tracing.tape import locate_modules


class Twice(nn.Module):
    """One module under two names, and a name without a module."""

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        self.again = self.first
        self.nothing = None
        self.last = nn.Linear(3, 2)

    def forward(self, x):
        return self.last(input=self.again(self.first(x)))


def test_locate_modules_gives_the_paths_of_named_modules():
    model = Twice()
    found = [(".".join(place.path), module) for module, place in locate_modules(model)]
    assert found == list(model.named_modules())
    assert [place.leaf for _, place in locate_modules(model)] == [False, False, True, True, True]
    assert locate_modules(model)[0][1].kind.endswith("test_module_hooks.Twice")


def test_hook_modules_sees_every_call_in_order_with_keyword_arguments():
    model, seen = Twice(), []
    with hook_modules(
        [module for module, _ in locate_modules(model)],
        lambda module, args, kwargs: seen.append((type(module).__name__, len(args), [*kwargs])),
        lambda module, args, output: seen.append(type(module).__name__),
    ):
        model(torch.ones(1, 3))
    inner = [
        ("Sequential", 1, []),
        ("Linear", 1, []),
        "Linear",
        ("ReLU", 1, []),
        "ReLU",
        "Sequential",
    ]
    assert seen == [("Twice", 1, []), *inner, *inner, ("Linear", 0, ["input"]), "Linear", "Twice"]


def test_hook_modules_removes_only_its_own_hooks_after_an_error():
    model, others = Twice(), []
    model.last.register_forward_hook(lambda *_: others.append(1))
    hooks = hook_modules(model.modules(), lambda *_: None, lambda *_: None)
    with pytest.raises(RuntimeError, match="in the middle"), hooks:
        raise RuntimeError("in the middle")
    for module in model.modules():
        assert not module._forward_pre_hooks and not module._forward_pre_hooks_with_kwargs
        assert len(module._forward_hooks) == (module is model.last)
    model(torch.ones(1, 3))
    assert others == [1]
