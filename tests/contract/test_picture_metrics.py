"""Picture metrics (perturbation, segmentation): as a slow reference, nulls, refusals, `evaluate` of pictures."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessorPil

import whence
from whence.core.errors import BadExamples
from whence.core.registry import resolve_parameters
from whence.core.seed import build_generator
from whence.data.dataset import read_dataset
from whence.data.example import Example, fit_mask
from whence.explain.trials import HumanAnnotation
from whence.metrics import build_null_trial, metric
from whence.metrics._steps import compute_pixel_maps

SIDE, PATCH = 16, 4
METHODS = ["rollout", "gradient", "transformer_attribution", "grad_x_input", "leave_one_out"]
OF_PICTURES = [entry.name for entry in metric if entry.facts.get("takes") == "picture"]
OF_TEXTS = [entry.name for entry in metric if entry.facts.get("takes") == "text"]


@pytest.fixture(scope="module")
def vit_explainer():
    """Return an explainer of a small ViT with random weights, in float64."""
    torch.manual_seed(3)
    config = ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24, image_size=SIDE,
        patch_size=PATCH, num_labels=3, initializer_range=0.4, id2label={0: "ant", 1: "bee", 2: "cow"},
        label2id={"ant": 0, "bee": 1, "cow": 2},
    )  # fmt: skip
    size = {"height": SIDE, "width": SIDE}
    processor = ViTImageProcessorPil(size=size, image_mean=[0.5] * 3, image_std=[0.25] * 3)
    model = ViTForImageClassification(config).double().eval()
    return whence.load(model, processor=processor)


def photograph(seed=0, side=SIDE):
    draw = np.random.default_rng(seed)
    return Image.fromarray(draw.integers(0, 256, (side, side, 3), dtype=np.uint8))


def outline():
    mask = np.zeros((SIDE, SIDE), dtype=np.int8)
    mask[3:9, 2:11] = 1
    mask[9, 2:11] = -1
    return mask


@pytest.fixture(scope="module")
def trial(vit_explainer):
    given = {"method": METHODS, "known": [HumanAnnotation(1, outline())], "target": "bee"}
    ((_, found, _),) = vit_explainer.trials([photograph()], **given)
    return found


def test_metric_registry_lists_the_picture_metrics_and_the_text_metrics():
    assert OF_PICTURES == [
        "negative_perturbation", "pointing_game", "positive_perturbation", "segmentation_accuracy", "segmentation_ap",
        "segmentation_iou",
    ]  # fmt: skip
    assert OF_TEXTS == ["auprc", "iou_f1", "precision_at_k", "token_f1"]


# --- every one of them ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_PICTURES)
def test_picture_metric_outcomes_are_in_range_and_independent_of_other_rows(trial, name):
    entry = metric.get(name)
    low, high = entry.facts["range"]
    for preset in (None, *entry.presets):
        given = {} if preset is None else {"preset": preset}
        params = resolve_parameters(name, entry.parameters, given, presets=entry.presets)
        found = entry.fn(trial, **params)
        null = entry.fn(build_null_trial(entry, trial, 0, 20), **params)
        for outcome, rows in ((found, len(METHODS)), (null, 20)):
            assert outcome.values.shape == (rows,) and not outcome.why_not
            assert ((low <= outcome.values) & (outcome.values <= high)).all()
        for row in range(len(METHODS)):
            alone = entry.fn(trial.select_rows([row]), **params).values
            # The same pictures in other batches: the logits differ by rounding, which no argmax here hangs on.
            assert alone[0] == pytest.approx(found.values[row], abs=1e-9)


@pytest.mark.parametrize("name", OF_PICTURES)
def test_picture_metric_of_equal_scores_has_a_reason_and_no_value(trial, name):
    scores = trial.scores.copy()
    scores[1] = 0.25
    found = metric.get(name).fn(_with_scores(trial, scores))
    assert list(found.why_not) == [1] and "All scores are equal" in found.why_not[1]
    assert np.isnan(found.values).tolist() == [False, True, False, False, False]


def _with_scores(trial, scores):
    from dataclasses import replace

    return replace(trial, scores=np.asarray(scores, dtype=np.float64), fine=())


@pytest.mark.parametrize("name", OF_PICTURES)
def test_picture_metric_on_a_text_has_a_reason_and_no_value(name):
    reviews = whence.load("reviews")
    ((_, of_text, _),) = reviews.trials(["a fine film"], method="attcat")
    found = metric.get(name).fn(of_text)
    assert "this input is a text" in found.why_not[0] and np.isnan(found.values).all()


@pytest.mark.parametrize("name", OF_TEXTS)
def test_text_metric_on_a_picture_has_a_reason_for_every_method(trial, name):
    found = metric.get(name).fn(trial)
    assert "tokens of a text" in found.why_not[0] and len(found.why_not) == len(METHODS)


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (HumanAnnotation(1), "There is no mask"),
        (HumanAnnotation(1, np.zeros((SIDE, SIDE), dtype=np.int8)), "marks nothing"),
        (HumanAnnotation(1, np.ones((SIDE, SIDE), dtype=np.int8)), "marks all"),
    ],
)
def test_segmentation_metrics_without_a_usable_mask_give_the_reason(vit_explainer, known, why):
    ((_, found, _),) = vit_explainer.trials([photograph()], method="rollout", known=[known])
    for name in OF_PICTURES:
        outcome = metric.get(name).fn(found)
        if "perturbation" in name:
            assert not outcome.why_not
        else:
            assert why in outcome.why_not[0]


def test_positive_perturbation_needs_a_label_for_accuracy_but_not_for_probability(vit_explainer):
    ((_, found, _),) = vit_explainer.trials([photograph()], method="rollout")
    fn = metric.get("positive_perturbation").fn
    assert "has no label" in fn(found).why_not[0]
    assert not fn(found, of="probability").why_not


# --- the protocol --------------------------------------------------------------------------------


def slow_curve(seer, trial, picture, row, target, truth, *, lowest, of):
    """Follow the authors step by step, on the picture as a person sees it: black is a pixel of 0, 0, 0."""
    grid = torch.tensor(trial.scores[row]).reshape(1, 1, SIDE // PATCH, SIDE // PATCH)
    big = F.interpolate(grid, scale_factor=PATCH, mode="bilinear")[0, 0].numpy()
    ours = compute_pixel_maps(trial)[row]
    np.testing.assert_allclose(ours, big, rtol=1e-12, atol=1e-15)
    # Beyond the outermost centres a map is flat; the authors leave to the sorting what goes first there, we draw it.
    lot = build_generator("pixels", trial.seed, trial.item.key).permutation(SIDE * SIDE)
    place = np.empty(SIDE * SIDE, dtype=int)
    place[lot] = np.arange(SIDE * SIDE)
    heights = ours.reshape(-1) if lowest else -ours.reshape(-1)
    order = sorted(range(SIDE * SIDE), key=lambda pixel: (heights[pixel], place[pixel]))
    curve = []
    for tenth in range(10):
        pixels = np.array(picture).reshape(-1, 3)
        pixels[order[: int(SIDE * SIDE * tenth / 10)]] = 0
        values = torch.tensor(pixels.reshape(SIDE, SIDE, 3)).double().permute(2, 0, 1) / 255
        with torch.no_grad():
            logits = seer.model(pixel_values=((values - 0.5) / 0.25)[None]).logits[0]
        right = float(int(logits.argmax()) == truth)
        curve.append(right if of == "accuracy" else float(logits.softmax(0)[target]))
    return curve


@pytest.mark.parametrize("of", ["accuracy", "probability"])
@pytest.mark.parametrize("lowest", [False, True])
def test_perturbation_metrics_equal_the_protocol_computed_step_by_step(
    vit_explainer, trial, lowest, of
):
    name = "negative_perturbation" if lowest else "positive_perturbation"
    found = metric.get(name).fn(trial, of=of)
    np.testing.assert_array_equal(found.at, [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
    for row in range(len(METHODS)):
        curve = slow_curve(vit_explainer, trial, photograph(), row, 1, 1, lowest=lowest, of=of)
        # The processor normalises in float32 (1e-7), and the softmax of HF's ViT is float32 as well.
        np.testing.assert_allclose(found.curves[row], curve, atol=1e-5)
        # The trapezoid rule by hand: half of the ends, all of the rest, a tenth apart.
        by_hand = 0.1 * (curve[0] / 2 + sum(curve[1:9]) + curve[9] / 2)
        assert found.values[row] == pytest.approx(by_hand, abs=1e-5)


def test_positive_perturbation_equals_negative_perturbation_of_negated_scores(trial):
    """What goes first in the one goes last in the other: the same pictures."""
    for of in ("accuracy", "probability"):
        up = metric.get("positive_perturbation").fn(trial, of=of).values
        down = (
            metric.get("negative_perturbation").fn(_with_scores(trial, -trial.scores), of=of).values
        )
        np.testing.assert_array_equal(up, down)


@pytest.mark.parametrize("fill", ["mean", "blur"])
def test_positive_perturbation_with_mean_or_blur_fill_differs_from_black(trial, fill):
    fn = metric.get("positive_perturbation").fn
    black, other = (fn(trial, of="probability", fill=one).curves for one in ("black", fill))
    np.testing.assert_array_equal(black[:, 0], other[:, 0])
    assert np.abs(black[:, 1:] - other[:, 1:]).max() > 1e-3


def test_without_pixels_changes_exactly_the_given_pixels_of_a_picture(trial):
    picture = trial.item.picture
    gone = np.zeros((SIDE, SIDE), dtype=bool)
    gone[3, 5] = gone[15, 15] = True
    changed = picture.without_pixels(gone, "black")
    differs = (changed.render_pixels() != picture.pixels).any(0).numpy()
    np.testing.assert_array_equal(differs, gone)
    # Black is 0 before normalisation: (0 - 0.5) / 0.25.
    assert changed.render_pixels()[:, gone].unique().tolist() == [-2.0]
    assert changed.digest == picture.digest and changed.blot != picture.blot


def test_segmentation_metrics_of_a_perfect_map_are_at_the_top_of_the_null(trial):
    """A mask made of whole patches, and a map that is high on just these: as good as bilinear edges allow."""
    from dataclasses import replace

    patches = np.zeros((4, 4))
    patches[1:3, 1:3] = 1
    mask = np.kron(patches, np.ones((PATCH, PATCH))).astype(np.int8)
    best = replace(_with_scores(trial.select_rows([0]), patches.reshape(1, -1)), mask=mask)
    worst = replace(best, scores=-best.scores)
    for name in ("segmentation_accuracy", "segmentation_iou", "segmentation_ap", "pointing_game"):
        fn = metric.get(name).fn
        null = fn(best.null(50)).values
        assert null.min() < null.mean() < null.max()
        assert fn(best).values[0] >= null.max() and fn(worst).values[0] <= null.min()
    assert metric.get("pointing_game").fn(best).values[0] == 1


# --- over a data set -----------------------------------------------------------------------------


def test_evaluate_accepts_pictures_as_images_bytes_examples_and_dicts(vit_explainer, tmp_path):
    buffer = io.BytesIO()
    photograph(1).save(buffer, "PNG")
    mask = outline() == 1
    given = [
        (photograph(0), "ant", mask),
        (buffer.getvalue(), "bee"),
        Example(read_dataset([photograph(2)]).examples[0].given, "cow"),
        {"image": photograph(3), "label": "bee", "mask": Image.fromarray(mask)},
        photograph(4),
    ]
    names = ["perturbation", "segmentation", "pointing_game", "deletion", "token_f1"]
    table = whence.evaluate(vit_explainer, given, ["rollout", "gradient"], names, rankings=2)
    assert table.payload["examples"]["explained"] == 5
    assert table.cell("rollout", "segmentation_iou").value.n == 2  # only two have a mask
    assert table.cell("rollout", "segmentation_iou").null.n == 2
    assert table.cell("rollout", "positive_perturbation").value.n == 4  # one has no label
    assert table.cell("rollout", "deletion").value.n == 5
    assert table.cell("rollout", "token_f1").value is None
    said = table.cell("rollout", "segmentation_iou").why_not
    assert [why for why in said if "no mask" in why]


def test_segmentation_accuracy_aggregate_is_over_all_pixels_and_not_a_mean_of_pictures(
    vit_explainer,
):
    """Pixel accuracy over a data set is not the mean of the pictures' where borders differ in size."""
    wide, narrow = outline(), outline()
    narrow[0:12] = -1  # four rows are left to judge, all of them ground but two pixels
    narrow[13, 3:5] = 1
    parts = []
    for seed, mask in ((0, wide), (1, narrow)):
        ((_, one, _),) = vit_explainer.trials(
            [photograph(seed)], method="rollout", known=[HumanAnnotation(None, mask)]
        )
        found = metric.get("segmentation_accuracy").fn(one)
        parts.append((found.parts["correct"][0], found.parts["labelled"][0], found.values[0]))
    assert [labelled for _, labelled, _ in parts] == [256 - 9, 4 * 16]
    together = metric.get("segmentation_accuracy").facts["aggregate"](
        {
            "correct": np.array([p[0] for p in parts]),
            "labelled": np.array([p[1] for p in parts]),
        }
    )
    assert together == pytest.approx((parts[0][0] + parts[1][0]) / (247 + 64))
    assert together != pytest.approx((parts[0][2] + parts[1][2]) / 2)


