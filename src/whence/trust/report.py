"""The document of a trust card: overall verdict, and for each method its text, curves and tests.

Curves show the prediction as tokens are removed (deletion) or kept (sufficiency), with the band in which
95 of 100 random rankings lie.
"""

from collections.abc import Sequence
from math import factorial

from whence.render import document as doc
from whence.render.blocks import (
    build_badge,
    build_pictures,
    build_provenance,
    build_score_details,
    build_tinted_input,
)
from whence.render.colour import IMAGE_SCALE_NOTE, TEXT_SCALE_NOTE
from whence.render.text import describe_prediction, format_input_warnings, format_name

_TITLE = "whence: should you believe this explanation?"
_BAND = "95 of 100 random rankings"
_MORE_CURVES = "A page (--html FILE) has the curves of every kind of removal."
_HEADS = ("test", "verdict", "value", "by chance", "beats random")
_NO_VALUE = "-"
_REMOVAL_PHRASES = {
    "delete": "deleted",
    "mask": "replaced by the mask token",
    "pad": "replaced by padding",
    "unk": "replaced by the token for unknown words",
    "draw": "replaced by what a masked language model draws",
    "black": "painted black",
    "mean": "painted in the mean colour of the picture",
    "blur": "replaced by a blur of the picture",
}
# The axis of each test's curve, and the curve of a good explanation.
_CURVE_TESTS = {
    "deletion": ("removed", "below the band is good"),
    "sufficiency": ("kept", "above the band is good"),
}


def build_document(data: doc.JsonObject) -> doc.Document:
    """Return the document of a trust card."""
    several, spent = len(data["methods"]) > 1, data["cost"]
    cost = (
        f"{spent['forward']:,} forward and {spent['backward']:,} backward passes, {spent['seconds']:.1f} s; "
        f"the tests took {spent['tests']:,} forward passes of their budget of {data['budget']:,}"
    )
    overview: list[doc.Block] = [
        doc.Paragraph(f"{data['model']['name']}: {describe_prediction(data)}", "strong"),
        doc.Paragraph(format_input_warnings(data), "warning"),
        doc.Paragraph(f"{_describe_setup(data)}. {cost}.", "dim"),
        doc.Paragraph(data["removal_matters"] or ""),
        *([_build_verdict_table(data)] if several else []),
    ]
    heads = ("test", "question", "holds", "weak", "fails")
    rules = [
        [format_name(rule["name"]), *(rule[head] or "" for head in heads[1:])]
        for rule in data["rules"]
    ]
    note = doc.Paragraph("The thresholds were set before any result was seen.", "dim")
    about = doc.Details("When a test holds, is weak or fails", [note, doc.Table(heads, rules)])
    sections = [
        doc.Section(data["sentence"], overview),
        *(_build_method_section(data, method) for method in data["methods"]),
        doc.Section("", [about, build_provenance(data)]),
    ]
    foot = IMAGE_SCALE_NOTE if data.get("picture") else TEXT_SCALE_NOTE
    return doc.Document(_TITLE, sections, foot)


def _build_verdict_table(data: doc.JsonObject) -> doc.Table:
    """Return all verdicts, under the removal that decides them, as a table of methods by tests."""
    names = list(dict.fromkeys(test["name"] for row in data["methods"] for test in row["tests"]))
    rows = []
    for method in data["methods"]:
        deciding = {test["name"]: test["verdict"] for test in _select_deciding(data, method)}
        verdicts = [method["verdict"], *(deciding.get(name, "not tested") for name in names)]
        rows.append([method["method"], *map(build_badge, verdicts)])
    return doc.Table(("method", "overall", *map(format_name, names)), rows, wide="split")


def _select_deciding(data: doc.JsonObject, method: doc.JsonObject) -> list[doc.JsonObject]:
    """Return the tests that decide the verdicts: those under the first removal."""
    return [test for test in method["tests"] if test["remove"] in (None, data["remove"][0])]


def _build_method_section(data: doc.JsonObject, method: doc.JsonObject) -> doc.Section:
    first, several = data["remove"][0], len(data["remove"]) > 1
    curves = [test for test in method["tests"] if test["curve"] and test["name"] in _CURVE_TESTS]
    others = [test for kind in data["remove"][1:] for test in curves if test["remove"] == kind]
    questions = {rule["name"]: rule["question"] for rule in data["rules"]}
    order = list(dict.fromkeys(test["name"] for test in method["tests"]))
    tests = sorted(method["tests"], key=lambda test: order.index(test["name"]))
    rows = [_build_test_row(test, questions.get(test["name"], ""), several) for test in tests]
    whys: dict[str, list[str]] = {}
    for test in _select_deciding(data, method):
        whys.setdefault(test["why"] or "", []).append(format_name(test["name"]))
    whys.pop("", None)
    # A page has room for the reasons beside the figures.
    full = [[*row, test["why"] or ""] for row, test in zip(rows, tests, strict=True)]
    reasons = [[", ".join(names), why] for why, names in whys.items()]
    brief = [doc.Table(_HEADS, rows, wide="split"), doc.Table(("test", "in words"), reasons)]
    own = [_build_curve(data, method, test) for test in curves if test["remove"] == first]
    blocks: list[doc.Block] = [
        doc.Paragraph("" if method["sentence"] == data["sentence"] else method["sentence"]),
        *build_pictures([{**data, "methods": [method]}]),
        *build_tinted_input(data, method),
        doc.Details("", [doc.Table((*_HEADS, "in words"), full)], instead=brief),
        doc.Columns(own),
        doc.Details(
            "The curves of the other kinds of removal",
            [doc.Columns([_build_curve(data, method, test) for test in others])],
            instead=[doc.Paragraph(_MORE_CURVES if others else "", "dim")],
        ),
        build_score_details(data, method),
    ]
    return doc.Section(method["method"], blocks, badge=build_badge(method["verdict"]))


