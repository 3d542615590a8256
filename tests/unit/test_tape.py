"""Tape of a forward pass: recorded steps, modules, values; steps run on new values; overwritten values refused."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.tapes import Hidden, record
from whence.core.errors import NotCapturable


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.act = nn.GELU()

    def forward(self, x):
        constant = torch.arange(4.0).sum() * 2  # does not depend on the input
        first, second = self.act(self.inner(x)).chunk(2, dim=-1)
        return torch.cat([first, second * constant], dim=-1)


def test_tape_records_steps_in_order_with_their_modules():
    tape, outlet, _ = record(Small(), torch.randn(2, 4))
    names = [(step.name.rsplit(".", 1)[-1], ".".join(step.module)) for step in tape.steps]
    assert names == [("linear", "inner"), ("gelu", "act"), ("chunk", ""), ("mul", ""), ("cat", "")]
    assert tape.steps[-1].outputs == (outlet,)
    kinds = [call.kind.rsplit(".", 1)[-1] for call in tape.calls]
    assert kinds == ["Linear", "GELU", "Small"]


def test_rerunning_tape_steps_gives_the_recorded_values_and_output():
    tape, outlet, output = record(Small(), torch.randn(3, 4))
    for step in tape.steps:
        result = step.run([tape.value(number) for number in step.inputs])
        results = result if isinstance(result, tuple | list) else (result,)
        for number, one in zip(step.outputs, results, strict=True):
            assert torch.equal(tape.value(number), one)
    assert torch.equal(tape.value(outlet), output)


def test_tape_values_are_those_before_in_place_changes():
    class InPlace(nn.Module):
        def forward(self, x):
            y = x * 2
            z = y.exp()
            y += 1
            y.mul_(3)
            return y + z

    x = torch.randn(2, 4)
    tape, _, output = record(InPlace(), x)
    values = [tape.value(step.outputs[0]) for step in tape.steps]
    wanted = [x * 2, (x * 2).exp(), x * 2 + 1, (x * 2 + 1) * 3, (x * 2 + 1) * 3 + (x * 2).exp()]
    for got, want in zip(values, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    torch.testing.assert_close(output, wanted[-1])


def test_tape_value_overwritten_through_a_view_raises_not_capturable():
    class Sneaky(nn.Module):
        def forward(self, x):
            y = x * 2
            z = y.exp()
            y[:, 0].zero_()
            return y + z

    tape, _, _ = record(Sneaky(), torch.randn(2, 4))
    with pytest.raises(NotCapturable, match="overwrote a value in place"):
        [tape.value(number) for step in tape.steps for number in step.inputs]


def test_tape_records_an_opaque_operation_as_a_step_without_function():
    class Opaque(nn.Module):
        def forward(self, x):
            return Hidden.apply(x * 2) + 1

    tape, _, _ = record(Opaque(), torch.randn(2, 4))
    assert [step.func is None for step in tape.steps] == [False, True, False]
    assert tape.steps[1].inputs == ()


def test_tape_is_complete_despite_a_backward_hook_of_the_user():
    model = Small()
    handle = model.inner.register_full_backward_hook(lambda *_: None)
    tape, outlet, _ = record(model, torch.randn(2, 4))
    handle.remove()
    assert all(step.func is not None for step in tape.steps)
    made = {number for step in tape.steps for number in step.outputs}
    assert outlet in made


def test_tape_treats_detached_and_no_grad_values_as_constants():
    class Cut(nn.Module):
        def forward(self, x):
            with torch.no_grad():
                scale = x.abs().max()
            return F.relu(x) * scale * x.detach()

    tape, _, _ = record(Cut(), torch.randn(2, 4))
    names = [step.name.rsplit(".", 1)[-1] for step in tape.steps]
    assert names == ["relu", "mul", "mul"]
    assert all(len(step.inputs) == 1 for step in tape.steps)


def test_tape_steps_with_keyword_arguments_or_in_place_changes_run_on_new_values():
    class Keywords(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Small()

        def forward(self, x):
            y = torch.add(input=x, other=self.inner(x=x))
            y.mul_(2)
            return y

    model, x = Keywords(), torch.randn(2, 4)
    tape, outlet, output = record(model, x)
    (inner,) = [call for call in tape.calls if call.kind.endswith(".Small")]
    assert inner.inputs == (0,)
    changed = {0: x + 1}
    for step in tape.steps:
        result = step.run([changed[number] for number in step.inputs])
        results = result if isinstance(result, tuple | list) else (result,)
        changed |= dict(zip(step.outputs, results, strict=True))
    torch.testing.assert_close(changed[outlet], model(x + 1))
    torch.testing.assert_close(tape.value(outlet), output)  # what was recorded is left alone
    first_sum = next(step for step in tape.steps if step.name.endswith(".add"))
    torch.testing.assert_close(tape.value(first_sum.outputs[0]), output / 2)


def test_tape_step_run_widens_constants_to_the_dtype_of_the_values():
    layer = nn.Linear(4, 2).half()
    tape, _, output = record(layer, torch.rand(3, 4).half())
    wide = tape.steps[0].run([tape.value(0).float()])
    assert wide.dtype == torch.float32
    torch.testing.assert_close(wide, output.float(), rtol=1e-2, atol=1e-2)
