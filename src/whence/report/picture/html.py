"""Maps over a picture on a page: images within the page itself, a legend, and the scores of patches as tables."""

from collections.abc import Sequence
from html import escape
from typing import Any

from whence.report.picture.colour import colour_of, legend, scaled
from whence.report.picture.maps import Map, arranged, remark, shown
from whence.report.picture.png import Pixels, encoded
from whence.report.text import tame, visible
from whence.view.heat import strongest
from whence.view.scale import scale_in
from whence.view.shade import target_name

STYLE = """
.whence .maps { display: flex; flex-wrap: wrap; gap: .9rem; margin: .7rem 0 .3rem; }
.whence .maps figure { margin: 0; flex: 0 1 16rem; min-width: 8rem; }
.whence .maps.lines { display: grid; grid-template-columns: repeat(var(--columns), minmax(8rem, 16rem)); }
.whence .maps img { display: block; width: 100%; height: auto; border-radius: 4px; image-rendering: pixelated; }
.whence .maps figcaption { line-height: 1.35; margin-top: .3rem; overflow-wrap: anywhere; }
.whence .maps figcaption strong { color: var(--ink); font-weight: 600; }
.whence .ramp { display: inline-block; width: 7rem; height: .7em; border-radius: 2px; vertical-align: -.02em;
  margin-right: .5rem; }
.whence .patches { font-size: .72rem; } .whence .patches td { padding: .1rem .35rem; text-align: right; }
.whence .scroll { overflow-x: auto; }
"""
_TOP = 10


def figures(payloads: Sequence[dict[str, Any]]) -> str:
    """Return the picture and its maps side by side: of several classes and methods, a line for each class."""
    picture = shown(payloads[0])
    rows = arranged(payloads, picture)
    name = visible(str(payloads[0]["picture"].get("name") or ""))
    own = _figure(
        picture, f"the picture {name}".strip(), "the picture", name or "as the model sees it"
    )
    lines = ["".join(map(_map, row)) for row in rows]
    if len(lines) == 1:
        return f'<div class="maps">{own}{lines[0]}</div>'
    columns = 1 + len(rows[0])
    body = "<i></i>".join(lines)  # the picture stands in the first line alone
    return f'<div class="scroll"><div class="maps lines" style="--columns: {columns}">{own}{body}</div></div>'


def key(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return what the colours of one map mean."""
    signed = explanation["signed"]
    stops = [place / 8 for place in range(-8 if signed else 0, 9)]
    ramp = ", ".join(_mixed(stop, signed) for stop in stops)
    full = scale_in(explanation, "patch")["legend"]
    said = f"{legend(payload['target'], signed=signed)}; {full}; {remark(explanation)}"
    return (
        f'<p class="dim"><span class="ramp" style="background: linear-gradient(90deg, {ramp})"></span>'
        f"{escape(tame(said))}</p>"
    )


def patch_table(payload: dict[str, Any], explanation: dict[str, Any], top: int = _TOP) -> str:
    """Return the patches that count most, with their scores."""
    patches = strongest(explanation["scores"], payload["picture"]["grid"], top)
    largest = scale_in(explanation, "patch")["full"] or 1.0
    rows = "".join(
        f'<tr><td class="n">{patch.row}</td><td class="n">{patch.column}</td><td class="n">{patch.score:+.6g}</td>'
        f'<td><span class="bar" style="width: {abs(patch.score) / largest * 9:.2f}rem; '
        f'background: {_css(patch.score / largest, explanation["signed"])}"></span></td></tr>'
        for patch in patches
    )
    target = escape(tame(target_name(payload["target"])))
    return (
        "<table><thead><tr><th>row</th><th>column</th><th>score</th>"
        f"<th>for {target}</th></tr></thead>{rows}</table>"
    )


def every_patch(payload: dict[str, Any], explanation: dict[str, Any]) -> str:
    """Return the scores of all patches as they lie in the picture."""
    height, width = payload["picture"]["grid"]
    scores = explanation["scores"]
    floor = scale_in(explanation, "patch")["floor"]
    tints = scaled(scores, signed=explanation["signed"], floor=floor)
    head = "".join(f'<th scope="col">{column}</th>' for column in range(1, width + 1))
    rows = []
    for row in range(height):
        cells = "".join(
            f'<td style="background: {_css(tints[place], explanation["signed"], abs(tints[place]) * 0.6)}">'
            f"{scores[place]:.3g}</td>"
            for place in range(row * width, (row + 1) * width)
        )
        rows.append(f'<tr><th scope="row">{row + 1}</th>{cells}</tr>')
    return (
        f'<div class="scroll"><table class="patches"><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _map(one: Map) -> str:
    return _figure(one.pixels, f"{one.method} for {one.title}", one.method, f"for {one.title}")


def _figure(pixels: Pixels, said: str, title: str, under: str) -> str:
    height, width = pixels.shape[:2]
    return (
        f'<figure><img width="{width}" height="{height}" alt="{escape(tame(said))}" '
        f'src="data:image/png;base64,{encoded(pixels)}"><figcaption><strong>{escape(tame(title))}</strong><br>'
        f"{escape(tame(under))}</figcaption></figure>"
    )


def _css(value: float, signed: bool, alpha: float = 1.0) -> str:
    return "rgba({},{},{},{:.3f})".format(*colour_of(value, signed=signed), alpha)


def _mixed(value: float, signed: bool) -> str:
    """Return the colour of a value as it looks on dark grey."""
    share = abs(value) ** 0.75
    mixed = (60 + (part - 60) * share for part in colour_of(value, signed=signed))
    return "rgb({:.0f},{:.0f},{:.0f})".format(*mixed)
