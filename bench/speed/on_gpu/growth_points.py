"""Section of gpu.py that measures time and memory while length, layers, heads or batch grow."""

from collections.abc import Iterator
from typing import Any

from bench.speed.measuring import Case
from bench.speed.on_gpu.ratios import BARE
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_reading
from bench.speed.random_models import build_bare_pass

METHODS = ("generic_attention", "transformer_attribution")


def measure_growth(setting: Setting) -> None:
    """Grow one variable at a time. 90 to 150 s on an H200; points after the deadline are missing.

    The Llama shape with 4 layers over the length, at 2,048 tokens over layers and heads (each 64 wide); BERT-base's
    shape at 128 tokens over the batch.
    """
    setting.clock.repeats = 3 if setting.clock.repeats < 5 else 5
    for moves, value, kind, shape, inputs, tokens in _iterate_points(setting.tiny):
        about = {"moves": moves, "x": value, **setting.describe(kind, inputs, tokens)}
        with setting.guard("growth", **about):
            model = getattr(setting, kind)(**shape)
            given = setting.build_inputs(inputs, tokens)
            batch = setting.build_batch(model, given)
            cases: dict[str, Case] = {BARE: build_bare_pass(model, given)}
            cases |= {name: build_reading(model, batch, name) for name in METHODS}
            for name, case in cases.items():
                with setting.guard(name, **about):
                    timed = setting.clock.measure_medians({name: case}, share=3, warm=1)[name]
                    peak = setting.clock.measure_peak(case)
                    setting.log.add(name, **about, seconds=timed.seconds, n=timed.n, peak=peak)
        if moves in ("layers", "heads"):
            setting.forget()


def _iterate_points(tiny: bool) -> Iterator[tuple[str, int, str, dict[str, Any], int, int]]:
    """Yield the variable, its value, the model and its shape, inputs and tokens; expensive points come last."""
    if tiny:
        yield from (("length", n, "llama", {"layers": 2}, 1, n) for n in (8, 16, 32))
        yield from (("batch", n, "bert", {}, n, 8) for n in (1, 2))
        return
    yield from (("batch", n, "bert", {}, n, 128) for n in (1, 2, 4, 8, 16, 32, 64))
    yield from (("length", n, "llama", {"layers": 4}, 1, n) for n in (512, 1024, 2048, 4096, 8192))
    yield from (("layers", n, "llama", {"layers": n}, 1, 2048) for n in (2, 4, 8, 16, 32))
    for n in (4, 8, 16, 32, 64):
        shape = {"layers": 4, "heads": n, "key_heads": n // 4, "head_width": 64}
        yield "heads", n, "llama", shape, 1, 2048
    yield from (("length", n, "llama", {"layers": 4}, 1, n) for n in (16384, 32768))
