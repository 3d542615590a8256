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


@contextmanager
def override_fingerprint(model: torch.nn.Module, what: str) -> Iterator[None]:
    """Give the model another fingerprint while it is altered, and restore its own afterwards.

    It is the hash of the model's own fingerprint and `what`, which identifies the change without hashing all weights.
    Explanations of other threads wait until the model is restored.
    """
    facts, own = get_facts(model), compute_fingerprint(model)
    before = facts.override
    changed = f"{own.partition(':')[0]}:{_start_digest(f'{own} {what}'.encode()).hexdigest()}"
    facts.override = (get_ident(), changed, before[2] if before else own)
    try:
        yield
    finally:
        facts.override = before


def is_altered(model: torch.nn.Module) -> bool:
    """Return whether the model is being altered now."""
    return get_facts(model).override is not None


def _start_digest(start: bytes) -> blake2b:
    return blake2b(start, digest_size=16)


def compute_fingerprint(model: torch.nn.Module) -> str:
    """Return "blake2b:..." of all weights, or "blake2b-sampled:..." for very large models."""
    facts = get_facts(model)
    if facts.override is not None:
        thread, here, elsewhere = facts.override
        return here if thread == get_ident() else elsewhere
    quick_state = _compute_quick_state(model)
    known = facts.fingerprint
    if known is not None and quick_state is not None and known[0] == quick_state:
        return known[2]
    # A quantised layer keeps packed weights, which are no tensors: they are identified by their repr.
    state_dict = sorted(load_resident_state(model).items())
    weights = [(name, value) for name, value in state_dict if isinstance(value, torch.Tensor)]
    packed = [
        f"{name} {value!r}" for name, value in state_dict if not isinstance(value, torch.Tensor)
    ]
    configuration = _format_configuration(model) + "".join(packed)
    # A weight that was trained, moved or replaced since has another version or address; one that was changed
    # behind autograd's back (`.data`) shows in a sample of its numbers.
    state = (
        configuration,
        [(n, v.data_ptr(), 0 if v.is_inference() else v._version) for n, v in weights],
        _sample_weights(weights),
    )
    quick_state = None if packed else quick_state
    if known is not None and known[1] == state:
        facts.fingerprint = (quick_state, state, known[2])
        return known[2]
    total = sum(value.numel() for _, value in weights)
    step = max(1, -(-total // _MAX_HASHED))
    digest = _start_digest(configuration.encode())
    for name, value in weights:
        digest.update(f"{name} {tuple(value.shape)} {value.dtype}".encode())
        flat = value.detach().reshape(-1)[::step].contiguous().cpu()
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    result = f"blake2b{'-sampled' if step > 1 else ''}:{digest.hexdigest()}"
    facts.fingerprint = (quick_state, state, result)
    return result


def _compute_quick_state(model: torch.nn.Module) -> Any:
    """Return a cheap state of the model: equal states mean that nothing has changed.

    It takes a fraction of a forward pass. It may differ though nothing relevant changed, and misses packed weights.
    """
    named = [
        (key, value)
        for part in get_parts(model).modules
        for tensors in (part._parameters, part._buffers)
        for key, value in tensors.items()
        if value is not None
    ]
    config = getattr(model, "config", None)
    text = repr(vars(config)) if hasattr(config, "__dict__") else repr(config)
    # Tensors made under inference_mode count no writes.
    return (
        text,
        [(n, v.data_ptr(), 0 if v.is_inference() else v._version) for n, v in named],
        _sample_weights(named),
    )


@torch.no_grad()
def _sample_weights(weights: list[tuple[str, torch.Tensor]]) -> list[bytes]:
    """Return a sample of every weight, copied from the device in one transfer per dtype."""
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
    return [sample.cpu().view(torch.uint8).numpy().tobytes() for sample in samples]


def _format_configuration(model: torch.nn.Module) -> str:
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
