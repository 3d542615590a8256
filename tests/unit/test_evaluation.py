"""Evaluations: the arithmetic by hand and by a plain loop, and what happens where there is nothing to count."""

import csv
import json
import math
import xml.etree.ElementTree as ElementTree
from io import StringIO

import numpy as np
import pytest

import whence
from whence.capture.counted import counted
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
from whence.evaluation.advice import decided
from whence.evaluation.cost import costs
from whence.evaluation.judge import judged, mark_best
from whence.evaluation.measures import measures
from whence.evaluation.notes import Notes
from whence.evaluation.removals import removal_matters
from whence.explainer.request import requests
from whence.methods import method
from whence.report.figures import digits_of, interval

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
    found = judged(notes, measure, range(len(values)), 0)
    return found.cells, found.pairs, found.null


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
            "enough": True,
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
    found = judged(notes, measure, [0, 1], 0)
    (cell,) = found.cells
    assert cell["mean"] == pytest.approx(2 * 0.75 * 0.5 / 1.25)
    assert cell["null"]["mean"] == found.null["mean"] == pytest.approx(0.3)


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
    explainer.predict(TEXTS)  # finds out, once, that the model takes several lengths in one batch
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
    for name in ("plain", "rich", "markdown", "latex", "html"):
        assert "n=1: too few for an interval" in " ".join(shown[name].split())
    for name in ("plain", "rich", "markdown", "latex", "csv", "svg"):
        assert "nan" not in shown[name].lower()
        assert "None" not in shown[name]


def test_few_examples_have_no_interval_and_say_so_once(explainer):
    found = whence.evaluate(explainer, TEXTS[:3], METHODS, ["comprehensiveness", "infidelity"])
    value = found.cell("attcat", "comprehensiveness").value
    assert (value.low, value.high, value.n) == (None, None, 3)
    for name, text in everything(found).items():
        if name not in ("csv", "svg", "json"):
            assert "n=3: too few for an interval" in " ".join(text.split())
            assert "[95% bootstrap" in " ".join(text.split())
            assert "always" not in text


def everywhere(found, said):
    """Assert that every surface with words says something."""
    shown = {name: " ".join(text.split()) for name, text in everything(found).items()}
    for name in ("plain", "rich", "markdown", "latex", "html"):
        assert said in shown[name].replace("\\_", "_").replace("$-$", "-")


def test_too_few_examples_for_any_difference_mark_nothing():
    # Two methods and six examples: three comparisons, and the least p is 2 / 2^6, thrice that 0.094.
    values = [[0.9, 0.1]] * 6
    cells, pairs, _ = toy(values, np.zeros((6, 2)))
    assert [cell["p"] for cell in cells] == pytest.approx([6 / 64] * 2)
    for one in (*cells, *pairs):
        assert not one["enough"]
    assert not any(cell["best"] or cell["beats_random"] for cell in cells)
    # With a seventh it is 0.047.
    cells, pairs, _ = toy([*values, [0.9, 0.1]], np.zeros((7, 2)))
    assert all(one["enough"] for one in (*cells, *pairs))
    assert [cell["best"] for cell in cells] == [True, False]
    assert [cell["beats_random"] for cell in cells] == [True, True]


def test_one_method_with_too_few_examples_is_not_marked():
    # m0 and m1 have ten examples, m2 three of them: 2 / 2^3 is never below 5%, however few comparisons are left.
    values = np.tile([0.9, 0.5, 0.5], (10, 1))
    values[3:, 2] = np.nan
    cells, pairs, _ = toy(values, np.zeros((10, 3)))
    assert [cell["enough"] for cell in cells] == [True, True, False]
    assert {(pair["a"], pair["b"]): pair["enough"] for pair in pairs} == {
        ("m0", "m1"): True, ("m0", "m2"): False, ("m1", "m2"): False,
    }  # fmt: skip
    assert [cell["best"] for cell in cells] == [True, False, False]


