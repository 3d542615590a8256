"""Benchmark of metrics and trust cards: forward passes made and needed, time beside plain loops and Captum.

    python bench/metrics.py [calls] [card] [wall] [time] [--threads N] [--repeats N] [--texts N] [--model NAME] [--json FILE]

calls: for every metric of faithfulness alone and for all together, on 1, 5 and all methods and on 100 random
rankings, the model's forward passes, counted by a hook, against the different inputs that the definitions ask about
(bench/plain_metrics.py). "saved": what each metric and each explanation would take by itself, over what was made.
card: the same for a trust card with its default budget.
wall: the seconds of a trust card of one sentence of 12 words, over those of the same inputs run bare in full batches,
with a backward pass for as many as had one.
time: the same figures for the same texts by whence, by a plain loop over one variant at a time, as the scripts that
come with papers have it, and by Captum, where it has the metric. Each starts from the text and explains it first, by
whence or, Captum, by itself. whence and the loop must agree. Runs are interleaved and medians compared.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import plain_metrics as by_hand
import torch
from explain import MODELS, ROOT, collect_provenance, measure_medians
from plain_metrics import FAITHFULNESS, Ids, PlainModel, draw_sets, list_needed_inputs

import whence
from whence.data.dataset import read_dataset
from whence.explain.batch_policy import choose_batch_policy
from whence.explain.trials import put_on_trial
from whence.methods import method
from whence.metrics import metric
from whence.metrics._trial import Trial

SST2 = ROOT.parent / "shared" / "data" / "sst2_glue" / "dev.tsv"
RESULTS = ROOT / "bench" / "results" / "metrics.jsonl"
ONE = ["attcat"]
FIVE = [*ONE, "generic_attention", "attn_lrp", "grad_x_input", "integrated_gradients"]
SIX = [*FIVE, "gradient"]
RANKINGS, DRAWS, RADIUS = 100, 10, 0.05
ALLOWED = 1.1  # forwards made over forwards needed
AT_ONCE = 64  # perturbations in one batch, as in whence
# Between whence and the loop: float32 in batches of another shape; there, two falls that are equal to rounding may
# come in the other order.
SLACK = 1e-5
SLACK_OF_RANKS = 0.01

Row = dict[str, Any]


# --- calls ------------------------------------------------------------------------------------------------------


@contextmanager
def record_inputs(model: Any) -> Iterator[list[Ids | None]]:
    """Record every input that the model is run on; None is one that was given as embeddings."""
    seen: list[Ids | None] = []

    def note(_: Any, args: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        ids, mask = named.get("input_ids"), named.get("attention_mask")
        if ids is None:
            seen.extend([None] * len(named["inputs_embeds"]))
            return
        lengths = [ids.shape[1]] * len(ids) if mask is None else mask.sum(1).tolist()
        rows = zip(ids.tolist(), lengths, strict=True)
        seen.extend(tuple(row[:length]) for row, length in rows)

    hook = model.register_forward_pre_hook(note, with_kwargs=True)
    try:
        yield seen
    finally:
        hook.remove()


def build_fresh_trial(explainer: Any, explanations: Sequence[Any]) -> Trial:
    """Return a trial of explanations, with no query made yet."""
    item = explanations[0].item
    policy = choose_batch_policy(explainer.loaded, [item], probe=True)
    (trial,) = put_on_trial(
        explainer.loaded, [(item, explanations)], how="mask", unit="token", policy=policy
    )
    return trial


def list_orders(trial: Trial) -> list[list[int]]:
    """Return the rankings of those explanations that rank anything."""
    return [o for o, flat in zip(trial.orders.tolist(), trial.flat, strict=True) if not flat]


def count_calls(
    explainer: Any, texts: Sequence[str], methods: Mapping[str, Sequence[str]]
) -> list[Row]:
    """Count the forwards needed and made by every metric alone, and by all together."""
    cases = {**{name: [name] for name in FAITHFULNESS}, "all together": FAITHFULNESS}
    empty = {"needed": 0, "made": 0, "separately": 0}
    counts: dict[tuple[str, str], dict[str, int]] = {}
    for text in texts:
        plain = PlainModel(explainer, text)
        every = explainer.explain(text, method=method.names())
        for who, names in methods.items():
            for what, metrics in cases.items():
                trial = build_fresh_trial(explainer, [every[name] for name in names or ONE])
                trial = trial if names else trial.null(RANKINGS)
                with record_inputs(explainer.model) as seen:
                    for name in metrics:
                        metric.get(name).fn(trial)
                if len(set(seen)) < len(seen):
                    sys.exit(f"{what} of {who} asked the same twice")
                orders = list_orders(trial)
                alone = [
                    list_needed_inputs(name, plain, [order]) for name in metrics for order in orders
                ]
                own = counts.setdefault((who, what), dict(empty))
                own["needed"] += len(
                    set().union(*(list_needed_inputs(n, plain, orders) for n in metrics))
                )
                own["made"] += len(seen)
                own["separately"] += sum(map(len, alone))
    return [
        {"part": "calls", "methods": who, "metrics": what, **own}
        for (who, what), own in counts.items()
    ]


def count_end_to_end(explainer: Any, texts: Sequence[str]) -> list[Row]:
    """Count the forwards of all methods and metrics together; answers of methods are reused."""
    own = {"needed": 0, "made": 0, "separately": 0}
    for text in texts:
        plain = PlainModel(explainer, text)
        with record_inputs(explainer.model) as seen:
            trials = explainer.trials([text], method=method.names())
            _, trial, _ = next(trials)
            asked = len(seen)
            for name in FAITHFULNESS:
                metric.get(name).fn(trial)
            trials.close()
        orders = list_orders(trial)
        wanted = set().union(*(list_needed_inputs(name, plain, orders) for name in FAITHFULNESS))
        alone = [
            list_needed_inputs(name, plain, [order]) for name in FAITHFULNESS for order in orders
        ]
        own["needed"] += asked + len(wanted - set(seen[:asked]))
        own["made"] += len(seen)
        own["separately"] += asked + sum(map(len, alone))
    return [
        {"part": "calls", "methods": "all, explaining included", "metrics": "all together", **own}
    ]


def count_trust_cards(explainer: Any, texts: Sequence[str]) -> list[Row]:
    """Count the forwards that trust cards need and make."""
    rows = []
    for who, names in {"1": ONE, "5": FIVE, "leave_one_out": ["leave_one_out"]}.items():
        own = {"needed": 0, "made": 0, "separately": 0, "said": 0}
        rankings = []
        for text in texts:
            plain = PlainModel(explainer, text)
            with record_inputs(explainer.model) as seen:
                card = explainer.trust(text, method=names).to_dict()
            explained = explainer.explain(text, method=names)
            trial = build_fresh_trial(explainer, list(explained.values()))
            own["made"] += len(seen)
            own["said"] += card["cost"]["forward"]
            rankings.append(card["rankings"])
            orders = list_orders(trial)
            random = [
                list_orders(trial.null(card["rankings"], reverse=turned))
                for turned in (False, True)
            ]
            removals = [
                list_needed_inputs("deletion", plain, orders + random[0]),
                list_needed_inputs("insertion", plain, orders + random[1]),
                list_needed_inputs("loo_correlation", plain, []),
            ]
            extra = sum(one.passes.forward - 1 for one in explained.values())
            # The explanations, and then again for each draw of noise, each stage of weights and the other class,
            # where that was tested; what methods ask of the model as it is, tests need not ask again.
            tested = {
                test["name"]
                for one in card["methods"]
                for test in one["tests"]
                if test["verdict"] != "not tested"
            }
            times = {
                "stability": DRAWS,
                "randomisation": len(trial.again.stages),
                "class_sensitivity": 1,
            }
            anew = sum(count for name, count in times.items() if name in tested)
            known = {ids for ids in seen[: 1 + extra] if ids is not None}
            own["needed"] += (1 + anew) * (1 + extra) + len(set().union(*removals) - known)
            own["separately"] += (1 + anew) * (len(explained) + extra) + sum(map(len, removals))
        rows.append({"part": "card", "methods": who, "metrics": "trust card", **own,
                     "rankings": rankings, "budget": card["budget"]})  # fmt: skip
    return rows


# --- wall -------------------------------------------------------------------------------------------------------

SENTENCE = "the film is a gripping and beautifully acted story of love lost"
MOST = 1.5  # seconds of a card over seconds of its passes in full batches


def measure_card(explainer: Any, repeats: int) -> list[Row]:
    """Measure a trust card against its own inputs, run bare."""
    model, pad = explainer.model, explainer.loaded.pad_id or 0
    explainer.trust(SENTENCE, method=ONE)
    with record_inputs(model) as seen:
        card = explainer.trust(SENTENCE, method=ONE).to_dict()
    rows = sorted((ids for ids in seen if ids is not None), key=len)
    backward = card["cost"]["backward"]

    def run(some: Sequence[Ids], grad: bool) -> None:
        width = max(map(len, some))
        ids = torch.tensor([[*one, *[pad] * (width - len(one))] for one in some])
        mask = torch.tensor([[1] * len(one) + [0] * (width - len(one)) for one in some])
        with torch.inference_mode(not grad):
            logits = model(input_ids=ids, attention_mask=mask).logits
            if grad:
                weight = next(w for w in model.parameters() if w.requires_grad)
                torch.autograd.grad(logits.sum(), weight)

    def run_bare() -> None:
        for start in range(0, len(rows), AT_ONCE):
            run(rows[start : start + AT_ONCE], grad=False)
        for start in range(0, backward, AT_ONCE):
            run(rows[start : min(start + AT_ONCE, backward)], grad=True)

    cases = {"card": lambda: explainer.trust(SENTENCE, method=ONE), "bare": run_bare}
    seconds = measure_medians(cases, repeats)
    return [
        {"part": "wall", "what": "trust card of 12 words", "by": by, "seconds": own,
         "ratio": own / seconds["bare"], "forward": len(seen), "backward": backward}
        for by, own in seconds.items()
    ]  # fmt: skip


# --- time -------------------------------------------------------------------------------------------------------


def evaluate_by_whence(
    explainer: Any, texts: Sequence[str], methods: Sequence[str], metrics: Mapping[str, Any]
) -> Any:
    """Explain and test by whence."""
    found: dict[int, list[Any]] = {}
    for number, trial, _ in explainer.trials(list(texts), method=methods):
        found[number] = [metric.get(name).fn(trial, **own).values for name, own in metrics.items()]
    return np.array([found[number] for number in range(len(texts))])


def evaluate_in_loop(
    explainer: Any, texts: Sequence[str], methods: Sequence[str], metrics: Sequence[str]
) -> Any:
    """Explain by whence, and test one explanation, one metric and one variant at a time."""
    found = []
    for text, explanations in zip(
        texts, explainer.explain(list(texts), method=methods), strict=True
    ):
        plain = PlainModel(explainer, text)
        rows = []
        for name in metrics:
            fn = getattr(by_hand, name)
            extra = (lambda one: (one.signed,)) if name == "loo_correlation" else (lambda one: ())
            rows.append([fn(plain, one.scores, *extra(one)) for one in explanations.values()])
        found.append(rows)
    return np.array(found)


def build_captum_cases(explainer: Any, texts: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Return Captum's versions: the same sets of tokens, and the same noise in size and number."""
    from captum import attr, metrics

    warnings.filterwarnings("ignore", module="captum")
    model, tokenizer = explainer.model, explainer.tokenizer
    table = model.get_input_embeddings()
    hole = explainer.fillers["mask"]
    plains = [PlainModel(explainer, text) for text in texts]

    def encode(text: str) -> tuple[Any, Any]:
        inputs = tokenizer(text, return_tensors="pt")
        return inputs["input_ids"], inputs["attention_mask"]

    def compute_probabilities(ids: Any, mask: Any) -> Any:
        return model(input_ids=ids, attention_mask=mask.expand_as(ids)).logits.softmax(-1)

    def compute_logits(embedded: Any, mask: Any) -> Any:
        return model(inputs_embeds=embedded, attention_mask=mask.expand(len(embedded), -1)).logits

    def compute_scores(embedded: Any, mask: Any, target: int) -> Any:
        by_input = attr.InputXGradient(compute_logits)
        return by_input.attribute(embedded, target=target, additional_forward_args=(mask,))

    def run_infidelity(count: int) -> None:
        for text, plain in zip(texts, plains, strict=True):
            ids, mask = encode(text)
            scores = compute_scores(table(ids).detach().requires_grad_(), mask, plain.target).sum(
                -1
            )
            drawn = draw_sets(plain)
            gone = torch.zeros(len(drawn), ids.shape[1])
            for row, units in zip(gone, drawn, strict=True):
                row[[plain.places[unit] for unit in units]] = 1
            for _ in range(count):
                left = iter(gone)

                def remove(given: Any, left: Any = left) -> tuple[Any, Any]:
                    own = torch.stack([next(left) for _ in given])
                    return own, torch.where(own.bool(), hole, given)

                with torch.no_grad():
                    metrics.infidelity(
                        compute_probabilities, remove, ids, scores, additional_forward_args=(mask,), target=plain.target,
                        n_perturb_samples=len(drawn), max_examples_per_batch=AT_ONCE, normalize=True,
                    )  # fmt: skip

    def run_sensitivity() -> None:
        for text, plain in zip(texts, plains, strict=True):
            ids, mask = encode(text)

            def move(given: Any, radius: float) -> Any:
                noise = torch.randn_like(given)
                return given + noise / noise.norm(dim=-1, keepdim=True) * radius * given.norm(
                    dim=-1, keepdim=True
                )

            metrics.sensitivity_max(
                compute_scores, table(ids).detach(), move, perturb_radius=RADIUS, n_perturb_samples=DRAWS,
                max_examples_per_batch=AT_ONCE, mask=mask, target=plain.target,
            )  # fmt: skip

    return {
        "infidelity of 1": partial(run_infidelity, 1),
        "infidelity of 6": partial(run_infidelity, 6),
        "sensitivity of 1": run_sensitivity,
    }


