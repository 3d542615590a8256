"""Images: open_image reads files, bytes, arrays and PIL images as RGB, and refuses bombs and broken files."""

import os
import struct
import subprocess
import sys
import zlib
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from whence.core.errors import BadPicture
from whence.data import images


def drawn(width=20, height=12):
    """A picture whose pixels are all different: red grows to the right, green downwards."""
    rows, columns = np.mgrid[:height, :width]
    return np.stack([columns * 10, rows * 20, np.full_like(rows, 7)], axis=2).astype(np.uint8)


def as_bytes(picture, kind="PNG", **more):
    stream = BytesIO()
    picture.save(stream, kind, **more)
    return stream.getvalue()


def test_open_image_of_path_bytes_array_and_pil_image_gives_the_same_pixels(tmp_path):
    pixels = drawn()
    file = tmp_path / "drawn.png"
    Image.fromarray(pixels).save(file)

    class Stored:
        def read(self):
            return file.read_bytes()

    ways = [pixels, pixels / 255, Image.fromarray(pixels), file, str(file), file.read_bytes(), Stored()]  # fmt: skip
    for way in ways:
        found = images.open_image(way)
        assert found.mode == "RGB"
        np.testing.assert_array_equal(np.asarray(found), pixels)


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_open_image_reads_common_file_formats_as_rgb(kind):
    found = images.open_image(as_bytes(Image.fromarray(drawn()), kind))
    assert found.size == (20, 12) and found.mode == "RGB"


def test_open_image_converts_grey_cmyk_transparent_and_palette_images_to_rgb():
    grey = Image.fromarray(np.full((4, 5), 90, np.uint8))
    assert np.asarray(images.open_image(grey)).tolist() == [[[90] * 3] * 5] * 4
    deep = Image.fromarray(np.full((4, 5), 65535 // 2, np.uint16))
    # 32767 / 65535 of 255 is 127.498.
    assert np.asarray(images.open_image(deep)).tolist() == [[[127] * 3] * 5] * 4
    cmyk = Image.fromarray(np.zeros((4, 5, 4), np.uint8), mode="CMYK")
    assert np.asarray(images.open_image(cmyk)).tolist() == [[[255] * 3] * 5] * 4
    # Half of black over white; where nothing is seen, white, whatever colour hides there.
    clear = np.zeros((1, 2, 4), np.uint8)
    clear[0, 0, 3] = 128
    assert np.asarray(images.open_image(clear)).tolist() == [[[127] * 3, [255] * 3]]
    palette = Image.fromarray(drawn()).convert("P")
    assert images.open_image(as_bytes(palette, "GIF")).mode == "RGB"
    first = palette.getpixel((0, 0))
    hidden = images.open_image(as_bytes(palette, "PNG", transparency=first))
    assert hidden.getpixel((0, 0)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("values", "eight"),
    [
        (np.array([[0, 255]], np.uint16), [0, 1]),  # sixteen bits, all dark: 0.99 of eight
        (np.array([[0.0, 0.5, 1.0]], np.float32), [0, 128, 255]),  # shares of white
        (np.array([[0.0, 51.0, 255.0]], np.float32), [0, 51, 255]),
        (np.array([[-0.1, 0.0, 0.1]], np.float32), [0, 128, 255]),  # stretched
        (np.full((1, 2), 70_000, np.int32), [0, 0]),  # nothing to stretch
    ],
)
def test_open_image_of_deep_grey_values_scales_to_eight_bits(values, eight):
    assert np.asarray(images.open_image(Image.fromarray(values)))[0, :, 0].tolist() == eight


def test_open_image_turns_an_image_by_its_exif_orientation():
    turned = Image.Exif()
    turned[0x0112] = 6  # lies on its side
    raw = as_bytes(Image.fromarray(drawn()), "JPEG", exif=turned, quality=100)
    found = images.open_image(raw)
    assert found.size == (12, 20)
    red = np.asarray(found)[:, :, 0].astype(int)
    assert red[-1].mean() - red[0].mean() > 150  # what grew to the right now grows downwards


def test_open_image_with_broken_exif_reads_the_pixels_without_warning():
    """Warnings are errors in tests."""
    raw = as_bytes(Image.fromarray(drawn()), "JPEG", exif=b"Exif\0\0II*\0\xff\xff\xff\xff")
    assert images.open_image(raw).size == (20, 12)


def test_open_image_of_an_animation_takes_the_first_frame():
    first, second = (Image.new("RGB", (6, 6), colour) for colour in ("red", "blue"))
    raw = as_bytes(first, "GIF", save_all=True, append_images=[second])
    assert np.asarray(images.open_image(raw))[0, 0].tolist() == [255, 0, 0]


def png_of(width, height, rows=b""):
    """A PNG file that says how large it is, and holds what it is given."""

    def chunk(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows)), chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


@pytest.mark.parametrize("side", [9_000, 60_000, 2**31 - 1])
def test_open_image_refuses_a_decompression_bomb_before_reading_pixels(side, monkeypatch):
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("a pixel was read"))
    with pytest.raises(BadPicture, match="pixels"):
        images.open_image(png_of(side, side), "bomb.png")


