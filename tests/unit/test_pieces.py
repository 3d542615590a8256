"""Sentences, paragraphs and marked passages, and the tokens that fall into them."""

import pytest

from tests.unit.tokenizers import byte_level, sentencepiece, wordpiece
from whence.core.errors import BadEncoding, BadParameter
from whence.data import encode
from whence.data.text.pieces import check, paragraphs, pieces, sentences, unmarked

KINDS = ("token", "word", "sentence", "paragraph", "passage")


def _cut(text: str) -> list[str]:
    return [text[a:b] for a, b in sentences(text)]


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
def test_sentences(text: str, expected: list[str]) -> None:
    assert _cut(text) == expected


def test_paragraphs_end_at_blank_lines_only() -> None:
    text = "one\ntwo\n\n  \nthree\n \nfour\n"
    assert [text[a:b] for a, b in paragraphs(text)] == ["one\ntwo", "three", "four"]


def test_marks_are_taken_out_and_remembered() -> None:
    text, spans = unmarked("Q [[the cät 🙂]] and [[a dog]][[x]] A")
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
def test_marks_that_do_not_fit_are_named(text: str, said: str) -> None:
    with pytest.raises(BadEncoding, match=said):
        unmarked(text)


@pytest.mark.parametrize("tokenizer", [wordpiece, byte_level, sentencepiece])
@pytest.mark.parametrize("granularity", KINDS)
def test_every_token_has_exactly_one_piece(tokenizer, granularity) -> None:
    marked = "A [[naïve café.]] Don't! 我们爱。\n\n[[emoji 👍🏽]] and 50% off.  "
    text, marks = unmarked(marked)
    item = encode(text, tokenizer(), max_length=None, truncate=False)
    found = pieces(item.tokens, item.words, (text, None), granularity, marks)
    assert sorted(i for piece in found for i in piece.tokens) == list(range(len(item)))
    assert [piece.tokens for piece in found] == sorted(piece.tokens for piece in found)
    for piece in found:
        assert piece.special or text[piece.start : piece.end] == piece.text


def test_passages_and_what_is_between() -> None:
    text, marks = unmarked("Who? [[The cat sat.]] [[The dog ran.]] It was")
    item = encode(text, byte_level(), max_length=None, truncate=False)
    found = pieces(item.tokens, item.words, (text, None), "passage", marks)
    assert [(p.text, p.marked) for p in found if not p.special] == [
        ("Who?", False), ("The cat sat.", True), ("The dog ran.", True), ("It was", False),
    ]  # fmt: skip


def test_pairs_are_divided_text_by_text() -> None:
    given = ("One. Two.", "Three. Four.")
    item = encode(given, wordpiece(), max_length=None, truncate=False)
    found = pieces(item.tokens, item.words, given, "sentence")
    assert [(p.text, p.segment) for p in found if not p.special] == [
        ("One.", 0), ("Two.", 0), ("Three.", 1), ("Four.", 1),
    ]  # fmt: skip


def test_an_unknown_granularity_is_named() -> None:
    with pytest.raises(BadParameter, match=r"'sentense'.*Did you mean 'sentence'"):
        check("sentense")