def test_evaluate_with_gold_target_explains_the_label_of_each_picture(vit_explainer):
    given = [(photograph(seed), ("ant", "bee", "cow")[seed % 3]) for seed in range(6)]
    gold = whence.evaluate(
        vit_explainer, given, "gradient", "deletion", target="gold", rankings=2
    )  # the area under each one's own probability
    by_hand = []
    for picture, label in given:
        one = whence.evaluate(
            vit_explainer, [picture], "gradient", "deletion", target=label, rankings=2
        )
        by_hand.append(one.cell("gradient", "deletion").value.mean)
    assert gold.cell("gradient", "deletion").value.mean == pytest.approx(np.mean(by_hand))
    with pytest.raises(BadExamples, match="is not one of the model's"):
        whence.evaluate(
            vit_explainer, [(photograph(), "horse")], "gradient", "deletion", target="gold"
        )


def test_evaluate_default_metrics_of_pictures_include_segmentation_only_with_masks(vit_explainer):
    given = [(photograph(seed), "ant", outline() == 1) for seed in range(2)]
    table = whence.evaluate(vit_explainer, given, "gradient", rankings=1)
    assert set(OF_PICTURES) < set(table.metrics) and not set(OF_TEXTS) & set(table.metrics)
    bare = whence.evaluate(vit_explainer, [photograph()], "gradient", rankings=1)
    assert "positive_perturbation" in bare.metrics and "segmentation_iou" not in bare.metrics


