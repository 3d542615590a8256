"""Evaluation over a data set: figures against plain loops, counted calls and examples, and refusals."""

import json
import math

import numpy as np
import pytest

import whence
from tests.unit.evaluation.conftest import (
    METHODS,
    TEXTS,
    assert_in_all_text_formats,
    render_all_formats,
)
from whence.core.errors import (
    BadExamples,
    BadParameter,
    NoRule,
    NotFinite,
    UnknownMethod,
    UnknownMetric,
)
from whence.data.eraser import RationaleSpan
from whence.data.example import Example
from whence.methods import method
from whence.studies.evaluation.scores import ReasonCounts
from whence.tracing.ask import count_forwards


def probability(explainer, explanation, gone):
    """Ask the model itself about a text with some tokens masked."""
    mask = explainer.fillers["mask"]
    ids = [mask if i in gone else t.id for i, t in enumerate(explanation.tokens)]
    said = explainer.predict({"input_ids": [ids], "attention_mask": [[1] * len(ids)]})
    return said.probabilities[explanation.target.label]


def test_evaluate_comprehensiveness_equals_a_plain_loop_over_the_model(explainer):
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


def test_evaluate_null_of_three_tokens_is_close_to_the_mean_over_all_rankings(explainer):
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


def test_evaluation_table_has_all_cells_costs_and_agreement_and_refuses_other_names(table):
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


def test_evaluate_calls_equal_the_forward_passes_of_the_model(explainer):
    explainer.predict(TEXTS)  # finds out, once, that the model takes several lengths in one batch
    with count_forwards(explainer.model) as runs:
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


def test_evaluate_repeated_gives_equal_numbers_and_another_seed_gives_others(explainer, table):
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


def test_evaluate_counts_truncated_texts_and_reports_the_count(explainer):
    long = "good film " * 400
    given = [*TEXTS[:2], long]
    found = whence.evaluate(explainer, given, METHODS, "comprehensiveness")
    assert found.payload["examples"]["cut"] == 1
    assert_in_all_text_formats(
        found, "1 of 3 examples was longer than the model takes and was cut."
    )
    assert "was cut" in found.plot()
    spans = [
        Example(text, None, (RationaleSpan(0, 0, 9),)) for text in (TEXTS[0], long, long + "it")
    ]
    found = whence.evaluate(explainer, spans, "attcat", "token_f1")
    said = "2 of 3 examples were longer than the model takes and were cut, with what people marked beyond."
    assert_in_all_text_formats(found, said)
    whole = whence.evaluate(explainer, TEXTS[:2], METHODS, "comprehensiveness")
    assert whole.payload["examples"]["cut"] == 0
    assert "longer than" not in str(whole)


def test_evaluate_of_seven_copies_counts_one_different_example(explainer):
    found = whence.evaluate(explainer, [TEXTS[0]] * 7, "attcat", "comprehensiveness")
    assert found.payload["examples"]["different"] == 1
    assert_in_all_text_formats(found, "Only 1 of the 7 examples is different")


def test_evaluate_agreement_has_a_null_near_zero_for_random_rankings(explainer):
    found = whence.evaluate(explainer, TEXTS, METHODS, ["tau_b", "comprehensiveness"], rankings=200)
    (row,) = found.payload["agreement"]
    # Of random rankings it is 0; 8 examples by 200 rankings by 2 explanations, each with a spread of about
    # sqrt(2 (2 n + 5) / (9 n (n - 1))) < 0.4 for n of 6 tokens or more, 200 of them independent for each example.
    assert abs(row["null"]["mean"]) < 4 * 0.4 / math.sqrt(8 * 200)
    assert "; chance " in str(found)


def test_evaluate_calls_include_forward_passes_of_the_infill_model():
    explainer = whence.load("reviews", dtype="float64", mlm="reviews-base")
    both = [explainer.model, explainer.loaded.infiller.loaded.model]
    with count_forwards(both[0]) as model, count_forwards(both[1]) as language:
        found = whence.evaluate(explainer, TEXTS[:2], "attcat", "loo_correlation", remove="draw")
    assert language.forward > 0
    assert found.payload["calls"]["forward"] == model.forward + language.forward


def test_evaluate_of_one_token_texts_shows_not_tested_in_every_format(explainer):
    found = whence.evaluate(explainer, ["good", "bad"], METHODS, "comprehensiveness")
    cell = found.cell("attcat", "comprehensiveness")
    assert (cell.value, cell.null, cell.gain, cell.p, cell.best) == (None, None, None, None, False)
    assert list(cell.why_not.values()) == [2]
    shown = render_all_formats(found)
    for name in ("plain", "rich", "markdown", "latex", "svg", "html"):
        assert "not tested" in shown[name]
        assert "nan" not in shown[name].lower()
    assert "could not be tested on 2 examples" in shown["plain"]


def test_evaluate_counts_and_numbers_examples_that_no_method_can_take(explainer):
    long = "good film " * 400
    found = whence.evaluate(
        explainer, ["  ", *TEXTS[:2], long, long], METHODS, "comprehensiveness", truncate=False
    )
    told = found.payload["examples"]
    assert (told["given"], told["explained"]) == (5, 2)
    assert [(row["count"], row["examples"]) for row in told["why_not"]] == [(2, [3, 4]), (1, [0])]
    assert (
        "2 examples (number 3, 4) could not be taken by any method: The text has 802 tokens"
        in str(found)
    )
    nothing = whence.evaluate(explainer, [" ", "\t"], METHODS, "comprehensiveness")
    assert nothing.payload["examples"]["explained"] == 0
    assert all(len(text) > 100 for text in render_all_formats(nothing).values())


