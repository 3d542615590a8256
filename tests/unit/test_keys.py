"""Result keys: identity of examples, images, tokenizers, image processors and code by their contents."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import whence
from whence.core.registry import Entry
from whence.data.dataset import compute_example_id, compute_input_id, hash_json
from whence.data.eraser import RationaleSpan
from whence.data.example import Example, ImageMask, StoredImage
from whence.methods import method
from whence.models.model_files import find_builtin_folder
from whence.runs.task import (
    _AUDIT_SOURCES,
    _PACKAGE,
    Item,
    _digest_source_files,
    compute_example_key,
    compute_processor_digest,
    compute_result_key,
    compute_source_digest,
    compute_tokenizer_digest,
)

FILM = Example("a film", "positive", (RationaleSpan(0, 2, 6),))


def test_hash_json_ignores_the_order_of_names_and_refuses_nan():
    assert hash_json({"a": 1, "b": [2.5, None]}) == hash_json({"b": (2.5, None), "a": 1})
    assert hash_json({"a": 1}) != hash_json({"a": "1"})
    with pytest.raises(ValueError, match="JSON compliant"):
        hash_json(float("nan"))


@pytest.mark.parametrize(
    "other",
    [
        replace(FILM, given="a  film"),
        replace(FILM, given=("a film", "")),
        replace(FILM, label=None),
        replace(FILM, label="negative"),
        replace(FILM, rationale=None),
        replace(FILM, rationale=()),
        replace(FILM, rationale=(RationaleSpan(0, 2, 5),)),
        replace(FILM, rationale=(RationaleSpan(1, 2, 6),)),
        replace(FILM, mask=ImageMask(StoredImage(b"1", "a"))),
    ],
)
def test_example_id_changes_with_every_field_and_input_id_with_the_text_only(other):
    assert compute_example_id(other) != compute_example_id(FILM)
    assert compute_example_id(replace(other)) == compute_example_id(other)
    # What is given to the model is the text alone.
    assert (compute_input_id(other) == compute_input_id(FILM)) == (other.given == FILM.given)


def test_example_id_tells_empty_rationale_from_none_and_label_none_from_its_text():
    unasked, unmarked = replace(FILM, rationale=None), replace(FILM, rationale=())
    assert compute_example_id(unasked) != compute_example_id(unmarked)
    unlabelled = replace(FILM, label=None), replace(FILM, label="None"), replace(FILM, label="null")
    assert len({compute_example_id(one) for one in unlabelled}) == 3


def test_input_id_of_a_text_a_pair_and_a_picture_all_differ():
    texts = [Example("ab"), Example(("a", "b")), Example(("ab", "")), Example(("text", "ab"))]
    seen = Example(StoredImage(b"ab", "ab"))
    assert len({compute_input_id(one) for one in (*texts, seen)}) == 5
    assert compute_example_id(Example("\ud800 alone"))  # half a character is a text, too


def test_input_id_of_a_picture_depends_on_contents_and_not_on_name_or_path(tmp_path):
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    one, other = tmp_path / "one.png", tmp_path / "other.png"
    Image.fromarray(pixels).save(one)
    shutil.copy(one, other)
    same = [
        StoredImage(one, "one"),
        StoredImage(other, "other"),
        StoredImage(one.read_bytes(), "bytes"),
        StoredImage(bytearray(one.read_bytes()), "more"),
    ]
    assert len({compute_input_id(Example(each)) for each in same}) == 1
    arrays = [
        StoredImage(pixels, "a"),
        StoredImage(pixels.copy(), "b"),
        StoredImage(Image.fromarray(pixels), "c"),
    ]
    assert len({compute_input_id(Example(each)) for each in arrays}) == 1
    turned = StoredImage(pixels.transpose(1, 0, 2).copy(), "a")
    wide = StoredImage(pixels.reshape(2, 8, 3), "a")
    changed = pixels.copy()
    changed[0, 0, 0] += 1
    found = {
        compute_input_id(Example(each))
        for each in (arrays[0], turned, wide, StoredImage(changed, "a"))
    }
    assert len(found) == 4
    # The same numbers stand for other colours where the palette is another.
    palettes = [Image.fromarray(np.zeros((2, 2), np.uint8), "L").convert("P") for _ in range(2)]
    palettes[1].putpalette([255] * 768)
    assert len({compute_input_id(Example(StoredImage(each, "p"))) for each in palettes}) == 2


def test_input_id_of_a_missing_picture_file_is_stable_and_depends_on_the_name(tmp_path):
    gone = Example(StoredImage(tmp_path / "gone.png", "gone"))
    assert compute_input_id(gone) == compute_input_id(gone)
    assert compute_input_id(gone) != compute_input_id(
        Example(StoredImage(tmp_path / "gone.png", "other"))
    )


def test_example_id_changes_with_mask_pixels_and_trimap_and_not_with_mask_name():
    seen = StoredImage(b"picture", "one")
    masks = [
        None,
        ImageMask(StoredImage(b"1", "a")),
        ImageMask(StoredImage(b"1", "a"), trimap=True),
        ImageMask(StoredImage(b"2", "a")),
    ]
    assert len({compute_example_id(Example(seen, mask=mask)) for mask in masks}) == 4
    assert compute_example_id(Example(seen, mask=masks[1])) == compute_example_id(
        Example(seen, mask=ImageMask(StoredImage(b"1", "b")))
    )


def test_example_key_covers_exactly_the_part_of_the_example_that_facts_name():
    item = Item(3, "id", FILM, compute_example_id(FILM), compute_input_id(FILM))
    unlabelled = replace(
        item, example=Example("a film"), digest=compute_example_id(Example("a film"))
    )
    for part, same in (("given", True), ("given and label", False), ("all", False)):
        facts = {"example": part}
        assert (
            compute_example_key("s", facts, item) == compute_example_key("s", facts, unlabelled)
        ) == same
        assert compute_example_key("s", facts, item) == compute_example_key(
            "s", facts, replace(item, row=9, id="other")
        )
        assert compute_example_key("s", facts, item) != compute_example_key("t", facts, item)
    unmarked = replace(item, example=replace(FILM, rationale=None))
    labelled = {"example": "given and label"}
    assert compute_example_key("s", labelled, item) == compute_example_key("s", labelled, unmarked)
    assert compute_example_key("s", {}, item) == compute_result_key(
        "s", item.digest
    )  # who does not say it means all


def test_source_digest_changes_with_content_and_path_of_the_listed_code_only(tmp_path):
    for name, text in (
        ("core/a.py", "1"),
        ("core/b/c.py", "2"),
        ("cli/d.py", "3"),
        ("run/work.py", "4"),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    def found():
        return _digest_source_files(tmp_path, ("core", "run/work.py"))

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


def test_audit_sources_are_existing_files_or_folders_with_code():
    for place in _AUDIT_SOURCES:
        assert place.endswith(".py") or any((_PACKAGE / place).rglob("*.py")), place
        assert (_PACKAGE / place).exists(), place


def test_source_digest_of_a_foreign_method_depends_on_its_source_code(tmp_path, monkeypatch):
    assert compute_source_digest(method.get("attcat")) is None
    monkeypatch.syspath_prepend(str(tmp_path))
    found = []
    for number in range(2):
        (tmp_path / f"stranger{number}.py").write_text(f"def mine(trial):\n    return {number}\n")
        module = __import__(f"stranger{number}")
        found.append(compute_source_digest(Entry("mine", module.mine, {}, {})))
    typed: dict = {}
    exec("def mine(trial): return 0", {"__name__": "nowhere"}, typed)  # noqa: S102
    exec("def other(trial): return 1", {"__name__": "nowhere"}, typed)  # noqa: S102
    found += [compute_source_digest(Entry(name, one, {}, {})) for name, one in typed.items()]
    assert len({*found, None}) == 5


def test_tokenizer_digest_depends_on_rules_and_not_on_folder_or_last_call(tmp_path):
    here = whence.load("reviews").loaded
    shutil.copytree(find_builtin_folder("reviews"), tmp_path / "copy")
    there = whence.load(str(tmp_path / "copy")).loaded
    before = compute_tokenizer_digest(here)
    assert compute_tokenizer_digest(there) == before
    # What it was told when it was called last is no rule.
    there.tokenizer(["a film", "a"], truncation=True, max_length=3, padding=True)
    assert compute_tokenizer_digest(there) == before
    assert compute_tokenizer_digest(replace(there, max_length=7)) != before
    there.tokenizer.add_tokens(["gripping!"])
    assert compute_tokenizer_digest(there) != before
    assert compute_tokenizer_digest(replace(here, tokenizer=None)) is None


def test_processor_digest_depends_on_settings_and_is_none_without_a_processor():
    loaded = whence.load("shapes").loaded
    before = compute_processor_digest(loaded)
    assert compute_processor_digest(whence.load("shapes").loaded) == before
    loaded.processor.image_mean = [0.1, 0.2, 0.3]
    assert compute_processor_digest(loaded) != before
    assert compute_processor_digest(whence.load("reviews").loaded) is None