def test_too_few_examples_are_said(explainer):
    found = whence.evaluate(explainer, TEXTS[:4], METHODS, ["comprehensiveness", "sufficiency"])
    said = (
        "n=4 examples are too few: with 2 methods compared, differences can only show from n=7 on."
    )
    everywhere(found, said)
    assert str(found).count("examples are too few") == 1
    assert "examples are too few" in found.plot()
    assert not any(cell.best or cell.enough for cell in found.cells)
    grid = str(found).partition("chance ")[0]
    assert "*" not in grid
    assert "°" not in grid
    with_enough = whence.evaluate(explainer, TEXTS, METHODS, "comprehensiveness")
    assert "too few" not in str(with_enough)


def test_no_recommendation_where_none_could_pass(explainer):
    answer = recommend(explainer, TEXTS[:3], methods=METHODS, budget=5000)
    assert answer.method is None
    assert answer.sentence.startswith(
        "No method can be recommended: n=3 examples are too few: with 2 methods compared, differences can only show "
        "from n=7 on."
    )
    none = recommend(explainer, ["good", "bad"], methods=METHODS, budget=5000)
    assert none.sentence.startswith("No method could be tested by both")


def test_texts_that_were_cut_are_counted(explainer):
    long = "good film " * 400
    given = [*TEXTS[:2], long]
    found = whence.evaluate(explainer, given, METHODS, "comprehensiveness")
    assert found.payload["examples"]["cut"] == 1
    everywhere(found, "1 of 3 examples was longer than the model takes and was cut.")
    assert "was cut" in found.plot()
    spans = [Example(text, None, (Span(0, 0, 9),)) for text in (TEXTS[0], long, long + "it")]
    found = whence.evaluate(explainer, spans, "attcat", "token_f1")
    said = "2 of 3 examples were longer than the model takes and were cut, with what people marked beyond."
    everywhere(found, said)
    whole = whence.evaluate(explainer, TEXTS[:2], METHODS, "comprehensiveness")
    assert whole.payload["examples"]["cut"] == 0
    assert "longer than" not in str(whole)


def test_copies_are_no_observations_of_their_own(explainer):
    found = whence.evaluate(explainer, [TEXTS[0]] * 7, "attcat", "comprehensiveness")
    assert found.payload["examples"]["different"] == 1
    everywhere(found, "Only 1 of the 7 examples is different")


def test_costs_have_an_interval_or_are_the_same_for_all(explainer):
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
    everywhere(found, f"{cost.mean:.1f} [{cost.low:.1f}, {cost.high:.1f}]")
    # All examples were in one batch, which is one observation of a time.
    seconds = found.cost["attcat"]["seconds"]
    assert (seconds.low, seconds.high, seconds.n) == (None, None, 1)
    everywhere(found, "(1 batch)")
    few = whence.evaluate(explainer, TEXTS[:3], methods, "comprehensiveness")
    least, most = min(tokens[:3]) + 1, max(tokens[:3]) + 1
    everywhere(few, f"(from {least} to {most})")


def test_seconds_are_drawn_by_batches():
    # Six batches: five of one example with one second each, one of five with 3 seconds each: (5 + 15) / 10.
    (measure,) = measures("comprehensiveness")
    notes = Notes(["m"], [measure], 10, 1)
    notes.seconds[:, 0] = [1.0, 1.1, 0.9, 1.2, 0.8, 3, 3, 3, 3, 3]
    notes.forward[:, 0] = notes.backward[:, 0] = 1
    found = costs(notes, 0, range(10), 0)
    assert found["seconds"]["mean"] == pytest.approx(2.0)
    assert (found["seconds"]["n"], found["explained"], found["forward"]["n"]) == (6, 10, 10)
    # Without the large batch, once in three, it is 1; as examples it would hardly ever be below 1.4.
    assert found["seconds"]["low"] < 1.1


def test_chance_of_each_method_has_its_interval(table):
    for name in METHODS:
        null = table.cell(name, "infidelity").null
        assert null.low < null.mean < null.high
    digits = digits_of([cell for cell in table.payload["cells"] if cell["metric"] == "infidelity"])
    null = table.payload["cells"][2]["null"]
    assert table.payload["cells"][2]["metric"] == "infidelity"
    everywhere(table, f"chance {interval(null, digits, null['n'])}")


