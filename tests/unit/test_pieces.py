"""Pieces of a text: sentences, paragraphs and marked passages, and the tokens that fall into them."""

import pytest

from tests.unit.small_tokenizers import byte_level, sentencepiece, wordpiece
from whence.core.errors import BadEncoding, BadParameter
from whence.data.tokens import encode
from whence.data.words import (
    check_granularity,
    find_paragraphs,
    find_sentences,
    parse_passage_marks,
    split_pieces,
)

KINDS = ("token", "word", "sentence", "paragraph", "passage")


def _split_sentences(text: str) -> list[str]:
    return [text[a:b] for a, b in find_sentences(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ('"Why?" he said. (Really.) Yes.', ['"Why?" he said.', "(Really.)", "Yes."]),
        ("Mr. Smith met J. K. Rowling, e.g. here. Good.", ["Mr. Smith met J. K. Rowling, e.g. here.", "Good."]),
        ("Pi is 3.14 today. It was.", ["Pi is 3.14 today.", "It was."]),
        ("今天好。明天呢？好！", ["今天好。", "明天呢？", "好！"]),
        ("A heading\n\nThen a text\nover two lines.", ["A heading", "Then a text\nover two lines."]),
        ("  padded.  Twice.  ", ["padded.", "Twice."]),
        ("no end", ["no end"]),
        ("...", ["..."]),
        ("", []),
        (" \n\n ", []),
    ],
)  # fmt: skip
def test_find_sentences_splits_at_sentence_ends_and_not_at_abbreviations(
    text: str, expected: list[str]
) -> None:
    assert _split_sentences(text) == expected


def test_find_paragraphs_splits_at_blank_lines_only() -> None:
    text = "one\ntwo\n\n  \nthree\n \nfour\n"
    assert [text[a:b] for a, b in find_paragraphs(text)] == ["one\ntwo", "three", "four"]


def test_parse_passage_marks_removes_marks_and_returns_their_spans() -> None:
    text, spans = parse_passage_marks("Q [[the cät 🙂]] and [[a dog]][[x]] A")
    assert text == "Q the cät 🙂 and a dogx A"
    assert [text[a:b] for a, b in spans] == ["the cät 🙂", "a dog", "x"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a [[b [[c]] d]]", "opens in a passage"),
        ("a ]] b [[c]]", "closes nothing"),
        ("a [[b", "never closed"),
        ("nothing", "There are none"),
        ("[[ ]] blank", "There are none"),
    ],
)
def test_parse_passage_marks_of_unbalanced_or_empty_marks_raises_bad_encoding(
    text: str, said: str
) -> None:
    with pytest.raises(BadEncoding, match=said):
        parse_passage_marks(text)


@pytest.mark.parametrize("tokenizer", [wordpiece, byte_level, sentencepiece])
@pytest.mark.parametrize("granularity", KINDS)
def test_split_pieces_gives_every_token_exactly_one_piece(tokenizer, granularity) -> None:
    marked = "A [[naïve café.]] Don't! 我们爱。\n\n[[emoji 👍🏽]] and 50% off.  "
    text, marks = parse_passage_marks(marked)
    item = encode(text, tokenizer(), max_length=None, truncate=False)
    found = split_pieces(item.tokens, item.words, (text, None), granularity, marks)
    assert sorted(i for piece in found for i in piece.tokens) == list(range(len(item)))
    assert [piece.tokens for piece in found] == sorted(piece.tokens for piece in found)
    for piece in found:
        assert piece.special or text[piece.start : piece.end] == piece.text


def test_split_pieces_by_passage_returns_passages_and_the_texts_between() -> None:
    text, marks = parse_passage_marks("Who? [[The cat sat.]] [[The dog ran.]] It was")
    item = encode(text, byte_level(), max_length=None, truncate=False)
    found = split_pieces(item.tokens, item.words, (text, None), "passage", marks)
    assert [(p.text, p.marked) for p in found if not p.special] == [
        ("Who?", False), ("The cat sat.", True), ("The dog ran.", True), ("It was", False),
    ]  # fmt: skip


def test_split_pieces_of_a_pair_splits_each_text_alone() -> None:
    given = ("One. Two.", "Three. Four.")
    item = encode(given, wordpiece(), max_length=None, truncate=False)
    found = split_pieces(item.tokens, item.words, given, "sentence")
    assert [(p.text, p.segment) for p in found if not p.special] == [
        ("One.", 0), ("Two.", 0), ("Three.", 1), ("Four.", 1),
    ]  # fmt: skip


def test_check_granularity_of_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(BadParameter, match=r"'sentense'.*Did you mean 'sentence'"):
        check_granularity("sentense")
