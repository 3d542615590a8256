"""The methods of Chefer et al. on a ViT, through the public door, against plain code written from the papers."""

import numpy as np
import pytest
import torch

import whence
from tests import image_models
from tests.reference.plain_vit import chefer_vit, plain_vit, rows, to_pixels
from tests.reference.twins_relevance import divide

TARGET = 1


@pytest.fixture(scope="module")
def model():
    return image_models.make("vit")


@pytest.fixture(scope="module")
def pixels():
    return image_models.pixels("vit", 1)[0]


@pytest.fixture(scope="module")
def seen(model, pixels):
    """The plain run, its maps, and their gradients by autograd."""
    plain = plain_vit(model, pixels)
    at = plain.run()
    maps = [layer.attention for layer in at.layers]
    hidden = [layer.x for layer in at.layers]
    grads = torch.autograd.grad(at.logits[TARGET], [*maps, *hidden])
    at.maps = [one.detach() for one in maps]
    at.map_grads, at.hidden_grads = grads[: len(maps)], grads[len(maps) :]
    at.plain = plain
    return at


@pytest.fixture(scope="module")
def explain(model, pixels):
    explainer = whence.load(model)
    return lambda method, **params: explainer.explain(
        {"pixel_values": pixels}, method=method, target=TARGET, params=params
    )


def same(found, wanted, bound=1e-9):
    """Compare relative to the largest score."""
    wanted = torch.as_tensor(wanted).detach().numpy()
    assert np.abs(wanted).max() > 0
    assert np.abs(found.scores - wanted).max() <= bound * np.abs(wanted).max()


def rolled(steps):
    product = torch.eye(17, dtype=torch.float64)
    for step in steps:
        product = step @ product
    return product[0, 1:]


def test_the_plain_vit_is_the_model(model, pixels, seen):
    with torch.no_grad():
        own = model(pixel_values=pixels[None]).logits[0]
    torch.testing.assert_close(seen.logits.detach(), own, rtol=1e-12, atol=1e-12)


def test_raw_attention(explain, seen):
    same(explain("raw_attention", preset="chefer_vit"), seen.maps[-1].mean(0)[0, 1:])


def test_rollout_from_the_second_layer(explain, seen):
    eye = torch.eye(17, dtype=torch.float64)
    mixed = [eye + one.mean(0) for one in seen.maps[1:]]
    same(
        explain("rollout", preset="chefer_vit"),
        rolled([one / one.sum(-1, keepdim=True) for one in mixed]),
    )


def test_gradcam_over_the_row(explain, seen):
    attention, grad = seen.maps[-1][:, 0, 1:], seen.map_grads[-1][:, 0, 1:]
    cam = (grad.mean(-1, keepdim=True) * attention).mean(0).clamp(min=0)
    if cam.max() == 0:
        assert not explain("attention_gradcam").scores.any()
        return
    same(explain("attention_gradcam"), cam)  # the row is the default for pictures
    wanted = (cam - cam.min()) / (cam.max() - cam.min())
    same(explain("attention_gradcam", preset="chefer_vit"), wanted)


def test_generic_attention(explain, seen):
    eye = torch.eye(17, dtype=torch.float64)
    pairs = zip(seen.maps, seen.map_grads, strict=True)
    same(
        explain("generic_attention"), rolled([eye + (a * g).clamp(min=0).mean(0) for a, g in pairs])
    )


def test_attcat(explain, seen):
    layers = zip(seen.layers, seen.hidden_grads, seen.maps, strict=True)
    wanted = sum((at.x * grad).sum(-1) * one.mean((0, 1)) for at, grad, one in layers)
    same(explain("attcat"), wanted[1:])


# Chefer's rules divide by sums that may nearly cancel, and so magnify the rounding of float64 (1e-16): through three
# layers and the convolution by up to 1e7 here, measured; a wrong rule shows in the first digits.
ROUGH = 1e-8


@pytest.mark.parametrize(("preset", "start"), [("chefer_vit", 1), ("chefer_vit_notebook", 0)])
def test_transformer_attribution(explain, seen, preset, start):
    maps, _ = chefer_vit(seen.plain, seen, "ours", TARGET)
    eye = torch.eye(17, dtype=torch.float64)
    steps = [eye + (g * r).clamp(min=0).mean(0) for g, r in zip(seen.map_grads, maps, strict=True)]
    same(explain("transformer_attribution", preset=preset), rolled(steps[start:]))
    # Without a preset: no rows are normalised, from the first layer on.
    if start == 0:
        same(explain("transformer_attribution"), rolled(steps))


def test_partial_lrp(explain, seen):
    maps, _ = chefer_vit(seen.plain, seen, "original", TARGET)
    same(explain("partial_lrp", preset="chefer"), maps[-1].clamp(min=0).mean(0)[0, 1:])


@pytest.mark.parametrize("rules", ["original", "ours"])
def test_full_lrp_goes_down_to_the_pixels(model, pixels, explain, seen, rules):
    _, start = chefer_vit(seen.plain, seen, rules, TARGET)
    shares = to_pixels(model, pixels, start[1:])  # (patches, channels x 4 x 4)
    found = explain("full_lrp", rules=rules)
    same(found, shares.sum(-1), ROUGH)
    fine = rows(torch.from_numpy(found.heatmap())[None], 4)  # (patches, 4 x 4)
    wanted = shares.reshape(16, 3, 16).sum(1)
    assert found.heatmap().shape == (16, 16)
    assert (fine - wanted).abs().max() <= ROUGH * wanted.abs().max()


def test_full_lrp_of_the_authors_leaves_a_share_to_the_positions(model, pixels, explain, seen):
    """Their Add of patches and positions hands each its share u R / (u + v); the patches' goes on to the pixels."""
    _, start = chefer_vit(seen.plain, seen, "original", TARGET)
    tokens, places = seen.plain.tokens.detach(), seen.plain.places
    first = tokens * divide(start, tokens + places)
    shares = to_pixels(model, pixels, first[1:])
    found = explain("full_lrp", preset="chefer_vit")
    same(found, shares.sum(-1), ROUGH)
    fine = rows(torch.from_numpy(found.heatmap())[None], 4)
    wanted = shares.reshape(16, 3, 16).sum(1)
    assert (fine - wanted).abs().max() <= ROUGH * wanted.abs().max()


def test_positions_share_by_the_authors_own_rules_too(model, pixels, explain, seen):
    """Both shares are rescaled to totals that are positive and add up."""
    _, start = chefer_vit(seen.plain, seen, "ours", TARGET)
    tokens, places = seen.plain.tokens.detach(), seen.plain.places
    own, other = (one * divide(start, tokens + places) for one in (tokens, places))
    size = own.sum().abs() + other.sum().abs()
    own = own * divide(divide(own.sum().abs(), size) * start.sum(), own.sum())
    shares = to_pixels(model, pixels, own[1:])
    same(explain("full_lrp", rules="ours", positions=True), shares.sum(-1), ROUGH)
