"""ERASER folders as data: evidence becomes character spans, queries and splits; bad annotations are skipped."""

import gzip
import json

import pytest

from whence.core.errors import BadExamples
from whence.data.dataset import SkippedRow, open_dataset, read_dataset
from whence.data.eraser import RationaleSpan
from whence.data.example import Example

QUERY = "What is the sentiment of this review?"


def evidence(docid, start, end, **more):
    return {"docid": docid, "start_token": start, "end_token": end, "text": "", **more}


def annotation(name, evidences, label="POS", query=QUERY, **more):
    return {
        "annotation_id": name,
        "classification": label,
        "evidences": evidences,
        "query": query,
        "query_type": None,
        **more,
    }


def write_eraser_folder(folder, annotations, documents, split="val", docs="docs"):
    (folder / docs).mkdir(parents=True, exist_ok=True)
    for name, text in documents.items():
        (folder / docs / name).write_text(text)
    lines = "".join(json.dumps(one) + "\n" for one in annotations)
    (folder / f"{split}.jsonl").write_text(lines)
    return folder


# Nine tokens: a 0 fine 1 film 2 . 3 | it 4 is 5 well 6 acted 7 . 8; blank lines and more spaces count for nothing.
FILM = "a fine  film .\n\nit is well acted .\n"


def test_open_dataset_maps_eraser_token_and_sentence_evidence_to_character_spans(tmp_path):
    sentence = evidence("one.txt", -1, -1, start_sentence=1, end_sentence=2)
    groups = [[evidence("one.txt", 1, 3)], [sentence]]
    folder = write_eraser_folder(tmp_path, [annotation("one.txt", groups)], {"one.txt": FILM})
    for address in (str(folder), f"{folder}:val"):
        (entry,) = stream = open_dataset(address)
        text = "a fine film . it is well acted ."
        # "fine film" is 2..11; the second sentence is 14..32.
        assert entry.example == Example(
            text, "POS", (RationaleSpan(0, 2, 11), RationaleSpan(0, 14, 32))
        )
        assert [text[one.start : one.end] for one in entry.example.rationale] == [
            "fine film",
            "it is well acted .",
        ]
        assert (entry.id, entry.row, stream.count()) == ("one.txt", 0, 1)
        facts = stream.facts()
        assert (facts["kind"], facts["name"]) == ("eraser", f"{tmp_path.name}:val")
        assert facts["columns"] == {"text": "tokens", "label": "label"}
        assert ("split" in facts["guessed"]) == (address == str(folder))
        whole = read_dataset(address)
        assert (whole.examples, whole.name) == ([entry.example], facts["name"])


def test_eraser_queries_become_the_pair_only_where_queries_differ(tmp_path):
    same = [annotation(f"{i}", [[evidence("d", 0, 1)]]) for i in range(2)]
    write_eraser_folder(tmp_path, same, {"d": "yes no"})
    assert [one.example.given for one in open_dataset(str(tmp_path))] == ["yes no"] * 2
    asked = open_dataset(str(tmp_path), pair="query")
    assert [one.example.given for one in asked] == [("yes no", QUERY)] * 2
    write_eraser_folder(
        tmp_path, [*same, annotation("2", [[evidence("d", 1, 2)]], query="Is it?")], {}
    )
    stream = open_dataset(str(tmp_path))
    assert [one.example.given for one in stream][1:] == [("yes no", QUERY), ("yes no", "Is it?")]
    assert stream.facts()["columns"]["pair"] == "query" and "pair" in stream.facts()["guessed"]
    assert list(stream)[2].example.rationale == (RationaleSpan(0, 4, 6),)
    assert [one.example.given for one in open_dataset(str(tmp_path), pair="")] == ["yes no"] * 3


def test_eraser_annotation_of_several_documents_joins_their_texts(tmp_path):
    both = annotation("1", [[evidence("b", 0, 1), evidence("a", 1, 2)]], docids=["a", "b"])
    own = annotation("b", [])
    write_eraser_folder(tmp_path, [both, own], {"a": "one two", "b": "three"}, docs="documents")
    first, second = open_dataset(str(tmp_path))
    assert first.example == Example(
        "one two three", "POS", (RationaleSpan(0, 8, 13), RationaleSpan(0, 4, 7))
    )
    assert second.example == Example("three", "POS", ())  # people were asked, and marked nothing


