"""Data sets: every format, every way to give a rationale, and errors for malformed input."""

import gzip
import json

import pytest

import whence
from whence.core.errors import BadExamples, BadParameter
from whence.core.types import Token, Word
from whence.data.dataset import read_dataset
from whence.data.eraser import RationaleSpan, flag_rationale
from whence.data.example import Example


def list_examples(data, **columns):
    """Read a data set as `whence.evaluate` does."""
    return read_dataset(data, question_first=True, **columns).examples


def write(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.txt", "one\n\n  two \r\n", [Example("one"), Example("  two ")]),
        ("a.tsv", 'sentence\tlabel\nsay "hi\t1\n', [Example('say "hi', "1")]),
        ("a.csv", 'label,review\n0,"a, ""b""\nc"\n', [Example('a, "b"\nc', "0")]),
        ("a.jsonl", '{"content": "a", "label": 1}\n{"content": "b"}\n', [Example("a", "1"), Example("b")]),
        ("a.tsv", "premise\thypothesis\tlabel\np\th\tneutral\n", [Example(("p", "h"), "neutral")]),
        ("a.csv", "sentence1,sentence2\np,h\n", [Example(("p", "h"))]),
        ("a.jsonl", '{"question": "q", "context": "c"}\n', [Example(("q", "c"))]),
        ("a.jsonl", '{"tokens": ["a", "b", "."]}\n', [Example("a b .")]),
        # Only a line feed ends a line: these are signs within a text.
        ("a.txt", "a\u2028b\x85c\nd\n", [Example("a\u2028b\x85c"), Example("d")]),
        ("a.tsv", "\ufefftext\nx\n", [Example("x")]),
    ],
)  # fmt: skip
def test_list_examples_reads_every_format_plain_and_gzipped(tmp_path, name, text, found):
    path = write(tmp_path, name, text)
    assert list_examples(path) == found
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert list_examples(str(packed)) == found


def test_list_examples_takes_texts_pairs_dicts_and_examples():
    given = ["a", ("b", "c"), ["d", "e"], {"text": "f", "label": 0}, Example("g", "x")]
    assert list_examples(given) == [
        Example("a"),
        Example(("b", "c")),
        Example(("d", "e")),
        Example("f", "0"),
        Example("g", "x"),
    ]


def test_list_examples_takes_names_of_text_pair_and_label_columns(tmp_path):
    path = write(tmp_path, "a.tsv", "title\tbody\ttext\tstars\nt\tb\tx\t5\n")
    assert list_examples(path) == [Example("x")]
    assert list_examples(path, text="body", label="stars") == [Example("b", "5")]
    assert list_examples(path, text="title", pair="body") == [Example(("t", "b"))]
    assert list_examples(path, pair="title") == [Example(("x", "t"))]


@pytest.mark.parametrize(
    ("row", "given", "columns", "label"),
    [
        ({"story": ["He came.", "He saw."], "question": "Who?", "answer": "he"},
         ("He came. He saw.", "Who?"), ("story", "question", "answer"), "he"),
        ({"question": "q", "passage": "p", "label": 1}, ("p", "q"), ("passage", "question", "label"), "1"),
        ({"question": "q", "context": "c"}, ("c", "q"), ("context", "question", None), None),
        ({"premise": "p", "hypothesis": "h", "gold_label": "x"},
         ("p", "h"), ("premise", "hypothesis", "gold_label"), "x"),
        ({"review": "r", "sentiment": "bad"}, "r", ("review", None, "sentiment"), "bad"),
        ({"text": "t", "category": "c", "label": 3}, "t", ("text", None, "label"), "3"),
        ({"text": "t", "labels": [1, 2], "target": 0}, "t", ("text", None, "target"), "0"),
        ({"text": "t", "label5": 3}, "t", ("text", None, None), None),
        ({"text": "t", "class": ""}, "t", ("text", None, "class"), None),
    ],
)  # fmt: skip
def test_read_dataset_guesses_columns_and_lists_the_guesses(row, given, columns, label):
    found = read_dataset([row])
    assert found.examples == [Example(given, label)]
    assert (found.text, found.pair, found.label) == columns
    roles = zip(("text", "pair", "label"), columns, strict=True)
    assert found.guessed == tuple(role for role, column in roles if column)
    assert all(repr(column) in str(found) for column in columns if column)


