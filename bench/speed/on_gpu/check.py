"""Numbers on the device against the CPU path in float64, on the same weights."""

import os
from collections.abc import Iterator
from typing import Any

import torch
from bench.speed import shapes
from bench.speed.on_gpu.agreement import agreement, scores_of
from bench.speed.on_gpu.same import moved, sharpened
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import batch_of

from whence.kernels import Implementation

METHODS = (
    "generic_attention", "attcat", "rollout", "raw_attention", "attention_gradcam", "grad_x_input",
    "transformer_attribution", "attn_lrp",
)  # fmt: skip
# Arithmetic in float32 lands far under this; nothing that is wrong does.
LIMIT = {"float32": 1e-3}
_WITH_FLOAT16 = "causal, shared keys, padded"


def check(setting: Setting) -> None:
    """Hold every kind of mask, dtype and implementation to the CPU. 60 to 90 s on an H200, most of it compiling."""
    cpu = torch.device("cpu")
    for name, model, row, lengths in _subjects(setting.tiny):
        given = _given(lengths)
        exact = moved(model, torch.float64, cpu)
        reference = scores_of(
            setting, exact, given, METHODS, {"mask": name, "dtype": "float64"}, "tiled"
        )
        for dtype, implementations in _ways(setting, name).items():
            there = moved(model, getattr(torch, dtype), setting.clock.device)
            batch = batch_of(there, given)
            found = {}
            for one in implementations:
                about = {"mask": name, "dtype": dtype, "kernels": one}
                scores = scores_of(setting, there, given, [*reference], about, one)
                told = agreement(scores, reference, batch, row)
                _log(setting, told, **about, against="CPU, float64")
                found[one] = scores
            if len(found) == 2:
                both = {
                    name: found["fused"][name] for name in found["fused"] if name in found["tiled"]
                }
                told = agreement(both, found["tiled"], batch, row)
                _log(setting, told, mask=name, dtype=dtype, kernels="fused", against="tiled")


def _ways(setting: Setting, mask: str) -> dict[str, tuple[Implementation, ...]]:
    """Return dtypes, and the implementations to try in each; float16 once is enough, as every dtype compiles anew."""
    fuses = setting.clock.cuda or os.environ.get("TRITON_INTERPRET") == "1"
    both: tuple[Implementation, ...] = ("tiled", "fused") if fuses else ("tiled",)
    halves = [one for one in setting.halves if one != "float16" or mask == _WITH_FLOAT16]
    return dict.fromkeys(("float32", *halves), both)


def _log(setting: Setting, told: dict[str, dict[str, float]], **about: Any) -> None:
    for name, values in told.items():
        limit = LIMIT.get(about["dtype"])
        held = None if limit is None else values["off"] <= limit
        setting.log.add(name, **about, **values, limit=limit, held=held)


def _given(lengths: tuple[int, ...]) -> dict[str, list[list[int]]]:
    """Return inputs of several lengths; the shorter ones will be padded."""
    longest = shapes.encoded(len(lengths), max(lengths), 1000)
    return {
        name: [row[:length] for row, length in zip(rows, lengths, strict=True)]
        for name, rows in longest.items()
    }


def _subjects(tiny: bool) -> Iterator[tuple[str, Any, int, tuple[int, ...]]]:
    """Yield what the mask is like, a model on the CPU, the row that is read, and the lengths of the inputs."""
    long, short = ((20, 20), (20, 13)) if tiny else ((300, 300), (300, 157))
    width, heads = (32, 2) if tiny else (256, 4)
    encoder = sharpened(shapes.bert(3, width, heads))
    yield "all see all", encoder, 0, long
    yield "all see all, padded", encoder, 0, short
    decoder = sharpened(shapes.llama(3, width, heads, heads // 2, 2 * width, longest=512))
    yield "causal, shared keys", decoder, -1, long
    yield "causal, shared keys, padded", decoder, -1, short
    window = sharpened(_windowed(width, heads, 8 if tiny else 64))
    yield "a sliding window", window, -1, long
    yield "a sliding window, padded", window, -1, short


def _windowed(width: int, heads: int, window: int) -> Any:
    from transformers import MistralConfig, MistralForSequenceClassification

    config = MistralConfig(
        vocab_size=1000, num_hidden_layers=3, hidden_size=width, num_attention_heads=heads,
        num_key_value_heads=heads // 2, intermediate_size=2 * width, sliding_window=window,
        max_position_embeddings=512, pad_token_id=0, num_labels=2,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(shapes.SEED)
        return MistralForSequenceClassification(config).eval().requires_grad_(False)
