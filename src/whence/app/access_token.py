"""The token that a server asks everybody for: also at 127.0.0.1, which every account of a machine reaches."""

import hmac
import os
import re
import secrets
from collections.abc import Mapping, Sequence
from html import escape

from starlette.responses import HTMLResponse, RedirectResponse, Response

from whence.core.errors import BadParameter

VARIABLE = "WHENCE_TOKEN"
_ALLOWED = re.compile(r"[A-Za-z0-9._~-]{16,200}")

# Pages of this file bring their style along, run nothing, load nothing and hold nothing of what was sent.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_PAGE = """<!doctype html>
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
_STRANGER = """<p>whence answers here, and only those who have its token: without it, every account of this machine
could read the texts and results that it serves.</p>
<p>The token is in the address that <code>whence app</code> printed in the terminal in which it was started:</p>
<p><code>whence is at http://127.0.0.1:{port}/?token=…</code></p>
<p>Open that whole address. This browser then keeps the token until it is closed. Each start makes a new one, unless
the environment variable <code>{variable}</code> has one. Scripts send <code>Authorization: Bearer TOKEN</code>.</p>
<p>Has this browser been let in already, and did a link from elsewhere bring you here? Then <a href="/">open the page
from here</a>.</p>"""


def make_token() -> str:
    """Return a new token that nobody can guess."""
    return secrets.token_urlsafe(24)


def choose_token() -> str:
    """Return the token of the environment, or a new one.

    There is no option for it: other accounts can read the arguments of a process, and cannot read its environment.
    """
    given = os.environ.get(VARIABLE)
    if given is None:
        return make_token()
    if not _ALLOWED.fullmatch(given):
        raise BadParameter(
            f"{VARIABLE} has {len(given)} characters, and a token has 16 to 200 of A-Z, a-z, 0-9, '-', '_', '.' and "
            "'~'. Set it to such a one, or unset it to have one made at each start."
        )
    return given


def cookie_name(port: int) -> str:
    """Return the cookie's name, which has the port in it: browsers do not tell ports apart."""
    return f"whence-{port}"


def is_known(
    token: str, port: int, query: Sequence[tuple[str, str]], headers: Mapping[str, str]
) -> bool:
    """Whether a request brings the token: in its address, as `Authorization: Bearer`, or in the cookie."""
    given = [value for name, value in query if name == "token"]
    scheme, _, rest = headers.get("authorization", "").partition(" ")
    given.append(rest.strip() if scheme.lower() == "bearer" else "")
    # By hand: all servers of 127.0.0.1 share their cookies, and http.cookies gives up at the first odd one.
    for cookie in headers.get("cookie", "").split(";"):
        name, _, value = cookie.strip().partition("=")
        given.append(value if name == cookie_name(port) else "")
    # All are compared, in constant time: how long it takes tells nothing.
    same = [hmac.compare_digest(one.encode(), token.encode()) for one in given]
    return any(same)


def let_in(token: str, port: int, address: str, *, linked: bool) -> Response:
    """Return the answer that puts the token into a cookie and sends the browser on to the address without it.

    After a redirect a browser still counts the request as that of the page that linked here, and keeps a strict
    cookie back; a page of this server's own that moves on by itself does not have that fault.
    """
    entered: Response
    if linked:
        target = escape(address)
        entered = _page(
            "one moment",
            f'<p><a href="{target}">Go on to the page</a></p>',
            head=f'<meta http-equiv="refresh" content="0; url={target}">\n',
        )
    else:
        entered = RedirectResponse(address, status_code=303)
    entered.set_cookie(cookie_name(port), token, httponly=True, samesite="strict", path="/")
    return entered


def ask_for_token(port: int) -> Response:
    """Return the page of a visitor who does not bring the token: it says where the token is."""
    body = _STRANGER.format(port=port, variable=VARIABLE)
    return _page("this page asks for its token", body, status=401)


def _page(title: str, body: str, *, head: str = "", status: int = 200) -> Response:
    return HTMLResponse(
        _PAGE.format(title=title, body=body, head=head),
        status_code=status,
        headers={"content-security-policy": _POLICY},
    )