def measure_times(explainer: Any, texts: Sequence[str], repeats: int) -> list[Row]:
    """Measure the same evaluations by whence, by the loop and by Captum."""
    ferret = ["comprehensiveness", "sufficiency", "loo_correlation"]
    curves = ["deletion", "insertion"]
    for names in (ferret, curves):
        mine = evaluate_by_whence(explainer, texts, SIX, {name: {} for name in names})
        theirs = evaluate_in_loop(explainer, texts, SIX, names)
        for name, apart in zip(names, np.abs(mine - theirs).max(axis=(0, 2)), strict=True):
            if apart > (SLACK_OF_RANKS if name == "loo_correlation" else SLACK):
                sys.exit(f"whence and the loop differ by {apart:.2g} in {name}")
    noise = {"radius": RADIUS, "draws": DRAWS}
    cases: dict[tuple[str, str], Callable[[], Any]] = {
        ("explaining alone, 6", "whence"): partial(explainer.explain, list(texts), method=SIX)
    }
    for names in (ferret, curves):
        what = f"{', '.join(names)} of 6"
        cases[what, "whence"] = partial(
            evaluate_by_whence, explainer, texts, SIX, {name: {} for name in names}
        )
        cases[what, "loop"] = partial(evaluate_in_loop, explainer, texts, SIX, names)
    one = ["grad_x_input"]
    cases["infidelity of 1", "whence"] = partial(
        evaluate_by_whence, explainer, texts, one, {"infidelity": {}}
    )
    cases["infidelity of 6", "whence"] = partial(
        evaluate_by_whence, explainer, texts, SIX, {"infidelity": {}}
    )
    cases["sensitivity of 1", "whence"] = partial(
        evaluate_by_whence, explainer, texts, one, {"sensitivity": noise}
    )
    if find_spec("captum"):
        for what, case in build_captum_cases(explainer, texts).items():
            cases[what, "captum"] = case
    named = {f"{what}|{by}": case for (what, by), case in cases.items()}
    seconds = measure_medians(named, repeats)
    return [
        {"part": "time", "what": what, "by": by, "seconds": seconds[f"{what}|{by}"],
         "ratio": seconds[f"{what}|{by}"] / seconds[f"{what}|whence"]}
        for what, by in cases
    ]  # fmt: skip


