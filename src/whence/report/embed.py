"""One file that draws: a static page, the data, and the page's own program, which nothing but its hash lets run."""

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from whence.core.errors import CannotServe

_HEAD_END = "</style>\n</head>"
_STATIC_CSP = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# What a script element must not hold: the end of an element, a comment, and what JavaScript takes for line ends.
_ESCAPED = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def embedded(static: str, data: dict[str, Any]) -> str:
    """Put data and program into a static page, which stays for readers without scripts."""
    script, style = built("embed.js"), built("embed.css")
    digest = b64encode(sha256(script.encode()).digest()).decode("ascii")
    policy = f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:"
    tail = (
        f'<script type="application/json" id="whence-payload">{in_script(data)}</script>\n'
        f'<script type="module">{script}</script>\n</body>'
    )
    page = _once(static, _STATIC_CSP, policy)
    page = _once(page, _HEAD_END, f"</style>\n<style>{style}</style>\n</head>")
    return _once(page, "</body>", tail)


def in_script(data: dict[str, Any]) -> str:
    """Write data so that no text in it can end the element it stands in."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for sign, code in _ESCAPED.items():
        text = text.replace(sign, code)
    return text


def built(name: str) -> str:
    """Return a file of the built front end; it lies in the room above, and is read, not imported."""
    path = files("whence").joinpath("web", "static", name)
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        raise CannotServe(
            f"{name} is missing from this installation. Install whence again; in a checkout: make bundle."
        ) from None


def _once(text: str, old: str, new: str) -> str:
    """Replace the first of what must be there."""
    before, found, after = text.partition(old)
    if not found:
        raise ValueError(f"the static page has no {old!r}")
    return before + new + after
