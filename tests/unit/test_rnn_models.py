"""Attentive models (models.rnn, Jain & Wallace): logits, padding, loss, initial weights, saving, tokenizer."""

from itertools import product

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification

import whence
from tests.reference import plain_attentive
from whence.core.errors import BadEncoding, BadParameter, NotCapturable, UnknownModel
from whence.explain.examine import FallbackWarning
from whence.models.fingerprint import compute_fingerprint
from whence.models.rnn import (
    AttentiveConfig,
    AttentiveForSequenceClassification,
    build_word_tokenizer,
    initialise_model,
)

PARTS = list(
    product(["bilstm", "cnn", "average"], ["tanh", "dot", "uniform"], [False, True], [2, 3])
)
every_model = pytest.mark.parametrize(("encoder", "attention", "query", "labels"), PARTS)
# float64, sums of a few dozen terms of about 1.
EXACT = {"rtol": 0, "atol": 1e-13}

# Two texts in each input: what is attended to, and the query. Ids 2 and 3 are special.
TEXTS = [
    ([2, 5, 9, 4, 7, 3], [2, 6, 3]),
    ([2, 8, 3], [2, 11, 10, 9, 3]),
    ([2, 4, 4, 9, 7, 10, 6, 11, 3], [2, 5, 5, 3]),
]


def make_model(encoder="bilstm", attention="tanh", query=False, labels=2, **others):
    config = AttentiveConfig(
        vocab_size=12,
        embedding_size=5,
        hidden_size=6,
        kernels=(1, 3),
        encoder=encoder,
        attention=attention,
        query=query,
        num_labels=labels,
        **others,
    )
    # Twice as large as they start: nothing is nearly linear then.
    model = initialise_model(config, 7).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight *= 2
    return model


def batch(model, texts=TEXTS, left=0, right=0):
    """Return the inputs as tensors, padded to the longest and by so much more on either side."""
    rows = [
        (p + q, [0] * len(p) + [1] * len(q)) if model.config.query else (p, [0] * len(p))
        for p, q in texts
    ]
    width = max(len(ids) for ids, _ in rows)

    def padded(values):
        return [0] * left + values + [0] * (width - len(values) + right)

    return {
        "input_ids": torch.tensor([padded(ids) for ids, _ in rows]),
        "attention_mask": torch.tensor([padded([1] * len(ids)) for ids, _ in rows]),
        "token_type_ids": torch.tensor([padded(types) for _, types in rows]),
    }


def compute_logits(model, inputs):
    with torch.no_grad():
        return model(**inputs).logits.numpy()


def weights_of(model, texts=TEXTS):
    """Return the attention weights, (inputs, tokens)."""
    rows = [{name: one[None] for name, one in row.items()} for row in singles(model, texts)]
    traces = [whence.load(model).trace(row) for row in rows]
    return [trace.read_layers[0].map()[0, 0, 0].numpy() for trace in traces]


def singles(model, texts=TEXTS):
    return [{k: v[0] for k, v in batch(model, [text]).items()} for text in texts]


@every_model
def test_attentive_model_logits_and_weights_equal_the_written_out_formulas(
    encoder, attention, query, labels
):
    model = make_model(encoder, attention, query, labels)
    numbers = {name: value.numpy() for name, value in model.state_dict().items()}
    found, shares = compute_logits(model, batch(model)), weights_of(model)
    for (p, q), own, weights in zip(TEXTS, found, shares, strict=True):
        wanted, attended = plain_attentive.logits(numbers, model.config, p, q if query else None)
        np.testing.assert_allclose(own, wanted, **EXACT)
        expected = [attended.get(place, 0) for place in range(len(weights))]
        np.testing.assert_allclose(weights, expected, **EXACT)
        # Special tokens and the query are not attended to: not little, but not at all.
        assert (weights[[place not in attended for place in range(len(weights))]] == 0).all()


@every_model
def test_attentive_model_logits_do_not_depend_on_padding_or_batch(
    encoder, attention, query, labels
):
    model = make_model(encoder, attention, query, labels)
    with torch.no_grad():
        model.embeddings.weight[0] = 5  # and not because padding happens to be zero
    alone = np.concatenate([compute_logits(model, batch(model, [text])) for text in TEXTS])
    for sides in ({}, {"right": 4}, {"left": 3, "right": 1}):
        np.testing.assert_allclose(compute_logits(model, batch(model, **sides)), alone, **EXACT)
    unmasked = {k: v for k, v in batch(model).items() if k != "attention_mask"}
    np.testing.assert_allclose(compute_logits(model, unmasked), alone, **EXACT)


