"""Evaluations: the arithmetic by hand and by a plain loop, and what happens where there is nothing to count."""

import csv
import json
import math
import xml.etree.ElementTree as ElementTree
from io import StringIO

import numpy as np
import pytest

import whence
from whence.core.errors import (
    BadExamples,
    BadParameter,
    CannotRead,
    NoRule,
    NotFinite,
    UnknownMethod,
    UnknownMetric,
)
from whence.data.examples import Example, Span
from whence.evaluation import Evaluation, Recommendation, plan, recommend
from whence.evaluation.judge import judged
from whence.evaluation.measures import measures
from whence.evaluation.notes import Notes
from whence.evaluation.recommend import decided
from whence.evaluation.removals import removal_matters
from whence.explainer.request import requests
from whence.methods import method

TEXTS = [
    "a gripping, beautifully acted film",
    "the plot is thin and the jokes are worse",
    "not a bad film at all",
    "dull, slow and far too long",
    "a warm and funny story that never tires",
    "i wanted to like it and could not",
    "one of the best films of the year",
    "the actors do what they can with a poor script",
]
METHODS = ["attcat", "grad_x_input"]


@pytest.fixture(scope="module")
def explainer():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="module")
def table(explainer):
    return whence.evaluate(explainer, TEXTS, METHODS, ["comprehensiveness", "infidelity", "tau_b"])


def toy(values, nulls, name="comprehensiveness"):
    """Return the judgement of numbers that are given, (examples, methods)."""
    (measure,) = measures(name)
    values, nulls = np.array(values, dtype=float), np.array(nulls, dtype=float)
    notes = Notes([f"m{i}" for i in range(values.shape[1])], [measure], len(values), 1)
    notes.values[name], notes.nulls[name] = values, nulls
    return judged(notes, measure, range(len(values)), 0)


def test_by_hand():
    # Eight examples. m0 is 0.1 .. 0.8, m1 always 0.05 less, random explanations get 0.
    values = [[i / 10, i / 10 - 0.05] for i in range(1, 9)]
    cells, pairs, chance = toy(values, np.zeros((8, 2)))
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
        }
    ]
    assert [cell["beats_random"] for cell in cells] == [True, True]
    assert [cell["best"] for cell in cells] == [True, False]
    # The spread of 0.1 .. 0.8 is 0.1 sqrt(6) = 0.2449.
    assert cells[0]["effect"] == pytest.approx(0.45 / (0.1 * math.sqrt(6)))
    assert chance == {"mean": 0, "low": 0, "high": 0, "n": 8}


def test_less_is_better_turns_everything_round():
    values = [[i / 10, i / 10 - 0.05] for i in range(1, 9)]
    cells, pairs, _ = toy(values, np.ones((8, 2)), "sufficiency")
    assert [cell["best"] for cell in cells] == [False, True]
    assert [cell["beats_random"] for cell in cells] == [True, True]
    assert pairs[0]["gain"]["mean"] == pytest.approx(-0.05)


def test_what_cannot_be_told_apart_is_best_together():
    # m1 is better by 0.1 in half of the examples and worse in the others.
    values = [[0.5 + (0.1 if i % 2 else -0.1), 0.5] for i in range(8)]
    cells, _, _ = toy(values, np.zeros((8, 2)))
    assert [cell["best"] for cell in cells] == [True, True]


def test_pairs_are_of_the_examples_that_both_have():
    nan = float("nan")
    cells, pairs, _ = toy([[1, nan], [2, 1], [3, 1], [nan, 1]], np.zeros((4, 2)))
    assert [cell["n"] for cell in cells] == [3, 3]
    # 2 - 1 and 3 - 1.
    assert pairs[0]["gain"]["mean"] == pytest.approx(1.5)
    assert pairs[0]["gain"]["n"] == 2


def test_worse_than_random_is_not_better_than_random():
    cells, _, _ = toy([[-0.1 * i] for i in range(1, 11)], np.zeros((10, 1)))
    assert cells[0]["p"] < 0.05
    assert not cells[0]["beats_random"]
    assert not cells[0]["best"]  # one method alone is no best