def test_evaluate_with_a_broken_picture_and_a_broken_mask_counts_both(vit_explainer, tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / name).mkdir()
        photograph(3).save(tmp_path / name / "good.png")
    (tmp_path / "ant" / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    (tmp_path / "bee" / "good_mask.png").write_bytes(b"no mask")
    table = whence.evaluate(
        vit_explainer, tmp_path, "gradient", "positive_perturbation", rankings=1
    )
    told = table.payload["examples"]
    assert (told["given"], told["explained"]) == (3, 1)
    assert sum(row["count"] for row in told["why_not"]) == 2


# --- photographs ---------------------------------------------------------------------------------


def test_segmentation_metrics_of_rollout_on_eight_photographs_exceed_the_null(shared):
    """The first four cats and dogs: masks fit the pixels, and attention points at the animals more than chance."""
    seer = whence.load(shared / "models" / "vit-pets")
    every = read_dataset(shared / "data" / "oxford_pets" / "pets_heldout_a.parquet").examples
    cats, dogs = ([one for one in every if one.label == label][:4] for label in ("0", "1"))
    mask = fit_mask(cats[0].mask, seer.loaded.processor)
    assert mask.shape == (128, 128) and set(np.unique(mask)) == {-1, 0, 1}
    table = whence.evaluate(
        seer, cats + dogs, "rollout", ["segmentation", "pointing_game"], rankings=3
    )
    for name in ("segmentation_accuracy", "segmentation_iou", "segmentation_ap"):
        cell = table.cell("rollout", name)
        assert cell.value.n == 8 and cell.value.mean > cell.null.mean + 0.1
