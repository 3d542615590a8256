"""Audit conclusions: yes, no or undecided, and the paragraph that gives the reasons."""

import re

import numpy as np
import pytest

from tests import audit_payloads
from whence.studies.audit.conclusion import conclude, format_effect
from whence.studies.audit.experiments import Finding, experiment
from whence.studies.audit.subject import resolve_sites
from whence.studies.audit.verdict import DECISIVE, NEEDED, judge


def holding_experiments(*names):
    return [audit_payloads.holding(name) for name in names]


def test_conclude_says_yes_only_if_all_needed_experiments_hold_and_none_fails():
    assert conclude(holding_experiments(*NEEDED))[0] == "yes"
    assert conclude([*holding_experiments(*NEEDED), audit_payloads.holding("seeds")])[0] == "yes"
    for name in NEEDED:
        assert (
            conclude(holding_experiments(*(other for other in NEEDED if other != name)))[0]
            == "undecided"
        )
    for name in ("diversity", "seeds", "guides", "trained_adversary"):
        failing = {**audit_payloads.holding(name), "verdict": "fails"}
        assert conclude([*holding_experiments(*NEEDED), failing])[0] == "undecided"
        open_ = {**audit_payloads.holding(name), "verdict": "undecided"}
        assert conclude([*holding_experiments(*NEEDED), open_])[0] == "yes"


def test_conclude_says_no_after_one_decisive_failure_but_not_for_correlation():
    for name in DECISIVE:
        rest = holding_experiments(*(other for other in NEEDED if other != name))
        assert conclude([*rest, {**audit_payloads.holding(name), "verdict": "fails"}])[0] == "no"
        assert conclude([{**audit_payloads.holding(name), "verdict": "fails"}])[0] == "no"
    low = {**audit_payloads.holding("correlation"), "verdict": "fails"}
    answer, said = conclude(
        [low, *holding_experiments("permutation", "replacement", "adversarial")]
    )
    assert answer == "undecided"
    assert "which alone is no evidence against attention" in said
    assert conclude([])[0] == "undecided"


@pytest.mark.parametrize("which", ["yes", "no", "undecided", "one", "none"])
def test_conclude_paragraph_has_question_figures_gaps_and_limits_in_three_to_six_sentences(which):
    made = {
        "yes": holding_experiments(*NEEDED),
        "no": [audit_payloads.experiment(name) for name in audit_payloads.NAMES],
        "undecided": [
            *holding_experiments(*NEEDED[:3]),
            audit_payloads.experiment("adversarial", interval=[0.39, 0.5]),
        ],
        "one": [audit_payloads.experiment("permutation")],
        "none": [],
    }[which]
    answer, said = conclude(
        made, model="reviews", data="sst.tsv", site="layer 5", not_run=["guides"]
    )
    assert said.startswith(
        "The question is whether the attention of layer 5 may be read as an explanation of what reviews predicts on "
        f"sst.tsv; the answer, from {made[0]['n'] if made else 0} examples, is {answer}."
    )
    sentences = re.split(r"(?<=\.) (?=[A-Z])", said)
    assert 3 <= len(sentences) <= 6
    for one in made:
        if one["verdict"] != "undecided" or (one["name"] in NEEDED and answer == "undecided"):
            low, high = one["interval"]
            assert re.search(r"\[-?[\d.]+, -?[\d.]+\]", said[said.index(one["name"]) :])
            assert low < high
    missing = [
        n for n in (*NEEDED, "uniform_training", "guides") if n not in {o["name"] for o in made}
    ]
    for name in missing:
        assert re.search(rf"{name}.* not tested\.", said, re.IGNORECASE)
    assert "it is no statement about attention in general" in said
    assert "the attention may be read" in conclude(made, site="the attention")[1]


def test_conclude_never_says_yes_for_a_model_no_better_than_the_majority_class():
    poor, good = (
        {"accuracy": 0.5, "majority": 0.5, "n": 30},
        {"accuracy": 0.6, "majority": 0.5, "n": 30},
    )
    said = "right in 50.0% of 30 examples, no better than always saying the most frequent class (50.0%)"
    answer, paragraph = conclude(holding_experiments(*NEEDED), performance=poor)
    assert answer == "undecided"
    assert f"It is undecided because the model is {said}" in paragraph
    answer, paragraph = conclude([audit_payloads.experiment("permutation")], performance=poor)
    assert answer == "no"
    assert f"The model is {said}" in paragraph
    for known in (good, None):
        answer, paragraph = conclude(holding_experiments(*NEEDED), performance=known)
        assert answer == "yes"
        assert "most frequent" not in paragraph


