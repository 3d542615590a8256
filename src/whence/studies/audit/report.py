"""How an audit says things, on every surface the same: what was claimed first, then what was found."""

from collections.abc import Mapping, Sequence
from math import floor, isfinite, log10
from typing import Any

from whence.report.data import drawn_told
from whence.report.figures import TOO_FEW, digits_of, interval, number
from whence.report.text import visible

QUESTION = "May attention be read as an explanation here?"
NOTHING = "-"
SIGNS = {"holds": "✓", "fails": "✗", "undecided": "?"}
ANSWERS = {"yes": "Yes", "no": "No", "undecided": "Undecided"}
_LISTED = 12  # figures of a list that are worth reading one by one
HEADS = ("experiment", "holds if", "effect", "chance", "n", "verdict")
LEGEND = (
    "An experiment holds if the whole 95% interval of its effect is on the side that was asked for beforehand, "
    "fails if the whole interval is on the other side, and is undecided otherwise, or where the examples are too few "
    "for a verdict or something else stands against one, which is then said. Chance: the effect of attention "
    "that means nothing, where it is known."
)


def one_line(text: Any) -> str:
    """Return a text from outside on one line, without signs that could do anything."""
    return " ".join(visible(str(text)).split())


def in_words(name: str) -> str:
    """Name a figure in words."""
    return one_line(name).replace("_", " ")


def plain_number(value: float | None) -> str:
    """Write a threshold or a chance to three figures."""
    return NOTHING if value is None or not isfinite(value) else f"{value:.3g}"


def asked(one: Mapping[str, Any]) -> str:
    """Say where the effect must lie."""
    return f"{one['direction']} {plain_number(one['threshold'])}"


def rule(one: Mapping[str, Any]) -> str:
    """Say what was to decide, before there was a number."""
    other = "below" if one["direction"] == "above" else "above"
    return (
        f"Holds if the whole 95% interval is {asked(one)}, fails if the whole interval is {other}, is undecided "
        "otherwise, or with too few examples."
    )


