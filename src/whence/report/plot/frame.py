"""The frame of a drawing: its size, its axes and its words, in classes that the page's style gives colours."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from whence.report.scale import Scale, ticks

WIDTH = 320  # as wide as a phone has room for, so that letters there are as large as they are drawn


@dataclass(frozen=True)
class Frame:
    """Where things go: the two scales, within a drawing of some size."""

    across: Scale
    up: Scale
    width: float = WIDTH
    height: float = 210

    def x_axis(self, label: str, about: int = 5) -> Iterable[str]:
        """Draw ticks below, and say what they count."""
        floor = self.up.start
        for place, shown in ticks(self.across.low, self.across.high, about):
            x = self.across.at(place)
            yield line(x, floor, x, floor + 4, "grid")
            yield text(x, floor + 16, shown, "middle")
        if label:
            yield self.x_label(label)

    def x_label(self, label: str) -> str:
        """Say what lies along the lower edge."""
        middle = (self.across.start + self.across.end) / 2
        return text(middle, self.height - 5, short(label, 40), "middle")

    def y_axis(self, label: str, about: int = 4) -> Iterable[str]:
        """Draw lines across, and say what they count."""
        for place, shown in ticks(self.up.low, self.up.high, about):
            y = self.up.at(place)
            yield line(self.across.start, y, self.across.end, y, "grid")
            yield text(self.across.start - 6, y + 4, shown, "end")
        middle = (self.up.start + self.up.end) / 2
        yield (
            f'<text transform="translate(11 {middle:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(short(label, 28))}</text>"
        )


def svg(width: float, height: float, name: str, told: str, body: Iterable[str]) -> str:
    """Return a drawing; who does not see it gets its name and what it shows in words."""
    return "".join(
        [
            f'<svg class="plot" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}">',
            f"<title>{escape(name)}</title><desc>{escape(told)}</desc>",
            *body,
            "</svg>",
        ]
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """Return a straight line."""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def text(x: float, y: float, words: str, anchor: str = "start", kind: str = "") -> str:
    """Return words at a place."""
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str, told: str = "") -> str:
    """Return a filled rectangle, with words for who points at it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
        f'height="{max(height, 0):.1f}">{title}</rect>'
    )


def dot(x: float, y: float, kind: str = "own", told: str = "", radius: float = 4) -> str:
    """Return a dot, with words for who points at it."""
    title = f"<title>{escape(told)}</title>" if told else ""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}">{title}</circle>'


def path(points: Sequence[tuple[float, float]]) -> str:
    """Return the corners of a line or an area."""
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def short(label: str, most: int) -> str:
    """Cut a label that is too long; the drawing's name has the whole of it."""
    return label if len(label) <= most else f"{label[: most - 1]}…"