def test_conclude_paragraph_names_the_attention_that_was_not_exchanged():
    made = [audit_payloads.experiment("permutation")]
    head, layer, every = (
        resolve_sites(asked, 6, 12, pooled=False)[0] for asked in ("3.0", "last", "all")
    )
    assert head.describe_rest(6, 12) == "the other 71 heads"  # 6 layers of 12 heads, less one
    assert layer.describe_rest(6, 12) == "the other 5 layers"
    assert layer.describe_rest(2, 12) == "the other layer"
    assert layer.describe_rest(1, 12) == every.describe_rest(6, 12) == ""
    assert resolve_sites("last", 1, 1, pooled=True)[0].describe_rest(1, 1) == ""
    said = conclude(made, rest="the other 71 heads")[1]
    assert "Only these weights were exchanged, while the other 71 heads went on as ever" in said
    for nothing in (
        conclude(made),
        conclude([audit_payloads.experiment("correlation")], rest="the other 5 layers"),
    ):
        assert "exchanged" not in nothing[1]


def test_conclude_paragraph_separates_findings_for_and_against_the_reading():
    said = conclude(
        [
            audit_payloads.experiment("permutation"),
            audit_payloads.experiment("diversity"),
            *holding_experiments("trained_adversary"),
        ]
    )[1]
    assert re.search(
        r"For such a reading speaks that trained_adversary holds \([^;]*; asked for: below 0.4\); against such a "
        r"reading speaks that diversity fails \(", said
    )  # fmt: skip
    low = audit_payloads.experiment("correlation")  # fails, which is no evidence against attention
    said = conclude([audit_payloads.experiment("permutation"), low])[1]
    assert "Besides, the weights agree" in said
    assert "speaks that" not in said
    # A name at the beginning of a sentence would be another name.
    assert (
        "What is left open: uniform_training was not tested."
        in conclude(holding_experiments(*NEEDED))[1]
    )


@pytest.mark.parametrize(
    ("effect", "interval", "threshold", "said"),
    [
        (0.48123, [0.47961, 0.48284], 0.4, "0.481 [0.480, 0.483]"),  # three figures
        (0.0334, [0.0297, 0.0372], 0.1, "0.0334 [0.0297, 0.0372]"),
        (1.02e-07, [9.5e-08, 1.1e-07], 0.1, "within 0.0001 of 0"),  # a thousandth of the threshold is enough
        (0.000133, [0.0001, 0.0002], 0.1, "0.0001 [0.0001, 0.0002]"),
        (0.0621, [0.0291, 0.1003], 0.1, "0.0621 [0.0291, 0.1003]"),  # not on the threshold
        (0.0, [0.0, 0.0], 0.1, "0.000 in every example"),
        (-2.1e-07, [-3.2e-07, -1.1e-07], 0.0, "-2.1e-07 [-3.2e-07, -1.1e-07]"),  # of which side of 0, is to be seen
    ],
)  # fmt: skip
def test_format_effect_gives_the_decimal_places_that_matter_beside_the_threshold(
    effect, interval, threshold, said
):
    one = audit_payloads.experiment(
        "permutation", effect=effect, interval=interval, threshold=threshold
    )
    assert format_effect(one) == said


def test_conclude_with_12_examples_is_undecided_and_says_too_few_beside_the_intervals():
    """Verdicts as the audit makes them: all twelve effects are on the failing side, and no verdict is given."""
    values = np.linspace(0.005, 0.02, 12)
    made = []
    for name in ("permutation", "replacement", "diversity"):
        entry = experiment.get(name)
        far = values if entry.facts["direction"] == "above" else values + 0.5
        facts = {key: entry.facts[key] for key in ("direction", "threshold")}
        made.append({"name": name, **facts, **judge(entry, Finding(far), 0)})
        assert made[-1]["verdict"] == "undecided" and made[-1]["interval"] is not None
    answer, said = conclude(made)
    assert answer == "undecided"
    because = next(part for part in said.split(". ") if part.startswith("It is undecided because"))
    assert because.count("12 examples are too few: 20 are needed for a verdict") == 1
    assert because.index("replacement") < because.index("12 examples are too few")
    # So is the reason of what a yes does not need.
    assert "diversity came to no verdict (12 examples are too few: 20 are needed" in said


def test_conclude_paragraph_gives_each_reason_why_there_is_no_verdict():
    broad = audit_payloads.experiment("permutation", effect=0.1, interval=[0.05, 0.15])
    none = audit_payloads.experiment("adversarial", effect=None, interval=None)
    said = conclude([broad, none])[1]
    assert "asked for: above 0.1) came to no verdict (the interval contains the threshold: " in said
    assert "asked for: below 0.4) came to no verdict (no example gave a number)" in said
