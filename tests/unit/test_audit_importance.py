"""Importance measures of an audit: leave-one-out and gradients equal loops and autograd; batches equal singles."""

import numpy as np
import pytest
import torch

from tests.audit_subjects import TEXTS, attentive, reviews, subject_of
from whence.core.errors import BadParameter
from whence.explain.explainer import Explainer
from whence.studies.audit.importance import gradient, integrated_gradients, leave_one_out
from whence.tracing.ask import count_forwards
from whence.tracing.attention_override import override_attention

# Models in float64 on other batches: the order of summation alone, some hundred roundings of 1e-16 of numbers of 1.
ROUNDED = {"rtol": 1e-9, "atol": 1e-12}

CASES = {
    "reviews": reviews,
    "bilstm": attentive,
    "average, 3 labels": lambda: attentive("average", 3),
    "query": lambda: attentive("cnn", 3, True),
}


@pytest.fixture(scope="module", params=CASES)
def subject(request):
    explainer = CASES[request.param]()
    texts = [(text, "a film") for text in TEXTS] if request.param == "query" else TEXTS
    return subject_of(explainer, texts, None)


def input_of(subject, number):
    source = subject.items[number].source
    return source.text if source.pair is None else (source.text, source.pair)


def predict_probabilities(subject, features):
    """Run the model on one input, without any help."""
    with torch.no_grad():
        batch = {name: torch.tensor([values]) for name, values in features.items()}
        return subject.loaded.model(**batch).logits[0].softmax(-1).numpy()


def test_audit_subject_content_covers_the_text_without_special_tokens_or_query(subject):
    for item, places in zip(subject.items, subject.content, strict=True):
        texts = [item.tokens[place].text for place in places]
        assert "film" not in texts or item.source.text.endswith("film")
        assert "".join(texts) == item.source.text.replace(" ", "")


def test_leave_one_out_with_delete_equals_a_loop_over_tokens(subject):
    """By hand: each token deleted, the model run on what is left, and half of all differences added up."""
    for number, found in enumerate(leave_one_out(subject, remove="delete")):
        features = subject.items[number].features
        whole = predict_probabilities(subject, features)
        wanted = []
        for place in subject.content[number]:
            left = {
                name: [v for at, v in enumerate(values) if at != place]
                for name, values in features.items()
            }
            wanted.append(np.abs(predict_probabilities(subject, left) - whole).sum() / 2)
        np.testing.assert_allclose(found, wanted, **ROUNDED)


def test_leave_one_out_with_mask_equals_a_loop_and_is_the_default():
    subject = subject_of(reviews(), TEXTS[:2], None)
    features, mask = subject.items[0].features, subject.loaded.fillers["mask"]
    whole = predict_probabilities(subject, features)
    wanted = []
    for place in subject.content[0]:
        ids = [mask if at == place else v for at, v in enumerate(features["input_ids"])]
        wanted.append(
            np.abs(predict_probabilities(subject, {**features, "input_ids": ids}) - whole).sum() / 2
        )
    np.testing.assert_allclose(leave_one_out(subject, remove="mask")[0], wanted, **ROUNDED)
    # By default, too, where there is a mask.
    assert leave_one_out(subject)[0] is leave_one_out(subject, remove="mask")[0]
    with pytest.raises(BadParameter, match="mask token"):
        leave_one_out(subject_of(attentive(), TEXTS[:1], None), remove="mask")


def test_leave_one_out_scores_of_equal_neighbours_are_equal():
    """What is left is the same, whichever of the two goes: the answers are equal to the last bit."""
    subject = subject_of(attentive(), ["dull dull and endless"], None)
    first, second, *_ = leave_one_out(subject)[0]
    assert first == second


def test_leave_one_out_of_the_only_token_is_nan():
    subject = subject_of(attentive(), ["mess", "a mess"], None)
    found = leave_one_out(subject)
    assert np.isnan(found[0]).tolist() == [True]
    assert np.isfinite(found[1]).all()


def test_gradient_equals_autograd_of_the_predicted_probability(subject):
    """By hand: the embeddings made a leaf, autograd, and the size of the sum over features."""
    for number, found in enumerate(gradient(subject)):
        wanted = slopes(subject, number, "detached")[subject.content[number]]
        np.testing.assert_allclose(found, wanted, **ROUNDED)


def test_gradient_with_attention_not_detached_equals_autograd_and_differs(subject):
    whole = gradient(subject, detached=False)
    for number, found in enumerate(whole):
        wanted = slopes(subject, number, "own")[subject.content[number]]
        np.testing.assert_allclose(found, wanted, **ROUNDED)
    apart = [np.abs(a - b).max() for a, b in zip(whole, gradient(subject), strict=True)]
    assert min(apart) > 1e-9


def slopes(subject, number, manner):
    model, features = subject.loaded.model, subject.items[number].features
    kept = []

    def leaf(_module, _args, output):
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    hook = model.get_input_embeddings().register_forward_hook(leaf)
    try:
        with override_attention(model, manner):
            batch = {name: torch.tensor([values]) for name, values in features.items()}
            logits = model(**batch).logits[0]
            (slope,) = torch.autograd.grad(logits.softmax(-1).max(), kept[0])
    finally:
        hook.remove()
    return (slope * kept[0]).sum(-1).abs()[0].detach().numpy()


def test_integrated_gradients_equal_the_absolute_scores_of_the_method(subject):
    found = integrated_gradients(subject, steps=8)
    for number, row in enumerate(found):
        explained = Explainer(subject.loaded).explain(
            input_of(subject, number),
            method="integrated_gradients",
            of="probability",
            params={"steps": 8},
        )
        wanted = np.abs(explained.scores[subject.content[number]])
        np.testing.assert_allclose(row, wanted, **ROUNDED)


def test_importance_measures_of_a_batch_equal_its_singles(subject):
    for measure in (gradient, leave_one_out, lambda one: integrated_gradients(one, steps=3)):
        together = measure(subject)
        for number in range(len(subject)):
            alone = subject_of(Explainer(subject.loaded), [input_of(subject, number)], None)
            np.testing.assert_allclose(measure(alone)[0], together[number], **ROUNDED)


def test_importance_measures_are_computed_once_for_each_subject():
    subject = subject_of(reviews(), TEXTS, None)
    with count_forwards(subject.loaded.model) as runs:
        first = [gradient(subject), leave_one_out(subject), integrated_gradients(subject, steps=2)]
        made = runs.forward
        again = [gradient(subject), leave_one_out(subject), integrated_gradients(subject, steps=2)]
        assert made > 0 and runs.forward == made
        integrated_gradients(subject, steps=3)
        assert runs.forward > made
    assert all(one is other for one, other in zip(first, again, strict=True))
