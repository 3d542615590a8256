"""Two models held against each other: by hand, by plain loops, and a model against itself."""

import copy
import json
import math
from dataclasses import replace
from io import StringIO
from itertools import pairwise, product
from types import SimpleNamespace

import numpy as np
import pytest
from tokenizers import normalizers

import whence
from tests import zoo
from tests.conftest import ROOT
from tests.contract.state import assert_unchanged, snapshot
from tests.unit.tokenizers import wordpiece
from whence.comparison import Comparison, compare, compared
from whence.comparison import views as views_of
from whence.comparison.changed import moved, ranked
from whence.comparison.heads import measured
from whence.comparison.match import check_tokens, of_one_length
from whence.comparison.overlap import _chance
from whence.comparison.rows import read_rows
from whence.comparison.summary import Summary
from whence.comparison.words import agreement, why_not
from whence.core.errors import (
    BadParameter,
    BadTokenizer,
    CannotRead,
    EmptyText,
    NoHead,
    NoTokenizer,
    UnknownMethod,
)
from whence.core.seed import generator
from whence.core.types import Token
from whence.data.examples import Example
from whence.explainer import Explainer
from whence.flow import Query
from whence.web.schema.compare import Compared
from whence.web.schema.compare import Comparison as Schema

TEXTS = [
    "a gripping, beautifully acted film",
    "the plot is thin and the jokes are worse",
    "not a bad film at all",
    "dull, slow and far too long",
    "a warm and funny story that never tires",
    "i wanted to like it and could not",
]


@pytest.fixture(scope="module")
def base():
    return whence.load("reviews-base", dtype="float64")


@pytest.fixture(scope="module")
def tuned():
    return whence.load("reviews", dtype="float64")


@pytest.fixture(scope="module")
def found(base, tuned):
    return compare(base, tuned, TEXTS)


def tokens(text, special=()):
    return tuple(
        Token(one, None, None, 0, special=one in special, id=place)
        for place, one in enumerate(text.split())
    )


# By plain loops


def jsd(p, q):
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += a * math.log2(a / middle) / 2 if a else 0
        total += b * math.log2(b / middle) / 2 if b else 0
    return total


def loops(one, other, special, rows):
    """Return divergence, that of the rows read, special mass and entropy of both, in the order of Measured."""
    layers, heads, n, _ = one.shape
    divergence, decision = np.zeros((layers, heads)), np.zeros((layers, heads))
    mass, spread = np.zeros((2, layers, heads)), np.zeros((2, layers, heads))
    for layer, head in product(range(layers), range(heads)):
        each = [jsd(one[layer, head, i], other[layer, head, i]) for i in range(n)]
        divergence[layer, head] = sum(each) / n
        decision[layer, head] = sum(w * d for w, d in zip(rows, each, strict=True))
        for side, maps in enumerate((one, other)):
            for i in range(n):
                row = maps[layer, head, i]
                mass[side, layer, head] += sum(row[j] for j in range(n) if special[j]) / n
                bits = -sum(a * math.log2(a) for a in row if a)
                spread[side, layer, head] += bits / math.log2(n) / n
    return divergence, decision, mass, spread


def test_heads_equal_plain_loops(base, tuned, found):
    sides = [[one.inside(text) for text in TEXTS] for one in (base, tuned)]
    each = [
        loops(a.attention(), b.attention(), b.special, b.rows) for a, b in zip(*sides, strict=True)
    ]
    divergence, decision, mass, spread = (np.mean(part, axis=0) for part in zip(*each, strict=True))
    # float64 throughout; batches are padded, which changes the order of some sums.
    for one in found.heads:
        at = one["layer"], one["head"]
        assert one["divergence"]["mean"] == pytest.approx(divergence[at], abs=1e-9)
        assert one["decision"]["mean"] == pytest.approx(decision[at], abs=1e-9)
        for what, values in (("special", mass), ("entropy", spread)):
            assert one[what]["a"]["mean"] == pytest.approx(values[0][at], abs=1e-9)
            assert one[what]["b"]["mean"] == pytest.approx(values[1][at], abs=1e-9)
            change = values[1][at] - values[0][at]
            assert one[what]["change"]["mean"] == pytest.approx(change, abs=1e-9)
    for one in found.layers:
        assert one["divergence"]["mean"] == pytest.approx(divergence[one["layer"]].mean())
    kinds = {one["name"]: one["figures"]["b"]["mean"] for one in found.to_dict()["specials"]}
    assert set(kinds) == {"[CLS]", "[SEP]"}
    assert sum(kinds.values()) == pytest.approx(mass[1].mean())


