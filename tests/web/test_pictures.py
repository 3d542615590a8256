"""Pictures that are brought in: read by what they are, whatever they are called, and refused before they do harm."""

import base64
import io
import zlib
from struct import pack

import numpy as np
import pytest
from PIL import Image

from tests.web.serving import ask, begun, ended, refused
from whence.core.errors import NotFound
from whence.data.vision.shapes import draw
from whence.web.app import create_app
from whence.web.pictures import Pictures
from whence.web.settings import Settings


def file_of(pixels, kind="PNG"):
    """Write pixels as a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


DRAWN = draw(3).pixels
PNG = file_of(DRAWN)


def chunk(name, data):
    return pack(">I", len(data)) + name + data + pack(">I", zlib.crc32(name + data))


def bomb(side):
    """A PNG of a few bytes that says it has side x side pixels."""
    header = pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    data = zlib.compress(b"\0" * 100)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    )


@pytest.fixture(scope="module")
def app():
    app = create_app(Settings(models=("shapes", "reviews"), kept=3, upload=200_000))
    yield app
    assert app.state.desk.close(10)


def put(app, name, raw):
    return ask(app, "PUT", "/api/pictures", params={"name": name}, content=raw)


def explain(app, methods=("attcat",), **given):
    body = {"input": {"model": "shapes", **given}, "methods": list(methods)}
    return ask(app, "POST", "/api/explain", json=body)


def test_a_picture_is_brought_in_and_explained(app):
    entry = put(app, "my drawing.png", PNG).json()
    assert entry == {"id": "my-drawing.png", "name": "my drawing.png", "width": 64, "height": 64}
    found = explain(app, ["attcat", "rollout"], picture=entry["id"]).json()
    picture = found["picture"]
    assert (picture["width"], picture["height"], picture["grid"]) == (64, 64, [8, 8])
    assert picture["name"] == "my drawing.png"
    seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture["png"]))))
    assert np.abs(seen.astype(int) - DRAWN.astype(int)).max() <= 1  # normalised and back again
    assert [len(one["scores"]) for one in found["explanations"]] == [64, 64]


def test_a_drawing_is_the_picture_of_its_number(app):
    """The same pixels, brought as a file or named: the same scores."""
    brought = explain(app, picture=put(app, "a.png", PNG).json()["id"]).json()
    drawn = explain(app, picture="shapes:3").json()
    assert drawn["picture"]["png"] == brought["picture"]["png"]
    assert drawn["explanations"][0]["scores"] == brought["explanations"][0]["scores"]
    assert drawn["picture"]["name"] == "shapes:3"


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP"])
def test_what_a_file_is_counts_and_not_what_it_is_called(app, kind):
    entry = put(app, "x.txt", file_of(DRAWN, kind)).json()
    assert (entry["width"], entry["height"]) == (64, 64)


@pytest.mark.parametrize(
    ("raw", "status", "code"),
    [
        (b"", 422, "bad-picture"),
        (b"text,label\na,b\n", 422, "bad-picture"),
        (PNG[: len(PNG) // 2], 422, "bad-picture"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "bad-picture"),
        (bomb(60_000), 422, "bad-picture"),
        (b"\0" * 200_001, 413, "too-large"),
    ],
    ids=["empty", "table", "cut", "svg", "bomb", "large"],
)
def test_what_is_no_picture_is_refused(app, raw, status, code):
    said = refused(put(app, "a.png", raw), status, code)
    assert "/" not in said["message"].replace("(height, width)", "")  # no path of this machine


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "C:\\x\\a.png", "a\0b.png", "..", "%2e%2e%2fa"]
)
def test_a_name_is_a_name_and_no_path(app, name):
    entry = put(app, name, PNG).json()
    assert "/" not in entry["id"] and "\\" not in entry["id"] and not entry["id"].startswith(".")
    assert explain(app, picture=entry["id"]).status_code == 200


@pytest.mark.parametrize(
    "picture", ["/etc/hostname", "../a.png", "nothing.png", "shapes:", "shapes:-1", "shapes:x"]
)
def test_what_was_not_brought_in_is_not_there(app, picture):
    refused(explain(app, picture=picture), 404, "not-found")


def test_text_in_the_place_of_a_picture_opens_no_file(app, tmp_path):
    """A model of pictures takes a path in Python; over the wire a text is never one."""
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    said = refused(explain(app, text=str(path)), 422, "bad-parameter")
    assert "Bring one in" in said["message"]


def test_a_picture_means_nothing_to_a_model_of_texts(app):
    said = explain(app, model="reviews", text="a fine film", picture="shapes:1")
    assert "reads texts" in refused(said, 422, "bad-parameter")["message"]


def test_only_so_many_are_kept():
    kept = Pictures(Settings(kept=2))
    ids = [kept.bring("a.png", PNG)["id"] for _ in range(3)]
    assert ids == ["a.png", "a.png-2", "a.png-3"]
    found = kept.get("a.png-3")
    assert (found.name, found.read().size) == ("a.png", (64, 64))
    with pytest.raises(Exception, match="oldest of more than 2"):
        kept.get("a.png")


def test_only_so_many_bytes_are_kept(monkeypatch):
    monkeypatch.setattr("whence.web.pictures._BYTES", 2 * len(PNG))
    kept = Pictures(Settings(kept=64))
    for _ in range(3):
        kept.bring("a.png", PNG)
    assert kept.get("a.png-2").read().size == (64, 64)
    with pytest.raises(NotFound, match="Bring it in again"):
        kept.get("a.png")


def test_the_list_says_that_it_looks_at_pictures(app):
    entry = ask(app, "POST", "/api/models", json={"name": "shapes"}).json()
    assert (entry["modality"], entry["draws"]) == ("picture", True)
    assert "too many edges" in entry["attention"]
    flow = ask(app, "POST", "/api/flow", json={"input": {"model": "shapes", "picture": "shapes:1"}})
    assert "too many edges" in refused(flow, 422, "not-capturable")["message"]


def test_trust_of_a_picture(app):
    body = {
        "input": {"model": "shapes", "picture": "shapes:3"},
        "methods": ["attcat"],
        "budget": 200,
    }
    job = ended(app, begun(app, "/api/jobs/trust", body))
    assert job["state"] == "done", job["error"]
    (one,) = job["result"]["methods"]
    assert len(one["scores"]) == 64