def _build_test_row(test: doc.JsonObject, question: str, several: bool) -> list[str | doc.Cell]:
    value, null = test["value"], test["null"]
    spread = [] if null is None else [null["low"], null["high"]]
    flat = len(set(spread)) < 2
    figures = [number for number in (value, null and null["mean"]) if number is not None]
    # A value has the same decimals as the range of random explanations beside it.
    groups = [[figure] for figure in figures] if flat else [figures + spread]
    shown = [text for group in groups for text in _format_aligned(group)]
    # The bounds of other tests are on the value, and a percentile among shuffles would decide nothing.
    ranked = test["percentile"] is not None and test["remove"] is not None
    low, high = test["interval"] or (test["percentile"],) * 2
    tied = test.get("tied")
    ties = f", {tied:g} {_format_plural('tie', tied)}" if tied else ""
    name = format_name(test["name"])
    name += f", {test['remove']}" if several and test["remove"] else ""
    own = shown.pop(0) if value is not None else _NO_VALUE
    return [
        doc.Cell(name, title=question),
        build_badge(test["verdict"]),
        doc.Cell(own, align="right", title=f"{test['direction']} is better"),
        doc.Cell(
            shown[0] if null else _NO_VALUE, note="" if flat else f"({shown[-2]} to {shown[-1]})"
        ),
        doc.Cell(
            f"{round(test['percentile'], 1):g}%",
            note=f"({round(low, 1):g} to {round(high, 1):g})" if test["interval"] else "",
            track=doc.Track(test["percentile"], low, high, (0, 100)),
            title=f"{test['beaten']:g} of {test['of']:g}{ties}",
        )
        if ranked
        else _NO_VALUE,
    ]


def _build_curve(data: doc.JsonObject, method: doc.JsonObject, test: doc.JsonObject) -> doc.Plot:
    curve, (axis, good) = test["curve"], _CURVE_TESTS[test["name"]]
    other = test["remove"] != data["remove"][0]
    kind = f", {_REMOVAL_PHRASES.get(test['remove'], test['remove'])}" if other else ""
    # A contrast of two labels has no probability; the first label's is shown.
    label = str(data["target"]["label"])
    shares = all(0 <= v <= 1 for name in ("values", "null_low", "null_high") for v in curve[name])
    chance = {end: curve[f"null_{end}"] for end in ("low", "high", "mean")}
    return doc.Plot(
        {
            "kind": "band",
            "title": f"{format_name(test['name'])}{kind}: {good}",
            "name": method["method"],
            "band": _BAND,
            "x": f"{_format_plural(data['unit'], 2)} {axis}",
            "y": f"probability of {label}" if shares else label,
            "at": curve["at"],
            "values": curve["values"],
            **chance,
        }
    )


def _format_aligned(values: Sequence[float], digits: int = 2) -> list[str]:
    """Format related figures briefly, with the same decimals."""
    largest = max(map(abs, values), default=0.0)
    if largest == 0 or 10**-digits <= largest < 1000:
        # Adding 0.0 turns the -0.0 of a small negative number into 0.0.
        return [f"{round(value, digits) + 0.0:.{digits}f}" for value in values]
    return [f"{value:.2g}" for value in values]


def _describe_setup(data: doc.JsonObject) -> str:
    """Describe the removed features, and the random rankings that the figures are compared with."""
    units, unit, rankings = data["units"], data["unit"], data["rankings"]
    first, *others = data["remove"]
    away = f"{units:,} {_format_plural(unit, units)}, {_REMOVAL_PHRASES.get(first, first)}"
    if others:
        away += f" (the verdicts rest on this), and for comparison by {', '.join(others)}"
    if not rankings:
        return f"{away}; no random rankings to compare with"
    if units < 12 and rankings == factorial(units):
        return f"{away}; compared with all {rankings:,} rankings of them"
    same = "picture" if data.get("picture") else "text"
    return f"{away}; compared with {rankings:,} random rankings of the same {same}"


def _format_plural(word: str, count: int) -> str:
    if count == 1:
        return word
    return f"{word}es" if word.endswith("ch") else f"{word}s"
