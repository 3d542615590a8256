"""Cost of explaining, as a ratio to the bare forward + backward of the same model on the same tokens.

    python bench/explain.py [--threads N] [--repeats N] [--json FILE]

The bare pass: weights frozen, SDPA, gradient of the predicted logits with respect to the embeddings, inputs already
tokenized and padded. Explaining starts from text: tokenizing, batching, the method and the result objects are in it.
Runs are interleaved and medians compared, because machines are noisy; ratios, not seconds, are the result.
"""

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import whence

ROOT = Path(__file__).resolve().parents[1]
MODELS = {"reviews": "reviews", "minilm": ROOT.parent / "shared" / "models" / "minilm-sst2"}
READERS = [
    "raw_attention", "rollout", "gradient", "grad_x_input", "generic_attention", "cat", "attcat",
]  # fmt: skip
SENTENCE = (
    "the plot is thin and the ending can be seen from a mile away but the actors are so wonderful and the music so "
    "moving that nobody will ask for more than these two hours of pure and simple joy"
)


def build_bare_pass(explainer: Any, texts: list[str]) -> Callable[[], None]:
    """Return the floor: one bare forward and backward."""
    model = explainer.model
    inputs = dict(explainer.tokenizer(texts, return_tensors="pt", padding=True))
    table = model.get_input_embeddings()
    ids = inputs.pop("input_ids")

    def run() -> None:
        for weight in model.parameters():
            weight.requires_grad_(False)
        embedded = table(ids).detach().requires_grad_()
        logits = model(inputs_embeds=embedded, **inputs).logits
        torch.autograd.grad(logits.max(-1).values.sum(), embedded)

    return run


def build_cases(explainer: Any, texts: list[str]) -> dict[str, Callable[[], Any]]:
    """Return the cases measured against the floor."""
    given: Any = texts[0] if len(texts) == 1 else texts
    wanted: dict[str, str | list[str]] = {
        f"explain {name}": name
        for name in ("attcat", "generic_attention", "gradient", "leave_one_out")
    }
    wanted[f"explain {len(READERS)} readers together"] = READERS
    return {what: lambda m=m: explainer.explain(given, method=m) for what, m in wanted.items()}


def measure_medians(
    cases: dict[str, Callable[[], Any]], repeats: int, share: float = math.inf
) -> dict[str, float]:
    """Run all cases in turn, over and over, and return each one's median.

    A case that has had its `share` of seconds sits out the rest, once it has been measured.
    """
    seen: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        case()
    for _ in range(repeats):
        for name, case in cases.items():
            if sum(seen[name]) > share:
                continue
            started = time.perf_counter()
            case()
            seen[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seen.items()}


def collect_provenance(threads: int) -> dict[str, Any]:
    """Return commit, versions and machine of a measurement."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    return {
        "commit": commit.stdout.strip(),
        "whence": whence.__version__,
        "torch": torch.__version__,
        "transformers": version("transformers"),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "threads": threads,
    }


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json", type=Path, help="also append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    print(f"{'model':8} {'batch':>5} {'tokens':>6} {'what':32} {'ms':>8} {'x bare':>7}")
    for name, where in MODELS.items():
        if isinstance(where, Path) and not where.is_dir():
            print(f"{name:8} skipped: {where.name} is not there")
            continue
        explainer = whence.load(where)
        for batch in (1, 32):
            texts = [SENTENCE] * batch
            tokens = len(explainer.tokenizer(SENTENCE)["input_ids"])
            cases = {
                "bare forward + backward": build_bare_pass(explainer, texts),
                **build_cases(explainer, texts),
            }
            seconds = measure_medians(
                cases, options.repeats if batch == 1 else max(3, options.repeats // 3)
            )
            floor = seconds["bare forward + backward"]
            for what, value in seconds.items():
                print(
                    f"{name:8} {batch:5} {tokens:6} {what:32} {value * 1e3:8.1f} {value / floor:7.2f}"
                )
                rows.append({"model": name, "batch": batch, "tokens": tokens, "what": what,
                             "seconds": value, "ratio": value / floor})  # fmt: skip
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        with options.json.open("a") as stream:
            stream.writelines(
                json.dumps({**collect_provenance(options.threads), **row}) + "\n" for row in rows
            )


if __name__ == "__main__":
    main()
