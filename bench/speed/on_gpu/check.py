"""Section of gpu.py that checks scores on the GPU, by mask, dtype and kernel, against the CPU in float64."""

import os
from collections.abc import Iterator
from typing import Any

import torch
from bench.speed import random_models
from bench.speed.on_gpu.agreement import compute_agreement, compute_scores
from bench.speed.on_gpu.comparable_models import copy_model, sharpen_attention
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_batch

from whence.kernels.contract import Implementation

METHODS = (
    "generic_attention", "attcat", "rollout", "raw_attention", "attention_gradcam", "grad_x_input",
    "transformer_attribution", "attn_lrp",
)  # fmt: skip
# Rounding in float32 stays far below this; an error in a kernel does not.
LIMIT = {"float32": 1e-3}
_WITH_FLOAT16 = "causal, shared keys, padded"


def check_numbers(setting: Setting) -> None:
    """Compare every kind of mask, dtype and implementation with the CPU. 60 to 90 s on an H200, mostly compiling."""
    cpu = torch.device("cpu")
    for name, model, row, lengths in _iterate_models(setting.tiny):
        given = _build_inputs(lengths)
        exact = copy_model(model, torch.float64, cpu)
        reference = compute_scores(
            setting, exact, given, METHODS, {"mask": name, "dtype": "float64"}, "tiled"
        )
        for dtype, implementations in _list_ways(setting, name).items():
            there = copy_model(model, getattr(torch, dtype), setting.clock.device)
            batch = build_batch(there, given)
            found = {}
            for one in implementations:
                about = {"mask": name, "dtype": dtype, "kernels": one}
                scores = compute_scores(setting, there, given, [*reference], about, one)
                told = compute_agreement(scores, reference, batch, row)
                _log_agreement(setting, told, **about, against="CPU, float64")
                found[one] = scores
            if len(found) == 2:
                both = {
                    name: found["fused"][name] for name in found["fused"] if name in found["tiled"]
                }
                told = compute_agreement(both, found["tiled"], batch, row)
                _log_agreement(
                    setting, told, mask=name, dtype=dtype, kernels="fused", against="tiled"
                )


def _list_ways(setting: Setting, mask: str) -> dict[str, tuple[Implementation, ...]]:
    """Return dtypes, and the implementations to try in each; float16 once, as every dtype compiles anew."""
    fuses = setting.clock.cuda or os.environ.get("TRITON_INTERPRET") == "1"
    both: tuple[Implementation, ...] = ("tiled", "fused") if fuses else ("tiled",)
    halves = [one for one in setting.halves if one != "float16" or mask == _WITH_FLOAT16]
    return dict.fromkeys(("float32", *halves), both)


def _log_agreement(setting: Setting, told: dict[str, dict[str, float]], **about: Any) -> None:
    for name, values in told.items():
        limit = LIMIT.get(about["dtype"])
        held = None if limit is None else values["off"] <= limit
        setting.log.add(name, **about, **values, limit=limit, held=held)


def _build_inputs(lengths: tuple[int, ...]) -> dict[str, list[list[int]]]:
    """Return inputs of several lengths; the shorter ones will be padded."""
    longest = random_models.build_inputs(len(lengths), max(lengths), 1000)
    return {
        name: [row[:length] for row, length in zip(rows, lengths, strict=True)]
        for name, rows in longest.items()
    }


def _iterate_models(tiny: bool) -> Iterator[tuple[str, Any, int, tuple[int, ...]]]:
    """Yield the kind of mask, a model on the CPU, the read row, and the lengths of the inputs."""
    long, short = ((20, 20), (20, 13)) if tiny else ((300, 300), (300, 157))
    width, heads = (32, 2) if tiny else (256, 4)
    encoder = sharpen_attention(random_models.build_bert(3, width, heads))
    yield "all see all", encoder, 0, long
    yield "all see all, padded", encoder, 0, short
    decoder = sharpen_attention(
        random_models.build_llama(3, width, heads, heads // 2, 2 * width, longest=512)
    )
    yield "causal, shared keys", decoder, -1, long
    yield "causal, shared keys, padded", decoder, -1, short
    window = sharpen_attention(_build_windowed_model(width, heads, 8 if tiny else 64))
    yield "a sliding window", window, -1, long
    yield "a sliding window, padded", window, -1, short


def _build_windowed_model(width: int, heads: int, window: int) -> Any:
    from transformers import MistralConfig, MistralForSequenceClassification

    config = MistralConfig(
        vocab_size=1000, num_hidden_layers=3, hidden_size=width, num_attention_heads=heads,
        num_key_value_heads=heads // 2, intermediate_size=2 * width, sliding_window=window,
        max_position_embeddings=512, pad_token_id=0, num_labels=2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(random_models.SEED)
        return MistralForSequenceClassification(config).eval().requires_grad_(False)
