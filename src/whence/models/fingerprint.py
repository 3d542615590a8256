"""A model's identity: the hash of its configuration and weights, whatever file or device they came from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch

from whence.models.offload import resident
from whence.models.parts import parts

# Above this many numbers only an evenly spaced sample is hashed, and the fingerprint says so.
_WHOLE_UP_TO = 1 << 28

# Of each model, what a glance at it and a look at it showed when its fingerprint was taken.
_known: WeakKeyDictionary[torch.nn.Module, tuple[Any, Any, str]] = WeakKeyDictionary()
# While a model is altered: the thread that does it, the fingerprint there, and the one everywhere else. What other
# threads explain waits until the model is itself again.
_altered: WeakKeyDictionary[torch.nn.Module, tuple[int, str, str]] = WeakKeyDictionary()


@contextmanager
def altered_by(model: torch.nn.Module, what: str) -> Iterator[None]:
    """Give the model another fingerprint for as long as something is done to it, and its own one back.

    It is made of the model's own and of what is done, which says as much as hashing all weights again.
    """
    own, before = fingerprint(model), _altered.get(model)
    changed = f"{own.partition(':')[0]}:{_digest(f'{own} {what}'.encode()).hexdigest()}"
    _altered[model] = (get_ident(), changed, before[2] if before else own)
    try:
        yield
    finally:
        if before:
            _altered[model] = before
        else:
            del _altered[model]


def is_altered(model: torch.nn.Module) -> bool:
    """Say whether something is done to the model now."""
    return model in _altered


def _digest(start: bytes) -> blake2b:
    return blake2b(start, digest_size=16)


def fingerprint(model: torch.nn.Module) -> str:
    """Return "blake2b:..." of all weights, or "blake2b-sampled:..." for very large models."""
    if model in _altered:
        thread, here, elsewhere = _altered[model]
        return here if thread == get_ident() else elsewhere
    seen = _glance(model)
    known = _known.get(model)
    if known is not None and seen is not None and known[0] == seen:
        return known[2]
    # A quantised layer keeps its weights packed: what is not a tensor is told by how it prints.
    state_dict = sorted(resident(model).items())
    weights = [(name, value) for name, value in state_dict if isinstance(value, torch.Tensor)]
    packed = [
        f"{name} {value!r}" for name, value in state_dict if not isinstance(value, torch.Tensor)
    ]
    configuration = _configuration(model) + "".join(packed)
    # A weight that was trained, moved or replaced since has another version or address; one that was changed
    # behind autograd's back (`.data`) shows in a sample of its numbers.
    state = (configuration, [(n, v.data_ptr(), _version(v)) for n, v in weights], _samples(weights))
    seen = None if packed else seen
    if known is not None and known[1] == state:
        _known[model] = (seen, state, known[2])
        return known[2]
    total = sum(value.numel() for _, value in weights)
    step = max(1, -(-total // _WHOLE_UP_TO))
    digest = _digest(configuration.encode())
    for name, value in weights:
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().reshape(-1)[::step].contiguous().cpu()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    result = f"blake2b{'-sampled' if step > 1 else ''}:{digest.hexdigest()}"
    _known[model] = (seen, state, result)
    return result


def _glance(model: torch.nn.Module) -> Any:
    """Return what shows in a fraction of the time of a forward pass that nothing has changed.

    It may show something else though nothing has changed that matters, and does not see what a layer has packed.
    """
    named = [
        (key, value)
        for part in parts(model)
        for held in (part._parameters, part._buffers)
        for key, value in held.items()
        if value is not None
    ]
    config = getattr(model, "config", None)
    facts = repr(vars(config)) if hasattr(config, "__dict__") else repr(config)
    return facts, [(n, v.data_ptr(), _version(v)) for n, v in named], _samples(named)


def _version(value: torch.Tensor) -> int:
    """Return how often a weight was written to; what was made under inference_mode counts nothing."""
    return 0 if value.is_inference() else value._version


@torch.no_grad()
def _samples(weights: list[tuple[str, torch.Tensor]]) -> list[bytes]:
    """Return some numbers of every weight, brought over from the device all at once."""
    chosen: dict[Any, list[torch.Tensor]] = {}
    for _, value in weights:
        if value.is_meta:  # it lies elsewhere
            continue
        chosen.setdefault((value.device, value.dtype), []).append(_some(value))
    found = [torch.cat(some) for some in chosen.values()]
    return [one.cpu().view(torch.uint8).numpy().tobytes() for one in found]


def _some(value: torch.Tensor) -> torch.Tensor:
    total = value.numel()
    step = max(1, total // 64)
    if not value.is_contiguous():
        return value.reshape(-1)[::step]
    return value.as_strided((-(-total // step),), (step,))  # in one call of PyTorch


def _configuration(model: torch.nn.Module) -> str:
    config = getattr(model, "config", None)
    if config is None or not hasattr(config, "to_diff_dict"):
        return type(model).__name__
    # Where it was loaded from, by which version and with which attention kernel is not identity.
    skip = {
        "_name_or_path",
        "transformers_version",
        "dtype",
        "_attn_implementation",
        "_commit_hash",
    }
    facts = {k: v for k, v in config.to_diff_dict().items() if k not in skip}
    return type(model).__name__ + json.dumps(facts, sort_keys=True, default=str)
