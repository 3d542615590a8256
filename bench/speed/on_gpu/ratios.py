"""Explaining against the model's own passes: the table of the targets."""

from typing import Any

from bench.speed.floors import relevance_floor
from bench.speed.measuring import Case
from bench.speed.on_gpu.setting import Setting
from bench.speed.passes import TEN, TEN_WITH_RELEVANCE, reading
from bench.speed.shapes import bare

import whence

BARE = "bare forward + backward"
# Inputs and tokens, and what is allowed against the bare passes.
BERT = {(1, 128): 1.3, (64, 128): 1.15, (32, 512): 1.15}
LLAMA = {(1, 2048): 1.1, (1, 8192): 1.1, (1, 32768): 1.2}
PEAK = 1.1
RELEVANCE = 1.5
TOGETHER = 2.0


def sizes(setting: Setting, model: str) -> dict[tuple[int, int], float]:
    """Return inputs and tokens, and the target there."""
    if not setting.tiny:
        return BERT if model == "bert" else LLAMA
    return {(2, 8): 1.3, (3, 16): 1.15} if model == "bert" else {(1, 16): 1.1, (1, 32): 1.2}


def bert(setting: Setting) -> None:
    """Time generic_attention on BERT-base's shape. About 20 s on an H200, most of it compiling."""
    _generic_attention(setting, "bert")


def llama(setting: Setting) -> None:
    """Time generic_attention on the Llama shape. About 40 s on an H200: 32,768 tokens take 1 s a run."""
    _generic_attention(setting, "llama")


def _generic_attention(setting: Setting, kind: str) -> None:
    model = getattr(setting, kind)()
    for (inputs, tokens), target in sizes(setting, kind).items():
        about = setting.about(kind, inputs, tokens)
        with setting.guarded("generic_attention", **about):
            given = setting.given(inputs, tokens)
            batch = setting.batch(model, given)
            cases = {
                BARE: bare(model, given),
                "generic_attention": reading(model, batch, "generic_attention"),
            }
            setting.compare(BARE, cases, {"generic_attention": target}, **about)
        if kind == "llama":
            name = "generic_attention, checkpoint"
            with setting.guarded(name, **about):
                again = reading(model, batch, "generic_attention", checkpoint=True)
                setting.compare(BARE, {BARE: bare(model, given), name: again}, {}, **about)
        # What it would be without the fused kernels, and what a user sees who starts from ids as lists: slower, and
        # measured apart, so that they do not disturb the others.
        if setting.quick or tokens > 8192:
            continue
        with setting.guarded("generic_attention, tiled", **about):
            tiled = reading(model, batch, "generic_attention", "tiled")
            cases = {BARE: bare(model, given), "generic_attention, tiled": tiled}
            setting.compare(BARE, cases, {}, **about)
        with setting.guarded("explain: from lists of ids to Explanation objects", **about):
            _explanations(setting, model, given, about)


def _explanations(setting: Setting, model: Any, given: Any, about: dict[str, Any]) -> None:
    explainer = whence.load(model)

    def explain() -> Any:
        return explainer.explain(
            given, method="generic_attention", batch_size=len(given["input_ids"])
        )

    name = "explain: from lists of ids to Explanation objects"
    cases: dict[str, Case] = {BARE: bare(model, given), name: explain}
    setting.compare(BARE, cases, {}, **about)


def relevance(setting: Setting) -> None:
    """Time transformer_attribution against its floor, on all six shapes. 60 to 120 s on an H200."""
    for kind in ("bert", "llama"):
        model = getattr(setting, kind)()
        for inputs, tokens in sizes(setting, kind):
            about = setting.about(kind, inputs, tokens)
            with setting.guarded("transformer_attribution", **about):
                _relevance(setting, model, about)


def _relevance(setting: Setting, model: Any, about: dict[str, Any]) -> None:
    given = setting.given(about["inputs"], about["tokens"])
    batch = setting.batch(model, given)
    ours, gradient = reading(model, batch, "transformer_attribution"), bare(model, given)
    # The operands of the floor stay in memory as long as it does: what the method takes is measured without them.
    peak, least = setting.clock.peak(ours), setting.clock.peak(gradient)
    ratio = peak / least if peak and least else None
    setting.log.add(
        "transformer_attribution, memory", **about, peak=peak, bare=least, peak_ratio=ratio
    )
    cases = {
        "forward, gradient and relevance of the linear layers": relevance_floor(model, batch),
        "transformer_attribution": ours,
        BARE: gradient,
    }
    targets = {"transformer_attribution": RELEVANCE}
    setting.compare(next(iter(cases)), cases, targets, weighed=False, **about)


def together(setting: Setting) -> None:
    """Time ten readers together against one of them. About 30 s on an H200."""
    shape = {"bert": (32, 512), "llama": (1, 2048)}
    if setting.tiny:
        shape = {"bert": (2, 16), "llama": (1, 16)}
    for kind, (inputs, tokens) in shape.items():
        model = getattr(setting, kind)()
        batch = setting.batch(model, setting.given(inputs, tokens))
        about = setting.about(kind, inputs, tokens)
        for one, ten in (
            ("generic_attention", TEN),
            ("transformer_attribution", TEN_WITH_RELEVANCE),
        ):
            name = f"ten readers, {one} among them"
            with setting.guarded(name, **about, readers=list(ten)):
                cases = {one: reading(model, batch, one), name: reading(model, batch, ten)}
                setting.compare(one, cases, {name: TOGETHER}, **about, readers=list(ten))
