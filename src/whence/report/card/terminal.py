"""A trust card in a terminal: the sentence first, then the tests as a table and the curves drawn."""

from collections.abc import Iterator
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.card.chart import ASCII, LINES, Pen, chart
from whence.report.card.wording import (
    all_names,
    bounds,
    by_chance,
    by_name,
    cost,
    counted,
    deciding,
    drawn,
    good,
    in_words,
    measured,
    own_sentence,
    percentile,
    reasons,
    setup,
    tick,
    value_name,
)
from whence.report.picture.terminal import one_map, seen
from whence.report.terminal import tinted
from whence.report.text import cut, headline, visible
from whence.view.shade import shades

_TONES = {"holds": "green", "weak": "yellow", "fails": "red", "not tested": "dim"}
_ROWS = 9  # of a chart: an odd number, so that there is a middle to label
_WIDEST = 44
_NARROWEST = 36
_GAP = 2


class Card:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: dict[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the card out."""
        payload = self._payload
        pen = ASCII if options.ascii_only else LINES
        yield Text(visible(payload["sentence"]), "bold")
        yield Text()
        yield Text.assemble((visible(payload["model"]["name"]), "bold"), "  ", headline(payload))
        if note := cut(payload):
            yield Text(note, "yellow")
        yield Text(setup(payload), "dim")
        yield Text(cost(payload), "dim")
        if payload["removal_matters"]:
            yield Text(visible(payload["removal_matters"]))
        if len(payload["methods"]) > 1:
            yield from _matrix(payload, options.max_width)
        for method in payload["methods"]:
            yield Text()
            yield from _method(payload, method, options.max_width, pen, seen(console, options))
        if len(payload["remove"]) > 1:
            yield Text()
            yield Text("A page (--html FILE) has the curves of every kind of removal.", "dim")


def render(payload: dict[str, Any]) -> RenderableType:
    """Lay a card out for rich."""
    return Card(payload)


def _verdict(verdict: str) -> Text:
    return Text(verdict, _TONES.get(verdict, ""))


def _matrix(payload: dict[str, Any], width: int) -> Iterator[RenderableType]:
    """Yield all verdicts: tests down, methods across, as many at a time as fit."""
    names = all_names(payload)
    left = max(map(len, [*names, "overall"]))
    row: list[dict[str, Any]] = []
    used = left
    for method in payload["methods"]:
        needed = max(len(method["method"]), len("not tested")) + _GAP
        if row and used + needed > width:
            yield Text()
            yield _verdicts(payload, names, row)
            row, used = [], left
        row.append(method)
        used += needed
    yield Text()
    yield _verdicts(payload, names, row)


def _verdicts(
    payload: dict[str, Any], names: list[str], methods: list[dict[str, Any]]
) -> RenderableType:
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_row("", *(Text(method["method"], "bold", overflow="fold") for method in methods))
    table.add_row(Text("overall", "bold"), *(_verdict(method["verdict"]) for method in methods))
    decided = [deciding(payload, method) for method in methods]
    for name in names:
        found = (tests[name]["verdict"] if name in tests else "not tested" for tests in decided)
        table.add_row(in_words(name), *map(_verdict, found))
    return table


def _method(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: Pen, colours: bool
) -> Iterator[RenderableType]:
    yield Text.assemble((method["method"], "bold"), "  ", _verdict(method["verdict"]))
    if said := own_sentence(payload, method):
        yield Text(visible(said))
    if payload.get("picture"):
        yield from one_map(payload, method, width, colours)
    else:
        tints = shades(payload, method)
        yield tinted(payload, tints.words)
        yield Text(visible(tints.legend), "dim")
    yield Text()
    yield _tests(payload, method, width)
    if whys := _whys(payload, method):
        yield Text()
        yield whys
    yield from _curves(payload, method, width, pen)


def _tests(payload: dict[str, Any], method: dict[str, Any], width: int) -> RenderableType:
    several = len(payload["remove"]) > 1
    roomy = width >= 72
    head = ["test", "verdict", "value", *(["by chance"] if roomy else []), "beats random"]
    table = Table(*head, box=None, pad_edge=False, header_style="dim")
    for column in table.columns:
        column.overflow = "fold"  # an ellipsis is not in every encoding
    table.columns[2].justify = "right"
    for name, tests in by_name(method["tests"]).items():
        split = several and tests[0]["remove"] is not None
        if split:
            table.add_row(in_words(name))
        for test in tests:
            table.add_row(
                f"  {test['remove']}" if split else in_words(name),
                _verdict(test["verdict"]),
                measured(test),
                *([by_chance(test)] if roomy else []),
                percentile(test),
            )
    return table


def _whys(payload: dict[str, Any], method: dict[str, Any]) -> RenderableType | None:
    """Say why, for the tests that the verdicts rest on and that do not simply hold."""
    table = Table.grid(padding=(0, _GAP, 0, 0))
    for why, tests in reasons(payload, method).items():
        names = [in_words(test["name"]) for test in tests if test["verdict"] != "holds"]
        if names:
            table.add_row("\n".join(names), Text(visible(why), "dim", overflow="fold"))
    return table if table.rows else None


def _curves(
    payload: dict[str, Any], method: dict[str, Any], width: int, pen: Pen
) -> Iterator[RenderableType]:
    """Yield the curves that the verdicts rest on, beside each other where there is room."""
    tests = [test for test in drawn(method) if test["remove"] == payload["remove"][0]]
    if not tests:
        return
    ends = bounds(tests)
    beside = 2 if width >= 2 * _NARROWEST + _GAP else 1
    room = min(_WIDEST, (width - _GAP * (beside - 1)) // beside)
    for start in range(0, len(tests), beside):
        yield Text()
        line = Table.grid(padding=(0, _GAP, 0, 0))
        line.add_row(*(_curve(payload, t, ends, room, pen) for t in tests[start : start + beside]))
        yield line
    yield Text.assemble(
        (f"{pen.flat * 2} {method['method']}", "cyan"),
        f"  {pen.band * 2} 95 of 100 random rankings",
        (f"  up: {visible(value_name(payload, ends))}", "dim"),
    )


def _curve(
    payload: dict[str, Any], test: dict[str, Any], ends: tuple[float, float], room: int, pen: Pen
) -> RenderableType:
    low, high = ends
    places = {0: high, _ROWS // 2: (low + high) / 2, _ROWS - 1: low}
    labels = {row: tick(value, ends) for row, value in places.items()}
    left = max(map(len, labels.values())) + 1
    columns = room - left - 1
    edge, corner, floor = pen.frame
    picture = Text(f"{in_words(test['name'])}: {good(test)}\n", no_wrap=True)
    for row, cells in enumerate(chart(test["curve"], ends, columns, _ROWS, pen)):
        picture.append(f"{labels.get(row, ''):>{left - 1}} {edge}", "dim")
        for cell in cells:
            picture.append(cell.glyph, {"line": "cyan", "band": "dim"}.get(cell.kind, ""))
        picture.append("\n")
    under = counted(payload, test)
    picture.append(" " * left + corner + floor * columns + "\n", "dim")
    picture.append(" " * left + f"0%{under:^{columns - 5}}100%", "dim")
    return picture