def test_a_figure_of_its_own_for_a_data_set():
    # F1 of mean precision and mean recall, not the mean of the F1s: P = (1 + 0.5) / 2, R = (0.5 + 0.5) / 2.
    (measure,) = measures("iou_f1")
    notes = Notes(["m"], [measure], 2, 1)
    notes.values["iou_f1"][:, 0] = [2 / 3, 0.5]
    notes.nulls["iou_f1"][:, 0] = [0.1, 0.1]
    notes.part_names["iou_f1"] = ["precision", "recall"]
    notes.parts["iou_f1"] = np.array([[[[1.0, 0.5]]], [[[0.5, 0.5]]]])
    # Two random explanations: F1 of (0.2, 0.2) is 0.2, of (0.4, 0.4) is 0.4; their mean is 0.3.
    notes.null_parts["iou_f1"] = np.array([[[[0.2, 0.2], [0.4, 0.4]]]] * 2)
    (cell,), _, chance = judged(notes, measure, [0, 1], 0)
    assert cell["mean"] == pytest.approx(2 * 0.75 * 0.5 / 1.25)
    assert cell["null"]["mean"] == chance["mean"] == pytest.approx(0.3)


def probability(explainer, explanation, gone):
    """Ask the model itself about a text with some tokens masked."""
    mask = explainer.fillers["mask"]
    ids = [mask if i in gone else t.id for i, t in enumerate(explanation.tokens)]
    said = explainer.predict({"input_ids": [ids], "attention_mask": [[1] * len(ids)]})
    return said.probabilities[explanation.target.label]


def test_by_a_plain_loop(explainer):
    found = whence.evaluate(
        explainer,
        TEXTS[:4],
        METHODS,
        "comprehensiveness",
        metric_params={"bins": "0.5"},
        remove="mask",
    )
    for name in METHODS:
        falls = []
        for text in TEXTS[:4]:
            why = explainer.explain(text, method=name)
            content = [i for i, token in enumerate(why.tokens) if not token.special]
            highest = sorted(content, key=lambda i: -why.scores[i])[: math.ceil(len(content) / 2)]
            falls.append(why.prediction.probability - probability(explainer, why, highest))
        # The same passes in other batches: float64 rounds in the sixteenth place.
        assert found.cell(name, "comprehensiveness").value.mean == pytest.approx(
            np.mean(falls), rel=1e-9
        )


def test_random_explanations_get_what_they_get_over_all_rankings(explainer):
    text = "a fine film"  # three tokens: six rankings
    one = whence.evaluate(
        explainer,
        [text],
        "attcat",
        "comprehensiveness",
        metric_params={"bins": "0.3"},
        rankings=400,
    )
    why = explainer.explain(text)
    content = [i for i, token in enumerate(why.tokens) if not token.special]
    assert len(content) == 3
    falls = [why.prediction.probability - probability(explainer, why, [i]) for i in content]
    # 400 draws of one of three falls: four standard errors.
    null = one.cell("attcat", "comprehensiveness").null
    assert abs(null.mean - np.mean(falls)) < 4 * np.std(falls) / 20


def test_the_table_says_all_there_is(table):
    assert table.methods == METHODS
    assert table.metrics == ["comprehensiveness", "infidelity"]
    assert len(table.cells) == 4
    for cell in table.cells:
        assert cell.value.low <= cell.value.mean <= cell.value.high
        assert cell.value.n == cell.null.n == len(TEXTS)
        assert 0 < cell.p <= 1
    assert table.payload["metrics"][1]["null"] is None  # each explanation has its own shuffles
    assert (
        table.agreement("tau_b")["attcat", "grad_x_input"]
        == table.agreement("tau_b")["grad_x_input", "attcat"]
    )
    assert table.cost["attcat"]["forward"].mean == table.cost["attcat"]["backward"].mean == 1
    with pytest.raises(UnknownMetric, match="'sufficiency' was not evaluated"):
        table.pairs("sufficiency")
    with pytest.raises(UnknownMethod, match="Did you mean 'attcat'"):
        table.cell("atcat", "infidelity")
    with pytest.raises(UnknownMetric, match="there is tau_b"):
        table.agreement("pearson")


