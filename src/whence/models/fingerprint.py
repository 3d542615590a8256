"""Model fingerprints: cached hash of configuration and weights, and its override while a model is altered.

Models with more than 2^28 weights are hashed by an evenly spaced sample, and the fingerprint says so. A
fingerprint is cached until the version, the address or a sample of a weight changes.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from threading import get_ident
from typing import Any

import torch

from whence.models.facts import get_facts, get_parts, load_resident_state

# Above this many numbers only an evenly spaced sample is hashed, and the fingerprint says so.
_MAX_HASHED = 1 << 28
_DIGEST_BYTES = 16
# Where a model was loaded from, by which version and with which attention kernel is not identity.
_NO_IDENTITY = {
    *("_name_or_path", "transformers_version", "dtype", "_attn_implementation", "_commit_hash")
}


@contextmanager
def override_fingerprint(model: torch.nn.Module, what: str) -> Iterator[None]:
    """Give the model another fingerprint while it is altered, and restore its own afterwards.

    It is the hash of the model's own fingerprint and `what`, which identifies the change without hashing all weights.
    Explanations of other threads wait until the model is restored.
    """
    facts, own = get_facts(model), compute_fingerprint(model)
    before = facts.override
    digest = blake2b(f"{own} {what}".encode(), digest_size=_DIGEST_BYTES).hexdigest()
    changed = f"{own.partition(':')[0]}:{digest}"
    facts.override = (get_ident(), changed, before[2] if before else own)
    try:
        yield
    finally:
        facts.override = before


def compute_fingerprint(model: torch.nn.Module) -> str:
    """Return "blake2b:..." of all weights, or "blake2b-sampled:..." for very large models."""
    facts = get_facts(model)
    if facts.override is not None:
        thread, here, elsewhere = facts.override
        return here if thread == get_ident() else elsewhere
    # A cheap state, found in a fraction of a forward pass: equal states mean that nothing has changed. It may differ
    # though nothing relevant changed, and misses packed weights.
    config: Any = getattr(model, "config", None)
    tensors = [
        (key, value)
        for part in get_parts(model).modules
        for own in (part._parameters, part._buffers)
        for key, value in own.items()
        if value is not None
    ]
    settings = repr(vars(config)) if hasattr(config, "__dict__") else repr(config)
    quick_state = _describe_state(settings, tensors)
    known = facts.fingerprint
    if known is not None and known[0] == quick_state:
        return known[2]
    # A quantised layer keeps packed weights, which are no tensors: they are identified by their repr.
    state_dict = sorted(load_resident_state(model).items())
    weights = [(name, value) for name, value in state_dict if isinstance(value, torch.Tensor)]
    packed = [
        f"{name} {value!r}" for name, value in state_dict if not isinstance(value, torch.Tensor)
    ]
    configuration = type(model).__name__
    if hasattr(config, "to_diff_dict"):
        own = {k: v for k, v in config.to_diff_dict().items() if k not in _NO_IDENTITY}
        configuration += json.dumps(own, sort_keys=True, default=str)
    configuration += "".join(packed)
    state = _describe_state(configuration, weights)
    if known is not None and known[1] == state:
        result = known[2]
    else:
        total = sum(value.numel() for _, value in weights)
        step = max(1, -(-total // _MAX_HASHED))
        digest = blake2b(configuration.encode(), digest_size=_DIGEST_BYTES)
        for name, value in weights:
            digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
            flat = value.detach().reshape(-1)[::step].contiguous().cpu()
            digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
        result = f"blake2b{'-sampled' if step > 1 else ''}:{digest.hexdigest()}"
    facts.fingerprint = (None if packed else quick_state, state, result)
    return result


@torch.no_grad()
def _describe_state(settings: str, weights: list[tuple[str, torch.Tensor]]) -> Any:
    """Return settings, and the version, the address and a sample of every weight.

    A weight that was trained, moved or replaced since has another version or address; one that was changed behind
    autograd's back (`.data`) shows in the sample, which is copied from the device in one transfer per dtype.
    """
    # Tensors made under inference_mode count no writes.
    places = [(n, v.data_ptr(), 0 if v.is_inference() else v._version) for n, v in weights]
    groups: dict[Any, list[torch.Tensor]] = {}
    for _, value in weights:
        if value.is_meta:  # offloaded
            continue
        total = value.numel()
        step = max(1, total // 64)
        sample = (
            value.as_strided((-(-total // step),), (step,))  # in one call of PyTorch
            if value.is_contiguous()
            else value.reshape(-1)[::step]
        )
        groups.setdefault((value.device, value.dtype), []).append(sample)
    samples = [torch.cat(parts) for parts in groups.values()]
    sampled = [sample.cpu().view(torch.uint8).numpy().tobytes() for sample in samples]
    return settings, places, sampled
