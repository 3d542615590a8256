"""Security middleware: checks host, origin, token and body size of requests, and sets strict headers.

Every request passes here before anything of it is read. A page of another site or port may link to the
server, but neither read from it nor send to it.
"""

import asyncio
import re
from urllib.parse import urlencode

from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
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
        request, has_started = Request(scope, receive), False

        async def send_with_headers(message: Message) -> None:
            nonlocal has_started
            if message["type"] == "http.response.start":
                has_started = True
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check_origin(request)
            answer = self._answer_token(request)
            if answer is None:
                receive = await self._read_body(request, receive)
        except WhenceError as error:
            answer = build_error_response(error)
            answer.headers["connection"] = "close"  # the rest of the body stays unread
        except TimeoutError:
            late = Busy(f"The request was not here after {_BODY_SECONDS} seconds.")
            answer = build_error_response(late, 408)
        except ClientDisconnect:
            return
        try:
            await (self._app if answer is None else answer)(scope, receive, send_with_headers)
        except BaseException as error:  # any error is answered in the usual shape
            if not is_failure(error):
                raise
            log_error(error, f"{request.method} {scope['path']}")
            if not has_started:
                await build_error_response(error)(scope, receive, send_with_headers)

    def _check_origin(self, request: Request) -> None:
        host = request.headers.get("host", "")
        if not self._is_own_host(host):
            raise NotAllowed(
                f"The request came by the name {host[:100]!r}, which is not this server's."
            )
        origin = request.headers.get("origin")
        foreign = origin is not None and origin.partition("://")[2].lower() != host.lower()
        # A page of another site or port may link here, but not read from the server or send to it.
        if foreign or (_is_cross_site(request) and _is_api(request)):
            raise NotAllowed("The request was sent by a page that is not this server's.")

    def _is_own_host(self, host: str) -> bool:
        """Return whether a Host header names this server; a foreign name means DNS rebinding."""
        own = self._settings.host
        if own in _ALL_INTERFACES:
            return True  # its names are unknown here; the token protects it
        match = _HOST_PATTERN.fullmatch(host)
        name = "" if match is None else (match[1] or match[2]).lower()
        return name in LOOPBACK_HOSTS or name == own.lower()

    def _answer_token(self, request: Request) -> Response | None:
        """Return the response to a request without the token, or to a page's URL with it, which sets the cookie."""
        settings, query = self._settings, request.query_params.multi_items()
        answer: Response
        if not has_token(settings.token, settings.port, query, request.headers):
            answer = (
                build_error_response(NotAllowed(_TOKEN_MESSAGE), 401)
                if _is_api(request)
                else render_token_page(settings.port)
            )
            answer.headers["www-authenticate"] = 'Bearer realm="whence"'
            answer.headers["connection"] = "close"  # the body stays unread
            return answer
        if request.method != "GET" or _is_api(request) or "token" not in dict(query):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: two would be the address of another server.
        address = "/" + request.scope["path"].lstrip("/\\")
        target = f"{address}?{rest}" if rest else address
        return accept_token(settings.token, settings.port, target, linked=_is_cross_site(request))

    async def _read_body(self, request: Request, receive: Receive) -> Receive:
        """Read the body within the size limit, and return a `receive` that replays it."""
        limit = self._settings.upload if request.method == "PUT" else self._settings.body
        stated = request.headers.get("content-length", "0")
        size = int(stated) if stated.isdigit() else 0
        body = bytearray()
        async with asyncio.timeout(_BODY_SECONDS):
            if size <= limit:
                async for chunk in request.stream():
                    body += chunk
                    size = len(body)
                    if size > limit:
                        break
        if size > limit:
            raise TooLarge(f"The request has {size:,} bytes or more; {limit:,} are taken here.")
        waiting: list[Message] = [{"type": "http.request", "body": bytes(body)}]

        async def replay() -> Message:
            return waiting.pop() if waiting else await receive()

        return replay


def _is_api(request: Request) -> bool:
    return bool(request.scope["path"].startswith("/api"))


def _is_cross_site(request: Request) -> bool:
    """Return whether a page of another site or port made the browser send a request."""
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
