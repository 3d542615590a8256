"""Training and measurement of the built-in picture model ``shapes``, a small multi-label ViT on drawings.

The task is multi-label, "which classes are on the picture?": eight questions, one for each class, each with a sigmoid
of its own. A softmax over classes would make the two objects of a picture compete, so that the map of one class could
rightly fall on the other object; and so that the second object is no evidence about the first, the model also learns
from pictures of one object and of none, and from pictures of which patches are taken away (black, the mean colour, or
blurred, as explanations do it): a class whose object is hardly left is no longer there.

Run from the repository root; fixed seeds, but the last digits depend on the machine::

    PYTHONPATH=src:. python scripts/train_shapes.py           # eight minutes on a GPU, about a day on a CPU
    PYTHONPATH=src:. python scripts/train_shapes.py --check   # only measure the folder that is there
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import transformers
from draw_shapes import IMAGE_SIDE, SHAPE_CLASSES
from shapes_card import render_card
from shapes_pictures import PATCH, Batches, Pictures, Recipe, draw_pictures, normalise_pixels
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "src" / "whence" / "models" / "builtin" / "shapes"
RESULT = ROOT / "bench" / "results" / "shapes-model.json"
# Seed 0 is what everybody draws by default: neither trained on nor looked at before the last weights were made.
HELD_OUT, TRAINED, WATCHED = 0, 1, 2
MIX = {2: 0.65, 1: 0.25, 0: 0.10}  # shares of pictures with so many objects
TESTED = {2: 10_000, 1: 2_000, 0: 2_000}


def build_model(recipe: Recipe) -> ViTForImageClassification:
    """Return the model, untrained."""
    torch.manual_seed(recipe.seed)
    return ViTForImageClassification(
        ViTConfig(
            image_size=IMAGE_SIDE,
            patch_size=PATCH,
            hidden_size=recipe.width,
            num_hidden_layers=recipe.layers,
            num_attention_heads=recipe.heads,
            intermediate_size=recipe.inner,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            problem_type="multi_label_classification",
            id2label=dict(enumerate(SHAPE_CLASSES)),
            label2id={label: number for number, label in enumerate(SHAPE_CLASSES)},
        )
    )


def train_model(recipe: Recipe, device: torch.device) -> ViTForImageClassification:
    """Draw the pictures and train on them; the last weights are kept."""
    started = time.monotonic()
    counts = {objects: round(share * recipe.pictures) for objects, share in MIX.items()}
    pictures, watched = draw_pictures(counts, TRAINED), draw_pictures({2: 2000}, WATCHED)
    print(f"{time.monotonic() - started:5.0f} s  {len(pictures.pixels)} pictures", flush=True)
    model = build_model(recipe).to(device).train()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    optimiser = torch.optim.AdamW(
        [{"params": matrices}, {"params": others, "weight_decay": 0.0}],
        lr=recipe.rate,
        betas=(0.9, 0.98),
        weight_decay=recipe.weight_decay,
    )
    warm = max(1, round(recipe.warmup * recipe.steps))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser,
        lambda step: min((step + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * step / recipe.steps)),
    )
    batches = iter(Batches(pictures.to(device), recipe))
    for step in range(1, recipe.steps + 1):
        pixels, there, counts_ = next(batches)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            logits = model(pixel_values=pixels).logits
        losses = F.binary_cross_entropy_with_logits(logits.float(), there, reduction="none")
        loss = losses[counts_].mean()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        schedule.step()
        if step % max(1, recipe.steps // 20) == 0:
            right = (
                ((compute_logits(model, watched) > 0) == compute_labels(watched))
                .all(1)
                .float()
                .mean()
            )
            seconds = time.monotonic() - started
            print(f"{seconds:5.0f} s  {step}  loss {loss:.4f}  right {right:.4f}", flush=True)
            model.train()
    return divide_logits(model.eval(), recipe.temper)


@torch.no_grad()
def divide_logits(model: ViTForImageClassification, by: float) -> ViTForImageClassification:
    """Divide the logits.

    A model that is nearly always right is sure up to logits of 12, where the sigmoid is so flat that in float32 it
    can hardly be seen what a patch does to a probability. No answer changes, and no map of a logit but in its scale.
    """
    model.classifier.weight /= by
    model.classifier.bias /= by
    return model


@torch.no_grad()
def compute_logits(model: ViTForImageClassification, pictures: Pictures) -> Tensor:
    """Return the logits, (n, classes); a label is predicted where its logit is above 0."""
    model.eval()
    parts = pictures.pixels.split(1000)
    return torch.cat(
        [model(pixel_values=normalise_pixels(part.to(model.device))).logits.cpu() for part in parts]
    )


def compute_labels(pictures: Pictures) -> Tensor:
    """Return the labels of each picture, (n, classes)."""
    return pictures.covered.sum((2, 3)) > 0


def measure_model(folder: Path) -> dict[str, Any]:
    """Measure the model of a folder on pictures of the seed that it was not trained on."""
    from whence.stats.intervals import clopper_pearson_interval

    def compute_share(right: Tensor) -> dict[str, Any]:
        count, of = int(right.sum()), right.numel()
        low, high = clopper_pearson_interval(count, of)
        return {"share": count / of, "low": low, "high": high, "right": count, "n": of}

    found: dict[str, Any] = {}
    pictures = {objects: draw_pictures({objects: n}, HELD_OUT) for objects, n in TESTED.items()}
    model = ViTForImageClassification.from_pretrained(folder, dtype=torch.float32).eval()
    for objects, drawings in pictures.items():
        logits = compute_logits(model, drawings)
        same = (logits > 0) == compute_labels(drawings)
        found[f"{objects} objects"] = {
            "labels": compute_share(same),
            "pictures": compute_share(same.all(1)),
        }
        if objects == 2:
            there = compute_labels(drawings)
            found["confidence"] = {
                "there": float(logits[there].sigmoid().mean()),
                "not there": float(logits[~there].sigmoid().mean()),
            }
            found["found"] = {
                c: compute_share(same[there[:, i], i]) for i, c in enumerate(SHAPE_CLASSES)
            }
            found["spared"] = {
                c: compute_share(same[~there[:, i], i]) for i, c in enumerate(SHAPE_CLASSES)
            }
    return found


def write_folder(model: ViTForImageClassification, folder: Path) -> None:
    """Write configuration, weights and how pixels are prepared."""
    folder.mkdir(parents=True, exist_ok=True)
    model.to("cpu", torch.float32).save_pretrained(folder)
    preparation = {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5] * 3,
        "image_processor_type": "ViTImageProcessor",
        "image_std": [0.5] * 3,
        "resample": 2,
        "rescale_factor": 1 / 255,
        "size": {"height": IMAGE_SIDE, "width": IMAGE_SIDE},
    }
    text = json.dumps(preparation, indent=2) + "\n"
    (folder / "preprocessor_config.json").write_text(text, encoding="utf-8")


def main() -> None:
    """Train and measure, or only measure."""
    recipe = Recipe()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only measure what is there")
    parser.add_argument("--steps", type=int, default=recipe.steps)
    parser.add_argument("--pictures", type=int, default=recipe.pictures)
    parser.add_argument("--batch", type=int, default=recipe.batch)
    parser.add_argument("--out", type=Path, default=FOLDER, help="the model's folder")
    parser.add_argument("--result", type=Path, default=RESULT, help="where the figures are kept")
    options = parser.parse_args()
    facts: dict[str, Any] = {}
    if options.check:
        facts = json.loads(options.result.read_text(encoding="utf-8"))
    else:
        recipe = replace(recipe, steps=options.steps, pictures=options.pictures, batch=options.batch)  # fmt: skip
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        started = time.monotonic()
        model = train_model(recipe, device)
        on = torch.cuda.get_device_name() if device.type == "cuda" else platform.machine()
        facts = {
            "recipe": asdict(recipe),
            "parameters": sum(p.numel() for p in model.parameters()),
            "made_with": f"Python {platform.python_version()}, torch {torch.__version__}, "
            f"transformers {transformers.__version__}, on {on}",
            "seconds": round(time.monotonic() - started),
        }
        write_folder(model, options.out)
        options.result.parent.mkdir(parents=True, exist_ok=True)
        options.result.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    facts["measured"] = measure_model(options.out)
    options.result.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (options.out / "README.md").write_text(render_card(facts, MIX), encoding="utf-8")
    print(json.dumps(facts["measured"], indent=1))


if __name__ == "__main__":
    main()