def flows(maps, root):
    """Return all edges with what they carry back from the root, by definition: half of it goes past a layer."""
    layers, heads, n, _ = maps.shape
    here, found = list(root), {}
    for layer in reversed(range(layers)):
        below = [here[j] / 2 for j in range(n)]
        for head, i, j in product(range(heads), range(n), range(n)):
            carried = here[i] / 2 * maps[layer, head, i, j] / heads
            found[layer, head, i, j] = carried
            below[j] += carried
        here = below
    return found


def covering(carried, share):
    total, kept, so_far = sum(carried.values()), set(), 0.0
    for edge in sorted(carried, key=lambda edge: (-carried[edge], edge)):
        if so_far >= share * total:
            break
        kept.add(edge)
        so_far += carried[edge]
    return kept


def counted(inside, root, specials):
    """Return the edges that count, with what they carry."""
    every = flows(inside.attention(), root)
    return {edge: own for edge, own in every.items() if specials or not inside.special[edge[3]]}


@pytest.mark.parametrize("specials", [False, True])
@pytest.mark.parametrize("share", [0.3, 0.8])
def test_the_overlap_equals_plain_loops(base, tuned, share, specials):
    text = TEXTS[2]
    found = compare(base, tuned, [text], coverage=share, specials=specials).to_dict()
    root = tuned.inside(text).rows
    sets, others = (
        [covering(counted(one.inside(text), root, kind), share) for one in (base, tuned)]
        for kind in (specials, not specials)
    )
    both, union = sets[0] & sets[1], sets[0] | sets[1]
    assert found["setting"]["specials"] is found["overlap"]["specials"] is specials
    assert found["overlap"]["other"]["specials"] is not specials
    other = len(others[0] & others[1]) / len(others[0] | others[1])
    assert found["overlap"]["other"]["jaccard"]["mean"] == pytest.approx(other)
    named = "to words and special tokens that" if specials else "to words that"
    assert f"Of the edges {named} carry {share:.0%}" in found["sentence"]
    assert found["overlap"]["jaccard"]["mean"] == pytest.approx(len(both) / len(union))
    assert found["overlap"]["only_a"]["mean"] == pytest.approx(len(sets[0] - both) / len(union))
    assert found["overlap"]["only_b"]["mean"] == pytest.approx(len(sets[1] - both) / len(union))
    for one in found["layers"]:
        own = [{edge for edge in side if edge[0] == one["layer"]} for side in sets]
        if own[0] | own[1]:
            alike = len(own[0] & own[1]) / len(own[0] | own[1])
            assert one["overlap"]["mean"] == pytest.approx(alike)
        else:
            assert one["overlap"] == {"mean": None, "low": None, "high": None, "n": 0}


def test_edges_that_end_on_special_tokens_do_not_count_by_default(base, tuned):
    plain = compare(base, tuned, TEXTS[:2], method=None).to_dict()["overlap"]
    assert (
        plain == compare(base, tuned, TEXTS[:2], method=None, specials=False).to_dict()["overlap"]
    )
    turned = compare(base, tuned, TEXTS[:2], method=None, specials=True).to_dict()["overlap"]
    for what in ("jaccard", "chance"):
        assert plain["other"][what] == turned[what]
        assert turned["other"][what] == plain[what]


def test_chance_depends_on_the_seed(base, tuned):
    found = [compare(base, tuned, TEXTS, method=None, seed=seed).to_dict() for seed in (0, 0, 1)]
    chance = [one["overlap"]["chance"]["mean"] for one in found]
    assert chance[0] == chance[1] != chance[2]
    strangers = [[layer["strangers"]["mean"] for layer in one["layers"]] for one in found]
    assert strangers[0] == strangers[1] != strangers[2]


def test_random_sets_have_as_many_edges_in_each_layer():
    # One edge out of two in the first layer, all three out of three in the second: the first is the same in half of
    # the draws. Jaccard is 4/4 then and 3/5 otherwise, 0.8 in the mean; 200 draws are within 0.06 (four standard
    # errors, 0.2 / sqrt(200) = 0.014 each).
    found = _chance(np.array([1, 3]), np.array([1, 3]), [2, 3], generator("test"))
    assert found == pytest.approx(0.8, abs=0.06)


