"""Generation on several architectures: next tokens, contrasts, rows of generated answers, passes, restoration."""

from typing import Any

import numpy as np
import pytest
import torch

import whence
from tests import language_models
from tests.contract.state import assert_unchanged, snapshot
from whence.core.errors import WhenceError
from whence.data.readout import REST_LABEL
from whence.tracing.ask import count_forwards

ALL = (*language_models.CAUSAL, *language_models.SEQUENCE)
# Llama and its kin compute their norms in float32 whatever the dtype, in whatever batch.
EXACT = {"gpt2": 1e-12, "t5": 1e-5, "bart": 1e-12}


def _build_input(name: str, row: int = 0) -> dict[str, list[list[int]]]:
    end = [3] if name in language_models.SEQUENCE else []
    return {"input_ids": [[*language_models.ROWS[row], *end]]}


def _own_logits(model: Any, given: Any, decoder: list[int]) -> torch.Tensor:
    """Return what the model says at its end, run plainly."""
    more = {"decoder_input_ids": torch.tensor([decoder])} if decoder else {}
    with torch.no_grad():
        return model(input_ids=torch.tensor(given["input_ids"]), **more).logits[0, -1]


def _list_decoder_start(model: Any) -> list[int]:
    return [model.config.decoder_start_token_id] if model.config.is_encoder_decoder else []


@pytest.fixture(scope="module", params=ALL)
def case(request) -> tuple[str, whence.Explainer]:
    """Return each architecture's explainer."""
    return request.param, whence.load(language_models.make(request.param))


def test_explain_of_the_next_token_has_the_models_own_probabilities(case) -> None:
    name, explainer = case
    found = explainer.explain(_build_input(name), method="grad_x_input")
    own = _own_logits(
        explainer.model, _build_input(name), _list_decoder_start(explainer.model)
    ).softmax(-1)
    said = found.prediction
    assert said.label == str(int(own.argmax()))
    assert found.target.label == said.label
    assert len(said.probabilities) == 21
    assert list(said.probabilities)[-1] == REST_LABEL
    for label, share in said.probabilities.items():
        if label != REST_LABEL:
            # Softmax over the named and the logsumexp of the rest is softmax over all, up to rounding of the dtype.
            assert share == pytest.approx(float(own[int(label)]), abs=1e-12)
    assert sum(said.probabilities.values()) == pytest.approx(1, abs=1e-12)


def test_explain_contrast_of_two_token_ids_equals_the_difference_of_their_scores(case) -> None:
    name, explainer = case
    one, other = (
        explainer.explain(_build_input(name), method="grad_x_input", target=i) for i in (7, 30)
    )
    both = explainer.explain(_build_input(name), method="grad_x_input", target=(7, 30))
    assert (one.target.label, str(both.target)) == ("7", "7 rather than 30")
    # A gradient is linear in what is explained.
    np.testing.assert_allclose(
        both.scores, one.scores - other.scores, rtol=0, atol=EXACT.get(name, 1e-5)
    )


def _compute_grad_x_input(
    model: Any, ids: list[int], decoder: list[int], target: int
) -> np.ndarray[Any, Any]:
    """Return gradient times input of one token's logit: by autograd alone, at the embeddings."""
    table = model.get_input_embeddings()
    source = table(torch.tensor([ids])).detach().requires_grad_()
    if not decoder:
        model(inputs_embeds=source).logits[0, -1, target].backward()
        return (source * source.grad).sum(-1)[0].detach().numpy()
    said = model.get_decoder().embed_tokens(torch.tensor([decoder])).detach().requires_grad_()
    out = model(inputs_embeds=source, decoder_inputs_embeds=said)
    out.logits[0, -1, target].backward()
    both = torch.cat([source * source.grad, said * said.grad], dim=1)
    return both.sum(-1)[0].detach().numpy()


