"""Section of gpu.py that times leave_one_out and integrated_gradients against the same passes in one batch."""

from typing import Any

from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import build_batch, build_forward
from bench.speed.random_models import build_bare_pass

import whence

STEPS = 50


def measure_query_methods(setting: Setting) -> None:
    """Time leave_one_out and integrated_gradients from lists of ids. About 20 s on an H200."""
    inputs, tokens = (2, 8) if setting.tiny else (8, 128)
    steps = 4 if setting.tiny else STEPS
    model = setting.bert()
    explainer = whence.load(model)
    given = setting.build_inputs(inputs, tokens)
    about = setting.describe("bert", inputs, tokens)

    def build_case(method: str, **params: Any) -> Any:
        return lambda: explainer.explain(given, method=method, params=params, batch_size=inputs)

    with setting.guard("leave_one_out", **about):
        # Each of n tokens deleted in turn: that many forwards of one token less, in one batch.
        variants = build_batch(model, setting.build_inputs(inputs * tokens, tokens - 1)).inputs
        ideal = f"{inputs * tokens} forwards in one batch"
        cases = {
            ideal: build_forward(model, variants),
            "leave_one_out": build_case("leave_one_out"),
        }
        setting.compare(ideal, cases, {}, **about)
    with setting.guard("integrated_gradients", **about):
        ideal = f"{inputs * steps} forwards + backwards in one batch"
        passes = build_bare_pass(model, setting.build_inputs(inputs * steps, tokens))
        cases = {
            ideal: passes,
            "integrated_gradients": build_case("integrated_gradients", steps=steps),
        }
        setting.compare(ideal, cases, {}, **about)
