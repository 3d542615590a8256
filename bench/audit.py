"""Speed-up by batching in an audit: adversary and leave-one-out, against one input or token at a time.

    python bench/audit.py [adversary] [leave_one_out] [--threads N] [--repeats N] [--texts N] [--steps N]
                          [--model NAME] [--json FILE]

adversary: all inputs in batches, against the same search for one input after the other; K = 5 candidates are together
in either, as in Jain & Wallace's code. Fewer steps than its 500: each takes the same.
leave_one_out: whence, against a loop that deletes one token and runs the model, as the scripts that come with papers
have it. Both sides must agree. Runs are interleaved and medians compared; ratios, not seconds, are the result.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from explain import MODELS, ROOT, collect_provenance, measure_medians

import whence
from whence.data.dataset import read_dataset
from whence.explain.inputs import encode_inputs
from whence.models.rnn import AttentiveConfig, build_word_tokenizer, initialise_model
from whence.studies.audit.adversary import SearchOptions, find_adversaries
from whence.studies.audit.importance import leave_one_out
from whence.studies.audit.subject import AuditSubject

SST2 = ROOT.parent / "shared" / "data" / "sst2_glue" / "dev.tsv"
RESULTS = ROOT / "bench" / "results" / "audit.jsonl"
SLACK = 1e-5  # between batches of another shape, in float32

Row = dict[str, Any]


def build_attentive_model(texts: Sequence[str]) -> Any:
    """Return an untrained BiLSTM with attention, of Jain & Wallace's size."""
    tokenizer = build_word_tokenizer(texts)
    return whence.load(
        initialise_model(AttentiveConfig(vocab_size=len(tokenizer)), 0), tokenizer=tokenizer
    )


def build_subject(explainer: Any, texts: Sequence[str]) -> AuditSubject:
    """Return the audit subject of a model and texts, with no query made yet."""
    items, _ = encode_inputs(list(texts), explainer.loaded, truncate=False)
    return AuditSubject(explainer.loaded, items, None)


def search_together(explainer: Any, texts: Sequence[str], search: SearchOptions) -> list[float]:
    """Search for all texts together; return the largest divergence of each."""
    subject = build_subject(explainer, texts)
    (found,) = find_adversaries(subject, search, subject.sites)
    return [float(one.jsd.max()) for one in found]


def search_one_by_one(explainer: Any, texts: Sequence[str], search: SearchOptions) -> list[float]:
    """Search for one text after the other."""
    return [far for text in texts for far in search_together(explainer, [text], search)]


def leave_out_tokens(explainer: Any, texts: Sequence[str]) -> list[float]:
    """Remove every token of every text in turn, by whence."""
    return np.concatenate(leave_one_out(build_subject(explainer, texts), remove="delete")).tolist()


def leave_out_in_loop(explainer: Any, texts: Sequence[str]) -> list[float]:
    """Remove every token of every text in turn, one run of the model at a time."""
    found = []
    for text in texts:
        encoded = explainer.tokenizer(text, return_special_tokens_mask=True)
        special = encoded.pop("special_tokens_mask")
        features = {name: torch.tensor([values]) for name, values in encoded.items()}
        with torch.inference_mode():
            whole = explainer.model(**features).logits.double().softmax(-1)
            for place in np.flatnonzero(np.array(special) == 0):
                kept = [at for at in range(len(special)) if at != place]
                left = {name: values[:, kept] for name, values in features.items()}
                shares = explainer.model(**left).logits.double().softmax(-1)
                found.append(float((shares - whole).abs().sum() / 2))
    return found


def measure(
    part: str, cases: dict[str, Callable[[], list[float]]], repeats: int, **facts: Any
) -> list[Row]:
    """Time both implementations, and check that their results agree."""
    apart = float(np.abs(np.subtract(*[case() for case in cases.values()])).max())
    if apart > SLACK:
        sys.exit(f"{part}: {' and '.join(cases)} differ by {apart:.2g}")
    seconds = measure_medians(cases, repeats)
    fastest = seconds[next(iter(cases))]
    return [
        {"part": part, "by": by, "seconds": taken, "ratio": taken / fastest, "apart": apart, **facts}
        for by, taken in seconds.items()
    ]  # fmt: skip


def main() -> None:
    """Measure, print and store the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="adversary, leave_one_out; both by default"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--texts", type=int, default=32)
    parser.add_argument("--steps", type=int, default=50)
    names = ["attentive", *MODELS]
    parser.add_argument("--model", choices=names, action="append", help="one of them, not all")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if not SST2.is_file():
        sys.exit(f"skipped: {SST2.name} of SST-2 is not there")
    texts = [str(one.given) for one in read_dataset(SST2).draw(options.texts).examples]
    facts = {
        **collect_provenance(options.threads),
        "texts": len(texts),
        "data": "SST-2 dev, seed 0",
    }
    search = SearchOptions(steps=options.steps)
    for name in options.model or names:
        where = MODELS.get(name)
        if isinstance(where, Path) and not where.is_dir():
            print(f"{name} skipped: {where.name} is not there")
            continue
        explainer = (
            build_attentive_model(texts) if where is None else whence.load(where, device="cpu")
        )
        found: list[Row] = []
        if "adversary" in (options.parts or ["adversary"]):
            cases = {"batched": partial(search_together, explainer, texts, search),
                     "one by one": partial(search_one_by_one, explainer, texts, search)}  # fmt: skip
            found += measure("adversary", cases, options.repeats, steps=options.steps)
        if "leave_one_out" in (options.parts or ["leave_one_out"]):
            runs = {"batched": partial(leave_out_tokens, explainer, texts),
                    "loop": partial(leave_out_in_loop, explainer, texts)}  # fmt: skip
            found += measure("leave_one_out", runs, options.repeats)
        for row in found:
            print(
                f"{name:10} {row['part']:14} {row['by']:12} {row['seconds'] * 1e3:10.1f} ms {row['ratio']:8.2f}"
            )
        options.json.parent.mkdir(parents=True, exist_ok=True)
        with options.json.open("a") as stream:
            stream.writelines(json.dumps({**facts, "model": name, **row}) + "\n" for row in found)


if __name__ == "__main__":
    main()
