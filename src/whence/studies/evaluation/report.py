"""What stands in the table of an evaluation, on every surface the same: never a mean without its interval or n."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10
from statistics import mode
from typing import Any

from whence.report.data import data_told
from whence.report.figures import TOO_FEW, digits_of, interval
from whence.report.table.failure import NOTHING as TESTED_NOTHING
from whence.report.table.failure import failure
from whence.report.table.power import power
from whence.report.text import visible

ARROWS = {"higher": "↑", "lower": "↓"}
NOTHING = "not tested"
CHANCE = "chance"  # a method may be called random

LEGEND = (
    "Mean over the examples [95% bootstrap interval]. ↑ more is better, ↓ less is better. Chance: what random "
    "explanations of the same examples get.",
    "{best}: no other method is better by more than chance. {chance}: cannot be told from random explanations, or is "
    "worse. Paired sign-flip tests, corrected by Holm's procedure for all comparisons of a metric, at 5%.",
)


@dataclass(frozen=True)
class Cell:
    """One cell in words, and how it is to be marked."""

    own: str
    best: bool = False
    chance: bool = False  # no better than random explanations, as far as can be told
    null: str = ""  # what random explanations get, where it is another number for each method

    @property
    def text(self) -> str:
        """All figures on one line."""
        return f"{self.own}, {self.null}" if self.null else self.own


@dataclass(frozen=True)
class Grid:
    """Methods down, some metrics of one kind across, random explanations last."""

    kind: str
    metrics: tuple[str, ...]
    arrows: tuple[str, ...]
    counts: tuple[str, ...]  # of examples that most methods were tested on; the others say so
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def grids(payload: Mapping[str, Any], across: int) -> Iterator[Grid]:
    """Cut the table of an evaluation into pieces of at most so many metrics."""
    for metrics in pieces_of(payload, across):
        yield _grid(payload, metrics[0]["kind"], metrics)


def pieces_of(payload: Mapping[str, Any], across: int) -> Iterator[list[Mapping[str, Any]]]:
    """Cut the metrics into pieces of one kind."""
    kinds = dict.fromkeys(one["kind"] for one in payload["metrics"])
    for kind in kinds:
        own = [one for one in payload["metrics"] if one["kind"] == kind]
        pieces = -(-len(own) // max(across, 1))
        ends = [-(-len(own) * piece // pieces) for piece in range(pieces + 1)]  # as even as can be
        for start, end in pairwise(ends):
            yield own[start:end]


def _grid(payload: Mapping[str, Any], kind: str, metrics: Sequence[Mapping[str, Any]]) -> Grid:
    columns = [_column(payload, metric) for metric in metrics]
    names = [one["method"] for one in payload["methods"]]
    return Grid(
        kind,
        tuple(metric["metric"] for metric in metrics),
        tuple(ARROWS[metric["direction"]] for metric in metrics),
        tuple(count for count, _ in columns),
        tuple(
            (name, tuple(cells[place] for _, cells in columns))
            for place, name in enumerate([*names, CHANCE])
        ),
    )


def _column(payload: Mapping[str, Any], metric: Mapping[str, Any]) -> tuple[str, list[Cell]]:
    own = [cell for cell in payload["cells"] if cell["metric"] == metric["metric"]]
    tested = [cell for cell in own if cell["n"]]
    digits = digits_of([*tested, *([metric["null"]] if metric["null"] else [])])
    usual = mode(cell["n"] for cell in tested) if tested else 0
    cells = []
    for cell in own:
        if not cell["n"]:
            cells.append(Cell(NOTHING))
            continue
        chance = ""
        if metric["null"] is None and cell["null"]:
            chance = f"{CHANCE} {interval(cell['null'], digits, cell['n'])}"
        marked = cell["beats_random"] is False and cell.get("enough", True)
        cells.append(Cell(interval(cell, digits, usual), cell["best"], marked, chance))
    null = metric["null"]
    last = interval(null, digits, usual) if null else "see each" if tested else NOTHING
    return count_of(own), [*cells, Cell(last)]


def count_of(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how many examples most rows are of, and that these are too few, if they are."""
    counts = [row["n"] for row in rows if row["n"]]
    if not counts:
        return ""
    usual = mode(counts)
    few = any(row["n"] == usual and row["low"] is None for row in rows)
    return f"n={usual}: {TOO_FEW}" if few else f"n={usual}"


COSTS = ("method", "seconds per example", "forwards", "backwards", "explained")
COSTS_LEGEND = (
    "Costs are means over the explained examples [95% bootstrap interval]; one number alone: the same for each. "
    "Seconds are timed batch by batch: of fewer than 5 batches no interval is known."
)


