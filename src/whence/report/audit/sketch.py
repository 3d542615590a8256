"""Plots drawn in characters, each line as wide as there is room for, in signs that the screen has."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from whence.report.audit.wording import any_figure, one_line
from whence.report.plot.attention import heaviest
from whence.report.plot.violin import quartiles
from whence.report.scale import Scale, bounds

_MOST = 4  # series of a plot; a page has them all
_WIDEST = 76
_WORDS = 5


class Pen(NamedTuple):
    """The characters to draw with."""

    levels: str  # from next to nothing to the most
    whisker: str
    quartiles: str
    median: str
    mark: str


LINES = Pen("▁▂▃▄▅▆▇█", "─", "━", "●", "▲")
ASCII = Pen("._-=+*%#", "-", "=", "o", "^")


def sketch(plot: Mapping[str, Any], width: int, pen: Pen) -> list[str]:
    """Return a plot as lines of text, none of them wider; nothing where that would not help."""
    draw = {"histogram": _histogram, "violin": _violin, "attention": _attention, "bars": _bars}
    make = draw.get(plot["kind"])
    lines = list(make(plot, min(width, _WIDEST), pen)) if make else []
    return [one_line(plot["title"]), *lines] if lines else []


def strip(counts: Sequence[float], columns: int, pen: Pen) -> str:
    """Return counts as one line of blocks, neighbours put together where there are more than columns."""
    each = -(-len(counts) // columns)
    sums = [sum(counts[at : at + each]) for at in range(0, len(counts), each)]
    most = max(sums, default=0) or 1
    top = len(pen.levels) - 1
    return "".join(" " if not c else pen.levels[min(top, int(c / most * top + 0.5))] for c in sums)


def _histogram(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    edges, series = plot["edges"], plot["series"][:_MOST]
    if len(edges) < 2 or not series:
        return
    low, high = f"{edges[0]:.3g} ", f" {edges[-1]:.3g}"
    label = _label([one["name"] for one in series], width)
    columns = max(1, width - 4 - label - len(low) - len(high) - len(", n=12345"))
    for one in series:
        blocks = strip(one["counts"], columns, pen)
        yield from _named(one["name"], label, f"{low}{blocks}{high}, n={one['n']}")
    value = plot.get("threshold")
    if value is not None and edges[0] <= value <= edges[-1]:
        place = int(Scale(edges[0], edges[-1], 0, len(blocks) - 1).at(value) + 0.5)
        yield f"{' ' * (4 + label + len(low) + place)}{pen.mark} {value:.4g}"
    yield from _more(plot["series"])


def _violin(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    known = [q for one in plot["series"] for group in one["groups"] for q in group["quantiles"]]
    if not known:
        return
    low, high = bounds(known)
    label = _label([g["name"] for one in plot["series"] for g in one["groups"]], width)
    columns = max(8, width - 4 - label - len(" 0.0000, n=12345"))
    scale = Scale(0.0 if min(known) >= 0 else low, high, 0, columns - 1)
    for one in plot["series"][:_MOST]:
        yield f"  {one_line(one['name'])}"
        for group in one["groups"]:
            found = quartiles(group)
            if found is not None:
                drawn = _box(group["quantiles"], found, scale, pen)
                yield from _named(group["name"], label, f"{drawn} {found[1]:.3g}, n={group['n']}")
    yield from _more(plot["series"])


def _label(names: Sequence[str], width: int) -> int:
    """Return how wide a column of names is; none where they would take up a third of the room."""
    longest = max((len(one_line(name)) for name in names), default=0)
    return longest + 2 if 3 * longest <= width else 0


def _named(name: str, label: int, drawn: str) -> Iterator[str]:
    """Put a name before a drawing, or above it where there is no room."""
    if not label:
        yield f"    {one_line(name)}"
    yield f"    {one_line(name) if label else '':<{label}}{drawn}"


def _box(values: Sequence[float], inner: tuple[float, float, float], scale: Scale, pen: Pen) -> str:
    line = [" "] * (int(scale.end) + 1)
    for start, end, sign in (
        (values[0], values[-1], pen.whisker),
        (inner[0], inner[2], pen.quartiles),
        (inner[1], inner[1], pen.median),
    ):
        for place in range(round(scale.at(start)), round(scale.at(end)) + 1):
            line[place] = sign
    return "".join(line)


def _attention(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    for one in plot["examples"][:1]:
        yield f"  predicted {one_line(one['predicted'])}; the {_WORDS} largest weights of the first example"
        for row in one["rows"]:
            words = heaviest(one["tokens"], row["weights"], _WORDS)
            told = ", ".join(f"'{one_line(token)}' {weight:.2f}" for token, weight in words)
            yield f"    {one_line(row['name'])}: {told}"


def _bars(plot: Mapping[str, Any], width: int, pen: Pen) -> Iterator[str]:
    for one in plot["bars"]:
        ends = [one.get("low"), one.get("high")]
        reach = f" {any_figure(ends)}" if None not in ends else ""
        yield f"  {one_line(one['name'])}: {any_figure(one.get('value'))}{reach}"


def _more(series: Sequence[Any]) -> Iterator[str]:
    if len(series) > _MOST:
        yield f"  {len(series) - _MOST} more on the page"
