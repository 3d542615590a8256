"""AOPC and log-odds equal to the AttCAT authors' own functions: the numbers, and every input they ask about."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import whence
from tests.model_inputs import record_model_inputs
from whence.metrics import metric

# float64 on both sides, the same model and the same inputs: what differs is the order of a few sums.
EXACT = {"rtol": 0, "atol": 1e-13}
WAYS = {"delete": ("p_deleted", "deleted_ids"), "pad": ("p_replaced_pad", "replaced_ids")}
NAMES = {
    ("aopc", "delete"): "aopc_deleted",
    ("aopc", "pad"): "aopc_replaced",
    ("log_odds", "delete"): "logodds_deleted",
    ("log_odds", "pad"): "logodds_replaced",
}


@pytest.fixture(scope="module")
def known(golden):
    return json.loads((golden / "attcat_metrics.json").read_text())


@pytest.fixture(scope="module")
def explainer(golden):
    """Load the golden model with a tokenizer that reads "w11 w30" as 11 and 30, between the special 2 and 3."""
    special = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3}
    core = Tokenizer(
        models.WordLevel({**special, **{f"w{i}": i for i in range(4, 100)}}, unk_token="[UNK]")
    )
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )  # fmt: skip
    return whence.load(golden / "bert", tokenizer=tokenizer, dtype="float64")


@pytest.fixture(scope="module", params=["t0", "t1"])
def case(known, request):
    return int(request.param[1]), known["cases"][request.param]


def trial_of(explainer, known, case, how):
    """Put the ranking of the golden on trial: the first in its order has the highest score."""
    target, figures = case
    text = " ".join(f"w{i}" for i in known["input_ids"][1:-1])
    ((_, trial, _),) = explainer.trials([text], method="attcat", target=target, remove=how)
    assert list(trial.item.ids) == known["input_ids"]
    scores = np.empty((1, len(trial.item)))
    scores[0, figures["order"]] = range(len(trial.item), 0, -1)
    return replace(trial, scores=scores)


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("name", ["aopc", "log_odds"])
def test_figures(explainer, known, case, name, how):
    trial = trial_of(explainer, known, case, how)
    entry = metric.get(name)
    outcome = entry.fn(trial, **entry.presets["attcat"])
    _, figures = case
    np.testing.assert_allclose(outcome.values, [figures[NAMES[name, how]]], **EXACT)
    wanted = [figures["p_original"], *figures[WAYS[how][0]]]
    np.testing.assert_allclose(outcome.curves[0], wanted, **EXACT)
    np.testing.assert_allclose(outcome.at * len(trial.item), figures["steps"], **EXACT)


@pytest.mark.parametrize("how", WAYS)
def test_the_very_same_inputs(explainer, known, case, how):
    trial = trial_of(explainer, known, case, how)
    entry = metric.get("aopc")
    with record_model_inputs(explainer.model) as asked:
        entry.fn(trial, **entry.presets["attcat"])
    wanted = [tuple(ids) for ids in case[1][WAYS[how][1]]]
    # Theirs asks three times about the last: the steps go on where nothing more is removed.
    assert set(asked) == set(wanted)
    assert len(asked) == len(set(wanted)) == 7


def test_the_default_is_another(explainer, known, case):
    """Sound counting reaches the last token, and a probability that rises is no fall."""
    trial = trial_of(explainer, known, case, "delete")
    with record_model_inputs(explainer.model) as asked:
        outcome = metric.get("aopc").fn(trial)
    assert (2, 3) in asked
    assert outcome.at.tolist() == [i / 9 for i in range(10)]
    falls = outcome.curves[0, 0] - outcome.curves[0, 1:]
    np.testing.assert_allclose(outcome.values, [falls.mean()], **EXACT)