def ends(one: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an effect in the form that figures are written from, if there is one."""
    if one.get("effect") is None or not isfinite(one["effect"]):
        return None
    low, high = one.get("interval") or (None, None)
    return {"mean": one["effect"], "low": low, "high": high, "n": one.get("n") or 0}


def effect(one: Mapping[str, Any], beside: Sequence[Mapping[str, Any]] = ()) -> str:
    """Write an effect with its interval, without n, to the same place as those that stand beside it."""
    found = ends(one)
    if found is None:
        return NOTHING
    known = [other for part in beside or [one] if (other := ends(part)) is not None]
    digits = _places(known, one["threshold"]) if one.get("threshold") else digits_of(known)
    if found["low"] is not None and found["low"] == found["high"]:
        return f"{number(found['mean'], digits)} in every example"
    sizes = [abs(found[end]) for end in ("mean", "low", "high") if found[end] is not None]
    if digits is not None and 0 < max(sizes) < 0.5 * 10**-digits:
        return f"within {10**-digits:g} of 0"
    return interval(found, digits, found["n"])


def _places(known: Sequence[Mapping[str, Any]], threshold: float) -> int:
    """Return how many decimals are worth reading beside a threshold: three figures, and none too small for it."""
    all_ends = [one[end] for one in known for end in ("mean", "low", "high")]
    values = [value for value in all_ends if value]
    finest = 3 - floor(log10(abs(threshold)))
    wanted = digits_of(known)
    largest = max(map(abs, values), default=abs(threshold))
    digits = max(0, min(finest if wanted is None else wanted, finest, 2 - floor(log10(largest))))
    # An end close to the threshold must not look as if it were on it.
    while digits <= finest and any(
        round(value, digits) == threshold != value and round(value, 8) != threshold
        for value in values
    ):
        digits += 1
    return digits


def counted(one: Mapping[str, Any]) -> str:
    """Say how many examples an effect is of, and that these are too few, if they are."""
    few = ends(one) is not None and not one.get("interval")
    return f"n={one['n']}: {TOO_FEW}" if few else f"n={one['n']}"


def figures(one: Mapping[str, Any]) -> str:
    """Write all that was found, on one line."""
    if ends(one) is None:
        return "no value"
    return f"{effect(one)}, {counted(one)}"


def verdict(one: Mapping[str, Any]) -> str:
    """Write a verdict as a sign and a word."""
    return f"{SIGNS.get(one['verdict'], '?')} {one['verdict']}"


def row(one: Mapping[str, Any]) -> tuple[str, ...]:
    """Return one experiment as the cells below `HEADS`."""
    return (
        one_line(one["name"]),
        asked(one),
        effect(one),
        plain_number(one.get("chance")),
        str(one["n"]),
        verdict(one),
    )


def answer(payload: Mapping[str, Any]) -> str:
    """Say the answer in a word."""
    return ANSWERS.get(payload["answer"], str(payload["answer"]))


def facts(payload: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what was audited: each fact with its name."""
    model, data, setting = payload["model"], payload["data"], payload["setting"]
    made = f" ({one_line(model['class'])})" if model.get("class") else ""
    first, *sites = setting.get("sites") or ["none"]
    others = f", and beside it {len(sites)} other{'s' * (len(sites) > 1)}" if sites else ""
    told = [
        ("model", one_line(model["name"]) + made),
        ("data", _data(data, payload["setting"])),
        ("classes", _classes(data.get("classes") or {})),
        ("accuracy", _performance(payload.get("performance"), data.get("without_labels"))),
        ("attention", one_line(first) + others + _special(setting.get("special"))),
        ("training data", one_line(setting["train"]) if setting.get("train") else ""),
        ("seed", str(setting["seed"]) if setting.get("seed") is not None else ""),
    ]
    return [(name, text) for name, text in told if text]


def _data(data: Mapping[str, Any], setting: Mapping[str, Any]) -> str:
    columns = ", ".join(
        f"{what} from {one_line(data[what])!r}"
        for what in ("text", "pair", "label")
        if data.get(what) is not None
    )
    guessed = (
        f" ({', '.join(map(one_line, data['guessed']))} guessed)" if data.get("guessed") else ""
    )
    said = f"{one_line(data['name'])}, {data['used']:,} of {data['given']:,} examples"
    said += drawn_told(setting, data)
    return said + (f"; {columns}{guessed}" if columns else "")


def _classes(classes: Mapping[str, int]) -> str:
    largest = sorted(classes.items(), key=lambda pair: -pair[1])
    told = [f"{one_line(name)} {count:,}" for name, count in largest[:8]]
    more = [f"{len(largest) - 8} more"] if len(largest) > 8 else []
    return ", ".join([*told, *more])


def _performance(found: Mapping[str, Any] | None, why_not: str | None) -> str:
    if not found or found.get("accuracy") is None:
        return f"not known: {one_line(why_not or 'the data have no labels')}"
    said = f"{found['accuracy']:.1%}"
    if found.get("majority") is not None:
        said += f" (always the most frequent class: {found['majority']:.1%})"
    if found.get("f1") is not None:
        said += f", F1 {found['f1']:.3f}"
    return f"{said}, n={found['n']:,}" if found.get("n") is not None else said


def _special(special: str | None) -> str:
    return {
        "keep": "; the weights of special tokens are left as they are",
        "free": "; the weights of special tokens are moved like all others",
    }.get(special or "", "")


def left_out(payload: Mapping[str, Any]) -> list[str]:
    """Say which examples were not used, and which experiments not made, and why."""
    lines = []
    for one in payload["data"].get("why_not") or ():
        count = one["count"]
        lines.append(
            f"{count:,} example{'' if count == 1 else 's'} not used: {one_line(one['why'])}"
        )
    by_reason: dict[str, list[str]] = {}
    for one in payload.get("not_run") or ():
        by_reason.setdefault(one_line(one["why"]), []).append(one_line(one["name"]))
    lines += [f"Not run: {', '.join(names)} ({why})." for why, names in by_reason.items()]
    return lines


def agreement(one: Mapping[str, Any]) -> str:
    """Say how attention correlates with each other measure of importance, where that was measured."""
    pairs = (one.get("detail") or {}).get("pairs")
    found = [
        pair
        for pair in (pairs if isinstance(pairs, list) else ())
        if isinstance(pair, Mapping) and pair.get("one") == "attention" and is_mean(pair)
    ]
    told = [f"{in_words(pair['other'])} {_tau(pair)}" for pair in found]
    return f"attention's mean tau with {', '.join(told)}" if told else ""


def _tau(pair: Mapping[str, Any]) -> str:
    if pair["mean"] is None:
        return NOTHING
    share = pair.get("significant")
    return f"{pair['mean']:.3f}" + ("" if share is None else f" (significant in {share:.0%})")


def remarks(one: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know of one experiment's result."""
    why = [one_line(one["why"])] if one.get("why") else []
    return [*why, *map(one_line, one.get("notes") or ())]


def effort(payload: Mapping[str, Any]) -> str:
    """Say what it took."""
    calls = payload.get("calls") or {}
    passes = [f"{calls[what]:,.0f} {what}" for what in ("forward", "backward") if calls.get(what)]
    if payload["seconds"] is None:
        return "What it took is in the journal of the run."
    told = f"{' and '.join(passes)} passes of the model, " if passes else ""
    return f"{told}{payload['seconds']:,.1f} s."


def parts(one: Mapping[str, Any], which: str) -> list[tuple[str, str, str]]:
    """Return the effect by site or by class: name, effect with its interval, n; all to the same place."""
    rows = [{"threshold": one["threshold"], **part} for part in one.get(f"by_{which}") or ()]
    return [(one_line(part[which]), effect(part, rows), str(part["n"])) for part in rows]


def any_figure(value: Any) -> str:
    """Write one of the further figures, whatever it is."""
    if value is None or (isinstance(value, float) and not isfinite(value)):
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if is_mean(value):
        known = {"effect": value["mean"], **value}
        return NOTHING if ends(known) is None else f"{effect(known)} n={value['n']}"
    if isinstance(value, Mapping):
        return "; ".join(f"{in_words(str(k))} {any_figure(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        if len(value) > _LISTED or any(isinstance(one, list | tuple) for one in value):
            return f"{len(value)} in the JSON"
        return f"[{', '.join(any_figure(one) for one in value)}]"
    return one_line(value)


def is_mean(value: Any) -> bool:
    """Whether a figure is a mean with its interval and n."""
    return isinstance(value, Mapping) and {"mean", "interval", "n"} <= value.keys()


"""An audit of attention: as text, in a terminal, in Markdown and on a page."""

from whence.report.audit.export import markdown
from whence.report.audit.html import fragment, page
from whence.report.audit.text import plain

__all__ = ["fragment", "markdown", "page", "plain"]


"""An audit in Markdown: for a report, or a page of documentation."""

from collections.abc import Mapping
from typing import Any

from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    QUESTION,
    answer,
    effort,
    facts,
    left_out,
    one_line,
    parts,
    remarks,
    row,
    rule,
)
from whence.report.markdown import escaped, plain_table


def markdown(payload: Mapping[str, Any]) -> str:
    """Write an audit in Markdown."""
    blocks = [
        f"**{QUESTION} {escaped(answer(payload))}.**",
        escaped(one_line(payload["conclusion"])),
        "\n".join(f"- {name}: {escaped(text)}" for name, text in facts(payload)),
    ]
    if payload["experiments"]:
        blocks.append(plain_table([HEADS, *(row(one) for one in payload["experiments"])]))
        blocks.append(LEGEND)
    for one in payload["experiments"]:
        blocks += _experiment(one)
    blocks.append("\n".join(f"- {escaped(line)}" for line in [*left_out(payload), effort(payload)]))
    return "\n\n".join(blocks) + "\n"


def _experiment(one: Mapping[str, Any]) -> list[str]:
    told = [
        f"Hypothesis: {one_line(one['hypothesis'])}",
        f"Measured: {one_line(one['measure'])}. {rule(one)}",
        *remarks(one),
    ]
    told += [f"Misleads when: {one_line(one['misleads_when'])}"] if one.get("misleads_when") else []
    told += [f"Source: {one_line(one['cite'])}"] if one.get("cite") else []
    blocks = [
        f"### {escaped(one_line(one['name']))}",
        "\n".join(f"- {escaped(line)}" for line in told),
    ]
    for which in ("class", "site"):
        if rows := parts(one, which):
            blocks.append(plain_table([(which, "effect", "n"), *rows]))
    return blocks


"""An audit as one HTML page: no script, no network, every piece of text escaped."""

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from whence.report.audit.style import PAGE, STYLE
from whence.report.audit.tables import by, further
from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    NOTHING,
    QUESTION,
    answer,
    any_figure,
    asked,
    counted,
    effect,
    effort,
    facts,
    figures,
    left_out,
    one_line,
    plain_number,
    remarks,
    row,
    rule,
    verdict,
)
from whence.report.plot import draw
from whence.report.plot.against import against
from whence.report.sheet import cell, provenance, sheet
from whence.report.text import tame

_FOOT = "The hypotheses and thresholds were fixed before anything was measured."


def page(
    payload: Mapping[str, Any], title: str = "whence: is attention an explanation here?"
) -> str:
    """Return a whole page."""
    return tame(sheet(title, _body(payload, linked=True), _FOOT, STYLE + PAGE))


def fragment(payload: Mapping[str, Any]) -> str:
    """Return a piece of HTML for a notebook cell."""
    return tame(cell(_body(payload, linked=False), STYLE))


def _body(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<div class="audit">',
            sections(payload, linked=linked),
            f"<section>{provenance(dict(payload))}</section>",
            "</div>",
        ]
    )


