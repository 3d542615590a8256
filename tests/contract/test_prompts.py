"""Prompts of language models: truncation, room for answers, greedy generation, output head at last positions."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import language_models
from tests.unit.small_tokenizers import byte_level
from tests.zoo import seeded
from whence.core.errors import TooLong
from whence.core.types import InputText
from whence.data.batches import collate
from whence.data.readout import ContinuationReadout, TokenReadout
from whence.data.tokens import EncodedInput
from whence.tracing.target import count_last_positions

PROMPT = "a gripping, beautifully acted film: the plot is well-made but thin"


@pytest.fixture(scope="module")
def short_context_explainer() -> whence.Explainer:
    """Return a model that takes less than the prompt; its tokenizer puts </s> behind every text."""
    config = hf.GPT2Config(
        vocab_size=len(byte_level()), n_embd=32, n_layer=2, n_head=4, n_positions=20, bos_token_id=0, eos_token_id=1,
        pad_token_id=2,
    )  # fmt: skip
    model = seeded(lambda: hf.GPT2LMHeadModel(config)).to(torch.float64).eval()
    return whence.load(model, tokenizer=byte_level())


def _ids() -> list[int]:
    return list(byte_level()(PROMPT)["input_ids"])[:-1]


def _probability(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.tensor([ids])).logits[0, -1].softmax(-1)


def test_explain_with_truncate_drops_tokens_at_the_beginning_of_a_long_prompt(
    short_context_explainer,
) -> None:
    with pytest.raises(TooLong, match="truncate=True"):
        short_context_explainer.explain(PROMPT, method="grad_x_input")
    found = short_context_explainer.explain(PROMPT, method="grad_x_input", truncate=True)
    kept = [_ids()[0], *_ids()[-19:]]
    assert [token.id for token in found.tokens] == kept
    own = _probability(short_context_explainer.model, kept)
    assert found.prediction.probability == pytest.approx(float(own.max()), abs=1e-12)
    assert found.source.dropped == len(_ids()) - 20
    assert f"The first {found.source.dropped} tokens did not fit" in str(found)


def test_explain_and_generate_with_truncate_leave_room_for_the_answer(
    short_context_explainer,
) -> None:
    whole = short_context_explainer.explain(
        PROMPT, answer=" film", method="grad_x_input", truncate=True
    )
    assert len(whole.tokens) == 20
    count = sum(token.segment == 1 for token in whole.tokens)
    made = short_context_explainer.generate(
        PROMPT, answer=" film", method="grad_x_input", truncate=True
    )
    assert len(made.prompt_tokens) == 20 - count
    assert made.payload["input"]["dropped"] == whole.source.dropped
    made = short_context_explainer.generate(PROMPT, 4, method="grad_x_input", truncate=True)
    assert len(made.prompt_tokens) == 16
    with pytest.raises(TooLong, match="or pass truncate=True"):
        short_context_explainer.explain(
            "a gripping, beautifully acted", answer=" film film", method="grad_x_input"
        )


def test_generate_up_to_the_context_limit_reports_a_full_context(short_context_explainer) -> None:
    prompt = "Once upon a time"
    held = short_context_explainer.loaded.max_length - len(
        short_context_explainer.trace(prompt, needs=()).batch.items[0]
    )
    full = short_context_explainer.generate(prompt, held + 5, method="grad_x_input")
    assert len(full.to_dict()["output_tokens"]) == held
    assert f"context is full after {held} tokens" in str(full)
    some = short_context_explainer.generate(prompt, held, method="grad_x_input")
    assert not some.to_dict()["full"] and "context is full" not in str(some)


def test_explain_contrast_with_truncate_gives_both_answers_the_same_prompt(
    short_context_explainer,
) -> None:
    longest = short_context_explainer.explain(
        PROMPT, answer=" film", method="grad_x_input", truncate=True
    )
    for answers in ((" film", " a"), (" a", " film")):
        both = short_context_explainer.explain(
            PROMPT, answer=answers, method="grad_x_input", truncate=True
        )
        assert both.tokens == tuple(token for token in longest.tokens if token.segment == 0)


def test_generation_loaded_from_a_file_has_the_same_read_positions(
    short_context_explainer, tmp_path
) -> None:
    made = short_context_explainer.generate("a gripping", 3, method="grad_x_input")
    again = whence.Generation.load(made.save(tmp_path / "made.json"))
    assert [one.read for one in again.explanations] == [one.read for one in made.explanations]


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "temperature": 9.0, "num_return_sequences": 3},
        {"num_beams": 4, "early_stopping": True, "length_penalty": 2.0},
        {"stop_strings": ["a"]},
        {"max_length": 8, "max_time": 1e-9},
        {"min_length": 90},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"cache_implementation": "quantized"},
        {"token_healing": True},
        {"forced_eos_token_id": 3},
    ],
)
def test_generate_is_greedy_whatever_the_generation_config(settings, recwarn) -> None:
    model = language_models.make("llama")
    model.generation_config.eos_token_id = None
    plain = whence.load(model).generate(
        {"input_ids": [language_models.ROWS[0]]}, 4, method="random"
    )
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    before = model.generation_config.to_dict()
    made = whence.load(model).generate({"input_ids": [language_models.ROWS[0]]}, 4, method="random")
    assert made.output_tokens == plain.output_tokens
    assert model.generation_config.to_dict() == before
    assert not recwarn.list


def test_generate_respects_suppressed_tokens_of_the_generation_config() -> None:
    model = language_models.make("llama")
    first = whence.load(model).generate(
        {"input_ids": [language_models.ROWS[0]]}, 1, method="random"
    )
    model.generation_config.suppress_tokens = [first.output_tokens[0].id]
    made = whence.load(model).generate({"input_ids": [language_models.ROWS[0]]}, 1, method="random")
    assert made.output_tokens != first.output_tokens


@pytest.mark.parametrize("name", language_models.CAUSAL)
def test_explain_computes_the_output_head_only_at_the_last_positions(name: str) -> None:
    explainer = whence.load(language_models.make(name))
    # The first pass is compared with the model by itself, which weighs all of it.
    explainer.explain({"input_ids": [language_models.ROWS[0]]}, method="grad_x_input")
    shapes: list[int] = []
    hook = explainer.model.get_output_embeddings().register_forward_hook(
        lambda module, given, made: shapes.append(made.shape[1])
    )
    try:
        explainer.explain({"input_ids": [language_models.ROWS[0]]}, method="grad_x_input")
        assert shapes == [1, 1]
        shapes.clear()
        # Three tokens shorter: of the longer one, four places must be there for both.
        pair = explainer.explain(
            [{"input_ids": [row]} for row in language_models.ROWS], method="grad_x_input"
        )
        assert max(shapes) == 4
    finally:
        hook.remove()
    for row, found in zip(language_models.ROWS, pair, strict=True):
        alone = explainer.explain({"input_ids": [row]}, method="grad_x_input")
        # Llama and its kin compute their norms in float32 whatever the dtype.
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)


def test_count_last_positions_covers_the_readouts_of_a_batch() -> None:
    def batch(*readings: Any) -> Any:
        items = []
        for length, reading in readings:
            features = {"input_ids": tuple(range(length))}
            items.append(EncodedInput(features, (), (), InputText(None), reading=reading))
        return collate(items, pad_id=0, device=torch.device("cpu"))

    assert count_last_positions(batch((6, TokenReadout(-1)))) == 1
    assert count_last_positions(batch((6, TokenReadout(-1)), (3, TokenReadout(-1)))) == 4
    assert count_last_positions(batch((6, ContinuationReadout((-3, -2), (1, 2))))) == 3
    assert count_last_positions(batch((6, TokenReadout(2)))) is None
    assert count_last_positions(batch((6, None))) is None


@pytest.mark.parametrize("method", ["attcat", "generic_attention", "grad_x_input"])
def test_generate_by_passage_gives_most_share_above_chance_to_the_source_passage(
    shared, method: str
) -> None:
    explainer = whence.load(shared / "models" / "stories260K")
    said = "Lily has a red ball."
    others = ("Tom was sad and he went home to sleep in his big bed.", "The sun was hot.")
    for order in permutations((said, *others)):
        prompt = " ".join(f"[[{one}]]" for one in order) + " Lily likes to play with her red"
        made = explainer.generate(prompt, 2, method=method, granularity="passage")
        assert made.text == " ball"
        passages = [piece for piece in made.pieces if piece["marked"]]
        assert [piece["text"] for piece in passages] == list(order)
        # By what is above its length, not by its length: the second is three times as long.
        best = max(passages, key=lambda piece: piece["share"] / piece["chance"])
        assert best["text"] == said


def test_generate_decodes_with_cached_keys_and_values(short_context_explainer) -> None:
    widths: list[int] = []
    hook = short_context_explainer.model.get_input_embeddings().register_forward_hook(
        lambda module, given, made: widths.append(made.shape[1])
    )
    try:
        made = short_context_explainer.generate("a gripping", 3, method="random")
    finally:
        hook.remove()
    assert widths[:3] == [len(made.prompt_tokens), 1, 1]


def test_generation_by_word_sums_scores_and_multiplies_probabilities_of_tokens(
    short_context_explainer,
) -> None:
    made = short_context_explainer.generate("a gripping", answer=" film", method="grad_x_input")
    assert len(made.outputs) > 1
    word = made.by("word")
    assert [output["text"] for output in word.outputs] == ["film"]
    np.testing.assert_allclose(word.matrix.sum(), made.matrix.sum(), rtol=1e-12)
    shares = [output["probability"] for output in made.outputs]
    assert word.outputs[0]["probability"] == pytest.approx(np.prod(shares), rel=1e-12)


def test_explain_contrast_of_answers_counts_the_passes_of_both_answers(
    short_context_explainer,
) -> None:
    answers = (" film", " a")
    both = short_context_explainer.explain("a gripping", answer=answers, method="grad_x_input")
    own = [
        short_context_explainer.explain("a gripping", answer=one, method="grad_x_input").passes
        for one in answers
    ]
    assert both.passes.forward == sum(one.forward for one in own)
    assert both.passes.backward == sum(one.backward for one in own) == 2
