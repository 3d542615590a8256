"""Sections of gpu.py with targets: generic_attention, relevance and ten methods against the model's passes."""

from typing import Any

from bench.speed.floors import build_relevance_floor
from bench.speed.measuring import Case
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import TEN, TEN_WITH_RELEVANCE, build_reading
from bench.speed.random_models import build_bare_pass

import whence

BARE = "bare forward + backward"
# Inputs and tokens, and what is allowed against the bare passes.
BERT = {(1, 128): 1.3, (64, 128): 1.15, (32, 512): 1.15}
LLAMA = {(1, 2048): 1.1, (1, 8192): 1.1, (1, 32768): 1.2}
PEAK = 1.1
RELEVANCE = 1.5
TOGETHER = 2.0


def get_targets(setting: Setting, model: str) -> dict[tuple[int, int], float]:
    """Return the target by inputs and tokens."""
    if not setting.tiny:
        return BERT if model == "bert" else LLAMA
    return {(2, 8): 1.3, (3, 16): 1.15} if model == "bert" else {(1, 16): 1.1, (1, 32): 1.2}


def measure_bert(setting: Setting) -> None:
    """Time generic_attention on BERT-base's shape. About 20 s on an H200, most of it compiling."""
    _measure_generic_attention(setting, "bert")


def measure_llama(setting: Setting) -> None:
    """Time generic_attention on the Llama shape. About 40 s on an H200: 32,768 tokens take 1 s a run."""
    _measure_generic_attention(setting, "llama")


def _measure_generic_attention(setting: Setting, kind: str) -> None:
    model = getattr(setting, kind)()
    for (inputs, tokens), target in get_targets(setting, kind).items():
        about = setting.describe(kind, inputs, tokens)
        with setting.guard("generic_attention", **about):
            given = setting.build_inputs(inputs, tokens)
            batch = setting.build_batch(model, given)
            cases = {
                BARE: build_bare_pass(model, given),
                "generic_attention": build_reading(model, batch, "generic_attention"),
            }
            setting.compare(BARE, cases, {"generic_attention": target}, **about)
        if kind == "llama":
            name = "generic_attention, checkpoint"
            with setting.guard(name, **about):
                again = build_reading(model, batch, "generic_attention", checkpoint=True)
                setting.compare(
                    BARE, {BARE: build_bare_pass(model, given), name: again}, {}, **about
                )
        # What it would be without the fused kernels, and what a user sees who starts from ids as lists: slower, and
        # measured apart, so that they do not disturb the others.
        if setting.quick or tokens > 8192:
            continue
        with setting.guard("generic_attention, tiled", **about):
            tiled = build_reading(model, batch, "generic_attention", "tiled")
            cases = {BARE: build_bare_pass(model, given), "generic_attention, tiled": tiled}
            setting.compare(BARE, cases, {}, **about)
        with setting.guard("explain: from lists of ids to Explanation objects", **about):
            _measure_explanations(setting, model, given, about)


def _measure_explanations(setting: Setting, model: Any, given: Any, about: dict[str, Any]) -> None:
    explainer = whence.load(model)

    def explain() -> Any:
        return explainer.explain(
            given, method="generic_attention", batch_size=len(given["input_ids"])
        )

    name = "explain: from lists of ids to Explanation objects"
    cases: dict[str, Case] = {BARE: build_bare_pass(model, given), name: explain}
    setting.compare(BARE, cases, {}, **about)


def measure_relevance(setting: Setting) -> None:
    """Time transformer_attribution against its floor, on all six shapes. 60 to 120 s on an H200."""
    for kind in ("bert", "llama"):
        model = getattr(setting, kind)()
        for inputs, tokens in get_targets(setting, kind):
            about = setting.describe(kind, inputs, tokens)
            with setting.guard("transformer_attribution", **about):
                _measure_one_relevance(setting, model, about)


def _measure_one_relevance(setting: Setting, model: Any, about: dict[str, Any]) -> None:
    given = setting.build_inputs(about["inputs"], about["tokens"])
    batch = setting.build_batch(model, given)
    ours, gradient = (
        build_reading(model, batch, "transformer_attribution"),
        build_bare_pass(model, given),
    )
    # The operands of the floor stay in memory as long as it does: what the method takes is measured without them.
    peak, least = setting.clock.measure_peak(ours), setting.clock.measure_peak(gradient)
    ratio = peak / least if peak and least else None
    setting.log.add(
        "transformer_attribution, memory", **about, peak=peak, bare=least, peak_ratio=ratio
    )
    cases = {
        "forward, gradient and relevance of the linear layers": build_relevance_floor(model, batch),
        "transformer_attribution": ours,
        BARE: gradient,
    }
    targets = {"transformer_attribution": RELEVANCE}
    setting.compare(next(iter(cases)), cases, targets, weighed=False, **about)


def measure_together(setting: Setting) -> None:
    """Time ten trace methods together against one of them. About 30 s on an H200."""
    shape = {"bert": (32, 512), "llama": (1, 2048)}
    if setting.tiny:
        shape = {"bert": (2, 16), "llama": (1, 16)}
    for kind, (inputs, tokens) in shape.items():
        model = getattr(setting, kind)()
        batch = setting.build_batch(model, setting.build_inputs(inputs, tokens))
        about = setting.describe(kind, inputs, tokens)
        for one, ten in (
            ("generic_attention", TEN),
            ("transformer_attribution", TEN_WITH_RELEVANCE),
        ):
            name = f"ten readers, {one} among them"
            with setting.guard(name, **about, readers=list(ten)):
                cases = {
                    one: build_reading(model, batch, one),
                    name: build_reading(model, batch, ten),
                }
                setting.compare(one, cases, {name: TOGETHER}, **about, readers=list(ten))
