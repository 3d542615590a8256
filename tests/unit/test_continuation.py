"""Tokens of what follows a text, and of what a model said."""

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from tests.unit.tokenizers import byte_level, sentencepiece
from whence.core.errors import EmptyText, UnknownTarget
from whence.data import encode
from whence.data.text.continuation import continuation, grown, led_by, opening
from whence.data.text.spoken import spoken
from whence.data.text.vocabulary import Vocabulary

ANSWERS = (" film", "film", "ly acted 👍🏽!", " café naïve", "42", ".", " ", "我们")


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
@pytest.mark.parametrize("answer", ANSWERS)
def test_offsets_are_the_answers_own(tokenizer, answer: str) -> None:
    tokens = continuation(answer, tokenizer())
    assert tokens
    assert {token.segment for token in tokens} == {1}
    for token in tokens:
        assert answer[token.start : token.end] == token.text


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_byte_level_continuation_is_what_the_joint_text_has(answer: str) -> None:
    # Cut where its words are cut, so that both ways of encoding must agree.
    tokenizer, prompt = byte_level(), "a gripping"
    alone = tokenizer(prompt, add_special_tokens=False)["input_ids"]
    both = tokenizer(prompt + answer, add_special_tokens=False)["input_ids"]
    assert [*alone, *(token.id for token in continuation(answer, tokenizer))] == both


def test_no_space_is_put_before_a_continuation() -> None:
    tokenizer = sentencepiece()
    pieces = tokenizer.convert_ids_to_tokens([t.id for t in continuation("film", tokenizer)])
    assert "".join(pieces) == "film"
    spaced = tokenizer.convert_ids_to_tokens([t.id for t in continuation(" film", tokenizer)])
    assert "".join(spaced) == "▁film"


def test_an_empty_answer_is_refused() -> None:
    with pytest.raises(EmptyText, match="answer is empty"):
        continuation("", byte_level())


def test_growing_keeps_the_prompt() -> None:
    tokenizer = byte_level()
    item = encode("a gripping", tokenizer, max_length=None, truncate=False, special=False)
    tokens = continuation(" film 👍🏽", tokenizer)
    longer = grown(item, tokens, " film 👍🏽")
    assert longer.ids == item.ids + tuple(t.id for t in tokens)
    assert longer.features["attention_mask"] == (1,) * len(longer)
    assert longer.source.pair == " film 👍🏽"
    assert [word.text for word in longer.words] == ["a", "gripping", "film", "👍🏽"]
    held = sorted(i for word in longer.words for i in word.tokens)
    assert held == list(range(len(longer)))


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
def test_what_was_said_is_placed_in_its_text(tokenizer) -> None:
    said = " film 👍🏽 café"
    tokens = continuation(said, tokenizer())
    before = tokenizer()("a", add_special_tokens=False)["input_ids"][-1]
    found, text = spoken([token.id for token in tokens], before, tokenizer())
    if tokenizer is byte_level:  # the other does not know the emoji
        assert text == said
    assert text is not None
    covered = {i for token in found for i in range(token.start, token.end)}
    assert {i for i, c in enumerate(text) if not c.isspace()} <= covered
    assert [token.start for token in found] == sorted(token.start for token in found)


def test_special_tokens_are_no_part_of_what_was_said() -> None:
    tokenizer = byte_level()
    ids = [t.id for t in continuation(" film", tokenizer)]
    tokens, text = spoken([*ids, tokenizer.eos_token_id], None, tokenizer)
    assert (text, tokens[-1].text, tokens[-1].special) == (" film", "</s>", True)


def test_labels_are_unique_and_lead_back() -> None:
    tokenizer = byte_level()
    words = Vocabulary(tokenizer, len(tokenizer))
    every = tuple(range(len(tokenizer)))
    labels = words.labels(every)
    assert len(set(labels)) == len(labels)
    assert all(label.isprintable() and label for label in labels)
    both = [i for i in every if tokenizer.decode([i]).strip() == "a"]
    assert len(both) == 2  # "a" and " a"
    assert set(words.tokens("a")) == set(both)
    assert words.tokens(labels[both[1]]) == [both[1]]


def test_a_target_of_several_tokens_names_them() -> None:
    with pytest.raises(UnknownTarget, match=r"tokens here.*answer="):
        Vocabulary(byte_level()).tokens("dromedary")
    with pytest.raises(UnknownTarget, match="no tokenizer"):
        Vocabulary(None).tokens("a")
    with pytest.raises(UnknownTarget, match="from 0 to 9"):
        Vocabulary(None, 10).tokens(10)


def test_what_a_decoder_says_is_encoded_as_a_target() -> None:
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
    assert [token.id for token in opening("FILM", tokenizer)] == small
    assert [token.id for token in continuation("FILM", tokenizer)] == large


@pytest.mark.parametrize("single", ["$A </s>", "<s> $A </s>", "$A"])
def test_what_stands_before_an_answer_is_no_unknown_word(single: str) -> None:
    """The text that is tried is unknown to this vocabulary, and its unknown token is a special one."""
    core = Tokenizer(models.WordLevel({"<unk>": 0, "<s>": 1, "</s>": 2, "film": 3}, "<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    special = [("<s>", 1), ("</s>", 2)]
    core.post_processor = processors.TemplateProcessing(single=single, special_tokens=special)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    assert tokenizer(text_target="a")["input_ids"].count(0) == 1
    assert led_by(tokenizer) == ((1,) if single.startswith("<s>") else ())
