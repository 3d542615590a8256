"""NLI and question answering: small heads fitted, their explanations tested; results and page written.

    python -m bench.science.tasks [nli] [answers] [--shared DIR] [--device D] [--limit N] [--out FILE] [--page]

The results are kept in bench/results/tasks.json, without the texts; --page measures nothing and only writes
docs/science/tasks.md from what is there. Runs from the source: PYTHONPATH=src:.
"""

import argparse
import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench.science.task_heads import (
    LABELS,
    LONGEST,
    compute_exact_match,
    compute_overlap,
    fit_answer_head,
    fit_nli_head,
    load_rows,
    split_by_article,
)
from bench.science.tasks_page import render_page
from bench.science.transformers import RESULTS, ROOT, SHARED, round_numbers

import whence
from whence.core.files import write_text
from whence.data.dataset import read_dataset
from whence.data.eraser import RationaleSpan, flag_rationale
from whence.data.example import Example
from whence.explain.explainer import Explainer
from whence.stats.intervals import bootstrap

RESULT = RESULTS / "tasks.json"
PAGE = ROOT / "docs" / "science" / "tasks.md"
BASE = "models/minilm-base"
NLI = ("data/nli/esnli_dev.jsonl.gz", "data/nli/esnli_test.jsonl.gz")
ANSWERS = "data/squad_dev_subset/xquad_en.jsonl.gz"
ARTICLES = 12  # of 48, held back
EPOCHS = {"nli": 3, "answers": 8}
METHODS = (
    "raw_attention", "rollout", "attention_gradcam", "attention_gradient", "generic_attention",
    "transformer_attribution", "partial_lrp", "full_lrp", "attn_lrp", "cp_lrp", "attcat", "cat", "norm", "globenc",
    "alti", "value_zeroing", "decompx", "gradient", "grad_x_input", "integrated_gradients", "leave_one_out",
)  # fmt: skip
WEIGHTS = ("attention", "norm", "gradient_x_attention", "relevance")


def build_explainer(model: Any, tokenizer: Any, name: str) -> Explainer:
    """Return an explainer of a fitted model, under a name of its own."""
    tokenizer.model_max_length = LONGEST
    return Explainer(replace(whence.load(model, tokenizer=tokenizer).loaded, name=name))


def measure_nli(options: argparse.Namespace) -> tuple[dict[str, Any], Any]:
    """Fit a model of entailment and measure its explanations: by segment, and by removal."""
    files = [options.shared / name for name in NLI]
    fitted, held = ([row for row in load_rows(file) if row["label"] in LABELS] for file in files)
    started = time.monotonic()
    model, tokenizer = fit_nli_head(options.shared / BASE, fitted, options.device, EPOCHS["nli"])
    seconds = time.monotonic() - started
    explainer = build_explainer(model, tokenizer, "minilm-base, fitted on e-SNLI")
    held = read_dataset([_build_pair(row) for row in held]).draw(options.tested).examples
    said = explainer.predict([one.given for one in held], truncate=True)
    right = [float(p.label == one.label) for p, one in zip(said, held, strict=True)]
    some = read_dataset(held).draw(options.limit).examples
    table = whence.evaluate(
        explainer, some, methods=list(METHODS), metrics=["deletion", "comprehensiveness", "sufficiency"],
    ).to_dict()  # fmt: skip
    found = {
        "data": [_describe_file(file, options.shared) for file in files],
        "fitted_on": len(fitted),
        "seconds": seconds,
        "accuracy": asdict(bootstrap(right, ("nli accuracy",))),
        "segments": measure_segments(explainer, some),
        "between": measure_crossings(explainer, some[:100]),
        **_select_fields(table),
    }
    return found, model


def measure_answers(options: argparse.Namespace, encoder: Any) -> dict[str, Any]:
    """Fit a question answering model and count the gold answer's tokens that explanations find."""
    file = options.shared / ANSWERS
    fitted, held = split_by_article(load_rows(file), ARTICLES)
    started = time.monotonic()
    model, tokenizer = fit_answer_head(
        options.shared / BASE, fitted, options.device, EPOCHS["answers"], encoder
    )
    seconds = time.monotonic() - started
    explainer = build_explainer(model, tokenizer, "minilm-base, fitted on questions of XQuAD")
    given = [_build_question(row) for row in held]
    said = [p.label for p in explainer.predict([one.given for one in given], truncate=True)]
    gold = [row["answers"][0]["text"] for row in held]
    scores = {
        "exact": [compute_exact_match(*pair) for pair in zip(said, gold, strict=True)],
        "f1": [compute_overlap(*pair) for pair in zip(said, gold, strict=True)],
    }
    some = read_dataset(given).draw(options.limit).examples
    right = [one for one, f1 in zip(given, scores["f1"], strict=True) if f1 > 0 and one in some]
    return {
        "data": [_describe_file(file, options.shared)],
        "fitted_on": len(fitted),
        "articles": ARTICLES,
        "seconds": seconds,
        **{name: asdict(bootstrap(values, (name,))) for name, values in scores.items()},
        "all": compute_precision(explainer, some),
        "right": compute_precision(explainer, right),
    }


