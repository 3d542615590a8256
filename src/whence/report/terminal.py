"""An explanation in a terminal: the text tinted by its scores, and the words that count most as bars."""

from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.text import axioms, cut, headline, ranked, visible
from whence.view.shade import colour, shades

_BAR = 16
# What an encoding without these signs would show as numbers.
_ASCII = str.maketrans({"↑": "^", "↓": "v", "°": "~", "✓": "+", "✗": "x", "–": "-", "�": "?"})


class Writer:
    """Makes text for rich, of signs that the terminal's encoding has."""

    def __init__(self, *, ascii_only: bool) -> None:
        self._signs = _ASCII if ascii_only else {}

    def __call__(self, text: str, style: str = "") -> Text:
        """Return the text in a style."""
        return Text(text.translate(self._signs), style)


def render(payload: dict[str, Any], top: int = 8) -> RenderableType:
    """Lay a payload out for rich."""
    parts: list[RenderableType] = [
        Text.assemble((visible(payload["model"]["name"]), "dim"), "  ", (headline(payload), "bold"))
    ]
    if note := cut(payload):
        parts.append(Text(note, "yellow"))
    for explanation in payload["explanations"]:
        tints = shades(payload, explanation)
        parts += [
            Text(),
            Text.assemble((explanation["method"], "bold"), "  ", (visible(tints.legend), "dim")),
            tinted(payload, tints.words),
            bars(payload, explanation, top),
        ]
        if residuals := axioms(explanation):
            parts.append(Text(residuals, "dim"))
    return Group(*parts)


def tinted(payload: dict[str, Any], tints: tuple[float, ...]) -> Text:
    """Return the text with each word on the colour of its score."""
    line = Text()
    for segment, source in enumerate((payload["input"]["text"], payload["input"]["pair"])):
        chosen = [
            (w, t) for w, t in zip(payload["words"], tints, strict=True) if w["segment"] == segment
        ]
        if not chosen:
            continue
        if segment:
            line.append("  |  ", "dim")
        at = 0
        for word, tint in chosen:
            if source is None:
                line.append(" " if len(line) else "")
                line.append(visible(word["text"]), _style(tint))
                continue
            line.append(visible(source[at : word["start"]]))
            line.append(visible(source[word["start"] : word["end"]]), _style(tint))
            at = word["end"]
        if source is not None:
            line.append(visible(source[at:]), "dim")
    return line


def bars(payload: dict[str, Any], explanation: dict[str, Any], top: int) -> Table:
    """Return the strongest words as horizontal bars."""
    table = Table.grid(padding=(0, 2))
    words = ranked(payload, explanation, top)
    largest = max((abs(score) for _, score in words), default=0.0) or 1.0
    for word, score in words:
        blocks = "█" * max(1, round(_BAR * abs(score) / largest)) if score else ""
        tone = "rgb({},{},{})".format(*colour(1.0 if score > 0 else -1.0))
        table.add_row(Text("  " + word), Text(f"{score:+.3g}", justify="right"), Text(blocks, tone))
    return table


def _style(tint: float) -> str:
    # Nearly white would be the loudest thing on a dark terminal, so faint scores get no colour at all.
    if abs(tint) < 0.1:
        return ""
    return "rgb(0,0,0) on rgb({},{},{})".format(*colour(tint * 0.7 + (0.3 if tint > 0 else -0.3)))
