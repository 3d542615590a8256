"""Tokens with exact offsets and words that add up, for every kind of tokenizer and script."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests.unit.tokenizers import KINDS, TEXTS, byte_level, sentencepiece, wordpiece
from whence.core.errors import BadEncoding, EmptyText, NoTokenizer, TooLong
from whence.data import encode, from_mapping
from whence.data.text.encode import tokenized
from whence.explainer.intake import take_each


def encoded(text, kind="wordpiece"):
    return encode(text, KINDS[kind](), max_length=None, truncate=False)


def words(text, kind="wordpiece"):
    return [word.text for word in encoded(text, kind).words]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_offsets_are_exact_and_every_token_has_one_word(kind, text):
    found = encoded(text, kind)
    for token in found.tokens:
        if not token.special:
            assert token.text == text[token.start : token.end]
    members = sorted(i for word in found.words for i in word.tokens)
    assert members == [i for i, token in enumerate(found.tokens) if not token.special]
    for word in found.words:
        assert word.text == text[word.start : word.end]
        assert word.text.strip() == word.text


@settings(max_examples=150, deadline=None)
@given(text=st.text(min_size=1, max_size=40).filter(str.strip), kind=st.sampled_from(sorted(KINDS)))
def test_any_text(text, kind):
    try:
        found = encoded(text, kind)
    except (EmptyText, BadEncoding):
        return
    members = [i for word in found.words for i in word.tokens]
    content = [i for i, token in enumerate(found.tokens) if not token.special]
    assert sorted(members) == content
    starts = [word.start for word in found.words]
    assert starts == sorted(starts)
    assert len(found.features["attention_mask"]) == len(found.tokens)


def test_words_of_english():
    assert words("a gripping, beautifully acted film") == [
        "a",
        "gripping",
        ",",
        "beautifully",
        "acted",
        "film",
    ]
    assert words("I don't know") == ["I", "don't", "know"]
    assert words("the 'best' film", "byte_level") == ["the", "'", "best", "'", "film"]


def test_words_of_other_scripts():
    # Chinese and Japanese have no spaces: a word is as long as the tokens make it, never the whole sentence.
    assert "".join(words("我们爱北京", "wordpiece")) == "我们爱北京"
    assert len(words("我们爱北京", "wordpiece")) == 5
    assert len(words("我们爱北京", "sentencepiece")) > 1
    assert words("नमस्ते दुनिया", "byte_level") == ["नमस्ते", "दुनिया"]
    assert words("한국어 문장은", "byte_level") == ["한국어", "문장은"]
    assert "👨‍👩‍👧" in words("emoji 👨‍👩‍👧 family", "byte_level")


def test_repeated_words_stay_apart():
    found = encoded("good film good film")
    assert [word.text for word in found.words] == ["good", "film", "good", "film"]
    assert len({word.tokens for word in found.words}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_the_two_segments_of_a_pair_never_merge(kind):
    found = encoded(("the film", "film acted"), kind)
    assert [(w.text, w.segment) for w in found.words] == [
        ("the", 0), ("film", 0), ("film", 1), ("acted", 1),
    ]  # fmt: skip
    segments = [token.segment for token in found.tokens]
    assert segments == sorted(segments)
    assert all(
        t.segment == w.segment for w in found.words for t in (found.tokens[i] for i in w.tokens)
    )


def test_special_tokens_are_flagged_and_have_no_place():
    found = encoded("film")
    assert [token.text for token in found.tokens if token.special] == ["[CLS]", "[SEP]"]
    assert all(t.start is None for t in found.tokens if t.special)


def test_too_long_is_refused_with_the_lengths_or_cut_and_counted():
    text = "film " * 50
    with pytest.raises(TooLong, match="has 52 tokens and the model takes at most 10"):
        encode(text, wordpiece(), max_length=10, truncate=False)
    cut = encode(text, wordpiece(), max_length=10, truncate=True)
    assert len(cut) == 10
    assert cut.source.dropped == 42


@pytest.mark.parametrize("text", ["", " ", "\n\t ", ("film", " ")])
def test_empty_text(text):
    with pytest.raises(EmptyText):
        encoded(text)


def test_text_that_the_tokenizer_drops():
    with pytest.raises(EmptyText, match="only special tokens"):
        encoded("\u200b\u200b")


def test_text_that_is_no_text():
    with pytest.raises(BadEncoding, match="Unicode"):
        encoded("a \ud800 film")
    with pytest.raises(BadEncoding, match="int"):
        encode(3, wordpiece(), max_length=None, truncate=False)


def test_no_tokenizer():
    with pytest.raises(NoTokenizer, match="'input_ids'"):
        encode("film", None, max_length=None, truncate=False)


class WithoutOffsets:
    """A tokenizer that cannot say where its pieces come from, as the pure Python ones cannot."""

    is_fast = False

    def __init__(self, inner):
        self.inner = inner

    def __call__(self, text, pair, **options):
        assert not options.pop("return_offsets_mapping")
        return dict(self.inner(text, pair, **options))

    def __getattr__(self, name):
        return getattr(self.inner, name)


@pytest.mark.parametrize("make", [wordpiece, sentencepiece])
def test_tokenizer_without_offsets_is_aligned(make):
    for text in ["a gripping, beautifully acted film", ("the film", "film acted")]:
        slow = encode(text, WithoutOffsets(make()), max_length=None, truncate=False)
        fast = encode(text, make(), max_length=None, truncate=False)
        assert [(w.text, w.segment) for w in slow.words] == [
            (w.text, w.segment) for w in fast.words
        ]


def taken(given, tokenizer=None, **options):
    defaults = {"pad_ids": {0}, "max_length": None, "vocabulary": None}
    return from_mapping(given, tokenizer, **{**defaults, **options})


def test_encoded_inputs_lose_their_padding_but_not_masked_tokens():
    (found,) = taken({"input_ids": [[0, 0, 5, 6, 7, 0]], "attention_mask": [[0, 0, 0, 1, 1, 0]]})
    assert found.ids == (5, 6, 7)
    assert found.features["attention_mask"] == (0, 1, 1)


def test_encoded_inputs_of_many_rows_and_shapes():
    import numpy as np
    import torch

    for rows in ([[5, 6], [7, 8]], torch.tensor([[5, 6], [7, 8]]), np.array([[5, 6], [7, 8]])):
        assert [item.ids for item in taken({"input_ids": rows})] == [(5, 6), (7, 8)]
    assert [item.ids for item in taken({"input_ids": [5, 6]})] == [(5, 6)]


def test_encoded_inputs_with_their_tokenizer_get_their_words_back():
    tokenizer = wordpiece()
    given = tokenizer("a gripping film", return_tensors="pt")
    (found,) = taken(given, tokenizer)
    assert [word.text for word in found.words] == ["a", "gripping", "film"]
    assert found.source.text == "a gripping film"
    assert [token.special for token in found.tokens][0 :: len(found) - 1] == [True, True]


def test_an_encoded_pair_gets_its_two_texts_back():
    tokenizer = wordpiece()
    (found,) = taken(
        tokenizer("a gripping film", "beautifully acted", return_tensors="pt"), tokenizer
    )
    assert (found.source.text, found.source.pair) == ("a gripping film", "beautifully acted")
    assert [(w.text, w.segment) for w in found.words][-2:] == [("beautifully", 1), ("acted", 1)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"attention_mask": [[1]]}, "needs 'input_ids'"),
        ({"input_ids": [["a"]]}, "integers"),
        ({"input_ids": [[5, 6]], "attention_mask": [[1]]}, "must be equal"),
        ({"input_ids": [[5, 99]]}, "Token id 99"),
        ({"input_ids": [[5, -1]]}, "Token id -1"),
    ],
)
def test_encodings_that_are_none(given, message):
    with pytest.raises(BadEncoding, match=message):
        taken(given, vocabulary=64)


@pytest.mark.parametrize(
    "given", [{"input_ids": []}, {"input_ids": [[]]}, {"input_ids": [[0]], "attention_mask": [[0]]}]
)
def test_empty_encodings(given):
    with pytest.raises(EmptyText):
        taken(given)


def test_byte_level_tokens_do_not_carry_their_space():
    found = encoded("the film", "byte_level")
    assert all(not token.text.startswith(" ") for token in found.tokens)
    assert byte_level().decode(list(found.ids), skip_special_tokens=True) == "the film"


def test_unknown_and_mask_tokens_are_part_of_the_text():
    tokenizer = wordpiece()
    for text in ("a \U0001f984 film", "a [MASK] film"):
        as_text = encode(text, tokenizer, max_length=None, truncate=False)
        (as_ids,) = taken(dict(tokenizer(text)), tokenizer)
        flags = [token.special for token in as_ids.tokens]
        assert (
            flags
            == [token.special for token in as_text.tokens]
            == [True, False, False, False, True]
        )
        assert len(as_ids.words) == 3


def test_encoded_input_without_special_tokens_has_words_too():
    tokenizer = wordpiece()
    given = tokenizer("beautifully gripping", add_special_tokens=False)
    (found,) = taken(given, tokenizer)
    assert [word.text for word in found.words] == ["beautifully", "gripping"]


def test_a_tokenizer_of_bytes():
    from transformers import ByT5Tokenizer

    found = encode("café 映画 is", ByT5Tokenizer(), max_length=None, truncate=False)
    assert [(w.text, len(w.tokens)) for w in found.words] == [
        ("café", 5),
        ("映", 4),
        ("画", 3),
        ("is", 3),
    ]


def test_no_token_is_ever_lost():
    class Odd(WithoutOffsets):
        def convert_ids_to_tokens(self, ids):
            return [f"?{i}" for i in ids]

    found = encode("a film", Odd(wordpiece()), max_length=None, truncate=False)
    assert sorted(i for w in found.words for i in w.tokens) == [1, 2]


@pytest.mark.parametrize("value", [3, "abc", [[1.5]], [["x"]], None])
def test_ids_that_are_none(value):
    with pytest.raises(BadEncoding, match="rows of integers"):
        taken({"input_ids": value})


def test_ids_as_a_list_of_tensors():
    import torch

    found = taken({"input_ids": [torch.tensor([5, 6]), torch.tensor([7, 8])]})
    assert [item.ids for item in found] == [(5, 6), (7, 8)]


@pytest.mark.parametrize("kind", KINDS)
def test_several_texts_at_once_are_what_each_is_alone(kind):
    tokenizer = KINDS[kind]()
    how = {"max_length": 6, "truncate": True}  # some are too long for that, and some are not
    for inputs in (list(TEXTS), [(text, "and another") for text in TEXTS]):
        ready = tokenized(inputs, tokenizer)
        assert all(one is not None for one in ready) == bool(tokenizer.is_fast)
        for one, known in zip(inputs, ready, strict=True):
            assert encode(one, tokenizer, encoded=known, **how) == encode(one, tokenizer, **how)


@pytest.mark.parametrize("other", ["a \ud800 surrogate", ("a", "pair"), 3])
def test_what_cannot_be_tokenized_together_is_left_to_be_done_alone(other):
    assert tokenized(["a film", other], wordpiece()) == [None, None]


def test_an_input_that_cannot_be_taken_keeps_no_other_from_it():
    loaded, refused = whence.load("reviews").loaded, {}
    given = ["a good film", "", "a bad film", "\ud800", 3]
    found = dict(take_each(given, loaded, truncate=False, refuse=refused.__setitem__))
    assert list(found) == [0, 2]
    assert [type(refused[number]) for number in (1, 3, 4)] == [EmptyText, BadEncoding, BadEncoding]
    (alone,) = dict(take_each(given[2:3], loaded, truncate=False)).values()
    assert found[2] == alone
    with pytest.raises(EmptyText):
        list(take_each(given, loaded, truncate=False))