def compute_precision(explainer: Explainer, given: Sequence[Example]) -> dict[str, Any]:
    """Return Precision@20 as AttCAT's authors count it, with its upper bound."""
    lengths = []
    for number, trial, _ in explainer.trials(
        [one.given for one in given],
        method="random",
        truncate=True,
        marks=lambda i, item, units: flag_rationale(units, item.tokens, given[i].rationale or ()),
    ):  # fmt: skip
        assert trial.marked is not None, number
        lengths.append([sum(trial.marked), len(trial.units)])
    counts = np.array(lengths, dtype=float)
    table = whence.evaluate(
        explainer,
        given,
        methods=list(METHODS),
        metrics=["precision_at_k"],
        metric_params={"precision_at_k": {"preset": "attcat"}},
    ).to_dict()
    return {
        "ceiling": asdict(bootstrap(np.minimum(counts[:, 0], 20), ("ceiling",))),
        "expected": float((counts[:, 0] * np.minimum(20 / counts[:, 1], 1)).mean()),
        "tokens": float(counts[:, 1].mean()),
        **_select_fields(table),
    }


def measure_segments(explainer: Explainer, given: Sequence[Example]) -> list[dict[str, Any]]:
    """Return the part of all scores, by size, on the hypothesis: of all pairs, and by prediction."""
    found: dict[str, list[tuple[str, float]]] = {name: [] for name in METHODS}
    chance = []
    for one in explainer.explain([e.given for e in given], method=list(METHODS), truncate=True):
        first = one[METHODS[0]]
        parts = {part.segment: part.tokens for part in first.segments()}
        chance.append(parts[1] / sum(parts.values()))
        for name, explanation in one.items():
            share = explanation.segments()[1].share
            if share is not None:
                found[name].append((explanation.prediction.label, share))
    result = [{"method": "(tokens)", **asdict(bootstrap(chance, ("tokens",)))}]
    for name, shares in found.items():
        by_label = {
            label: asdict(bootstrap([s for own, s in shares if own == label], (label,)))
            for label in LABELS
            if any(own == label for own, _ in shares)
        }
        every = asdict(bootstrap([share for _, share in shares], (name,)))
        result.append({"method": name, **every, "by_label": by_label})
    return result


def measure_crossings(explainer: Explainer, given: Sequence[Example]) -> list[dict[str, Any]]:
    """Return, by weight and layer, the part of the flow between tokens that crosses from text to text."""
    result = []
    insides = [explainer.inside(one.given, truncate=True) for one in given]
    for weight in WEIGHTS:
        layers: list[list[float]] = [[] for _ in range(insides[0].layers)]
        chance = []
        for inside in insides:
            found = inside.between_segments(weight)
            chance.append(found["chance"])
            for layer, (within, cross) in enumerate(zip(found["within"], found["between"], strict=True)):  # fmt: skip
                if within is not None and within + cross > 0:
                    layers[layer].append(cross / (within + cross))
        by_layer = [asdict(bootstrap(own, (weight, i))) if own else None for i, own in enumerate(layers)]  # fmt: skip
        result.append({"weight": weight, "layers": by_layer, "chance": float(np.mean(chance))})
    return result


def _build_pair(row: Mapping[str, Any]) -> Example:
    return Example((row["premise"].strip(), row["hypothesis"].strip()), row["label"])


def _build_question(row: Mapping[str, Any]) -> Example:
    answer = row["answers"][0]
    span = RationaleSpan(1, answer["answer_start"], answer["answer_start"] + len(answer["text"]))
    return Example((row["question"], row["context"]), None, (span,))


def _select_fields(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an evaluation for the page; none holds texts."""
    names = ("setting", "examples", "methods", "metrics", "cells", "model", "provenance")
    return {name: table[name] for name in names}


def _describe_file(file: Path, shared: Path) -> dict[str, str]:
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return {"name": file.relative_to(shared).as_posix(), "sha256": digest}


def measure(names: Sequence[str], options: argparse.Namespace) -> None:
    """Fit, measure, and store the results; the answering head starts from the fitted NLI model."""
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    found: dict[str, Any] = {}
    if options.out.is_file():
        found = json.loads(options.out.read_text("utf-8"))
    found["machine"] = f"{on}, {os.cpu_count()} cores"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    found["nli"], encoder = measure_nli(options)
    write_text(options.out, json.dumps(round_numbers(found), separators=(",", ":")) + "\n")
    print("nli", found["nli"]["accuracy"], flush=True)
    if "answers" in names:
        found["answers"] = measure_answers(options, encoder)
        write_text(options.out, json.dumps(round_numbers(found), separators=(",", ":")) + "\n")
        print("answers", found["answers"]["exact"], found["answers"]["f1"], flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit and measure the named tasks, or both, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="nli, answers")
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder of models and data")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--limit", type=int, default=200, help="examples to explain")
    parser.add_argument("--tested", type=int, default=3000, help="pairs to measure accuracy on")
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--page", action="store_true", help="write the page, and measure nothing")
    options = parser.parse_args(arguments)
    names = options.names or ["nli", "answers"]
    if unknown := [name for name in names if name not in EPOCHS]:
        sys.exit(f"no {unknown[0]!r}; there are {', '.join(EPOCHS)}")
    if not options.page:
        measure(names, options)
    if options.out == RESULT and RESULT.is_file():
        write_text(PAGE, render_page(json.loads(RESULT.read_text("utf-8"))))


if __name__ == "__main__":
    main()