@every_model
def test_attentive_model_with_a_masked_token_equals_the_text_without_the_token(
    encoder, attention, query, labels
):
    model = make_model(encoder, attention, query, labels)
    inputs = batch(model, TEXTS[2:])
    inputs["attention_mask"][0, 4] = 0
    shorter = {name: torch.cat([v[:, :4], v[:, 5:]], 1) for name, v in inputs.items()}
    np.testing.assert_allclose(
        compute_logits(model, inputs), compute_logits(model, shorter), **EXACT
    )


@every_model
def test_attentive_model_without_content_tokens_decodes_a_zero_context(
    encoder, attention, query, labels
):
    """Without content all weights are zero, and so is the mean; without a query its summary is."""
    model = make_model(encoder, attention, query, labels)
    inputs = batch(model, [([2, 3], [])])
    mean = torch.zeros(1, model.config.width).double()
    summary = torch.zeros(1, model.config.width).double() if query else None
    wanted = model.decoder(mean, summary).detach()
    if wanted.shape[1] == 1:
        wanted = torch.cat([-wanted / 2, wanted / 2], dim=1)
    np.testing.assert_allclose(compute_logits(model, inputs), wanted.numpy(), **EXACT)


def test_attentive_model_with_two_labels_has_one_output_and_opposite_logits():
    model = make_model()
    logits = compute_logits(model, batch(model))
    assert model.decoder.output.out_features == 1
    assert (logits[:, 0] == -logits[:, 1]).all()


@pytest.mark.parametrize(
    ("labels", "problem", "task", "outputs"),
    [
        (2, None, "single_label", 1),
        (2, "single_label_classification", "single_label", 1),
        (2, "multi_label_classification", "multi_label", 2),
        (1, "regression", "regression", 1),
        (4, None, "single_label", 4),
    ],
)
def test_attentive_model_has_the_task_and_outputs_of_its_problem_type(
    labels, problem, task, outputs
):
    model = make_model(labels=labels, problem_type=problem)
    loaded = whence.load(model).loaded
    assert (loaded.task, len(loaded.labels)) == (task, labels)
    assert model.decoder.output.out_features == outputs
    assert compute_logits(model, batch(model)).shape == (3, labels)


def test_attentive_model_loss_is_cross_entropy_or_squared_error_by_task():
    inputs = batch(make_model())
    one = make_model()(**inputs, labels=torch.tensor([0, 1, 1]))
    z = one.logits[:, 1] - one.logits[:, 0]
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(
        z, torch.tensor([0.0, 1, 1]).double()
    )
    torch.testing.assert_close(one.loss, wanted)
    several = make_model(problem_type="multi_label_classification")
    marks = torch.tensor([[0, 1], [1, 1], [0, 0]])
    found = several(**inputs, labels=marks)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(found.logits, marks.double())
    torch.testing.assert_close(found.loss, wanted)
    value = make_model(labels=1)(**inputs, labels=torch.tensor([0.5, 1.0, 2.0]))
    wanted = (value.logits[:, 0] - torch.tensor([0.5, 1.0, 2.0])).square().mean()
    torch.testing.assert_close(value.loss, wanted)


def test_answers_in_passage_rules_out_labels_absent_from_the_passage():
    # Of the words 5, 6 and 11 the three passages have 5; none; 6 and 11. In a query they do not count.
    model = make_model(query=True, labels=3, answers_in_passage=True, answer_ids=[5, 6, 11])
    found = compute_logits(model, batch(model))
    free = make_model(query=True, labels=3)
    free.load_state_dict(model.state_dict())
    possible = np.array([[True, False, False], [False, False, False], [False, True, True]])
    assert (found[~possible] == -1e9).all()
    np.testing.assert_allclose(
        found[possible], compute_logits(free, batch(free))[possible], **EXACT
    )
    explained = whence.load(model).explain(singles(model)[0], method="grad_x_input")
    assert explained.target.index == 0
    assert np.isfinite(explained.scores).all()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"encoder": "gru"}, "encoder must be one of bilstm, cnn, average. Got 'gru'"),
        ({"attention": "cosine"}, "attention must be one of tanh, dot, uniform. Got 'cosine'"),
        ({"vocab_size": 0}, "vocab_size must be a whole number from 1. Got 0"),
        ({"hidden_size": 2.5}, "hidden_size must be a whole number from 1. Got 2.5"),
        ({"embedding_size": True}, "embedding_size must be a whole number from 1. Got True"),
        ({"kernels": [3, 4]}, "kernels must be odd"),
        ({"encoder": "cnn", "kernels": []}, "kernels must be some widths"),
        ({"encoder": "cnn", "hidden_size": 3}, "at most hidden_size=3 of them"),
        ({"encoder": "average", "hidden_size": 1}, "needs states of two features at least"),
        ({"answers_in_passage": True}, "answer_ids, the token id of each of the 2 labels"),
    ],
)
def test_attentive_config_with_a_bad_value_raises_and_names_the_allowed_values(wrong, said):
    with pytest.raises(BadParameter, match=said):
        AttentiveConfig(**wrong)


