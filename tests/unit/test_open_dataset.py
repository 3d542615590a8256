"""Function open_dataset: streamed rows equal `read_dataset` for every file kind; unreadable rows are skipped."""

import gzip
import json
import os
import pickle

import datasets
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whence.core.errors import BadExamples
from whence.data.dataset import DatasetRow, SkippedRow, open_dataset, read_dataset
from whence.data.example import Example

TEXTS = ["a fine film", "naïve “quotes”, and\u2028more", 'say "hi", twice', "日本"]


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Keep what the package datasets makes of a folder out of the user's cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path_factory.mktemp("cache")))


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def quote_csv_field(text):
    return '"' + text.replace('"', '""') + '"'


def write_every_kind(folder):
    """Write the same texts and labels in every kind of file; a text file has no labels."""
    rows = list(zip(TEXTS, "0110", strict=True))
    made = {
        "a.txt": "".join(f"{text}\n" for text in TEXTS),
        "a.tsv": "text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in rows),
        "a.csv": "text,label\n"
        + "".join(f"{quote_csv_field(text)},{label}\n" for text, label in rows),
        "a.jsonl": "".join(json.dumps({"text": t, "label": n}) + "\n" for t, n in rows),
    }
    for name, content in made.items():
        write(folder / name, content)
    table = pyarrow.table({"text": TEXTS, "label": list("0110")})
    pyarrow.parquet.write_table(table, folder / "a.parquet", row_group_size=2)
    for name in (*made, "a.parquet"):
        write(folder / f"{name}.gz", gzip.compress((folder / name).read_bytes()))
    return [folder / f"{name}{packed}" for name in (*made, "a.parquet") for packed in ("", ".gz")]


def examples_of(stream):
    return [one.example for one in stream]


def list_skipped_rows(stream):
    return [(one.row, one.where, one.why) for one in stream if isinstance(one, SkippedRow)]


def test_open_dataset_of_every_file_kind_equals_read_dataset(tmp_path):
    for path in write_every_kind(tmp_path):
        stream = open_dataset(str(path))
        labels = "0110" if "txt" not in path.name else [None] * 4
        wanted = [Example(text, label) for text, label in zip(TEXTS, labels, strict=True)]
        assert examples_of(stream) == wanted == read_dataset(path).examples
        assert list(stream) == list(stream), "it can be gone through again"
        assert [one.row for one in stream] == [0, 1, 2, 3]
        assert stream.count() == 4
        facts = stream.facts()
        assert (facts["name"], facts["kind"]) == (path.name, path.name.split(".")[1])
        assert str(tmp_path) not in json.dumps(facts)


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("sst2_glue/dev.tsv", {}),
        ("nli/mnli_dev_matched.tsv.gz", {"text": "hypothesis"}),
        ("glue_small/qnli_dev.tsv", {}),
        ("squad_dev_subset/xquad_en.jsonl.gz", {}),
        ("eraser_movies/val.jsonl.gz", {"label": ""}),
        ("babi/qa1_test.jsonl.gz", {"text": "question"}),
        ("oxford_pets/pets_heldout_a.parquet", {"label": "breed"}),
    ],
)
def test_open_dataset_of_real_data_sets_equals_read_dataset(shared, file, named):
    path = shared / "data" / file
    stream, wanted = open_dataset(str(path), **named), read_dataset(path, **named)
    found = list(stream)
    # Pictures are compared by their bytes' digests, which is how they print.
    assert repr([one.example for one in found]) == repr(wanted.examples)
    assert stream.count() == len(found)
    facts = stream.facts()
    roles = {"text": wanted.text, "pair": wanted.pair, "label": wanted.label}
    assert facts["columns"] == {role: name for role, name in roles.items() if name}
    assert (tuple(facts["guessed"]), tuple(facts["has"])) == (wanted.guessed, wanted.columns)