def test_the_calls_are_those_that_were_made(explainer):
    from whence.capture.counted import counted

    with counted(explainer.model) as runs:
        found = whence.evaluate(explainer, TEXTS[:3], ["attcat"], "loo_correlation")
    # Trying the method, explaining three texts, and each token of each text left out, once.
    items = [explainer.explain(text, method="random").tokens for text in TEXTS[:3]]
    tokens = sum(not token.special for item in items for token in item)
    assert found.payload["calls"] == {"forward": runs.forward, "backward": 4}
    assert runs.forward == 1 + 3 + tokens
    assert not explainer.model._forward_pre_hooks


def numbers(found):
    """Return everything of an evaluation but what it took."""
    payload = {name: found.payload[name] for name in ("cells", "pairs", "agreement")}
    return json.dumps(payload, sort_keys=True)


def test_the_same_again(explainer, table):
    again = whence.evaluate(explainer, TEXTS, METHODS, ["comprehensiveness", "infidelity", "tau_b"])
    assert numbers(again) == numbers(table)
    other = whence.evaluate(
        explainer, TEXTS, METHODS, ["comprehensiveness", "infidelity", "tau_b"], seed=1
    )
    assert numbers(other) != numbers(table)


def test_the_order_of_the_examples_does_not_matter(explainer, table):
    turned = whence.evaluate(
        explainer, TEXTS[::-1], METHODS, ["comprehensiveness", "infidelity", "tau_b"]
    )
    for one, two in zip(table.cells, turned.cells, strict=True):
        assert one.p == two.p
        for what in ("mean", "low", "high"):
            # Other neighbours in a batch: float64 rounds in the sixteenth place.
            assert getattr(one.value, what) == pytest.approx(getattr(two.value, what), rel=1e-9)


def everything(found):
    """Return an evaluation on every surface."""
    from rich.console import Console

    out = Console(width=100, file=StringIO())
    out.print(found)
    return {
        "plain": str(found),
        "rich": out.file.getvalue(),
        "markdown": found.to_markdown(),
        "latex": found.to_latex(),
        "csv": found.to_csv(),
        "svg": found.plot(),
        "html": found._repr_html_(),
        "json": json.dumps(found.to_dict(), allow_nan=False),
    }


def test_one_example_has_no_interval_and_says_so(explainer):
    found = whence.evaluate(explainer, TEXTS[:1], METHODS, "comprehensiveness")
    cell = found.cell("attcat", "comprehensiveness")
    assert (cell.value.low, cell.value.high, cell.value.n, cell.effect) == (None, None, 1, None)
    assert cell.p == 1  # a single difference could as well have had the other sign
    shown = everything(found)
    assert "(one example)" in shown["plain"]
    for name in ("plain", "rich", "markdown", "latex", "csv", "svg"):
        assert "nan" not in shown[name].lower()
        assert "None" not in shown[name]


def test_no_example_that_can_be_tested(explainer):
    found = whence.evaluate(explainer, ["good", "bad"], METHODS, "comprehensiveness")
    cell = found.cell("attcat", "comprehensiveness")
    assert (cell.value, cell.null, cell.gain, cell.p, cell.best) == (None, None, None, None, False)
    assert list(cell.why_not.values()) == [2]
    shown = everything(found)
    for name in ("plain", "rich", "markdown", "latex", "svg", "html"):
        assert "not tested" in shown[name]
        assert "nan" not in shown[name].lower()
    assert "could not be tested on 2 examples" in shown["plain"]


