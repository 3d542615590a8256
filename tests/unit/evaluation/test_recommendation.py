"""Recommendations: the rule by hand, the plan within its budget, and the effect of the removal."""

import json

import numpy as np
import pytest

import whence
from tests.progress_news import NewsListener
from tests.unit.evaluation.conftest import METHODS, TEXTS
from whence.core.errors import BadParameter, CannotRead
from whence.data.example import Example
from whence.explain.request import resolve_methods
from whence.studies.evaluation.evaluation import Evaluation, describe_removal_effects
from whence.studies.evaluation.recommend import (
    Recommendation,
    apply_rule,
    plan_recommendation,
    recommend,
)


def test_recommend_with_too_few_or_untestable_examples_recommends_no_method(explainer):
    answer = recommend(explainer, TEXTS[:3], methods=METHODS, budget=5000)
    assert answer.method is None
    assert answer.sentence.startswith(
        "No method can be recommended: n=3 examples are too few: with 2 methods compared, differences can only show "
        "from n=7 on."
    )
    none = recommend(explainer, ["good", "bad"], methods=METHODS, budget=5000)
    assert none.sentence.startswith("No method could be tested by both")
    assert "on 2 examples: The input has only one token" in none.sentence


def test_describe_removal_effects_names_the_method_that_moves_most(explainer):
    tables = [
        whence.evaluate(explainer, TEXTS[:4], METHODS, "comprehensiveness", remove=way)
        for way in ("mask", "delete")
    ]
    assert [t.payload["setting"]["remove"] for t in tables] == ["mask", "delete"]
    said = describe_removal_effects(tables)
    moves = {
        name: abs(np.subtract(*(t.cell(name, "comprehensiveness").value.mean for t in tables)))
        for name in METHODS
    }
    assert f"{max(moves, key=moves.get)} moves most" in said
    assert "(n=4: too few for an interval) with mask" in said
    assert said.endswith("; the examples are too few to say which method is best.")
    assert (
        describe_removal_effects(tables[:1]) == "There is only one way to remove tokens here: mask."
    )


def test_describe_removal_effects_names_the_best_methods_under_each_removal(explainer):
    def marked(way, best, beats):
        """Return a table in which some methods are marked."""
        found = whence.evaluate(explainer, TEXTS[:5], METHODS, "comprehensiveness", remove=way)
        cells = [
            {**cell, "best": cell["method"] in best, "beats_random": beats}
            for cell in found.payload["cells"]
        ]
        return Evaluation({**found.payload, "cells": cells})

    one, two = marked("mask", METHODS, False), marked("delete", METHODS, False)
    assert describe_removal_effects([one, two]).endswith(
        "; attcat and grad_x_input cannot be told apart as the best, whatever the removal; none of these can be told "
        "from random explanations."
    )
    one, two = marked("mask", ["attcat"], True), marked("delete", METHODS, False)
    assert describe_removal_effects([one, two]).endswith(
        "; attcat is the best with mask, attcat and grad_x_input cannot be told apart as the best with delete."
    )


