"""Cost of query methods, as a ratio to the same passes of the model made bare, in full batches.

    python bench/queries.py [--device cuda] [--dtype bfloat16] [--json FILE]

The model is a BERT of random weights, by default of BERT-base's size. The bare passes are those that the method
makes, on tensors that are there already: forward passes of all variants for leave_one_out, forward and backward
passes of all points for integrated_gradients. Explaining starts from lists of ids and ends with Explanation objects.
Runs are interleaved and medians compared. On CUDA the peak of allocated memory is measured, too, beside the model.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import BertConfig, BertForSequenceClassification

import whence

STEPS = 50  # of integrated_gradients, its default
PAD = 0
# Cells of a bare batch: one batch where the memory allows it; on a CPU larger ones fall out of its cache.
CELLS = {"cpu": 1024}
CELLS_ELSEWHERE = 131072
SLOPE_CELLS_ELSEWHERE = 65536


def build_model(options: argparse.Namespace) -> Any:
    """Return a BERT of random weights."""
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=options.hidden,
        num_hidden_layers=options.layers,
        num_attention_heads=max(1, options.hidden // 64),
        intermediate_size=4 * options.hidden,
    )
    model = BertForSequenceClassification(config).eval().requires_grad_(False)
    return model.to(device=options.device, dtype=getattr(torch, options.dtype))


def split(rows: torch.Tensor, cells: int) -> Sequence[torch.Tensor]:
    """Return rows in as few batches of equal size as the cells allow."""
    most = max(1, cells // rows.shape[1])
    return rows.tensor_split(-(-len(rows) // most))


def build_forward_floor(model: Any, ids: torch.Tensor) -> Callable[[], None]:
    """Return the forward passes of every input, whole and without each of its tokens."""
    tokens = ids.shape[1]
    gone = torch.eye(tokens, dtype=torch.bool, device=ids.device).repeat(len(ids), 1)
    variants = torch.where(gone, PAD, ids.repeat_interleave(tokens, 0))
    batches = split(torch.cat([ids, variants]), CELLS.get(ids.device.type, CELLS_ELSEWHERE))

    def run() -> None:
        with torch.inference_mode():
            for batch in batches:
                model(input_ids=batch, attention_mask=torch.ones_like(batch))

    return run


def build_slope_floor(model: Any, ids: torch.Tensor) -> Callable[[], None]:
    """Return forward and backward passes at all points between the padding's vector and each input's."""
    table = model.get_input_embeddings()
    ends, start = table(ids).float(), table(torch.full_like(ids, PAD)).float()
    places = ((torch.arange(STEPS, device=ids.device) + 0.5) / STEPS)[:, None, None]
    numbers = torch.arange(len(ids) * STEPS, device=ids.device)[:, None]
    cells = CELLS.get(ids.device.type, SLOPE_CELLS_ELSEWHERE) // ids.shape[1]
    batches = split(numbers, max(1, cells))
    mask = torch.ones_like(ids)

    def run() -> None:
        with torch.inference_mode():
            model(input_ids=ids, attention_mask=mask)
        for numbers in batches:
            rows, steps = numbers[:, 0] // STEPS, numbers[:, 0] % STEPS
            points = torch.lerp(start[rows], ends[rows], places[steps]).requires_grad_()
            output = model(inputs_embeds=points.to(model.dtype), attention_mask=mask[rows])
            torch.autograd.grad(output.logits[:, 0].sum(), points)

    return run


def measure(
    cases: dict[str, Callable[[], Any]], repeats: int, device: torch.device
) -> dict[str, dict[str, float]]:
    """Run all cases in turn, over and over; return the median seconds and the peak memory of each."""
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    peaks: dict[str, float] = {}
    for turn in range(repeats + 1):
        for name, case in cases.items():
            if device.type == "cuda":
                torch.cuda.synchronize()
                torch.cuda.reset_peak_memory_stats()
                resident = torch.cuda.memory_allocated()
            started = time.perf_counter()
            case()
            if device.type == "cuda":
                torch.cuda.synchronize()
                peaks[name] = (torch.cuda.max_memory_allocated() - resident) / 2**30
            if turn:  # the first run warms up
                seconds[name].append(time.perf_counter() - started)
    return {
        name: {"seconds": statistics.median(values), "fastest": min(values)}
        | ({"peak_gib": peaks[name]} if name in peaks else {})
        for name, values in seconds.items()
    }


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--inputs", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1, help="on a CPU")
    parser.add_argument("--json", type=Path, help="also append the rows to this file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = build_model(options)
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(1000, 30000, (options.inputs, options.tokens), generator=draw)
    inputs = [{"input_ids": [row]} for row in ids.tolist()]
    explainer, given = whence.load(model), ids.to(options.device)
    cases: dict[str, Callable[[], Any]] = {
        "bare forward passes": build_forward_floor(model, given),
        "leave_one_out": lambda: explainer.explain(
            inputs, method="leave_one_out", params={"remove": "pad"}
        ),
        "bare forward and backward passes": build_slope_floor(model, given),
        "integrated_gradients": lambda: explainer.explain(inputs, method="integrated_gradients"),
    }
    results = measure(cases, options.repeats, given.device)
    name = torch.cuda.get_device_name() if given.device.type == "cuda" else "cpu"
    facts = {
        "whence": whence.__version__, "torch": torch.__version__, "transformers": version("transformers"),
        "device": name, **{key: getattr(options, key) for key in ("dtype", "inputs", "tokens", "layers", "hidden")},
    }  # fmt: skip
    rows, floor = [], 0.0
    for what, found in results.items():
        floor = found["seconds"] if what.startswith("bare") else floor
        ratio = found["seconds"] / floor
        peak = f"{found['peak_gib']:8.2f} GiB" if "peak_gib" in found else ""
        print(f"{what:34} {found['seconds'] * 1e3:10.1f} ms {ratio:7.2f} x bare {peak}")
        rows.append({**facts, "what": what, **found, "ratio": ratio})
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        with options.json.open("a") as stream:
            stream.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
