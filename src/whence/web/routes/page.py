"""The page itself: the files that were built from web/, out of the package."""

import hashlib
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import Response

from whence.core.errors import CannotServe, NotFound

router = APIRouter(include_in_schema=False)

_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "png": "image/png",
    "ico": "image/x-icon",
}


def built() -> Traversable:
    """Return the folder of the built page, or say how to build it."""
    folder = files("whence.web") / "static"
    if not (folder / "index.html").is_file():
        raise CannotServe(
            "The page has not been built: whence/web/static/index.html is missing. Run `npm ci && npm run build` in "
            "web/, or install whence from a wheel."
        )
    return folder


@router.get("/")
def index(request: Request) -> Response:
    """Give the page."""
    return _file("index.html", request)


@router.get("/{name}")
def part(name: str, request: Request) -> Response:
    """Give a script, a style or a picture of the page."""
    return _file(name, request)


def _file(name: str, request: Request) -> Response:
    # By name out of what is there: no path is ever made of what was asked for.
    found = {one.name: one for one in built().iterdir() if one.is_file()}
    media = _TYPES.get(name.rpartition(".")[2])
    if name not in found or media is None:
        raise NotFound(f"There is nothing at /{name[:100]}.")
    content = found[name].read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    # Checked each time, so that a page never meets the script of another version.
    headers = {"etag": tag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media, headers=headers)
