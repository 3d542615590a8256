"""Segmentation statistics of maps against masks: hand-computed values, loop references, and scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from whence.stats.segmentation import (
    compute_pointing_hits,
    count_overlap,
    mean_iou,
    scale_to_unit,
    share_inside,
    two_sided_precision,
)


def mask_of(*rows):
    return np.array(rows, dtype=np.int8)


def test_count_overlap_equals_hand_counted_accuracy_and_iou():
    # From 0 to 1: [[0, .5], [1, .25]], mean 0.4375; above it the second and the third pixel.
    maps = [[[1.0, 3.0], [5.0, 2.0]]]
    np.testing.assert_array_equal(scale_to_unit(maps), [[[0, 0.5], [1, 0.25]]])
    mask = mask_of([0, 1], [0, 1])
    found = count_overlap(maps, mask)
    # Right: the first (ground) and the second (object). 2 of 4.
    assert (found.correct, found.labelled) == (2, 4)
    assert found.accuracy == [0.5]
    # Ground: the map says {1, 4}, people {1, 3}: 1 shared, 3 joined. Object: {2, 3} and {2, 4}: 1 and 3.
    np.testing.assert_array_equal(found.shared, [[1, 1]])
    np.testing.assert_array_equal(found.joined, [[3, 3]])
    assert found.iou == pytest.approx([1 / 3])


def test_two_sided_precision_equals_hand_computed_values():
    # Two pixels, the map 0 and 1 after scaling, the first is object: everything is the wrong way round.
    # Channels (ground, object): scores 1, 0 | 0, 1 and truth 0, 1 | 1, 0. The two at score 1 are wrong, then both
    # right ones come together: precision 2/4 at recall 1.
    assert two_sided_precision([[[2.0, 7.0]]], mask_of([1, 0])) == pytest.approx([0.5])
    # The other way round both right ones come first: precision 1.
    assert two_sided_precision([[[7.0, 2.0]]], mask_of([1, 0])) == pytest.approx([1.0])


def test_unlabelled_border_pixels_are_ignored_by_every_statistic():
    # The third column is the border: without it the toy above.
    maps = [[[1.0, 3.0, 4.0], [5.0, 2.0, 1.5]]]
    mask = mask_of([0, 1, -1], [0, 1, -1])
    found = count_overlap(maps, mask)
    assert found.labelled == [4]
    # Scaled [0, .5, .75 / 1, .25, .125], mean 2.625 / 6 = 0.4375 as before, so the same counts.
    assert (found.correct, found.iou) == (2, pytest.approx([1 / 3]))
    same = two_sided_precision([[[1.0, 3.0], [5.0, 2.0]]], mask[:, :2])
    assert two_sided_precision(maps, mask) == pytest.approx(same)
    # The highest pixel on the border is not looked at: the next one, 5, is ground.
    assert compute_pointing_hits([[[1.0, 3.0, 9.0], [5.0, 2.0, 1.5]]], mask) == [0]


def test_mean_iou_pools_pixels_over_images_and_skips_empty_sides():
    # One picture of 1 of 2 shared, one of 9 of 10: (1 + 9) / (2 + 10) on the one side; 0 of 4 on the other.
    assert mean_iou([10, 0], [12, 4]) == pytest.approx((10 / 12 + 0) / 2)
    # A side that neither names is no side.
    assert mean_iou([3, 0], [4, 0]) == pytest.approx(3 / 4)


def test_compute_pointing_hits_equals_hand_computed_values_with_tolerance_and_ties():
    mask = mask_of([0, 0, 0, 1])
    assert compute_pointing_hits(
        [[[0.0, 1.0, 0.0, 3.0]], [[5.0, 1.0, 0.0, 3.0]]], mask
    ).tolist() == [1, 0]
    # The first pixel is 3 off the object: near enough from a tolerance of 3 on.
    assert [float(compute_pointing_hits([[[5.0, 1, 0, 3]]], mask, t)[0]) for t in (2, 2.9, 3)] == [
        0,
        0,
        1,
    ]
    # Two are highest, one of them on the object.
    assert compute_pointing_hits([[[3.0, 1.0, 0.0, 3.0]]], mask) == [0.5]


def test_pointing_tolerance_is_the_euclidean_distance():
    mask = mask_of([1, 0, 0], [0, 0, 0], [0, 0, 0])
    corner = np.zeros((1, 3, 3))
    corner[0, 2, 2] = 1  # sqrt(8) = 2.83 off
    assert (compute_pointing_hits(corner, mask, 2.5), compute_pointing_hits(corner, mask, 3)) == (
        [0],
        [1],
    )


def test_share_inside_counts_positive_scores_and_is_nan_without_any():
    # The positive part is 1 + 3 = 4, of which 3 are inside; what is negative counts for nothing.
    assert share_inside([[[1.0, -5.0], [3.0, 0.0]]], [[0, 1], [1, 1]]) == [0.75]
    assert np.isnan(share_inside([[[-1.0, 0.0]]], [[1, 1]])).all()


def count_overlap_by_loops(values, mask):
    """The protocol with loops, one picture: counts of ground and object, and hits."""
    low, high = min(map(min, values)), max(map(max, values))
    flat = [[(v - low) / (high - low) for v in row] for row in values]
    mean = sum(map(sum, flat)) / (len(flat) * len(flat[0]))
    correct = labelled = 0
    shared, joined = [0, 0], [0, 0]
    for row, truths in zip(flat, mask, strict=True):
        for value, truth in zip(row, truths, strict=True):
            if truth == -1:
                continue
            said = int(value > mean)
            labelled += 1
            correct += said == truth
            for side in (0, 1):
                shared[side] += said == side and truth == side
                joined[side] += said == side or truth == side
    return correct, labelled, shared, joined


@pytest.mark.parametrize("ties", [False, True])
def test_count_overlap_and_precision_equal_loops_and_scikit_learn(ties):
    draw = np.random.default_rng(1)
    for _ in range(20):
        maps = draw.standard_normal((3, 5, 7))
        maps = np.round(maps) if ties else maps
        mask = draw.integers(-1, 2, (5, 7)).astype(np.int8)
        found = count_overlap(maps, mask)
        precision = two_sided_precision(maps, mask)
        for row in range(3):
            correct, labelled, shared, joined = count_overlap_by_loops(
                maps[row].tolist(), mask.tolist()
            )
            assert (found.correct[row], found.labelled[row]) == (correct, labelled)
            assert found.shared[row].tolist() == shared and found.joined[row].tolist() == joined
            said = mask != -1
            sure = scale_to_unit(maps[row : row + 1])[0][said]
            truth = mask[said]
            expected = average_precision_score(
                np.concatenate([truth == 0, truth == 1]), np.concatenate([1 - sure, sure])
            )
            # The same terms summed in another order: some 1e-16 each, of at most 70.
            assert precision[row] == pytest.approx(expected, abs=1e-13)


def test_flat_map_counts_as_ground_and_has_a_finite_precision():
    found = count_overlap(np.ones((1, 2, 2)), mask_of([0, 1], [0, 1]))
    assert found.correct == [2]  # all of it is ground, which is half right
    assert np.isfinite(two_sided_precision(np.ones((1, 2, 2)), mask_of([0, 1], [0, 1]))).all()
