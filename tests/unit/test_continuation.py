"""Continuations and generated texts: their tokens, offsets, labels and decoder prefix."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.unit.small_tokenizers import byte_level, sentencepiece
from whence.core.errors import EmptyText, UnknownTarget
from whence.data.prompts import (
    Vocabulary,
    append_tokens,
    decode_generated,
    encode_continuation,
    encode_decoder_text,
    find_decoder_prefix,
)
from whence.data.tokens import encode

ANSWERS = (" film", "film", "ly acted 👍🏽!", " café naïve", "42", ".", " ", "我们")


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
@pytest.mark.parametrize("answer", ANSWERS)
def test_encode_continuation_offsets_point_into_the_answer(tokenizer, answer: str) -> None:
    tokens = encode_continuation(answer, tokenizer())
    assert tokens
    assert {token.segment for token in tokens} == {1}
    for token in tokens:
        assert answer[token.start : token.end] == token.text


@pytest.mark.parametrize("answer", ANSWERS)
def test_encode_continuation_at_byte_level_equals_encoding_the_joint_text(answer: str) -> None:
    # Cut where its words are cut, so that both ways of encoding must agree.
    tokenizer, prompt = byte_level(), "a gripping"
    alone = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    both = tokenizer(prompt + answer, add_special_tokens=False)["input_ids"]
    assert [*alone, *(token.id for token in encode_continuation(answer, tokenizer))] == both


def test_encode_continuation_puts_no_space_before_the_answer() -> None:
    tokenizer = sentencepiece()
    pieces = tokenizer.convert_ids_to_tokens([t.id for t in encode_continuation("film", tokenizer)])
    assert "".join(pieces) == "film"
    spaced = tokenizer.convert_ids_to_tokens(
        [t.id for t in encode_continuation(" film", tokenizer)]
    )
    assert "".join(spaced) == "▁film"


def test_encode_continuation_of_an_empty_answer_raises_empty_text() -> None:
    with pytest.raises(EmptyText, match="answer is empty"):
        encode_continuation("", byte_level())


def test_append_tokens_keeps_the_prompt_and_adds_the_words_of_the_answer() -> None:
    tokenizer = byte_level()
    item = encode("a gripping", tokenizer, max_length=None, truncate=False, special=False)
    tokens = encode_continuation(" film 👍🏽", tokenizer)
    longer = append_tokens(item, tokens, " film 👍🏽")
    assert longer.ids == item.ids + tuple(t.id for t in tokens)
    assert longer.features["attention_mask"] == (1,) * len(longer)
    assert longer.source.pair == " film 👍🏽"
    assert [word.text for word in longer.words] == ["a", "gripping", "film", "👍🏽"]
    held = sorted(i for word in longer.words for i in word.tokens)
    assert held == list(range(len(longer)))


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
def test_decode_generated_places_every_token_in_its_text(tokenizer) -> None:
    said = " film 👍🏽 café"
    tokens = encode_continuation(said, tokenizer())
    before = tokenizer()("a", add_special_tokens=False)["input_ids"][-1]
    found, text = decode_generated([token.id for token in tokens], before, tokenizer())
    if tokenizer is byte_level:  # the other does not know the emoji
        assert text == said
    assert text is not None
    covered = {i for token in found for i in range(token.start, token.end)}
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered
    assert [token.start for token in found] == sorted(token.start for token in found)


def test_decode_generated_leaves_special_tokens_out_of_the_text() -> None:
    tokenizer = byte_level()
    ids = [t.id for t in encode_continuation(" film", tokenizer)]
    tokens, text = decode_generated([*ids, tokenizer.eos_token_id], None, tokenizer)
    assert (text, tokens[-1].text, tokens[-1].special) == (" film", "</s>", True)


def test_vocabulary_labels_are_unique_and_find_their_tokens() -> None:
    tokenizer = byte_level()
    words = Vocabulary(tokenizer, len(tokenizer))
    every = tuple(range(len(tokenizer)))
    labels = words.format_labels(every)
    assert len(set(labels)) == len(labels)
    assert all(label.isprintable() and label for label in labels)
    both = [i for i in every if tokenizer.decode([i]).strip() == "a"]
    assert len(both) == 2  # "a" and " a"
    assert set(words.find_tokens("a")) == set(both)
    assert words.find_tokens(labels[both[1]]) == [both[1]]


def test_find_tokens_of_an_unknown_or_multi_token_target_raises_unknown_target() -> None:
    with pytest.raises(UnknownTarget, match=r"tokens here.*answer="):
        Vocabulary(byte_level()).find_tokens("dromedary")
    with pytest.raises(UnknownTarget, match="no tokenizer"):
        Vocabulary(None).find_tokens("a")
    with pytest.raises(UnknownTarget, match="from 0 to 9"):
        Vocabulary(None, 10).find_tokens(10)


def test_encode_decoder_text_uses_the_target_mode_of_the_tokenizer() -> None:
    class Translator(type(byte_level())):  # type: ignore[misc]
        def _switch_to_target_mode(self) -> None:
            self._tokenizer.normalizer = normalizers.Lowercase()

        def _switch_to_input_mode(self) -> None:
            self._tokenizer.normalizer = normalizers.Sequence([])

    core = Tokenizer.from_str(byte_level().backend_tokenizer.to_str())
    tokenizer = Translator(tokenizer_object=core, eos_token="</s>")
    small, large = (
        byte_level()(t, add_special_tokens=False)["input_ids"] for t in ("film", "FILM")
    )
    assert [token.id for token in encode_decoder_text("FILM", tokenizer)] == small
    assert [token.id for token in encode_continuation("FILM", tokenizer)] == large


@pytest.mark.parametrize("single", ["$A </s>", "<s> $A </s>", "$A"])
def test_find_decoder_prefix_leaves_out_the_unknown_token(single: str) -> None:
    """The text that is tried is unknown to this vocabulary, and its unknown token is a special one."""
    core = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "film": 3}, "<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("<s>", 1), ("</s>", 2)]
    core.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    assert tokenizer(text_target="a")["input_ids"].count(0) == 1
    assert find_decoder_prefix(tokenizer) == ((1,) if single.startswith("<s>") else ())
