"""Methods that ask the model again, against the same passes in batches that fill the device."""

from typing import Any

from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import batch_of, forward_only
from bench.speed.shapes import bare

import whence

STEPS = 50


def askers(setting: Setting) -> None:
    """Time leave_one_out and integrated_gradients from lists of ids. About 20 s on an H200."""
    inputs, tokens = (2, 8) if setting.tiny else (8, 128)
    steps = 4 if setting.tiny else STEPS
    model = setting.bert()
    explainer = whence.load(model)
    given = setting.given(inputs, tokens)
    about = setting.about("bert", inputs, tokens)

    def asking(method: str, **params: Any) -> Any:
        return lambda: explainer.explain(given, method=method, params=params, batch_size=inputs)

    with setting.guarded("leave_one_out", **about):
        # Each of n tokens deleted in turn: that many forwards of one token less, in one batch.
        variants = batch_of(model, setting.given(inputs * tokens, tokens - 1)).inputs
        ideal = f"{inputs * tokens} forwards in one batch"
        cases = {ideal: forward_only(model, variants), "leave_one_out": asking("leave_one_out")}
        setting.compare(ideal, cases, {}, **about)
    with setting.guarded("integrated_gradients", **about):
        ideal = f"{inputs * steps} forwards + backwards in one batch"
        passes = bare(model, setting.given(inputs * steps, tokens))
        cases = {ideal: passes, "integrated_gradients": asking("integrated_gradients", steps=steps)}
        setting.compare(ideal, cases, {}, **about)
