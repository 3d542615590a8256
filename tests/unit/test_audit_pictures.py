"""Audits of image models: attention and importance are those of the patches."""

import numpy as np
import pytest
import torch
from draw_shapes import draw_scene

import whence
from whence.core.errors import NoHead
from whence.explain.explainer import Explainer
from whence.explain.inputs import encode_inputs
from whence.studies.audit.importance import gradient, leave_one_out
from whence.studies.audit.subject import AuditSubject

SCENES = [draw_scene(number) for number in range(3)]


@pytest.fixture(scope="module")
def subject():
    explainer = whence.load("shapes", dtype="float64")
    items, _ = encode_inputs([scene.pixels for scene in SCENES], explainer.loaded, truncate=False)
    return AuditSubject(explainer.loaded, items, None)


def test_audit_subject_attention_is_the_class_token_row_over_the_patches(subject):
    explainer = Explainer(subject.loaded)
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


def test_gradient_importance_of_patches_equals_absolute_grad_x_input(subject):
    explainer = Explainer(subject.loaded)
    for number, scene in enumerate(SCENES):
        best = int(subject.predictions[number])
        slope = explainer.explain(
            scene.pixels, method="grad_x_input", target=best, of="probability"
        ).scores
        np.testing.assert_allclose(
            gradient(subject, detached=False)[number], np.abs(slope), atol=1e-9
        )
    assert [row.shape for row in leave_one_out(subject)] == [(64,)] * 3


def test_name_tokens_names_patches_by_row_and_column_and_the_class_token(subject):
    assert subject.name_tokens(0, [0, 1, 64]) == [
        "(added by the model)",
        "row 1, column 1",
        "row 8, column 8",
    ]


def test_audit_of_an_image_model_runs_and_refuses_experiments_that_train():
    given = [(scene.pixels, scene.labels[0]) for scene in SCENES]
    found = whence.audit("shapes", given, experiments=["permutation", "adversarial"])
    assert "row " in str(found)
    assert found.to_dict()["data"]["used"] == 3
    with pytest.raises(NoHead, match="sees pictures"):
        whence.audit("shapes", given, experiments=["uniform_training"], train=given, epochs=1)
