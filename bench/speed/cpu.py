"""Benchmark of explaining on a CPU: trace methods, leave-one-out, integrated gradients, against bare passes.

    PYTHONPATH=src python bench/speed/cpu.py [--threads N] [--only SECTION,..] [--repeats N] [--steps N] [--busy]

The model has BERT-base's shape and random weights. The floor is its bare forward + backward: SDPA, weights frozen,
the gradient of the predicted logits at the embeddings, all inputs in one batch. Explaining starts from lists of ids
and ends with `Explanation`s; how inputs are cut into batches is part of it. Runs are interleaved and medians
compared, because machines are noisy; ratios, not seconds, are the result. Captum, where it is installed, is given the
size of batch that is fastest for it here. The table comes last.
"""

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # so that it can be run as a file

import numpy as np
import torch
from bench.speed.captum_cases import build_ablation, build_integrated_gradients, find_best_size
from bench.speed.floors import build_relevance_floor
from bench.speed.measuring import ROOT, Case, Clock, Log
from bench.speed.passes import build_forward
from bench.speed.random_models import build_bare_pass, build_bert, build_inputs
from bench.speed.table import format_table

import whence

RESULTS = ROOT / "bench" / "results" / "speed-cpu.jsonl"
BARE = "bare forward + backward"
# All readers that one forward, one gradient and one relevance pass serve: the LRP family by one set of rules.
SHARED = (
    "random", "raw_attention", "rollout", "gradient", "grad_x_input", "attention_gradient", "attention_gradcam",
    "generic_attention", "cat", "attcat", "transformer_attribution", "partial_lrp", "full_lrp",
)  # fmt: skip
ONE_SET = {"partial_lrp": {"rules": "ours"}, "full_lrp": {"rules": "ours"}}
# Readers that need more than these passes by what they are: a relevance pass by rules of their own, every value split
# by token, or a solver.
MORE = (
    "partial_lrp", "attn_lrp", "cp_lrp", "norm", "globenc", "alti", "value_zeroing", "decompx", "max_flow",
)  # fmt: skip
BATCHES = (1, 4, 8, 16, 32)  # what Captum may choose from
FILLER = 0


class CpuClock(Clock):
    """Clock of this process's CPU seconds: for one thread on a machine that others use, too."""

    def measure_once(self, case: Case) -> float:
        """Return the CPU seconds of one run."""
        started = time.process_time()
        case()
        return time.process_time() - started


@dataclass
class Setting:
    """A model, a clock and the sizes of a measurement."""

    model: Any
    clock: Clock
    log: Log
    threads: int
    steps: int
    tokens: tuple[int, ...]  # short and long
    many: int  # inputs of the larger batch

    def compare(
        self, cases: dict[str, Case], floor: str, size: tuple[int, int], **facts: Any
    ) -> dict[str, float]:
        """Time cases in turn, and log each against the floor."""
        found = self.clock.measure_medians(cases, share=60, warm=1)
        times: float = facts.pop("times", 1)
        targets: dict[str, float] = facts.pop("targets", {})
        for what, taken in found.items():
            ratio = taken.seconds / (found[floor].seconds * (1 if what == floor else times))
            self.log.add(
                what,
                model="bert",
                threads=self.threads,
                clock="process" if isinstance(self.clock, CpuClock) else "wall",
                inputs=size[0],
                tokens=size[1],
                against=floor,
                seconds=taken.seconds,
                low=taken.low,
                high=taken.high,
                n=taken.n,
                ratio=ratio,
                **({"target": targets[what]} if what in targets else {}),
                **facts,
            )
        return {what: taken.seconds for what, taken in found.items()}


def measure_readers(setting: Setting) -> None:
    """Measure two trace methods, each alone, on short and long inputs, one and several."""
    explainer = whence.load(setting.model)
    names = ("generic_attention", "attcat")
    for tokens in setting.tokens:
        for inputs in (1, setting.many):
            given = build_inputs(inputs, tokens)
            cases: dict[str, Case] = {BARE: build_bare_pass(setting.model, given)}
            cases |= {name: partial(explainer.explain, given, method=name) for name in names}
            setting.compare(cases, BARE, (inputs, tokens), targets=dict.fromkeys(names, 1.3))


def measure_together(setting: Setting) -> None:
    """Measure all trace methods that the same three passes serve, against these passes."""
    explainer = whence.load(setting.model)
    floor = "forward + gradient + relevance products"
    what = f"{len(SHARED)} readers together"
    for inputs in (1, setting.many):
        given = build_inputs(inputs, setting.tokens[0])
        cases: dict[str, Case] = {
            floor: build_relevance_floor(setting.model, given),
            what: partial(explainer.explain, given, method=list(SHARED), params=ONE_SET),
        }
        setting.compare(cases, floor, (inputs, setting.tokens[0]), targets={what: 1.3})


