"""Model card of the built-in picture model `shapes`, from the notes of `train_shapes.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from draw_shapes import IMAGE_SIDE, MAX_SIZE, MIN_SIZE, SHAPE_CLASSES

CARD = """---
license: apache-2.0
pipeline_tag: image-classification
---

# shapes

Which of {classes} shapes are on a picture: {names}.
Multi-label: each class has a sigmoid of its own.

ViT for pictures of {side} x {side} pixels in patches of 8 x 8: {layers} layers, {heads} heads, width {width}
(feed-forward {inner}); {parameters:,} parameters in float32.

## Training

- Data: {pictures:,} pictures drawn by `scripts/draw_shapes.py` with seed 1 ({shares} objects,
  of different classes, never overlapping); turned, mirrored and with their colour channels exchanged at random.
  Seed 0, the default of `draw_scene`, was only measured.
- From {hidden:.0%} of the pictures patches were taken away: black, the mean colour, or the blurred picture in
  their place. A class of whose object at most {gone:.0%} is left counts as absent, from {there:.0%} as there, in
  between not at all.
- Why multi-label, and pictures of fewer than two objects: so that one object is no evidence about the other, and
  the map of a class belongs on its own object.
- {steps:,} steps of {batch:,}, AdamW, peak rate {rate:g} with {warmup:.0%} warm-up and cosine decay, weight decay
  {weight_decay}; the last weights are kept. Seed {seed}; {seconds} seconds, the drawing included.
- At the end the logits were divided by {temper:g}: a model that is nearly always right is so sure of it that what a
  patch does to a probability is lost in rounding. No answer changes, nor a map of a logit but in its scale.
- Made by `scripts/train_shapes.py` with {made_with}.

## Measured

On held-out pictures, in float32; a label is said where its probability is above 1/2. Intervals are 95%, by Clopper
and Pearson.

| pictures | what is right | share | interval | right | n |
|---|---|---|---|---|---|
{right}

The mean probability of a label that is there is {sure:.3f}, of one that is not {unsure:.3f}: less sure than it might
be, as the logits were divided. Of the pictures with two objects:

| class | said where it is there | not said where it is not |
|---|---|---|
{by_class}

## Limits

- It knows drawn pictures of this one generator: plain-coloured shapes of {smallest:g} to {largest:g} pixels (the
  square root of their area) on textured ground. Photographs and other drawings are outside what it has seen.
- It is small, made to be explained and to test explanations.

Licence of the weights: Apache-2.0.
"""


def render_card(facts: Mapping[str, Any], mix: Mapping[int, float]) -> str:
    """Return the model card; `mix` is the share of training pictures by their number of objects."""
    figures = facts["measured"]
    rows = [
        ("two objects", "each label", figures["2 objects"]["labels"]),
        ("two objects", "both said, and nothing else", figures["2 objects"]["pictures"]),
        ("one object", "it is said, and nothing else", figures["1 objects"]["pictures"]),
        ("no object", "nothing is said", figures["0 objects"]["pictures"]),
    ]
    right = [
        f"| {which} | {what} | {one['share']:.4f} | {one['low']:.4f} to {one['high']:.4f} "
        f"| {one['right']:,} | {one['n']:,} |"
        for which, what, one in rows
    ]
    by_class = [
        f"| {name} | {_format_share(figures['found'][name])} | {_format_share(figures['spared'][name])} |"
        for name in SHAPE_CLASSES
    ]
    return CARD.format(
        **facts["recipe"],
        **{key: facts[key] for key in ("parameters", "seconds", "made_with")},
        classes=len(SHAPE_CLASSES),
        names=", ".join(SHAPE_CLASSES),
        side=IMAGE_SIDE,
        shares=", ".join(f"{share:.0%} with {count}" for count, share in mix.items()),
        right="\n".join(right),
        by_class="\n".join(by_class),
        sure=figures["confidence"]["there"],
        unsure=figures["confidence"]["not there"],
        smallest=MIN_SIZE,
        largest=MAX_SIZE,
    )


def _format_share(one: Mapping[str, Any]) -> str:
    """Format a share with its counts and interval."""
    counts = f"{one['right']:,} of {one['n']:,}"
    return f"{one['share']:.4f} ({counts}; {one['low']:.4f} to {one['high']:.4f})"