def test_read_dataset_describes_the_file_and_its_columns(tmp_path):
    path = write(tmp_path, "a.tsv", "title\tbody\tstars\nt\tb\t5\n")
    found = read_dataset(path, text="title", pair="body", label="stars")
    assert found.examples == [Example(("t", "b"), "5")]
    assert (found.name, found.guessed) == ("a.tsv", ())
    assert str(found) == (
        "a.tsv, texts from 'title', second texts from 'body', labels from 'stars'."
    )
    found = read_dataset(str(path), text="title")
    assert str(found) == "a.tsv, texts from 'title', no labels."
    assert read_dataset(found) is found


def test_read_dataset_takes_rows_without_label_and_refuses_rows_without_text(tmp_path):
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n{"text": "b", "label": "x"}\n')
    assert [one.label for one in read_dataset(path).examples] == [None, "x"]
    assert [one.label for one in read_dataset(path, label="label").examples] == [None, "x"]
    path = write(tmp_path, "b.jsonl", '{"text": "a"}\n{"sentence": "b"}\n')
    with pytest.raises(BadExamples, match=r"b.jsonl, line 2 has no column 'text'; it has sentence"):
        read_dataset(path)
    with pytest.raises(BadExamples, match=r"b.jsonl has no column 'gold'; it has text, sentence"):
        read_dataset(path, label="gold")
    path = write(tmp_path, "c.jsonl", '{"text": "a", "label": [1, 2]}\n')
    with pytest.raises(BadExamples, match=r"line 1: the label in 'label' is .* one name or number"):
        read_dataset(path, label="label")
    assert read_dataset(path).label is None


def test_read_dataset_of_plain_lists_has_no_columns():
    found = read_dataset(["a", ("b", "c"), Example("d", "x")])
    assert found.examples == [Example("a"), Example(("b", "c")), Example("d", "x")]
    assert (found.text, found.label, found.guessed) == (None, None, ())
    assert str(found) == "the examples."
    for wrong in ([], [3], b"a", {"text": "a"}):
        with pytest.raises(BadExamples):
            read_dataset(wrong)


def test_list_examples_reads_rationales_given_in_characters():
    row = {"text": "a fine film", "rationale": [[2, 6], [7, 11], [2, 6]]}
    assert list_examples([row]) == [
        Example("a fine film", None, (RationaleSpan(0, 2, 6), RationaleSpan(0, 7, 11)))
    ]
    pair = {"premise": "it rains", "hypothesis": "it is wet", "rationale": [[0, 3, 8], [1, 6, 9]]}
    (found,) = list_examples([pair])
    assert found.rationale == (RationaleSpan(0, 3, 8), RationaleSpan(1, 6, 9))
    assert list_examples([{"text": "a", "rationale": []}])[0].rationale == ()
    assert list_examples([{"text": "a", "rationale": None}])[0].rationale is None


def test_list_examples_reads_rationales_from_a_table_column(tmp_path):
    path = write(tmp_path, "a.tsv", "text\trationale\nab cd\t[[0, 2]]\nef\t\n")
    assert [one.rationale for one in list_examples(path)] == [(RationaleSpan(0, 0, 2),), None]


def test_list_examples_turns_token_spans_into_character_spans():
    # "a fine film ." : fine film is 2..11; an empty span, as ERASER's files have some, marks nothing.
    row = {"tokens": ["a", "fine", "film", "."], "rationale_spans": [[1, 3], [2, 2], [3, 4]]}
    (found,) = list_examples([row])
    assert found.given == "a fine film ."
    assert [found.given[s.start : s.end] for s in found.rationale] == ["fine film", "."]