def sections(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return the answer and the experiments, each in a section of its own."""
    experiments = list(enumerate(payload["experiments"]))
    return "\n".join(
        [
            _overall(payload, linked=linked),
            *(_experiment(one, _place(number) if linked else "") for number, one in experiments),
        ]
    )


def _place(number: int) -> str:
    return f"experiment-{number + 1}"


def _overall(payload: Mapping[str, Any], *, linked: bool) -> str:
    return "\n".join(
        [
            '<section class="overall">',
            f'<p class="dim">{escape(QUESTION)}</p>',
            f"<h2>{escape(answer(payload))}</h2>",
            f'<p class="conclusion">{escape(one_line(payload["conclusion"]))}</p>',
            _named(facts(payload), "facts"),
            _contents(payload, linked=linked),
            f'<p class="dim">{escape(LEGEND)}</p>',
            _list(left_out(payload)),
            f'<p class="dim">{escape(effort(payload))}</p>',
            "</section>",
        ]
    )


def _named(pairs: Iterable[tuple[str, str]], kind: str) -> str:
    told = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f'<dl class="{kind}">{told}</dl>'


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _badge(one: Mapping[str, Any]) -> str:
    return f'<span class="badge {escape(one["verdict"])}">{escape(verdict(one))}</span>'


def _contents(payload: Mapping[str, Any], *, linked: bool) -> str:
    """Return all experiments as a table, each the way to its own section."""
    if not payload["experiments"]:
        return "<p>No experiment was made.</p>"
    rows = []
    for number, one in enumerate(payload["experiments"]):
        name, *cells = map(escape, row(one))
        cells[-1] = _badge(one)
        name = f'<a href="#{_place(number)}">{name}</a>' if linked else name
        shown = "".join(
            f'<td data-label="{head}"{" class=none" if text == NOTHING else ""}>{text}</td>'
            for head, text in zip(HEADS[1:], cells, strict=True)
        )
        rows.append(f'<tr><th scope="row">{name}</th>{shown}</tr>')
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    return (
        f'<nav aria-label="contents"><table class="summary"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></nav>"
    )


def _experiment(one: Mapping[str, Any], place: str) -> str:
    """Return one experiment: what was claimed and what would decide, then the number, then all that is behind it."""
    claim = [
        ("hypothesis", one_line(one["hypothesis"])),
        ("measured", one_line(one["measure"])),
        ("threshold", rule(one)),
    ]
    summary = one_line(one.get("summary") or "")
    return "\n".join(
        [
            f'<section id="{place}">' if place else "<section>",
            f"<h2>{escape(one_line(one['name']))}</h2>",
            f'<p class="dim">{escape(summary)}</p>' if summary else "",
            _named(claim, "facts claim"),
            _found(one),
            _list(remarks(one)),
            *(draw(plot) for plot in one.get("plots") or ()),
            by(one, "class", "By predicted class"),
            by(one, "site", "At the other sites"),
            further(one.get("detail") or {}),
            _small_print(one),
            "</section>",
        ]
    )


def _found(one: Mapping[str, Any]) -> str:
    said = counted(one)
    if one.get("chance") is not None:
        said += f"; chance, dotted: {plain_number(one['chance'])}"
    name = f"{one_line(one['name'])}: effect against the threshold"
    told = f"{figures(one)}; holds if {asked(one)}: {one['verdict']}"
    drawing = against(one, name, told)
    return (
        f'<div class="found"><div>{_badge(one)}<p class="effect">{escape(effect(one))}</p>'
        f'<p class="dim">{escape(said)}</p></div>{drawing}</div>'
    )


def _small_print(one: Mapping[str, Any]) -> str:
    chosen = ", ".join(
        f"{one_line(name)} = {'none' if value is None else any_figure(value)}"
        for name, value in (one.get("params") or {}).items()
    )
    calls = (one.get("calls") or {}).get("forward")
    spent = [f"{calls:,.0f} forward passes"] if calls is not None else []
    spent += [f"{one['seconds']:,.1f} s"] if one.get("seconds") is not None else []
    told = [
        ("misleads when", one_line(one.get("misleads_when") or "")),
        ("source", one_line(one.get("cite") or "")),
        ("parameters", chosen),
        ("took", ", ".join(spent)),
    ]
    return _named([(name, text) for name, text in told if text], "facts small")


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


"""The style of an audit, beside that of every page and every drawing."""

from whence.report.plot import DARK as PLOTS_IN_THE_DARK
from whence.report.plot import STYLE as PLOTS

STYLE = (
    PLOTS
    + """
.whence .audit { --held-ink: #17603a; --held-line: #8cc7a1; --fail-ink: #94201b; --fail-paper: #fdecea;
  --fail-line: #e3a19b; --open-ink: #6f4a00; --open-paper: #fdf4dc; --open-line: #dcc078; }
.whence .audit section { background: var(--paper, #fff); }
.whence .audit :is(p, dd, li, h2, h3, summary, .summary td, .summary th) { overflow-wrap: anywhere; }
.whence .overall h2 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .5rem; }
.whence .conclusion { font-size: 1.05rem; max-width: 46rem; margin: .3rem 0 1rem; }
.whence .facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem 1.1rem; margin: .8rem 0;
  font-size: .92rem; }
.whence .facts dt { color: var(--dim); }
.whence .facts dd { margin: 0; }
.whence .claim dt { font-weight: 600; color: var(--ink); }
.whence .badge { display: inline-block; font-weight: 600; line-height: 1.5; padding: 0 .6em; border: 1px solid;
  border-radius: 99px; white-space: nowrap; -webkit-print-color-adjust: exact; print-color-adjust: exact; }
.whence .badge.holds { color: var(--held-ink); background: var(--held); border-color: var(--held-line); }
.whence .badge.fails { color: var(--fail-ink); background: var(--fail-paper); border-color: var(--fail-line); }
.whence .badge.undecided { color: var(--open-ink); background: var(--open-paper); border-color: var(--open-line); }
.whence .found { display: flex; flex-wrap: wrap; gap: .4rem 2rem; align-items: center; margin: .9rem 0 .3rem; }
.whence .found > div { flex: 1 1 15rem; min-width: 0; }
.whence .found svg { flex: 1 1 17rem; min-width: 0; max-width: 26rem; }
.whence .effect { font-size: 1.35rem; font-weight: 600; font-variant-numeric: tabular-nums; margin: .25rem 0 0; }
.whence .audit ul { margin: .4rem 0; padding-left: 1.2rem; }
.whence .wide { overflow-x: auto; }
.whence .audit table { margin: .5rem 0; }
.whence .audit a { color: var(--own); }
.whence .audit thead th { font-size: .84rem; }
.whence .audit tbody th { font-weight: 500; border-bottom: 0; }
.whence .audit .wide :is(th, td) { overflow-wrap: anywhere; min-width: 5.8rem; }
.whence .audit .wide :is(td.n, td.brief) { white-space: nowrap; min-width: 0; }
.whence .audit .wide thead th { overflow-wrap: normal; min-width: 0; }
.whence .audit th.n { text-align: right; }
.whence .summary { width: 100%; }
.whence .summary tbody :is(th, td) { border-top: 1px solid var(--faint); padding-block: .35rem; }
.whence .summary tbody th { font-weight: 600; border-bottom: 0; min-width: 7.5rem; }
.whence .summary .badge { font-size: .82rem; }
.whence .deep th { vertical-align: top; }
.whence .deep td { vertical-align: top; min-width: 4rem; }
.whence .small { font-size: .9rem; margin-top: .9rem; border-top: 1px solid var(--faint); padding-top: .6rem; }
@media (max-width: 36rem) {
  .whence .audit section { padding: .9rem; }
  .whence .facts { display: block; }
  .whence .facts dd { margin: 0 0 .5rem; }
  .whence .summary thead { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
  .whence .summary, .whence .summary tbody, .whence .summary tr, .whence .summary :is(th, td) { display: block; }
  .whence .summary tr { border-top: 1px solid var(--faint); padding: .5rem 0; }
  .whence .summary tbody :is(th, td) { border: 0; padding: .05rem 0; }
  .whence .summary tbody td { display: inline-block; margin-right: .9rem; }
  .whence .summary td::before { content: attr(data-label) ": "; color: var(--dim); }
  .whence .summary td.none { display: none; }
}
"""
)

# Of a page only: in a notebook the paper is the notebook's, and it does not follow the system.
PAGE = f"""
@media (max-width: 36rem) {{ body {{ padding: .75rem !important; }} }}
@media screen and (prefers-color-scheme: dark) {{
  body {{ background: #12161b !important; color-scheme: dark !important; }}
  .whence {{ --ink: #e6e9ec; --dim: #a6b0ba; --rule: #39424b; --paper: #1a2027; }}
  .whence .audit {{ --held-ink: #a3e0ba; --held-line: #2f6d49; --fail-ink: #ffb8b0; --fail-paper: #421713;
    --fail-line: #8d4038; --open-ink: #f1d690; --open-paper: #382c08; --open-line: #77631f; }}
{PLOTS_IN_THE_DARK}
}}
@media print {{
  body {{ background: #fff !important; max-width: none !important; padding: 0 !important; }}
  .whence section {{ border: 0; padding: 0; }}
  .whence figure, .whence .found, .whence .example, .whence tr {{ break-inside: avoid; }}
  .whence h2 {{ break-after: avoid; }}
  .whence details::details-content {{ content-visibility: visible; block-size: auto; }}
}}
"""


"""The tables of one experiment on a page: by site, by class, and all further figures."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from whence.report.audit.wording import any_figure, effect, ends, in_words, is_mean, parts
from whence.report.plot.against import track
from whence.report.scale import Scale, bounds

Facts = dict[str, Any]
Rows = Sequence[Mapping[str, Any]]

_SHOWN = 12  # rows of a table; a longer one is folded away
_BRIEF = 32  # letters of a cell that stay on one line


def by(one: Mapping[str, Any], which: str, title: str) -> str:
    """Return the effect at each site or for each class, drawn against the threshold."""
    rows = one.get(f"by_{which}") or []
    if not rows:
        return ""
    scale = _scale(one, rows)
    body = "".join(
        f'<tr><th scope="row">{escape(name)}</th><td class="n">{escape(found)}</td><td class="n">{escape(n)}</td>'
        f"<td>{track(part, one['threshold'], scale)}</td></tr>"
        for part, (name, found, n) in zip(rows, parts(one, which), strict=True)
    )
    heads = (
        f'<th scope="col">{which}</th><th scope="col" class="n">effect</th><th scope="col" class="n">n</th>'
        '<th scope="col">against the threshold</th>'
    )
    table = wide(f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>", title)
    if len(rows) > _SHOWN:
        return f"<details><summary>{escape(title)} ({len(rows)})</summary>{table}</details>"
    return f"<h3>{escape(title)}</h3>{table}"


def _scale(one: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Scale:
    known = [found for part in rows if (found := ends(part)) is not None]
    values = [f[end] for f in known for end in ("mean", "low", "high") if f[end] is not None]
    return Scale(*bounds([one["threshold"], *values]), 6, 144)


def further(detail: Mapping[str, Any]) -> str:
    """Return all further figures, folded away: lists of alike things as tables, the rest by name."""
    if not detail:
        return ""
    alone, tables = _sorted(detail)
    shown = _facts(alone) if alone else ""
    shown += "".join(f"<h3>{escape(name)}</h3>{_table(rows, name)}" for name, rows in tables)
    return f"<details><summary>All figures</summary>{shown}</details>"


def _sorted(detail: Mapping[str, Any], within: str = "") -> tuple[Facts, list[tuple[str, Rows]]]:
    """Take figures within figures out of them, each under the names of all that it is in; and apart, tables."""
    alone: Facts = {}
    tables: list[tuple[str, Rows]] = []
    for key, value in detail.items():
        name = f"{within}, {in_words(str(key))}" if within else in_words(str(key))
        if _is_table(value):
            tables += _split(name, value)
        elif isinstance(value, Mapping) and _is_nested(value):
            inner, more = _sorted(value, name)
            alone |= inner
            tables += more
        else:
            alone[name] = value
    return alone, tables


def _is_nested(value: Mapping[str, Any]) -> bool:
    """Whether there is more in it than single figures, which are said on one line."""
    return not is_mean(value) and any(isinstance(one, Mapping | list) for one in value.values())


def _split(name: str, rows: Rows) -> list[tuple[str, Rows]]:
    """Return a table and those that are within its rows, which repeat what the row is about."""
    inner: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        about = {key: value for key, value in row.items() if isinstance(value, str)}
        for key, value in row.items():
            if _is_table(value):
                inner.setdefault(key, []).extend({**about, **one} for one in value)
    own = [{key: value for key, value in row.items() if key not in inner} for row in rows]
    return [(name, own), *((f"{name}, {in_words(key)}", found) for key, found in inner.items())]


def _is_table(value: Any) -> bool:
    return (
        isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)
    )


def _table(rows: Rows, name: str) -> str:
    rows = [_joined(row) for row in rows]
    heads = list(dict.fromkeys(key for row in rows for key in row))
    head = "".join(f'<th scope="col">{escape(in_words(str(key)))}</th>' for key in heads)
    body = "".join(
        f"<tr>{''.join(_cell(any_figure(row.get(key))) for key in heads)}</tr>" for row in rows
    )
    return wide(f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody>", name)


def _cell(text: str) -> str:
    brief = ' class="brief"' if len(text) <= _BRIEF else ""
    return f"<td{brief}>{escape(text)}</td>"


def _joined(row: Mapping[str, Any]) -> Facts:
    """Return a row in which a mean and its interval are one figure."""
    if not is_mean(row):
        return dict(row)
    mean = effect({"effect": row["mean"], **row})
    return {
        key: mean if key == "mean" else value for key, value in row.items() if key != "interval"
    }


def _facts(facts: Mapping[str, Any]) -> str:
    rows = "".join(
        f'<tr><th scope="row">{escape(name)}</th>{_cell(any_figure(value))}</tr>'
        for name, value in facts.items()
    )
    return wide(f"<tbody>{rows}</tbody>", "figures", "deep")


def wide(body: str, name: str, kind: str = "") -> str:
    """Return a table that scrolls by itself where the page is too narrow for it."""
    css = f' class="{kind}"' if kind else ""
    region = f'role="region" aria-label="{escape(name)}"'
    return f'<div class="wide" tabindex="0" {region}><table{css}>{body}</table></div>'


"""An audit in a terminal: what was audited, one line for each experiment, sketches, and the conclusion last."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from whence.report.audit.sketch import ASCII, LINES, Pen, sketch
from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    QUESTION,
    agreement,
    answer,
    effort,
    facts,
    left_out,
    one_line,
    remarks,
    row,
)
from whence.report.terminal import Writer

_TONES = {"holds": "green", "fails": "red", "undecided": "yellow"}
_ANSWER_TONES = {"yes": "green", "no": "red", "undecided": "yellow"}


class Sheet:
    """A payload laid out for rich, as wide as the terminal and with the characters it has."""

    def __init__(self, payload: Mapping[str, Any]) -> None:
        self._payload = payload

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Lay the audit out."""
        payload, write = self._payload, Writer(ascii_only=options.ascii_only)
        pen = ASCII if options.ascii_only else LINES
        yield _facts(payload, write, options.max_width)
        yield Text()
        yield _table(payload, write, options.max_width)
        yield Text()
        yield write(LEGEND, "dim")
        for one in payload["experiments"]:
            yield Text()
            yield from _experiment(one, write, options.max_width, pen)
        if lines := left_out(payload):
            yield Text()
            for line in lines:
                yield write(line, "yellow")
        yield Text()
        tone = _ANSWER_TONES.get(payload["answer"], "")
        yield Text.assemble(
            write(QUESTION, "bold"), " ", write(answer(payload), f"bold {tone}".strip())
        )
        yield write(one_line(payload["conclusion"]))
        yield Text()
        yield write(effort(payload), "dim")


def render(payload: Mapping[str, Any]) -> RenderableType:
    """Lay an audit out for rich."""
    return Sheet(payload)


def _facts(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    told = facts(payload)
    if width < 50:
        return Group(*(Text.assemble(write(f"{n}: ", "dim"), write(t)) for n, t in told))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in told:
        table.add_row(write(name, "dim"), write(text, "bold" if name == "model" else ""))
    return table


def _table(payload: Mapping[str, Any], write: Writer, width: int) -> RenderableType:
    """Lay the experiments out one a line, or where there is no room for that, one below the other."""
    rows = [(one["verdict"], row(one)) for one in payload["experiments"]]
    if not rows:
        return write("No experiment was made.")
    needed = [max(map(len, column)) for column in zip(HEADS, *(r for _, r in rows), strict=True)]
    if sum(needed) + 2 * (len(needed) - 1) > width:
        return Group(*(_stacked(verdict, cells, write) for verdict, cells in rows))
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for head in HEADS:
        table.add_column(head, overflow="fold", justify="right" if head == "n" else "left")
    for verdict, (name, *cells, said) in rows:
        tone = _TONES.get(verdict, "")
        table.add_row(write(name, "bold"), *map(write, cells), write(said, tone))
    return table


def _stacked(verdict: str, cells: tuple[str, ...], write: Writer) -> RenderableType:
    name, *found, said = cells
    told = "; ".join(f"{head} {text}" for head, text in zip(HEADS[1:-1], found, strict=True))
    head = Text.assemble(write(name, "bold"), "  ", write(said, _TONES.get(verdict, "")))
    return Group(head, _indented(write(told)))


def _experiment(
    one: Mapping[str, Any], write: Writer, width: int, pen: Pen
) -> Iterator[RenderableType]:
    yield Text.assemble(
        write(one_line(one["name"]), "bold"), "  ", write(one_line(one["hypothesis"]))
    )
    yield _indented(write(f"measured: {one_line(one['measure'])}", "dim"))
    if said := agreement(one):
        yield _indented(write(said))
    for line in remarks(one):
        yield _indented(write(line, "yellow"))
    for line in _sketches(one, width - 2, pen):
        yield _indented(write(line))


def _sketches(one: Mapping[str, Any], width: int, pen: Pen) -> list[str]:
    """Return the first drawing that characters can show, and examples; a page has all of them."""
    plots = one.get("plots") or ()
    drawn = [sketch(plot, width, pen) for plot in plots if plot["kind"] != "attention"]
    shown = [sketch(plot, width, pen) for plot in plots if plot["kind"] == "attention"]
    return [line for lines in [*[d for d in drawn if d][:1], *shown] for line in lines]


def _indented(line: Text) -> RenderableType:
    line.overflow = "fold"
    return Padding.indent(line, 2)


"""An audit as plain text: for a log, a pipe, or print()."""

from collections.abc import Mapping
from typing import Any

from whence.report.audit.sketch import LINES, sketch
from whence.report.audit.wording import (
    HEADS,
    LEGEND,
    QUESTION,
    agreement,
    answer,
    effort,
    facts,
    left_out,
    one_line,
    parts,
    remarks,
    row,
)

_WIDTH = 80


def plain(payload: Mapping[str, Any]) -> str:
    """Write an audit as lines of text."""
    lines = [f"{QUESTION} {answer(payload)}", ""]
    lines += [f"{name}: {text}" for name, text in facts(payload)]
    lines += ["", *_table(payload), "", LEGEND]
    for one in payload["experiments"]:
        lines += ["", *_experiment(one)]
    lines += ["", *left_out(payload)] if left_out(payload) else []
    return "\n".join([*lines, "", one_line(payload["conclusion"]), "", effort(payload)])


def _table(payload: Mapping[str, Any]) -> list[str]:
    if not payload["experiments"]:
        return ["No experiment was made."]
    rows = [HEADS, *(row(one) for one in payload["experiments"])]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(cells, widths, strict=True)).rstrip()
        for cells in rows
    ]


def _experiment(one: Mapping[str, Any]) -> list[str]:
    lines = [
        f"{one_line(one['name'])}: {one_line(one['hypothesis'])}",
        f"  measured: {one_line(one['measure'])}",
    ]
    for which, title in (("class", "by class"), ("site", "at other sites")):
        told = [f"{name} {effect} n={n}" for name, effect, n in parts(one, which)]
        lines += [f"  {title}: {'; '.join(told)}"] if told else []
    lines += [f"  {said}"] if (said := agreement(one)) else []
    lines += [f"  note: {line}" for line in remarks(one)]
    for plot in one.get("plots") or ():
        lines += [f"  {line}" for line in sketch(plot, _WIDTH - 2, LINES)]
    return lines