def test_initialise_model_depends_on_its_seed_alone():
    config = make_model("cnn", query=True).config
    torch.manual_seed(1)
    before = torch.get_rng_state()
    one = initialise_model(config, 3).state_dict()
    assert (torch.get_rng_state() == before).all()
    torch.manual_seed(2)
    two, other = initialise_model(config, 3).state_dict(), initialise_model(config, 4).state_dict()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not any(torch.equal(one[name], other[name]) for name in one)
    # No two weights of one shape are drawn alike either.
    assert not torch.equal(one["encoders.0.filters.1.weight"], one["encoders.1.filters.1.weight"])


@pytest.mark.parametrize("encoder", ["bilstm", "cnn", "average"])
def test_initialise_model_draws_weights_with_the_deviation_and_bounds_of_pytorch(encoder):
    """The same bounds, and the same deviation to a tenth: of 400 even draws it is known to 3%."""
    config = AttentiveConfig(vocab_size=200, embedding_size=40, hidden_size=40, encoder=encoder)
    own, theirs = initialise_model(config, 0), AttentiveForSequenceClassification(config)
    assert (own.embeddings.weight[0] == 0).all()
    for (name, one), other in zip(own.named_parameters(), theirs.parameters(), strict=True):
        if one.numel() < 400:
            continue
        assert one.std().item() == pytest.approx(other.std().item(), rel=0.1), name
        if name != "embeddings.weight":
            largest = one.abs().max().item()
            assert largest == pytest.approx(other.abs().max().item(), rel=0.02), name
    assert own.embeddings.weight.std().item() == pytest.approx(1, rel=0.05)


def test_initialise_model_copies_given_vectors_and_refuses_a_bad_shape_or_nan():
    config = make_model().config
    vectors = np.arange(60.0).reshape(12, 5)
    model = initialise_model(config, 0, vectors)
    assert (model.embeddings.weight[0] == 0).all()
    np.testing.assert_array_equal(model.embeddings.weight[1:].detach().numpy(), vectors[1:])
    np.testing.assert_array_equal(vectors[0], np.arange(5.0))  # the caller's own are as they were
    for wrong in (vectors[1:], vectors + np.nan):
        with pytest.raises(BadParameter, match=r"finite numbers of shape \(12, 5\)"):
            initialise_model(config, 0, wrong)


@every_model
def test_saved_attentive_model_loads_with_equal_weights_and_nearly_equal_predictions(
    encoder, attention, query, labels, tmp_path
):
    names = {0: "no", 1: "yes", 2: "maybe"}
    config = AttentiveConfig(
        vocab_size=12,
        embedding_size=5,
        hidden_size=6,
        kernels=(1, 3),
        encoder=encoder,
        attention=attention,
        query=query,
        id2label={i: names[i] for i in range(labels)},
        training={"epochs": 8, "rate": 1e-3, "parts": ["a", None, {"b": True}]},
    )
    model = initialise_model(config, 0)
    tokenizer = build_word_tokenizer(["one two three four five six seven eight"])
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    explainer = whence.load(tmp_path)
    loaded = explainer.loaded
    assert type(loaded.model) is AttentiveForSequenceClassification
    saved, back = model.state_dict(), loaded.model.state_dict()
    assert saved.keys() == back.keys()
    assert all(torch.equal(saved[name], back[name]) for name in saved)
    assert loaded.model.config.training == config.training
    assert compute_fingerprint(loaded.model) == compute_fingerprint(model)
    assert loaded.labels == tuple(names[i] for i in range(labels))
    assert (loaded.pad_id, dict(loaded.fillers)) == (0, {"pad": 0, "unk": 1})
    assert loaded.needs_pair == query
    text = ("one two nine", "four") if query else "one two nine"
    own = whence.load(model, tokenizer=tokenizer).predict(text)
    # Weights in a file lie at other offsets than in memory, and float32 has 7 digits: 20 roundings of 6e-8.
    found = explainer.predict(text)
    assert found.label == own.label
    assert found.probabilities == pytest.approx(own.probabilities, rel=1.2e-6, abs=1.2e-6)
    assert found.logits == pytest.approx(own.logits, rel=1.2e-6, abs=1.2e-6)
    again = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert all(torch.equal(saved[name], value) for name, value in again.state_dict().items())


def test_load_of_a_folder_with_a_bad_encoder_name_raises_unknown_model(tmp_path):
    make_model().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(path.read_text().replace('"bilstm"', '"gru"'))
    with pytest.raises(UnknownModel, match="encoder must be one of bilstm, cnn, average"):
        whence.load(tmp_path)


