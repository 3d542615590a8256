"""Model state before and after a library explains, listed by differences, and a failure to inject into it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import torch

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _compute_digest(named: Any) -> str:
    total = hashlib.sha256()
    for name, tensor in named:
        total.update(name.encode())
        total.update(tensor.detach().contiguous().numpy().tobytes())
    return total.hexdigest()


def record_state(model: Any, tokenizer: Any, text: str) -> dict[str, Any]:
    """Return the compared properties of a model and tokenizer, by the name of a difference."""
    modules = list(model.modules())
    config = model.config.to_dict()
    inputs = tokenizer(text, return_tensors="pt")
    seen = {
        "parameters": _compute_digest(model.named_parameters()),
        "buffers": _compute_digest(model.named_buffers()),
        "hooks": sum(len(getattr(module, name)) for module in modules for name in HOOKS),
        "methods of modules": sum("forward" in vars(module) for module in modules),
        "gradients kept": sum(one.grad is not None for one in model.parameters()),
        "requires_grad": [one.requires_grad for one in model.parameters()],
        "training flag": [module.training for module in modules],
        "attention implementation": model.config._attn_implementation,
        "config": json.dumps(config, sort_keys=True, default=str),
        "dtype and device": [(str(one.dtype), str(one.device)) for one in model.parameters()],
        "vocabulary": len(tokenizer),
    }
    try:
        with torch.no_grad():
            logits = model(input_ids=inputs["input_ids"]).logits
        seen["logits"] = _compute_digest([("logits", logits)])
    except Exception as failure:  # whatever a library raises is a finding about it
        seen["logits"] = f"{type(failure).__name__}: {failure}"
    return seen


def list_changes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the names of the changed properties."""
    return [name for name in before if before[name] != after[name]]


class Injected(RuntimeError):
    """Failure that a check injects into a model."""


def inject_failure(model: Any) -> Any:
    """Make the last module of the model raise, until the returned handle is removed."""
    last = list(model.modules())[-1]

    def stop(*_: Any) -> None:
        raise Injected("injected by the ruler")

    return last.register_forward_pre_hook(stop)