def test_open_dataset_of_a_folder_with_splits_equals_read_dataset(tmp_path):
    labels = datasets.ClassLabel(names=["bad", "good"])
    features = datasets.Features({"text": datasets.Value("string"), "label": labels})
    for split, own in (("train", [1, 0]), ("validation", [0, -1]), ("test", [-1, -1])):
        part = datasets.Dataset.from_dict({"text": ["a", "b"], "label": own}, features=features)
        part.to_parquet(tmp_path / f"{split}.parquet")
    for address in (f"{tmp_path}", f"{tmp_path}:train", f"{tmp_path}:default:train"):
        stream, wanted = open_dataset(address), read_dataset(address)
        assert examples_of(stream) == wanted.examples == examples_of(stream)
        assert (stream.name, stream.facts()["guessed"]) == (wanted.name, list(wanted.guessed))
        assert stream.facts()["kind"] == "hub"
        assert [one.id for one in stream] == ["row 1", "row 2"]
        assert stream.count() in (None, 2)  # as the package knows it
    with pytest.raises(BadExamples, match=r"has no split 'dev'; it has"):
        open_dataset(f"{tmp_path}:dev")


def test_open_dataset_of_a_folder_with_a_broken_file_raises_after_the_good_rows(tmp_path, capsys):
    part = pyarrow.table({"text": [f"text {i}" for i in range(150)]})
    pyarrow.parquet.write_table(part, tmp_path / "train-00000-of-00002.parquet")
    write(tmp_path / "train-00001-of-00002.parquet", b"PAR1 and nothing else")
    found = []
    with pytest.raises(BadExamples, match=":train cannot be read on: "):
        found.extend(open_dataset(str(tmp_path)))
    assert len(found) == 150
    assert capsys.readouterr() == ("", "")  # the error says it, and nobody else


def test_unreadable_jsonl_rows_are_skipped_with_reasons_and_other_rows_are_read(tmp_path):
    rows = [
        b'{"text": "a"}',
        b'{"text": "caf\xe9"}',
        b'{"text": ',
        b"",
        b"[1, 2]",
        b'{"sentence": "b"}',
        b'{"text": " "}',
        b'{"text": 3}',
        b'{"text": "c", "label": [1]}',
        b'{"text": "abc", "rationale": [[1, 9]]}',
        b'{"text": "half \\ud800"}',
        b"[" * 100_000,
        b'{"text": "b", "label": "x"}',
    ]
    path = write(tmp_path / "a.jsonl", b"\n".join(rows))
    stream = open_dataset(path, label="label")
    found = list(stream)
    good = [one for one in found if isinstance(one, DatasetRow)]
    assert good == [
        DatasetRow(0, "line 1", Example("a")),
        DatasetRow(11, "line 13", Example("b", "x")),  # the blank line is no row
    ]
    assert [one.row for one in found] == list(range(12)) and stream.count() == 12
    whys = [why for _, _, why in list_skipped_rows(found)]
    for why, said in zip(
        whys,
        (
            "not UTF-8 text (invalid continuation byte, byte 0xe9)",
            "not JSON",
            "a JSON list, not an object",
            "has no column 'text'; it has sentence",
            "the text is empty",
            "'text' is '3' (int)",
            "the label in 'label' is '[1]' (list)",
            "the rationale 1:9 lies outside",
            "half of a character",
            "not JSON",
        ),
        strict=True,
    ):
        assert why.startswith(said) or said in why
    assert found[1].where == "a.jsonl, line 2"
    with pytest.raises(BadExamples, match=r"a\.jsonl, line 2: not UTF-8 text"):
        read_dataset(path)


@pytest.mark.parametrize(
    ("name", "content", "ids", "bad"),
    [
        (
            "a.txt",
            b"one\ncaf\xe9\n\n\x00\ntwo",
            ["line 1", "line 4", "line 5"],
            [(1, "a.txt, line 2", "not UTF-8 text")],
        ),
        (
            "a.tsv",
            b"text\tlabel\na\t1\nb\nc\t\xff\nd\t2\n",
            ["line 2", "line 5"],
            [(1, "a.tsv, line 3", "1 fields, and the header has 2"), (2, "a.tsv, line 4", "not UTF-8")],
        ),
        (
            "a.csv",
            b'text,label\n"two\nlines",1\nb,1,2\n\n"x\xe9",2\n,3\nc,4\n',
            ["line 3", "line 8"],
            [
                (1, "a.csv, line 4", "3 fields"),
                (2, "a.csv, line 6", "not UTF-8 text (invalid byte, byte 0xe9)"),
                (3, "a.csv, line 7", "the text is empty"),
            ],
        ),
    ],
)  # fmt: skip
def test_unreadable_rows_of_txt_tsv_and_csv_are_skipped_with_line_and_reason(
    tmp_path, name, content, ids, bad
):
    for packed in ("", ".gz"):
        raw = gzip.compress(content) if packed else content
        stream = open_dataset(write(tmp_path / f"{name}{packed}", raw))
        found = list(stream)
        assert [one.id for one in found if isinstance(one, DatasetRow)] == ids
        assert stream.count() == len(found) == len(ids) + len(bad)
        for (row, where, why), (number, place, said) in zip(
            list_skipped_rows(found), bad, strict=True
        ):
            assert (row, where) == (number, place.replace(name, f"{name}{packed}"))
            assert why.startswith(said)