# By hand


def test_measured_by_hand():
    # One layer, two heads, two tokens of which the first is special; the decision reads the second row.
    a = np.array([[[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]]])
    b = np.array([[[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]]])
    found = measured(a, b, np.array([0.0, 1.0]), tokens("[CLS] good", {"[CLS]"}), 0)
    # [1, 0] and [0, 1] are a bit apart; of [1/2, 1/2] and [1, 0] the middle is [3/4, 1/4] with an entropy of 0.811278
    # bits, less the mean of 1 and 0 is 0.311278.
    assert found.divergence == pytest.approx(np.array([[(1 + 0.311278) / 2, 0]]), abs=1e-6)
    assert found.decision == pytest.approx(np.array([[0.311278, 0]]), abs=1e-6)
    assert found.special[:, 0] == pytest.approx(np.array([[0.75, 0], [0.5, 0]]))
    # Of the first model's first head one row has no entropy, the other all of it.
    assert found.entropy[:, 0] == pytest.approx(np.array([[0.5, 0], [0, 0]]))
    # Heads that are not twins: the first of a and the second of b, and the other way round.
    strangers = [jsd(a[0, h, i], b[0, 1 - h, i]) for h in range(2) for i in range(2)]
    assert found.strangers == pytest.approx(np.array([np.mean(strangers)]))
    # [CLS] gets (1 + 1/2 + 0 + 0) / 4 of the first model and (0 + 1 + 0 + 0) / 4 of the second.
    assert found.kinds["[CLS]"] == pytest.approx(np.array([0.375, 0.25]))
    assert found.segments == {}
    alone = measured(a[:, :1], b[:, :1], np.array([0.0, 1.0]), tokens("a b"), 0)
    assert np.isnan(alone.strangers).all()  # there is no other head
    assert alone.kinds == {}


def test_a_stranger_is_never_the_twin():
    # Two models that are the same, of three heads that differ: a head is at no distance from its twin alone.
    maps = np.eye(3)[np.arange(3)][None, :, None].repeat(3, axis=2)  # head h attends to token h
    drawn = [measured(maps, maps, np.eye(3)[0], tokens(f"a b {n}"), n).strangers for n in range(40)]
    assert np.array(drawn) == pytest.approx(np.ones((40, 1)))


def test_of_two_models_the_one_with_a_head_says_which_rows_are_read():
    last, first = np.eye(3)[2], np.eye(3)[0]
    headless, headed = (
        SimpleNamespace(rows=first, has_head=False),
        SimpleNamespace(rows=last, has_head=True),
    )
    for pair in ((headless, headed), (headed, headless)):
        assert [rows.tolist() for rows in read_rows(*pair)] == [last.tolist()] * 2
    other = SimpleNamespace(rows=first, has_head=True)
    assert [rows.tolist() for rows in read_rows(headed, other)] == [last.tolist(), first.tolist()]


def test_what_is_sure_of_one_head_may_be_chance_among_two():
    # Six inputs, all of one sign: p = 2 / 2^6 = 0.031. Of two such columns Holm asks for half of 0.05.
    summary = Summary(list(range(6)), 0)
    column = np.linspace(0.1, 0.6, 6)[:, None]
    assert summary.surely(column) == [True]
    assert summary.surely(np.hstack([column, column])) == [False, False]


def test_segments_by_hand():
    # [CLS] x [SEP] y: x gives 0.25 to itself and 0.5 to y, y gives all to [SEP].
    texts = (("[CLS]", 0, True), ("x", 0, False), ("[SEP]", 0, True), ("y", 1, False))
    own = [Token(text, None, None, s, special, i) for i, (text, s, special) in enumerate(texts)]
    maps = np.zeros((1, 1, 4, 4))
    maps[0, 0] = [[1, 0, 0, 0], [0.25, 0.25, 0, 0.5], [1, 0, 0, 0], [0, 0, 1, 0]]
    found = measured(maps, maps, np.eye(4)[0], own, 0)
    assert {name: values.tolist() for name, values in found.segments.items()} == {
        "A>A": [0.25, 0.25],
        "A>B": [0.5, 0.5],
        "B>A": [0, 0],
        "B>B": [0, 0],
    }


