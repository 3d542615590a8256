"""Statistics of an evaluation: cells, pairs, intervals and marks, by hand and with too few examples."""

import math

import numpy as np
import pytest

import whence
from tests.unit.evaluation.conftest import (
    METHODS,
    TEXTS,
    assert_in_all_text_formats,
    read_all_formats,
    render_all_formats,
)
from whence.render.document import choose_decimals, format_interval
from whence.studies.evaluation.measure import resolve_metrics
from whence.studies.evaluation.scores import ScoreTables
from whence.studies.evaluation.statistics import compare_methods, compute_costs, mark_best


def compare_given_values(values, nulls, name="comprehensiveness"):
    """Return the judgement of numbers that are given, (examples, methods)."""
    (measure,) = resolve_metrics(name)
    values, nulls = np.array(values, dtype=float), np.array(nulls, dtype=float)
    notes = ScoreTables([f"m{i}" for i in range(values.shape[1])], [measure], len(values), 1)
    notes.values[name], notes.nulls[name] = values, nulls
    found = compare_methods(notes, measure, range(len(values)), 0)
    return found.cells, found.pairs, found.facts["null"]


def test_compare_methods_of_eight_examples_equals_hand_computed_cells_and_pairs():
    # Eight examples. m0 is 0.1 .. 0.8, m1 always 0.05 less, random explanations get 0.
    values = [[i / 10, i / 10 - 0.05] for i in range(1, 9)]
    cells, pairs, chance = compare_given_values(values, np.zeros((8, 2)))
    assert [cell["mean"] for cell in cells] == pytest.approx([0.45, 0.40])
    assert [cell["n"] for cell in cells] == [8, 8]
    # All eight differences are positive in each of the three comparisons: p = 2 / 2^8, and Holm makes of three
    # equal ones 3 p = 0.0234.
    assert [cell["p"] for cell in cells] == pytest.approx([6 / 256] * 2)
    assert pairs == [
        {
            "metric": "comprehensiveness",
            "a": "m0",
            "b": "m1",
            "gain": pytest.approx({"mean": 0.05, "low": 0.05, "high": 0.05, "n": 8}),
            "p": pytest.approx(6 / 256),
            "enough": True,
        }
    ]
    assert [cell["beats_random"] for cell in cells] == [True, True]
    assert [cell["best"] for cell in cells] == [True, False]
    # The spread of 0.1 .. 0.8 is 0.1 sqrt(6) = 0.2449.
    assert cells[0]["effect"] == pytest.approx(0.45 / (0.1 * math.sqrt(6)))
    assert chance == {"mean": 0, "low": 0, "high": 0, "n": 8}


def test_compare_methods_with_a_lower_is_better_metric_marks_the_lower_as_best():
    values = [[i / 10, i / 10 - 0.05] for i in range(1, 9)]
    cells, pairs, _ = compare_given_values(values, np.ones((8, 2)), "sufficiency")
    assert [cell["best"] for cell in cells] == [False, True]
    assert [cell["beats_random"] for cell in cells] == [True, True]
    assert pairs[0]["gain"]["mean"] == pytest.approx(-0.05)


def test_compare_methods_marks_indistinguishable_methods_all_as_best():
    # m1 is better by 0.1 in half of the examples and worse in the others.
    values = [[0.5 + (0.1 if i % 2 else -0.1), 0.5] for i in range(8)]
    cells, _, _ = compare_given_values(values, np.zeros((8, 2)))
    assert [cell["best"] for cell in cells] == [True, True]


def test_compare_methods_pairs_use_only_examples_tested_by_both_methods():
    nan = float("nan")
    cells, pairs, _ = compare_given_values([[1, nan], [2, 1], [3, 1], [nan, 1]], np.zeros((4, 2)))
    assert [cell["n"] for cell in cells] == [3, 3]
    # 2 - 1 and 3 - 1.
    assert pairs[0]["gain"]["mean"] == pytest.approx(1.5)
    assert pairs[0]["gain"]["n"] == 2


def test_compare_methods_does_not_mark_a_method_worse_than_random():
    cells, _, _ = compare_given_values([[-0.1 * i] for i in range(1, 11)], np.zeros((10, 1)))
    assert cells[0]["p"] < 0.05
    assert not cells[0]["beats_random"]
    assert not cells[0]["best"]  # one method alone is no best