def test_pairs_are_written_and_shown(table, explainer, tmp_path):
    path = tmp_path / "pairs.csv"
    rows = list(csv.DictReader(StringIO(table.to_csv(path, what="pairs"))))
    assert path.read_text() == table.to_csv(what="pairs")
    assert [row["metric"] for row in rows] == table.metrics
    for row, pair in zip(rows, table.payload["pairs"], strict=True):
        assert (row["a"], row["b"], row["n"]) == ("attcat", "grad_x_input", "8")
        assert float(row["gain"]) == pair["gain"]["mean"]
        assert float(row["low"]) == pair["gain"]["low"]
        assert float(row["p"]) == pair["p"]
    with pytest.raises(BadParameter, match="what must be 'cells' or 'pairs'"):
        table.to_csv(what="rows")
    pair = table.pairs("comprehensiveness")[0]
    digits = digits_of([pair["gain"]])
    everywhere(table, f"{interval(pair['gain'], digits, 8)} p={pair['p']:.3f}")
    many = [*METHODS, "gradient", "rollout", "raw_attention", "random", "norm"]
    found = whence.evaluate(explainer, TEXTS[:2], many, "comprehensiveness")
    assert "attcat over" not in str(found)
    # Seven methods have 21 pairs.
    assert "The 21 comparisons of each two methods are in the JSON object" in str(found)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_names_stay_whole(explainer, width):
    from rich.console import Console

    methods = ["attcat", "transformer_attribution", "leave_one_out"]
    found = whence.evaluate(explainer, TEXTS, methods, ["comprehensiveness", "infidelity"])
    out = Console(width=width, file=StringIO())
    out.print(found)
    shown = out.file.getvalue()
    # In each of the grids, beside two others, and with its costs.
    grids = shown.count("faithfulness ")
    differences = shown.count("difference ")
    assert shown.count("transformer_attribution") == grids + 2 * differences + 1
    assert "…" not in shown
    assert all(len(line) <= width for line in shown.splitlines())
    for word in ("forwards", "backwards", "explained", "8 of 8"):
        assert word in shown


def test_an_encoding_without_arrows(table):
    from io import BytesIO, TextIOWrapper

    from rich.console import Console

    raw = BytesIO()
    out = TextIOWrapper(raw, "ascii", write_through=True)
    Console(width=100, file=out).print(table)
    assert b"comprehensiveness ^ n=8" in raw.getvalue()
    assert b"v less is better" in raw.getvalue()


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t"])
def test_a_name_is_no_formula(table, start):
    model = {**table.payload["model"], "name": f"{start}1+1"}
    found = Evaluation({**table.payload, "model": model})
    for what in ("cells", "pairs"):
        for row in csv.DictReader(StringIO(found.to_csv(what=what))):
            assert row["model"] == f"'{start}1+1"
            # A number may be negative and stays one.
            assert float(row["gain"]) in [
                one["gain"]["mean"] for one in (*found.payload["cells"], *found.payload["pairs"])
            ]


def test_agreement_beside_that_with_random_explanations(explainer):
    found = whence.evaluate(explainer, TEXTS, METHODS, ["tau_b", "comprehensiveness"], rankings=200)
    (row,) = found.payload["agreement"]
    # Of random rankings it is 0; 8 examples by 200 rankings by 2 explanations, each with a spread of about
    # sqrt(2 (2 n + 5) / (9 n (n - 1))) < 0.4 for n of 6 tokens or more, 200 of them independent for each example.
    assert abs(row["null"]["mean"]) < 4 * 0.4 / math.sqrt(8 * 200)
    assert "; chance " in str(found)


def test_passes_of_the_language_model_count():
    explainer = whence.load("reviews", dtype="float64", mlm="reviews-base")
    both = [explainer.model, explainer.loaded.infiller.loaded.model]
    with counted(both[0]) as model, counted(both[1]) as language:
        found = whence.evaluate(explainer, TEXTS[:2], "attcat", "loo_correlation", remove="draw")
    assert language.forward > 0
    assert found.payload["calls"]["forward"] == model.forward + language.forward


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
    # The means, the differences of two methods, the costs.
    assert latex.count("\\toprule") == latex.count("\\bottomrule") == 3
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
    assert "(n=4: too few for an interval) with mask" in said
    assert said.endswith("; the examples are too few to say which method is best.")
    assert removal_matters(tables[:1]) == "There is only one way to remove tokens here: mask."