def test_ranks_say_what_cannot_be_told_apart():
    # Twelve inputs: the second column is always 0.1 above the first (p = 2 / 2^12), the third as often above the
    # second as below it, and on average just beneath it.
    first = np.linspace(0.1, 0.5, 12)
    second = first + 0.1
    third = second + np.where(np.arange(12) % 2, 0.2, -0.21)
    values = np.column_stack([first, second, third])
    summary = Summary(list(range(12)), 0)
    means = summary.means(values)
    assert ranked(summary, values, means) == [(1, True), (2, True), (0, False)]
    found = moved(summary, np.zeros((12, 3)), values - second[:, None])
    assert found == {"more": [], "less": [0], "of": 3}
    assert means[0]["n"] == 12
    assert means[0]["low"] < means[0]["mean"] < means[0]["high"]


def test_agreement_by_hand():
    scores = np.array([5.0, 4, 3, 2, 1, 0.5, 0.25])
    assert agreement(scores, scores) == (1, 1)
    # Strength is by size: the sign turns the order round, and the strongest five stay.
    tau, top = agreement(scores, -scores)
    assert (tau, top) == (-1, 1)
    ties = np.array([1.0, 0, 0, 0, 0, 0, 0])
    assert agreement(ties, ties) == (1, 1)
    tau, top = agreement(scores[:5], scores[:5])
    assert tau == 1
    assert math.isnan(top)  # five words are all among the five strongest
    assert all(math.isnan(one) for one in agreement(np.ones(7), scores))


# A model and itself


def test_a_model_is_like_itself(tuned):
    found = compare(tuned, tuned, TEXTS).to_dict()
    Schema.model_validate(found)
    nothing = {"mean": 0, "low": 0, "high": 0, "n": len(TEXTS)}
    everything = {"mean": 1, "low": 1, "high": 1, "n": len(TEXTS)}
    for one in found["heads"]:
        assert one["divergence"] == one["decision"] == nothing
        assert one["special"]["change"] == one["entropy"]["change"] == nothing
    for one in found["layers"]:
        assert (one["divergence"], one["overlap"]) == (nothing, everything)
        assert one["chance"]["mean"] < 1
        assert one["strangers"]["mean"] > 0
    assert found["overlap"]["jaccard"] == everything
    assert found["overlap"]["only_a"] == found["overlap"]["only_b"] == nothing
    assert found["attribution"]["tau"] == everything
    assert (found["attribution"]["top"]["mean"], found["attribution"]["k"]) == (1, 5)
    assert found["attribution"]["chance"]["mean"] < 1
    assert found["predictions"]["agreement"] == everything
    assert found["changed"]["special"]["more"] == found["changed"]["special"]["less"] == []
    assert "attend alike to the last bit" in found["sentence"]


def test_one_input_and_itself(tuned):
    inside = tuned.inside(TEXTS[0])
    found = compared(inside, tuned.inside(TEXTS[0]))
    Compared.model_validate(found)
    assert np.all(np.array(found["divergence"]) == 0)
    assert np.all(np.array(found["decision"]) == 0)
    assert found["changed"] == []
    assert found["difference"] == {name: [] for name in ("layer", "head", "source", "to", "a", "b")}
    assert found["flows"][0]["edges"] == found["flows"][1]["edges"]


def test_one_input_in_two_models(base, tuned):
    text = TEXTS[1]
    why = tuned.explain(text)
    a, b = base.inside(text), tuned.inside(text)
    found = compared(a, b, explanations=(None, why))
    Compared.model_validate(found)
    assert found["predictions"][0] is None
    assert found["predictions"][1]["label"] == why.prediction.label
    assert found["explanations"][0] is None
    assert found["explanations"][1]["scores"] == why.scores.tolist()
    divergence, decision, _, _ = loops(a.attention(), b.attention(), b.special, b.rows)
    assert np.array(found["divergence"]) == pytest.approx(divergence, abs=1e-9)
    assert np.array(found["decision"]) == pytest.approx(decision, abs=1e-9)
    assert found["layers"] == pytest.approx(divergence.mean(1))
    first = found["changed"][0]
    assert first["divergence"] == pytest.approx(divergence.max())
    one, other = flows(a.attention(), b.rows), flows(b.attention(), b.rows)
    own = found["difference"]
    keys = list(zip(own["layer"], own["head"], own["source"], own["to"], strict=True))
    assert own["a"] == pytest.approx([one[key] for key in keys])
    assert own["b"] == pytest.approx([other[key] for key in keys])
    apart = [abs(x - y) for x, y in zip(own["a"], own["b"], strict=True)]
    assert apart == sorted(apart, reverse=True)
    assert {warned["code"] for warned in found["warnings"]} == {"no-head"}