@pytest.fixture
def failing_methods():
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


def test_methods_that_fail_do_not_stop_the_others(explainer, failing_methods):
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


def test_evaluate_plausibility_metrics_use_only_examples_with_a_rationale(explainer):
    given = [Example(text, None, (RationaleSpan(0, 0, len(text) // 2),)) for text in TEXTS[:3]]
    given.append(Example(TEXTS[3]))
    found = whence.evaluate(explainer, given, ["attcat"], ["auprc", "token_f1", "iou_f1"])
    for metric in found.metrics:
        cell = found.cell("attcat", metric)
        assert cell.value.n == 3
        assert sum(cell.why_not.values()) == 1


@pytest.mark.parametrize(
    ("rationale", "kinds"),
    [(None, {"faithfulness"}), ((RationaleSpan(0, 0, 9),), {"faithfulness", "plausibility"})],
)
def test_evaluate_default_metrics_include_plausibility_only_with_rationales(
    explainer, rationale, kinds
):
    found = whence.evaluate(explainer, [Example(TEXTS[0], None, rationale)], "attcat")
    assert {one["kind"] for one in found.payload["metrics"]} == kinds
    assert ("precision_at_k" in found.metrics) == (rationale is not None)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"metrics": "sufficency"}, UnknownMetric, "Did you mean 'sufficiency'"),
        ({"metrics": []}, UnknownMetric, "No metric was asked for"),
        ({"metrics": 3}, UnknownMetric, "must be a name or a list"),
        ({"methods": "atcat"}, UnknownMethod, "Did you mean 'attcat'"),
        ({"metrics": "aopc", "metric_params": {"bins": 3}}, BadParameter, "aopc has no parameter 'bins'"),
        ({"rankings": 0}, BadParameter, "rankings must be"),
        ({"unit": "letter"}, BadParameter, "unit must be"),
        ({"remove": "draw"}, BadParameter, "remove='draw' needs"),
        ({"examples": []}, BadExamples, "is empty"),
    ],
)  # fmt: skip
def test_evaluate_with_a_bad_option_raises_the_matching_error(explainer, options, error, said):
    given = {"examples": TEXTS[:1], "methods": "attcat", "metrics": "comprehensiveness"} | options
    with pytest.raises(error, match=said):
        whence.evaluate(explainer, **given)


def test_evaluate_progress_counts_examples_up_to_the_total(explainer):
    seen = []
    whence.evaluate(
        explainer, [*TEXTS[:3], " "], "attcat", "comprehensiveness",
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    assert seen[-1] == (4, 4)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_evaluate_of_texts_with_fewer_rankings_than_requested_has_a_null(explainer):
    """Two words can be ranked in two ways; the random explanations of other texts are five."""
    data = [
        {"text": "bad movie", "rationale": [[0, 3]]},
        {"text": "a really bad movie that I hated", "rationale": [[9, 12]]},
    ] * 3
    for given in (data, data[::-1]):
        table = whence.evaluate(explainer, given, ["attcat", "gradient"], ["iou_f1"])
        cell = next(cell for cell in table.to_dict()["cells"] if cell["method"] == "attcat")
        assert cell["n"] == 6
        assert 0 <= cell["null"]["mean"] <= 1


def test_evaluate_and_recommend_accept_a_model_by_name():
    by_name = whence.evaluate("reviews", TEXTS[:2], "gradient", "comprehensiveness")
    loaded = whence.evaluate(whence.load("reviews"), TEXTS[:2], "gradient", "comprehensiveness")
    assert by_name.cells == loaded.cells
    advice = whence.recommend("reviews", TEXTS[:2], budget=200, methods=["gradient"])
    assert advice.to_dict()["plan"]["given"] == 2


def test_an_evaluation_that_tested_nothing_says_why_and_counts_each_error(explainer):
    nothing = whence.evaluate(explainer, ["good", " ", "bad"], "attcat", "deletion")
    short = "deletion could not be tested on 2 examples: The input has only one token"
    empty = "1 example (number 1) could not be taken by any method: "
    assert nothing.failure is not None
    assert nothing.failure.startswith(f"Nothing was tested: {short}")
    assert empty in nothing.failure and "is empty" in nothing.failure
    assert nothing.failure in repr(nothing)
    assert "Nothing was tested.\n1 example (number 1) could not be taken by any" in str(nothing)
    assert "deletion could not be tested on 2 examples: The input has only one" in str(nothing)
    assert nothing.to_dict()["failure"] == nothing.failure
    something = whence.evaluate(explainer, ["good", TEXTS[0]], "attcat", "deletion")
    assert something.failure is None and something.to_dict()["failure"] is None


def test_reason_counts_separates_different_messages_of_one_error_code():
    found = ReasonCounts()
    found.add("The text has 802 tokens and the model takes at most 256.", 0, "too-long")
    found.add("The text has 1,300 tokens and the model takes at most 256.", 1, "too-long")
    found.add("'a b' has no label.", 2, "bad-examples")
    found.add("The file is broken.", 3, "bad-examples")
    assert [(row["count"], row["examples"]) for row in found.to_list()] == [
        (2, [0, 1]),
        (1, [2]),
        (1, [3]),
    ]