def test_the_best_under_each_removal(explainer):
    def marked(way, best, beats):
        """Return a table in which some methods are marked."""
        found = whence.evaluate(explainer, TEXTS[:5], METHODS, "comprehensiveness", remove=way)
        cells = [
            {**cell, "best": cell["method"] in best, "beats_random": beats}
            for cell in found.payload["cells"]
        ]
        return Evaluation({**found.payload, "cells": cells})

    one, two = marked("mask", METHODS, False), marked("delete", METHODS, False)
    assert removal_matters([one, two]).endswith(
        "; attcat and grad_x_input cannot be told apart as the best, whatever the removal; none of these can be told "
        "from random explanations."
    )
    one, two = marked("mask", ["attcat"], True), marked("delete", METHODS, False)
    assert removal_matters([one, two]).endswith(
        "; attcat is the best with mask, attcat and grad_x_input cannot be told apart as the best with delete."
    )


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
def test_the_rule_of_a_recommendation(p, dear, cheap, method, said):
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    found = decided(
        table_of({"a": "dear", "b": "cheap", "gain": gain, "p": p}, {"dear": dear, "cheap": cheap})
    )
    assert found["method"] == method
    assert said in found["sentence"]


def test_each_is_better_by_one_metric():
    gain = {"mean": 0.1, "low": 0.0, "high": 0.2, "n": 9}
    pair = {"a": "dear", "b": "cheap", "gain": gain, "p": 0.01}
    table = table_of(pair, {"dear": (1.0, True, 40), "cheap": (2.0, True, 1)})
    # cheap is the better one by sufficiency: neither is outdone, and cheap has the larger mean effect.
    table.payload["pairs"][1]["gain"] = {**gain, "mean": -0.1}
    found = decided(table)
    assert (found["method"], found["equals"]) == ("cheap", ["cheap"])
    assert found["sentence"].endswith(
        "and is better than the other method that does by comprehensiveness or sufficiency; but dear is better by "
        "comprehensiveness."
    )


def test_a_recommendation_shows_and_saves_itself(explainer, tmp_path):
    announced = []
    answer = recommend(explainer, TEXTS, methods=METHODS, budget=5000, announce=announced.append)
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
    with pytest.raises(CannotRead, match="is not a recommendation"):
        Recommendation.load(tmp_path / "no.json")
    with pytest.raises(CannotRead, match="is not a recommendation"):
        Recommendation.load(Evaluation.save(answer.evaluation, tmp_path / "table.json"))


def test_texts_so_short_that_they_have_fewer_rankings_than_were_asked_for(explainer):
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


def test_the_best_is_found_example_by_example():
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


def test_a_plan_reckons_with_the_longest_example_coming_first(explainer):
    """Methods are tried on the first example of the file, which need not be the first that was drawn."""
    long = " ".join(["the film was good and the actors were not bad at all"] * 3)
    for given in ([long, "good film"], ["good film", long]):
        for seed in (0, 1):
            found = recommend(
                explainer, given, methods=["occlusion", "leave_one_out"], seed=seed, budget=1_000
            )
            assert found.evaluation.payload["calls"]["forward"] <= found.plan.calls


def test_chance_is_that_of_the_examples_a_method_was_tested_on():
    values = [[0.5, 0.5], [0.5, 0.5], [np.nan, 0.5], [np.nan, 0.5]]
    nulls = [[0.0, 0.0], [0.2, 0.2], [0.8, 0.8], [1.0, 1.0]]
    cells, _, _ = toy(values, nulls)
    assert [cell["null"]["mean"] for cell in cells] == pytest.approx([0.1, 0.5])
    assert [cell["n"] for cell in cells] == [2, 4]
