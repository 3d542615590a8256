"""Snapshots of a model's state, and the assertion that an explanation left all of it unchanged."""

from typing import Any

import torch

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_always_called",
    "_backward_hooks",
    "_backward_pre_hooks",
)


def snapshot(model: Any) -> dict[str, Any]:
    """Return all that could be left behind, in a form that compares."""
    modules = dict(model.named_modules())
    return {
        "attributes": {name: sorted(vars(part)) for name, part in modules.items()},
        "hooks": {name: [len(getattr(part, hook)) for hook in _HOOKS] for name, part in modules.items()},
        "forwards": {name: "forward" in vars(part) for name, part in modules.items()},
        "classes": {name: type(part) for name, part in modules.items()},
        "training": {name: part.training for name, part in modules.items()},
        "weights": {
            name: (w.requires_grad, w.dtype, w.device, w.data_ptr(), w._version, w.grad is None)
            for name, w in [*model.named_parameters(), *model.named_buffers()]
        },
        "attention": {
            name: part.config._attn_implementation for name, part in modules.items() if hasattr(part, "config")
        },
        "config": model.config.to_dict(),
        "random state": torch.get_rng_state().tolist(),
        "gradients on": torch.is_grad_enabled(),
    }  # fmt: skip


def assert_unchanged(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Compare two snapshots part by part, so that a failure names the part."""
    for part, value in before.items():
        assert after[part] == value, f"{part} was changed"