def test_build_word_tokenizer_numbers_words_by_frequency_then_alphabet():
    texts = ["b a b", "c a b\tD", "d"]
    tokenizer = build_word_tokenizer(texts)
    special = {"<PAD>": 0, "<UNK>": 1, "<SOS>": 2, "<EOS>": 3}
    # b three times, a twice, and D, c, d once each: by the alphabet.
    assert tokenizer.get_vocab() == {**special, "b": 4, "a": 5, "D": 6, "c": 7, "d": 8}
    assert build_word_tokenizer(texts, min_df=2).get_vocab() == {**special, "b": 4, "a": 5}
    assert build_word_tokenizer(texts, max_words=1).get_vocab() == {**special, "b": 4}
    lower = build_word_tokenizer(texts, lowercase=True)
    assert lower.get_vocab() == {**special, "b": 4, "a": 5, "d": 6, "c": 7}
    assert lower("D")["input_ids"] == [2, 6, 3]
    with pytest.raises(BadParameter, match="min_df=5"):
        build_word_tokenizer(texts, min_df=5)


def test_word_tokenizer_frames_each_text_with_start_and_end_tokens():
    tokenizer = build_word_tokenizer(["b a b", "it's a"])
    one = tokenizer("a unknown  it's")
    assert one["input_ids"] == [2, 4, 1, 6, 3]
    pair = tokenizer("a b", "b")
    assert pair["input_ids"] == [2, 4, 5, 3, 2, 5, 3]
    assert pair["token_type_ids"] == [0, 0, 0, 0, 1, 1, 1]
    explainer = whence.load(make_model(), tokenizer=tokenizer)
    found = explainer.explain("a unknown  it's", method="raw_attention")
    assert [token.text for token in found.tokens] == ["<SOS>", "a", "unknown", "it's", "<EOS>"]
    assert [token.special for token in found.tokens] == [True, False, False, False, True]
    assert found.scores[0] == found.scores[-1] == 0
    assert found.scores.sum() == pytest.approx(1, abs=1e-12)


def test_attentive_model_with_query_refuses_single_texts_and_without_query_refuses_pairs():
    tokenizer = build_word_tokenizer(["one two three four five six seven eight"])
    explainer = whence.load(make_model(query=True), tokenizer=tokenizer)
    found = explainer.explain(("one two", "three"), method="raw_attention")
    assert found.scores.nonzero()[0].tolist() == [1, 2]
    for alone in ("one two", {"input_ids": [2, 4, 5, 3]}):
        with pytest.raises(BadEncoding, match="takes a pair of texts and got a single one"):
            explainer.predict(alone)
    single = whence.load(make_model(), tokenizer=tokenizer)
    assert single.predict("one two").label
    pair = {"input_ids": [2, 4, 3, 2, 5, 3], "token_type_ids": [0, 0, 0, 1, 1, 1]}
    for both in (("one two", "three"), pair):
        with pytest.raises(BadEncoding, match="takes a single text and got a pair"):
            single.predict(both)
    with pytest.raises(BadEncoding, match="no token_type_ids to tell them apart"):
        explainer.model(torch.tensor([[2, 4, 5, 3]]))


@pytest.mark.parametrize("query", [False, True])
@pytest.mark.parametrize("words", [None, "one two three four five six seven eight"])
def test_examine_of_an_attentive_model_lists_working_and_refused_methods(query, words):
    tokenizer = words and build_word_tokenizer([words])
    report = whence.load(make_model(query=query), tokenizer=tokenizer).examine()
    worked = {one["method"] for one in report["methods"] if one["works"]}
    assert worked >= {
        "raw_attention",
        "attention_gradient",
        "grad_x_input",
        "leave_one_out",
        "lime",
    }
    refused = [one["why_not"] for one in report["methods"] if not one["works"]]
    assert all("pools its tokens" in why or "has no rule for" in why for why in refused)
    assert not any(
        "does not work on this model" in why for why in refused
    )  # the name stands beside


def test_unsupported_method_raises_not_capturable_and_the_default_falls_back():
    explainer = whence.load(make_model(), tokenizer=build_word_tokenizer(["one two three"]))
    with pytest.warns(FallbackWarning, match="the default method, does not work on this model"):
        assert explainer.explain("one two").method == "grad_x_input"
    for call in (explainer.explain, explainer.trust):
        with pytest.raises(
            NotCapturable,
            match=r"^attcat, the default method, does not work on this model\..*--method grad_x_input",
        ):
            call("one two", method="attcat")
        with pytest.raises(NotCapturable, match=r"^rollout does not work on this model\."):
            call("one two", method=["grad_x_input", "rollout", "raw_attention"])
        call("one two", method="grad_x_input")
