"""Cost of each method, and of all trace methods together, against the bare passes and against Captum.

    python bench/methods.py [--threads N] [--repeats N] [--share SECONDS] [--limit SECONDS] [--json FILE]

The bare pass is that of bench/explain.py: one forward and one backward of the same model on the same tokens. The
methods are those that are registered, with their default parameters. Captum gets the same texts, the same number of
samples, steps and windows, and may batch as many perturbations; both start from text. Runs are interleaved and
medians compared. What would take longer than the limit is left out, and said so.
"""

import argparse
import json
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from explain import MODELS, ROOT, SENTENCE, build_bare_pass, collect_provenance, measure_medians

import whence
from whence.methods import is_trace_method, method

BARE = "bare forward + backward"
TOGETHER = "all {} readers together"
RESULTS = ROOT / "bench" / "results" / "methods.jsonl"
AT_ONCE = 64  # perturbations in one batch, as in whence


def build_own_cases(explainer: Any, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """Return a case for every method, and one for all readers."""
    readers = [entry.name for entry in method if is_trace_method(entry)]
    wanted: dict[str, Any] = {name: name for name in method.names()}
    wanted[TOGETHER.format(len(readers))] = readers
    return {what: partial(explainer.explain, texts, method=names) for what, names in wanted.items()}


def build_captum_cases(explainer: Any, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """Return Captum's version of the methods it has too, under the names of ours."""
    from captum import attr

    model, tokenizer = explainer.model, explainer.tokenizer
    table = model.get_input_embeddings()
    hole = explainer.fillers.get("mask", explainer.fillers.get("pad", 0))
    default = {
        entry.name: {p.name: p.default for p in entry.parameters.values()} for entry in method
    }

    def compute_logits(embedded: Any, mask: Any) -> Any:
        return model(inputs_embeds=embedded, attention_mask=mask).logits

    def compute_probabilities(ids: Any, mask: Any) -> Any:
        return model(input_ids=ids, attention_mask=mask.expand_as(ids)).logits.softmax(-1)

    def encode(given: list[str]) -> tuple[Any, Any, Any]:
        inputs = tokenizer(given, return_tensors="pt", padding=True)
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        with torch.inference_mode():
            target = compute_probabilities(ids, mask).argmax(-1)
        return ids, mask, target.clone()

    def grad_x_input() -> Any:
        ids, mask, target = encode(texts)
        method = attr.InputXGradient(compute_logits)
        return method.attribute(
            table(ids).detach().requires_grad_(), target=target, additional_forward_args=(mask,)
        ).sum(-1)

    def integrated_gradients() -> Any:
        ids, mask, target = encode(texts)
        start = table(torch.full_like(ids, explainer.fillers["pad"])).detach()
        found = attr.IntegratedGradients(compute_logits).attribute(
            table(ids).detach(), start, target=target, additional_forward_args=(mask,),
            n_steps=default["integrated_gradients"]["steps"], method="gausslegendre", internal_batch_size=AT_ONCE,
        )  # fmt: skip
        return found.sum(-1)

    @torch.no_grad()
    def occlusion() -> Any:
        ids, mask, target = encode(texts)
        return attr.Occlusion(compute_probabilities).attribute(
            ids, (default["occlusion"]["window"],), baselines=hole, target=target,
            additional_forward_args=(mask,), perturbations_per_eval=max(1, AT_ONCE // len(texts)),
        )  # fmt: skip

    @torch.no_grad()
    def run_sampling(kind: Any, samples: int) -> Any:
        # Captum fits one input at a time.
        for text in texts:
            ids, mask, target = encode([text])
            special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
            kind(compute_probabilities).attribute(
                ids, torch.where(special, ids, hole), target=target, additional_forward_args=(mask,),
                n_samples=samples, perturbations_per_eval=AT_ONCE,
            )  # fmt: skip

    known: dict[str, Callable[[], Any]] = {
        "grad_x_input": grad_x_input,
        "integrated_gradients": integrated_gradients,
        "occlusion": occlusion,
    }
    if find_spec("sklearn"):
        for name, kind in (("lime", attr.Lime), ("kernel_shap", attr.KernelShap)):
            known[name] = partial(run_sampling, kind, default[name]["samples"])
    return {f"captum {name}": case for name, case in known.items()}


def measure(explainer: Any, batch: int, options: Any, single: dict[str, float]) -> dict[str, float]:
    """Measure all cases on a batch, without those that took too long on a single input."""
    texts = [SENTENCE] * batch
    cases: dict[str, Callable[[], Any]] = {
        BARE: build_bare_pass(explainer, texts),
        **build_own_cases(explainer, texts),
    }
    if find_spec("captum"):
        cases.update(build_captum_cases(explainer, texts))
    expected = {name: batch * single.get(name, 0.0) for name in cases}
    for name, seconds in expected.items():
        if seconds > options.limit and name != BARE:
            print(f"left out: {name} on {batch} inputs, about {seconds:.0f} s")
            del cases[name]
    return measure_medians(cases, options.repeats, options.share)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--share", type=float, default=5, help="seconds of measuring for a case")
    parser.add_argument("--limit", type=float, default=60, help="seconds a case may take")
    parser.add_argument("--model", choices=MODELS, action="append", help="one of them, not all")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    facts = collect_provenance(options.threads)
    if find_spec("captum"):
        facts["captum"] = version("captum")
    else:
        print("captum is not installed; whence is measured alone")
    rows = []
    for name in options.model or MODELS:
        where = MODELS[name]
        if isinstance(where, Path) and not where.is_dir():
            print(f"{name} skipped: {where.name} is not there")
            continue
        explainer = whence.load(where)
        tokens = len(explainer.tokenizer(SENTENCE)["input_ids"])
        single: dict[str, float] = {}
        for batch in (1, 32):
            seconds = measure(explainer, batch, options, single)
            single = single or seconds
            title = f"{name}, {batch} x {tokens} tokens"
            print(f"\n{title:36} {'ms':>9} {'x bare':>8} {'captum / ours':>14}")
            for what, value in seconds.items():
                theirs = seconds.get(f"captum {what}")
                ratio = {"ratio": value / seconds[BARE], "captum_ratio": theirs and theirs / value}
                shown = f"{theirs / value:14.2f}" if theirs else ""
                print(f"{what:36} {value * 1e3:9.1f} {ratio['ratio']:8.2f} {shown}")
                rows.append({"model": name, "batch": batch, "tokens": tokens, "what": what,
                             "seconds": value, **ratio})  # fmt: skip
    options.json.parent.mkdir(parents=True, exist_ok=True)
    with options.json.open("a") as stream:
        stream.writelines(json.dumps({**facts, **row}) + "\n" for row in rows)


if __name__ == "__main__":
    main()