def test_compare_methods_iou_f1_is_the_f1_of_mean_precision_and_mean_recall():
    # F1 of mean precision and mean recall, not the mean of the F1s: P = (1 + 0.5) / 2, R = (0.5 + 0.5) / 2.
    (measure,) = resolve_metrics("iou_f1")
    notes = ScoreTables(["m"], [measure], 2, 1)
    notes.values["iou_f1"][:, 0] = [2 / 3, 0.5]
    notes.nulls["iou_f1"][:, 0] = [0.1, 0.1]
    notes.part_names["iou_f1"] = ["precision", "recall"]
    notes.parts["iou_f1"] = np.array([[[[1.0, 0.5]]], [[[0.5, 0.5]]]])
    # Two random explanations: F1 of (0.2, 0.2) is 0.2, of (0.4, 0.4) is 0.4; their mean is 0.3.
    notes.null_parts["iou_f1"] = np.array([[[[0.2, 0.2], [0.4, 0.4]]]] * 2)
    found = compare_methods(notes, measure, [0, 1], 0)
    (cell,) = found.cells
    assert cell["mean"] == pytest.approx(2 * 0.75 * 0.5 / 1.25)
    assert cell["null"]["mean"] == found.facts["null"]["mean"] == pytest.approx(0.3)


def test_evaluate_of_one_example_has_no_interval_and_reports_too_few(explainer):
    found = whence.evaluate(explainer, TEXTS[:1], METHODS, "comprehensiveness")
    cell = found.cell("attcat", "comprehensiveness")
    assert (cell.value.low, cell.value.high, cell.value.n, cell.effect) == (None, None, 1, None)
    assert cell.p == 1  # a single difference could as well have had the other sign
    shown = render_all_formats(found)
    for name in ("plain", "rich", "markdown", "latex", "html"):
        assert "n=1: too few for an interval" in " ".join(shown[name].split())
    for name in ("plain", "rich", "markdown", "latex", "csv", "svg"):
        assert "nan" not in shown[name].lower()
        assert "None" not in shown[name]


def test_evaluate_of_three_examples_has_no_interval_and_reports_too_few(explainer):
    found = whence.evaluate(explainer, TEXTS[:3], METHODS, ["comprehensiveness", "infidelity"])
    value = found.cell("attcat", "comprehensiveness").value
    assert (value.low, value.high, value.n) == (None, None, 3)
    for text in read_all_formats(found).values():
        assert "n=3: too few for an interval" in text
        assert "[95% bootstrap" in text
        assert "always" not in text


def test_compare_methods_of_six_examples_marks_nothing_and_of_seven_marks_best():
    # Two methods and six examples: three comparisons, and the least p is 2 / 2^6, thrice that 0.094.
    values = [[0.9, 0.1]] * 6
    cells, pairs, _ = compare_given_values(values, np.zeros((6, 2)))
    assert [cell["p"] for cell in cells] == pytest.approx([6 / 64] * 2)
    for one in (*cells, *pairs):
        assert not one["enough"]
    assert not any(cell["best"] or cell["beats_random"] for cell in cells)
    # With a seventh it is 0.047.
    cells, pairs, _ = compare_given_values([*values, [0.9, 0.1]], np.zeros((7, 2)))
    assert all(one["enough"] for one in (*cells, *pairs))
    assert [cell["best"] for cell in cells] == [True, False]
    assert [cell["beats_random"] for cell in cells] == [True, True]


def test_compare_methods_does_not_mark_a_method_with_only_three_examples():
    # m0 and m1 have ten examples, m2 three of them: 2 / 2^3 is never below 5%, however few comparisons are left.
    values = np.tile([0.9, 0.5, 0.5], (10, 1))
    values[3:, 2] = np.nan
    cells, pairs, _ = compare_given_values(values, np.zeros((10, 3)))
    assert [cell["enough"] for cell in cells] == [True, True, False]
    assert {(pair["a"], pair["b"]): pair["enough"] for pair in pairs} == {
        ("m0", "m1"): True, ("m0", "m2"): False, ("m1", "m2"): False,
    }  # fmt: skip
    assert [cell["best"] for cell in cells] == [True, False, False]


def test_evaluate_of_four_examples_states_once_how_many_are_needed(explainer):
    found = whence.evaluate(explainer, TEXTS[:4], METHODS, ["comprehensiveness", "sufficiency"])
    said = (
        "n=4 examples are too few: with 2 methods compared, differences can only show from n=7 on."
    )
    assert_in_all_text_formats(found, said)
    assert str(found).count("examples are too few") == 1
    assert "examples are too few" in found.plot()
    assert not any(cell.best or cell.enough for cell in found.cells)
    grid = str(found).partition("chance ")[0]
    assert "*" not in grid
    assert "°" not in grid
    with_enough = whence.evaluate(explainer, TEXTS, METHODS, "comprehensiveness")
    assert "too few" not in str(with_enough)