def test_examples_that_cannot_be_read_are_counted_and_named(explainer):
    long = "good film " * 400
    found = whence.evaluate(
        explainer, ["  ", *TEXTS[:2], long, long], METHODS, "comprehensiveness", truncate=False
    )
    told = found.payload["examples"]
    assert (told["given"], told["explained"]) == (5, 2)
    assert [(row["count"], row["examples"]) for row in told["why_not"]] == [(2, [3, 4]), (1, [0])]
    assert "2 examples (number 3, 4) could not be read: The text has 802 tokens" in str(found)
    nothing = whence.evaluate(explainer, [" ", "\t"], METHODS, "comprehensiveness")
    assert nothing.payload["examples"]["explained"] == 0
    assert all(len(text) > 100 for text in everything(nothing).values())


@pytest.fixture
def brittle():
    """Register two methods that fail, one for some inputs and one for this kind of model."""
    facts = {
        "family": "test", "needs": frozenset(), "signed": True, "cite": "-", "formula": "-", "cost": "-",
        "misleads_when": "-",
    }  # fmt: skip

    @method("sometimes", **facts)
    def sometimes(trace):
        """Fail for inputs with an even number of tokens."""
        if (trace.real.sum(1) % 2 == 0).any():
            raise NotFinite("The scores are not finite.")
        return trace.real.cumsum(1).to(trace.logits.dtype)

    @method("never", **facts)
    def never(trace):
        """Fail for every input."""
        raise NoRule("There is no rule for this model.")

    yield
    for name in ("sometimes", "never"):
        method._entries.pop(name)


def test_methods_that_fail_do_not_stop_the_others(explainer, brittle):
    found = whence.evaluate(explainer, TEXTS, ["attcat", "sometimes", "never"], "comprehensiveness")
    lengths = [len(explainer.explain(text).tokens) for text in TEXTS]
    odd = sum(length % 2 for length in lengths)
    assert 0 < odd < len(TEXTS)
    assert [one["explained"] for one in found.payload["methods"]] == [len(TEXTS), odd, 0]
    assert found.cell("attcat", "comprehensiveness").value.n == len(TEXTS)
    assert found.cell("sometimes", "comprehensiveness").value.n == odd
    assert found.cell("never", "comprehensiveness").value is None
    assert "never failed for every example: There is no rule for this model." in str(found)
    alone = whence.evaluate(explainer, TEXTS, ["attcat"], "comprehensiveness")
    assert alone.cell("attcat", "comprehensiveness").value.mean == pytest.approx(
        found.cell("attcat", "comprehensiveness").value.mean, rel=1e-9
    )
    only = whence.evaluate(explainer, TEXTS, ["never"], "comprehensiveness")
    assert only.payload["methods"][0]["why_not"][0]["count"] == len(TEXTS)


