"""Uploaded pictures: read by their content, explained by id, and refused when broken or too large."""

import base64
import io
import zlib
from struct import pack

import numpy as np
import pytest
from draw_shapes import draw_scene
from PIL import Image

from tests.web.serving import ask, assert_error, begin_job, wait_for_job
from whence.app.models import Pictures
from whence.app.server import create_app
from whence.app.settings import Settings
from whence.core.errors import NotFound


def encode_picture(pixels, kind="PNG"):
    """Write pixels as a file."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind)
    return out.getvalue()


DRAWN = draw_scene(3).pixels
PNG = encode_picture(DRAWN)


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
    assert app.state.app_state.close(10)


def put(app, name, raw):
    return ask(app, "PUT", "/api/pictures", params={"name": name}, content=raw)


def explain(app, methods=("attcat",), **given):
    body = {"input": {"model": "shapes", **given}, "methods": list(methods)}
    return ask(app, "POST", "/api/explain", json=body)


def test_uploaded_picture_is_explained_with_one_score_per_patch(app):
    entry = put(app, "my drawing.png", PNG).json()
    assert entry == {"id": "my-drawing.png", "name": "my drawing.png", "width": 64, "height": 64}
    found = explain(app, ["attcat", "rollout"], picture=entry["id"]).json()
    picture = found["picture"]
    assert (picture["width"], picture["height"], picture["grid"]) == (64, 64, [8, 8])
    assert picture["name"] == "my drawing.png"
    seen = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture["png"]))))
    assert np.abs(seen.astype(int) - DRAWN.astype(int)).max() <= 1  # normalised and back again
    assert [len(one["scores"]) for one in found["explanations"]] == [64, 64]


def test_sample_picture_of_a_number_beyond_the_last_begins_again(app):
    """The page counts on; there are twelve pictures."""
    again, first = (explain(app, picture=name).json() for name in ("shapes:15", "shapes:3"))
    assert again["explanations"][0]["scores"] == first["explanations"][0]["scores"]
    assert again["picture"]["name"] == "shapes:15"


def test_sample_picture_equals_the_same_picture_uploaded(app):
    """The same pixels, brought as a file or named: the same scores."""
    brought = explain(app, picture=put(app, "a.png", PNG).json()["id"]).json()
    drawn = explain(app, picture="shapes:3").json()
    assert drawn["picture"]["png"] == brought["picture"]["png"]
    assert drawn["explanations"][0]["scores"] == brought["explanations"][0]["scores"]
    assert drawn["picture"]["name"] == "shapes:3"


@pytest.mark.parametrize("kind", ["JPEG", "WEBP", "GIF", "BMP"])
def test_picture_format_is_read_from_the_content_and_not_the_name(app, kind):
    entry = put(app, "x.txt", encode_picture(DRAWN, kind)).json()
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
def test_upload_of_a_file_that_is_no_picture_is_refused(app, raw, status, code):
    said = assert_error(put(app, "a.png", raw), status, code)
    assert "/" not in said["message"].replace("(height, width)", "")  # no path of this machine


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "C:\\x\\a.png", "a\0b.png", "..", "%2e%2e%2fa"]
)
def test_picture_id_from_a_path_like_name_contains_no_path(app, name):
    entry = put(app, name, PNG).json()
    assert "/" not in entry["id"] and "\\" not in entry["id"] and not entry["id"].startswith(".")
    assert explain(app, picture=entry["id"]).status_code == 200


@pytest.mark.parametrize(
    "picture", ["/etc/hostname", "../a.png", "nothing.png", "shapes:", "shapes:-1", "shapes:x"]
)
def test_explain_of_a_picture_that_was_not_uploaded_is_not_found(app, picture):
    assert_error(explain(app, picture=picture), 404, "not-found")


def test_path_as_text_for_a_picture_model_is_refused_and_opens_no_file(app, tmp_path):
    """A model of pictures takes a path in Python; over the wire a text is never one."""
    path = tmp_path / "a.png"
    path.write_bytes(PNG)
    said = assert_error(explain(app, text=str(path)), 422, "bad-parameter")
    assert "Bring one in" in said["message"]


def test_picture_for_a_text_model_is_a_bad_parameter(app):
    said = explain(app, model="reviews", text="a fine film", picture="shapes:1")
    assert "reads texts" in assert_error(said, 422, "bad-parameter")["message"]


def test_pictures_drops_the_oldest_beyond_the_number_limit():
    kept = Pictures(Settings(kept=2))
    ids = [kept.add_upload("a.png", PNG)["id"] for _ in range(3)]
    assert ids == ["a.png", "a.png-2", "a.png-3"]
    found = kept.get("a.png-3")
    assert (found.name, found.read().size) == ("a.png", (64, 64))
    with pytest.raises(Exception, match="oldest of more than 2"):
        kept.get("a.png")


def test_pictures_drops_the_oldest_beyond_the_byte_limit(monkeypatch):
    monkeypatch.setattr("whence.app.models._MAX_BYTES", 2 * len(PNG))
    kept = Pictures(Settings(kept=64))
    for _ in range(3):
        kept.add_upload("a.png", PNG)
    assert kept.get("a.png-2").read().size == (64, 64)
    with pytest.raises(NotFound, match="Bring it in again"):
        kept.get("a.png")


def test_picture_model_entry_states_its_modality_and_flow_is_refused(app):
    entry = ask(app, "POST", "/api/models", json={"name": "shapes"}).json()
    assert (entry["modality"], entry["draws"]) == ("picture", True)
    assert "too many edges" in entry["attention"]
    flow = ask(app, "POST", "/api/flow", json={"input": {"model": "shapes", "picture": "shapes:1"}})
    assert "too many edges" in assert_error(flow, 422, "not-capturable")["message"]


def test_trust_job_of_a_picture_has_one_score_per_patch(app):
    body = {
        "input": {"model": "shapes", "picture": "shapes:3"},
        "methods": ["attcat"],
        "budget": 200,
    }
    job = wait_for_job(app, begin_job(app, "/api/jobs/trust", body))
    assert job["state"] == "done", job["error"]
    (one,) = job["result"]["methods"]
    assert len(one["scores"]) == 64
