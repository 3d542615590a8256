"""What an example, a tokenizer and some code are known by: what they say, wherever they lie."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import whence
from whence.core.registry import Entry
from whence.data.sets.examples import Example, Span
from whence.data.sets.pictures import Outlined, Stored
from whence.methods import method
from whence.models.catalogue import builtin_folder
from whence.run.code import _AUDITS, _PACKAGE, _digest, source_of
from whence.run.keys import digest, example_digest, given_digest, key, key_for
from whence.run.task import Item
from whence.run.tokens import processor_digest, tokenizer_digest

FILM = Example("a film", "positive", (Span(0, 2, 6),))


def test_plain_data_has_one_hash_whatever_the_order_of_names():
    assert digest({"a": 1, "b": [2.5, None]}) == digest({"b": (2.5, None), "a": 1})
    assert digest({"a": 1}) != digest({"a": "1"})
    with pytest.raises(ValueError, match="JSON compliant"):
        digest(float("nan"))


@pytest.mark.parametrize(
    "other",
    [
        replace(FILM, given="a  film"),
        replace(FILM, given=("a film", "")),
        replace(FILM, label=None),
        replace(FILM, label="negative"),
        replace(FILM, rationale=None),
        replace(FILM, rationale=()),
        replace(FILM, rationale=(Span(0, 2, 5),)),
        replace(FILM, rationale=(Span(1, 2, 6),)),
        replace(FILM, mask=Outlined(Stored(b"1", "a"))),
    ],
)
def test_all_that_an_example_says_counts(other):
    assert example_digest(other) != example_digest(FILM)
    assert example_digest(replace(other)) == example_digest(other)
    # What is given to the model is the text alone.
    assert (given_digest(other) == given_digest(FILM)) == (other.given == FILM.given)


def test_nothing_that_was_marked_is_not_nobody_who_was_asked():
    unasked, unmarked = replace(FILM, rationale=None), replace(FILM, rationale=())
    assert example_digest(unasked) != example_digest(unmarked)
    unlabelled = replace(FILM, label=None), replace(FILM, label="None"), replace(FILM, label="null")
    assert len({example_digest(one) for one in unlabelled}) == 3


def test_a_text_is_no_pair_and_no_picture():
    texts = [Example("ab"), Example(("a", "b")), Example(("ab", "")), Example(("text", "ab"))]
    seen = Example(Stored(b"ab", "ab"))
    assert len({given_digest(one) for one in (*texts, seen)}) == 5
    assert example_digest(Example("\ud800 alone"))  # half a character is a text, too


def test_a_picture_is_known_by_its_contents_not_by_its_name_or_place(tmp_path):
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    Image.fromarray(pixels).save(one)
    shutil.copy(one, other)
    same = [
        Stored(one, "one"),
        Stored(other, "other"),
        Stored(one.read_bytes(), "bytes"),
        Stored(bytearray(one.read_bytes()), "more"),
    ]
    assert len({given_digest(Example(each)) for each in same}) == 1
    arrays = [Stored(pixels, "a"), Stored(pixels.copy(), "b"), Stored(Image.fromarray(pixels), "c")]
    assert len({given_digest(Example(each)) for each in arrays}) == 1
    turned = Stored(pixels.transpose(1, 0, 2).copy(), "a")
    wide = Stored(pixels.reshape(2, 8, 3), "a")
    changed = pixels.copy()
    changed[0, 0, 0] += 1
    found = {
        given_digest(Example(each)) for each in (arrays[0], turned, wide, Stored(changed, "a"))
    }
    assert len(found) == 4
    # The same numbers stand for other colours where the palette is another.
    palettes = [Image.fromarray(np.zeros((2, 2), np.uint8), "L").convert("P") for _ in range(2)]
    palettes[1].putpalette([255] * 768)
    assert len({given_digest(Example(Stored(each, "p"))) for each in palettes}) == 2


def test_a_picture_that_is_not_there_has_a_hash_and_is_refused_later(tmp_path):
    gone = Example(Stored(tmp_path / "gone.png", "gone"))
    assert given_digest(gone) == given_digest(gone)
    assert given_digest(gone) != given_digest(Example(Stored(tmp_path / "gone.png", "other")))


def test_masks_count_by_their_pixels_and_by_how_they_are_read():
    seen = Stored(b"picture", "one")
    masks = [
        None,
        Outlined(Stored(b"1", "a")),
        Outlined(Stored(b"1", "a"), trimap=True),
        Outlined(Stored(b"2", "a")),
    ]
    assert len({example_digest(Example(seen, mask=mask)) for mask in masks}) == 4
    assert example_digest(Example(seen, mask=masks[1])) == example_digest(
        Example(seen, mask=Outlined(Stored(b"1", "b")))
    )


def test_a_key_has_what_of_the_example_counts():
    item = Item(3, "id", FILM, example_digest(FILM))
    unlabelled = replace(item, example=Example("a film"), digest=example_digest(Example("a film")))
    for part, same in (("given", True), ("given and label", False), ("all", False)):
        facts = {"example": part}
        assert (key_for("s", facts, item) == key_for("s", facts, unlabelled)) == same
        assert key_for("s", facts, item) == key_for("s", facts, replace(item, row=9, id="other"))
        assert key_for("s", facts, item) != key_for("t", facts, item)
    unmarked = replace(item, example=replace(FILM, rationale=None))
    labelled = {"example": "given and label"}
    assert key_for("s", labelled, item) == key_for("s", labelled, unmarked)
    assert key_for("s", {}, item) == key("s", item.digest)  # who does not say it means all


def test_code_counts_by_file_and_place(tmp_path):
    for name, text in (
        ("core/a.py", "1"),
        ("core/b/c.py", "2"),
        ("cli/d.py", "3"),
        ("run/work.py", "4"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def found():
        return _digest(tmp_path, ("core", "run/work.py"))

    before = found()
    (tmp_path / "cli/d.py").write_text("30")
    (tmp_path / "core/a.txt").write_text("no code")
    assert found() == before
    (tmp_path / "core/b/c.py").write_text("20")
    changed = found()
    assert changed != before
    (tmp_path / "core/b/c.py").rename(tmp_path / "core/b/e.py")
    assert found() not in (before, changed)
    (tmp_path / "core/b/e.py").rename(tmp_path / "core/b/c.py")
    (tmp_path / "core/b/c.py").write_text("2")
    assert found() == before


def test_all_places_where_code_computes_are_there():
    for place in _AUDITS:
        assert place.endswith(".py") or any((_PACKAGE / place).rglob("*.py")), place
        assert (_PACKAGE / place).exists(), place


def test_somebody_elses_method_counts_by_its_source(tmp_path, monkeypatch):
    assert source_of(method.get("attcat")) is None
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for number in range(2):
        (tmp_path / f"stranger{number}.py").write_text(f"def mine(trial):\n    return {number}\n")
        module = __import__(f"stranger{number}")
        found.append(source_of(Entry("mine", module.mine, {}, {})))
    typed: dict = {}
    exec("def mine(trial): return 0", {"__name__": "nowhere"}, typed)  # noqa: S102
    exec("def other(trial): return 1", {"__name__": "nowhere"}, typed)  # noqa: S102
    found += [source_of(Entry(name, one, {}, {})) for name, one in typed.items()]
    assert len({*found, None}) == 5


def test_a_tokenizer_is_known_by_its_rules_wherever_it_lies(tmp_path):
    here = whence.load("reviews").loaded
    shutil.copytree(builtin_folder("reviews"), tmp_path / "copy")
    there = whence.load(str(tmp_path / "copy")).loaded
    before = tokenizer_digest(here)
    assert tokenizer_digest(there) == before
    # What it was told when it was called last is no rule.
    there.tokenizer(["a film", "a"], truncation=True, max_length=3, padding=True)
    assert tokenizer_digest(there) == before
    assert tokenizer_digest(replace(there, max_length=7)) != before
    there.tokenizer.add_tokens(["gripping!"])
    assert tokenizer_digest(there) != before
    assert tokenizer_digest(replace(here, tokenizer=None)) is None


def test_an_image_processor_is_known_by_its_settings():
    loaded = whence.load("shapes").loaded
    before = processor_digest(loaded)
    assert processor_digest(whence.load("shapes").loaded) == before
    loaded.processor.image_mean = [0.1, 0.2, 0.3]
    assert processor_digest(loaded) != before
    assert processor_digest(whence.load("reviews").loaded) is None
