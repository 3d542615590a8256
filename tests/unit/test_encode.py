"""Encoding of texts, pairs and given ids: exact offsets and words for all tokenizers and scripts, and refusals."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whence
from tests.unit.small_tokenizers import KINDS, TEXTS, byte_level, sentencepiece, wordpiece
from whence.core.errors import BadEncoding, EmptyText, NoTokenizer, TooLong
from whence.data.tokens import encode, from_mapping, tokenize_batch
from whence.explain.inputs import encode_each


def encoded(text, kind="wordpiece"):
    return encode(text, KINDS[kind](), max_length=None, truncate=False)


def words(text, kind="wordpiece"):
    return [word.text for word in encoded(text, kind).words]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", TEXTS)
def test_encode_gives_exact_offsets_and_one_word_for_every_token(kind, text):
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
def test_encode_of_any_text_puts_every_content_token_in_one_word(text, kind):
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


def test_encode_cuts_english_into_words_and_punctuation():
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


def test_encode_finds_words_in_chinese_hindi_korean_and_emoji():
    # Chinese and Japanese have no spaces: a word is as long as the tokens make it, never the whole sentence.
    assert "".join(words("我们爱北京", "wordpiece")) == "我们爱北京"
    assert len(words("我们爱北京", "wordpiece")) == 5
    assert len(words("我们爱北京", "sentencepiece")) > 1
    assert words("नमस्ते दुनिया", "byte_level") == ["नमस्ते", "दुनिया"]
    assert words("한국어 문장은", "byte_level") == ["한국어", "문장은"]
    assert "👨‍👩‍👧" in words("emoji 👨‍👩‍👧 family", "byte_level")


def test_encode_gives_each_repeated_word_separate_tokens():
    found = encoded("good film good film")
    assert [word.text for word in found.words] == ["good", "film", "good", "film"]
    assert len({word.tokens for word in found.words}) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_encode_of_a_pair_never_merges_words_of_its_two_segments(kind):
    found = encoded(("the film", "film acted"), kind)
    assert [(w.text, w.segment) for w in found.words] == [
        ("the", 0), ("film", 0), ("film", 1), ("acted", 1),
    ]  # fmt: skip
    segments = [token.segment for token in found.tokens]
    assert segments == sorted(segments)
    assert all(
        t.segment == w.segment for w in found.words for t in (found.tokens[i] for i in w.tokens)
    )


def test_encode_flags_special_tokens_and_gives_none_an_offset():
    found = encoded("film")
    assert [token.text for token in found.tokens if token.special] == ["[CLS]", "[SEP]"]
    assert all(t.start is None for t in found.tokens if t.special)


def test_encode_of_a_too_long_text_raises_or_truncates_and_counts():
    text = "film " * 50
    with pytest.raises(TooLong, match="has 52 tokens and the model takes at most 10"):
        encode(text, wordpiece(), max_length=10, truncate=False)
    cut = encode(text, wordpiece(), max_length=10, truncate=True)
    assert len(cut) == 10
    assert cut.source.dropped == 42


@pytest.mark.parametrize("text", ["", " ", "\n\t ", ("film", " ")])
def test_encode_of_blank_text_raises_empty_text(text):
    with pytest.raises(EmptyText):
        encoded(text)


def test_encode_of_text_dropped_by_the_tokenizer_raises_empty_text():
    with pytest.raises(EmptyText, match="only special tokens"):
        encoded("\u200b\u200b")


def test_encode_of_surrogates_or_numbers_raises_bad_encoding():
    with pytest.raises(BadEncoding, match="Unicode"):
        encoded("a \ud800 film")
    with pytest.raises(BadEncoding, match="int"):
        encode(3, wordpiece(), max_length=None, truncate=False)


def test_encode_without_a_tokenizer_raises_no_tokenizer():
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
def test_encode_with_a_tokenizer_without_offsets_finds_the_same_words(make):
    for text in ["a gripping, beautifully acted film", ("the film", "film acted")]:
        slow = encode(text, WithoutOffsets(make()), max_length=None, truncate=False)
        fast = encode(text, make(), max_length=None, truncate=False)
        assert [(w.text, w.segment) for w in slow.words] == [
            (w.text, w.segment) for w in fast.words
        ]


def encode_mapping(given, tokenizer=None, **options):
    defaults = {"pad_ids": {0}, "max_length": None, "vocabulary": None}
    return from_mapping(given, tokenizer, **{**defaults, **options})


def test_from_mapping_strips_padding_but_not_masked_tokens():
    (found,) = encode_mapping(
        {"input_ids": [[0, 0, 5, 6, 7, 0]], "attention_mask": [[0, 0, 0, 1, 1, 0]]}
    )
    assert found.ids == (5, 6, 7)
    assert found.features["attention_mask"] == (0, 1, 1)


def test_from_mapping_takes_lists_tensors_arrays_and_single_rows():
    import numpy as np
    import torch

    for rows in ([[5, 6], [7, 8]], torch.tensor([[5, 6], [7, 8]]), np.array([[5, 6], [7, 8]])):
        assert [item.ids for item in encode_mapping({"input_ids": rows})] == [(5, 6), (7, 8)]
    assert [item.ids for item in encode_mapping({"input_ids": [5, 6]})] == [(5, 6)]


def test_from_mapping_with_a_tokenizer_restores_text_and_words():
    tokenizer = wordpiece()
    given = tokenizer("a gripping film", return_tensors="pt")
    (found,) = encode_mapping(given, tokenizer)
    assert [word.text for word in found.words] == ["a", "gripping", "film"]
    assert found.source.text == "a gripping film"
    assert [token.special for token in found.tokens][0 :: len(found) - 1] == [True, True]


def test_from_mapping_of_an_encoded_pair_restores_both_texts():
    tokenizer = wordpiece()
    (found,) = encode_mapping(
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
def test_from_mapping_of_malformed_encodings_raises_bad_encoding(given, message):
    with pytest.raises(BadEncoding, match=message):
        encode_mapping(given, vocabulary=64)


@pytest.mark.parametrize(
    "given", [{"input_ids": []}, {"input_ids": [[]]}, {"input_ids": [[0]], "attention_mask": [[0]]}]
)
def test_from_mapping_of_empty_encodings_raises_empty_text(given):
    with pytest.raises(EmptyText):
        encode_mapping(given)


def test_encode_at_byte_level_gives_tokens_without_leading_space():
    found = encoded("the film", "byte_level")
    assert all(not token.text.startswith(" ") for token in found.tokens)
    assert byte_level().decode(list(found.ids), skip_special_tokens=True) == "the film"


def test_unknown_and_mask_tokens_count_as_content_in_texts_and_ids():
    tokenizer = wordpiece()
    for text in ("a \U0001f984 film", "a [MASK] film"):
        as_text = encode(text, tokenizer, max_length=None, truncate=False)
        (as_ids,) = encode_mapping(dict(tokenizer(text)), tokenizer)
        flags = [token.special for token in as_ids.tokens]
        assert (
            flags
            == [token.special for token in as_text.tokens]
            == [True, False, False, False, True]
        )
        assert len(as_ids.words) == 3


def test_from_mapping_of_ids_without_special_tokens_restores_words():
    tokenizer = wordpiece()
    given = tokenizer("beautifully gripping", add_special_tokens=False)
    (found,) = encode_mapping(given, tokenizer)
    assert [word.text for word in found.words] == ["beautifully", "gripping"]


def test_encode_with_a_byte_tokenizer_groups_bytes_into_words():
    from transformers import ByT5Tokenizer

    found = encode("café 映画 is", ByT5Tokenizer(), max_length=None, truncate=False)
    assert [(w.text, len(w.tokens)) for w in found.words] == [
        ("café", 5),
        ("映", 4),
        ("画", 3),
        ("is", 3),
    ]


def test_encode_with_unalignable_tokens_puts_every_token_in_a_word():
    class Odd(WithoutOffsets):
        def convert_ids_to_tokens(self, ids):
            return [f"?{i}" for i in ids]

    found = encode("a film", Odd(wordpiece()), max_length=None, truncate=False)
    assert sorted(i for w in found.words for i in w.tokens) == [1, 2]


@pytest.mark.parametrize("value", [3, "abc", [[1.5]], [["x"]], None])
def test_from_mapping_with_ids_other_than_integers_raises_bad_encoding(value):
    with pytest.raises(BadEncoding, match="rows of integers"):
        encode_mapping({"input_ids": value})


def test_from_mapping_takes_ids_as_a_list_of_tensors():
    import torch

    found = encode_mapping({"input_ids": [torch.tensor([5, 6]), torch.tensor([7, 8])]})
    assert [item.ids for item in found] == [(5, 6), (7, 8)]


@pytest.mark.parametrize("kind", KINDS)
def test_tokenize_batch_gives_the_encodings_of_each_text_alone(kind):
    tokenizer = KINDS[kind]()
    how = {"max_length": 6, "truncate": True}  # some are too long for that, and some are not
    for inputs in (list(TEXTS), [(text, "and another") for text in TEXTS]):
        ready = tokenize_batch(inputs, tokenizer)
        assert all(one is not None for one in ready) == bool(tokenizer.is_fast)
        for one, known in zip(inputs, ready, strict=True):
            assert encode(one, tokenizer, encoded=known, **how) == encode(one, tokenizer, **how)


@pytest.mark.parametrize("other", ["a \ud800 surrogate", ("a", "pair"), 3])
def test_tokenize_batch_with_an_odd_input_returns_none_for_all(other):
    assert tokenize_batch(["a film", other], wordpiece()) == [None, None]


def test_encode_each_refuses_bad_inputs_and_encodes_the_others():
    loaded, refused = whence.load("reviews").loaded, {}
    given = ["a good film", "", "a bad film", "\ud800", 3]
    found = dict(encode_each(given, loaded, truncate=False, refuse=refused.__setitem__))
    assert list(found) == [0, 2]
    assert [type(refused[number]) for number in (1, 3, 4)] == [EmptyText, BadEncoding, BadEncoding]
    (alone,) = dict(encode_each(given[2:3], loaded, truncate=False)).values()
    assert found[2] == alone
    with pytest.raises(EmptyText):
        list(encode_each(given, loaded, truncate=False))