def test_eraser_documents_in_docs_jsonl_with_gzipped_annotations_are_read(tmp_path):
    rows = [{"docid": name, "document": text} for name, text in (("a", "x y"), ("ü", "é z"))]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [annotation("1", [[evidence("ü", 0, 1)]]), annotation("2", [[evidence("no", 0, 1)]])]
    packed = gzip.compress("".join(json.dumps(one) + "\n" for one in lines).encode())
    (tmp_path / "train.jsonl.gz").write_bytes(packed)
    good, bad = open_dataset(f"{tmp_path}:train")
    assert good.example == Example("é z", "POS", (RationaleSpan(0, 0, 1),))
    assert bad == SkippedRow(1, "train.jsonl.gz, line 2", "docs.jsonl has no document 'no'.")


def test_eraser_annotations_with_bad_documents_or_evidence_are_skipped_with_reasons(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("not yours")
    folder = tmp_path / "set"
    wrong = {
        "../../secret": "'../../secret' lies outside of the folder 'docs'",
        str(secret): f"{str(secret)[:20]}",
        "link": "'link' is a link that leads out of the folder 'docs'",
        "none": "'none' in the folder 'docs' is not there",
        "latin": "The document 'latin' is not UTF-8 text",
    }
    lines = [annotation("good", [[evidence("a", 0, 1)]])]
    lines += [annotation(name[-8:], [[evidence(name, 0, 1)]]) for name in wrong]
    spans = {
        "outside": [[evidence("a", 0, 9)]],
        "reversed": [[evidence("a", 1, 0)]],
        "unsaid": [[evidence("a", -1, -1)]],
        "words": [[evidence("a", "0", "1")]],
        "no list": "none",
        "no docid": [[{"start_token": 0}]],
    }
    lines += [annotation(name, given) for name, given in spans.items()]
    lines += [annotation("last", [[evidence("a", 1, 2)]])]
    write_eraser_folder(folder, lines, {"a": "x y"})
    (folder / "docs" / "latin").write_bytes(b"caf\xe9")
    (folder / "docs" / "link").symlink_to(secret)
    found = list(open_dataset(str(folder)))
    assert [one.example.given for one in found if not isinstance(one, SkippedRow)] == ["x y", "x y"]
    bad = [one.why for one in found if isinstance(one, SkippedRow)]
    said = [
        *wrong.values(),
        "the evidence 0:9 lies outside of the document 'a' of 2 tokens",
        "the evidence 1:0 lies outside",
        "names neither tokens nor sentences",
        "the evidence 0:1 lies outside",
        "'evidences' must be lists of objects",
        "'evidences' must be lists of objects",
    ]
    assert len(bad) == len(said)
    assert all(part in why for part, why in zip(said, bad, strict=True)), bad
    assert not any("not yours" in why for why in bad)
    with pytest.raises(BadExamples, match=r"val.jsonl, line 2: '../../secret' lies outside"):
        read_dataset(folder)


def test_eraser_docs_folder_that_links_outside_raises_bad_examples(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("x y")
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "docs").symlink_to(tmp_path / "elsewhere")
    (folder / "val.jsonl").write_text(json.dumps(annotation("1", [[evidence("a", 0, 1)]])))
    with pytest.raises(BadExamples, match="'docs' is a link that leads out of the folder 'set'"):
        open_dataset(str(folder))


def test_eraser_split_defaults_to_test_and_an_unknown_split_raises_bad_examples(tmp_path):
    for split in ("train", "test"):
        write_eraser_folder(
            tmp_path, [annotation(split, [[evidence("a", 0, 1)]])], {"a": "x"}, split
        )
    (entry,) = open_dataset(str(tmp_path))
    assert entry.id == "test"
    with pytest.raises(BadExamples, match=r"no annotations 'dev.jsonl'; it has test, train"):
        open_dataset(f"{tmp_path}:dev")