def test_two_decisions_that_read_different_rows():
    # The first reads all rows alike, the second the first one: the divergence of the decision's rows is by both.
    a, b = (pooled(kind, seed).inside(TEXTS[0]) for kind, seed in (("mean", 0), ("cls", 1)))
    assert a.rows.tolist() != b.rows.tolist()
    found = compared(a, b)
    rows = (a.rows + b.rows) / 2
    _, decision, _, _ = loops(a.attention(), b.attention(), b.special, rows)
    assert np.array(found["decision"]) == pytest.approx(decision, abs=1e-9)


def pooled(kind, seed):
    model = zoo.make("modernbert", seed=seed)
    model.config.classifier_pooling = kind
    model.resize_token_embeddings(400)
    return whence.load(model, tokenizer=wordpiece())


@pytest.mark.parametrize("specials", [False, True])
def test_one_input_says_how_many_edges_there_could_be(base, tuned, specials):
    a, b = base.inside(TEXTS[1]), tuned.inside(TEXTS[1])
    found = compared(a, b, query=Query(specials=specials))
    carried = [counted(side, b.rows, specials) for side in (a, b)]
    wanted = [
        sum(edge[0] == layer and any(side[edge] > 0 for side in carried) for edge in carried[0])
        for layer in range(a.layers)
    ]
    assert found["possible"] == wanted
    assert wanted[-1] < wanted[0]  # of the last layer only the row that is read


# A pre-trained model without a head


def test_a_base_without_a_head(found):
    payload = found.to_dict()
    Schema.model_validate(payload)
    assert payload["attribution"] is None
    assert payload["without_attribution"].startswith("'reviews-base' has no classification head")
    assert payload["predictions"]["agreement"] is None
    assert payload["predictions"]["without_agreement"] == (
        "The first model has no classification head, and predicts nothing."
    )
    assert payload["predictions"]["accuracy"] is None
    assert "no labels" in payload["predictions"]["without_accuracy"]
    assert "the decision of reviews reads" in payload["setting"]["decision"]
    assert payload["calls"]["forward"] >= 2 * len(TEXTS)


def test_labels_tell_the_accuracy(base, tuned):
    labels = ["1", "0", "1", "0", "1", None]
    given = [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)]
    right = [
        tuned.predict(text).index == int(own) for text, own in zip(TEXTS, labels[:5], strict=False)
    ]
    found = compare(base, tuned, given, method=None).to_dict()["predictions"]["accuracy"]
    assert (found["a"], found["change"]) == (None, None)
    assert (found["b"]["mean"], found["b"]["n"]) == (np.mean(right), 5)
    both = compare(tuned, tuned, given, method=None).to_dict()
    assert both["predictions"]["accuracy"]["change"]["mean"] == 0
    assert both["attribution"] is None
    assert both["without_attribution"] == "no method was asked for."


def test_accuracy_changes_from_the_first_model_to_the_second(tuned):
    wrong = turned_round()
    given = [Example(text, tuned.predict(text).label) for text in TEXTS]
    found = compare(wrong, tuned, given, method=None).to_dict()["predictions"]["accuracy"]
    assert [found[side]["mean"] for side in ("a", "b", "change")] == [0, 1, 1]


def turned_round():
    """Return the same encoder with the head's sign turned: it predicts the opposite, and attends alike."""
    turned = whence.load("reviews", dtype="float64")
    turned.model.classifier.weight.data.neg_()
    turned.model.classifier.bias.data.neg_()
    return turned


