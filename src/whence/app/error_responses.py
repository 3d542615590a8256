"""Error responses: the JSON shape, hint and HTTP status of every error of the server.

Every error is answered in one shape: code, message, hint (the next step) and the page of the documentation.
"""

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from whence.app.schema import TEXT
from whence.core import errors
from whence.core.errors import WhenceError
from whence.data.example import UnknownColumns

log = logging.getLogger("whence.app")

STATUS_CODES: Mapping[type[WhenceError], int] = {
    errors.NotAllowed: 403,
    errors.NotFound: 404,
    errors.UnknownModel: 404,
    errors.TooLarge: 413,
    errors.Busy: 503,
    errors.MethodError: 500,
    WhenceError: 422,
}
HINTS: Mapping[str, str] = {
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
_MAX_MESSAGE = 4000  # characters of a message that are sent
_INTERNAL_HINT = "Please report it, with what the terminal says."


def describe_error(error: BaseException) -> dict[str, Any]:
    """Return an error as code, message, hint and page of the documentation."""
    if isinstance(error, MemoryError) and not isinstance(error, WhenceError):
        error = errors.OutOfMemory(
            "The server's memory was not enough for this. Give less at a time."
        )
    if isinstance(error, WhenceError):
        hint = HINTS.get(error.code, _INTERNAL_HINT)
        message = str(error)  # may name all columns of a file
        message = message if len(message) <= _MAX_MESSAGE else f"{message[:_MAX_MESSAGE]} ..."
        fault = {"code": error.code, "message": message, "hint": hint, "see": error.page}
        return {**fault, **_describe_table(error)}
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return {
        "code": "internal-error",
        "message": f"Something went wrong inside whence ({summary}).",
        "hint": _INTERNAL_HINT,
        "see": "docs/errors/README.md",
    }


def _describe_table(error: WhenceError) -> dict[str, Any]:
    """Return the columns and first rows of a table whose columns have to be chosen."""
    if not isinstance(error, UnknownColumns):
        return {}
    return {"table": {"columns": list(error.columns), "rows": [list(row) for row in error.first]}}


def resolve_status(error: BaseException) -> int:
    """Return the HTTP status of an error."""
    if not isinstance(error, WhenceError):
        return 500
    return next(STATUS_CODES[kind] for kind in type(error).__mro__ if kind in STATUS_CODES)


def build_error_response(error: BaseException, code: int | None = None) -> JSONResponse:
    """Return the JSON response for an error."""
    return JSONResponse(
        {"ok": False, "error": describe_error(error)},
        status_code=resolve_status(error) if code is None else code,
    )


def install_error_handlers(app: FastAPI) -> None:
    """Register the handlers that answer every error in the same JSON shape."""
    app.add_exception_handler(WhenceError, _handle_whence_error)
    app.add_exception_handler(RequestValidationError, _handle_invalid_request)
    app.add_exception_handler(HTTPException, _handle_http_error)


async def _handle_whence_error(request: Request, error: Exception) -> JSONResponse:
    return build_error_response(error)


async def _handle_invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    for detail in error.errors():
        if detail["type"] == "string_too_long" and detail["ctx"]["max_length"] == TEXT:
            return build_error_response(_build_too_long_error(detail))
    message = "; ".join(_format_validation_error(detail) for detail in error.errors()[:3])
    return build_error_response(errors.BadRequest(f"{message}."), 422)


_TEXT_FIELDS = {
    "text": "The text",
    "pair": "The second text",
    "answer": "The answer",
    "rather": "The other answer",
}


def _build_too_long_error(detail: Any) -> WhenceError:
    """Return the error for a text beyond the limit, with its length and the limit."""
    name = _TEXT_FIELDS.get(str(detail["loc"][-1]), str(detail["loc"][-1]))
    return errors.TooLarge(
        f"{name} has {len(detail['input']):,} characters, and the app takes {TEXT:,}: give a part of it."
    )


def _format_validation_error(detail: Any) -> str:
    """Return the field and its fault as text, without the value that was sent."""
    field = ".".join(str(part) for part in detail["loc"] if part not in ("body", "query", "path"))
    return f"{field or 'request'}: {detail['msg'].removesuffix('.')}"


async def _handle_http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    address = request.url.path[:200]
    if error.status_code == 405:
        answer = build_error_response(
            errors.NotFound(f"{address} does not take {request.method}."), error.status_code
        )
    elif error.status_code == 404:
        answer = build_error_response(errors.NotFound(f"There is nothing at {address}."))
    else:
        answer = build_error_response(errors.BadRequest(f"{error.detail}."), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def log_error(error: BaseException, doing: str) -> None:
    """Log an unexpected error with its traceback; a WhenceError is not logged."""
    if not isinstance(error, WhenceError):
        log.error("%s failed", doing, exc_info=error)
