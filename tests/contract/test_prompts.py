"""Long prompts, prompts that a tokenizer ends, and models with settings of their own for generating."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
import transformers as hf

import whence
from tests import languages
from tests.unit.tokenizers import byte_level
from tests.zoo import seeded
from whence.capture.readout import tail
from whence.core.errors import TooLong
from whence.core.types import Source
from whence.data import Encoded, collate
from whence.data.reading import AtPlace, Continuation

PROMPT = "a gripping, beautifully acted film: the plot is well-made but thin"


@pytest.fixture(scope="module")
def short() -> whence.Explainer:
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


def test_a_prompt_is_not_ended_and_gives_way_at_its_beginning(short) -> None:
    with pytest.raises(TooLong, match="truncate=True"):
        short.explain(PROMPT, method="grad_x_input")
    found = short.explain(PROMPT, method="grad_x_input", truncate=True)
    kept = [_ids()[0], *_ids()[-19:]]
    assert [token.id for token in found.tokens] == kept
    own = _probability(short.model, kept)
    assert found.prediction.probability == pytest.approx(float(own.max()), abs=1e-12)
    assert found.source.dropped == len(_ids()) - 20
    assert f"The first {found.source.dropped} tokens did not fit" in str(found)


def test_there_is_room_for_an_answer(short) -> None:
    whole = short.explain(PROMPT, answer=" film", method="grad_x_input", truncate=True)
    assert len(whole.tokens) == 20
    count = sum(token.segment == 1 for token in whole.tokens)
    made = short.generate(PROMPT, answer=" film", method="grad_x_input", truncate=True)
    assert len(made.prompt_tokens) == 20 - count
    assert made.payload["input"]["dropped"] == whole.source.dropped
    made = short.generate(PROMPT, 4, method="grad_x_input", truncate=True)
    assert len(made.prompt_tokens) == 16
    with pytest.raises(TooLong, match="or pass truncate=True"):
        short.explain("a gripping, beautifully acted", answer=" film film", method="grad_x_input")


def test_an_answer_that_ends_where_the_context_does_says_so(short) -> None:
    prompt = "Once upon a time"
    held = short.loaded.max_length - len(short.trace(prompt, needs=()).batch.items[0])
    full = short.generate(prompt, held + 5, method="grad_x_input")
    assert len(full.to_dict()["output_tokens"]) == held
    assert f"context is full after {held} tokens" in str(full)
    some = short.generate(prompt, held, method="grad_x_input")
    assert not some.to_dict()["full"] and "context is full" not in str(some)


def test_both_answers_of_a_contrast_have_one_prompt(short) -> None:
    longest = short.explain(PROMPT, answer=" film", method="grad_x_input", truncate=True)
    for answers in ((" film", " a"), (" a", " film")):
        both = short.explain(PROMPT, answer=answers, method="grad_x_input", truncate=True)
        assert both.tokens == tuple(token for token in longest.tokens if token.segment == 0)


def test_a_read_back_row_says_where_the_model_was_read(short, tmp_path) -> None:
    made = short.generate("a gripping", 3, method="grad_x_input")
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
def test_the_likeliest_token_whatever_the_settings(settings, recwarn) -> None:
    model = languages.make("llama")
    model.generation_config.eos_token_id = None
    plain = whence.load(model).generate({"input_ids": [languages.ROWS[0]]}, 4, method="random")
    for name, value in settings.items():
        setattr(model.generation_config, name, value)
    before = model.generation_config.to_dict()
    made = whence.load(model).generate({"input_ids": [languages.ROWS[0]]}, 4, method="random")
    assert made.output_tokens == plain.output_tokens
    assert model.generation_config.to_dict() == before
    assert not recwarn.list


def test_what_a_model_forbids_stays_forbidden() -> None:
    model = languages.make("llama")
    first = whence.load(model).generate({"input_ids": [languages.ROWS[0]]}, 1, method="random")
    model.generation_config.suppress_tokens = [first.output_tokens[0].id]
    made = whence.load(model).generate({"input_ids": [languages.ROWS[0]]}, 1, method="random")
    assert made.output_tokens != first.output_tokens


@pytest.mark.parametrize("name", languages.CAUSAL)
def test_the_vocabulary_is_weighed_only_where_it_is_read(name: str) -> None:
    explainer = whence.load(languages.make(name))
    # The first pass is compared with the model by itself, which weighs all of it.
    explainer.explain({"input_ids": [languages.ROWS[0]]}, method="grad_x_input")
    shapes: list[int] = []
    hook = explainer.model.get_output_embeddings().register_forward_hook(
        lambda module, given, made: shapes.append(made.shape[1])
    )
    try:
        explainer.explain({"input_ids": [languages.ROWS[0]]}, method="grad_x_input")
        assert shapes == [1, 1]
        shapes.clear()
        # Three tokens shorter: of the longer one, four places must be there for both.
        pair = explainer.explain(
            [{"input_ids": [row]} for row in languages.ROWS], method="grad_x_input"
        )
        assert max(shapes) == 4
    finally:
        hook.remove()
    for row, found in zip(languages.ROWS, pair, strict=True):
        alone = explainer.explain({"input_ids": [row]}, method="grad_x_input")
        # Llama and its kin compute their norms in float32 whatever the dtype.
        np.testing.assert_allclose(found.scores, alone.scores, rtol=0, atol=1e-5)


def test_the_tail_that_is_read() -> None:
    def batch(*readings: Any) -> Any:
        items = []
        for length, reading in readings:
            features = {"input_ids": tuple(range(length))}
            items.append(Encoded(features, (), (), Source(None), reading=reading))
        return collate(items, pad_id=0, device=torch.device("cpu"))

    assert tail(batch((6, AtPlace(-1)))) == 1
    assert tail(batch((6, AtPlace(-1)), (3, AtPlace(-1)))) == 4
    assert tail(batch((6, Continuation((-3, -2), (1, 2))))) == 3
    assert tail(batch((6, AtPlace(2)))) is None
    assert tail(batch((6, None))) is None


@pytest.mark.parametrize("method", ["attcat", "generic_attention", "grad_x_input"])
def test_an_answer_comes_from_the_passage_that_has_it(shared, method: str) -> None:
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


def test_keys_and_values_are_kept_while_the_model_speaks(short) -> None:
    widths: list[int] = []
    hook = short.model.get_input_embeddings().register_forward_hook(
        lambda module, given, made: widths.append(made.shape[1])
    )
    try:
        made = short.generate("a gripping", 3, method="random")
    finally:
        hook.remove()
    assert widths[:3] == [len(made.prompt_tokens), 1, 1]


def test_a_word_of_the_answer_has_its_tokens_sums(short) -> None:
    made = short.generate("a gripping", answer=" film", method="grad_x_input")
    assert len(made.outputs) > 1
    word = made.by("word")
    assert [output["text"] for output in word.outputs] == ["film"]
    np.testing.assert_allclose(word.matrix.sum(), made.matrix.sum(), rtol=1e-12)
    shares = [output["probability"] for output in made.outputs]
    assert word.outputs[0]["probability"] == pytest.approx(np.prod(shares), rel=1e-12)


def test_a_contrast_of_answers_counts_the_passes_of_both(short) -> None:
    answers = (" film", " a")
    both = short.explain("a gripping", answer=answers, method="grad_x_input")
    own = [short.explain("a gripping", answer=one, method="grad_x_input").passes for one in answers]
    assert both.passes.forward == sum(one.forward for one in own)
    assert both.passes.backward == sum(one.backward for one in own) == 2
