"""`whence explain --image` and `trust --image` commands: patch scores, targets, files, terminals, refusals."""

import io
import json
import re
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

SHAPES = ("explain", "--image", "shapes:7")


@pytest.fixture
def picture_file(tmp_path):
    """A file with a picture of our own, and a name that would be dangerous on a page."""
    from draw_shapes import draw_scene

    path = tmp_path / "<b>ring.png"
    Image.fromarray(draw_scene(7).pixels).save(path)
    return path


def test_explain_image_json_holds_the_picture_its_grid_and_patch_scores(run):
    status, out, err = run(*SHAPES, "--method", "rollout", "--method", "attcat", "--json")
    assert (status, err) == (0, "")
    payload = json.loads(out)
    assert payload["model"]["name"] == "shapes"
    assert payload["input"]["text"] is None
    picture = payload["picture"]
    assert (picture["name"], picture["width"], picture["height"]) == ("shapes:7", 64, 64)
    assert picture["grid"] == [8, 8]
    assert [e["method"] for e in payload["explanations"]] == ["rollout", "attcat"]
    assert all(len(e["scores"]) == 64 for e in payload["explanations"])


def test_explain_image_without_a_method_uses_generic_attention(run):
    payload = json.loads(run(*SHAPES, "--json")[1])
    assert [e["method"] for e in payload["explanations"]] == ["generic_attention"]
    assert payload["target"]["label"] == payload["prediction"]["label"]


def test_explain_image_of_several_targets_writes_sheet_page_and_json(run, tmp_path, picture_file):
    sheet, page = tmp_path / "maps.png", tmp_path / "why.html"
    asked = (
        "explain",
        "--image",
        picture_file,
        "--target",
        "ring",
        "--target",
        "square",
        "--target",
        "ring",
    )
    status, out, err = run(*asked, "--out", sheet, "--html", page)
    assert status == 0
    assert "generic_attention for ring" in out and "generic_attention for square" in out
    assert "\x1b" not in out and "The maps over the picture are on the page" in out
    said = err.replace("\n", "")
    assert f"wrote {sheet}" in said and f"wrote {page}" in said
    picture = Image.open(sheet)
    assert picture.format == "PNG"
    # A margin of 28 on both sides, the picture and two maps of 4 x 64 pixels, two gaps of 16.
    assert picture.size[0] == 2 * 28 + 3 * 256 + 2 * 16
    assert "generic_attention for square" in picture.text["Description"]
    html = page.read_text()
    assert html.count('src="data:image/png;base64,') == 3
    assert "<b>ring" not in html and "&lt;b&gt;ring.png" in html
    payload = json.loads(run(*asked, "--json")[1])
    assert (payload["version"], payload["kind"]) == (1, "targets")
    assert [one["target"]["label"] for one in payload["targets"]] == ["ring", "square"]


def test_strongest_patch_of_a_target_lies_on_its_object(run, tmp_path):
    from draw_shapes import draw_scene

    scene, sheet = draw_scene(7), tmp_path / "maps.png"
    asked = ("--method", "transformer_attribution", "--target", "ring", "--target", "square")
    assert run(*SHAPES, *asked, "--out", sheet)[0] == 0
    seen = np.asarray(Image.open(sheet).convert("RGB")).astype(int)
    for place, label in enumerate(("ring", "square"), start=1):
        left = 28 + place * (256 + 16)
        drawn = seen[92 : 92 + 256, left : left + 256]
        # Yellow is what is strongest: much red and green, little blue.
        yellow = drawn[..., :2].min(-1) - drawn[..., 2]
        y, x = np.unravel_index(yellow.argmax(), yellow.shape)
        down, across = y // 32 * 8, x // 32 * 8  # the patch, in pixels of the picture
        patch = {
            name: mask[down : down + 8, across : across + 8] for name, mask in scene.masks.items()
        }
        assert [name for name, mask in patch.items() if mask.any()] == [label]


def test_explain_text_of_several_targets_gives_every_target(run):
    text = ("explain", "a dull film", "--target", "positive", "--target", "negative")
    status, out, _ = run(*text)
    assert status == 0
    assert "blue speaks for positive" in out and "blue speaks for negative" in out
    payload = json.loads(run(*text, "--json")[1])
    assert [one["target"]["label"] for one in payload["targets"]] == ["positive", "negative"]


