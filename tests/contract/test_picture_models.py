"""Picture models: patch layout, logits and maps as the model's own; every method batched or refused; slow twins."""

from contextlib import nullcontext
from functools import cache

import numpy as np
import pytest
import torch

import whence
from tests import image_models
from tests.contract.state import assert_unchanged, snapshot
from tests.reduced_params import FEW
from whence.core.errors import BadPicture, NotCapturable
from whence.data.images import split_patches
from whence.methods import method
from whence.tracing.patch_layout import find_patch_layout

NO_MAPS = frozenset({
    "attn_lrp", "cp_lrp", "full_lrp", "grad_x_input", "gradient", "gradient_shap", "integrated_gradients",
    "kernel_shap", "leave_one_out", "lime", "occlusion", "random", "smoothgrad",
})  # fmt: skip
every_model = pytest.mark.parametrize("name", image_models.PICTURES)


@cache
def explainer(name):
    return whence.load(image_models.make(name), **image_models.load_options(name))


def explain(name, pixels, **more):
    return explainer(name).explain(
        {"pixel_values": pixels}, **image_models.explain_options(name), **more
    )


@every_model
def test_find_patch_layout_finds_grid_lead_and_tokens_of_every_picture_model(name):
    found = find_patch_layout(image_models.make(name), image_models.pixels(name)[0])
    lead = image_models.LEAD[name]
    # Swin: patches of 2 pixels, merged once, so cells of 4 that are told apart to the end, and no row of tokens.
    wanted = ((8, 8), 0, 0) if name == "swin" else ((4, 4), lead, 16 + lead)
    assert (found.grid, found.lead, found.tokens) == wanted


@every_model
def test_find_patch_layout_leaves_the_model_unchanged_also_after_bad_picture(name):
    model = image_models.make(name).train()
    before = snapshot(model)
    find_patch_layout(model, image_models.pixels(name)[0])
    with pytest.raises(BadPicture):
        find_patch_layout(model, torch.zeros(5, 16, 16))  # channels
    assert_unchanged(before, snapshot(model))


@every_model
@pytest.mark.parametrize("how", method.names())
def test_every_method_on_a_picture_batch_equals_singles_or_raises_not_capturable(name, how):
    both = image_models.pixels(name)
    params = FEW.get(how, {})
    if name == "swin" and how not in NO_MAPS:
        with pytest.raises(NotCapturable, match="windows"):
            explain(name, both, method=how)
        return
    model = explainer(name).model
    before = snapshot(model)
    together = explain(name, both, method=how, params=params)
    assert_unchanged(before, snapshot(model))
    for number, one in enumerate(together):
        patches = one.grid[0] * one.grid[1]
        assert one.scores.shape == (patches,) == (len(one.tokens),)
        assert np.isfinite(one.scores).all()
        # Grad-CAM cuts off what is negative, which with random weights may be all.
        assert how == "attention_gradcam" or np.abs(one.scores).max() > 0
        alone = explain(name, both[number], method=how, params=params)
        # Sums in another order, a few hundred of them; Chefer's rules divide by what may nearly cancel.
        bound = 1e-6 if "lrp" in how or how == "transformer_attribution" else 1e-9
        assert np.abs(one.scores - alone.scores).max() <= bound * np.abs(alone.scores).max()
    assert how == "attention_gradcam" or (together[0].scores != together[1].scores).any()


@every_model
def test_explain_logits_of_pictures_equal_the_models_own(name):
    model, pixels = explainer(name).model, image_models.pixels(name)
    more = {}
    if name == "clip":
        found = image_models.load_options(name)["tokenizer"](
            image_models.LABELS, padding=True, return_tensors="pt"
        )
        more = {key: found[key] for key in ("input_ids", "attention_mask")}
    with torch.no_grad():
        out = model(pixel_values=pixels, **more)
    wanted = out.logits_per_image if name == "clip" else out.logits
    for one, logits in zip(
        explain(name, pixels, method="attcat" if name != "swin" else "gradient"),
        wanted,
        strict=True,
    ):
        # Attention in other kernels: sums in another order.
        np.testing.assert_allclose(one.prediction.logits, logits.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [n for n in image_models.PICTURES if n not in ("swin", "clip")])
def test_trace_maps_of_picture_models_equal_those_of_transformers(name):
    pixels = image_models.pixels(name)
    seen = explainer(name).trace({"pixel_values": pixels}, needs={"attention"})
    model = image_models.make(name)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        wanted = model(pixel_values=pixels, output_attentions=True).attentions
    assert len(seen.layers) == len(wanted) == 3
    for layer, one in zip(seen.layers, wanted, strict=True):
        # Several eager implementations take the softmax in float32 even in a float64 model.
        torch.testing.assert_close(layer.map(), one.double(), rtol=0, atol=1e-6)


def test_raw_attention_on_clip_equals_the_attention_of_the_explained_tower():
    """The map of the last layer is the vision tower's own, then the text tower's."""
    clip, pixels = explainer("clip"), image_models.pixels("clip", 1)
    model = image_models.make("clip")
    model.set_attn_implementation("eager")
    words = clip.tokenizer(image_models.LABELS[:1], return_tensors="pt")
    with torch.no_grad():
        picture = model.vision_model(pixel_values=pixels, output_attentions=True).attentions
        text = model.text_model(input_ids=words["input_ids"], output_attentions=True).attentions
    found = explain("clip", pixels[0], method="raw_attention")
    np.testing.assert_allclose(found.scores, picture[-1][0].mean(0)[0, 1:].numpy(), atol=1e-6)
    held = {"pixel_values": pixels}
    found = clip.explain(image_models.LABELS[0], image=held, method="raw_attention")
    # It reads the end of the text.
    np.testing.assert_allclose(found.scores, text[-1][0].mean(0)[-1].numpy(), atol=1e-6)