def test_generation_rows_equal_grad_x_input_of_each_prefix_by_autograd(case) -> None:
    name, explainer = case
    model = explainer.model
    made = explainer.generate(_build_input(name), 5, method="grad_x_input")
    ids, said = _build_input(name)["input_ids"][0], [token.id for token in made.output_tokens]
    base = len(made.prompt_tokens)
    assert made.matrix.shape == (len(said), base)
    for k, token in enumerate(said):
        decoder = [*_list_decoder_start(model), *said[:k]] if _list_decoder_start(model) else []
        prefix = ids if decoder else [*ids, *said[:k]]
        slow = _compute_grad_x_input(model, prefix, decoder, token)
        bound = EXACT.get(name, 1e-5)
        np.testing.assert_allclose(made.explanations[k].scores, slow, rtol=0, atol=bound)
        np.testing.assert_array_equal(made.matrix[k], made.explanations[k].scores[:base])
        np.testing.assert_array_equal(made.earlier[k, :k], made.explanations[k].scores[base:])
        assert not made.earlier[k, k:].any()
        own = _own_logits(model, {"input_ids": [prefix]}, decoder)
        assert int(own.argmax()) == token  # greedy, with keys and values kept or without
        assert made.outputs[k]["probability"] == pytest.approx(
            float(own.softmax(-1)[token]), abs=1e-6
        )
    np.testing.assert_allclose(made.total, made.matrix.sum(0))


def test_generate_with_large_batches_equals_batch_size_one(case) -> None:
    name, explainer = case
    both = [
        explainer.generate(_build_input(name), 4, method="grad_x_input", batch_size=size).matrix
        for size in (1, 64)
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=0, atol=EXACT.get(name, 1e-5))


def test_generate_explains_each_token_with_one_forward_and_one_backward_pass(case) -> None:
    name, explainer = case
    explainer.generate(
        _build_input(name), 4, method="grad_x_input"
    )  # finds out once what may share a batch
    with count_forwards(explainer.model) as runs:
        made = explainer.generate(_build_input(name), 4, method="grad_x_input")
    assert made.payload["passes"] == {"decode": 4, "forward": 4, "backward": 4}
    assert runs.forward == 8


@pytest.mark.parametrize("fails", [False, True])
def test_generate_leaves_the_model_unchanged_also_after_a_failure(
    case, fails: bool, monkeypatch
) -> None:
    name, explainer = case
    model = explainer.model
    model.train()
    before, config = snapshot(model), model.generation_config.to_dict()
    if fails:

        def refuse(*_: Any, **__: Any) -> None:
            raise RuntimeError("in between")

        with monkeypatch.context() as patched, pytest.raises(RuntimeError, match="in between"):
            patched.setattr(type(model), "_sample", refuse)
            explainer.generate(_build_input(name), 3, method="grad_x_input")
    else:
        explainer.generate(_build_input(name), 3, method="grad_x_input")
    assert_unchanged(before, snapshot(model))
    assert model.generation_config.to_dict() == config
    model.eval()


def test_generate_with_an_immediate_end_token_has_one_output_token(case) -> None:
    name, explainer = case
    first = explainer.generate(_build_input(name), 1, method="grad_x_input").output_tokens[0].id
    kept = explainer.model.generation_config.eos_token_id
    explainer.model.generation_config.eos_token_id = first
    try:
        made = explainer.generate(_build_input(name), 6, method="grad_x_input")
    finally:
        explainer.model.generation_config.eos_token_id = kept
    assert [token.id for token in made.output_tokens] == [first]
    assert made.matrix.shape[0] == 1
    str(made)


@pytest.mark.parametrize("name", language_models.CAUSAL)
def test_generate_near_the_context_limit_is_cut_and_at_the_limit_raises(name: str) -> None:
    explainer = whence.load(language_models.make(name))
    longest = explainer.loaded.max_length
    assert longest == 48
    made = explainer.generate({"input_ids": [[5] * 46]}, 9, method="grad_x_input")
    assert len(made.output_tokens) <= 2
    with pytest.raises(WhenceError, match="no room for an answer"):
        explainer.generate({"input_ids": [[5] * 48]}, 9, method="grad_x_input")


def test_generate_with_contrast_explains_the_best_token_against_the_runner_up(case) -> None:
    name, explainer = case
    made = explainer.generate(_build_input(name), 2, method="grad_x_input", contrast=True)
    one = made.explanations[0]
    best, second = (
        _own_logits(explainer.model, _build_input(name), _list_decoder_start(explainer.model))
        .topk(2)[1]
        .tolist()
    )
    assert str(one.target) == f"{best} rather than {second}"
    again = explainer.explain(_build_input(name), method="grad_x_input", target=(best, second))
    np.testing.assert_allclose(one.scores, again.scores, rtol=0, atol=EXACT.get(name, 1e-5))