def measure_apart(setting: Setting) -> None:
    """Measure the trace methods that need more than the three passes, each alone, on one short input."""
    explainer = whence.load(setting.model)
    given = build_inputs(1, setting.tokens[0] // 4)
    cases: dict[str, Case] = {BARE: build_bare_pass(setting.model, given)}
    cases |= {name: partial(explainer.explain, given, method=name) for name in MORE}
    setting.compare(cases, BARE, (1, setting.tokens[0] // 4))


def measure_leave_one_out(setting: Setting) -> None:
    """Measure leave-one-out against n + 1 bare passes, and against Captum's."""
    tokens = setting.tokens[0]
    given = build_inputs(1, tokens)
    explain = whence.load(setting.model).explain
    cases: dict[str, Case] = {
        BARE: build_bare_pass(setting.model, given),
        "leave_one_out": partial(explain, given, method="leave_one_out", params={"remove": "pad"}),
    }

    def build_batch_pass(size: int) -> Case:
        inputs = {name: torch.tensor(rows) for name, rows in build_inputs(size, tokens).items()}
        return build_forward(setting.model, inputs)

    make = partial(build_ablation, setting.model, given, FILLER)
    _measure_beside(
        setting, cases, "leave_one_out", (build_batch_pass, make), times=tokens + 1, target=0.5
    )


def measure_integrated_gradients(setting: Setting) -> None:
    """Measure integrated gradients against as many bare passes as there are steps, and against Captum's."""
    given = build_inputs(1, setting.tokens[0])
    explain = whence.load(setting.model).explain
    params = {"steps": setting.steps}
    cases: dict[str, Case] = {
        BARE: build_bare_pass(setting.model, given),
        "integrated_gradients": partial(
            explain, given, method="integrated_gradients", params=params
        ),
    }

    def build_batch_pass(size: int) -> Case:
        return build_bare_pass(setting.model, build_inputs(size, setting.tokens[0]))

    make = partial(build_integrated_gradients, setting.model, given, FILLER, setting.steps)
    both = (build_batch_pass, make)
    _measure_beside(setting, cases, "integrated_gradients", both, times=setting.steps, target=1.0)


def _measure_beside(
    setting: Setting,
    cases: dict[str, Case],
    name: str,
    captums: tuple[Callable[[int], Case], Callable[[int], Callable[[], torch.Tensor]]],
    *,
    times: int,
    target: float,
) -> None:
    """Measure a method beside Captum's, whose scores must agree, against so many bare passes."""
    size, facts = (1, setting.tokens[0]), {"times": times, "targets": {name: target}}
    if not find_spec("captum"):
        setting.compare(cases, BARE, size, **facts)
        return
    one_batch, make = captums
    at_once = find_best_size(one_batch, BATCHES, setting.clock)
    case = make(at_once)
    off = _compute_difference(cases[name]().scores, case().numpy())
    theirs = f"captum, {at_once} at once"
    found = setting.compare(
        {**cases, theirs: case}, BARE, size, captum=version("captum"), off=off, **facts
    )
    setting.log.add(
        f"{name} against Captum's",
        model="bert",
        threads=setting.threads,
        clock="process" if isinstance(setting.clock, CpuClock) else "wall",
        inputs=1,
        tokens=setting.tokens[0],
        against=theirs,
        seconds=found[name],
        ratio=found[name] / found[theirs],
        target=1.0,
        off=off,
    )


def _compute_difference(ours: Any, theirs: Any) -> float:
    """Return the largest difference of two rows of scores, in parts of the largest score."""
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())


SECTIONS: dict[str, Callable[[Setting], None]] = {
    "readers": measure_readers,
    "together": measure_together,
    "left out": measure_leave_one_out,
    "integrating": measure_integrated_gradients,
    "apart": measure_apart,
}


def main() -> None:
    """Measure all sections, store the rows, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help=f"sections, out of {','.join(SECTIONS)}")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=50, help="of integrated gradients")
    parser.add_argument(
        "--busy", action="store_true", help="count CPU time: others use the machine"
    )
    parser.add_argument("--tiny", action="store_true", help="tiny sizes: does everything run?")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.busy and options.threads > 1:
        parser.error("--busy counts the seconds of all threads: it goes with one")
    clock = (CpuClock if options.busy else Clock)(torch.device("cpu"), repeats=options.repeats)
    setting = Setting(
        build_bert(2, 64, 4) if options.tiny else build_bert(),
        clock,
        Log(None if options.tiny else options.json),
        options.threads,
        options.steps,
        (16, 32) if options.tiny else (128, 512),
        8,
    )
    for name in options.only.split(",") if options.only else SECTIONS:
        with setting.log.open_section(name):
            SECTIONS[name](setting)
    print(f"\nthreads: {options.threads}\n{format_table(setting.log.rows)}")


if __name__ == "__main__":
    main()
