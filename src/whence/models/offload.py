"""Weights that are not in the model: accelerate keeps them in memory or on disk and brings each when it is needed.

Meanwhile their place is held by tensors of the meta device, which have a shape and no numbers.
"""

from collections.abc import Iterator
from typing import Any

import torch


def resident(model: torch.nn.Module) -> dict[str, Any]:
    """Return the state of a model with the numbers of what was offloaded; what else is meta stays so."""
    state = dict(model.state_dict())
    if not any(isinstance(one, torch.Tensor) and one.is_meta for one in state.values()):
        return state
    for prefix, module in model.named_modules():
        for hook in _hooks(module):
            kept: Any = getattr(hook, "weights_map", None)
            if kept is None:
                continue
            for name in (*module._parameters, *module._buffers):
                whole = f"{prefix}.{name}" if prefix else name
                value = state.get(whole)
                if isinstance(value, torch.Tensor) and value.is_meta:
                    state[whole] = kept[name]
    return state


def is_offloaded(model: torch.nn.Module) -> bool:
    """Say whether accelerate brings some of the weights when they are needed."""
    return any(getattr(hook, "offload", False) for part in model.modules() for hook in _hooks(part))


def device_of(model: torch.nn.Module) -> torch.device:
    """Return where a model takes its input: where its first weights are, or are brought to."""
    here: torch.device = next(model.parameters()).device
    if here.type != "meta":
        return here
    for part in model.modules():
        for hook in _hooks(part):
            where = getattr(hook, "execution_device", None)
            if where is not None:
                return torch.device(where)
    return here


def _hooks(module: torch.nn.Module) -> Iterator[Any]:
    """Yield what accelerate hung on a module; several hooks stand in a list of one."""
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())