@every_model
def test_gradient_methods_on_pictures_equal_autograd_at_the_pixels(name):
    """The twin: plain autograd at the pixels, cut into patches by loops."""
    model, pixels = image_models.make(name), image_models.pixels(name, 1)
    leaf = pixels.clone().requires_grad_()
    given = {}
    if name == "clip":
        texts = image_models.load_options(name)["tokenizer"](
            image_models.LABELS, padding=True, return_tensors="pt"
        )
        given = {key: texts[key] for key in ("input_ids", "attention_mask")}
    out = model(pixel_values=leaf, **given)
    logits = out.logits_per_image if name == "clip" else out.logits
    (grad,) = torch.autograd.grad(logits[0, 1], leaf)
    found = {
        how: explain(name, pixels[0], method=how, target=1) for how in ("gradient", "grad_x_input")
    }
    down, across = found["gradient"].grid
    patch = pixels.shape[2] // down
    for row in range(down):
        for column in range(across):
            cell = (
                0, slice(None), slice(row * patch, row * patch + patch),
                slice(column * patch, column * patch + patch),
            )  # fmt: skip
            number = row * across + column
            wanted = grad[cell].square().sum().sqrt().item(), (grad * pixels)[cell].sum().item()
            assert found["gradient"].scores[number] == pytest.approx(wanted[0], rel=1e-9)
            assert found["grad_x_input"].scores[number] == pytest.approx(
                wanted[1], rel=1e-9, abs=1e-10
            )


def test_integrated_gradients_on_a_picture_equal_a_midpoint_sum_from_black():
    """The twin: a midpoint sum over the pixels themselves. Without a processor, black is the darkest pixel."""
    model, pixels = image_models.make("vit"), image_models.pixels("vit", 1)
    black = torch.full_like(pixels, pixels.min().item())
    total = torch.zeros_like(pixels)
    for step in range(6):
        leaf = (black + (step + 0.5) / 6 * (pixels - black)).requires_grad_()
        (grad,) = torch.autograd.grad(model(pixel_values=leaf).logits[0, 2], leaf)
        total += grad / 6
    wanted = split_patches((total * (pixels - black))[0], (4, 4)).sum(-1)
    params = {"steps": 6, "rule": "midpoint"}
    found = explain("vit", pixels[0], method="integrated_gradients", target=2, params=params)
    assert found.params["baseline"] == "black"
    np.testing.assert_allclose(found.scores, wanted.numpy(), rtol=1e-9, atol=1e-12)
    with torch.no_grad():
        rise = (model(pixel_values=pixels).logits - model(pixel_values=black).logits)[0, 2].item()
    assert found.axioms["completeness"] == pytest.approx(float(wanted.sum()) - rise, abs=1e-9)


@pytest.mark.parametrize("fill", ["black", "mean", "blur"])
@pytest.mark.parametrize("name", ["vit", "swin"])
def test_occlusion_on_a_picture_equals_covering_every_square_of_3_by_3_patches(name, fill):
    """The twin: every square of 3 x 3 patches covered by hand."""
    model, pixels = image_models.make(name), image_models.pixels(name, 1)
    found = explain(name, pixels[0], method="occlusion", target=1, params={"remove": fill})
    side, patch = found.grid[0], pixels.shape[2] // found.grid[0]
    cover = found.item.picture.build_fill(fill)
    if fill == "mean":
        assert torch.allclose(cover[:, 3, 5], pixels[0].mean((1, 2)))
    if fill == "black":
        assert (cover == pixels.min()).all()
    total, often = torch.zeros(side, side), torch.zeros(side, side)
    with torch.no_grad():
        base = model(pixel_values=pixels).logits.softmax(-1)[0, 1]
        for top in range(side - 2):
            for left in range(side - 2):
                covered = pixels.clone()
                rows = slice(top * patch, (top + 3) * patch)
                columns = slice(left * patch, (left + 3) * patch)
                covered[0, :, rows, columns] = cover[:, rows, columns]
                fall = base - model(pixel_values=covered).logits.softmax(-1)[0, 1]
                total[top : top + 3, left : left + 3] += fall
                often[top : top + 3, left : left + 3] += 1
    # The twin's sums are in float32.
    np.testing.assert_allclose(found.scores, (total / often).flatten().numpy(), atol=1e-6)
    assert found.passes.forward == 1 + (side - 2) ** 2


def test_explain_in_bfloat16_with_wider_pixels_gives_finite_scores():
    pixels = image_models.pixels("vit", 1)
    narrow = whence.load(image_models.make("vit", dtype=torch.bfloat16))
    for how in ("attcat", "integrated_gradients", "leave_one_out", "full_lrp"):
        unsure = pytest.warns(RuntimeWarning, match="mostly rounding")
        with unsure if how == "full_lrp" else nullcontext():
            found = narrow.explain({"pixel_values": pixels}, method=how, params=FEW.get(how, {}))
        assert np.isfinite(found.scores).all()
    wide = explain("vit", pixels[0], method="gradient", target=0).scores
    rough = narrow.explain({"pixel_values": pixels}, method="gradient", target=0).scores
    # bfloat16 has 8 bits: a few percent after three layers.
    assert np.corrcoef(wide, rough)[0, 1] > 0.99
