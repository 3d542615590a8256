"""Comparison of a pre-trained model with its fine-tuned version on SST-2: result stored, page written.

    python -m bench.science.compare [--shared DIR] [--device D] [--limit N] [--out FILE] [--page]

The comparison is kept as bench/results/compare-sst2.json; --page compares nothing and only writes
docs/science/compare.md from what is there. Runs from the source: PYTHONPATH=src:.
"""

import argparse
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from bench.science.transformers import RESULTS, ROOT, SHARED, round_numbers

import whence
from whence.core.files import write_text
from whence.explain.explainer import Explainer
from whence.studies.compare.report import EDGE_KINDS

BASE, TUNED = "models/minilm-base", "models/minilm-sst2"
DATA, TITLE = "data/sst2_glue/dev.tsv", "SST-2, development set"
RESULT = RESULTS / "compare-sst2.json"
PAGE = ROOT / "docs" / "science" / "compare.md"
DRAWN = 200
INTRO = """# What fine-tuning changed

A pre-trained model and the same one fine-tuned, head by head, over a sample of SST-2 that neither was trained on.
Every figure is a mean over the inputs with its 95% bootstrap interval; [compare](../reference/compare.md) says
what the figures are. Written by `make science` from `bench/results/compare-sst2.json`.
"""

Facts = Mapping[str, Any]


def compare_models(options: argparse.Namespace) -> dict[str, Any]:
    """Compare the models, under names that do not depend on the machine."""
    models = [
        Explainer(
            replace(
                # The checkpoints are in half precision.
                whence.load(options.shared / folder, device=options.device, dtype="float32").loaded,
                name=Path(folder).name,
            )
        )
        for folder in (BASE, TUNED)
    ]
    found = whence.compare(*models, options.shared / DATA, limit=options.limit).to_dict()
    found["data"] = {
        **found["data"],
        "name": DATA,
        "title": TITLE,
        "sha256": hashlib.sha256((options.shared / DATA).read_bytes()).hexdigest(),
    }
    on = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine()
    found["provenance"] = {**found["provenance"], "machine": f"{on}, {os.cpu_count()} cores"}
    return found


def format_figure(one: Facts, said: int = 0, digits: int = 3) -> str:
    """Format a mean with its interval, and n where it is not `said`."""
    if one["mean"] is None:
        return "–"
    ends = "" if one["low"] is None else f" [{one['low']:.{digits}f}, {one['high']:.{digits}f}]"
    n = "" if one["n"] == said else f" (n = {one['n']})"
    return f"{one['mean']:.{digits}f}{ends}{n}".replace("-0.000", "0.000")


def format_table(heads: Sequence[str], rows: Iterator[Sequence[str]]) -> list[str]:
    """Format a table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows)]


def iterate_layer_rows(found: Facts) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of layers."""
    used = found["data"]["used"]
    for one in found["layers"]:
        special = (one["special"][side] for side in "ab")
        plain = (one[what] for what in ("divergence", "strangers", "decision"))
        flow = (one[what] for what in ("overlap", "chance"))
        yield [
            str(one["layer"]),
            *(format_figure(cell, used) for cell in (*plain, *special, *flow)),
        ]


def iterate_head_rows(found: Facts) -> Iterator[Sequence[str]]:
    """Yield the rows of the table of heads."""
    used = found["data"]["used"]
    every = {(one["layer"], one["head"]): one for one in found["heads"]}
    for one in found["changed"]["heads"]:
        own = every[one["layer"], one["head"]]
        changes = (own[what]["change"] for what in ("special", "entropy"))
        cells = (one["divergence"], one["decision"], *changes)
        yield [
            f"{one['layer']}.{one['head']}",
            *(format_figure(cell, used) for cell in cells),
            "yes" if one["equal"] else "no",
        ]


