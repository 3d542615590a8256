"""Prompts that are cut at their beginning, and those that a tokenizer had ended."""

import pytest

from tests.unit.tokenizers import byte_level, sentencepiece
from whence.core.errors import TooLong
from whence.data import encode
from whence.data.text.shorten import shortened, unended

TEXT = "don't watch it: the plot is well-made but thin"


def _item(tokenizer=byte_level):
    return encode(TEXT, tokenizer(), max_length=None, truncate=False)


@pytest.mark.parametrize("tokenizer", [byte_level, sentencepiece])
def test_the_end_of_a_prompt_stays(tokenizer) -> None:
    whole = _item(tokenizer)
    item = shortened(whole, len(whole) - 5)
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


def test_what_fits_is_not_cut() -> None:
    whole = _item()
    assert shortened(whole, len(whole)) is whole
    assert shortened(whole, None) is whole


def test_something_must_be_left() -> None:
    with pytest.raises(TooLong, match="No room is left"):
        shortened(_item(), 2)  # the start and the end token alone
    assert len(shortened(_item(), 3)) == 3


def test_a_prompt_goes_on_and_is_not_ended() -> None:
    whole = _item()
    assert whole.tokens[-1].text == "</s>"
    item = unended(whole)
    assert item.ids == whole.ids[:-1]
    assert item.tokens[0].text == "<s>"
    assert unended(item).ids == item.ids