def test_why_attributions_cannot_be_compared(base, tuned):
    assert why_not(tuned, tuned) is None
    assert "no classification head" in why_not(tuned, base)
    assert "have no classification head" in why_not(base, base)
    other = Explainer(replace(tuned.loaded, labels=("bad", "good")))
    assert "different labels (negative, positive; bad, good)" in why_not(tuned, other)
    scorer = Explainer(replace(tuned.loaded, task="multi_label"))
    assert "different tasks" in why_not(tuned, scorer)


def test_two_heads_read_their_own_rows_and_explain_one_class(tuned):
    found = compare(tuned, turned_round(), TEXTS, method="grad_x_input").to_dict()
    assert found["predictions"]["agreement"]["mean"] == 0
    assert all(one["divergence"]["mean"] == 0 for one in found["heads"])
    # Both are explained for what the second one predicts: the scores have opposite signs, so the order is reversed.
    assert found["attribution"]["tau"]["mean"] == pytest.approx(-1)
    assert found["attribution"]["top"]["mean"] == pytest.approx(1)


# Data


def test_order_and_batches_change_nothing(base, tuned, found, monkeypatch):
    again = compare(base, tuned, TEXTS[::-1]).to_dict()
    monkeypatch.setattr(views_of, "_INPUTS", 1)
    alone = compare(base, tuned, TEXTS).to_dict()
    for other in (again, alone):
        for what in ("heads", "layers", "specials", "overlap"):
            for one, two in zip(numbers(found.to_dict()[what]), numbers(other[what]), strict=True):
                assert one == pytest.approx(two, abs=1e-9)  # float64, sums in another order
    assert again["changed"]["heads"][0]["head"] == found.to_dict()["changed"]["heads"][0]["head"]


def test_a_model_that_minds_padding_takes_one_length_at_a_time():
    minding = whence.load("reviews", dtype="float64")
    minding.model.register_forward_pre_hook(
        lambda module, given, named: (given, {**named, "attention_mask": None}), with_kwargs=True
    )
    found = compare(minding, minding, TEXTS, method=None).to_dict()
    each = [minding.inside(text) for text in TEXTS]
    mass = np.mean([one.head_values("special") for one in each], axis=0)
    for one in found["heads"]:
        wanted = pytest.approx(mass[one["layer"], one["head"]], abs=1e-9)
        assert one["special"]["a"]["mean"] == wanted


def numbers(facts):
    if isinstance(facts, dict):
        return [one for value in facts.values() for one in numbers(value)]
    if isinstance(facts, list):
        return [one for value in facts for one in numbers(value)]
    return [] if isinstance(facts, str) or facts is None else [facts]


def test_a_sample_and_what_cannot_be_used(base, tuned):
    found = compare(base, tuned, [*TEXTS, "  ", ""], limit=8, seed=3).to_dict()["data"]
    assert (found["given"], found["drawn"], found["used"]) == (8, 8, 6)
    assert found["why_not"] == [{"why": "empty text", "count": 2}]
    few = [compare(base, tuned, TEXTS, limit=2, seed=seed).to_dict()["data"] for seed in range(4)]
    assert {one["used"] for one in few} == {2}
    assert len({one["tokens"] for one in few}) > 1  # other seeds, other draws
    with pytest.raises(EmptyText, match="None of the 2 examples can be used"):
        compare(base, tuned, ["", " "])
    long = " ".join(TEXTS * 200)
    found = compare(base, tuned, [long, *TEXTS[:1]]).to_dict()["data"]
    assert (found["used"], found["cut"]) == (2, 1)
    found = compare(base, tuned, [long, *TEXTS[:1]], truncate=False).to_dict()["data"]
    assert (found["used"], found["why_not"]) == (1, [{"why": "too long", "count": 1}])


def test_pairs_have_segments(tuned, base):
    pairs = list(zip(TEXTS, TEXTS[::-1], strict=True))
    found = compare(base, tuned, pairs).to_dict()
    assert [one["name"] for one in found["segments"]] == ["A>A", "A>B", "B>A", "B>B"]
    inside = tuned.inside(pairs[0])
    mean = inside.attention().mean((0, 1))
    words = [~inside.special & (inside.segments == side) for side in (0, 1)]
    single = compare(base, tuned, pairs[:1]).to_dict()["segments"]
    for one, (i, j) in zip(single, product((0, 1), (0, 1)), strict=True):
        expected = mean[np.ix_(words[i], words[j])].sum(1).mean()
        assert one["figures"]["b"]["mean"] == pytest.approx(expected)