def test_evaluate_costs_show_intervals_batch_counts_or_ranges_of_forward_passes(explainer):
    methods = ["attcat", "leave_one_out"]
    found = whence.evaluate(explainer, TEXTS, methods, "comprehensiveness")
    tokens = [len(explainer.explain(text, method="random").tokens) for text in TEXTS]
    cost = found.cost["leave_one_out"]["forward"]
    # One pass for the input, and one for each token.
    assert cost.mean == pytest.approx(1 + np.mean(tokens))
    assert cost.low < cost.mean < cost.high
    assert cost.n == len(TEXTS)
    own = found.payload["methods"][1]
    assert (own["forward"]["least"], own["forward"]["most"]) == (1 + min(tokens), 1 + max(tokens))
    assert_in_all_text_formats(found, f"{cost.mean:.1f} [{cost.low:.1f}, {cost.high:.1f}]")
    # All examples were in one batch, which is one observation of a time.
    seconds = found.cost["attcat"]["seconds"]
    assert (seconds.low, seconds.high, seconds.n) == (None, None, 1)
    assert_in_all_text_formats(found, "(1 batch)")
    few = whence.evaluate(explainer, TEXTS[:3], methods, "comprehensiveness")
    least, most = min(tokens[:3]) + 1, max(tokens[:3]) + 1
    assert_in_all_text_formats(few, f"(from {least} to {most})")


def test_compute_costs_bootstraps_seconds_by_batch_and_not_by_example():
    # Six batches: five of one example with one second each, one of five with 3 seconds each: (5 + 15) / 10.
    (measure,) = resolve_metrics("comprehensiveness")
    notes = ScoreTables(["m"], [measure], 10, 1)
    notes.seconds[:, 0] = [1.0, 1.1, 0.9, 1.2, 0.8, 3, 3, 3, 3, 3]
    notes.forward[:, 0] = notes.backward[:, 0] = 1
    found = compute_costs(notes, 0, range(10), 0)
    assert found["seconds"]["mean"] == pytest.approx(2.0)
    assert (found["seconds"]["n"], found["explained"], found["forward"]["n"]) == (6, 10, 10)
    # Without the large batch, once in three, it is 1; as examples it would hardly ever be below 1.4.
    assert found["seconds"]["low"] < 1.1


def test_evaluate_null_of_each_method_has_an_interval_in_every_text_format(table):
    for name in METHODS:
        null = table.cell(name, "infidelity").null
        assert null.low < null.mean < null.high
    digits = choose_decimals(
        [cell for cell in table.payload["cells"] if cell["metric"] == "infidelity"]
    )
    null = table.payload["cells"][2]["null"]
    assert table.payload["cells"][2]["metric"] == "infidelity"
    assert_in_all_text_formats(table, f"chance {format_interval(null, digits, null['n'])}")


def test_mark_best_goes_by_paired_gains_and_requires_enough_examples():
    """B is better wherever both could be tested; A was only tested where it is easy."""
    cells = [{"method": "A", "n": 20}, {"method": "B", "n": 40}, {"method": "C", "n": 40}]
    pairs = [
        {"a": "A", "b": "B", "gain": {"mean": -0.1}, "p": 0.001, "enough": True},
        {"a": "A", "b": "C", "gain": {"mean": 0.1}, "p": 0.001, "enough": True},
        {"a": "B", "b": "C", "gain": {"mean": 0.1}, "p": 0.2, "enough": True},
    ]
    mark_best(cells, pairs)
    assert [cell["best"] for cell in cells] == [False, True, False]
    mark_best(cells, [{**row, "enough": False} for row in pairs])
    assert not any(cell["best"] for cell in cells)


def test_compare_methods_null_is_that_of_the_examples_a_method_was_tested_on():
    values = [[0.5, 0.5], [0.5, 0.5], [np.nan, 0.5], [np.nan, 0.5]]
    nulls = [[0.0, 0.0], [0.2, 0.2], [0.8, 0.8], [1.0, 1.0]]
    cells, _, _ = compare_given_values(values, nulls)
    assert [cell["null"]["mean"] for cell in cells] == pytest.approx([0.1, 0.5])
    assert [cell["n"] for cell in cells] == [2, 4]
