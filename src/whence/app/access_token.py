"""Access token of the server: creation, cookie, check, and the page shown to visitors without it.

The token is required at 127.0.0.1 as well, because every account of a machine reaches that address. There is
no option for it: other accounts can read the arguments of a process, but not its environment (WHENCE_TOKEN).
"""

import hmac
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from html import escape

from starlette.responses import HTMLResponse, RedirectResponse, Response

from whence.core.errors import BadParameter

TOKEN_VARIABLE = "WHENCE_TOKEN"
_TOKEN_PATTERN = re.compile(r"[A-Za-z0-9._~-]{16,200}")

# Policy of this file's pages: inline style, no script, no requests, nothing of the request in them.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_PAGE_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
{head}<title>whence: {title}</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 10vh auto; padding: 0 1rem }}
code {{ overflow-wrap: anywhere }}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
_NO_TOKEN_BODY = """<p>whence answers here, and only those who have its token: without it, every account of this machine
could read the texts and results that it serves.</p>
<p>The token is in the address that <code>whence app</code> printed in the terminal in which it was started:</p>
<p><code>whence is at http://127.0.0.1:{port}/?token=…</code></p>
<p>Open that whole address. This browser then keeps the token until it is closed. Each start makes a new one, unless
the environment variable <code>{variable}</code> has one. Scripts send <code>Authorization: Bearer TOKEN</code>.</p>
<p>Has this browser been let in already, and did a link from elsewhere bring you here? Then <a href="/">open the page
from here</a>.</p>"""


def make_token() -> str:
    """Return a new random token of 192 bits."""
    return secrets.token_urlsafe(24)


def resolve_token() -> str:
    """Return the token of the environment, or a new one."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return make_token()
    if not _TOKEN_PATTERN.fullmatch(token):
        raise BadParameter(
            f"{TOKEN_VARIABLE} has {len(token)} characters, and a token has 16 to 200 of A-Z, a-z, 0-9, '-', '_', '.' and "
            "'~'. Set it to such a one, or unset it to have one made at each start."
        )
    return token


def build_cookie_name(port: int) -> str:
    """Return the cookie's name, which has the port in it: browsers do not tell ports apart."""
    return f"whence-{port}"


def has_token(
    token: str, port: int, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
) -> bool:
    """Return whether a request has the token: in its URL, as `Authorization: Bearer`, or in the cookie."""
    candidates = [value for name, value in query if name == "token"]
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    candidates.append(rest.strip() if scheme.lower() == "bearer" else "")
    # Parsed here: all servers of 127.0.0.1 share cookies, and http.cookies stops at a malformed one.
    for cookie in headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        candidates.append(value if name == build_cookie_name(port) else "")
    # All are compared in constant time, so the duration reveals nothing.
    matches = [hmac.compare_digest(candidate.encode(), token.encode()) for candidate in candidates]
    return any(matches)


def accept_token(token: str, port: int, address: str, *, linked: bool) -> Response:
    """Return the response that sets the token's cookie and leads to the address without it.

    After a link from another site, a redirect still counts as cross-site and the browser withholds a strict cookie;
    a page of this server that refreshes to the address does not.
    """
    response: Response
    if linked:
        target = escape(address)
        response = _render_page(
            "one moment",
            f'<p><a href="{target}">Go on to the page</a></p>',
            head=f'<meta http-equiv="refresh" content="0; url={target}">\n',
        )
    else:
        response = RedirectResponse(address, status_code=303)
    response.set_cookie(build_cookie_name(port), token, httponly=True, samesite="strict", path="/")
    return response


def render_token_page(port: int) -> Response:
    """Return the page for a visitor without the token, which says where to find it."""
    body = _NO_TOKEN_BODY.format(port=port, variable=TOKEN_VARIABLE)
    return _render_page("this page asks for its token", body, status=401)


def _render_page(title: str, body: str, *, head: str = "", status: int = 200) -> Response:
    return HTMLResponse(
        _PAGE_TEMPLATE.format(title=title, body=body, head=head),
        status_code=status,
        headers={"content-security-policy": _POLICY},
    )
