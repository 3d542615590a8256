"""The sheet that every page is set on: its style and its frame, offline, without a script."""

from html import escape
from typing import Any

_STYLE = """
.whence { --ink: #1b1f24; --dim: #5c6670; --rule: #d9dee3; color: var(--ink); background: #fff;
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; text-align: left; }
.whence * { box-sizing: border-box; }
.whence section { border: 1px solid var(--rule); border-radius: 10px; padding: 1.1rem 1.3rem; margin: 0 0 1.2rem; }
.whence h2 { font-size: 1.15rem; margin: 0 0 .2rem; }
.whence h3 { font-size: 1rem; margin: 1.2rem 0 .1rem; }
.whence p { margin: .2rem 0; }
.whence .dim, .whence figcaption { color: var(--dim); font-size: .87rem; }
.whence .strip { font-size: 1.12rem; line-height: 2.05; margin: .35rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.whence .strip mark { color: #000; border-radius: 4px; padding: .12em .1em; }
.whence .special { color: var(--dim); font: .74rem/1 ui-monospace, monospace; border: 1px solid var(--rule);
  border-radius: 4px; padding: .15em .3em; margin: 0 .25em; vertical-align: middle; color: #333; }
.whence .pair { border-left: 3px solid var(--rule); padding-left: .7rem; }
.whence table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
.whence th { text-align: left; font-weight: 600; border-bottom: 1px solid var(--rule); }
.whence th, .whence td { padding: .12rem .9rem .12rem 0; }
.whence td.n { text-align: right; }
.whence .bar { display: inline-block; height: .72em; border-radius: 2px; vertical-align: middle; }
.whence .share { display: grid; grid-template-columns: max-content 12rem max-content; gap: .1rem .8rem; align-items: center;
  font-size: .9rem; margin: .5rem 0; }
.whence .share i { display: block; height: .7em; background: #6b7785; border-radius: 2px; min-width: 1px; }
.whence details { margin-top: .5rem; } .whence summary { cursor: pointer; color: var(--dim); font-size: .9rem; }
.whence code { font-size: .88em; overflow-wrap: anywhere; }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>body {{ margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: #f6f8fa; color-scheme: light; }}{style}</style>
</head>
<body>
<main class="whence" style="background: none">
<h1 style="font-size: 1.35rem; margin: 0 0 1rem">{title}</h1>
{body}
<p class="dim">{foot}</p>
</main>
</body>
</html>
"""


def sheet(title: str, body: str, foot: str, style: str = "") -> str:
    """Return a whole page; `body` is HTML, the rest is text."""
    return _PAGE.format(title=escape(title), style=_STYLE + style, body=body, foot=escape(foot))


def cell(body: str, style: str = "") -> str:
    """Return a piece of HTML for a notebook cell."""
    return f'<div class="whence"><style>{_STYLE}{style}</style>{body}</div>'


def provenance(payload: dict[str, Any]) -> str:
    """Return which model this is and what computed it, folded away."""
    facts = {**payload["model"], **payload["provenance"]}
    rows = "".join(
        f"<tr><td>{escape(str(name))}</td><td><code>{escape(str(value))}</code></td></tr>"
        for name, value in facts.items()
    )
    return f"<details><summary>Where this comes from</summary><table>{rows}</table></details>"