def test_rationales_are_held_against_the_explanations(explainer):
    given = [Example(text, None, (Span(0, 0, len(text) // 2),)) for text in TEXTS[:3]]
    given.append(Example(TEXTS[3]))
    found = whence.evaluate(explainer, given, ["attcat"], ["auprc", "token_f1", "iou_f1"])
    for metric in found.metrics:
        cell = found.cell("attcat", metric)
        assert cell.value.n == 3
        assert sum(cell.why_not.values()) == 1


@pytest.mark.parametrize(
    ("rationale", "kinds"),
    [(None, {"faithfulness"}), ((Span(0, 0, 9),), {"faithfulness", "plausibility"})],
)
def test_what_is_measured_by_default(explainer, rationale, kinds):
    found = whence.evaluate(explainer, [Example(TEXTS[0], None, rationale)], "attcat")
    assert {one["kind"] for one in found.payload["metrics"]} == kinds
    assert ("precision_at_k" in found.metrics) == (rationale is not None)


def test_exports_parse_back(table):
    rows = list(csv.DictReader(StringIO(table.to_csv())))
    assert [(row["method"], row["metric"]) for row in rows] == [
        (cell.method, cell.metric) for cell in table.cells
    ]
    for row, cell in zip(rows, table.cells, strict=True):
        assert float(row["mean"]) == cell.value.mean
        assert float(row["random_low"]) == cell.null.low
        assert float(row["p"]) == cell.p
        assert row["best"] == str(cell.best)
    lines = table.to_markdown().splitlines()
    grid = [line for line in lines if line.startswith("|")]
    assert {line.count(" | ") for line in grid[:5]} == {2}
    assert grid[0].startswith("| faithfulness | comprehensiveness ↑ (n=8) | infidelity ↓ (n=8)")
    latex = table.to_latex()
    assert latex.count("\\toprule") == latex.count("\\bottomrule") == 1
    body = latex[latex.index("\\midrule") : latex.index("\\bottomrule")]
    assert "grad\\_x\\_input" in body
    assert all(line.count("&") == 2 for line in body.splitlines() if line.endswith("\\\\"))
    assert latex.count("{") == latex.count("}")
    root = ElementTree.fromstring(table.plot())
    circles = root.iter("{http://www.w3.org/2000/svg}circle")
    assert len(list(circles)) == len(table.cells)
    texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"attcat", "comprehensiveness ↑", "infidelity ↓"} <= set(texts)


def test_saved_and_read_back(table, tmp_path):
    found = Evaluation.load(table.save(tmp_path / "table.json"))
    assert found.to_dict() == table.to_dict()
    assert str(found) == str(table)
    (tmp_path / "other.json").write_text('{"version": 1}')
    with pytest.raises(CannotRead, match="not a saved evaluation"):
        Evaluation.load(tmp_path / "other.json")
    with pytest.raises(CannotRead, match="version 2"):
        Evaluation.from_dict({**table.to_dict(), "version": 2})
    with pytest.raises(CannotRead, match="KeyError"):
        Evaluation.from_dict({**table.to_dict(), "cells": [{}]})


def test_text_from_outside_is_escaped(table):
    model = {**table.payload["model"], "name": "<b>&_%$\x1b[31m|"}
    found = Evaluation({**table.payload, "model": model})
    shown = everything(found)
    assert "<b>" not in shown["html"] + shown["svg"]
    ElementTree.fromstring(shown["svg"])  # control characters are not XML
    assert not any("\x1b" in shown[name] for name in ("plain", "rich", "markdown", "latex"))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"metrics": "sufficency"}, UnknownMetric, "Did you mean 'sufficiency'"),
        ({"metrics": []}, UnknownMetric, "No metric was asked for"),
        ({"metrics": 3}, UnknownMetric, "must be a name or a list"),
        ({"methods": "atcat"}, UnknownMethod, "Did you mean 'attcat'"),
        ({"metrics": "aopc", "metric_params": {"bins": 3}}, BadParameter, "None of the metrics has a parameter"),
        ({"rankings": 0}, BadParameter, "rankings must be"),
        ({"unit": "letter"}, BadParameter, "unit must be"),
        ({"remove": "draw"}, BadParameter, "remove='draw' needs"),
        ({"examples": []}, BadExamples, "is empty"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(explainer, options, error, said):
    given = {"examples": TEXTS[:1], "methods": "attcat", "metrics": "comprehensiveness"} | options
    with pytest.raises(error, match=said):
        whence.evaluate(explainer, **given)


def test_progress_counts_examples(explainer):
    seen = []
    whence.evaluate(
        explainer, [*TEXTS[:3], " "], "attcat", "comprehensiveness",
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen[-1] == (4, 4)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_how_much_removal_matters(explainer):
    tables = [
        whence.evaluate(explainer, TEXTS[:4], METHODS, "comprehensiveness", remove=way)
        for way in ("mask", "delete")
    ]
    assert [t.payload["setting"]["remove"] for t in tables] == ["mask", "delete"]
    said = removal_matters(tables)
    moves = {
        name: abs(np.subtract(*(t.cell(name, "comprehensiveness").value.mean for t in tables)))
        for name in METHODS
    }
    assert f"{max(moves, key=moves.get)} moves most" in said
    assert removal_matters(tables[:1]) == "There is only one way to remove tokens here: mask."


def test_a_plan_keeps_to_its_budget(explainer):
    given = [Example(text) for text in TEXTS]
    small = plan(explainer, given, budget=1500, methods=["attcat", "rollout", "lime"])
    assert small.methods == ("attcat", "rollout")
    tokens = [len(explainer.explain(text, method="random").tokens) for text in TEXTS]
    asked = requests("lime", None, explainer.fillers)[0]
    mean = sum(1 + asked.extra_forwards(n) for n in tokens) / len(tokens)
    assert small.left_out == {"lime": round(mean)}
    assert small.calls <= small.budget
    assert "Left out, for what they would take per example: lime (" in str(small)
    answer = recommend(explainer, given, budget=1500, methods=["attcat", "rollout", "lime"])
    assert answer.payload["evaluation"]["calls"]["forward"] <= small.calls
    large = plan(explainer, given, budget=10**6, methods=["attcat", "lime"])
    assert large.methods == ("attcat", "lime")
    assert large.metrics[-1] == "sensitivity"
    with pytest.raises(
        BadParameter, match=r"A budget of 50 model calls is too small: attcat alone"
    ):
        plan(explainer, given, budget=50, methods=["attcat"])
    with pytest.raises(BadParameter, match="budget must be"):
        plan(explainer, given, budget=0)


def table_of(explainer_table, means):
    """Return a table of two methods whose cells in each metric are (gain, beats random, calls)."""
    methods, cells, pairs = [], [], []
    for name, (effect, beats, calls) in means.items():
        cost = {"mean": calls, "low": calls, "high": calls, "n": 9}
        zero = {"mean": 0.0, "low": 0.0, "high": 0.0, "n": 9}
        methods.append({"method": name, "forward": cost, "backward": zero, "seconds": zero})
        for metric in ("comprehensiveness", "sufficiency"):
            value = {"mean": 0.5, "low": 0.4, "high": 0.6, "n": 9}
            cells.append(
                {"method": name, "metric": metric, **value, "null": zero, "gain": value, "effect": effect,
                 "p": 0.01, "beats_random": beats, "best": False, "why_not": []}
            )  # fmt: skip
    for metric in ("comprehensiveness", "sufficiency"):
        pairs.append({"metric": metric, **explainer_table})
    metrics = [{"metric": "comprehensiveness"}, {"metric": "sufficiency"}]
    return Evaluation(
        {
            "methods": methods,
            "metrics": metrics,
            "cells": cells,
            "pairs": pairs,
            "examples": {"explained": 9},
        }
    )


@pytest.mark.parametrize(
    ("p", "dear", "cheap", "method", "said"),
    [
        (0.5, (2.0, True, 40), (1.0, True, 1), "cheap", "cannot be told from the best, dear, and takes 1 model"),
        (0.01, (2.0, True, 40), (1.0, True, 1), "dear", "is better than every other method"),
        (0.5, (1.0, True, 40), (2.0, True, 1), "cheap", "none of its equals (dear) takes fewer"),
        (0.5, (2.0, True, 40), (1.0, False, 1), "dear", "is better than every other method"),
        (0.5, (2.0, False, 40), (1.0, False, 1), None, "None of the 2 methods can be told from random explanations"),
    ],
)  # fmt: skip
def test_the_rule_of_a_recommendation(p, dear, cheap, method, said):
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    found = decided(
        table_of({"a": "dear", "b": "cheap", "gain": gain, "p": p}, {"dear": dear, "cheap": cheap})
    )
    assert found["method"] == method
    assert said in found["sentence"]


def test_a_recommendation_shows_and_saves_itself(explainer, tmp_path):
    announced = []
    answer = recommend(explainer, TEXTS, methods=METHODS, budget=5000, announce=announced.append)
    assert announced[0].to_dict() == answer.payload["plan"]
    assert answer.sentence in str(answer)
    assert answer.sentence.split(":")[0] in answer._repr_html_()
    again = Recommendation.load(answer.save(tmp_path / "answer.json"))
    assert again.sentence == answer.sentence
    assert again.evaluation.methods == METHODS
    with pytest.raises(CannotRead, match="is not a recommendation"):
        Recommendation.load(Evaluation.save(answer.evaluation, tmp_path / "table.json"))