def format_paragraph(found: Facts) -> str:
    """Return the paragraph on the changes, with figures from the file."""
    used, by_layer, overlap = found["data"]["used"], found["layers"], found["overlap"]
    first, last, inner = by_layer[0], by_layer[-1], by_layer[1:-1]
    changed, other = found["changed"], overlap["other"]
    special, wider, top = changed["special"], changed["entropy"], changed["heads"][0]
    kinds = {one["name"]: one["figures"] for one in found["specials"]}
    means = [one["divergence"]["mean"] for one in by_layer]
    grows = "from layer to layer" if means == sorted(means) else "with ups and downs"
    others = changed["equal_heads"] - 1
    rank = f"{others} others cannot be told from it" if others else "surely more than any other"

    shared = sorted((one["overlap"] for one in inner), key=lambda one: float(one["mean"]))

    def format_change(one: Facts) -> str:
        return format_figure(one, used)

    return " ".join(
        [
            f"On {used} sentences (n = {used} where nothing else is said), the attention of the heads moved more the "
            f"deeper they are: the divergence grows {grows}, from {format_change(first['divergence'])} bits in layer "
            f"{first['layer']} to {format_change(last['divergence'])} in layer {last['layer']}, where two different heads are "
            f"{format_change(last['strangers'])} bits apart.",
            f"In the row that the decision reads nearly all of the change is in the last layer: "
            f"{format_change(last['decision'])} bits there, {format_change(inner[-1]['decision'])} in the one below it, and at most "
            f"{format_change(max((one['decision'] for one in by_layer[:-2]), key=lambda one: one['mean']))} in those before.",
            f"The most changed head is {top['layer']}.{top['head']} ({format_change(top['divergence'])} bits; {rank}).",
            f"Attention rests less on special tokens: {len(special['less'])} of {special['of']} heads surely attend "
            f"less to them than before and {len(special['more'])} more (sign-flip tests, corrected by Holm); [CLS] "
            f"gets {format_change(kinds['[CLS]']['b'])} of all attention instead of {format_change(kinds['[CLS]']['a'])}.",
            f"{len(wider['more'])} heads surely look more widely, {len(wider['less'])} less.",
            f"Of the edges {EDGE_KINDS[overlap['specials']]} that carry {overlap['coverage']:.0%} of what all such "
            f"edges carry back from the decision, both models share {format_change(overlap['jaccard'])} (Jaccard index; "
            f"random edges: {format_change(overlap['chance'])}; of the edges {EDGE_KINDS[other['specials']]}: "
            f"{format_change(other['jaccard'])}, random edges {format_change(other['chance'])}): "
            f"{format_change(last['overlap'])} in the last layer (random edges: {format_change(last['chance'])}), and between "
            f"{format_change(shared[0])} and {format_change(shared[-1])} in the layers between the first and the last.",
            f"The fine-tuned model is right about {format_change(found['predictions']['accuracy']['b'])} of these sentences.",
            f"Attributions could not be compared: {found['without_attribution']}",
            "This is one model and one task; what attention does not show, such as what the values carry, may have "
            "changed as well.",
        ]
    )


def render_page(found: Facts) -> str:
    """Return the page."""
    data, names = found["data"], (found["a"]["name"], found["b"]["name"])
    lines = [
        INTRO,
        f"{names[0]} and {names[1]} on {data['title']}: {data['used']} of {data['given']} sentences, drawn with seed "
        f"{found['setting']['seed']}, {data['tokens']:.0f} tokens each in the mean. Flow is weighed by "
        f"{found['setting']['weight']}.",
        "",
        format_paragraph(found),
        "",
        *format_table(
            (
                "layer",
                "divergence, bits",
                "of strangers",
                "of the decision's row",
                f"on special tokens, {names[0]}",
                names[1],
                "overlap of the flow",
                "chance",
            ),
            iterate_layer_rows(found),
        ),
        "",
        "The heads that changed most:",
        "",
        *format_table(
            (
                "head",
                "divergence, bits",
                "of the decision's row",
                "change on special tokens",
                "change of entropy",
                "not to be told from the first",
            ),
            iterate_head_rows(found),
        ),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Compare the models, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shared", type=Path, default=SHARED, help="the folder of models and data")
    parser.add_argument("--device")
    parser.add_argument("--limit", type=int, default=DRAWN)
    parser.add_argument("--out", type=Path, default=RESULT)
    parser.add_argument("--page", action="store_true", help="write the page, and compare nothing")
    options = parser.parse_args(arguments)
    if not options.page:
        if not (options.shared / DATA).is_file():
            sys.exit(f"{DATA} is not in {options.shared}; name the folder by --shared")
        found = round_numbers(compare_models(options))
        write_text(options.out, json.dumps(found, ensure_ascii=False, separators=(",", ":")) + "\n")
        print(f"{options.out.name}: {found['seconds']:.0f} s. {found['sentence']}")
    if options.out == RESULT:
        PAGE.parent.mkdir(parents=True, exist_ok=True)
        write_text(PAGE, render_page(json.loads(RESULT.read_text("utf-8"))))


if __name__ == "__main__":
    main()
