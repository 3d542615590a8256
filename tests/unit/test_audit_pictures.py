"""Audits of models that see: the attention that is compared is that of the patches, and no other place moves."""

import numpy as np
import pytest
import torch

import whence
from whence.audit.importance import gradient, loo
from whence.audit.subject import Subject
from whence.core.errors import NoHead
from whence.data.sets.examples import examples
from whence.data.vision.shapes import draw
from whence.explainer.intake import take

SCENES = [draw(number) for number in range(3)]


@pytest.fixture(scope="module")
def subject():
    explainer = whence.load("shapes", dtype="float64")
    items, _ = take([scene.pixels for scene in SCENES], explainer.loaded, truncate=False)
    given = examples([(scene.pixels, scene.labels[0]) for scene in SCENES])
    return Subject(explainer, given, items, None)


def test_attention_is_the_class_tokens_row_over_the_patches(subject):
    explainer = subject.explainer
    own = subject.attention()
    for number, scene in enumerate(SCENES):
        pixels = explainer.loaded.processor(images=scene.pixels, return_tensors="pt").pixel_values
        explainer.model.set_attn_implementation("eager")
        with torch.no_grad():
            maps = explainer.model(pixels.double(), output_attentions=True).attentions[-1]
        explainer.model.set_attn_implementation("sdpa")
        row = maps[0].mean(0)[0, 1:].double().numpy()
        # transformers takes the softmax of this model in float32, whatever the model's own dtype.
        np.testing.assert_allclose(own[number], row / row.sum(), atol=1e-6)


def test_what_importance_says_of_a_patch_is_what_the_methods_say(subject):
    explainer = subject.explainer
    for number, scene in enumerate(SCENES):
        best = int(subject.predicted[number])
        slope = explainer.explain(
            scene.pixels, method="grad_x_input", target=best, of="probability"
        ).scores
        np.testing.assert_allclose(
            gradient(subject, detached=False)[number], np.abs(slope), atol=1e-9
        )
    assert [row.shape for row in loo(subject)] == [(64,)] * 3


def test_what_the_model_puts_before_the_patches_is_named(subject):
    assert subject.names(0, [0, 1, 64]) == [
        "(added by the model)",
        "row 1, column 1",
        "row 8, column 8",
    ]


def test_an_audit_of_a_model_that_sees():
    given = [(scene.pixels, scene.labels[0]) for scene in SCENES]
    found = whence.audit("shapes", given, experiments=["permutation", "adversarial"])
    assert "row " in str(found)
    assert found.to_dict()["data"]["used"] == 3
    with pytest.raises(NoHead, match="sees pictures"):
        whence.audit("shapes", given, experiments=["uniform_training"], train=given, epochs=1)