@pytest.mark.parametrize(
    "answers",
    [
        [{"text": "308", "answer_start": 7}, {"text": "308", "answer_start": 7}],
        {"text": ["308"], "answer_start": [7]},
    ],
)
def test_list_examples_takes_answers_as_rationale_in_the_context(answers):
    row = {"question": "How many?", "context": "It was 308 points.", "answers": answers}
    assert list_examples([row])[0].rationale == (RationaleSpan(1, 7, 10),)
    assert list_examples([row], text="context")[0].rationale == (RationaleSpan(0, 7, 10),)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.txt", "", "a.txt has no rows"),
        ("a.tsv", "text\tlabel\n", "a.tsv has no rows"),
        ("a.xml", "<a/>", r"a\.xml: \.xml is no kind of file that is read here\. Allowed: \.txt"),
        ("a.tsv", "id\tstars\n1\t2\n", r"a.tsv has no column of texts; it has id, stars. Allowed: text, sentence"),
        ("a.tsv", "text\tlabel\na\tb\tc\n", r"a.tsv, line 2: 3 fields, and the header has 2: text, label"),
        ("a.csv", 'text\n"a\n', r"a.csv, line \d: not comma separated values"),
        ("a.jsonl", '{"text": "a"}\n\n{"text": \n', r"a.jsonl, line 3: not JSON"),
        ("a.jsonl", '["a"]\n', r"line 1: a JSON list, not an object"),
        ("a.jsonl", '{"text": 3}\n', r"line 1: 'text' is '3' \(int\). Allowed: a text"),
        ("a.jsonl", '{"text": "abc", "rationale": [[1, 4]]}\n', r"line 1: the rationale 1:4 lies outside"),
        ("a.jsonl", '{"text": "abc", "rationale": [[-1, 2]]}\n', r"the rationale -1:2 lies outside"),
        ("a.jsonl", '{"text": "abc", "rationale": [[2, 2]]}\n', r"the rationale 2:2 is empty"),
        ("a.jsonl", '{"text": "abc", "rationale": [[2, 1]]}\n', r"the rationale 2:1 is reversed"),
        ("a.jsonl", '{"text": "abc", "rationale": [[1, 0, 2]]}\n', r"is of text 1, and there are 1, counted from 0"),
        ("a.jsonl", '{"text": "abc", "rationale": [1, 2]}\n', r"has the span '1'. Allowed: \[start, end\]"),
        ("a.jsonl", '{"text": "abc", "rationale": [[0, 1.5]]}\n', r"in whole numbers"),
        ("a.jsonl", '{"text": "abc", "rationale": "yes"}\n', r"Allowed: a list of spans"),
        ("a.jsonl", '{"tokens": ["a"], "rationale_spans": [[0, 2]]}\n', r"0:2 lies outside of a text of 1 tokens"),
        ("a.jsonl", '{"tokens": ["a"], "rationale_spans": [[1, 0]]}\n', r"1:0 is reversed"),
        ("a.jsonl", '{"text": "a", "rationale_spans": [[0, 1]]}\n', r"counts the entries of a list 'tokens'"),
        ("a.jsonl", '{"text": "abc", "answers": [{"text": "x", "answer_start": 1}]}\n', r"'x' does not stand at 1"),
        ("a.jsonl", '{"text": "abc", "answers": [{"text": "b"}]}\n', r"'answers' must each have"),
    ],
)  # fmt: skip
def test_list_examples_of_malformed_files_raises_bad_examples_naming_the_fault(
    tmp_path, name, text, said
):
    with pytest.raises(BadExamples, match=said):
        list_examples(write(tmp_path, name, text))


def test_list_examples_of_missing_latin_or_torn_files_raises_bad_examples(tmp_path):
    with pytest.raises(BadExamples, match=r"Cannot read '.*none.txt': No such file"):
        list_examples(tmp_path / "none.txt")
    latin = tmp_path / "latin.txt"
    latin.write_bytes("one\ntwo\ncafé\n".encode("latin-1"))
    with pytest.raises(BadExamples, match=r"latin.txt, line 3: not UTF-8 text .*byte 0xe9"):
        list_examples(latin)
    torn = tmp_path / "torn.txt.gz"
    torn.write_bytes(gzip.compress(b"a text\n" * 100)[:-9])
    with pytest.raises(BadExamples, match="is not a whole gzip file"):
        list_examples(torn)


def test_list_examples_with_unknown_column_names_raises_bad_examples(tmp_path):
    path = write(tmp_path, "a.tsv", "text\tlabel\na\t1\n")
    with pytest.raises(
        BadExamples, match=r"no column 'txt'; it has text, label. Did you mean 'text'"
    ):
        list_examples(path, text="txt")
    with pytest.raises(BadExamples, match="no column 'other'"):
        list_examples(path, pair="other")
    with pytest.raises(BadExamples, match="no column 'gold'"):
        list_examples(path, label="gold")


@pytest.mark.parametrize("given", [[3], [("a", "b", "c")], [None]])
def test_list_examples_of_a_list_with_bad_entries_raises_bad_examples(given):
    with pytest.raises(BadExamples, match="Example 0 is"):
        list_examples(given)