def test_unreadable_rows_of_parquet_are_skipped_with_row_and_reason(tmp_path):
    wrong = pyarrow.Array.from_buffers(
        pyarrow.string(),
        3,
        [
            None,
            pyarrow.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"),
            pyarrow.py_buffer(b"a\xe9b"),
        ],
    )
    pyarrow.parquet.write_table(pyarrow.table({"text": wrong}), tmp_path / "a.parquet")
    stream = open_dataset(str(tmp_path / "a.parquet"))
    one, bad, other = stream
    assert (one.example, other.example) == (Example("a"), Example("b"))
    assert (bad.where, bad.why[:14]) == ("a.parquet, row 2", "not UTF-8 text")
    pyarrow.parquet.write_table(pyarrow.table({"text": ["a", None]}), tmp_path / "b.parquet")
    assert list_skipped_rows(open_dataset(str(tmp_path / "b.parquet")))[0][:2] == (
        1,
        "b.parquet, row 2",
    )


def test_open_dataset_of_torn_gzip_or_csv_raises_after_the_rows_before_the_damage(tmp_path):
    # Nobody can say how many rows there were: the rows before are given, then it is said, to whoever counts as well.
    whole = gzip.compress(b"".join(b'{"text": "%d"}\n' % i for i in range(50_000)))
    stream = open_dataset(write(tmp_path / "torn.jsonl.gz", whole[: len(whole) // 2]))
    found = []
    with pytest.raises(BadExamples, match="is not a whole gzip file"):
        found.extend(stream)
    assert 10_000 < len(found) < 40_000 and found[-1].example == Example(str(len(found) - 1))
    with pytest.raises(BadExamples, match="is not a whole gzip file"):
        stream.count()
    lines = "text,label\n" + "a,1\n" * 200 + '"b"c,2\n' + "d,3\n"
    stream = open_dataset(write(tmp_path / "a.csv", lines))
    found = []
    with pytest.raises(BadExamples, match=r"a\.csv, line 202: not comma separated values"):
        found.extend(stream)
    assert len(found) == 200
    with pytest.raises(BadExamples, match=r"line 202"):
        stream.count()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", "", "a.jsonl has no rows"),
        ("a.csv", "text,label\n", "a.csv has no rows"),
        ("a.csv", b"t\xe9xt,label\na,1\n", "a.csv, line 1: not UTF-8 text"),
        ("a.tsv", b"t\xe9xt\tlabel\na\t1\n", "a.tsv, line 1: not UTF-8 text"),
        ("a.jsonl", "{\n[]\n", r"a.jsonl has no row that can be read. a.jsonl, line 1: not JSON"),
        ("a.jsonl", '{"body": "a"}\n', "a.jsonl has no column of texts; it has body"),
        ("a.xml", "<a/>", r"a\.xml: \.xml is no kind of file"),
        ("a.parquet", "no parquet", "a.parquet is not a whole Parquet file"),
        ("a.txt.gz", "no gzip", "a.txt.gz is not a whole gzip file"),
    ],
)
def test_open_dataset_of_empty_or_invalid_files_raises_bad_examples(tmp_path, name, content, said):
    with pytest.raises(BadExamples, match=said):
        open_dataset(write(tmp_path / name, content))


def test_open_dataset_of_missing_files_or_pipes_raises_bad_examples(tmp_path):
    with pytest.raises(BadExamples, match=r"Cannot read '.*none.jsonl': No such file"):
        open_dataset(str(tmp_path / "none.jsonl"))
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(BadExamples, match=r"'pipe.txt' is no ordinary file"):
        open_dataset(str(tmp_path / "pipe.txt"))


def test_open_dataset_guesses_columns_by_the_first_rows_and_states_guesses(tmp_path):
    rows = [{"body": f"text {i}", "text": "x", "stars": i % 5} for i in range(150)]
    rows[120]["label"] = "late"
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    facts = open_dataset(path).facts()
    assert facts["columns"] == {"text": "text"} and facts["guessed"] == ["text"]
    assert facts["has"] == ["body", "text", "stars"]
    stream = open_dataset(path, text="body", label="stars")
    assert stream.facts()["columns"] == {"text": "body", "label": "stars"}
    assert stream.facts()["guessed"] == []
    assert next(iter(stream)).example == Example("text 0", "0")
    assert next(iter(open_dataset(path, pair="body"))).example == Example(("x", "text 0"))
    for wrong in ({"text": "txt"}, {"pair": "other"}, {"label": "stras"}):
        with pytest.raises(BadExamples, match="has no column"):
            open_dataset(path, **wrong)


@pytest.mark.parametrize(
    ("columns", "ids"),
    [
        ({"id": ["x", ""]}, ["x", "line 2"]),
        ({"id": [7, None]}, ["7", "line 2"]),
        ({"annotation_id": ["x", [1]]}, ["x", "line 2"]),
        ({"idx": [0, True]}, ["0", "line 2"]),
        ({"idx": [0, 1], "id": ["a", "b"]}, ["a", "b"]),
        ({"uid": [0, 1]}, ["line 1", "line 2"]),
    ],
)
def test_open_dataset_takes_ids_from_id_columns_or_line_numbers(tmp_path, columns, ids):
    rows = [{"text": "t", **{name: own[i] for name, own in columns.items()}} for i in range(2)]
    path = write(tmp_path / "a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    assert [one.id for one in open_dataset(path)] == ids


def test_dataset_rows_survive_pickling_with_their_image_bytes(tmp_path):
    pyarrow.parquet.write_table(
        pyarrow.table({"image": [b"raw"], "label": [1]}), tmp_path / "a.parquet"
    )
    (entry,) = open_dataset(str(tmp_path / "a.parquet"))
    again = pickle.loads(pickle.dumps(entry))  # noqa: S301 - our own
    assert (again.id, again.example.label, again.example.given.read()) == ("row 1", "1", b"raw")


def test_open_dataset_reads_csv_fields_beyond_the_default_limit(tmp_path):
    text = "word " * 100_000  # more than the package csv reads by default
    assert examples_of(open_dataset(write(tmp_path / "a.csv", f"text\n{text}\n"))) == [
        Example(text)
    ]


PIECES = [b"a", b"\n", b"\r\n", b"\r", b"\t", b",", b'"', b"\xe9", b"\xc3\xa9", b"\x00", b"\xe2\x80\xa8", b" ",
          b'{"text": "x"}', b"[", b"\xef\xbb\xbf"]  # fmt: skip


@pytest.mark.parametrize("ending", ["txt", "tsv", "csv", "jsonl"])
@settings(max_examples=60, deadline=None, derandomize=True)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=25))
def test_open_dataset_of_arbitrary_bytes_numbers_and_counts_every_row(
    tmp_path_factory, ending, pieces
):
    head = b'{"text": "x"}\n' if ending == "jsonl" else b"text\n" + b"x\n" * 101
    path = write(tmp_path_factory.mktemp("any") / f"a.{ending}", head + b"".join(pieces))
    stream = open_dataset(path)
    found, error = [], None
    try:
        found.extend(stream)
    except BadExamples as wrong:  # only quoting can be broken so that nobody knows what follows
        error = str(wrong)
        assert ending == "csv" and "not comma separated values" in error
    assert [one.row for one in found] == list(range(len(found)))
    if error is None:
        assert stream.count() == len(found)
    else:
        with pytest.raises(BadExamples):
            stream.count()
    if error is None and all(isinstance(one, DatasetRow) for one in found):
        assert [one.example for one in found] == read_dataset(path).examples


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_open_dataset_ignores_blank_lines_before_header_and_rows(tmp_path, ending):
    between = "," if ending == "csv" else "\t"
    raw = f"\n\ntext{between}label\n\na{between}x\n\n".encode()
    stream = open_dataset(write(tmp_path / f"a.{ending}", raw))
    assert list(stream) == [DatasetRow(0, "line 5", Example("a", "x"))]
    assert stream.count() == 1