def test_explain_image_prints_bars_in_colour_only_to_a_colour_terminal(run, monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("COLUMNS", "80")
    piped = run(*SHAPES)[1]
    assert "\x1b" not in piped and "row 2, column 3" in piped and "████" in piped
    monkeypatch.setenv("FORCE_COLOR", "1")
    seen = run(*SHAPES)[1]
    assert "38;2;" in seen
    assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", seen).splitlines()) <= 80
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;2;" not in run(*SHAPES)[1]


@pytest.mark.xdist_group("app")
def test_explain_image_in_an_ascii_terminal_prints_ascii_bars(warm):
    with warm.start(*SHAPES, PYTHONIOENCODING="ascii") as process:
        out, err = process.communicate()
    assert process.returncode == 0, err
    assert out.isascii()
    assert "####" in out
    assert "\x1b" not in out


def bomb(path, side=60_000):
    """A PNG of a few bytes that says it has 3.6 thousand million pixels."""

    def chunk(kind, data):
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")
    )
    return path


def text_file(path):
    path.write_text("no picture at all")
    return path


def broken(path):
    stream = io.BytesIO()
    Image.new("RGB", (64, 64), "red").save(stream, "PNG")
    path.write_bytes(stream.getvalue()[:60])
    return path


@pytest.mark.parametrize("command", ["explain", "trust"])
@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path, "No such file"),
        (lambda path: path.parent, "Is a directory"),
        (text_file, "is not a picture"),
        (broken, "cut off or broken"),
        (bomb, "more pixels than can be unpacked safely"),
    ],
    ids=["missing", "folder", "text", "broken", "bomb"],
)
def test_a_file_that_is_no_picture_is_refused_in_one_line(run, tmp_path, command, make, why):
    status, out, err = run(command, "--image", make(tmp_path / "photo.png"))
    assert (status, out) == (14, "")
    assert why in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (("explain",), 22, "There is nothing to explain"),
        (("trust",), 22, "There is nothing to explain"),
        (("explain", "a text", "--image", "shapes:1"), 22, "not both"),
        (("explain", "a text", "--image", "shapes:1", "--model", "reviews"), 22, "not both"),
        (
            ("explain", "--image", "shapes:1", "--pair", "a text"),
            22,
            "--pair is the second of two texts",
        ),
        (("explain", "--image", "shapes:one"), 22, "shapes:one"),
        (("explain", "--image", "shapes:1", "--model", "reviews"), 14, "takes texts"),
        (("explain", "--image", "shapes:1", "--target", "cat"), 21, "cat"),
        (
            (
                "explain",
                "--image",
                "shapes:1",
                "--method",
                "leave_one_out",
                "--param",
                "remove=mask",
            ),
            22,
            "mask",
        ),
        (("explain", "a text", "--out", "maps.png"), 22, "--out writes maps over a picture"),
        (("explain", "--image", "shapes:1", "--out", "maps.jpg"), 22, "ends in .png"),
        (
            ("explain", "--image", "shapes:1", "--out", "no/such/folder/maps.png"),
            40,
            "there is no folder",
        ),
    ],
)
def test_image_options_that_do_not_fit_print_one_line_and_their_own_status(
    run, arguments, status, why
):
    found, out, err = run(*arguments)
    assert (found, out) == (status, "")
    assert why in err and err.count("\n") == 1


def test_trust_command_of_a_picture_tests_and_counts_patches(run, tmp_path):
    page = tmp_path / "trust.html"
    asked = (
        "trust",
        "--image",
        "shapes:7",
        "--method",
        "leave_one_out",
        "--remove",
        "black",
        "--budget",
        "700",
    )
    status, out, _ = run(*asked, "--html", page)
    assert status == 0
    assert "64 patches, painted black" in " ".join(out.split())
    assert "patches removed" in out and "token" not in out
    html = page.read_text()
    assert html.count('src="data:image/png;base64,') == 2
    assert "Does the probability fall when the patches it points at are removed?" in html
    # A patch is its own word; with so small a budget there are no random rankings, and it says so.
    payload = json.loads(run(*asked[:-1], "90", "--unit", "word", "--json")[1])
    assert (payload["unit"], payload["units"], payload["remove"]) == ("patch", 64, ["black"])
    assert payload["picture"]["grid"] == [8, 8]