def costs(payload: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return for each method: its name, seconds, forward and backward passes per example, and examples explained."""
    rows = []
    for one in payload["methods"]:
        explained = f"{one['explained']} of {payload['examples']['given']}"
        passes = [
            _passes(one[what], one["explained"]) if one[what] else "-"
            for what in ("forward", "backward")
        ]
        seconds = _seconds(one["seconds"]) if one["seconds"] else "-"
        rows.append((one["method"], seconds, *passes, explained))
    return rows


def _seconds(one: Mapping[str, Any]) -> str:
    mean, n = one["mean"], one["n"]
    digits = 1 - floor(log10(mean)) if 0 < mean < 10 else 0
    return f"{interval(one, digits, n)} ({n} {'batch' if n == 1 else 'batches'})"


def _passes(one: Mapping[str, Any], explained: int) -> str:
    if one.get("least", one["low"]) == one.get("most", one["high"]) and one["mean"] % 1 == 0:
        return f"{one['mean']:.0f}"
    if one["low"] is None and "least" in one:
        return f"{one['mean']:.4g} (from {one['least']:.0f} to {one['most']:.0f})"
    return interval(one, digits_of([one]), explained)


def notes(payload: Mapping[str, Any]) -> list[str]:
    """Say what could not be done, and why."""
    reached = [one["metric"] for one in payload["metrics"] if one.get("aim") == "reach"]
    lines = [f"{name}: what random explanations get is the aim here." for name in reached]
    lines = [f"{TESTED_NOTHING}."] if failure(payload) else lines + notes_of_size(payload)
    lines += [
        f"{_counted(row, 'example')} could not be taken by any method: {row['why']}"
        for row in payload["examples"]["why_not"]
    ]
    given = payload["examples"]["given"]
    for one in payload["methods"]:
        for row in one["why_not"]:
            what = "every example" if row["count"] == given else _counted(row, "example")
            lines.append(f"{one['method']} failed for {what}: {row['why']}")
    untested: dict[tuple[str, int, str], list[str]] = {}
    for cell in payload["cells"]:
        for row in cell["why_not"]:
            key = (cell["metric"], row["count"], row["why"])
            untested.setdefault(key, []).append(cell["method"])
    everyone = [one["method"] for one in payload["methods"] if one["explained"]]
    together: dict[tuple[int, str, tuple[str, ...]], list[str]] = {}
    for (metric, count, why), methods in untested.items():
        together.setdefault((count, why, tuple(methods)), []).append(metric)
    for (count, why, who), metrics in together.items():
        whom = "" if list(who) == everyone else f" of {', '.join(who)}"
        examples = "1 example" if count == 1 else f"{count} examples"
        lines.append(f"{', '.join(metrics)}{whom} could not be tested on {examples}: {why}")
    return [visible(line) for line in lines]


def notes_of_size(payload: Mapping[str, Any]) -> list[str]:
    """Say what concerns every figure: that there are too few examples, or that some are copies or not whole."""
    return [*power(payload), *_copies(payload), *_cut(payload), *_warned(payload)]


def _copies(payload: Mapping[str, Any]) -> list[str]:
    given = payload["examples"]["given"]
    different = payload["examples"].get("different", given)
    if different >= given:
        return []
    return [
        f"Only {different} of the {given} examples {'is' if different == 1 else 'are'} different; intervals and "
        "tests take each for an observation of its own, so they promise too much."
    ]


def _warned(payload: Mapping[str, Any]) -> list[str]:
    """Say what must be known of the inputs, such as that they are no pairs."""
    of = payload["examples"]["explained"]
    found = payload["examples"].get("warnings", ())
    return [f"{row['count']} of {of} examples: {visible(row['message'])}" for row in found]


def _cut(payload: Mapping[str, Any]) -> list[str]:
    count, of = payload["examples"].get("cut", 0), payload["examples"]["explained"]
    if not count:
        return []
    verb = "was" if count == 1 else "were"
    said = f"{count} of {of} examples {verb} longer than the model takes and {verb} cut"
    marked = any(one["kind"] == "plausibility" for one in payload["metrics"])
    return [f"{said}, with what people marked beyond." if marked else f"{said}."]


def _counted(row: Mapping[str, Any], what: str) -> str:
    count = row["count"]
    named = ", ".join(str(number) for number in row["examples"])
    more = ", ..." if count > len(row["examples"]) else ""
    return f"{count} {what}{'' if count == 1 else 's'} (number {named}{more})"


def headline(payload: Mapping[str, Any]) -> str:
    """Say what was evaluated."""
    setting, examples = payload["setting"], payload["examples"]
    count = len(payload["methods"])
    methods = "1 method" if count == 1 else f"{count} methods"
    # Nobody knows how anything would have been removed where no example could be explained.
    how = f"removed by {setting['remove']}, {setting['unit']} by {setting['unit']}, "
    removed = how if setting["remove"] else ""
    return (
        f"{' '.join(visible(payload['model']['name']).split())}: {methods} on {examples['explained']} of "
        f"{examples['given']} examples, {removed}{setting['rankings']} random explanations each, "
        f"seed {setting['seed']}"
    )


def data_line(payload: Mapping[str, Any]) -> list[str]:
    """Name the data set, and what was drawn from how many rows; of what an earlier whence wrote, nothing is known."""
    told = data_told(payload.get("data"))
    return [f"{told}."] if told else []


def effort(payload: Mapping[str, Any]) -> list[str]:
    """Say what it took, where that is known."""
    calls, seconds = payload["calls"], payload["seconds"]
    took = [] if seconds is None else [f"{seconds:,.1f} s"]
    if calls is not None:
        took.insert(
            0,
            f"{calls['forward']:,} forward and {calls['backward']:,} backward passes of the model in all",
        )
    return [", ".join(took) + "."] if took else []


def agreement(payload: Mapping[str, Any]) -> list[str]:
    """Say which methods agree most and least, by each measure."""
    lines = []
    for measure in dict.fromkeys(row["measure"] for row in payload["agreement"]):
        rows = [r for r in payload["agreement"] if r["measure"] == measure and r["n"]]
        if not rows:
            continue
        rows.sort(key=lambda row: row["mean"])
        digits = digits_of(rows)
        ends = [("", rows[0])] if len(rows) == 1 else [("most ", rows[-1]), ("least ", rows[0])]
        said = "; ".join(
            f"{which}{row['a']} and {row['b']} {interval(row, digits)}" for which, row in ends
        )
        if null := rows[-1].get("null"):
            said += f"; {CHANCE} {interval(null, digits)}"
        lines.append(f"{measure.replace('_', ' ')}: {said}")
    return lines


"""The table of an evaluation: methods by metrics, for a terminal, a paper, a notebook or a program."""

from whence.report.table.export import compared, latex, markdown, tidy
from whence.report.table.html import fragment, page
from whence.report.table.text import plain

__all__ = ["compared", "fragment", "latex", "markdown", "page", "plain", "tidy"]


"""The table of an evaluation for papers and programs: Markdown, LaTeX, comma separated values."""

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from io import StringIO
from typing import Any

from whence.report.latex import escaped as latex_escaped
from whence.report.latex import table as latex_table
from whence.report.markdown import escaped, table
from whence.report.spreadsheet import harmless
from whence.report.table.grid import (
    CHANCE,
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids

_ACROSS = 4
_MARKS = {"best": "Bold", "chance": "°"}


def markdown(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in Markdown."""
    parts = [" ".join([escaped(headline(payload)) + ".", *map(escaped, data_line(payload))])]
    parts += [_markdown_grid(grid) for grid in grids(payload, _ACROSS)]
    pairs = [_markdown_grid(grid) for grid in pair_grids(payload, _ACROSS)]
    parts += pairs
    parts.append(table([COSTS, *((f"`{name}`", *facts) for name, *facts in costs(payload))]))
    legend = [line.format(**_MARKS) for line in LEGEND]
    parts.append(" ".join([*legend, *([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]))
    said = [f"Agreement by {line}." for line in agreement(payload)]
    said += [*notes(payload), *elsewhere(payload), *effort(payload)]
    parts.append("\n".join(f"- {escaped(line)}" for line in said))
    return "\n\n".join(parts) + "\n"


def _markdown_grid(grid: Grid) -> str:
    rows = [
        (_markdown_name(name), *(_marked(cell, "**{}**".format, " °") for cell in cells))
        for name, cells in grid.rows
    ]
    return table([(grid.kind, *_heads(grid)), *rows])


def _markdown_name(name: str) -> str:
    return name if name == CHANCE else " over ".join(f"`{one}`" for one in name.split(" over "))


def _heads(grid: Grid) -> list[str]:
    return [
        " ".join(part for part in (name, arrow, f"({count})" if count else "") if part)
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]


def _marked(cell: Cell, strong: Callable[[str], str], chance: str) -> str:
    """Write a cell with its marks at its own figures, not at those of random explanations."""
    own = (strong(cell.own) if cell.best else cell.own) + (chance if cell.chance else "")
    return f"{own}, {cell.null}" if cell.null else own


def latex(payload: Mapping[str, Any]) -> str:
    """Write an evaluation in LaTeX, with the rules of booktabs."""
    parts = ["% " + " ".join(line.split()) for line in (headline(payload), *data_line(payload))]
    parts.append("% \\usepackage{booktabs}")
    for grid in grids(payload, _ACROSS):
        parts += latex_table([grid.kind, *_heads(grid)], _latex_rows(grid), {CHANCE})
    pairs = list(pair_grids(payload, _ACROSS))
    for grid in pairs:
        parts += latex_table([grid.kind, *_heads(grid)], _latex_rows(grid), {CHANCE})
    cost = [
        [latex_escaped(name), *(f"{{{latex_escaped(fact)}}}" for fact in facts)]
        for name, *facts in costs(payload)
    ]
    parts += latex_table(COSTS, cost)
    said = [line.format(**_MARKS) for line in LEGEND]
    said += [*([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]
    said += [f"Agreement by {line}." for line in agreement(payload)]
    said += [*notes(payload), *elsewhere(payload), *effort(payload)]
    parts += [f"% {' '.join(line.split())}" for line in said]
    return "\n".join(parts) + "\n"


def _latex_rows(grid: Grid) -> list[list[str]]:
    return [[latex_escaped(name), *map(_latex_cell, cells)] for name, cells in grid.rows]


def _latex_cell(cell: Cell) -> str:
    # A bracket that follows a line break or a macro would be taken for its argument.
    safe = replace(cell, own=f"{{{latex_escaped(cell.own)}}}", null=latex_escaped(cell.null))
    return _marked(safe, "\\textbf{}".format, "$^\\circ$")


_DATA = ("data", "rows", "drawn", "drawn_by_seed")  # its name, all rows, those that were taken
_CELLS = (
    *("model", "remove", "unit", "seed", "method", "metric", "kind", "direction"),
    *("mean", "low", "high", "n", "random", "random_low", "random_high"),
    *("gain", "gain_low", "gain_high", "effect", "p", "beats_random", "best", "enough"),
    *("seconds", "forward", "backward", "untested"),
    *_DATA,
)
_PAIRS = (
    *("model", "remove", "unit", "seed", "metric", "a", "b"),
    *("gain", "low", "high", "n", "p", "enough"),
    *_DATA,
)


def tidy(payload: Mapping[str, Any]) -> str:
    """Write one row for each method and metric, all figures in full."""
    costs_of = {one["method"]: one for one in payload["methods"]}
    facts_of = {one["metric"]: one for one in payload["metrics"]}
    rows = []
    for cell in payload["cells"]:
        fact, own = facts_of[cell["metric"]], costs_of[cell["method"]]
        rows.append(
            [
                *_setting(payload),
                *(cell["method"], cell["metric"], fact["kind"], fact["direction"]),
                *(cell[name] for name in ("mean", "low", "high", "n")),
                *_ends(cell["null"]),
                *_ends(cell["gain"]),
                *(cell[name] for name in ("effect", "p", "beats_random", "best")),
                cell.get("enough", True),
                *(_ends(own[what])[0] for what in ("seconds", "forward", "backward")),
                sum(row["count"] for row in cell["why_not"]),
                *_data(payload),
            ]
        )
    return _separated(_CELLS, rows)


def compared(payload: Mapping[str, Any]) -> str:
    """Write one row for each two methods and metric: by how much `a` is better than `b`, and the corrected p."""
    return _separated(
        _PAIRS,
        [
            [
                *_setting(payload),
                *(pair["metric"], pair["a"], pair["b"]),
                *_ends(pair["gain"]),
                pair["gain"]["n"] if pair["gain"] else 0,
                pair["p"],
                pair.get("enough", True),
                *_data(payload),
            ]
            for pair in payload["pairs"]
        ],
    )


def _setting(payload: Mapping[str, Any]) -> list[Any]:
    setting = payload["setting"]
    return [payload["model"]["name"], setting["remove"], setting["unit"], setting["seed"]]


def _data(payload: Mapping[str, Any]) -> list[Any]:
    """Return what the data set is called, how many rows it has, how many were taken, and by which seed."""
    facts = payload.get("data") or {}
    taken = facts.get("rows") if facts.get("drawn") is None else facts["drawn"]
    return [facts.get("name"), facts.get("rows"), taken, facts.get("seed")]


def _ends(one: Mapping[str, Any] | None) -> list[Any]:
    return [None, None, None] if one is None else [one[name] for name in ("mean", "low", "high")]


def _separated(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    stream = StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([harmless(value) for value in row] for row in rows)
    return stream.getvalue()


"""The sentence of an evaluation that tested nothing: which errors that was, and how often each came."""

from collections.abc import Iterator, Mapping
from typing import Any

NOTHING = "Nothing was tested"
_NAMED = 3  # reasons that the sentence has room for; the notes below the table have all of them


def failure(payload: Mapping[str, Any]) -> str | None:
    """Return a sentence on why nothing at all was tested; None where one number was found."""
    if any(row["n"] for what in ("cells", "agreement") for row in payload[what]):
        return None
    reasons = sorted(_reasons(payload), key=lambda reason: -reason[0])
    said = [text for _, text in reasons[:_NAMED]]
    if more := len(reasons) - len(said):
        said.append(f"{more} more reason{'' if more == 1 else 's'}")
    why = "; ".join(text.removesuffix(".") for text in said)
    return f"{NOTHING}: {why or 'agreement is that of two methods, and there is one'}."


def _reasons(payload: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Go through what was refused, what failed and what could not be tested: how often, and the error's words."""
    given = payload["examples"]["given"]
    for row in payload["examples"]["why_not"]:
        yield row["count"], f"no method could take {row['count']} of {given}: {row['why']}"
    methods: dict[tuple[str, int], list[str]] = {}
    for one in payload["methods"]:
        for row in one["why_not"]:
            methods.setdefault((row["why"], row["count"]), []).append(one["method"])
    for (why, count), names in methods.items():
        yield count, f"{', '.join(names)} failed for {count} of {given}: {why}"
    metrics: dict[tuple[str, int], list[str]] = {}
    tested = [(cell["metric"], cell["why_not"]) for cell in payload["cells"]]
    tested += [(row["measure"], row.get("why_not", ())) for row in payload["agreement"]]
    for metric, why_not in tested:
        for row in why_not:
            metrics.setdefault((row["why"], row["count"]), []).append(metric)
    for (why, count), names in metrics.items():
        tests = ", ".join(dict.fromkeys(names))
        yield count, f"{tests} could not be measured on {count} of {given}: {why}"


"""The table of an evaluation for a notebook and as a page: every piece of text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.sheet import cell as notebook
from whence.report.sheet import provenance, sheet
from whence.report.table.grid import (
    CHANCE,
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids
from whence.report.table.plot import plot

_ACROSS = 4
STYLE = """.whence td.chance, .whence tr.chance td { color: var(--dim); }
.whence .wide { overflow-x: auto; }
.whence svg { max-width: max(100%, 40rem); height: auto; }"""


def page(*payloads: dict[str, Any]) -> str:
    """Return a whole page about one evaluation, or about several that belong together."""
    return sheet("whence: methods held against each other", "".join(map(fragment, payloads)), "")


def fragment(payload: dict[str, Any], answer: str = "", plan: str = "") -> str:
    """Return a piece of HTML for a notebook cell, below an answer that stands on it and its plan, if there are."""
    above = [
        f"<p><strong>{escape(answer)}</strong></p>" if answer else "",
        f'<p class="dim">{escape(plan)}</p>' if plan else "",
        f"<h2>{escape(headline(payload))}</h2>",
        *(f'<p class="dim">{escape(line)}</p>' for line in data_line(payload)),
    ]
    inside = "\n".join([*above, body(payload), provenance(payload)])
    return notebook(f"<section>{inside}</section>", STYLE)


def body(payload: Mapping[str, Any]) -> str:
    """Return the drawing, the tables and all that is said about them, to stand below a heading."""
    legend = [line.format(best="Bold", chance="°") for line in LEGEND]
    pairs = list(pair_grids(payload, _ACROSS))
    legend += [*([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]
    said = [f"Agreement by {line}." for line in agreement(payload)]
    parts = [
        f'<div class="wide">{plot(payload, titled=False)}</div>',
        *(_table(grid) for grid in grids(payload, _ACROSS)),
        *(_table(grid) for grid in pairs),
        _rows([COSTS], costs(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*legend, *said]),
        *(f"<p>{escape(line)}</p>" for line in notes(payload)),
        *(f'<p class="dim">{escape(line)}</p>' for line in [*elsewhere(payload), *effort(payload)]),
    ]
    return "\n".join(parts)


def _table(grid: Grid) -> str:
    heads = "".join(
        f'<th>{escape(name)} {arrow} <span class="dim">{escape(count)}</span></th>'
        for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    )
    rows = "".join(
        f'<tr class="{"chance" if name == CHANCE else "method"}"><td>{escape(name)}</td>'
        f"{''.join(_cell(cell) for cell in cells)}</tr>"
        for name, cells in grid.rows
    )
    return _wide(f"<tr><th>{escape(grid.kind)}</th>{heads}</tr>", rows)


def _cell(cell: Cell) -> str:
    text = escape(cell.own)
    text = f"<strong>{text}</strong>" if cell.best else text
    null = f'<br><span class="dim">{escape(cell.null)}</span>' if cell.null else ""
    return f'<td class="chance">{text} °{null}</td>' if cell.chance else f"<td>{text}{null}</td>"


def _rows(heads: Sequence[Sequence[str]], body: Sequence[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(one)}</th>" for head in heads for one in head)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(one)}</td>' for one in row)}</tr>" for row in body)
    return _wide(f"<tr>{top}</tr>", rows)


def _wide(head: str, rows: str) -> str:
    """Return a table that scrolls by itself where the page is too narrow for it."""
    return f'<div class="wide"><table><thead>{head}</thead>{rows}</table></div>'


"""Each two methods of an evaluation beside each other: how much better one is, and whether that may be chance."""

from collections.abc import Iterator, Mapping, Sequence
from statistics import mode
from typing import Any

from whence.report.figures import digits_of, interval
from whence.report.table.grid import NOTHING, Cell, Grid, count_of, pieces_of

MOST = 6  # methods; more have more pairs than anybody reads
PAIRS_LEGEND = (
    "By how much the first method is better than the second, example by example [95% bootstrap interval], and p of "
    "that difference, corrected with all comparisons of the metric."
)


def pair_grids(payload: Mapping[str, Any], across: int) -> Iterator[Grid]:
    """Return tables of each two methods by some metrics of a kind, if they are few enough to be read."""
    if not 2 <= len(payload["methods"]) <= MOST:
        return
    for metrics in pieces_of(payload, across):
        columns = [
            [pair for pair in payload["pairs"] if pair["metric"] == metric["metric"]]
            for metric in metrics
        ]
        if not all(columns):
            continue
        names = [f"{pair['a']} over {pair['b']}" for pair in columns[0]]
        gains = [[pair["gain"] or {"n": 0, "low": None} for pair in pairs] for pairs in columns]
        cells = [_differences(pairs) for pairs in columns]
        yield Grid(
            "difference",
            tuple(metric["metric"] for metric in metrics),
            ("",) * len(metrics),
            tuple(count_of(own) for own in gains),
            tuple((name, tuple(own[place] for own in cells)) for place, name in enumerate(names)),
        )


def _differences(pairs: Sequence[Mapping[str, Any]]) -> list[Cell]:
    tested = [pair["gain"] for pair in pairs if pair["gain"]]
    digits = digits_of(tested)
    usual = mode(one["n"] for one in tested) if tested else 0
    return [
        Cell(f"{interval(pair['gain'], digits, usual)} p={_p(pair['p'])}")
        if pair["gain"]
        else Cell(NOTHING)
        for pair in pairs
    ]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1g}"


def elsewhere(payload: Mapping[str, Any]) -> list[str]:
    """Say where the comparisons of each two methods are to be found, if they are too many for a table."""
    if len(payload["methods"]) <= MOST or not payload["pairs"]:
        return []
    return [
        f"The {len(payload['pairs']):,} comparisons of each two methods are in the JSON object, and one a row in "
        'what `--pairs FILE` and `to_csv(what="pairs")` write.'
    ]


"""An evaluation drawn: a panel for each metric, in it a dot with its interval for each method."""

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any

from whence.report.figures import TOO_FEW
from whence.report.scale import Scale, bounds, ticks
from whence.report.table.grid import ARROWS, data_line, headline, notes_of_size
from whence.view.shade import POSITIVE

_ROW = 20  # height of a method
_PANEL = 210
_GAP = 26
_HEAD = 40
_FOOT = 30
_ACROSS = 4
_INK, _DIM, _RULE, _BAND = "#1b1f24", "#5c6670", "#e3e7eb", "#e9ecef"
_LEGEND = (
    "Dot: mean; line: 95% bootstrap interval. Dashed, with its interval as a band: random explanations of the same "
    "examples.",
    "Filled: no other method is better by more than chance. Grey: cannot be told from random explanations, or is "
    "worse.",
)
_DOT = "#{:02x}{:02x}{:02x}".format(*POSITIVE)


def plot(payload: Mapping[str, Any], *, titled: bool = True) -> str:
    """Return the drawing in SVG. Methods stand in the order of their means by the first metric, best first."""
    methods = _ordered(payload)
    metrics = payload["metrics"]
    label = 18 + 7.2 * max(len(name) for name in methods)  # of the names, in a font of 12
    across = min(_ACROSS, len(metrics)) or 1
    tall = _HEAD + _ROW * len(methods) + _FOOT
    down = -(-len(metrics) // across)
    width = label + across * (_PANEL + _GAP) + 8
    title = _lines(headline(payload), width, 13) if titled else []
    below = (*data_line(payload), *_LEGEND, *notes_of_size(payload))
    foot = [line for said in below for line in _lines(said, width, 11)]
    above = 22 + 17 * len(title) if titled else 4
    height = above + down * tall + 14 + 16 * len(foot)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif" font-size="12" '
        f'role="img"><title>{escape(headline(payload))}</title>',
        f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        *(_text(8, 24 + 17 * row, line, size=13, weight="600") for row, line in enumerate(title)),
    ]
    for place, metric in enumerate(metrics):
        top = above + tall * (place // across)
        left = label + (place % across) * (_PANEL + _GAP)
        if place % across == 0:
            parts += [
                _text(label - 10, top + _HEAD + _ROW * (row + 0.5) + 4, name, anchor="end")
                for row, name in enumerate(methods)
            ]
        parts.append(_panel(payload, metric, methods, left, top))
    bottom = height - 16 * len(foot)
    parts += [
        _text(8, bottom + 16 * row, line, colour=_DIM, size=11) for row, line in enumerate(foot)
    ]
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _lines(text: str, width: float, size: int) -> list[str]:
    """Break a text into lines that fit; the letters are less than 0.6 of their size wide, on average."""
    return wrap(text, max(20, int((width - 16) / (0.6 * size))))


def _ordered(payload: Mapping[str, Any]) -> list[str]:
    names = [one["method"] for one in payload["methods"]]
    if not payload["metrics"]:
        return names
    first = payload["metrics"][0]
    sign = 1 if first["direction"] == "higher" else -1
    means = {
        cell["method"]: cell["mean"]
        for cell in payload["cells"]
        if cell["metric"] == first["metric"] and cell["n"]
    }
    return sorted(names, key=lambda name: -sign * means[name] if name in means else float("inf"))


def _panel(
    payload: Mapping[str, Any],
    metric: Mapping[str, Any],
    methods: Sequence[str],
    left: float,
    top: float,
) -> str:
    cells = {
        cell["method"]: cell for cell in payload["cells"] if cell["metric"] == metric["metric"]
    }
    tested = [cells[name] for name in methods if cells[name]["n"]]
    first, last = top + _HEAD, top + _HEAD + _ROW * len(methods)
    better = "more is better" if metric["direction"] == "higher" else "less is better"
    counts = sorted({cell["n"] for cell in tested})
    n = (
        ""
        if not counts
        else f", n={counts[0]}"
        if len(counts) == 1
        else f", n={counts[0]}–{counts[-1]}"
    )
    parts = [
        f"<g><title>{escape(metric['metric'])}</title>",
        _text(left, top + 14, f"{metric['metric']} {ARROWS[metric['direction']]}", weight="600"),
        _text(left, top + 30, better + n, colour=_DIM, size=11),
    ]
    if not tested:
        parts.append(_text(left, first + 14, "not tested", colour=_DIM))
        return "\n".join([*parts, "</g>"])
    scale = _scale(tested, left)
    for tick, shown in ticks(scale.low, scale.high):
        x = scale.at(tick)
        parts.append(_line(x, first, x, last, _RULE))
        parts.append(_text(x, last + 14, shown, anchor="middle", colour=_DIM, size=10))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW * row
        if cell["n"] and cell["null"]:
            parts.append(_random(scale, cell["null"], y))
    for row, name in enumerate(methods):
        cell, y = cells[name], first + _ROW * (row + 0.5)
        parts.append(
            _dot(scale, cell, y)
            if cell["n"]
            else _text(left, y + 4, "not tested", colour=_DIM, size=10)
        )
    return "\n".join([*parts, "</g>"])


def _random(scale: Scale, null: Mapping[str, Any], y: float) -> str:
    """Draw random explanations behind one method; where all have the same, it is one line down the panel."""
    x = scale.at(null["mean"])
    dashed = f'stroke="{_DIM}" stroke-dasharray="4 3"'
    line = f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{y + _ROW:.1f}" {dashed}/>'
    if null["low"] is None:
        return line
    low, high = scale.at(null["low"]), scale.at(null["high"])
    band = (
        f'<rect x="{low:.1f}" y="{y:.1f}" width="{high - low:.1f}" height="{_ROW}" fill="{_BAND}"/>'
    )
    return band + line


def _dot(scale: Scale, cell: Mapping[str, Any], y: float) -> str:
    x = scale.at(cell["mean"])
    # Where nothing could have been told apart, nothing is greyed out either.
    grey = cell["beats_random"] is False and cell.get("enough", True)
    colour = "#8a939c" if grey else _DOT
    fill = colour if cell["best"] else "#fff"
    told = f"{cell['method']}: {cell['mean']:.4g}"
    line = ""
    if cell["low"] is not None:
        told += f" [{cell['low']:.4g}, {cell['high']:.4g}], n={cell['n']}"
        line = _line(scale.at(cell["low"]), y, scale.at(cell["high"]), y, colour, 2)
    else:
        told += f", n={cell['n']}: {TOO_FEW}"
    return (
        f"<g><title>{escape(told)}</title>{line}"
        f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{fill}" stroke="{colour}" stroke-width="2"/></g>'
    )


def _scale(cells: Sequence[Mapping[str, Any]], left: float) -> Scale:
    """Return a scale that shows all intervals."""
    ends = [
        one[end]
        for cell in cells
        for one in (cell, cell["null"] or cell)
        for end in ("mean", "low", "high")
        if one[end] is not None
    ]
    return Scale(*bounds(ends), left, left + _PANEL)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" '
        f'stroke-width="{width}"/>'
    )


def _text(
    x: float,
    y: float,
    text: str,
    *,
    anchor: str = "start",
    colour: str = _INK,
    size: int = 12,
    weight: str = "400",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}" '
        f'font-weight="{weight}">{escape(text)}</text>'
    )


"""Whether there are examples enough for any difference to show."""

from collections.abc import Mapping
from typing import Any


def power(payload: Mapping[str, Any]) -> list[str]:
    """Say where there are so few examples that no difference could have shown."""
    found: dict[str, list[str]] = {}
    alone: list[str] = []
    judged = [one for one in payload["metrics"] if one.get("needed")]
    for metric in judged:
        cells = [c for c in payload["cells"] if c["metric"] == metric["metric"] and c["n"]]
        few = [cell for cell in cells if not cell.get("enough", True)]
        if few and len(few) == len(cells):
            n = max(cell["n"] for cell in cells)
            found.setdefault(too_few(n, len(cells), metric["needed"]), []).append(metric["metric"])
            continue
        alone += [
            f"{metric['metric']}: {cell['method']} has too few examples, n={cell['n']}, to be told from random "
            "explanations."
            for cell in few
        ]
    said = [
        line if len(names) == len(judged) else f"{', '.join(names)}: {line}"
        for line, names in found.items()
    ]
    return [*said, *alone]


def too_few(n: int, methods: int, needed: int) -> str:
    """Say that so many examples cannot show any difference, and how many can."""
    examples = "n=1 example is" if n == 1 else f"n={n} examples are"
    compared = "1 method" if methods == 1 else f"{methods} methods"
    return f"{examples} too few: with {compared} compared, differences can only show from n={needed} on."


"""The table of an evaluation in a terminal: as many metrics side by side as there is room for."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whence.report.table.grid import (
    CHANCE,
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids
from whence.report.table.text import BEST, NO_BETTER
from whence.report.terminal import Writer
from whence.report.text import visible

_CELL = 27  # columns that a metric takes up, about
_PAIR = 34  # the same of a difference with its p
_OVER = " over "


class Sheet:
    """A payload laid out for rich, as wide as the terminal."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the tables out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        longest = max((len(one["method"]) for one in payload["methods"]), default=0)
        room = options.max_width - longest
        yield write(headline(payload), "bold")
        yield from (write(line, "dim") for line in data_line(payload))
        for grid in grids(payload, max(1, room // _CELL)):
            yield Text()
            yield _table(grid, write)
        pairs = list(pair_grids(payload, max(1, (room - longest - len(_OVER)) // _PAIR)))
        # Where there is no room for two names side by side, the second goes below.
        between = _OVER if room - longest - len(_OVER) >= _PAIR else f"{_OVER.rstrip()}\n"
        for grid in pairs:
            yield Text()
            yield _table(grid, write, between)
        yield Text()
        yield _costs(payload, write, options.max_width)
        yield Text()
        legend = [line.format(best=BEST, chance=NO_BETTER) for line in LEGEND]
        for line in [*legend, *([PAIRS_LEGEND] if pairs else []), COSTS_LEGEND]:
            yield write(line, "dim")
        for line in agreement(payload):
            yield write(f"Agreement by {line}.", "dim")
        for line in notes(payload):
            yield write(line, "yellow")
        for line in [*elsewhere(payload), *effort(payload)]:
            yield write(line, "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay an evaluation out for rich."""
    return Sheet(payload)


def answered(sentence: str, payload: Mapping[str, Any], plan: str = "") -> RenderableType:
    """Lay out an answer, with the plan and the evaluation that it stands on."""
    return Group(_Answer(sentence, plan), Text(), Sheet(payload))


class _Answer:
    """A sentence and what was planned for it."""

    def __init__(self, sentence: str, plan: str) -> None:
        self._sentence, self._plan = sentence, plan

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        write = Writer(ascii_only=options.ascii_only)
        yield write(visible(self._sentence), "bold")
        if self._plan:
            yield write(visible(self._plan), "dim")


def _table(grid: Grid, write: Writer, between: str = _OVER) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(Text(grid.kind, "dim"), no_wrap=True)
    for name, arrow, count in zip(grid.metrics, grid.arrows, grid.counts, strict=True):
        head = f"{name} {arrow}" if arrow else name
        both = Text.assemble(write(head, "bold"), " ", write(count, "dim"))
        table.add_column(both, overflow="fold")
    for name, cells in grid.rows:
        last = name == CHANCE
        table.add_row(
            Text(name.replace(_OVER, between), "dim" if last else "bold"),
            *(_cell(cell, last, write) for cell in cells),
        )
    return table


def _cell(cell: Cell, last: bool, write: Writer) -> Text:
    style = "dim" if last or cell.chance else "green" if cell.best else ""
    marks = (f" {BEST}" if cell.best else "") + (f" {NO_BETTER}" if cell.chance else "")
    text = write(cell.own + marks, style)
    return Text.assemble(text, "\n", write(cell.null, "dim")) if cell.null else text


def _costs(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    """Lay the costs out side by side, or where a word would have to be broken for that, one below the other."""
    rows = [COSTS, *costs(payload)]
    words = [
        max(len(word) for text in column for word in text.split())
        for column in zip(*rows, strict=True)
    ]
    if sum(words) + 2 * (len(words) - 1) > width:
        lines = [
            Text.assemble(
                Text(name, "bold"),
                *(
                    write(f"\n  {head}: {fact}")
                    for head, fact in zip(COSTS[1:], facts, strict=True)
                ),
            )
            for name, *facts in rows[1:]
        ]
        return Group(*lines)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in COSTS:
        table.add_column(head, no_wrap=head == COSTS[0], overflow="fold")
    for name, *facts in rows[1:]:
        table.add_row(Text(name, "bold"), *(write(fact) for fact in facts))
    return table


"""The table of an evaluation as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping, Sequence
from typing import Any

from whence.report.table.grid import (
    COSTS,
    COSTS_LEGEND,
    LEGEND,
    Cell,
    Grid,
    agreement,
    costs,
    data_line,
    effort,
    grids,
    headline,
    notes,
)
from whence.report.table.pairs import PAIRS_LEGEND, elsewhere, pair_grids

BEST, NO_BETTER = "*", "°"


def plain(payload: Mapping[str, Any], across: int = 3) -> str:
    """Write an evaluation as lines of text."""
    lines = [headline(payload), *data_line(payload), ""]
    for grid in grids(payload, across):
        lines += [*_table(grid), ""]
    pairs = [line for grid in pair_grids(payload, across) for line in [*_table(grid), ""]]
    lines += [*pairs, *_aligned([COSTS, *costs(payload)]), ""]
    lines += [line.format(best=BEST, chance=NO_BETTER) for line in LEGEND]
    lines += [PAIRS_LEGEND] if pairs else []
    lines += [COSTS_LEGEND]
    lines += [f"Agreement by {line}." for line in agreement(payload)]
    lines += [*notes(payload), *elsewhere(payload)]
    return "\n".join([*lines, *effort(payload)])


def _table(grid: Grid) -> list[str]:
    heads = [
        " ".join(part for part in parts if part)
        for parts in zip(grid.metrics, grid.arrows, grid.counts, strict=True)
    ]
    rows = [(name, *(shown(cell) for cell in cells)) for name, cells in grid.rows]
    return _aligned([(grid.kind, *heads), *rows])


def shown(cell: Cell) -> str:
    """Write a cell with its marks."""
    own = cell.own + (f" {BEST}" if cell.best else "") + (f" {NO_BETTER}" if cell.chance else "")
    return f"{own}, {cell.null}" if cell.null else own


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