@pytest.mark.parametrize("weight", ["norm", "value_zeroing", "gradient_x_attention", "relevance"])
def test_other_weights(tuned, base, weight):
    found = compare(tuned, tuned, TEXTS[:2], weight=weight, method=None).to_dict()
    assert found["overlap"]["jaccard"]["mean"] == 1
    if weight in ("norm", "value_zeroing"):
        found = compare(base, tuned, TEXTS[:2], weight=weight).to_dict()
        assert 0 <= found["overlap"]["jaccard"]["mean"] < 1
    else:
        with pytest.raises(NoHead, match="no decision that the weight"):
            compare(base, tuned, TEXTS[:2], weight=weight)


def test_progress_and_an_end_in_the_middle(base, tuned):
    told = []
    compare(tuned, tuned, TEXTS, progress=lambda *done: told.append(done))
    assert told == sorted(told)
    assert told[-1] == (12, 12)  # attention, and attributions
    before = [snapshot(one.model) for one in (base, tuned)]

    def stop(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(base, tuned, TEXTS, progress=stop)
    for one, state in zip((base, tuned), before, strict=True):
        assert_unchanged(state, snapshot(one.model))


# What cannot be compared


def explainer(name, tokenizer=None, **config):
    model = zoo.make(name) if not config else None
    if model is None:
        import transformers as hf

        model = (
            zoo.seeded(
                lambda: hf.BertForSequenceClassification(hf.BertConfig(**{**zoo._BERT, **config}))
            )
            .double()
            .eval()
        )
    model.resize_token_embeddings(400)
    return whence.load(model, tokenizer=tokenizer or wordpiece())


def test_models_that_do_not_go_together(tuned):
    decoy = whence.load("decoy", dtype="float64")
    with pytest.raises(BadTokenizer, match=r"different tokenizers: '.+' is \d+ in one and \d+ in"):
        compare(tuned, decoy, TEXTS)
    one = explainer("bert")
    with pytest.raises(BadParameter, match=r"3 layers of 4 heads, .* 2 layers of 4 heads"):
        compare(one, explainer("bert", num_hidden_layers=2), TEXTS)
    with pytest.raises(BadParameter, match=r"3 layers of 4 heads, .* 3 layers of 2 heads"):
        compare(one, explainer("bert", num_attention_heads=2), TEXTS)
    with pytest.raises(NoTokenizer, match="has no tokenizer"):
        compare(one, whence.load(zoo.make("bert")), TEXTS)


def test_texts_that_are_read_differently():
    one, other = tokens("a b c"), tokens("a b c d")
    check_tokens("a b c", one, one)
    with pytest.raises(
        BadTokenizer,
        match=r"'a b c' is read differently: at token 3 'x' has nothing, 'y' 'd' \(id 3\)",
    ):
        check_tokens("a b c", one, other, ("x", "y"))


def test_one_vocabulary_is_not_yet_one_tokenizer():
    cased = copy.deepcopy(wordpiece())
    cased.backend_tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    assert cased("a Film")["input_ids"] != wordpiece()("a Film")["input_ids"]
    with pytest.raises(BadTokenizer, match="'a Film' is read differently"):
        compare(explainer("bert"), explainer("bert", cased), ["a film", "a Film"], method=None)


def test_the_smaller_bound_holds_for_both(tuned):
    short = Explainer(replace(tuned.loaded, max_length=8))
    both = of_one_length(tuned, short)
    assert [one.loaded.max_length for one in both] == [8, 8]
    found = compare(tuned, short, TEXTS, method=None).to_dict()
    assert found["data"]["cut"] > 0
    assert found["overlap"]["jaccard"]["mean"] == 1


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"weight": "atention"}, BadParameter, "Did you mean 'attention'"),
        ({"coverage": 0}, BadParameter, "coverage must be above 0 and at most 1. Got 0"),
        ({"coverage": float("nan")}, BadParameter, "Got nan"),
        ({"specials": "no"}, BadParameter, "specials must be True or False. Got 'no'"),
        ({"limit": 0}, BadParameter, "limit must be a whole number"),
        ({"seed": 1.5}, BadParameter, "seed must be a whole number"),
        ({"method": "atcat"}, UnknownMethod, "Did you mean 'attcat'"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_loaded(options, error, said):
    with pytest.raises(error, match=said):
        compare("nowhere/at-all", "nowhere/either", TEXTS, **options)


# What comes of it


def test_one_input_and_two_models_of_one_name(tuned):
    found = compare(tuned, turned_round(), TEXTS[:1], method=None).to_dict()
    assert found["sentence"].startswith("the first reviews and the second reviews attend alike")
    assert found["sentence"].endswith("on 1 input: no head diverges from its twin.")
    other = explainer("bert"), explainer("bert", hidden_dropout_prob=0.2)
    named = [Explainer(replace(one.loaded, name="/models/film")) for one in other]
    named[1].model.bert.embeddings.word_embeddings.weight.data.mul_(2)
    said = compare(*named, TEXTS[:1], method=None).to_dict()["sentence"]
    assert (
        "Over 1 input, the attention of the second film is farthest from that of the first" in said
    )
    assert "1 input is too few" in said


def test_saved_and_read_back(found, tmp_path):
    file = found.save(tmp_path / "a.json")
    assert Comparison.read(file).to_dict() == found.to_dict()
    assert found.save(tmp_path / "a.html").read_text().startswith("<!doctype html>")
    with pytest.raises(BadParameter, match=r"saved as \.json or \.html"):
        found.save(tmp_path / "a.txt")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "audit", "version": 1}))
    with pytest.raises(CannotRead, match="not a saved comparison"):
        Comparison.read(tmp_path / "b.json")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "comparison", "version": 9}))
    with pytest.raises(CannotRead, match="version 9"):
        Comparison.read(tmp_path / "b.json")
    (tmp_path / "b.json").write_text(json.dumps({"kind": "comparison", "version": 1}))
    with pytest.raises(CannotRead, match="KeyError"):
        Comparison.read(tmp_path / "b.json")