def test_plan_recommendation_stays_within_its_budget_and_lists_methods_left_out(explainer):
    given = [Example(text) for text in TEXTS]
    small = plan_recommendation(
        explainer, given, budget=1500, methods=["attcat", "rollout", "lime"]
    )
    assert small.methods == ("attcat", "rollout")
    tokens = [len(explainer.explain(text, method="random").tokens) for text in TEXTS]
    asked = resolve_methods("lime", None, explainer.fillers)[0]
    mean = sum(1 + asked.extra_forwards(n) for n in tokens) / len(tokens)
    assert small.left_out == {"lime": round(mean)}
    assert small.calls <= small.budget
    assert "Left out, for what they would take per example: lime (" in str(small)
    answer = recommend(explainer, given, budget=1500, methods=["attcat", "rollout", "lime"])
    assert answer.payload["evaluation"]["calls"]["forward"] <= small.calls
    large = plan_recommendation(explainer, given, budget=10**6, methods=["attcat", "lime"])
    assert large.methods == ("attcat", "lime")
    assert large.metrics[-1] == "sensitivity"
    with pytest.raises(
        BadParameter, match=r"A budget of 50 model calls is too small: attcat alone"
    ):
        plan_recommendation(explainer, given, budget=50, methods=["attcat"])
    with pytest.raises(BadParameter, match="budget must be"):
        plan_recommendation(explainer, given, budget=0)


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
        (0.5, (2.0, True, 40), (1.0, True, 1), "cheap",
         "cannot be told from the best, dear, and takes fewer model calls, 1 (0 s) per example instead of 40"),
        (0.01, (2.0, True, 40), (1.0, True, 1), "dear",
         "and is better than the other method that does by comprehensiveness or sufficiency."),
        # dear is better by more than chance in both: the larger mean effect of cheap does not count.
        (0.01, (1.0, True, 40), (2.0, True, 1), "dear", "and is better than the other method that does"),
        # cheap may be no better than random in one metric, but the table has dear as the better one.
        (0.01, (1.0, False, 40), (2.0, True, 1), "cheap",
         "as no other of the 2 methods does in both; but dear is better by comprehensiveness and sufficiency."),
        (0.5, (1.0, True, 40), (2.0, True, 1), "cheap",
         "has the largest mean effect, cannot be told to be better than dear, and takes no more model calls"),
        (0.5, (2.0, True, 40), (1.0, False, 1), "dear", "as no other of the 2 methods does in both."),
        (0.5, (2.0, False, 40), (1.0, False, 1), None, "None of the 2 methods can be told from random explanations"),
    ],
)  # fmt: skip
def test_apply_rule_of_two_methods_gives_the_expected_method_and_sentence(
    p, dear, cheap, method, said
):
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    found = apply_rule(
        table_of({"a": "dear", "b": "cheap", "gain": gain, "p": p}, {"dear": dear, "cheap": cheap})
    )
    assert found["method"] == method
    assert said in found["sentence"]


def test_apply_rule_of_one_failing_method_names_that_method_alone():
    table = table_of({"a": "x", "b": "y", "gain": None, "p": None}, {"only": (1.0, False, 1)})
    assert apply_rule(table)["sentence"] == (
        "only cannot be told from random explanations in both comprehensiveness and sufficiency on these 9 examples: "
        "do not rely on it here, or test on more examples."
    )


def test_apply_rule_with_each_method_better_by_one_metric_takes_the_larger_effect():
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    pair = {"a": "dear", "b": "cheap", "gain": gain, "p": 0.01}
    table = table_of(pair, {"dear": (1.0, True, 40), "cheap": (2.0, True, 1)})
    # cheap is the better one by sufficiency: neither is outdone, and cheap has the larger mean effect.
    table.payload["pairs"][1]["gain"] = {**gain, "mean": -0.1}
    found = apply_rule(table)
    assert (found["method"], found["equals"]) == ("cheap", ["cheap"])
    assert found["sentence"].endswith(
        "and is better than the other method that does by comprehensiveness or sufficiency; but dear is better by "
        "comprehensiveness."
    )


def test_recommendation_shows_saves_and_loads_its_plan_and_sentence(explainer, tmp_path):
    announced = []
    answer = recommend(
        explainer, TEXTS, methods=METHODS, budget=5000, progress=NewsListener(announced.append)
    )
    assert announced[0].to_dict() == answer.payload["plan"]
    assert answer.sentence in str(answer)
    assert answer.sentence.split(":")[0] in answer._repr_html_()
    again = Recommendation.load(answer.save(tmp_path / "answer.json"))
    assert again.sentence == answer.sentence
    assert again.evaluation.methods == METHODS
    assert str(announced[0]) in str(answer)
    assert str(again.plan) == str(announced[0])
    assert "of a budget of 5,000" in answer._repr_html_()
    (tmp_path / "no.json").write_text(json.dumps({**answer.to_dict(), "plan": {"methods": []}}))
    with pytest.raises(CannotRead, match="not a saved recommendation"):
        Recommendation.load(tmp_path / "no.json")
    with pytest.raises(CannotRead, match="not a saved recommendation"):
        Recommendation.load(Evaluation.save(answer.evaluation, tmp_path / "table.json"))


def test_recommend_stays_within_planned_calls_whichever_example_comes_first(explainer):
    """Methods are tried on the first example of the file, which need not be the first that was drawn."""
    long = " ".join(["the film was good and the actors were not bad at all"] * 3)
    for given in ([long, "good film"], ["good film", long]):
        for seed in (0, 1):
            found = recommend(
                explainer, given, methods=["occlusion", "leave_one_out"], seed=seed, budget=1_000
            )
            assert found.evaluation.payload["calls"]["forward"] <= found.plan.calls
