"""Sections of gpu.py: generic_attention with and without materialised maps, and 64 inputs batched or singly."""

from typing import Any

import torch
from bench.speed import materialised
from bench.speed.on_gpu.agreement import compute_agreement
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_batch, build_reading

MATERIALISED = "maps written out"
FASTER = 8.0


def measure_written_maps(setting: Setting) -> None:
    """Run generic_attention with maps and without. About 20 s on an H200; at 8,192 tokens the maps do not fit."""
    sizes = [("bert", 32, 512), ("llama", 1, 2048), ("llama", 1, 4096), ("llama", 1, 8192)]
    if setting.tiny:
        sizes = [("bert", 2, 16), ("llama", 1, 16)]
    for kind, inputs, tokens in sizes:
        model = getattr(setting, kind)()
        batch = setting.build_batch(model, setting.build_inputs(inputs, tokens))
        about = setting.describe(kind, inputs, tokens)
        row = 0 if kind == "bert" else -1
        ours = build_reading(model, batch, "generic_attention")
        theirs = materialised.build_generic_attention(model, batch.inputs, row)
        cases = {"generic_attention": ours}
        with setting.guard(MATERIALISED, **about):
            theirs()
            cases[MATERIALISED] = theirs
        with setting.guard("generic_attention", **about):
            setting.compare("generic_attention", cases, {}, **about)
        if MATERIALISED not in cases:
            continue
        with setting.guard(f"{MATERIALISED}, the same scores", **about):
            alike = compute_agreement(ours(), theirs(), batch, row)["generic_attention"]
            setting.log.add(f"{MATERIALISED}, the same scores", **about, **alike)


def measure_batches(setting: Setting) -> None:
    """Explain 64 inputs at once and one after another. About 20 s on an H200."""
    inputs, tokens = (4, 8) if setting.tiny else (64, 128)
    given = setting.build_inputs(inputs, tokens)
    for dtype in dict.fromkeys((setting.describe("bert", 1, 1)["dtype"], "float32")):
        model = setting.bert(getattr(torch, dtype))
        about = {"model": "bert", "dtype": dtype, "inputs": inputs, "tokens": tokens}
        with setting.guard("64 at once", **about):
            every = build_reading(model, build_batch(model, given), "generic_attention")
            singles = [
                build_reading(model, build_batch(model, one), "generic_attention")
                for one in _split_inputs(given)
            ]

            def run_one_by_one(singles: list[Any] = singles) -> list[Any]:
                return [single()["generic_attention"] for single in singles]

            names = f"{inputs} at once", f"{inputs} one after another"
            found = setting.clock.measure_medians(
                {names[0]: every, names[1]: run_one_by_one}, share=6
            )
            together = every()["generic_attention"].double()
            apart = torch.cat(run_one_by_one()).double()
            off = float((together - apart)[:, 1:].abs().max() / together[:, 1:].abs().max())
            faster = found[names[1]].seconds / found[names[0]].seconds
            setting.log.add(
                names[0], **about, seconds=found[names[0]].seconds, n=found[names[0]].n,
                apart=found[names[1]].seconds, faster=faster, at_least=FASTER, off=off,
            )  # fmt: skip


def _split_inputs(given: Any) -> list[dict[str, Any]]:
    return [
        {name: [rows[number]] for name, rows in given.items()}
        for number in range(len(given["input_ids"]))
    ]
