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
        if isinstance(error, UnknownColumns):
            rows = [list(row) for row in error.first]
            return {**fault, "table": {"columns": list(error.columns), "rows": rows}}
        return fault
    summary = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    return {
        "code": "internal-error",
        "message": f"Something went wrong inside whence ({summary}).",
        "hint": _INTERNAL_HINT,
        "see": "docs/errors/README.md",
    }


def build_error_response(error: BaseException, status: int | None = None) -> JSONResponse:
    """Return the JSON response for an error."""
    if status is None:
        kinds = (kind for kind in type(error).__mro__ if kind in STATUS_CODES)
        status = next((STATUS_CODES[kind] for kind in kinds), 500)
    return JSONResponse({"ok": False, "error": describe_error(error)}, status_code=status)


def install_error_handlers(app: FastAPI) -> None:
    """Register the handler that answers every error in the same JSON shape."""
    for kind in (WhenceError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, _handle_error)


async def _handle_error(request: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError):
        return build_error_response(_explain_invalid_request(error))
    if not isinstance(error, HTTPException):
        return build_error_response(error)
    address, reason = request.url.path[:200], f"{error.detail}."
    if error.status_code == 405:
        reason = f"{address} does not take {request.method}."
    elif error.status_code == 404:
        reason = f"There is nothing at {address}."
    kind = errors.NotFound if error.status_code in (404, 405) else errors.BadRequest
    answer = build_error_response(kind(reason), error.status_code)
    answer.headers.update(error.headers or {})
    return answer


_TEXT_FIELDS = {
    "text": "The text",
    "pair": "The second text",
    "answer": "The answer",
    "rather": "The other answer",
}


def _explain_invalid_request(error: RequestValidationError) -> WhenceError:
    """Return the error for fields that are wrong, or for a text beyond the limit, without the values that were sent."""
    faults = []
    for detail in error.errors():
        place = [str(part) for part in detail["loc"] if part not in ("body", "query", "path")]
        if detail["type"] == "string_too_long" and detail["ctx"]["max_length"] == TEXT:
            name, length = _TEXT_FIELDS.get(place[-1], place[-1]), len(detail["input"])
            return errors.TooLarge(
                f"{name} has {length:,} characters, and the app takes {TEXT:,}: give a part of it."
            )
        faults.append(f"{'.'.join(place) or 'request'}: {detail['msg'].removesuffix('.')}")
    return errors.BadRequest(f"{'; '.join(faults[:3])}.")


def log_error(error: BaseException, doing: str) -> None:
    """Log an unexpected error with its traceback; a WhenceError is not logged."""
    if not isinstance(error, WhenceError):
        log.error("%s failed", doing, exc_info=error)
