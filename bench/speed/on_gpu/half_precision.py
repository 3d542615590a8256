"""Section of gpu.py that compares scores in bfloat16 and float16 with float32, on the same weights."""

import torch
from bench.speed import materialised
from bench.speed.on_gpu.agreement import TOP, compute_agreement, compute_scores
from bench.speed.on_gpu.comparable_models import copy_model, sharpen_attention
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_batch

METHODS = (
    "raw_attention", "rollout", "generic_attention", "attention_gradcam", "attcat", "grad_x_input",
    "transformer_attribution", "attn_lrp",
)  # fmt: skip


def measure_precision(setting: Setting) -> None:
    """Compare bfloat16 and float16 with float32. About 30 s on an H200."""
    sizes = {"bert": (8, 128), "llama": (4, 512)}
    if setting.tiny:
        sizes = {"bert": (2, 16), "llama": (2, 16)}
    for kind, (inputs, tokens) in sizes.items():
        single = sharpen_attention(
            copy_model(getattr(setting, kind)(torch.float32), torch.float32, setting.clock.device)
        )
        given, row = setting.build_inputs(inputs, tokens), 0 if kind == "bert" else -1
        reference = compute_scores(
            setting, single, given, METHODS, setting.describe(kind, inputs, tokens)
        )
        for dtype in setting.halves:
            about = {"model": kind, "dtype": dtype, "inputs": inputs, "tokens": tokens}
            by_chance = {"against": "float32", "top_by_chance": min(1.0, TOP / (tokens - 1))}
            with setting.guard("precision", **about):
                half = copy_model(single, getattr(torch, dtype), setting.clock.device)
                batch = build_batch(half, given)
                scores = compute_scores(setting, half, given, [*reference], about)
                for name, told in compute_agreement(scores, reference, batch, row).items():
                    setting.log.add(name, **about, **by_chance, **told)
                plain = materialised.build_generic_attention(half, batch.inputs, row)()
                told = compute_agreement(
                    plain, {"generic_attention": reference["generic_attention"]}, batch, row
                )["generic_attention"]
                setting.log.add(
                    "generic_attention, all of it in half precision", **about, **by_chance, **told
                )
        del single
        setting.clock.clear()