@pytest.mark.parametrize("given", [b"a", 3, {"text": "a"}, ("a", "b")])
def test_list_examples_of_an_unsuitable_object_raises_bad_examples(given):
    with pytest.raises(BadExamples, match="for a data set"):
        list_examples(given)


def test_list_examples_of_an_empty_list_raises_bad_examples():
    with pytest.raises(BadExamples, match="The list of examples is empty"):
        list_examples([])


def test_draw_is_seeded_nested_and_in_order():
    given = [Example(str(i)) for i in range(50)]
    data = read_dataset(given)
    small, large = data.draw(5, 3).examples, data.draw(20, 3).examples
    assert small == data.draw(5, 3).examples != data.draw(5, 4).examples
    assert set(small) < set(large)
    assert large == sorted(large, key=given.index)
    assert data.draw(99).examples == given
    for wrong in (0, -1, True, 2.5):
        with pytest.raises(BadParameter, match="at least 1"):
            data.draw(wrong)


def test_flag_rationale_marks_features_that_overlap_a_span():
    # "un|like|ly good" and a second text "good": tokens by character, special ones without a place.
    tokens = [
        Token("[CLS]", None, None, 0, True, 1),
        Token("un", 0, 2, 0, False, 2),
        Token("like", 2, 6, 0, False, 3),
        Token("ly", 6, 8, 0, False, 4),
        Token("good", 9, 13, 0, False, 5),
        Token("[SEP]", None, None, 0, True, 6),
        Token("good", 0, 4, 1, False, 5),
    ]
    single = [(i,) for i in range(7)]
    assert flag_rationale(single, tokens, [RationaleSpan(0, 5, 8)]) == [
        False,
        False,
        True,
        True,
        False,
        False,
        False,
    ]
    assert flag_rationale(single, tokens, [RationaleSpan(1, 0, 1)]) == [False] * 6 + [True]
    # A span of the space between two words touches none; a neighbour that only ends where it starts neither.
    assert not any(flag_rationale(single, tokens, [RationaleSpan(0, 8, 9)]))
    words = [Word("unlikely", 0, 8, 0, (1, 2, 3)), Word("good", 9, 13, 0, (4,))]
    assert flag_rationale(words, tokens, [RationaleSpan(0, 0, 1)]) == [True, False]
    assert flag_rationale(words, tokens, []) == [False, False]


def test_flag_rationale_of_a_real_text_marks_the_named_words():
    text = "a gripping, beautifully acted film"
    explanation = whence.load("reviews").explain(text, method="random")
    start = text.index("beautifully")
    flags = flag_rationale(
        explanation.spans, explanation.tokens, [RationaleSpan(0, start, start + 17)]
    )
    named = [word.text for word, flag in zip(explanation.spans, flags, strict=True) if flag]
    assert named == ["beautifully", "acted"]


@pytest.mark.parametrize(
    ("file", "count", "first"),
    [
        ("sst2_glue/dev.tsv", 872, "it 's a charming and often affecting journey ."),
        ("nli/mnli_dev_matched.tsv.gz", 9815, "The new rights are nice enough"),
        ("glue_small/qnli_dev.tsv", None, None),
        ("squad_dev_subset/xquad_en.jsonl.gz", 1190, None),
        ("eraser_movies/val.jsonl.gz", 200, None),
        ("eraser_movies/test.jsonl.gz", 199, None),
        ("sst_trees/dev.jsonl.gz", 1101, None),
        ("imdb/test.tsv.gz", 3000, None),
        (
            "babi/qa1_test.jsonl.gz",
            1000,
            "John travelled to the hallway. Mary journeyed to the bathroom.",
        ),
    ],
)
def test_list_examples_reads_the_shared_data_sets_with_known_counts(shared, file, count, first):
    path = shared / "data" / file
    found = read_dataset(path).examples if "babi" in file else list_examples(path)
    assert count in (None, len(found))
    given = found[0].given if isinstance(found[0].given, str) else found[0].given[0]
    assert first in (None, given)


def test_list_examples_gives_eraser_rationales_as_the_tokens_of_their_spans(shared):
    path = shared / "data" / "eraser_movies" / "val.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        rows = [json.loads(line) for line in stream]
    for row, example in zip(rows, list_examples(path), strict=True):
        wanted = dict.fromkeys(" ".join(row["tokens"][a:b]) for a, b in row["rationale_spans"])
        assert [*dict.fromkeys(example.given[s.start : s.end] for s in example.rationale)] == [
            *wanted
        ]
        assert example.label == str(row["label"])
