"""A model's identity: the hash of its configuration and weights, whatever file or device they came from."""

import json
from hashlib import blake2b
from typing import Any
from weakref import WeakKeyDictionary

import torch

# Above this many numbers only an evenly spaced sample is hashed, and the fingerprint says so.
_WHOLE_UP_TO = 1 << 28

_known: WeakKeyDictionary[torch.nn.Module, tuple[Any, str]] = WeakKeyDictionary()


def fingerprint(model: torch.nn.Module) -> str:
    """Return "blake2b:..." of all weights, or "blake2b-sampled:..." for very large models."""
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
    digest = blake2b(digest_size=16)
    digest.update(configuration.encode())
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