def test_shown(found):
    assert repr(found) == "<Comparison reviews-base and reviews on 6 inputs>"
    assert found.sentence in str(found)
    assert (
        found.head(*found.changed[0])["divergence"]
        == found.to_dict()["changed"]["heads"][0]["divergence"]
    )
    with pytest.raises(BadParameter, match=r"There is no head 9\.9: the models have 4 layers of 4"):
        found.head(9, 9)
    page = found.to_html()
    assert page.count("<svg") >= 5
    assert "nan" not in page.lower().replace("dominant", "").replace("provenance", "")
    assert found._repr_html_().startswith('<div class="whence">')


def test_nothing_of_a_name_gets_into_the_page(found):
    payload = found.to_dict()
    evil = "<script>alert(1)</script>\x1b[31m"
    payload["a"] = {**payload["a"], "name": evil, "class": evil}
    payload["data"] = {**payload["data"], "name": evil, "why_not": [{"why": evil, "count": 1}]}
    payload["specials"] = [{**payload["specials"][0], "name": evil}]
    payload["sentence"] = evil
    shown = Comparison(payload)
    for text in (shown.to_html(), shown._repr_html_()):
        assert "<script" not in text
        assert "\x1b" not in text
        assert "&lt;script&gt;" in text
    assert "\x1b" not in str(shown)


def test_a_terminal_of_any_width(found):
    from rich.console import Console

    for width in (40, 80, 200):
        console = Console(width=width, file=StringIO())
        console.print(found)
        text = console.file.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert "reviews-base" in text
        assert "chance" in text


def test_the_science_page_is_what_the_file_says():
    from bench.science import compare as science

    found = json.loads(science.RESULT.read_text("utf-8"))
    kept = Comparison.from_dict(found).to_dict()
    Schema.model_validate(kept)
    assert science.PAGE.read_text("utf-8") == science.markdown(found)
    assert (kept["data"]["used"], kept["a"]["name"], kept["b"]["name"]) == (
        200,
        "minilm-base",
        "minilm-sst2",
    )
    assert str(ROOT) not in science.RESULT.read_text("utf-8")
    # What the page says beside its figures.
    layers = kept["layers"]
    assert all(
        one["divergence"]["mean"] < two["divergence"]["mean"] for one, two in pairwise(layers)
    )
    assert layers[-1]["decision"]["low"] > max(one["decision"]["high"] for one in layers[:-1])
    assert len(kept["changed"]["special"]["less"]) > len(kept["changed"]["special"]["more"])
