"""A model's identity: the hash of its configuration and weights, whatever file or device they came from."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import get_ident
from typing import Any
from weakref import WeakKeyDictionary

import torch

# Above this many numbers only an evenly spaced sample is hashed, and the fingerprint says so.
_WHOLE_UP_TO = 1 << 28

_known: WeakKeyDictionary[torch.nn.Module, tuple[Any, str]] = WeakKeyDictionary()
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


def _digest(start: bytes) -> blake2b:
    return blake2b(start, digest_size=16)


def fingerprint(model: torch.nn.Module) -> str:
    """Return "blake2b:..." of all weights, or "blake2b-sampled:..." for very large models."""
    if model in _altered:
        thread, here, elsewhere = _altered[model]
        return here if thread == get_ident() else elsewhere
    # A quantised layer keeps its weights packed: what is not a tensor is told by how it prints.
    state_dict = sorted(model.state_dict().items())
    weights = [(name, value) for name, value in state_dict if isinstance(value, torch.Tensor)]
    packed = [
        f"{name} {value!r}" for name, value in state_dict if not isinstance(value, torch.Tensor)
    ]
    configuration = _configuration(model) + "".join(packed)
    # A weight that was trained, moved or replaced since has another version or address; one that was changed
    # behind autograd's back (`.data`) shows in a sample of its numbers.
    state = (configuration, [(n, v.data_ptr(), v._version) for n, v in weights], _samples(weights))
    if model in _known and _known[model][0] == state:
        return _known[model][1]
    total = sum(value.numel() for _, value in weights)
    step = max(1, -(-total // _WHOLE_UP_TO))
    digest = _digest(configuration.encode())
    for name, value in weights:
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().reshape(-1)[::step].contiguous().cpu()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    result = f"blake2b{'-sampled' if step > 1 else ''}:{digest.hexdigest()}"
    _known[model] = (state, result)
    return result


def _samples(weights: list[tuple[str, torch.Tensor]]) -> list[float]:
    """Return a number per weight, brought over from the device all at once."""
    flat = [value.detach().reshape(-1) for _, value in weights]
    sums = [v[:: max(1, v.numel() // 64)].float().sum() for v in flat]
    return [float(one) for one in torch.stack([s.to(sums[0].device) for s in sums]).tolist()]


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
