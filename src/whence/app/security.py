"""Security middleware: checks host, origin, token and body size of requests, and sets strict headers.

Every request passes here before anything of it is read. A page of another site or port may link to the
server, but neither read from it nor send to it.
"""

import asyncio
import re
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from whence.app.access_token import accept_token, has_token, render_token_page
from whence.app.error_responses import build_error_response, log_error
from whence.app.settings import LOOPBACK_HOSTS, Settings
from whence.core.errors import Busy, NotAllowed, TooLarge, WhenceError, is_failure

APP_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# Policy of static report pages: inline style, no script, framed by this app only.
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)
_SECURITY_HEADERS = {
    "content-security-policy": APP_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_BODY_SECONDS = 60
_ALL_INTERFACES = frozenset({"0.0.0.0", "::", ""})
# A name or [address] with an optional port; anything else (a path, a user) is a forged Host header.
_HOST_PATTERN = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_TOKEN_MESSAGE = (
    "This server asks for its token, which is in the address that `whence app` printed in the terminal where it was "
    "started. Send it as `Authorization: Bearer TOKEN`."
)


class SecurityMiddleware:
    """The middleware that checks host, origin, token and size of requests, and adds headers."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a valid request on, or answer it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        send = _with_security_headers(send)
        answer: Response | None
        try:
            self._check_origin(request)
            if (answer := self._reject_without_token(request)) is None:
                receive = await self._read_body(request, receive)
                answer = self._accept_token_url(request)
        except WhenceError as error:
            answer = build_error_response(error)
            answer.headers["connection"] = "close"  # the rest of the body stays unread
        except TimeoutError:
            late = Busy(f"The request was not here after {_BODY_SECONDS} seconds.")
            answer = build_error_response(late, 408)
        if answer is None:
            await self._forward(scope, receive, send)
        else:
            await answer(scope, receive, send)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on; an unexpected error is logged and answered in the usual shape."""
        has_started = False

        async def send_and_note(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        try:
            await self._app(scope, receive, send_and_note)
        except BaseException as error:  # any error is answered in the usual shape
            if not is_failure(error):
                raise
            log_error(error, f"{scope['method']} {scope['path']}")
            if not has_started:
                await build_error_response(error)(scope, receive, send)

    def _check_origin(self, request: HTTPConnection) -> None:
        host = request.headers.get("host", "")
        if not self._is_own_host(_parse_hostname(host)):
            raise NotAllowed(
                f"The request came by the name {host[:100]!r}, which is not this server's."
            )
        origin = request.headers.get("origin")
        foreign = origin is not None and not _is_same_origin(origin, host)
        # A page of another site or port may link here, but not read from the server or send to it.
        if foreign or (_is_cross_site(request) and _is_api(request)):
            raise NotAllowed("The request was sent by a page that is not this server's.")

    def _is_own_host(self, name: str) -> bool:
        """Return whether a host name is this server's; a foreign name means DNS rebinding."""
        settings = self._settings
        if settings.host in _ALL_INTERFACES:
            return True  # its names are unknown here; the token protects it
        return name in LOOPBACK_HOSTS or name == settings.host.lower()

    def _reject_without_token(self, request: HTTPConnection) -> Response | None:
        """Return the response to a request without the token, a page or JSON; None with the token."""
        settings = self._settings
        query = request.query_params.multi_items()
        if has_token(settings.token, settings.port, query, request.headers):
            return None
        answer = (
            build_error_response(NotAllowed(_TOKEN_MESSAGE), 401)
            if _is_api(request)
            else render_token_page(settings.port)
        )
        answer.headers["www-authenticate"] = 'Bearer realm="whence"'
        answer.headers["connection"] = "close"  # the body stays unread
        return answer

    def _accept_token_url(self, request: HTTPConnection) -> Response | None:
        """Return the response to a URL with the token, which sets the cookie; None for other URLs."""
        settings, query = self._settings, request.query_params.multi_items()
        is_page = request.scope["method"] == "GET" and not _is_api(request)
        if not is_page or "token" not in dict(query):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: two would be the address of another server.
        address = "/" + request.scope["path"].lstrip("/\\")
        target = f"{address}?{rest}" if rest else address
        return accept_token(settings.token, settings.port, target, linked=_is_cross_site(request))

    async def _read_body(self, request: HTTPConnection, receive: Receive) -> Receive:
        """Read the body within the size limit, and return a `receive` that replays it."""
        is_upload = request.scope["method"] == "PUT"
        limit = self._settings.upload if is_upload else self._settings.body
        stated = request.headers.get("content-length", "0")
        if stated.isdigit() and int(stated) > limit:
            raise _build_too_large_error(int(stated), limit)
        chunks: list[bytes] = []
        size = 0
        async with asyncio.timeout(_BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    break
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > limit:
                    raise _build_too_large_error(size, limit)
                if not message.get("more_body"):
                    message = {"type": "http.request", "body": b"".join(chunks)}
                    break
        return _replay_message(message, receive)


def _replay_message(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives a read message first, then the following ones."""
    waiting = [message]

    async def receive_next() -> Message:
        return waiting.pop() if waiting else await receive()

    return receive_next


def _with_security_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY_HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _build_too_large_error(size: int, limit: int) -> TooLarge:
    return TooLarge(f"The request has {size:,} bytes or more; {limit:,} are taken here.")


def _is_api(request: HTTPConnection) -> bool:
    return bool(request.scope["path"].startswith("/api"))


def _is_cross_site(request: HTTPConnection) -> bool:
    """Return whether a page of another site or port made the browser send a request."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_same_origin(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _parse_hostname(host: str) -> str:
    """Return the name in a Host header without the port; empty for a malformed header."""
    match = _HOST_PATTERN.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()
