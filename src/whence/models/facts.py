"""A model's modules, embeddings and device, and what was found out about it by running it.

The modules of a model are walked once while it is held: PyTorch's own walk takes a generator for every level
of every module, which is noticeable on small inputs.

With accelerate, weights may be offloaded to memory or disk and replaced by tensors on the meta device, which
have a shape and no values; they are then read from where accelerate keeps them.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from threading import Lock, RLock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn


@dataclass(eq=False)
class ModelFacts:
    """What was found out about a model, and its lock; kept as long as the model lives."""

    # Held while the model is changed: two threads on one model would undo each other's switches.
    lock: RLock = field(default_factory=RLock)
    parts: "ModelParts | None" = None  # while the model is held
    # Whether it uses transformers' attention interface where it offers it, and gives the same output through it.
    is_routable: bool = True
    is_sequential: bool = True  # whether its layers follow each other
    is_checkpointable: bool = True  # whether its blocks give the same when they run again
    # The routes found to give the model's own output, each with its attention implementation at that time.
    verified_routes: set[Hashable] = field(default_factory=set)
    patch_layouts: dict[tuple[int, ...], Any] = field(default_factory=dict)  # by size of the image
    batch_capacities: dict[Hashable, Any] = field(default_factory=dict)  # by kind of input
    # Quick state, full state and fingerprint, at the time of the fingerprint.
    fingerprint: tuple[Any, Any, str] | None = None
    # While it is altered: the altering thread, the fingerprint there, and the one in all other threads.
    override: tuple[int, str, str] | None = None


_facts: WeakKeyDictionary[nn.Module, ModelFacts] = WeakKeyDictionary()
_facts_lock = Lock()


def get_facts(model: nn.Module) -> ModelFacts:
    """Return what was found out about a model."""
    with _facts_lock:
        facts = _facts.get(model)
        if facts is None:
            facts = _facts[model] = ModelFacts()
        return facts


@dataclass(eq=False)
class ModelParts:
    """A model's modules in the order of `model.modules()`, and some of them by kind."""

    modules: list[nn.Module] = field(default_factory=list)
    blocks: dict[nn.Module, None] = field(default_factory=dict)  # the members of ModuleLists
    embeddings: list[nn.Module] = field(default_factory=list)
    config_owners: list[Any] = field(default_factory=list)  # the modules with a configuration
    # The modules that change their kind of attention, for good: BigBird's.
    attention_switches: list[Any] = field(default_factory=list)


@cache  # asking every module takes ten times as long
def _find_kind(kind: Any) -> tuple[bool, bool, bool, bool]:
    """Return whether a module's class is a list or an embedding, has a configuration, switches its attention."""
    is_list, is_embedding = issubclass(kind, nn.ModuleList), issubclass(kind, nn.Embedding)
    return is_list, is_embedding, hasattr(kind, "config"), hasattr(kind, "set_attention_type")


def get_parts(model: nn.Module) -> ModelParts:
    """Return the parts of a model: those that are held, or those of now."""
    held = get_facts(model).parts
    if held is not None:
        return held
    modules: dict[nn.Module, None] = {model: None}
    levels = [iter(model._modules.values())]
    while levels:
        for child in levels[-1]:
            if child is not None and child not in modules:
                modules[child] = None
                if (
                    child._modules
                ):  # its children come before its neighbours; most modules are leaves
                    levels.append(iter(child._modules.values()))
                    break
        else:
            levels.pop()
    parts = ModelParts(list(modules))
    for module in modules:
        module_class: Any = type(module)
        is_list, is_embedding, has_config, switches_attention = _find_kind(module_class)
        if has_config or "config" in module.__dict__:
            parts.config_owners.append(module)
        if is_list:
            parts.blocks |= dict.fromkeys(module.children())
        if is_embedding:
            parts.embeddings.append(module)
        if switches_attention:
            parts.attention_switches.append(module)
    return parts


@contextmanager
def hold_parts(model: nn.Module) -> Iterator[ModelParts]:
    """Lock a model, and keep its parts until the end of the block."""
    facts = get_facts(model)
    with facts.lock:
        before = facts.parts
        parts = facts.parts = get_parts(model)
        try:
            yield parts
        finally:
            facts.parts = before


def find_token_embeddings(model: Any) -> Any:
    """Return the token embedding module of the model, or of its text part.

    Raise NotImplementedError, as transformers does, if there is none.
    """
    if hasattr(model, "get_input_embeddings"):  # not a user's own module around a model
        with suppress(NotImplementedError):
            return model.get_input_embeddings()
    for part in model.children():
        with suppress(NotImplementedError):
            get = getattr(part, "get_input_embeddings", None)
            table = None if get is None else get()
            if getattr(getattr(table, "weight", None), "ndim", 0) == 2:
                return table
    raise NotImplementedError


def load_resident_state(model: torch.nn.Module) -> dict[str, Any]:
    """Return the state dict with offloaded weights filled in; other meta tensors stay."""
    state = dict(model.state_dict())
    if not any(isinstance(weight, torch.Tensor) and weight.is_meta for weight in state.values()):
        return state
    for prefix, module in model.named_modules():
        for hook in iterate_hooks(module):
            weights_map: Any = getattr(hook, "weights_map", None)
            if weights_map is None:
                continue
            for name in (*module._parameters, *module._buffers):
                whole = f"{prefix}.{name}" if prefix else name
                value = state.get(whole)
                if isinstance(value, torch.Tensor) and value.is_meta:
                    state[whole] = weights_map[name]
    return state


def is_offloaded(model: torch.nn.Module) -> bool:
    """Return whether accelerate loads some weights only when they are needed."""
    return any(
        getattr(hook, "offload", False) for part in model.modules() for hook in iterate_hooks(part)
    )


def iterate_hooks(module: torch.nn.Module) -> Iterator[Any]:
    """Yield the hooks of accelerate on a module; several are wrapped in one."""
    hook = getattr(module, "_hf_hook", None)
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())
