"""Who may ask, and how much: everything passes here before anything is read, and leaves with strict headers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.responses import Response

from whence.core.errors import Busy, NotAllowed, TooLarge, WhenceError
from whence.core.failure import is_failure
from whence.web.errors import failure, note
from whence.web.settings import LOOPBACK, Settings
from whence.web.tokens import ask_for_token, is_known, let_in

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "font-src 'self'; frame-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
# whence's own static pages bring their style with them; no script runs in them, and only this app may frame them.
PAGE_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox"
)
_HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_BODY_SECONDS = 60
_EVERYWHERE = frozenset({"0.0.0.0", "::", ""})
# A name or [address], and a port: whatever else is there (a path, a user) is no Host, and made to look like one.
_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::[0-9]{1,5})?")
_NO_TOKEN = (
    "This server asks for its token, which is in the address that `whence app` printed in the terminal where it was "
    "started. Send it as `Authorization: Bearer TOKEN`."
)


class Guard:
    """Checks name, origin, token and size of a request, and puts the headers on its answer."""

    def __init__(self, app: Asgi, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sending = _strict(send)
        try:
            self._check(scope)
            if (stranger := self._stranger(scope)) is not None:
                await stranger(scope, receive, sending)
                return
            receive = await self._body(scope, receive)
        except WhenceError as error:
            refused = failure(error)
            refused.headers["connection"] = "close"  # the rest of the body is not read
            await refused(scope, receive, sending)
            return
        except TimeoutError:
            late = Busy(f"The request was not here after {_BODY_SECONDS} seconds.")
            await failure(late, 408)(scope, receive, sending)
            return
        if (entered := self._entered(scope)) is not None:
            await entered(scope, receive, sending)
            return
        await self._answer(scope, receive, sending)

    async def _answer(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on; what nobody foresaw is answered like every other error."""
        begun = False

        async def sending(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sending)
        except BaseException as error:  # whatever it is, the asker hears of it in the one shape
            if not is_failure(error):
                raise
            note(error, f"{scope['method']} {scope['path']}")
            if not begun:
                await failure(error)(scope, receive, send)

    def _check(self, scope: Message) -> None:
        headers = _headers(scope)
        host = headers.get("host", "")
        if not self._own(_hostname(host)):
            raise NotAllowed(
                f"The request came by the name {host[:100]!r}, which is not this server's."
            )
        origin = headers.get("origin")
        foreign = origin is not None and not _same(origin, host)
        # A page of another site or port may link to this page, but not read from the server or send to it.
        fetched = headers.get("sec-fetch-site", "none") not in ("none", "same-origin")
        if foreign or (fetched and scope["path"].startswith("/api")):
            raise NotAllowed("The request was sent by a page that is not this server's.")

    def _own(self, name: str) -> bool:
        """By a name of one's own: a stranger's name that points to this machine is how pages break in."""
        settings = self._settings
        if settings.host in _EVERYWHERE:
            return True  # it has names that nobody here knows; the token keeps strangers out
        return name in LOOPBACK or name == settings.host.lower()

    def _stranger(self, scope: Message) -> Response | None:
        """Return the answer to a request without the token: a page to browsers, JSON to users of the API."""
        settings = self._settings
        if is_known(settings.token, settings.port, _query(scope), _headers(scope)):
            return None
        answer: Response
        if scope["path"].startswith("/api"):
            answer = failure(NotAllowed(_NO_TOKEN), 401)
        else:
            answer = ask_for_token(settings.port)
        answer.headers["www-authenticate"] = 'Bearer realm="whence"'
        answer.headers["connection"] = "close"  # the body is not read
        return answer

    def _entered(self, scope: Message) -> Response | None:
        """Return the answer to an address with the token in it: a cookie, and the address without it."""
        settings, query = self._settings, _query(scope)
        if (
            scope["method"] != "GET"
            or scope["path"].startswith("/api")
            or "token" not in dict(query)
        ):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash: two would lead to another server.
        address = "/" + scope["path"].lstrip("/\\")
        linked = _headers(scope).get("sec-fetch-site", "none") not in ("none", "same-origin")
        onwards = f"{address}?{rest}" if rest else address
        return let_in(settings.token, settings.port, onwards, linked=linked)

    async def _body(self, scope: Message, receive: Receive) -> Receive:
        """Read a body as far as is allowed, whether its length was stated or not."""
        brings = scope["method"] == "PUT"
        limit = self._settings.upload if brings else self._settings.body
        stated = _headers(scope).get("content-length", "0")
        if stated.isdigit() and int(stated) > limit:
            raise _too_large(int(stated), limit)
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
                    raise _too_large(size, limit)
                if not message.get("more_body"):
                    message = {"type": "http.request", "body": b"".join(chunks)}
                    break
        return _first(message, receive)


def _first(message: Message, receive: Receive) -> Receive:
    """Hand out what has been read already, and then what comes."""
    waiting = [message]

    async def received() -> Message:
        return waiting.pop() if waiting else await receive()

    return received


def _strict(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            given = {name.lower() for name, _ in message.get("headers", [])}
            more = [
                (name.encode(), value.encode())
                for name, value in _HEADERS.items()
                if name.encode() not in given
            ]
            message["headers"] = [*message.get("headers", []), *more]
        await send(message)

    return sending


def _too_large(size: int, limit: int) -> TooLarge:
    return TooLarge(f"The request has {size:,} bytes or more; {limit:,} are taken here.")


def _headers(scope: Message) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
    }


def _query(scope: Message) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def _same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False


def _hostname(host: str) -> str:
    """Return the name in a Host header, without the port; nothing of one that is more than a name and a port."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()