def show(rows: Sequence[Row]) -> None:
    """Print the rows, and a warning where more forwards were made than allowed."""
    for row in rows:
        if row["part"] in ("time", "wall"):
            over = " MORE THAN ALLOWED" if row["part"] == "wall" and row["ratio"] > MOST else ""
            figures = f"{row['seconds'] * 1e3:10.1f} ms {row['ratio']:8.2f}{over}"
            print(f"{row['what']:58} {row['by']:8} {figures}")
            continue
        row["ratio"] = row["made"] / row["needed"] if row["needed"] else 1.0
        row["saved"] = row["separately"] / row["made"] if row["made"] else None
        over = " MORE THAN ALLOWED" if row["ratio"] > ALLOWED else ""
        said = f" said {row['said']}, rankings {row['rankings']}" if "said" in row else ""
        saved = f"{row['saved']:7.2f}" if row["saved"] else "      -"
        print(f"{row['methods']:24} {row['metrics']:18} needed {row['needed']:6} made {row['made']:6} "
              f"ratio {row['ratio']:5.3f} saved {saved}{said}{over}")  # fmt: skip


def main() -> None:
    """Measure, print and store the rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help="calls, card, wall, time; all by default"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--texts", type=int, default=4)
    parser.add_argument("--model", choices=MODELS, action="append", help="one of them, not all")
    parser.add_argument("--json", type=Path, default=RESULTS, help="append the rows to this file")
    options = parser.parse_args()
    parts = options.parts or ["calls", "card", "wall", "time"]
    torch.set_num_threads(options.threads)
    if not SST2.is_file():
        sys.exit(f"skipped: {SST2.name} of SST-2 is not there")
    texts = [str(one.given) for one in read_dataset(SST2).draw(options.texts).examples]
    facts = {
        **collect_provenance(options.threads),
        "texts": len(texts),
        "data": "SST-2 dev, seed 0",
    }
    if find_spec("captum"):
        facts["captum"] = version("captum")
    for name in options.model or MODELS:
        where = MODELS[name]
        if isinstance(where, Path) and not where.is_dir():
            print(f"{name} skipped: {where.name} is not there")
            continue
        explainer = whence.load(where)
        tokens = [len(explainer.tokenizer(text)["input_ids"]) for text in texts]
        print(f"\n{name}, {len(texts)} texts of {tokens} tokens")
        found: list[Row] = []
        if "calls" in parts:
            groups = {
                "1": ONE,
                "5": FIVE,
                f"all {len(method.names())}": method.names(),
                f"{RANKINGS} random": (),
            }
            found += count_calls(explainer, texts, groups) + count_end_to_end(explainer, texts)
        if "card" in parts:
            found += count_trust_cards(explainer, texts)
        if "wall" in parts:
            found += measure_card(explainer, options.repeats)
        if "time" in parts:
            found += measure_times(explainer, texts, options.repeats)
        show(found)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        rows = [{**facts, "model": name, "tokens": tokens, **row} for row in found]
        with options.json.open("a") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
