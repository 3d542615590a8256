"""The one shape of an error: what happened, the next step, where to read more; and its status."""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from whence.core import errors as known
from whence.core.errors import WhenceError
from whence.data.sets.columns import UnknownColumns
from whence.web.schema.base import TEXT

log = logging.getLogger("whence.web")

STATUS: Mapping[type[WhenceError], int] = {
    known.NotAllowed: 403,
    known.NotFound: 404,
    known.UnknownModel: 404,
    known.TooLarge: 413,
    known.Busy: 503,
    known.MethodError: 500,
    WhenceError: 422,
}
HINT: Mapping[str, str] = {
    "empty-text": "Type a text.",
    "too-long": "Shorten the text, or let it be cut.",
    "bad-encoding": "Check the text and the second text.",
    "bad-picture": "Bring another file: PNG, JPEG, WebP, GIF or BMP, of at most 67 million pixels.",
    "bad-examples": "Choose other columns, or correct the file and bring it in again.",
    "unknown-method": "Choose one of the methods on the help page.",
    "unknown-target": "Choose one of the model's labels.",
    "bad-parameter": "Set it back, or choose what the message names.",
    "unknown-metric": "Choose one of the metrics on the help page.",
    "unknown-experiment": "Choose one of the experiments on the help page.",
    "unknown-model": "Choose another model, or check the name or folder that this one was given by.",
    "unsafe-weights": "Convert the weights to safetensors first.",
    "no-tokenizer": "Choose a model that comes with its tokenizer.",
    "bad-tokenizer": "Choose a model with its own tokenizer; to compare, two models of one tokenizer.",
    "no-head": "Choose a classifier; of a model without a head only the attention can be seen.",
    "not-finite": "Start the app with --dtype float32 or float64.",
    "not-capturable": "Choose another method or edge weight, or another model.",
    "no-rule": "Choose another method or edge weight.",
    "out-of-memory": "Shorten the text, or start the app with --dtype bfloat16 or on a device with more memory.",
    "model-failed": "Give another text, or start the app with a model that runs on it by itself.",
    "cannot-write": "Make room, or start the app where it may write.",
    "cannot-read": "Give a file that whence wrote.",
    "bad-store": "Run the same command again, which mends what it can; `whence store verify` says what is damaged.",
    "not-allowed": "Open the address that `whence app` printed. For other models, start it with --model.",
    "not-found": "Reload the page, and ask again.",
    "too-large": "Give less at a time; the command line has no such limit.",
    "bad-request": "Reload the page; a script must keep to /api/openapi.json.",
    "busy": "Wait a little, or cancel the job that is running.",
}
_LONGEST = 4000  # characters of a message
_INTERNAL = "Please report it, with what the terminal says."


def fault(error: BaseException) -> dict[str, Any]:
    """Say what went wrong, in the one shape."""
    if isinstance(error, MemoryError) and not isinstance(error, WhenceError):
        error = known.OutOfMemory(
            "The server's memory was not enough for this. Give less at a time."
        )
    if isinstance(error, WhenceError):
        hint = HINT.get(error.code, _INTERNAL)
        message = str(error)  # may name all columns of a file
        message = message if len(message) <= _LONGEST else f"{message[:_LONGEST]} ..."
        told = {"code": error.code, "message": message, "hint": hint, "see": error.page}
        return {**told, **_table(error)}
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return {
        "code": "internal-error",
        "message": f"Something went wrong inside whence ({said}).",
        "hint": _INTERNAL,
        "see": "docs/errors/README.md",
    }


def _table(error: WhenceError) -> dict[str, Any]:
    """Return the columns and first rows of a table whose columns have to be chosen."""
    if not isinstance(error, UnknownColumns):
        return {}
    return {"table": {"columns": list(error.columns), "rows": [list(row) for row in error.first]}}


def status(error: BaseException) -> int:
    """Return the HTTP status that fits."""
    if not isinstance(error, WhenceError):
        return 500
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def failure(error: BaseException, code: int | None = None) -> JSONResponse:
    """Answer with an error."""
    return JSONResponse(
        {"ok": False, "error": fault(error)}, status_code=status(error) if code is None else code
    )


def install(app: FastAPI) -> None:
    """Have every error of an application answered in the one shape."""
    app.add_exception_handler(WhenceError, _whence)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)


async def _whence(request: Request, error: Exception) -> JSONResponse:
    return failure(error)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    for one in error.errors():
        if one["type"] == "string_too_long" and one["ctx"]["max_length"] == TEXT:
            return failure(_too_long(one))
    said = "; ".join(_where(one) for one in error.errors()[:3])
    return failure(known.BadRequest(f"{said}."), 422)


_TEXTS = {
    "text": "The text",
    "pair": "The second text",
    "answer": "The answer",
    "rather": "The other answer",
}


def _too_long(one: Any) -> WhenceError:
    """Return what is said of a text beyond the limit: its length, the limit, and what to do."""
    name = _TEXTS.get(str(one["loc"][-1]), str(one["loc"][-1]))
    return known.TooLarge(
        f"{name} has {len(one['input']):,} characters, and the app takes {TEXT:,}: give a part of it."
    )


def _where(one: Any) -> str:
    """Name the field and what is wrong with it, without repeating what was sent."""
    place = ".".join(str(part) for part in one["loc"] if part not in ("body", "query", "path"))
    return f"{place or 'request'}: {one['msg'].removesuffix('.')}"


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    address = request.url.path[:200]
    if error.status_code == 405:
        answer = failure(
            known.NotFound(f"{address} does not take {request.method}."), error.status_code
        )
    elif error.status_code == 404:
        answer = failure(known.NotFound(f"There is nothing at {address}."))
    else:
        answer = failure(known.BadRequest(f"{error.detail}."), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def note(error: BaseException, doing: str) -> None:
    """Log an error that nobody foresaw, with where it was raised."""
    if not isinstance(error, WhenceError):
        log.error("%s failed", doing, exc_info=error)
