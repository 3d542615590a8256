"""Prompts: truncation at the beginning, and removal of closing tokens."""

import pytest

from tests.unit.small_tokenizers import byte_level, sentencepiece
from whence.core.errors import TooLong
from whence.data.prompts import strip_closing_tokens, truncate_prompt
from whence.data.tokens import encode

TEXT = "don't watch it: the plot is well-made but thin"


def _encode_text(tokenizer=byte_level):
    return encode(TEXT, tokenizer(), max_length=None, truncate=False)


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
def test_truncate_prompt_drops_the_first_text_tokens(tokenizer) -> None:
    whole = _encode_text(tokenizer)
    item = truncate_prompt(whole, len(whole) - 5)
    first = [i for i, token in enumerate(whole.tokens) if not token.special][:5]
    kept = [i for i in range(len(whole)) if i not in first]
    assert item.ids == tuple(whole.ids[i] for i in kept)
    assert item.features["attention_mask"] == (1,) * len(kept)
    assert item.tokens == tuple(whole.tokens[i] for i in kept)
    assert item.source.dropped == 5
    assert item.source.text == TEXT
    own = [i for i, token in enumerate(item.tokens) if not token.special]
    assert [i for word in item.words for i in word.tokens] == own
    assert item.words[-1].text == "thin"


def test_truncate_prompt_returns_a_fitting_prompt_unchanged() -> None:
    whole = _encode_text()
    assert truncate_prompt(whole, len(whole)) is whole
    assert truncate_prompt(whole, None) is whole


def test_truncate_prompt_without_room_for_text_raises_too_long() -> None:
    with pytest.raises(TooLong, match="No room is left"):
        truncate_prompt(_encode_text(), 2)  # the start and the end token alone
    assert len(truncate_prompt(_encode_text(), 3)) == 3


def test_strip_closing_tokens_removes_only_the_end_token() -> None:
    whole = _encode_text()
    assert whole.tokens[-1].text == "</s>"
    item = strip_closing_tokens(whole)
    assert item.ids == whole.ids[:-1]
    assert item.tokens[0].text == "<s>"
    assert strip_closing_tokens(item).ids == item.ids