def test_open_image_refuses_a_gif_frame_larger_than_its_animation():
    raw = bytearray(as_bytes(Image.fromarray(drawn()).convert("P"), "GIF"))
    frame = raw.index(b",\0\0\0\0")  # where a frame begins, at the upper left
    raw[frame + 5 : frame + 9] = struct.pack("<HH", 65535, 65535)
    with pytest.raises(BadPicture, match="pixels"):
        images.open_image(bytes(raw))


def test_open_image_turns_the_bomb_warning_of_pil_into_bad_picture(monkeypatch):
    monkeypatch.setattr(
        Image, "MAX_IMAGE_PIXELS", 200
    )  # 240 are given; twice as many would be an error
    with pytest.raises(BadPicture, match="unpacked safely"):
        images.open_image(as_bytes(Image.fromarray(drawn())))


def test_open_image_refuses_a_file_over_the_size_limit_without_reading(tmp_path, monkeypatch):
    file = tmp_path / "large.png"
    file.write_bytes(as_bytes(Image.fromarray(drawn())))
    monkeypatch.setattr(images, "_MAX_FILE_BYTES", 10)
    monkeypatch.setattr(Path, "read_bytes", lambda _: pytest.fail("it was read"))
    with pytest.raises(BadPicture, match="MB"):
        images.open_image(file)


@pytest.mark.parametrize(
    "raw",
    [b"", b"not a picture", b"\x89PNG\r\n\x1a\n", b"<svg/>"],
    ids=["nothing", "text", "only a head", "svg"],
)
def test_open_image_of_bytes_that_are_no_image_raises_bad_picture_with_the_name(raw):
    with pytest.raises(BadPicture, match=r"'x\.png'"):
        images.open_image(raw, "x.png")


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_open_image_of_a_truncated_file_reads_or_raises_bad_picture(kind):
    """No cut leads to another kind of error; some decoders read what is there."""
    raw = as_bytes(Image.fromarray(drawn(60, 50)), kind)
    refused = 0
    for cut in range(0, len(raw), max(1, len(raw) // 60)):
        try:
            assert images.open_image(raw[:cut]).size == (60, 50)
        except BadPicture:
            refused += 1
    assert refused > 10


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_open_image_of_a_pipe_or_device_raises_bad_picture_at_once(kind, tmp_path):
    path = Path("/dev/zero")
    if kind == "pipe":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    with pytest.raises(BadPicture, match="no ordinary file"):
        images.open_image(path)


def test_open_image_of_a_folder_or_link_loop_raises_bad_picture_with_the_name(tmp_path):
    loop = tmp_path / "loop.png"
    loop.symlink_to(loop)
    for path in (tmp_path, loop):
        with pytest.raises(BadPicture, match=f"Cannot read '{path.name}'"):
            images.open_image(path)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (Path("nowhere/cat.png"), "No such file"),
        ("a\0b.png", "null byte"),
        ("https://example.org/cat.png", "fetches nothing"),
        (StringIO("/etc/hostname"), "holds text"),
        (np.zeros((3, 4, 5)), r"\(3, 4, 5\)"),
        (np.zeros((4, 5, 3), np.int64), "int64"),
        (np.full((4, 5, 3), 2.0), "from 0 to 1"),
        (np.full((4, 5, 3), np.nan), "from 0 to 1"),
        (np.zeros((0, 5, 3), np.uint8), "empty"),
        (Image.fromarray(np.full((2, 2), np.nan, np.float32)), "NaN"),
        (Image.new("RGB", (0, 5)), "empty"),
        (42, "a int"),
    ],
)
def test_open_image_of_invalid_paths_arrays_and_types_raises_bad_picture_with_reason(given, says):
    with pytest.raises(BadPicture, match=says):
        images.open_image(given)


@pytest.mark.parametrize("mode", ["I;16", "I", "F", "RGBA", "LA", "P"])
def test_open_image_in_strips_gives_the_same_bytes_as_in_one_piece(mode, monkeypatch):
    numbers = np.random.default_rng(0)
    if mode in ("I;16", "I", "F"):
        kind = {"I;16": np.uint16, "I": np.int32, "F": np.float32}[mode]
        picture = Image.fromarray(numbers.integers(0, 60_000, (13, 9)).astype(kind))
    else:
        picture = Image.fromarray(numbers.integers(0, 255, (13, 9, 4)).astype(np.uint8)).convert(
            mode
        )
        if mode == "P":
            picture.info["transparency"] = 3
    assert picture.mode == mode
    whole = images.open_image(picture)
    monkeypatch.setattr(images, "_STRIP_PIXELS", 30)
    assert images.open_image(picture).tobytes() == whole.tobytes()


@pytest.mark.parametrize("mode", ["I;16", "RGBA"])
def test_open_image_of_the_largest_allowed_image_takes_less_than_a_gigabyte(mode, tmp_path):
    """8192 x 8192 pixels are allowed; sixteen bits of each took 2.4 GB on their way to eight."""
    colour = "1000" if mode == "I;16" else "(0, 9, 9, 128)"
    program = f"""
import resource
from io import BytesIO
from PIL import Image
from tests.peak import peak_kilobytes
from whence.data import images
given = BytesIO()
Image.new({mode!r}, (8192, 8192), {colour}).save(given, "PNG", compress_level=1)
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
assert images.open_image(given.getvalue()).size == (8192, 8192)
print(peak_kilobytes())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-1000:]
    # Kilobytes of all of it: the picture as it comes, with four bytes a pixel, and as it is then, and imports.
    assert int(done.stdout) < 900_000
